//! The product on tensor cores by mma.sync, as a tile program: tiles of both operands are copied to shared
//! memory by multistage cp.async; warps load fragments by ldmatrix, one k-step ahead, and multiply them.
//!
//! The raster order of tiles is in bands, so that concurrent blocks share operands in the L2 cache. If columns
//! of C are contiguous, the transposed product is computed: adjacent accumulators of a thread are then adjacent
//! in C. Tiles that suit only the other product are stored element by element.

mod groups;
mod plan;
mod ring;

use crate::thread::atom::OperandName;
use tilewright_layout::{Composed, Layout, Value as Size};

use super::block_scales::{BLOCK, BlockScales, add_scaled};
use super::product::{Extras, WORD, argument, epilogue, of_batch};
use super::{Config, page};
use crate::build::Builder;
use crate::build::tiled::{Fill, Gathered, Scaling, SharedUses, Terms, TiledMma};
use crate::passes::pipeline::with_slots;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Cmp, Id};
use crate::tile::alternative::{Alternative, Policy, Width};
use crate::tile::view::{At, View};
use crate::tile::{Expr, How, Program, Raster};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::target::Target;
use groups::{fill_scales, scales_side};
pub(super) use plan::{MOST_SUMS, Plan, Usual, others, sums, unfit, usual};
pub(super) use ring::BULK;

/// Bytes of the widest copy.
const WIDE: i64 = 16;
/// Rows of C in a band of the raster order.
pub(super) const BAND: i64 = 2048;
/// Elements of C in tiles that have a separate variant for sizes which they divide.
const LARGE: i64 = 128 * 128;

/// The programs of a plan, from bulk copies and copies of 16 bytes to copies of single elements.
/// With `competes` other programs serve the same launches.
pub(super) fn programs(c: &Config, plan: &Plan, competes: bool) -> Result<Vec<(Program, Width)>> {
    let ring = by_ring(c, plan, false, competes)?;
    let mut all: Vec<_> = ring.into_iter().map(|program| (program, Width::ONE)).collect();
    let mut copies = copies(c, plan);
    if !competes {
        copies.dedup_by_key(|(width, _)| *width);
    }
    for (width, plan) in copies {
        all.push((by_copies(c, &plan, [width, width], competes)?, Width { reads: width, writes: width }));
    }
    Ok(all)
}

/// The widths of copies in bytes, and the plan of each. Narrow copies have a smaller tile too, for products that larger tiles do
/// not spread over all multiprocessors.
fn copies(c: &Config, plan: &Plan) -> Vec<(i64, Plan)> {
    let bytes = i64::from(c.dtype.bytes().min(c.b_dtype.bytes()));
    // Guards and addresses of narrow copies take registers, which further inputs of the epilogue need as well, and zero
    // points, which are copied and subtracted beside scales. Beside wgmma, only small products have narrow copies.
    let many = c.bias.is_some() || c.alpha_beta || c.has_matrices() || c.zeros || c.arch >= ring::BULK;
    let mut widths: Vec<i64> = [WIDE, WORD, bytes].into_iter().filter(|width| *width >= bytes).collect();
    widths.dedup();
    let mut all = Vec::new();
    for width in widths {
        if width > WORD || width > bytes && !many {
            all.push((width, plan.clone()));
        }
        if width <= WORD {
            all.push((width, plan.narrow(c)));
        }
    }
    all
}

/// Bytes of shared memory for the tiles of all programs, with the padding of their layouts.
pub(super) fn bytes_of_copies(c: &Config, plan: &Plan) -> Result<i64> {
    let bytes = |(width, plan): (i64, Plan)| -> Result<i64> {
        let mut all = c.bytes_of_scales(plan.tile[1], plan.tile[2], plan.parts()) * plan.stages;
        for (name, elem, by_rows) in [("a", c.dtype, c.a_rows), ("b", c.b_dtype, c.b_rows)] {
            let (_, layout) = filled(c, (&plan, width), (name, elem, by_rows))?;
            all += with_slots(&layout, plan.stages)?.cosize()? * i64::from(elem.bytes());
        }
        Ok(all)
    };
    copies(c, plan).into_iter().try_fold(0, |most, copy| Ok(most.max(bytes(copy)?)))
}

/// The programs of several plans, among which a launch chooses. The last plan, for large products, serves every launch,
/// with the narrower copies; the others are for rows of operands that are aligned.
pub(super) fn among(c: &Config, plans: &[Plan]) -> Result<(Program, Vec<Alternative>)> {
    let (usual, others) = plans.split_last().ok_or_else(|| Problem::new("there is no plan"))?;
    let competes = !others.is_empty();
    let mut all = programs(c, usual, competes)?;
    let (wide, _) = all.remove(0);
    if !wide.rings.is_empty() {
        // Copies of 16 bytes by threads need no less.
        all.remove(0);
    }
    let (mut more, mut narrow) = (Vec::new(), Vec::new());
    for plan in others {
        // Copies of single elements of eight bytes are asynchronous too.
        if c.dtype.bytes() > 4 {
            let program = by_copies(c, plan, [c.dtype.bytes().into(); 2], true)?;
            narrow.push(Alternative::new(program, vec![Policy::Small]));
        }
        more.push(match by_ring(c, plan, false, true)? {
            Some(program) => Alternative::new(program, vec![Policy::Aligned]),
            None => {
                // Guards take a twentieth of the time of large tiles.
                let large = plan.tile[0] * plan.tile[1] >= LARGE;
                let policies =
                    if large { vec![Policy::Best, Policy::Aligned] } else { vec![Policy::Aligned] };
                Alternative::new(by_copies(c, plan, [WIDE, WIDE], true)?, policies).wide(Width::WIDEST)
            }
        });
    }
    more.extend(direct(c, plans, competes)?);
    more.extend(narrow);
    more.extend(Alternative::narrower(all));
    Ok((wide, more))
}

