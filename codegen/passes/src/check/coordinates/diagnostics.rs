//! Diagnostics of coordinates that do not match.

use tilewright_layout::Value;

use super::coordinate_function::Function;
use super::origin::{Axis, Coordinates, Through};
use super::product::{Mismatch, Side};
use super::store::Misplaced;
use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{Program, Stmt};
use crate::view_elements::Elements;

/// The span of an argument of the call that made a statement.
fn span_of(program: &Program, stmt: &Stmt, arg: usize) -> Span {
    program.arguments.get(&stmt.span).and_then(|all| all.get(arg)).copied().unwrap_or(stmt.span)
}

/// A mode of a user's tensor.
fn mode_of(program: &Program, (tensor, mode): (Id, usize)) -> String {
    format!("mode {mode} of `{}`", program.tensor(tensor).name)
}

fn along(extent: Value) -> String {
    format!("both along {extent}, counted from the tile's first element")
}

/// A product of elements that do not correspond.
pub(super) fn product(
    program: &Program,
    stmt: &Stmt,
    a: &Side<'_>,
    b: &Side<'_>,
    why: &Mismatch,
) -> Diagnostic {
    let (x, y) = (&a.coordinates.axes[why.pair.0], &b.coordinates.axes[why.pair.1]);
    let message = format!(
        "this product multiplies elements of different {}: at k-step {} of thread {}, `{}[{}]` is at {} along {}, and \
         `{}[{}]` is at {} along {} ({})",
        x.extent,
        why.step,
        why.at.thread,
        a.view.name,
        a.elements.coordinates(why.elements.0),
        why.at.ours,
        mode_of(program, x.of),
        b.view.name,
        b.elements.coordinates(why.elements.1),
        why.at.theirs,
        mode_of(program, y.of),
        along(x.extent),
    );
    // The operand whose second mode is not the contracted one.
    let not_along = |side: &Side<'_>, axis: &Axis<Function>| {
        format!("the second mode of `{}` does not run along {}", side.view.name, mode_of(program, axis.of))
    };
    let turned = |why: String, name: &str| {
        format!("{why}: operands are (rows, k) and (columns, k), as permute({name}, (1, 0)) is")
    };
    let (arg, help) = match why.along {
        (true, true) => (
            1,
            format!(
                "fill and partition `{}` and `{}` in the same way along {}, so that each thread has the same k-steps of both",
                a.view.name, b.view.name, x.extent
            ),
        ),
        (true, false) => (1, turned(not_along(b, y), &b.view.name)),
        (false, _) if why.steps == 1 => (
            1,
            format!("partition `{}` and `{}` in the same way along {}", a.view.name, b.view.name, x.extent),
        ),
        (false, true) => (0, turned(not_along(a, x), &a.view.name)),
        (false, false) => {
            let (a, b) = (not_along(a, x), not_along(b, y));
            (0, format!("{a}, and {b}: operands are (rows, k) and (columns, k)"))
        }
    };
    Diagnostic::error(span_of(program, stmt, arg), message).help(help)
}

/// A product that sums over two sizes.
pub(super) fn two_sizes(
    program: &Program,
    levels: &[(Name, Level)],
    stmt: &Stmt,
    [x, y]: [&Axis<Function>; 2],
) -> Option<Diagnostic> {
    let message = format!(
        "this product sums over {}, whose extent is {}, and over {}, whose extent is {}",
        mode_of(program, x.of),
        x.extent,
        mode_of(program, y.of),
        y.extent,
    );
    let help = format!(
        "give both extents one name, or declare that they are equal: assert({} == {})",
        x.extent, y.extent
    );
    let error = Diagnostic::error(span_of(program, stmt, 1), message).help(help);
    super::super::lint("contracted", levels, error)
}

/// The target of a store.
pub(super) struct Target<'t> {
    pub(super) view: &'t View,
    pub(super) elements: &'t Elements,
    /// For each mode of the tensor, its extent, and the coordinates of a thread's elements.
    pub(super) modes: &'t [(Value, Option<Function>)],
}

