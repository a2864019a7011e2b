//! The product on tensor cores by mma.sync, as a tile program: tiles of both operands are copied to shared
//! memory by multistage cp.async; warps load fragments by ldmatrix, one k-step ahead, and multiply them.
//!
//! The raster order of tiles is in bands, so that concurrent blocks share operands in the L2 cache. Where
//! columns of C are contiguous, the transposed product is computed: adjacent accumulators of a thread are
//! then adjacent in C. Tiles that only the other product divides are stored element by element.

mod groups;
mod ring;

use tilewright_layout::{Composed, Layout, Value as Size};

use super::Config;
use super::block_scales::{BLOCK, BlockScales, add_scaled};
use super::bulk::SWIZZLED;
use super::product::{Extras, WORD, argument, epilogue, of_batch};
use crate::affine::{Affine, Coord};
use crate::alternative::Alternative;
use crate::alternative::Policy;
use crate::atom::Atom;
use crate::build::Builder;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::target::{Target, WARP};
use crate::thread::{Bin, Cmp, Cost};
use crate::tile::{Expr, How, Program, Raster};
use crate::tiled::{Fill, Gathered, Scaling, SharedUses, Terms, TiledMma};
use crate::view::{At, View};
use groups::{fill_scales, scales_side};

/// Most registers of a thread for sums, beside which there is room for fragments.
pub(super) const MOST_SUMS: i64 = 224;
/// Bytes of the widest copy.
const WIDE: i64 = 16;
/// Rows of C in a band of the raster order.
const BAND: i64 = 2048;
/// Clocks of a tile beside its steps, a constant and so many for 1000 of its elements, and of a launch beside its tiles.
const TILE: [u32; 2] = [182, 94];
const LAUNCH: u32 = 4130;

/// The configuration of a product by mma.sync.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Rows and columns of C that a block computes, and the length of a step along K.
    pub(super) tile: [i64; 3],
    /// The instruction and its warps, for the operands as they are multiplied.
    pub(super) mma: TiledMma,
    /// Stages of shared tiles in flight.
    pub(super) stages: i64,
    /// Programmatic dependent launch?
    pub(super) overlaps: bool,
}

/// Defaults of keys that are not given.
pub(super) struct Usual {
    /// Rows of the left and of the right operand as they are multiplied, and K.
    pub(super) tile: [i64; 3],
    /// Stages of shared tiles in flight.
    pub(super) stages: i64,
    /// Accumulators of a warp, at most.
    pub(super) sums: i64,
}

/// Good sizes for a type of the operands: less than 99 KiB of shared memory, which every architecture has, or rows of
/// 128 bytes along K where four stages of them fit.
pub(super) fn usual(c: &Config) -> Usual {
    let (elem, terms) = (c.dtype, c.precision.terms());
    let square = 64 * 64;
    let long = Usual { tile: [128, 256, SWIZZLED / i64::from(elem.bytes())], stages: 4, sums: square };
    let holds = |usual: &Usual| {
        let [left, right, k] = usual.tile;
        let bytes = (left + right) * k * usual.stages * i64::from(elem.bytes());
        bytes <= i64::from(Target::of(c.arch).block_shared)
    };
    match (elem, elem.bytes()) {
        // Elements take registers before and after their conversion.
        _ if c.mixed() => Usual { tile: [128, 128, 32], stages: 4, sums: 64 * 32 },
        // Where these are multiplied as f16, fragments are converted, in twice as many registers.
        (Elem::E4m3 | Elem::E5m2, _) => Usual { tile: [128, 128, 64], stages: 4, sums: 64 * 32 },
        // Elements that are not K-major are loaded one by one.
        (_, 1) if !(c.a_rows && c.b_rows) => Usual { tile: [128, 128, 64], stages: 4, sums: 64 * 32 },
        // Fragments take registers for both terms as well.
        (_, 4) if terms == Terms::Two => Usual { tile: [128, 128, 16], stages: 4, sums: 64 * 32 },
        (_, 1 | 2 | 4) if holds(&long) => long,
        (_, bytes @ (1 | 2 | 4)) => {
            Usual { tile: [128, 256, SWIZZLED / 2 / i64::from(bytes)], stages: 4, sums: square }
        }
        _ => {
            // Fewer barriers where three stages fit.
            let [long, short] = [32, 16].map(|k| Usual { tile: [128, 128, k], stages: 3, sums: square });
            if holds(&long) { long } else { short }
        }
    }
}

