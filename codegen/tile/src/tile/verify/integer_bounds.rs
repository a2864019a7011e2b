//! Integers of the kernel among elements, which are `i32`. Integers that some sizes would make wider are bounded at launch.

use super::text;
use crate::source::problem::{Problem, Result};
use crate::tile::range::Range;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Require, Stmt};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::condition::Test;
use crate::values::expr::Expr;

/// One more than the largest `i32`.
const LIMIT: i64 = 1 << 31;

/// The integers of a statement's functions that are neither converted directly nor compared with one another.
pub(super) fn of_statement(stmt: &Stmt) -> Vec<&Affine> {
    let mut left: Vec<&Expr> = match &stmt.op {
        Op::Map { value, .. } => vec![value],
        Op::If { test, .. } => test.scalars(),
        _ => Vec::new(),
    };
    let mut result = Vec::new();
    while let Some(value) = left.pop() {
        match value {
            Expr::Cast(_, inner) if matches!(**inner, Expr::Index(_)) => {}
            Expr::Cmp(_, x, y) if Expr::compared(x, y).is_some() => {}
            Expr::Index(at) => result.push(&**at),
            other => left.extend(other.parts()),
        }
    }
    result
}

/// Refuses an integer that is too wide at any size.
pub(super) fn check(program: &Program, at: &Affine) -> Result<()> {
    let Some(range) = wide(program, at) else { return Ok(()) };
    let is_least = |require: &Require| require.test.is_true(&|_| Some(1));
    match requires(program, at).iter().all(is_least) {
        true => Ok(()),
        false => Err(Problem::new(format!(
            "{} is an i32 among elements, and it can be {} to {}",
            text(program, at),
            range.lo,
            range.hi
        ))
        .help(bounding(at))),
    }
}

/// The checks of a launch that give integers among elements 32 bits.
pub fn at_launch(program: &Program) -> Vec<Require> {
    let mut all: Vec<Require> = Vec::new();
    for stmt in preorder(&program.body) {
        for require in of_statement(stmt).into_iter().flat_map(|at| requires(program, at)) {
            if !all.contains(&require) {
                all.push(require);
            }
        }
    }
    all
}

/// The remedy for a number that is too large: how to bound it.
pub(super) fn bounding(at: &Affine) -> String {
    let mut sizes: Vec<&str> = Vec::new();
    for size in at.symbols() {
        if !sizes.contains(&size.name()) {
            sizes.push(size.name());
        }
    }
    match &sizes[..] {
        [] => "bound what it is computed from, such as min(n, 65536) of an element or an argument".into(),
        [one] => format!("bound the size in it, such as at_most({one}, 65536)"),
        all => format!("bound a size in it, {}, such as at_most({}, 65536)", all.join(" or "), all[0]),
    }
}

/// The range of an integer that may need more than 32 bits.
fn wide(program: &Program, at: &Affine) -> Option<Range> {
    Some(program.range(&of_sizes(program, at))).filter(|range| !range.is_narrow())
}

fn requires(program: &Program, at: &Affine) -> Vec<Require> {
    let Some(range) = wide(program, at) else { return Vec::new() };
    let kept = of_sizes(program, at);
    let shown = text(program, at).replace('`', "");
    let too_high = range.hi >= LIMIT.into();
    let high = too_high.then(|| end(program, &kept, true)).flatten().map(|hi| Require {
        test: Test::Less(hi, LIMIT.into()),
        text: format!("{shown} <= i32::MAX"),
        of: None,
    });
    let too_low = range.lo < -i128::from(LIMIT);
    let low = too_low.then(|| end(program, &kept, false)).flatten().map(|lo| Require {
        test: Test::Less(lo, (-LIMIT).into()).negated(),
        text: format!("{shown} >= i32::MIN"),
        of: None,
    });
    high.into_iter().chain(low).collect()
}

/// A sum without terms that depend on arguments or elements, also through bounds of loops. With these terms it wraps, as
/// arithmetic of their type does.
fn of_sizes(program: &Program, at: &Affine) -> Affine {
    let kept = at.terms.iter().filter(|(coord, _)| !is_given(program, &coord.clone().into()));
    Affine { constant: at.constant, terms: kept.cloned().collect() }
}

fn is_given(program: &Program, at: &Affine) -> bool {
    at.any(&|coord| match coord {
        Coord::Scalar(_) | Coord::Loaded { .. } => true,
        Coord::Var(var) => {
            let var = &program.vars[*var as usize];
            [&var.from, &var.to].into_iter().any(|at| is_given(program, at))
        }
        _ => false,
    })
}

/// The greatest or the least value of a sum, as a sum of sizes.
fn end(program: &Program, at: &Affine, greatest: bool) -> Option<Affine> {
    at.terms.iter().try_fold(Affine::from(at.constant), |sum, (coord, factor)| {
        let greatest = greatest == (*factor > 0);
        let range = program.range_of(coord);
        let known = i64::try_from(if greatest { range.hi } else { range.lo }).ok().map(Affine::from);
        // A coordinate that is not bounded by a sum of sizes is bounded by its range.
        sum.plus(&of_coord(program, coord, greatest).or(known)?, *factor)
    })
}

fn of_coord(program: &Program, coord: &Coord, greatest: bool) -> Option<Affine> {
    let end = |at: &Affine, greatest| end(program, at, greatest);
    let positive = |at: &Affine, least: i128| program.range(at).lo >= least;
    match coord {
        Coord::Size { .. } => Some(coord.clone().into()),
        Coord::Block(_) | Coord::Submode { extent: Some(_), .. } if !greatest => Some(0.into()),
        Coord::Block(axis) => {
            let axis = usize::from(*axis);
            let mut blocks = Affine::from(program.grid[axis]?);
            for more in &program.more[axis] {
                blocks = Affine::two(Arith::Mul, &blocks, &(*more).into())?;
            }
            // Blocks that fill the last cluster are included.
            blocks.plus(&(i64::from(program.cluster[axis].max(1)) - 2).into(), 1)
        }
        Coord::Var(var) => {
            let var = &program.vars[*var as usize];
            let from = end(&var.from, greatest)?;
            match greatest {
                false => Some(from),
                true => Affine::two(Arith::Max, &from, &end(&var.to, true)?.plus(&(-1).into(), 1)?),
            }
        }
        Coord::Submode { of, over, extent } if positive(of, 0) => {
            let quotient = Affine::two(Arith::Div, &end(of, greatest)?, &(*over).into())?;
            match extent {
                Some(extent) => Affine::two(Arith::Min, &quotient, &(extent - 1).into()),
                None => Some(quotient),
            }
        }
        Coord::Two(with, of) => {
            let [a, b] = &**of;
            match with {
                Arith::Mul if positive(a, 0) && positive(b, 0) => {
                    Affine::two(*with, &end(a, greatest)?, &end(b, greatest)?)
                }
                Arith::Div if positive(a, 0) && positive(b, 1) => {
                    Affine::two(*with, &end(a, greatest)?, &end(b, !greatest)?)
                }
                Arith::Min | Arith::Max => Affine::two(*with, &end(a, greatest)?, &end(b, greatest)?),
                Arith::Mul | Arith::Div | Arith::Rem => None,
            }
        }
        _ => None,
    }
}
