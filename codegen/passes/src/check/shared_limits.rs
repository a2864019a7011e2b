//! Shared memory of a block against the limits of architectures.

use crate::source::diagnostic::Diagnostic;
use crate::thread::{Bar, Kernel};
use crate::tile::{Program, Space};
use crate::values::target::{TARGETS, Target};

/// The users of shared memory, with their bytes: arrays, then barriers.
pub(super) fn parts(kernel: &Kernel) -> Vec<(String, u32)> {
    let arrays = kernel.shared.iter().map(|array| (array.name.clone(), array.bytes()));
    let barriers = kernel.bars.iter().filter_map(|bar| match bar {
        Bar::Mbarriers { name, slots, .. } => Some((name.clone(), 8 * slots)),
        _ => None,
    });
    arrays.chain(barriers).collect()
}

/// An error if a block needs more shared memory than there is.
pub fn shared_memory(program: &Program, kernel: &Kernel) -> Option<Diagnostic> {
    let (needed, limit) = (kernel.launch.shared_bytes, Target::of(kernel.arch).block_shared);
    if needed <= limit {
        return None;
    }
    let mut parts = parts(kernel);
    let padding = needed - parts.iter().map(|part| part.1).sum::<u32>().min(needed);
    if padding > 0 {
        parts.push(("alignment".into(), padding));
    }
    let sum: Vec<String> = parts.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
    let last = program.tensors.iter().rev().find(|tensor| matches!(tensor.space, Space::Shared { .. }));
    let span = last.map(|tensor| tensor.span).unwrap_or_default();
    let message = format!(
        "a block needs {needed} bytes of shared memory, and sm_{} has {limit}: {}",
        kernel.arch,
        sum.join(" + ")
    );
    let newer = TARGETS.iter().find(|row| row.arch > kernel.arch && row.block_shared >= needed);
    let arch = newer.filter(|_| program.is_arch_named);
    let arch = arch.map_or(String::new(), |row| format!("write arch = {}, or ", row.arch));
    let help = format!("{arch}use smaller tiles, fewer stages, or a narrower element type");
    Some(Diagnostic::error(span, message).help(help))
}