/// Tiles for products of few rows: rows and columns of C, and bytes of K, which eight warps share. Narrow tiles spread the
/// longer operand over all multiprocessors, and long steps keep many copies in flight.
const FEW_ROWS: [[i64; 3]; 3] = [[16, 32, 512], [32, 32, 512], [64, 32, 512]];
/// Warps that share K there.
const OVER_K: i64 = 8;
/// Clocks of the barrier of a step, and what remains of them where another block of the multiprocessor hides it.
const BARRIER: [i64; 2] = [150, 20];
/// Most stages there.
const FEW_STAGES: i64 = 8;

/// Rows of the left and of the right operand, and bytes of K; stages, and warps.
type Tile = ([i64; 3], i64, i64);

/// Tiles for products that larger ones do not spread over all multiprocessors.
const SMALLER: [Tile; 5] = [
    ([128, 192, 64], 4, 8),
    ([128, 128, 128], 3, 8),
    ([64, 64, 128], 4, 4),
    ([64, 32, 256], 4, 4),
    ([32, 64, 256], 4, 4),
];

/// Tiles with half as many barriers, in more shared memory than every architecture has, where cp.async copies them.
const LONGER: [Tile; 2] = [([128, 256, 128], 3, 8), ([128, 192, 128], 3, 8)];

/// A tile of elements of two bytes of which a multiprocessor with more than 200 KB of shared memory has two blocks, copied by
/// cp.async: where one waits at the barrier of a step, the other multiplies.
const TWO_BLOCKS: Tile = ([128, 128, 128], 3, 4);

/// Elements of C in tiles that have a variant of their own for sizes which they divide.
const LARGE: i64 = 128 * 128;

/// Other plans, among which a launch chooses: for products of few rows and, unless weights are narrow, of few columns, and for
/// small ones.
pub(super) fn others(c: &Config, row: &'static Atom, overlaps: bool) -> Vec<Plan> {
    let of_bytes = |[bm, bn, bytes]: [i64; 3]| [bm, bn, bytes / i64::from(c.dtype.bytes())];
    let few = |tile: [i64; 3]| {
        let mma = c.multiplying(TiledMma::arranged(row, c.operands_of(tile), 1)?.over_k(OVER_K)?);
        let plan = Plan { tile, mma, stages: 1, overlaps };
        let room = i64::from(Target::of(c.arch).block_shared) - ring::MBARRIERS - plan.gathered(c)?;
        Ok(Plan { stages: (room / plan.bytes(c)).clamp(1, FEW_STAGES), ..plan })
    };
    let small = |(tile, stages, warps): Tile| {
        let tile = of_bytes(tile);
        // Fewer resident blocks leave more registers to each, for both terms.
        let stages = if c.precision.terms() == Terms::Two { stages * 3 / 2 } else { stages };
        let mma = TiledMma::arranged(row, [tile[0], tile[1]], warps)?;
        let [bm, bn] = c.operands_of(tile);
        Ok(Plan { tile: [bm, bn, tile[2]], mma, stages, overlaps: c.overlaps })
    };
    // Fragments of wider elements do not fit in registers beside sums of all of a tile.
    let few_rows: &[[i64; 3]] = if c.dtype.bytes() <= 2 { &FEW_ROWS } else { &[] };
    let mut plans: Vec<Result<Plan>> = few_rows.iter().map(|&tile| few(of_bytes(tile))).collect();
    if !c.mixed() {
        plans.extend(few_rows.iter().map(|&[bm, bn, bk]| few(of_bytes([bn, bm, bk]))));
        let [left, right, _] = usual(c).tile;
        let smaller = SMALLER.into_iter().filter(|([bm, bn, _], ..)| bm * bn < left * right);
        plans.extend(smaller.map(small));
        // Fragments of both terms, or of wider elements, leave no registers for such tiles.
        if c.arch < ring::BULK && c.dtype.bytes() <= 2 && right > 128 {
            plans.extend(LONGER.into_iter().map(small));
            plans.extend((c.dtype.bytes() == 2).then(|| small(TWO_BLOCKS)));
        }
    }
    let plans = plans.into_iter().filter_map(Result::ok);
    plans.filter(|plan| plan.stages > 1 && unfit(c, plan).is_none()).collect()
}

