//! How kernels are launched, and the host's checks before.

use super::{Id, Kernel, Op, Reg};
use crate::values::target::{self, REGISTERS, RESERVED_SHARED, Target};
use tilewright_layout::{Obligation, Value};

/// How it is launched. Each axis of the grid is a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [Vec<Value>; 3],
    /// A persistent kernel: the number of clusters, along x, is the most that are resident at once, but
    /// at most the number of tiles. The axes of `grid` count tiles then, one for a cluster.
    pub persistent: bool,
    /// In how many parts a persistent kernel divides the tiles of a last wave that is not full; 0 if it does not. `grid` counts these
    /// parts of each tile.
    pub divided: u32,
    /// Blocks of a cluster along x, y, z.
    pub cluster: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Blocks that should be resident on a multiprocessor at once (`__launch_bounds__`); 0 leaves it to the
    /// compiler.
    pub blocks_per_sm: u32,
    /// Programmatic dependent launch: may the kernel start before the previous kernel in the stream has ended? Every
    /// thread then waits for that end before it accesses memory. Blocks of clusters let the next kernel start at once,
    /// other blocks when they end. It needs compute capability 9.0; older devices, and launches without the driver's
    /// attribute, run one kernel after the other. The simulator runs one launch at a time, and requires the
    /// wait ([`Op::AwaitPrevious`]).
    pub overlaps: bool,
    /// Does it run beside the previous kernel? That one, which lets it start, has itself waited, and neither writes what the
    /// other accesses. So threads wait at their end instead, and whatever waits for this kernel waits for both.
    pub beside: bool,
    /// The estimate; of several variants that fit a launch and have one, the fastest is chosen.
    pub cost: Option<Cost>,
    /// Arguments that it may read from a copy with aligned rows. A launch makes the copy first if the kernel's
    /// facts are false for the argument, or if the kernel reads rows along another mode.
    pub packs: Vec<Id>,
    /// Sizes that the author's text reads. The generated text may not need them, since it assumes that each is at least 1: a tensor of
    /// such a size counts as used, and may not be without elements.
    pub read_sizes: Vec<Value>,
}

/// The cost model, in clocks of a tile: a launch multiplies it by the tiles of the busiest multiprocessor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Iterations of a tile's main loop.
    pub steps: Value,
    /// Further factors of their number.
    pub times: [Option<Value>; 2],
    /// The divisor of the product, which is rounded up; 0 means no division.
    pub over: u32,
    /// Clocks of an iteration.
    pub step: u32,
    /// The part of `step` for accesses with guards, which are not executed out of bounds.
    pub guarded_step: u32,
    /// Blocks that are resident on a multiprocessor at once, where `step` has the clocks of a multiprocessor for each of them. 0 if
    /// tiles are computed one after another.
    pub resident: u32,
    /// Clocks of an iteration at least, however few blocks a multiprocessor has then.
    pub alone: u32,
    /// Further clocks of an iteration where rows of an argument begin in the middle of a sector of 32 bytes.
    pub cut: u32,
    /// Rows of 128 bytes that a block copies in bulk in an iteration, which may take longer than its products, most of all
    /// if they begin in the middle of a line of the L2 cache. 0 if `step` has the copies.
    pub rows: u32,
    /// Further clocks of a tile.
    pub tile: u32,
    /// Further clocks of a tile where rows of a result begin in the middle of a sector.
    pub cut_tile: u32,
    /// The part of `tile` for accesses with guards.
    pub guarded_tile: u32,
    /// The part of `tile` that all blocks of a multiprocessor have at once: they begin together.
    pub begin: u32,
    /// Further clocks of a launch.
    pub launch: u32,
}

impl Launch {
    /// See [`target::registers_at_entry`].
    pub fn registers_at_entry(&self) -> u32 {
        target::registers_at_entry(self.threads, self.blocks_per_sm)
    }
}

impl Kernel {
    /// The minimum blocks of `__launch_bounds__`: the number of blocks that fit a multiprocessor if each thread gets the
    /// registers of its arrays and of `addresses` addresses. The compiler schedules for this number. With 0 the compiler
    /// decides: if arrays are small or threads have different roles, and more blocks fit shared memory.
    pub fn resident(&self, addresses: u32) -> u32 {
        const SMALL: u32 = 64;
        // The compiler is never limited to fewer registers than this.
        const LEAST: u32 = 128;
        const MOST_BLOCKS: u32 = 16;
        // Launch bounds are part of the source, which is the same for all targets. Consumer devices have less shared memory.
        let target = Target::of(self.arch.max(90));
        let arrays = self.regs.iter().map(Reg::registers).fold(0, u32::saturating_add);
        let each = arrays.saturating_add(addresses).clamp(LEAST, REGISTERS).next_multiple_of(8);
        let specialised = self.body.iter().any(|stmt| matches!(stmt.op, Op::Roles(_)));
        let of = |each: u32| REGISTERS / each.saturating_mul(self.launch.threads).max(1);
        let by_shared = target.shared / self.launch.shared_bytes.saturating_add(RESERVED_SHARED);
        // Where shared memory has room for few blocks, the compiler would spill to have registers for more.
        let is_small = arrays < SMALL && by_shared > of(LEAST);
        let leaves_it = if specialised { by_shared > 1 } else { is_small };
        if leaves_it { 0 } else { of(each).min(by_shared).clamp(1, MOST_BLOCKS) }
    }
}

/// A fact that the host checks before it launches a variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// A size or stride is a multiple.
    Divides(Obligation),
    /// A size is no larger. All variants need it: a launch where it is false is refused.
    AtMost {
        /// The size.
        of: Value,
        /// The largest.
        limit: i64,
    },
    /// A size is no smaller. All variants need it, too. Other sizes are at least 1, so 0 admits a tensor without elements.
    AtLeast {
        /// The size.
        of: Value,
        /// The smallest.
        limit: i64,
    },
    /// The address of a tensor is a multiple of this number of bytes.
    Aligned {
        /// The parameter.
        param: Id,
        /// The bytes.
        bytes: u32,
    },
    /// Every offset into a tensor fits 32 bits, out-of-bounds offsets of whole tiles included.
    Small {
        /// The parameter.
        param: Id,
        /// The distance past its extent up to which each mode is accessed.
        distance: Vec<u32>,
    },
}
