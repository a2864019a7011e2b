//! Elements that a kernel leaves out: loops over fewer tiles than their tensor has, and tiles that are shorter than an
//! unbounded extent. A mode of a tensor is judged by all accesses to it: one that may reach its end is enough.

use tilewright_layout::{Symbol, Value};

use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Arg, Op, Program, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

/// How far an access goes along a mode.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reach {
    /// Perhaps to its end, or one element alone, as the author chose it.
    Any,
    /// Up to this number of elements, by one tile.
    Tile(i128),
    /// Up to this number of elements, by the iterations of a loop.
    Loop(Id, i128),
    /// Up to the end of whole tiles of `over` elements, or of a loop's tiles with `step` elements for each.
    Rounded { var: Id, over: i64, step: i64, up: bool },
}

/// A limited access.
struct Access<'p> {
    reach: Reach,
    span: Span,
    view: &'p View,
}

/// One finding for each size at whose end no access arrives.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let views = |stmt| Stmt::accesses(stmt).map(|view| (stmt.span, view));
    let views: Vec<(Span, &View)> = preorder(&program.body).flat_map(views).collect();
    let (mut diagnostics, mut known) = (Vec::new(), Vec::new());
    for arg in &program.args {
        let Arg::Tensor(id) = arg else { continue };
        let tensor = program.tensor(*id);
        for (mode, (extent, _)) in tensor.plain().leaves().enumerate() {
            let Value::Sym { times: 1, of, over: 1 } = extent else { continue };
            let accesses: Option<Vec<Access<'_>>> = views
                .iter()
                .filter(|(_, view)| view.tensor == *id)
                .map(|(span, view)| match reach(program, view, mode, of) {
                    Reach::Any => None,
                    reach => Some(Access { reach, span: *span, view }),
                })
                .collect();
            let far = |access: &Access<'_>| match access.reach {
                Reach::Any => 0,
                Reach::Tile(reach) | Reach::Loop(_, reach) => reach,
                Reach::Rounded { .. } => i128::MAX,
            };
            let farthest = accesses.into_iter().flatten().max_by_key(far);
            let short = |access: &Access<'_>| far(access) == i128::MAX || far(access) < most(program, of);
            let Some(access) = farthest.filter(short) else { continue };
            // Tensors that share the size are left out alike.
            if !known.contains(&(of, access.reach)) {
                known.push((of, access.reach));
                diagnostics.extend(finding(program, &access, mode, of, levels));
            }
        }
    }
    diagnostics
}

fn finding(
    program: &Program,
    access: &Access<'_>,
    mode: usize,
    of: Symbol,
    levels: &[(Name, Level)],
) -> Option<Diagnostic> {
    let extent = program.written(Value::Sym { times: 1, of, over: 1 });
    let tensor = &program.tensor(access.view.tensor).name;
    let name = |var: Id| &program.vars[var as usize].name;
    let along = match program.tensor(access.view.tensor).rank() {
        1 => String::new(),
        _ => format!(" along mode {mode}"),
    };
    let (lint, var, message, help) = match access.reach {
        Reach::Any => return None,
        Reach::Tile(reach) => (
            "unbounded",
            None,
            format!(
                "`{tensor}` is used up to element {reach}{along}, and {extent} has no upper bound: later elements are left out"
            ),
            format!(
                "bound it, at_most({extent}, {reach}), or loop over all tiles: `_` as their coordinate, and for k in 0..tiles.size({})",
                program.tensor(access.view.tensor).rank()
            ),
        ),
        Reach::Loop(var, _) if is_empty(program, var) => (
            "covered",
            Some(var),
            format!(
                "`{}` counts upwards, and its last value would be below its first: the loop has no iteration",
                name(var)
            ),
            format!(
                "to count down from {extent}, write for i in 0..{extent} {{ let {} = {extent} - 1 - i; … }}",
                name(var)
            ),
        ),
        Reach::Loop(var, reach) => (
            "covered",
            Some(var),
            format!(
                "`{}` loops over {reach} elements of `{tensor}`{along}, and {extent} has no upper bound: later elements are left out",
                name(var)
            ),
            format!(
                "loop over the mode that counts the tiles along `_`, the one after the tile's own modes: 0..t.size({}); or bound the extent, at_most({extent}, {reach})",
                program.tensor(access.view.tensor).rank()
            ),
        ),
        Reach::Rounded { var, over, up: false, .. } => (
            "covered",
            Some(var),
            format!(
                "`{}` ends at {extent} / {over}, rounded down: the last {extent} % {over} elements of `{tensor}` are left out",
                name(var)
            ),
            format!(
                "round up, ceil_div({extent}, {over}): out-of-bounds elements are read as 0 and not written; or declare that {over} divides it: assert({extent} % {over} == 0)"
            ),
        ),
        Reach::Rounded { var, over, step, .. } => (
            "covered",
            Some(var),
            format!(
                "`{}` counts pieces of {over} elements of {extent}, and `{tensor}` is taken in steps of {step}: the rest is left out",
                name(var)
            ),
            format!("write ceil_div({extent}, {step})"),
        ),
    };
    let is_loop = |stmt: &&Stmt| match stmt.op {
        Op::For { var: of, .. } => Some(of) == var,
        _ => false,
    };
    let at = preorder(&program.body).find(is_loop).map_or(access.span, |stmt| stmt.span);
    super::lint(lint, levels, Diagnostic::error(at, message).help(help))
}