impl Plan {
    /// How many parts of K warps share.
    fn parts(&self) -> i64 {
        self.mma.parts_of_k().unwrap_or(1)
    }

    /// Bytes of shared memory for sums of warps that share K.
    fn gathered(&self, c: &Config) -> Result<i64> {
        match self.mma.parts_of_k()? {
            1 => Ok(0),
            _ => self.mma.gathered_bytes(c.operands_of(self.tile)),
        }
    }

    /// Bytes of shared memory.
    pub(super) fn bytes(&self, c: &Config) -> i64 {
        let ([bm, bn, bk], [a, b]) = (self.tile, [c.dtype, c.b_dtype].map(|elem| i64::from(elem.bytes())));
        (bm * a * bk + bn * b * c.k_of_b(bk) + c.bytes_of_scales(bn, bk, self.parts())) * self.stages
    }

    /// The cost model on Hopper, with copies of `width` bytes. A block copies 2.25 vectors of the ring in a
    /// clock, or multiplies at half of the peak, both as measured for bf16.
    fn cost(&self, c: &Config, width: i64) -> Result<Cost> {
        let [bm, bn, bk] = self.tile;
        let [a, b] = [bm * bk * i64::from(c.dtype.bytes()), bn * c.k_of_b(bk) * i64::from(c.b_dtype.bytes())];
        let steps = Size::symbol("K").ceil_div(bk).ok_or_else(|| Problem::new("no such tiles"))?;
        let [rest, elements] = TILE.map(i64::from);
        // Weights, or the longer operand, come from memory, the other mostly from the L2 cache.
        let (near, far) = if c.mixed() { (a, b) } else { (a.min(b), a.max(b)) };
        let (copies, tile) = match c.mixed() || self.mma.parts_of_k()? > 1 {
            false => ((a + b) / width * 4 / 9, rest + elements * bm * bn / 1000),
            true => (far * WIDE / width / 13 + near * WIDE / width / 45, 1500),
        };
        // Multiply-adds of elements of two bytes in a clock.
        let rate = match c.dtype {
            // Conversions take as long as products.
            _ if c.mixed() => 320,
            Elem::E4m3 | Elem::E5m2 => 400,
            Elem::F64 => 450,
            _ if c.precision.terms() == Terms::Two => 300,
            _ => 900,
        };
        let products = bm * bn * bk * i64::from(c.dtype.bytes()) / 2 / rate;
        let step = (BARRIER[0] + copies.max(products)) as u32;
        // Blocks whose warps have few sums wait for fragments, not for the barrier.
        let threads = self.mma.threads()?;
        let sums = bm * bn / (threads / i64::from(WARP));
        // With so many sums, registers suffice for two blocks of four warps.
        let two = sums >= 64 * 64 && threads <= 4 * i64::from(WARP);
        let shared = if c.arch < ring::BULK && two { (BARRIER[0] - BARRIER[1]) as u32 } else { 0 };
        // Rows that begin in the middle of a sector of 32 bytes take one more for each 128 bytes, and measurably longer.
        let cut = if width == WIDE { (copies * 11 / 5).max(products) - copies.max(products) } else { 0 };
        // The copies of the first step and the products of the last one do not overlap.
        let tile = if c.mixed() || self.mma.parts_of_k()? > 1 { tile } else { tile + copies.min(products) };
        let (cut, tile, launch) = (cut as u32, tile as u32, LAUNCH);
        Ok(Cost { steps, step, shared, cut, tile, launch, ..Cost::default() })
    }

