//! Plans of products by wgmma: tiles, the ring, the epilogue's buffers, and the hardware's limits.

use super::Config;
use super::blame::{Unfit, checks, nearest};
use super::plan::Plan;
use super::product::no_split;
use super::scales::BLOCK;
use crate::build::tiled::{SWIZZLED, row_of};
use crate::isa;
use crate::isa::atom::Atom;
use crate::launch::Candidates;
use crate::tile::Split::{Cluster, Grid, Whole};
use crate::values::limits::MOST_BLOCKS;

/// Rows of a wgmma.
pub(super) const ROWS: i64 = 64;
/// Bytes of K that an instruction takes at once.
const INSTRUCTION: i64 = 32;
/// The bytes of a row of a bulk copy's box are a multiple of this.
const BOX: i64 = 16;
/// Rows after which the pattern of a swizzle repeats.
const PATTERN: i64 = 8;

/// Most accumulators of a thread: half of them if the sums of a step have separate registers.
const MOST_SUMS: i64 = 128;
/// The same, where three warpgroups share the registers.
const MOST_SUMS_OF_THREE: i64 = 96;

impl Plan {
    /// The default plans by wgmma, among which a launch chooses.
    pub(super) fn shipped(c: &Config) -> Vec<Plan> {
        let bk = SWIZZLED / i64::from(c.dtype.bytes());
        let plan = |row: &Vec<i64>| {
            let &[rows, columns, cluster, split, swapped, parts] = row.as_slice() else { return None };
            let split = match (split, parts) {
                (1, 1) => Whole,
                (1, parts) => Grid(u32::try_from(parts).ok()?),
                (split, _) => Cluster(u32::try_from(split).ok()?),
            };
            let a_left = c.a_left_by_wgmma() != (swapped == 1);
            let usual = Plan::of_warpgroups(c, [rows, columns, bk], false);
            Some(Plan { cluster, split, a_left, shipped: true, ..usual })
        };
        // Tiles are slower if the right operand is copied in rows of less than 128 bytes, and in more rows than the left
        // operand or K has.
        let whole = |plan: &Plan| plan.tile.iter().any(|&side| plan.rows_of_right(c) <= side);
        // Tiles with K split, and tiles of three warpgroups, have not been measured for all products. Where K is split, operands
        // in two terms need registers beside the sums.
        let measured = !(c.mixed() || c.batched);
        let alike = !(c.mixed() || has_partial_sums(c));
        let splits = |plan: &Plan| measured && (!c.is_in_terms() || plan.leaves_registers(c));
        let suits = |plan: &Plan| {
            whole(plan) && (plan.split.blocks() == 1 || splits(plan)) && (alike || plan.tile[0] != 3 * ROWS)
        };
        // Each row of A has its own scale of blocks, and weights are converted on their way into registers.
        let swaps = |plan: &Plan| alike && !c.block_scales || plan.a_left == c.a_left_by_wgmma();
        let lists = Candidates::all();
        let rows = lists.iter().filter(|list| list.name == "h200::gemm").flat_map(|list| &list.rows);
        rows.filter_map(plan).filter(|plan| unfit(plan, c).is_none() && suits(plan) && swaps(plan)).collect()
    }

    /// Of warpgroups that multiply tiles of these rows, columns and K.
    pub(super) fn of_warpgroups(c: &Config, tile: [i64; 3], ping_pong: bool) -> Plan {
        let warpgroups = match tile[0] / ROWS {
            _ if ping_pong => 1,
            rows @ (1 | 3) => rows,
            _ => 2,
        };
        let (groups, a_left, overlaps) = ([warpgroups, 1, 1], c.a_left_by_wgmma(), c.overlaps(true));
        Plan { tile, groups, a_left, ping_pong, bulk: true, overlaps, ..Plan::USUAL }
    }

    /// Is the right operand contiguous along K?
    fn right_along_k(&self, c: &Config) -> bool {
        self.sides([c.a_rows, c.b_rows])[1]
    }

    /// The number of rows in which a step's part of the right operand is copied: one for each column, along K; or for
    /// each k, columns in rows of the widest swizzle that divides their number.
    fn rows_of_right(&self, c: &Config) -> i64 {
        let [_, columns, bk] = self.tile;
        if self.right_along_k(c) { columns } else { columns / row_of(columns, c.dtype.bytes().into()) * bk }
    }

