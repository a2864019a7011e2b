//! Plans of products by mma.sync: tiles, warps and stages, the plans that a launch chooses among, and the limits of all.

use super::{Config, WIDE, ring};
use crate::build::tiled::{SWIZZLED, TiledMma};
use crate::isa::atom::Atom;
use crate::matmul::blame::{Unfit, checks, nearest};
use crate::matmul::plan::Plan;
use crate::matmul::scales::BLOCK;
use crate::matmul::warps::groups_of;
use crate::source::problem::Result;
use crate::tile::Split;
use crate::values::target::{Target, WARP};

/// Most registers of a thread for sums, beside which there is room for fragments.
pub(in crate::matmul) const MOST_SUMS: i64 = 224;

/// Defaults of keys that are not given.
pub(in crate::matmul) struct Usual {
    /// Rows of the left and of the right operand as they are multiplied, and K.
    pub(in crate::matmul) tile: [i64; 3],
    /// Stages of shared tiles in flight.
    pub(in crate::matmul) stages: i64,
    /// Accumulators of a warp, at most.
    pub(in crate::matmul) sums: i64,
}

/// Default sizes for a type of the operands: less than 99 KiB of shared memory, which every architecture has, or rows
/// of 128 bytes along K if four stages of them fit.
pub(in crate::matmul) fn usual(c: &Config) -> Usual {
    let (bytes, half, square) = (i64::from(c.dtype.bytes()), 64 * 32, 64 * 64);
    let of = |right, k, stages, sums| Usual { tile: [128, right, k], stages, sums };
    // Elements that are not K-major are loaded one by one. Where floats of 8 bits are multiplied as f16, fragments are converted, in
    // twice as many registers.
    let is_converted = c.dtype.is_fp8() || bytes == 1 && !(c.a_rows && c.b_rows);
    let [long, short] = match bytes {
        // Elements take registers before and after their conversion.
        _ if c.mixed() => return of(128, 32, 4, half),
        _ if is_converted => return of(128, 64, 4, half),
        // Fragments take registers for both terms as well.
        4 if c.is_in_terms() => return of(128, 16, 4, half),
        1 | 2 | 4 => [SWIZZLED, SWIZZLED / 2].map(|row| of(256, row / bytes, 4, square)),
        // Fewer barriers where three stages fit.
        _ => [32, 16].map(|k| of(128, k, 3, square)),
    };
    let [left, right, k] = long.tile;
    let fits = (left + right) * k * long.stages * bytes <= i64::from(Target::of(c.arch).block_shared);
    if fits { long } else { short }
}

/// Tiles for products of few rows: rows and columns of C, and bytes of K, which eight warps share. Narrow tiles spread the
/// longer operand over all multiprocessors, and long steps keep many copies in flight.
const FEW_ROWS: [[i64; 3]; 3] = [[16, 32, 512], [32, 32, 512], [64, 32, 512]];
/// The same where elements have eight bytes: small tiles, also of both, beside whose sums there are registers for fragments.
const FEW_WIDE: [[i64; 3]; 3] = [[16, 32, 512], [32, 32, 512], [16, 16, 1024]];
/// Warps that share K there.
const OVER_K: i64 = 8;
/// Most stages there.
const FEW_STAGES: i64 = 8;

/// Rows of the left and of the right operand, and bytes of K; stages, and warps.
type Tile = ([i64; 3], i64, i64);

/// Tiles for products that larger tiles do not distribute over all multiprocessors.
const SMALLER: [Tile; 5] = [
    ([128, 192, 64], 4, 8),
    ([128, 128, 128], 3, 8),
    ([64, 64, 128], 4, 4),
    ([64, 32, 256], 4, 4),
    ([32, 64, 256], 4, 4),
];

/// More of them where elements have eight bytes: beside fewer elements in registers, their instructions need fewer warps.
const SMALLER_WIDE: [Tile; 4] =
    [([128, 64, 128], 4, 4), ([64, 128, 128], 4, 4), ([96, 64, 128], 4, 8), ([64, 96, 128], 4, 8)];

/// Tiles with half as many barriers, in more shared memory than every architecture has, where cp.async copies them.
const LONGER: [Tile; 2] = [([128, 256, 128], 3, 8), ([128, 192, 128], 3, 8)];

/// Tiles whose K the blocks of a cluster split, and numbers of blocks, for products of few tiles and a long K. Memory delivers most
/// where each multiprocessor waits for 100 KB or more.
const SPLIT: [(Tile, u32); 7] = [
    (([96, 64, 128], 8, 8), 8),
    (([64, 96, 128], 8, 8), 8),
    (([128, 64, 128], 8, 8), 8),
    (([64, 128, 128], 8, 8), 8),
    (([32, 32, 512], 3, 4), 16),
    (([32, 16, 512], 4, 2), 16),
    (([16, 32, 512], 4, 2), 16),
];