    /// Does the epilogue go through shared memory? Not if fragments already write whole sectors.
    fn has_epilogue_tile(&self, c: &Config, vector: i64) -> Result<bool> {
        let [left, right] = c.operands_of(self.tile);
        let bytes = left * right * i64::from(c.out.bytes());
        let fits = bytes <= i64::from(Target::of(c.arch).block_shared);
        Ok(c.out.bytes() < 4 && c.a_left == c.c_rows && fits && right % vector == 0)
    }

    /// The same with smaller tiles, for copies through registers.
    fn narrow(&self, c: &Config) -> Plan {
        let tile = [
            self.tile[0].min(128),
            self.tile[1].min(128),
            // Each single element in flight takes a register.
            self.tile[2].min(WIDE * 4 / if c.mixed() { 4 } else { i64::from(c.dtype.bytes()).max(2) }),
        ];
        // 64x16 accumulators of 32 bits for each warp: elements in flight take as many registers.
        let warps = (tile[0] * tile[1] * i64::from(c.acc.bytes()) / (64 * 16 * 4)).clamp(1, 8);
        let stages = self.stages.clamp(2, 3);
        match TiledMma::arranged(self.mma.row, c.operands_of(tile), warps) {
            Ok(mma) if tile[2] % mma.shape()[2] == 0 => {
                Plan { tile, mma: c.multiplying(mma), stages, ..*self }
            }
            _ => self.clone(),
        }
    }
}

impl Config {
    /// Sums of scaled blocks have registers of their own, beside those of a step.
    pub(super) fn sets_of_sums(&self) -> i64 {
        if self.block_scales { 2 } else { 1 }
    }

    /// Rows of the left and of the right operand as they are multiplied.
    pub(super) fn operands_of(&self, tile: [i64; 3]) -> [i64; 2] {
        if self.a_left { [tile[0], tile[1]] } else { [tile[1], tile[0]] }
    }
}

/// The programs of a plan, from bulk copies and copies of 16 bytes to those of single elements.
/// With `competes` they have a cost model, where other programs serve the same launches.
pub(super) fn programs(c: &Config, plan: &Plan, competes: bool) -> Result<Vec<Program>> {
    let bytes = i64::from(c.dtype.bytes().min(c.b_dtype.bytes()));
    let widths = [WIDE, WORD, bytes];
    let mut all: Vec<_> = ring::program(c, plan)?.into_iter().collect();
    if competes {
        let cost = plan.cost(c, WIDE)?;
        all.iter_mut().for_each(|program| program.cost = Some(Cost { shared: 0, cut: 0, ..cost }));
    }
    for (at, &width) in widths.iter().enumerate() {
        if width < bytes || widths[..at].contains(&width) {
            continue;
        }
        // Guards and addresses of narrow copies take registers, which further inputs of the epilogue need as well.
        let many = c.bias.is_some() || c.alpha_beta || c.has_matrices();
        let small = width <= WORD && (width == bytes || many);
        let plan = if small { plan.narrow(c) } else { plan.clone() };
        all.push(by_copies(c, &plan, [width, width], competes)?);
    }
    Ok(all)
}

