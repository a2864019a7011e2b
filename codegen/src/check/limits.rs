//! Shared memory of a block against what architectures have.

use crate::diagnostic::Diagnostic;
use crate::thread::{Bar, Kernel};
use crate::tile::{Program, Space};

/// Compute capability, and the most bytes of shared memory that a block can ask for there.
const SHARED_MEMORY: &[(u32, u32)] = &[
    (70, 98304),
    (75, 65536),
    (80, 166912),
    (86, 101376),
    (87, 166912),
    (89, 101376),
    (90, 232448),
    (100, 232448),
    (110, 232448),
    (120, 101376),
];

/// The most bytes that a block of an architecture can have: its own row's, or those of the nearest older one.
pub(crate) fn of(arch: u32) -> u32 {
    let row = SHARED_MEMORY.iter().rev().find(|row| row.0 <= arch);
    row.unwrap_or(&SHARED_MEMORY[0]).1
}

/// What takes shared memory, and how many bytes: arrays, then barriers.
pub(super) fn parts(kernel: &Kernel) -> Vec<(String, u32)> {
    let arrays = kernel.shared.iter().map(|array| (array.name.clone(), array.bytes()));
    let barriers = kernel.bars.iter().filter_map(|bar| match bar {
        Bar::Mbarriers { name, slots, .. } => Some((name.clone(), 8 * slots)),
        _ => None,
    });
    arrays.chain(barriers).collect()
}

/// An error if a block needs more shared memory than there is.
pub(super) fn shared_memory(program: &Program, kernel: &Kernel) -> Option<Diagnostic> {
    let (needed, limit) = (kernel.launch.shared_bytes, of(kernel.arch));
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
    Some(Diagnostic::error(span, message).help("use smaller tiles, fewer stages, or a narrower element type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_without_a_row_has_what_the_one_before_it_has() {
        for (arch, bytes) in
            [(80, 166912), (86, 101376), (88, 166912), (90, 232448), (121, 101376), (50, 98304)]
        {
            assert_eq!(of(arch), bytes, "sm_{arch}");
        }
    }
}
