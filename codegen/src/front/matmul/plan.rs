//! The sizes of a product on tensor cores: an alternative of its page.

use super::Config;
use super::hopper::ROWS;
use super::product::CLUSTERS;
use crate::build::tiled::{PAD, SWIZZLED, Terms, row_of};
use crate::thread::atom::Atom;
use crate::values::target::{Target, WARP};

/// Bytes for mbarriers and the alignment of swizzles.
const MBARRIERS: i64 = 1024;
/// Into how many parts the rows of a warp are divided at most when they are stored, and the fewest rows of a part.
const PARTS: [i64; 3] = [4, 2, 1];
const LEAST_ROWS: i64 = 16;

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
    /// Blocks of a cluster that share tiles of the right operand.
    pub(super) cluster: i64,
    /// Blocks of a cluster that compute one tile together, each a part of K.
    pub(super) split_k: i64,
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
    /// Of warps that execute this instruction on tiles that threads copy.
    pub(super) fn of_warps(c: &Config, row: &'static Atom, tile: [i64; 3], groups: [i64; 3]) -> Plan {
        Plan {
            tile,
            row: Some(row),
            groups,
            stages: 1,
            cluster: 1,
            split_k: 1,
            band: 1,
            ping_pong: false,
            bulk: false,
            overlaps: c.overlaps(false),
            shipped: false,
        }
    }

    /// Do warpgroups multiply?
    pub(super) fn is_wgmma(&self) -> bool {
        self.row.is_none()
    }

    /// Is A the left operand? Otherwise the transpose is computed.
    pub(super) fn a_is_left(&self, c: &Config) -> bool {
        if self.is_wgmma() { c.a_is_left() } else { c.a_left() }
    }

    /// What A and B have, or rows and columns of C, for the left and the right operand; and back.
    pub(super) fn sides<T>(&self, c: &Config, [a, b]: [T; 2]) -> [T; 2] {
        if self.a_is_left(c) { [a, b] } else { [b, a] }
    }

    /// Rows and columns of C.
    pub(super) fn of_c(&self, c: &Config) -> [i64; 2] {
        let [left, right, _] = self.tile;
        self.sides(c, [left, right])
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
        self.is_wgmma() || !self.bulk && c.arch >= CLUSTERS && c.dtype.bytes() == 8 && !c.alpha_beta
    }

    /// Are the sums of a step promoted? Instructions of warps do not lose bits of sums.
    pub(super) fn promotes(&self, c: &Config) -> bool {
        c.block_scales || self.is_wgmma() && c.promotes()
    }

    /// With as many stages as fit, at most this number.
    pub(super) fn with_stages(self, c: &Config, most: i64) -> Plan {
        Plan { stages: (self.room(c) / self.slot(c)).clamp(1, most), ..self }
    }

    /// Bytes of shared memory for the ring, beside mbarriers and what the epilogue needs: the sums of warps that share K, or buffers
    /// for parts of the tile of each warp or warpgroup. One buffer is written while a bulk store reads the other. Sums that a cluster
    /// adds overlay the ring, and fragments of wider results already write whole sectors.
    pub(super) fn room(&self, c: &Config) -> i64 {
        let ([over, across, _], [left, right, _]) = (self.groups, self.tile);
        let ([rows, columns], bytes) = ([left / over, right / across], i64::from(c.out.bytes()));
        let buffers = |part: i64, wide: i64, members: i64| {
            2.min(rows / part * (columns / wide).max(1)) * members * part * wide * bytes
        };
        let epilogue = match self.is_wgmma() {
            true if self.split_k > 1 => 0,
            // With three warpgroups a part is narrower, which leaves room for a slot more. wgmma's columns are multiples of 16.
            true => {
                let half = (SWIZZLED / 2 / bytes).max(16);
                let wide = match over > 2 {
                    true if columns % half == 0 => half,
                    true => 16,
                    false => row_of(columns, bytes).max(16),
                };
                buffers(ROWS, wide, if self.ping_pong { 2 } else { over })
            }
            false if self.is_staged(c) => {
                let down = PARTS.into_iter().find(|down| rows % (down * LEAST_ROWS) == 0).unwrap_or(1);
                buffers(rows / down, row_of(columns, bytes), over * across)
            }
            false => self.gathered(c, self.parts()),
        };
        i64::from(Target::of(c.arch).block_shared) - MBARRIERS - epilogue
    }

    /// Do warps store results through shared memory?
    pub(super) fn is_staged(&self, c: &Config) -> bool {
        c.out.bytes() < 4 && self.parts() == 1
    }

    /// Bytes of shared memory for sums of warps that share K, of `at_once` parts at once.
    pub(super) fn gathered(&self, c: &Config, at_once: i64) -> i64 {
        let [rows, columns, _] = self.tile;
        let one = rows * (columns + PAD) * i64::from(c.acc.bytes());
        if self.parts() == 1 { 0 } else { at_once * one }
    }

    /// Bytes of the ring.
    pub(super) fn ring(&self, c: &Config) -> i64 {
        self.slot(c) * self.stages
    }

    /// Bytes of a slot of the ring: wgmma reads the lower terms of an operand there, too.
    pub(super) fn slot(&self, c: &Config) -> i64 {
        let ([bm, bn], [_, right, bk]) = (self.of_c(c), self.tile);
        let [a, b, acc] = [c.dtype, c.b_dtype, c.acc].map(|elem| i64::from(elem.bytes()));
        let is_in_terms = self.is_wgmma() && c.precision.terms() == Terms::Two;
        let terms = if is_in_terms { right * bk * a } else { 0 };
        let of_blocks = if c.block_scales { bm * acc } else { 0 };
        bm * a * bk + bn * b * c.k_of_b(bk) + terms + of_blocks + c.bytes_of_scales(bn, bk, self.parts())
    }
}