/// Has a loop no iteration, whatever the sizes?
fn is_empty(program: &Program, var: Id) -> bool {
    let of = &program.vars[var as usize];
    of.to.plus(&of.from, -1).is_some_and(|count| program.range(&count).hi <= 0)
}

/// How far a view goes along a mode of its tensor, whose extent is a size.
fn reach(program: &Program, view: &View, mode: usize, extent: Symbol) -> Reach {
    let base = &view.base[mode];
    let (mut own, mut counts) = (1, false);
    for (count, stride) in view.layout.leaves() {
        match (count, stride) {
            (Value::Int(n), Value::Basis { times, path }) if usize::from(path.steps()[0]) == mode => {
                own += i128::from(n - 1) * i128::from(times.max(0));
                counts |= n > 1;
            }
            (_, Value::Basis { path, .. }) if usize::from(path.steps()[0]) == mode => return Reach::Any,
            _ => {}
        }
    }
    let mut looped = None;
    for (coord, factor) in &base.terms {
        match coord {
            Coord::Var(var) if *factor > 0 => {
                let of = &program.vars[*var as usize];
                match ends(program, &of.to, extent) {
                    End::At => looped = Some(*var),
                    End::Up(over) if i64::from(over) <= *factor => return Reach::Any,
                    End::Up(over) => {
                        return Reach::Rounded { var: *var, over: over.into(), step: *factor, up: true };
                    }
                    End::Down(over) if over == *factor => {
                        return Reach::Rounded { var: *var, over, step: *factor, up: false };
                    }
                    End::Down(_) | End::Other => return Reach::Any,
                }
            }
            coord if is_of_thread(coord) => counts = true,
            _ => return Reach::Any,
        }
    }
    let reach = program.range(base).hi.saturating_add(own);
    match looped {
        Some(var) => Reach::Loop(var, reach),
        None if counts => Reach::Tile(reach),
        None => Reach::Any,
    }
}

fn is_of_thread(coord: &Coord) -> bool {
    match coord {
        Coord::Thread(_) | Coord::Swizzled(..) => true,
        Coord::Submode { of, .. } => of.terms.iter().all(|(coord, _)| is_of_thread(coord)),
        _ => false,
    }
}

/// Where a loop ends, in terms of the extent.
enum End {
    /// At a number.
    At,
    /// At the extent divided and rounded up.
    Up(u32),
    /// At the extent divided and rounded down, which need not be exact.
    Down(i64),
    Other,
}

fn ends(program: &Program, to: &Affine, extent: Symbol) -> End {
    let alike = |of: Symbol| {
        let own = |of| program.canonical(Value::Sym { times: 1, of, over: 1 });
        own(of) == own(extent)
    };
    match (&to.terms[..], to.constant) {
        ([], _) => End::At,
        ([(Coord::Size { of, over }, 1)], 0) if alike(*of) => End::Up(*over),
        ([(Coord::Submode { of, over, extent: None }, 1)], 0) => {
            match (of.size(), program.divisor(of) % over) {
                (_, 0) => End::Other,
                (Some(Value::Sym { times: 1, of, over: 1 }), _) if alike(of) => End::Down(*over),
                _ => End::Other,
            }
        }
        _ => End::Other,
    }
}

/// The largest value of a size by all that the kernel asserts.
fn most(program: &Program, of: Symbol) -> i128 {
    let size = |of: Value| program.range(&of.into()).hi;
    let own = Value::Sym { times: 1, of, over: 1 };
    let mut most = size(own).min(size(program.canonical(own)));
    for require in &program.requires {
        let bound = match &require.test {
            Test::Equal(_, computed) if require.of == Some(of) => program.range(computed).hi,
            Test::Less(a, b) if a.size() == Some(own) => program.range(b).hi.saturating_sub(1),
            Test::Not(test) => match &**test {
                Test::Less(b, a) if a.size() == Some(own) => program.range(b).hi,
                _ => continue,
            },
            _ => continue,
        };
        most = most.min(bound);
    }
    most
}