    /// Rows of a tile that one warpgroup computes.
    fn rows(&self) -> i64 {
        self.tile[0] / self.groups[0]
    }

    /// Accumulators of a thread.
    fn sums(&self) -> i64 {
        self.rows() * self.tile[1] / 128
    }

    /// Most accumulators of a thread.
    fn most_sums(&self, c: &Config) -> i64 {
        match self.groups[0] {
            // Three warpgroups share the registers, which further sums or converted elements need as well.
            3 if c.is_in_terms() => MOST_SUMS_OF_THREE / 4,
            3 if has_partial_sums(c) => MOST_SUMS_OF_THREE / 3,
            3 if c.mixed() => MOST_SUMS_OF_THREE * 2 / 3,
            3 => MOST_SUMS_OF_THREE,
            _ if has_partial_sums(c) => MOST_SUMS / 2,
            _ => MOST_SUMS,
        }
    }

    /// Is it among the fewer tiles for a C that threads store? Each variant takes time to generate and to
    /// compile. The narrowest is for products of few rows or columns, such as 1; tiles whose K is split are not wide.
    pub(super) fn is_common(&self, c: &Config) -> bool {
        let [rows, columns, _] = self.tile;
        let most = if self.split.blocks() > 1 { 2 * ROWS } else { columns };
        self.a_left == c.a_left_by_wgmma()
            && !self.split.is_of_grid()
            && rows <= 2 * ROWS
            && (columns % ROWS == 0 || columns == 16)
            && columns <= most
            && self.cluster == 1
    }

    /// Do accumulators leave registers for an epilogue with many addresses?
    pub(super) fn leaves_registers(&self, c: &Config) -> bool {
        self.sums() < self.most_sums(c)
    }
}

/// Do the sums of a step have separate registers?
fn has_partial_sums(c: &Config) -> bool {
    c.promotes() || c.is_in_terms()
}

/// The wgmma instruction of a product, for `columns` columns. A left operand that is converted or has two terms is in
/// registers.
pub(super) fn row(c: &Config, columns: i64) -> Option<&'static Atom> {
    let in_registers = c.is_in_terms() || c.mixed();
    isa::wgmma(c.multiplied(), columns, in_registers)
}

impl Plan {
    /// Does a tile of rows that wgmma has need more accumulators or shared memory than there are?
    pub(super) fn is_too_large(&self, c: &Config) -> bool {
        let is_tile = self.tile[0] % ROWS == 0 && row(c, self.tile[1]).is_some();
        is_tile && (self.sums() > self.most_sums(c) || self.crowded(c).is_some())
    }
}

