//! What is said about coordinates that do not fit.

use tilewright_layout::Value;

use super::elements::Elements;
use super::function::Function;
use super::origin::{Axis, Stands};
use super::product::{Mismatch, Side};
use super::store::Misplaced;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::{Op, Program, Stmt};
use crate::view::View;

/// The place of an argument of the call that made a statement.
fn place(program: &Program, stmt: &Stmt, arg: usize) -> Span {
    program.arguments.get(&stmt.span).and_then(|all| all.get(arg)).copied().unwrap_or(stmt.span)
}

/// `a_0`: a coordinate of a user's tensor.
fn coordinate(program: &Program, (tensor, mode): (Id, usize)) -> String {
    format!("{}_{mode}", program.tensor(tensor).name)
}

fn along(extent: Value) -> String {
    format!("both along {extent}, counted from the tile's first element")
}

/// A product of elements that do not belong together.
pub(super) fn product(
    program: &Program,
    stmt: &Stmt,
    a: &Side<'_>,
    b: &Side<'_>,
    why: &Mismatch,
) -> Diagnostic {
    let (x, y) = (&a.stands.axes[why.pair.0], &b.stands.axes[why.pair.1]);
    let message = format!(
        "this product multiplies elements of different {}: at k-step {} of thread {}, `{}[{}]` has `{}` = {}, and \
         `{}[{}]` has `{}` = {} ({})",
        x.extent,
        why.step,
        why.at.thread,
        a.view.name,
        a.elements.coordinates(why.elements.0),
        coordinate(program, x.of),
        why.at.ours,
        b.view.name,
        b.elements.coordinates(why.elements.1),
        coordinate(program, y.of),
        why.at.theirs,
        along(x.extent),
    );
    // The operand whose second mode is not what the other sums over.
    let (arg, help) = match why.along {
        (false, true) => (0, turned(a, x, program)),
        (true, false) => (1, turned(b, y, program)),
        _ => (
            1,
            format!(
                "`{}` and `{}` need the same k-steps in every thread: fill and partition both along {} alike",
                a.view.name, b.view.name, x.extent
            ),
        ),
    };
    Diagnostic::error(place(program, stmt, arg), message).help(help)
}

fn turned(side: &Side<'_>, axis: &Axis<Function>, program: &Program) -> String {
    format!(
        "the second mode of `{}` does not run along `{}`: operands are (rows, k) and (columns, k)",
        side.view.name,
        coordinate(program, axis.of)
    )
}

/// What is stored, as the user calls it.
fn stored<'s>(stmt: &'s Stmt) -> Option<&'s View> {
    match &stmt.op {
        Op::Copy { from, .. } => Some(from),
        Op::Map { ins, .. } => ins.first(),
        _ => None,
    }
}

/// Elements that are stored where they do not belong.
pub(super) fn store(
    program: &Program,
    stmt: &Stmt,
    (to, elements, target): (&View, &Elements, &[(Value, Option<Function>)]),
    stands: &Stands<Function>,
    lost: &Misplaced<'_>,
    starts_like: &mut dyn FnMut(&Function, &Function) -> bool,
) -> Diagnostic {
    let from = stored(stmt).map_or(to.name.as_str(), |view| view.name.as_str());
    let (axis, at) = (lost.axis, lost.at);
    let element = elements.coordinates(at.value);
    let made = match &axis.operand {
        Some(_) => "is a sum of products with",
        None => "was computed from an element with",
    };
    let message = format!(
        "`{from}` is stored to other coordinates than it was computed for: in thread {}, `{from}[{element}]` {made} \
         `{}` = {}, and `{}[{element}]` has `{}` = {} ({})",
        at.thread,
        coordinate(program, axis.of),
        at.ours,
        to.name,
        coordinate(program, (to.tensor, lost.mode)),
        at.theirs,
        along(axis.extent),
    );
    let help = remedy(program, to, target, stands, lost, starts_like);
    Diagnostic::error(place(program, stmt, 0), message).help(help)
}

/// The likely cause: an operand with the projection that belongs to the other.
fn remedy(
    program: &Program,
    to: &View,
    target: &[(Value, Option<Function>)],
    stands: &Stands<Function>,
    lost: &Misplaced<'_>,
    starts_like: &mut dyn FnMut(&Function, &Function) -> bool,
) -> String {
    // Operands that are partitioned as another mode of the target is.
    let mut wrong: Vec<(usize, String, Id)> = Vec::new();
    for axis in &stands.axes {
        let (Some(at), Some(operand)) = (&axis.at, &axis.operand) else { continue };
        let own = target.iter().position(|(extent, _)| *extent == axis.extent);
        let Some(own) = own else { continue };
        let mut like = |mode: usize| target[mode].1.as_ref().is_some_and(|mode| starts_like(at, mode));
        if !like(own) && (0..target.len()).any(|mode| mode != own && like(mode)) {
            wrong.push((own, operand.view.to_string(), operand.tensor));
        }
    }
    let write = |(mode, _, tensor): &(usize, String, Id)| {
        let modes: Vec<&str> = (0..target.len()).map(|at| if at == *mode { "1" } else { "_" }).collect();
        format!("({}) for `{}`", modes.join(", "), program.tensor(*tensor).name)
    };
    match (&wrong[..], &lost.axis.operand, lost.rival) {
        ([x, y], ..) => format!(
            "the projections of `{}` and `{}` are swapped: write {} and {}",
            x.1,
            y.1,
            write(x),
            write(y)
        ),
        ([x], ..) => {
            format!("`{}` has the projection of the other operand: write {}", x.1, write(x))
        }
        (_, None, Some(rival)) => format!(
            "partition `{}` and `{}` by the same thread layout",
            program.tensor(lost.axis.of.0).name,
            program.tensor(rival.of.0).name
        ),
        (_, None, None) => format!(
            "partition `{}` and `{}` by the same thread layout",
            program.tensor(lost.axis.of.0).name,
            to.name
        ),
        (_, Some(operand), _) => format!(
            "partition `{}` and `{}` by the same thread layout, the operand with a projection on the mode that it shares",
            operand.view, to.name
        ),
    }
}
