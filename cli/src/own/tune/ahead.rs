//! Variants that are compiled on other processors while earlier ones are measured.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use tilewright_runtime::{Built, Device};

/// The outcomes of compilations, by variant.
pub(super) struct Compiled {
    receiver: Receiver<(usize, Result<(), String>)>,
    outcomes: HashMap<usize, Result<(), String>>,
}

impl Compiled {
    /// Waits until a variant is in the cache; or why it cannot be compiled.
    pub(super) fn wait(&mut self, variant: usize) -> Result<(), String> {
        while !self.outcomes.contains_key(&variant) {
            match self.receiver.recv() {
                Ok((done, outcome)) => self.outcomes.insert(done, outcome),
                // All are compiled: a launch compiles this one.
                Err(_) => return Ok(()),
            };
        }
        self.outcomes[&variant].clone()
    }
}

/// Does some work while variants are compiled in their order. What is not needed any more when the work ends is not compiled.
pub(super) fn compiled<R>(
    kernel: &Built,
    device: &Device,
    variants: &[usize],
    work: impl FnOnce(&mut Compiled) -> R,
) -> R {
    let mut order: Vec<usize> = Vec::new();
    for variant in variants {
        if !order.contains(variant) {
            order.push(*variant);
        }
    }
    let (next, (sender, receiver)) = (AtomicUsize::new(0), channel());
    let (next, order) = (&next, &order);
    std::thread::scope(|scope| {
        // One processor is left for launches.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(processors - 1).clamp(1, order.len().max(1)) {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(variant) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = kernel.compile_variant(device, *variant).map_err(|why| why.to_string());
                    if sender.send((*variant, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        work(&mut Compiled { receiver, outcomes: HashMap::new() })
    })
}