/// The programs of several plans, among which a launch chooses. The last plan, for large products, serves every launch,
/// with the narrower copies; the others are for rows of operands that are aligned.
pub(super) fn among(c: &Config, plans: &[Plan]) -> Result<(Program, Vec<Alternative>)> {
    let (usual, others) = plans.split_last().ok_or_else(|| Problem::new("there is no plan"))?;
    let competes = !others.is_empty();
    let mut all = programs(c, usual, competes)?;
    let wide = all.remove(0);
    let mut more = Vec::new();
    for plan in others {
        let cost = plan.cost(c, WIDE)?;
        more.push(match ring::program(c, plan)? {
            Some(ring) => {
                let program = Program { cost: Some(Cost { shared: 0, cut: 0, ..cost }), ..ring };
                Alternative { program, policies: vec![Policy::Aligned] }
            }
            None => {
                // Guards take a twentieth of the time of large tiles.
                let large = plan.tile[0] * plan.tile[1] >= LARGE;
                let policies =
                    if large { vec![Policy::Best, Policy::Aligned] } else { vec![Policy::Aligned] };
                Alternative { program: by_copies(c, plan, [WIDE, WIDE], true)?, policies }
            }
        });
    }
    // Rows of C need not be aligned where single elements are stored, adjacent ones by adjacent threads.
    // Guards and addresses take registers, which more accumulators do not leave.
    for plan in others {
        let sums = plan.tile[0] * plan.tile[1] / plan.mma.threads()?;
        let square = plan.tile[0] == plan.tile[1] && plan.mma.parts_of_k()? == 1 && sums <= 64;
        if square && plan.has_epilogue_tile(c, 1)? {
            let program = by_copies(c, plan, [WIDE, c.out.bytes().into()], true)?;
            more.push(Alternative { program, policies: vec![Policy::Aligned] });
        }
    }
    more.extend(Alternative::narrower(all));
    Ok((wide, more))
}

/// The program with copies of so many bytes, of operands and of C.
fn by_copies(c: &Config, plan: &Plan, widths: [i64; 2], competes: bool) -> Result<Program> {
    let mut b = Builder::new(&c.name);
    product(&mut b, c, plan, widths, competes)?;
    if competes {
        b.cost(plan.cost(c, widths[0])?);
    }
    Ok(b.finish())
}

/// Alpha and beta.
type Scalars = Option<(Expr, Expr)>;

/// The epilogue of sums of warps that share K: each thread stores some elements.
fn store_gathered(
    b: &mut Builder,
    c: &Config,
    (mma, acc, gathered): (&TiledMma, &View, &Gathered),
    gc: &View,
    extras: &Extras,
    scalars: &Scalars,
) -> Result<()> {
    let sums = b.gathered(mma, acc, gathered)?;
    let out = b.gathered_part(gathered, gc)?;
    let extras = extras.parts(|view| b.gathered_part(gathered, view))?;
    let (scaled, beta) = scaled(c, scalars);
    epilogue(b, c, &sums, (&out, &out), &extras, scaled, beta)
}

/// An accumulator times alpha, and beta.
fn scaled(c: &Config, scalars: &Scalars) -> (Expr, Option<Expr>) {
    match scalars {
        None => (c.sum(), None),
        Some((alpha, beta)) => {
            (Expr::Bin(Bin::Mul, Box::new(alpha.clone()), Box::new(c.sum())), Some(beta.clone()))
        }
    }
}

/// One operand: its tiles in global and in shared memory, and how they are copied.
struct Side {
    from: View,
    to: View,
    fill: Fill,
}

