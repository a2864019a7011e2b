//! The sizes of a product on tensor cores: an alternative of its page.

use super::Config;
use super::blame::{Unfit, checks};
use super::product::CLUSTERS;
use crate::build::tiled::PAD;
use crate::isa::atom::Atom;
use crate::tile::Split;
use crate::values::target::{Target, WARP};

/// Bytes for mbarriers and the alignment of swizzles.
const MBARRIERS: i64 = 1024;

/// The sizes of a product on tensor cores.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Rows of the left and of the right operand as they are multiplied, which a block computes, and the length of a step along K.
    pub(super) tile: [i64; 3],
    /// The instruction of warps; without one, warpgroups multiply by the wgmma of the tile's columns.
    pub(super) row: Option<&'static Atom>,
    /// Warps over the rows, the columns and the K of a tile of accumulators; or warpgroups over its rows.
    pub(super) groups: [i64; 3],
    /// Stages of shared tiles in flight.
    pub(super) stages: i64,
    /// May there be fewer, if these do not fit in shared memory?
    pub(super) fewer: bool,
    /// Is A the left operand? Otherwise the transpose is computed.
    pub(super) a_left: bool,
    /// Blocks of a cluster that share tiles of the right operand.
    pub(super) cluster: i64,
    /// Blocks that compute one tile together, each a part of K.
    pub(super) split: Split,
    /// With wgmma: rows of tiles in a band of the raster order: concurrent tiles share operands in the L2 cache.
    pub(super) band: i64,
    /// Do two warpgroups alternate tiles, so that one multiplies while the other runs its epilogue?
    pub(super) ping_pong: bool,
    /// Does a producer copy tiles in bulk?
    pub(super) bulk: bool,
    /// Programmatic dependent launch?
    pub(super) overlaps: bool,
    /// Is it a default, among which a launch chooses?
    pub(super) shipped: bool,
}

impl Plan {
    /// What most plans have in common.
    pub(super) const USUAL: Plan = Plan {
        tile: [0; 3],
        row: None,
        groups: [1; 3],
        stages: 16,
        fewer: true,
        a_left: true,
        cluster: 1,
        split: Split::Whole,
        band: 8,
        ping_pong: false,
        bulk: false,
        overlaps: false,
        shipped: false,
    };

    /// Of warps that execute this instruction on tiles that threads copy.
    pub(super) fn of_warps(c: &Config, row: &'static Atom, tile: [i64; 3], groups: [i64; 3]) -> Plan {
        let (a_left, overlaps) = (c.a_left_by_warps(), c.overlaps(false));
        Plan { tile, row: Some(row), groups, stages: 1, a_left, band: 1, overlaps, ..Plan::USUAL }
    }

    /// Do warpgroups multiply?
    pub(super) fn is_wgmma(&self) -> bool {
        self.row.is_none()
    }

    /// What A and B have, or rows and columns of C, for the left and the right operand; and back.
    pub(super) fn sides<T>(&self, [a, b]: [T; 2]) -> [T; 2] {
        if self.a_left { [a, b] } else { [b, a] }
    }

    /// Rows and columns of C.
    pub(super) fn of_c(&self) -> [i64; 2] {
        let [left, right, _] = self.tile;
        self.sides([left, right])
    }

    /// How many parts of K warps share.
    pub(super) fn parts(&self) -> i64 {
        self.groups[2]
    }

    /// Threads that multiply.
    pub(super) fn threads(&self) -> i64 {
        self.groups.iter().product::<i64>() * i64::from(if self.is_wgmma() { 4 * WARP } else { WARP })
    }

    /// Elements of K in a step, and how many parts of it warps share: copies of scales depend on both.
    pub(super) fn step(&self) -> (i64, i64) {
        (self.tile[2], self.parts())
    }

    /// May the blocks of a cluster split K? Products of other types are by wgmma there.
    pub(super) fn may_split(&self, c: &Config) -> bool {
        let some = c.dtype.bytes() == 8 || self.split.blocks() > 1;
        self.is_wgmma() || some && !self.bulk && c.arch >= CLUSTERS && !c.alpha_beta
    }

    /// Are the sums of a step promoted? Instructions of warps do not lose bits of sums.
    pub(super) fn promotes(&self, c: &Config) -> bool {
        c.block_scales || self.is_wgmma() && c.promotes()
    }

    /// Stages for which there is room beside the sums of warps that share K.
    pub(super) fn beside_sums(&self, c: &Config) -> i64 {
        let room = i64::from(Target::of(c.arch).block_shared) - MBARRIERS;
        (room - self.parts() * self.gathered(c)) / self.slot(c)
    }

    /// Why a block does not have shared memory for its stages.
    pub(super) fn crowded(&self, c: &Config) -> Option<Unfit> {
        // A producer fills a slot while another one is read.
        let least = if self.bulk { 2 } else { 1 };
        let stages = if self.fewer { least } else { self.stages };
        let (bytes, room) = (self.slot(c) * stages, i64::from(Target::of(c.arch).block_shared));
        let count = if stages == 1 { "1 stage takes".into() } else { format!("{stages} stages take") };
        checks! {
            bytes > room => "stages", format!("{count} {bytes} bytes of shared memory, and a block has {room}"),
                "write fewer stages, or a smaller bk";
        }
        .next()
    }

    /// Do warps store results through shared memory?
    pub(super) fn is_staged(&self, c: &Config) -> bool {
        c.out.bytes() < 4 && self.parts() == 1
    }

    /// Bytes of shared memory for sums of warps that share K.
    pub(super) fn gathered(&self, c: &Config) -> i64 {
        let [rows, columns, _] = self.tile;
        if self.parts() == 1 { 0 } else { rows * (columns + PAD) * i64::from(c.acc.bytes()) }
    }

    /// Bytes of a slot of the ring: wgmma reads the lower terms of an operand there, too.
    pub(super) fn slot(&self, c: &Config) -> i64 {
        let ([bm, bn], [_, right, bk]) = (self.of_c(), self.tile);
        let [a, b, acc] = [c.dtype, c.b_dtype, c.acc].map(|elem| i64::from(elem.bytes()));
        let is_in_terms = self.is_wgmma() && c.is_in_terms();
        let terms = if is_in_terms { right * bk * a } else { 0 };
        let of_blocks = if c.block_scales { bm * acc } else { 0 };
        bm * a * bk + bn * b * c.k_of_b(bk) + terms + of_blocks + c.bytes_of_scales(bn, bk, self.parts())
    }
}