/// Programs for a C whose rows need not be aligned: single elements are stored, adjacent ones by adjacent threads.
fn direct(c: &Config, plans: &[Plan], competes: bool) -> Result<Vec<Alternative>> {
    let mut all = Vec::new();
    for (place, plan) in plans.iter().enumerate() {
        let (square, usual) = (plan.tile[0] == plan.tile[1], place + 1 == plans.len());
        if !square && !usual || plan.parts() > 1 {
            continue;
        }
        // Guards and addresses of copies by threads need registers, which more accumulators do not leave free. Beside a ring,
        // this concerns only converted weights.
        let sums = plan.tile[0] * plan.tile[1] / plan.mma.threads()?;
        let by_ring = if c.mixed() && sums >= 64 { None } else { by_ring(c, plan, true, competes)? };
        if let Some(program) = by_ring {
            all.push(Alternative::new(program, vec![Policy::Small]));
        } else if !usual && sums <= 64 && plan.has_epilogue_tile(c, 1)? {
            let program = by_copies(c, plan, [WIDE, c.out.bytes().into()], true)?;
            all.push(Alternative::new(program, vec![Policy::Aligned]).wide(Width::READS));
        }
    }
    Ok(all)
}

/// The programs with rings of several plans for operands that are always copied, to rows along K.
pub(super) fn of_copies(c: &Config, plans: &[Plan]) -> Result<Vec<Alternative>> {
    let mut all = Vec::new();
    for plan in plans.iter().rev().filter(|plan| plan.parts() == 1) {
        let program = by_ring(c, plan, false, true)?;
        all.extend(program.map(|program| Alternative::new(program, vec![Policy::Aligned])));
    }
    if !all.is_empty() {
        all.extend(direct(c, plans, true)?);
    }
    Ok(all)
}

/// The program with a ring that bulk copies fill, if there is one. With `direct`, threads store C.
fn by_ring(c: &Config, plan: &Plan, direct: bool, competes: bool) -> Result<Option<Program>> {
    Ok(ring::program(c, plan, direct)?.map(|program| Program { competes, ..program }))
}

/// Is there a program with a ring?
pub(super) fn has_ring(c: &Config, plan: &Plan) -> bool {
    matches!(by_ring(c, plan, false, false), Ok(Some(_)))
}

/// The program with copies of `widths` bytes, of operands and of C.
fn by_copies(c: &Config, plan: &Plan, widths: [i64; 2], competes: bool) -> Result<Program> {
    if plan.is_function(c) {
        let by = page::By::Warps(plan);
        let mut program = page::program(&page::page(c, &[by])?, c, by)?;
        program.competes = competes;
        let is_operand = |id: &Id| ["a", "b"].contains(&&*program.tensor(*id).name);
        if competes && widths[0] == WIDE && c.arch < ring::BULK {
            program.packs = (0..program.tensors.len() as Id).filter(is_operand).collect();
        }
        return Ok(program);
    }
    let mut b = Builder::new(&c.name);
    product(&mut b, c, plan, widths, competes)?;
    if competes {
        b.competes();
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

/// The tiles of an operand: in global memory, one for each iteration, and the one in shared memory. `which` is 0 for the
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
    // Out-of-bounds rows only affect accumulators that are not stored.
    let from = from.wrapped(0);
    let elem = b.elem(view);
    let (fill, layout) = filled(c, (plan, width), (name, elem, by_rows))?;
    let to = b.shared(&format!("s{name}"), elem, layout)?;
    Ok(Side { from, to, fill })
}

/// How an operand's tile is copied, and its layout in shared memory.
fn filled(
    c: &Config,
    (plan, width): (&Plan, i64),
    (name, elem, by_rows): (&str, Elem, bool),
) -> Result<(Fill, Composed)> {
    let (of_b, which) = (name == "b", usize::from((name == "b") == c.a_left));
    let along_k = if of_b { c.k_of_b(plan.tile[2]) } else { plan.tile[2] };
    let tile = [c.operands_of(plan.tile)[which], along_k];
    let fill = fill(elem, plan, tile, by_rows, width)?;
    let layout = match c.of_tiles {
        None => {
            let uses = SharedUses::new(elem, tile, by_rows.into())?.filled(&fill)?;
            uses.multiplied(&plan.mma, [OperandName::A, OperandName::B][which])?.layout()?
        }
        Some(swizzle) if by_rows => Composed::new(swizzle, 0, Layout::row_major((tile[0], tile[1]))?),
        Some(swizzle) => Composed::new(swizzle, 0, Layout::compact((tile[0], tile[1]))?),
    };
    Ok((fill, layout))
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
    let block = k.submode(BLOCK / plan.tile[2], None);
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

/// The program whose copies move `width` bytes of operands and `of_out` bytes of C at once. Where programs compete, operands
/// whose rows are not aligned may be packed first.
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
            let gathered = b.gathering("parts", &plan.mma, [left, right], plan.at_once(c), &filled)?;
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

/// A matrix argument, or this block's batch of it.
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

/// Why tiles with padded rows exceed shared memory, and the key that is wrong.
pub(super) fn exceeds(c: &Config, plan: &Plan) -> Option<(&'static str, Problem)> {
    let (room, bytes) = (i64::from(Target::of(c.arch).block_shared), bytes_of_copies(c, plan).ok()?);
    let message = format!(
        "{} stages of padded tiles take {bytes} bytes of shared memory, and a block has {room}",
        plan.stages
    );
    let problem = Problem::new(message).help("write fewer stages, or a smaller bk");
    (bytes > room).then_some(("stages", problem))
}