/// The tiles of an operand: those in global memory, one for each iteration, and the one in shared memory. `which` is 0 for the
/// instruction's left operand.
fn side(
    b: &mut Builder,
    (c, plan, width): (&Config, &Plan, i64),
    which: usize,
    (name, view, by_rows): (&str, &View, bool),
    place: At,
) -> Result<Side> {
    let along_k = if name == "b" { c.k_of_b(plan.tile[2]) } else { plan.tile[2] };
    let tile = [c.operands_of(plan.tile)[which], along_k];
    let from = b.tile(view, (tile[0], tile[1]), &[place, At::All])?.with_name(&format!("g{name}"));
    // Out-of-bounds rows only affect accumulators that are not stored, so they are clamped.
    let from = from.clamped(0);
    let elem = b.elem(view);
    let fill = fill(elem, plan, tile, by_rows, width)?;
    let layout = match c.of_tiles {
        None => {
            let uses = SharedUses::new(elem, tile, by_rows.into())?.filled(&fill)?;
            uses.multiplied(&plan.mma, ['a', 'b'][which])?.layout()?
        }
        Some(swizzle) if by_rows => Composed::new(swizzle, 0, Layout::row_major((tile[0], tile[1]))?),
        Some(swizzle) => Composed::new(swizzle, 0, Layout::compact((tile[0], tile[1]))?),
    };
    let to = b.shared(&format!("s{name}"), elem, layout)?;
    Ok(Side { from, to, fill })
}

/// The product of two tiles by itself, multiplied by the scales of its block of K, and added to `acc`.
fn add_block(
    b: &mut Builder,
    (c, plan, scales): (&Config, &Plan, &BlockScales),
    [left, right]: [&View; 2],
    (partial, acc): (&View, &View),
    [row, column]: [&Affine; 2],
    k: &Affine,
) -> Result<()> {
    b.fill(partial, Expr::lit(0.0))?;
    b.multiply_in(&plan.mma, left, right, partial, Terms::One)?;
    let tile = [plan.tile[0], plan.tile[1]];
    let block = k.digit(BLOCK / plan.tile[2], None);
    let of_a = scales.of_rows(b, tile, row, &block)?;
    let of_b = scales.of_columns(b, tile, column, &block)?;
    let mut mine = |view: &View| {
        let view = if c.a_left { view.clone() } else { b.permute(view, &[1, 0])? };
        let part = b.partition_accumulators(&plan.mma, &view)?.with_name(&view.name);
        b.load_part(&part)
    };
    let scales = [mine(&of_a)?, mine(&of_b)?];
    add_scaled(b, partial, &scales, acc)
}