/// Why wgmma does not support these sizes, and the key that is wrong.
pub(super) fn unfit(plan: &Plan, c: &Config) -> Option<Unfit> {
    let &Plan { tile: [bm, bn, bk], cluster, split, ping_pong, .. } = plan;
    let (split_k, over_grid) = (split.blocks(), split.is_of_grid());
    let (elem, promotes) = (c.dtype, has_partial_sums(c));
    let [at_once, across] = [INSTRUCTION, SWIZZLED].map(|bytes| bytes / i64::from(elem.bytes()));
    let k_of_box = BOX / i64::from(c.b_dtype.bytes()) * (bk / c.k_of_b(bk).max(1));
    // The keys of wgmma's rows and columns: the transposed product swaps them.
    let [of_rows, of_columns] = plan.sides(["bm", "bn"]);
    let [along, _] = plan.sides(["rows", "columns"]);
    // Two warpgroups that split K do not redistribute registers, and further sums do not fit.
    let most_rows = if promotes { ROWS } else { 2 * ROWS };
    let most_blocks = i64::from(MOST_BLOCKS);
    let [rows, columns] = plan.of_c();
    // Each block of a cluster copies a part of the columns, or of K, in whole patterns of the swizzle.
    let (key, shared) = if plan.right_along_k(c) { (of_columns, bn) } else { ("bk", bk) };
    let (sums, most) = (plan.sums(), plan.most_sums(c));
    let fewer = || {
        let help = match most * 128 / plan.rows() {
            fits @ 16.. => format!("write {of_columns} = {fits}, or a smaller {of_rows}"),
            _ => format!("write a smaller {of_rows}"),
        };
        let fits = c.promotes() && !c.block_scales;
        if fits { help + "; with fast_accum = true 128 fit" } else { help }
    };
    let of_cluster = checks! {
        ![1, 2, 4, 8].contains(&cluster) => "cluster",
            format!("a cluster has 1, 2, 4 or 8 blocks along the {along} of C, and cluster is {cluster}"),
            "write cluster = 1, 2, 4 or 8";
    };
    let of_split = if over_grid { None } else { no_split(split_k) };
    of_cluster.chain(of_split).chain(checks! {
        !over_grid && cluster.saturating_mul(split_k) > most_blocks => "split_k",
            format!("a cluster has at most {most_blocks} blocks, and cluster = {cluster} and split_k = {split_k} are {}", cluster.saturating_mul(split_k)),
            "write a smaller split_k";
        split_k > 1 && ping_pong => "split_k",
            "several blocks split K, which does not go together with a ping-pong schedule", "leave split_k out";
        over_grid && c.batched => "split_k",
            "blocks of the grid divide K in the tiles of one matrix, and batched has several", "write split_k = 4, or leave it out";
        split_k > 1 && !over_grid && bm > most_rows => "split_k",
            format!("where K is split, each of a block's warpgroups multiplies {ROWS} rows, {most_rows} in all, and {of_rows} is {bm}"),
            format!("write {of_rows} = {most_rows}");
        !over_grid && [bm, bn].iter().all(|extent| extent % split_k != 0) => "split_k",
            format!("each of {split_k} blocks adds and stores an equal part of the rows or of the columns of a tile, which has {rows} by {columns}"),
            format!("write {of_columns} = {}, or another split_k", nearest(bn, split_k.saturating_mul(16)));
        !(1..=4).contains(&(bm / ROWS)) || bm % ROWS != 0 || ping_pong && bm > 2 * ROWS => of_rows,
            format!("a tile has {ROWS} rows for each warpgroup, or twice as many for each of two, and {of_rows} is {bm}"),
            format!("write {of_rows} = {}", if ping_pong { "64 or 128" } else { "64, 128, 192 or 256" });
        ping_pong && c.is_in_terms() => "ping_pong",
            "each slot of a ping-pong schedule is read by one warpgroup, and with precision = f32x3 another one splits it first",
            "leave ping_pong out";
        bk % at_once != 0 => "bk",
            format!("wgmma takes {at_once} elements of {elem} along K at once, and bk is {bk}"),
            format!("write bk = {}, or leave it out", nearest(bk, at_once));
        bk % k_of_box != 0 => "bk",
            format!("a bulk copy takes rows of a multiple of {BOX} bytes, {k_of_box} weights along K, and bk is {bk}"),
            format!("write bk = {}, or leave it out", nearest(bk, k_of_box));
        promotes && bk > across || c.block_scales && bk != across => "bk",
            format!("sums of each {across} along K are promoted to f32, and bk is {bk}"),
            format!("write bk = {across}, or leave it out");
        row(c, bn).is_none() || bn % 16 != 0 => of_columns,
            format!("wgmma takes 16 to 256 columns in steps of 16, and {of_columns} is {bn}"),
            format!("write {of_columns} = 128 or {of_columns} = 256");
        cluster > 1 && shared % (PATTERN * cluster) != 0 => key,
            format!("each of {cluster} blocks copies a multiple of {PATTERN} of what they share, and {key} is {shared}"),
            format!("write {key} = {}, or a smaller cluster", nearest(shared, PATTERN * cluster));
        c.block_scales && BLOCK % bn != 0 => of_columns,
            format!("a tile lies in one block of {BLOCK} columns with one scale, and {of_columns} is {bn}"),
            format!("write {of_columns} = 64 or {of_columns} = 128");
        sums > most => of_columns,
            format!("a thread has {sums} accumulators of a tile of {rows} by {columns}, and at most {most} fit"),
            fewer();
    })
    .next()
    .or_else(|| plan.crowded(c))
}