/// Elements that are stored to the wrong coordinates. It is a lint if no elements of different coordinates are combined.
pub(super) fn store(
    program: &Program,
    levels: &[(Name, Level)],
    stmt: &Stmt,
    target: &Target<'_>,
    coordinates: &Coordinates<Function>,
    lost: &Misplaced<'_>,
    starts_like: &mut dyn FnMut(&Function, &Function) -> bool,
) -> Option<Diagnostic> {
    let Target { view: to, elements, modes } = *target;
    let (axis, at) = (lost.axis, lost.at);
    let element = elements.coordinates(at.value);
    let (what, origin) = match (lost.moves, axis.through.operand) {
        (true, _) => ("has in its own tensor", "comes from"),
        (_, true) => ("was computed for", "is a sum of products at"),
        (_, false) => ("was computed for", "was computed from an element at"),
    };
    let message = format!(
        "an element is stored to other coordinates than it {what}: in thread {}, it {origin} {} along {}, and \
         `{}[{element}]` is at {} along {} ({})",
        at.thread,
        at.ours,
        mode_of(program, axis.of),
        to.name,
        at.theirs,
        mode_of(program, (to.tensor, lost.mode)),
        along(axis.extent),
    );
    let span = span_of(program, stmt, 0);
    let help = match program.derived.contains(&stmt.span) && !axis.through.operand {
        true => turned_tile(program, to, lost),
        false => remedy(program, to, modes, coordinates, lost, starts_like),
    };
    match lost.moves {
        true => super::super::lint("rearranged", levels, Diagnostic::error(span, message).help(help)),
        false => Some(Diagnostic::error(span, message).help(help)),
    }
}

/// The remedy for a whole tile: its modes in another order.
fn turned_tile(program: &Program, to: &View, lost: &Misplaced<'_>) -> String {
    let (view, (tensor, _)) = (&lost.axis.through.view, lost.axis.of);
    let modes = |id: Id| program.tensor(id).plain().rank();
    match (modes(tensor), to.rank() == modes(to.tensor)) {
        (1, true) => format!("make the vector of `{view}` run along that mode: along({})", lost.mode),
        (1, false) => format!(
            "make the vector of `{view}` run along that mode of `{}`, by along(0) or along(1)",
            to.name
        ),
        _ => format!(
            "write the modes of `{view}` in the order of the modes of `{}`, as by permute(tile, (1, 0))",
            to.name
        ),
    }
}

/// The likely cause: an operand with the projection that belongs to the other.
fn remedy(
    program: &Program,
    to: &View,
    target: &[(Value, Option<Function>)],
    coordinates: &Coordinates<Function>,
    lost: &Misplaced<'_>,
    starts_like: &mut dyn FnMut(&Function, &Function) -> bool,
) -> String {
    // Operands that are partitioned like another mode of the target.
    let mut wrong: Vec<(usize, &Through)> = Vec::new();
    for axis in coordinates.axes.iter().filter(|axis| axis.through.operand) {
        let own = target.iter().position(|(extent, _)| *extent == axis.extent);
        let (Some(at), Some(own)) = (&axis.at, own) else { continue };
        let mut like = |mode: usize| target[mode].1.as_ref().is_some_and(|mode| starts_like(at, mode));
        if !like(own) && (0..target.len()).any(|mode| mode != own && like(mode)) {
            wrong.push((own, &axis.through));
        }
    }
    let write = |(mode, through): &(usize, &Through)| {
        let modes: Vec<&str> = (0..target.len()).map(|at| if at == *mode { "1" } else { "_" }).collect();
        format!("({}) for `{}`", modes.join(", "), program.tensor(through.tensor).name)
    };
    let lost_through = &lost.axis.through;
    let twice = lost.rival.filter(|rival| rival.through.operand && rival.of == lost.axis.of);
    match (&wrong[..], lost_through.operand) {
        (_, true) if twice.is_some() => format!(
            "both operands of the product are parts of `{}`: one of them should be a part of another tensor",
            program.tensor(lost.axis.of.0).name
        ),
        ([x, y], true) => format!(
            "`{}` and `{}` are each partitioned over the other's mode of the thread layout of `{}`: write {} and {}, \
             with one thread layout for all three",
            x.1.view,
            y.1.view,
            to.name,
            write(x),
            write(y)
        ),
        ([x], true) => format!(
            "`{}` is partitioned over the other operand's mode of the thread layout of `{}`: write {}",
            x.1.view,
            to.name,
            write(x)
        ),
        (_, true) => format!(
            "partition `{}` and `{}` by the same thread layout, the operand with a projection on the mode that it shares",
            lost_through.view, to.name
        ),
        (_, false) => {
            let other = lost.rival.filter(|rival| !rival.through.operand);
            format!(
                "partition `{}` and `{}` by the same thread layout",
                lost_through.view,
                other.map_or(to.name.as_str(), |rival| &rival.through.view)
            )
        }
    }
}