/// The program whose copies move so many bytes at once, of operands and of C. Where programs compete, operands whose rows
/// are not aligned may be packed first.
fn product(
    b: &mut Builder,
    c: &Config,
    plan: &Plan,
    [width, of_out]: [i64; 2],
    competes: bool,
) -> Result<()> {
    let (m, n, k) = (Size::symbol("M"), Size::symbol("N"), Size::symbol("K"));
    b.arch(c.arch);
    if plan.overlaps {
        b.overlaps();
    }
    let a = operand(b, c, "a", c.dtype, ([m, k], c.a_rows), false)?;
    let k_of_b = c.extent_of_b().ok_or_else(|| Problem::new("no such extent"))?;
    let bt = operand(b, c, "b", c.b_dtype, ([n, k_of_b], c.b_rows), false)?;
    let out = operand(b, c, "c", c.out, ([m, n], c.c_rows), true)?;
    let scalars = c.alpha_beta.then(|| (b.scalar("alpha", c.scaled()), b.scalar("beta", c.scaled())));
    if competes && width == WIDE && c.arch < ring::BULK {
        b.packs(&a).packs(&bt);
    }
    let group_scales = c.group_scales(b)?;
    let block_scales = BlockScales::of(b, c)?;
    let block_scales = block_scales.map(|all| all.of_batch(b, c, &Coord::Block(2).into())).transpose()?;
    let extras = Extras::of(b, c)?.of_batch(b, c, &Coord::Block(2).into())?;
    let out = if c.a_left { out } else { b.permute(&out, &[1, 0])? };
    let sides = if c.a_left {
        [("a", a, m, c.a_rows), ("b", bt, n, c.b_rows)]
    } else {
        [("b", bt, n, c.b_rows), ("a", a, m, c.a_rows)]
    };

    let [left, right] = c.operands_of(plan.tile);
    let count = |of: Size, tile: i64| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    let tiles = [("row", count(sides[0].2, left)?), ("column", count(sides[1].2, right)?)];
    let band = (BAND / left).clamp(1, 64) as u32;
    let steps = count(k, plan.tile[2])?;
    b.tiles(&tiles, Raster::Bands(band), |b, at| -> Result<()> {
        let mut both = Vec::new();
        for (which, (name, view, _, by_rows)) in sides.iter().enumerate() {
            let place = At::Index(at[which].clone());
            both.push(side(b, (c, plan, width), which, (name, view, *by_rows), place)?);
        }
        let of_b = At::Index(at[usize::from(c.a_left)].clone());
        let scales = group_scales.iter().map(|all| scales_side(b, c, plan, (all, of_b.clone()), width));
        let scales = scales.collect::<Result<Vec<_>>>()?;
        let acc = b.accumulators("acc", &plan.mma, [left, right])?;
        let partial = match &block_scales {
            Some(_) => Some(b.accumulators("partial", &plan.mma, [left, right])?),
            None => None,
        };
        b.pipelined("k", steps, plan.stages as u32, |b, k| -> Result<()> {
            for side in &both {
                let from = b.slice(&side.from, &[At::All, At::All, At::Index(k.clone())])?;
                b.fill_tile(&side.fill, &from, &side.to)?;
            }
            let tiles = [&both[0].to, &both[1].to];
            if let (Some(scales), Some(partial)) = (&block_scales, &partial) {
                let place = if c.a_left { [&at[0], &at[1]] } else { [&at[1], &at[0]] };
                return add_block(b, (c, plan, scales), tiles, (partial, &acc), place, &k);
            }
            let mut of_elements = Vec::new();
            for (of, side) in &scales {
                fill_scales(b, (*of, side, plan.tile[1]), &k)?;
                of_elements.push(of.of_elements(b, &side.to)?);
            }
            match &of_elements[..] {
                [] => b.multiply_in(&plan.mma, tiles[0], tiles[1], &acc, c.precision.terms()),
                [scales, zeros @ ..] => {
                    let scaling = Scaling { scales, zeros: zeros.first() };
                    b.multiply_scaled(&plan.mma, tiles, &acc, c.left_or_right(scaling))
                }
            }
        })?;
        let gc = b
            .tile(&out, (left, right), &[At::Index(at[0].clone()), At::Index(at[1].clone())])?
            .with_name("gc");
        let [row, column] = [0, 1].map(|which| At::Index(at[which].clone()));
        let place = if c.a_left { [&row, &column] } else { [&column, &row] };
        let extras = extras
            .tile(b, c, [plan.tile[0], plan.tile[1]], place)?
            .each(|view| if c.a_left { Ok(view.clone()) } else { b.permute(view, &[1, 0]) })?;
        // All that is filled for a step: the epilogue has its memory.
        let filled: Vec<&View> =
            both.iter().chain(scales.iter().map(|of| &of.1)).map(|side| &side.to).collect();
        if plan.mma.parts_of_k()? > 1 {
            let gathered = b.gathering("parts", &plan.mma, [left, right], &filled)?;
            return store_gathered(b, c, (&plan.mma, &acc, &gathered), &gc, &extras, &scalars);
        }
        let extras = extras.parts(|view| b.partition_accumulators(&plan.mma, view))?;
        let (scaled, beta) = scaled(c, &scalars);
        let vector = (of_out / i64::from(c.out.bytes())).max(1);
        if !plan.has_epilogue_tile(c, vector)? {
            let out = b.partition_accumulators(&plan.mma, &gc)?.with_name("out");
            return epilogue(b, c, &acc, (&out, &out), &extras, scaled, beta);
        }
        let epilogue_tile = b.epilogue_tile("sc", &plan.mma, c.out, [left, right], vector, &filled)?;
        if let Some(beta) = &beta {
            let reads = Expr::Cmp(Cmp::Ne, Box::new(beta.clone()), Box::new(Expr::lit(0.0)));
            // Through registers, so that no wait is needed before the barrier.
            let fetch = Fill { how: How::Plain, ..epilogue_tile.fill.clone() };
            b.when(reads, |b| b.fill_tile(&fetch, &gc, &epilogue_tile.tile), |_| Ok(()))?;
            b.sync();
        }
        epilogue(b, c, &acc, (&epilogue_tile.mine, &epilogue_tile.mine), &extras, scaled, beta)?;
        b.sync();
        b.fill_tile(&epilogue_tile.fill, &epilogue_tile.tile, &gc)
    })
}

