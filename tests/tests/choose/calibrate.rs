//! Fits the rates of the estimate to measured times, for `cargo xtask calibrate`.

use std::collections::HashMap;

use tilewright::codegen::definition::Generated;
use tilewright::codegen::launch::estimate::{HOPPER, Rates, cost_with};
use tilewright::codegen::launch::{Given, Limits, ranking_by};
use tilewright::codegen::thread::{Cost, Kernel};

use super::{products, text_of};

/// A product with the times of its variants at some sizes.
struct Product {
    kernel: Generated,
    sizes: Vec<(Vec<Given>, HashMap<usize, f64>)>,
}

/// How far the chosen variants are from the fastest: the mean, and the share that a tenth of the problems loses.
#[derive(Debug)]
struct Loss {
    mean: f64,
    tenth: f64,
}

impl Loss {
    fn of(mut losses: Vec<f64>) -> Loss {
        losses.sort_by(f64::total_cmp);
        let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        Loss { mean, tenth: losses.get(losses.len() * 9 / 10).copied().unwrap_or(1.0) }
    }

    /// What a fit makes small. The mean alone would leave a few problems far off.
    fn sum(&self) -> f64 {
        self.mean + 0.1 * self.tenth
    }
}

fn read() -> Vec<Product> {
    let mut all = Vec::new();
    for file in ["h100/variants.txt", "h200/drawn_variants.txt"] {
        for product in products(&text_of(file)) {
            let kernel = product.kernel();
            let sizes = product.rows.iter().map(|(sizes, times)| {
                (product.given(&kernel, *sizes), times.iter().map(|(at, time)| (*at, *time)).collect())
            });
            let sizes = sizes.collect();
            all.push(Product { kernel, sizes });
        }
    }
    all
}

impl Product {
    /// The losses at every second size, from one of them on.
    fn losses(&self, rates: &Rates, from: usize) -> Vec<f64> {
        let costs: HashMap<*const Kernel, Option<Cost>> = self
            .kernel
            .variants
            .iter()
            .map(|variant| (&raw const variant.program, cost_with(&variant.program, rates)))
            .collect();
        let cost = |kernel: &Kernel| costs.get(&(&raw const *kernel)).copied().flatten();
        let loss = |(given, times): &(Vec<Given>, HashMap<usize, f64>)| {
            let ranking = ranking_by(&self.kernel, given, &Limits::HOPPER, &cost).unwrap();
            let chosen = ranking.serves.iter().find_map(|one| times.get(&one.variant))?;
            Some(chosen / times.values().copied().fold(f64::INFINITY, f64::min))
        };
        self.sizes.iter().skip(from).step_by(2).filter_map(loss).collect()
    }
}

fn loss(all: &[Product], rates: &Rates, from: usize) -> Loss {
    let (one, other) = all.split_at(all.len() / 2);
    let losses = |part: &[Product]| -> Vec<f64> {
        part.iter().flat_map(|product| product.losses(rates, from)).collect()
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| losses(one));
        let other = losses(other);
        Loss::of(one.join().unwrap().into_iter().chain(other).collect())
    })
}

/// Changes one rate after the other while that helps at half of the sizes, and says what it does at the other half.
#[test]
#[ignore = "takes minutes"]
fn calibrate() {
    let all = read();
    let mut rates = HOPPER;
    let mut least = loss(&all, &rates, 0);
    println!("before: fitted {least:.4?}, others {:.4?}", loss(&all, &rates, 1));
    for step in [1.25, 1.1, 1.04] {
        for index in 0..rates.list().len() {
            for factor in [step, 1.0 / step] {
                loop {
                    let mut tried = rates.clone();
                    *tried.list()[index].1 *= factor;
                    let tried_loss = loss(&all, &tried, 0);
                    if tried_loss.sum() >= least.sum() - 1e-5 {
                        break;
                    }
                    (rates, least) = (tried, tried_loss);
                    let (name, value) = &rates.list()[index];
                    println!("{name}: {value:.4} ({least:.4?})");
                }
            }
        }
        println!("step {step}: fitted {least:.4?}, others {:.4?}", loss(&all, &rates, 1));
    }
    for ((name, value), (_, before)) in rates.list().into_iter().zip(HOPPER.clone().list()) {
        if value != before {
            println!("    {name}: {value:.4}, // {before}");
        }
    }
}
