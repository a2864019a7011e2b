//! Targets: the limits of each architecture, in one table. Limits and throughputs of arithmetic instructions are from
//! the CUDA C++ Programming Guide, rates of tensor cores from NVIDIA's architecture papers.

use crate::values::elem::Elem;

/// Threads of a warp.
pub const WARP: u32 = 32;
/// The most threads of a block.
pub const BLOCK_THREADS: u32 = 1024;
/// Registers of 32 bits of a multiprocessor.
pub const REGISTERS: u32 = 65536;
/// The most registers of a thread.
pub const THREAD_REGISTERS: u32 = 255;

/// The number of registers of each thread at the start of a kernel whose roles change it (setmaxnreg): the most that
/// launch bounds allow, in multiples of 8.
pub fn registers_at_entry(threads: u32, blocks_per_sm: u32) -> u32 {
    let resident = threads.max(1).saturating_mul(blocks_per_sm.max(1));
    (REGISTERS / resident / 8 * 8).min(THREAD_REGISTERS)
}
/// Bytes of shared memory that a block has without asking the driver for more.
pub const STATIC_SHARED: u32 = 48 << 10;
/// Bytes of shared memory that the system takes of each block.
pub const RESERVED_SHARED: u32 = 1 << 10;
/// The most blocks along x, y, z.
pub const GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The limits and features of an architecture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Target {
    /// Compute capability, such as 90.
    pub arch: u32,
    /// The most bytes of shared memory of a block.
    pub block_shared: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared: u32,
    /// Threads that are resident on a multiprocessor at most.
    pub threads: u32,
    /// Blocks that are resident on a multiprocessor at most.
    pub blocks: u32,
    /// Multiply-adds of a multiprocessor's CUDA cores in a clock, by type of the sums.
    pub cores: &'static [(Elem, u32)],
    /// Operations of a multiprocessor's tensor cores in a clock, by type of the operands.
    pub tensor: &'static [(Elem, u32)],
}

const KIB: u32 = 1 << 10;

const CORES_80: &[(Elem, u32)] = &[(Elem::F32, 64), (Elem::F64, 32), (Elem::I32, 64), (Elem::U32, 64)];
const CORES_86: &[(Elem, u32)] = &[(Elem::F32, 128), (Elem::F64, 2), (Elem::I32, 64), (Elem::U32, 64)];
const CORES_90: &[(Elem, u32)] = &[(Elem::F32, 128), (Elem::F64, 64), (Elem::I32, 64), (Elem::U32, 64)];
const AMPERE: &[(Elem, u32)] = &[(Elem::F16, 2048), (Elem::Bf16, 2048), (Elem::I8, 4096), (Elem::F64, 128)];
const HOPPER: &[(Elem, u32)] = &[(Elem::F16, 4096), (Elem::Bf16, 4096), (Elem::I8, 8192), (Elem::F64, 256)];

/// One row for each compute capability that differs from the one before it.
pub const TARGETS: &[Target] = &[
    row(70, [96, 96], 2048, 32, [&[], &[]]),
    row(75, [64, 64], 1024, 16, [&[], &[]]),
    row(80, [163, 164], 2048, 32, [CORES_80, AMPERE]),
    row(86, [99, 100], 1536, 16, [CORES_86, &[]]),
    row(87, [163, 164], 1536, 16, [&[], &[]]),
    row(89, [99, 100], 1536, 24, [CORES_86, &[]]),
    row(90, [227, 228], 2048, 32, [CORES_90, HOPPER]),
    row(100, [227, 228], 2048, 32, [&[], &[]]),
    row(110, [227, 228], 1536, 24, [&[], &[]]),
    row(120, [99, 100], 1536, 24, [&[], &[]]),
];

const fn row(
    arch: u32,
    [block, all]: [u32; 2],
    threads: u32,
    blocks: u32,
    [cores, tensor]: [&'static [(Elem, u32)]; 2],
) -> Target {
    Target { arch, block_shared: block * KIB, shared: all * KIB, threads, blocks, cores, tensor }
}

impl Target {
    /// The row of an architecture, or of the nearest older one.
    ///
    /// ```
    /// use tilewright_program::target::Target;
    /// assert_eq!(Target::of(90).block_shared, 227 * 1024);
    /// assert_eq!(Target::of(121).arch, 120);
    /// ```
    pub fn of(arch: u32) -> &'static Target {
        TARGETS.iter().rev().find(|row| row.arch <= arch).unwrap_or(&TARGETS[0])
    }

    /// The most bytes of shared memory of a block, if a multiprocessor has at least this number of blocks.
    ///
    /// ```
    /// use tilewright_program::target::Target;
    /// assert_eq!([0, 1, 2].map(|blocks| Target::of(90).shared_of_block(blocks) >> 10), [227, 227, 113]);
    /// ```
    pub fn shared_of_block(&self, blocks: u32) -> u32 {
        self.block_shared.min((self.shared / blocks.max(1)).saturating_sub(RESERVED_SHARED))
    }

    /// The most bytes of shared memory that a block of any architecture can have.
    pub(crate) fn most_shared() -> u32 {
        TARGETS.iter().map(|row| row.block_shared).max().unwrap_or(0)
    }

    /// Operations of its tensor cores in a clock for operands of a type, if the table knows them.
    pub fn tensor_rate(&self, elem: Elem) -> Option<u32> {
        self.tensor.iter().find(|row| row.0 == elem).map(|row| row.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_agree_with_themselves() {
        assert!(TARGETS.is_sorted_by(|a, b| a.arch < b.arch));
        for row in TARGETS {
            assert!(row.block_shared <= row.shared && row.block_shared >= STATIC_SHARED, "sm_{}", row.arch);
            assert!(row.threads % WARP == 0 && row.threads >= BLOCK_THREADS, "sm_{}", row.arch);
        }
    }

    #[test]
    fn an_architecture_without_a_row_has_what_the_one_before_it_has() {
        for (arch, bytes) in
            [(80, 166912), (86, 101376), (88, 166912), (90, 232448), (121, 101376), (50, 98304)]
        {
            assert_eq!(Target::of(arch).block_shared, bytes, "sm_{arch}");
        }
    }
}