/// Tiles of elements of four bytes that threads copy one by one, and numbers of blocks that split K. Results of few rows or columns, and
/// a short K, take less time so than after copies of their operands.
const SINGLE: [Tile; 8] = [
    ([128, 64, 64], 4, 8),
    ([64, 128, 64], 4, 8),
    ([64, 64, 128], 4, 4),
    ([64, 32, 128], 4, 4),
    ([32, 64, 128], 4, 4),
    ([32, 32, 256], 4, 4),
    ([32, 16, 256], 4, 2),
    ([16, 32, 256], 4, 2),
];
const PARTS: [u32; 3] = [1, 8, 16];

/// A tile of 2-byte elements, copied by cp.async. A multiprocessor with more than 200 KB of shared memory runs two such
/// blocks: while one waits at the barrier of a step, the other multiplies.
const TWO_BLOCKS: Tile = ([128, 128, 128], 3, 4);

/// Other plans, among which a launch chooses: for products of few rows and, unless weights are narrow, of few columns, and for
/// small products.
pub(in crate::matmul) fn others(c: &Config, row: &'static Atom) -> Vec<Plan> {
    // The blocks of plans for few rows fill a multiprocessor.
    let overlaps = c.overlaps(true);
    let few = |[bm, bn, bk]: [i64; 3]| {
        let [left, right] = c.operands_of([bm, bn]);
        TiledMma::arranged(row, [left, right], 1)?;
        let plan = Plan::of_warps(c, row, [left, right, bk], [1, 1, OVER_K]);
        // More stages, in memory that overlays the sums, are up to 3 % slower.
        Ok(Plan { overlaps, stages: plan.beside_sums(c).clamp(1, FEW_STAGES), ..plan })
    };
    // Fragments of wider elements do not fit in registers beside sums of all of a large tile.
    let few_rows: &[[i64; 3]] = match c.dtype.bytes() {
        1 | 2 => &FEW_ROWS,
        8 => &FEW_WIDE,
        _ => &[],
    };
    // Floats of 8 bits that are loaded one by one take registers before and after their conversion to f16.
    let converted = c.dtype.is_fp8() && !(c.a_rows && c.b_rows);
    let few_rows = few_rows.iter().filter(|[bm, bn, _]| !converted || bm * bn <= 32 * 32);
    let mut plans: Vec<Result<Plan>> = few_rows.clone().map(|&tile| few(of_bytes(c, tile))).collect();
    if !c.mixed() {
        let turned = few_rows.filter(|[bm, bn, _]| bm != bn || c.dtype.bytes() <= 2);
        plans.extend(turned.map(|&[bm, bn, bk]| few(of_bytes(c, [bn, bm, bk]))));
        let [left, right, _] = usual(c).tile;
        let smaller = SMALLER.into_iter().filter(|([bm, bn, _], ..)| bm * bn < left * right);
        let wide = SMALLER_WIDE.into_iter().filter(|_| c.dtype.bytes() == 8);
        plans.extend(smaller.chain(wide).map(|tile| small(c, row, tile)));
        // Fragments of both terms, or of wider elements, leave no registers for such tiles.
        if c.arch < ring::BULK && c.dtype.bytes() <= 2 && right > 128 {
            plans.extend(LONGER.into_iter().map(|tile| small(c, row, tile)));
            plans.extend((c.dtype.bytes() == 2).then(|| small(c, row, TWO_BLOCKS)));
        }
        let split = SPLIT.into_iter().filter(|_| c.dtype.bytes() == 8);
        plans.extend(split.filter_map(|(tile, blocks)| of_parts(c, row, tile, blocks)).map(Ok));
    }
    let plans = plans.into_iter().filter_map(Result::ok);
    plans.filter(|plan| plan.stages > 1 && unfit(c, plan).is_none()).collect()
}

/// Plans whose threads copy single elements asynchronously, for rows of operands that begin anywhere.
pub(super) fn single(c: &Config, row: &'static Atom) -> Vec<Plan> {
    match c.dtype.bytes() {
        8 => others(c, row),
        4 => {
            let all = SINGLE.into_iter().flat_map(|tile| PARTS.map(|parts| of_parts(c, row, tile, parts)));
            all.flatten().filter(|plan| unfit(c, plan).is_none()).collect()
        }
        _ => Vec::new(),
    }
}

/// The plan of a tile whose K the blocks of a cluster split, if they may.
fn of_parts(c: &Config, row: &'static Atom, tile: Tile, blocks: u32) -> Option<Plan> {
    let plan =
        Plan { split: Split::Cluster(blocks), overlaps: c.overlaps(true), ..small(c, row, tile).ok()? };
    (blocks == 1 || plan.may_split(c)).then_some(plan)
}

fn of_bytes(c: &Config, [bm, bn, bytes]: [i64; 3]) -> [i64; 3] {
    [bm, bn, bytes / i64::from(c.dtype.bytes())]
}

