//! The programs of a product on tensor cores by mma.sync: which plans are copied by threads or in bulk, in which widths, and under
//! which assumptions a launch chooses among them.
//!
//! If columns of C are contiguous, the transposed product is computed: adjacent accumulators of a thread are then adjacent in C.
//! Tiles that suit only the other product are stored element by element.

mod plan;
mod ring;

use super::plan::Plan;
use super::product::WORD;
use super::{Config, Made, page};
use crate::isa::atom::Atom;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::Program;
use crate::tile::alternative::{Alternative, Policy, Width};
pub(super) use plan::{MOST_SUMS, Usual, others, sums, unfit, usual};
pub(super) use ring::{BULK, bulk};

/// Bytes of the widest copy.
const WIDE: i64 = 16;
/// Elements of C in tiles that have a separate variant for sizes which they divide.
const LARGE: i64 = 128 * 128;

/// The programs of a plan whose threads copy operands, from 16 bytes at once to single elements. With `competes` other programs
/// serve the same launches.
pub(super) fn by_threads(c: &Config, plan: &Plan, competes: bool) -> Made<Vec<(Program, Width)>> {
    let mut copies = copies(c, plan);
    if !competes {
        copies.dedup_by_key(|(width, _)| *width);
    }
    let of = |(width, plan): (i64, Plan)| {
        Ok((by_copies(c, &plan, width, competes)?, Width { reads: width, writes: width }))
    };
    copies.into_iter().map(of).collect()
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

/// The programs of several plans, among which a launch chooses. The last plan, for large products, serves every launch,
/// with the narrower copies; the others are for rows of operands that are aligned.
pub(super) fn among(c: &Config, plans: &[Plan]) -> Made<(Program, Vec<Alternative>)> {
    let (usual, others) = plans.split_last().ok_or_else(|| Problem::new("there is no plan"))?;
    let competes = !others.is_empty();
    // Copies of 16 bytes by threads need no less than bulk copies.
    let (wide, copies) = (widest(c, usual, competes)?, by_threads(c, usual, competes)?.split_off(1));
    let mut more = Vec::new();
    for plan in others {
        // Guards of copies by threads take a twentieth of the time of large tiles.
        let large = bulk(c, plan).is_none() && plan.tile[0] * plan.tile[1] >= LARGE;
        let policies = if large { vec![Policy::Best, Policy::Aligned] } else { vec![Policy::Aligned] };
        more.push(Alternative::new(widest(c, plan, true)?, policies).wide(Width::WIDEST));
    }
    more.extend(direct(c, plans, competes)?);
    if let Some(row) = usual.row.filter(|_| competes) {
        more.extend(single(c, row)?);
    }
    more.extend(Alternative::narrower(copies));
    Ok((wide, more))
}

/// The programs whose threads copy single elements of operands.
pub(super) fn single(c: &Config, row: &'static Atom) -> Made<Vec<Alternative>> {
    let of = |plan: &Plan| {
        let program = by_copies(c, plan, c.dtype.bytes().into(), true)?;
        Ok(Alternative::new(program, vec![Policy::Small]))
    };
    plan::single(c, row).iter().map(of).collect()
}

/// Programs for a C whose rows need not be aligned: single elements are stored, adjacent ones by adjacent threads.
fn direct(c: &Config, plans: &[Plan], competes: bool) -> Made<Vec<Alternative>> {
    let mut all = Vec::new();
    for (place, plan) in plans.iter().enumerate() {
        let (square, usual) = (plan.tile[0] == plan.tile[1], place + 1 == plans.len());
        if !square && !usual || plan.parts() > 1 {
            continue;
        }
        // Guards and addresses of copies by threads need registers, which more accumulators do not leave free. Beside a ring,
        // this concerns only converted weights.
        let sums = plan.tile[0] * plan.tile[1] / plan.threads();
        let by_ring = if c.mixed() && sums >= 64 { None } else { by_ring(c, plan, competes)? };
        if let Some(program) = by_ring {
            all.push(Alternative::new(program, vec![Policy::Small]).wide(Width::ONE));
        } else if !usual && sums <= 64 && plan.has_epilogue_tile(c) {
            let program = by_copies(c, plan, WIDE, true)?;
            all.push(Alternative::new(program, vec![Policy::Aligned]).wide(Width::READS));
        }
    }
    Ok(all)
}

/// The programs with rings of several plans for operands that are always copied, to rows along K.
pub(super) fn of_copies(c: &Config, plans: &[Plan]) -> Made<Vec<Alternative>> {
    let whole_k = plans.iter().rev().filter(|plan| plan.parts() == 1);
    let rings = whole_k.filter_map(|plan| by_ring(c, plan, true).transpose());
    let mut all = rings.map(|program| program.map(Alternative::aligned)).collect::<Made<Vec<_>>>()?;
    if !all.is_empty() {
        all.extend(direct(c, plans, true)?);
    }
    Ok(all)
}

/// The program for rows of operands that are aligned: by bulk copies, or else by copies of 16 bytes.
pub(super) fn widest(c: &Config, plan: &Plan, competes: bool) -> Made<Program> {
    by_copies(c, bulk(c, plan).as_ref().unwrap_or(plan), WIDE, competes)
}

/// The program with a ring that bulk copies fill, if there is one.
fn by_ring(c: &Config, plan: &Plan, competes: bool) -> Made<Option<Program>> {
    bulk(c, plan).map(|plan| by_copies(c, &plan, WIDE, competes)).transpose()
}

/// The program with copies of `width` bytes of operands. Where programs compete, operands whose rows are not aligned may be packed first.
fn by_copies(c: &Config, plan: &Plan, width: i64, competes: bool) -> Made<Program> {
    let mut program = page::programs(c, std::slice::from_ref(plan))?.remove(0);
    program.competes = competes;
    let is_operand = |id: &Id| ["a", "b"].contains(&&*program.tensor(*id).name);
    if competes && width == WIDE && c.arch < ring::BULK {
        program.packs = (0..program.tensors.len() as Id).filter(is_operand).collect();
    }
    Ok(program)
}