/// A matrix argument, or that of this block's batch.
fn operand(
    b: &mut Builder,
    c: &Config,
    name: &str,
    elem: Elem,
    matrix: ([Size; 2], bool),
    written: bool,
) -> Result<View> {
    let all = argument(b, c, name, elem, matrix, written)?;
    of_batch(b, c, &all, Coord::Block(2).into())
}

/// The copy of a tile with accesses of `width` bytes, through registers where they are too narrow for
/// cp.async.
fn fill(elem: Elem, plan: &Plan, tile: [i64; 2], by_rows: bool, width: i64) -> Result<Fill> {
    let bytes = i64::from(elem.bytes());
    let contiguous = usize::from(by_rows);
    let staged = width < WORD;
    // Through registers, shared memory is still written in words.
    let mut vector = width.max(WORD) / bytes;
    while vector > 1 && tile[contiguous] % vector != 0 {
        vector /= 2;
    }
    let fill = Fill::of(tile, contiguous, plan.mma.threads()?, vector.max(1))?;
    Ok(Fill { how: if staged { How::Staged } else { How::Derive }, ..fill })
}

/// Why mma.sync does not support these sizes, and the key that is wrong.
pub(super) fn unfit(c: &Config, plan: &Plan) -> Option<(&'static str, Problem)> {
    let wrong = |key, message: String, help: String| Some((key, Problem::new(message).help(help)));
    let ([_, _, k], parts) = (plan.mma.shape(), plan.mma.parts_of_k().unwrap_or(1));
    let bk = plan.tile[2];
    if bk % (k * parts) != 0 {
        let nearest = (bk / k / parts).max(1) * k * parts;
        let sharing = if parts > 1 { format!("of each of {parts} warps ") } else { String::new() };
        return wrong(
            "bk",
            format!("`{}` {sharing}takes {k} of K at once, and bk is {bk}", plan.mma.row.name),
            format!("write bk = {nearest}"),
        );
    }
    if c.block_scales {
        for (key, size) in [("bn", plan.tile[1]), ("bk", bk)] {
            if BLOCK % size != 0 {
                return wrong(
                    key,
                    format!("a tile lies in one block of {BLOCK} with one scale, and {key} is {size}"),
                    format!("write {key} = 64 or {key} = 128"),
                );
            }
        }
        if parts > 1 {
            return wrong(
                "warps",
                format!("{parts} warps share K, whose sums have different scales"),
                "leave the third mode of warps out".into(),
            );
        }
    }
    let (room, bytes) = (i64::from(Target::of(c.arch).block_shared), plan.bytes(c));
    if bytes > room {
        return wrong(
            "stages",
            format!("{} stages take {bytes} bytes of shared memory, and a block has {room}", plan.stages),
            "write fewer stages, or a smaller bk".into(),
        );
    }
    let threads = plan.mma.threads().unwrap_or(0);
    let sums = plan.tile[0] * plan.tile[1] * parts * c.sets_of_sums() / threads.max(1)
        * i64::from(c.acc.bytes())
        / 4;
    if sums > MOST_SUMS {
        return wrong(
            "warps",
            format!(
                "{} {sums} accumulator registers in each thread, and more than {MOST_SUMS} leave no room for fragments",
                if threads == i64::from(WARP) {
                    "1 warp needs".into()
                } else {
                    format!("{} warps need", threads / i64::from(WARP))
                }
            ),
            "write more warps, or smaller bm and bn".into(),
        );
    }
    None
}