/// The plan of a tile for the operands as they are multiplied.
fn small(c: &Config, row: &'static Atom, (tile, stages, warps): Tile) -> Result<Plan> {
    let tile = of_bytes(c, tile);
    // Fewer resident blocks leave more registers to each, for both terms.
    let stages = if c.is_in_terms() { stages * 3 / 2 } else { stages };
    let groups = groups_of(&TiledMma::arranged(row, [tile[0], tile[1]], warps)?)?;
    Ok(Plan { stages, fewer: false, ..Plan::of_warps(c, row, tile, [groups[0], groups[1], 1]) })
}

impl Plan {
    /// Does the epilogue go through shared memory? Not if fragments already write whole sectors.
    pub(super) fn has_epilogue_tile(&self, c: &Config) -> bool {
        let bytes = self.tile[0] * self.tile[1] * i64::from(c.out.bytes());
        c.out.bytes() < 4 && self.a_left == c.c_rows && bytes <= i64::from(Target::of(c.arch).block_shared)
    }

    /// The same with smaller tiles, for copies through registers.
    pub(super) fn narrow(&self, c: &Config) -> Plan {
        let tile = [
            self.tile[0].min(128),
            self.tile[1].min(128),
            // Each single element in flight takes a register.
            self.tile[2].min(WIDE * 4 / if c.mixed() { 4 } else { i64::from(c.dtype.bytes()).max(2) }),
        ];
        // 64x16 accumulators of 32 bits for each warp: elements in flight take as many registers.
        let warps = (tile[0] * tile[1] * i64::from(c.acc.bytes()) / (64 * 16 * 4)).clamp(1, 8);
        let stages = self.stages.clamp(2, 3);
        let narrow = self.row.and_then(|row| {
            let groups = c.arranged(row, [tile[0], tile[1]], warps).ok()?;
            let (.., k) = row.mma()?.shape;
            (tile[2] % k == 0).then(|| Plan { tile, groups, stages, ..self.clone() })
        });
        narrow.unwrap_or_else(|| self.clone())
    }
}

impl Config {
    /// Sums of scaled blocks have separate registers, beside a step's sums.
    pub(in crate::matmul) fn sets_of_sums(&self) -> i64 {
        if self.block_scales { 2 } else { 1 }
    }

    /// What rows and columns of C have, for the left and the right operand of mma.sync; and back.
    pub(in crate::matmul) fn operands_of<T>(&self, [rows, columns]: [T; 2]) -> [T; 2] {
        if self.a_left_by_warps() { [rows, columns] } else { [columns, rows] }
    }
}

/// Registers of a thread for the sums of a tile that `threads` threads share.
pub(in crate::matmul) fn sums(c: &Config, tile: [i64; 3], threads: i64) -> i64 {
    tile[0] * tile[1] * c.sets_of_sums() / threads.max(1) * i64::from(c.acc.bytes()) / 4
}

/// Why mma.sync does not support these sizes, and the key that is wrong.
pub(in crate::matmul) fn unfit(c: &Config, plan: &Plan) -> Option<Unfit> {
    let row = plan.row?;
    let ((.., k), parts, room) = (row.mma()?.shape, plan.parts(), i64::from(Target::of(c.arch).block_shared));
    let ([_, bn], bk, gathered) = (plan.of_c(), plan.tile[2], plan.gathered(c));
    let (warps, sums) = (plan.threads() / i64::from(WARP), sums(c, plan.tile, plan.threads() / parts));
    let sharing = if parts > 1 { format!("of each of {parts} warps ") } else { String::new() };
    let need = if warps == 1 { "1 warp needs".into() } else { format!("{warps} warps need") };
    let in_block = |key, size: i64| {
        checks! {
            c.block_scales && BLOCK % size != 0 => key,
                format!("a tile lies in one block of {BLOCK} with one scale, and {key} is {size}"),
                format!("write {key} = 64 or {key} = 128");
        }
    };
    let of_step = checks! {
        bk % (k * parts) != 0 => "bk",
            format!("`{}` {sharing}takes {k} of K at once, and bk is {bk}", row.name),
            format!("write bk = {}", nearest(bk, k * parts));
    };
    let of_parts = checks! {
        c.block_scales && parts > 1 => "warps",
            format!("{parts} warps share K, whose sums have different scales"),
            "leave the third mode of warps out";
    };
    let of_block = of_step.chain(in_block("bn", bn)).chain(in_block("bk", bk)).chain(of_parts);
    of_block.chain(plan.crowded(c)).chain(checks! {
        gathered > room => "warps",
            format!("warps that share K exchange their sums of a tile, {gathered} bytes of shared memory, and a block has {room}"),
            "write fewer warps, or smaller bm and bn";
        sums > MOST_SUMS => "warps",
            format!("{need} {sums} accumulator registers in each thread, and more than {MOST_SUMS} leave no room for fragments"),
            "write more warps, or smaller bm and bn";
    })
    .next()
}
