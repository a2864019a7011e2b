//! The verifier of tile programs before they are lowered, whatever made them: coordinates that fit 64 bits, and no
//! out-of-bounds access to an array in registers, which has no guards.
//! Front ends refuse most of this with a better span; lowering relies on it.

mod accesses;
mod clusters;
pub mod collective;
pub mod integer_bounds;
pub mod limits;
mod overlays;
pub mod structure;
pub mod unspecified;
mod whole;
mod work;

use tilewright_layout::Value;

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::alternative::Policy;
use crate::tile::range::{Range, most};
use crate::tile::view::View;
use crate::tile::{Op, Program, Space, Stmt};
use crate::values::affine::{Affine, Arith, Coord};

pub(crate) use clusters::of_cluster;
pub use whole::written_whole;

/// The most elements of a view that one thread accesses in a statement: each is a line of unrolled code.
const MOST_ELEMENTS: i128 = 1 << 16;

/// Checks a program whose pipelined loops are lowered, for a variant.
pub fn program(program: &Program, policy: Policy) -> std::result::Result<(), Diagnostic> {
    clusters::check(program)?;
    overlays::check(program)?;
    statements(program, &program.body, &mut Vec::new())?;
    collective::check(program)?;
    accesses::check(program, policy, &program.body)
}

/// The views of statements. `unrolled` are variables of fully unrolled loops around them.
fn statements(
    program: &Program,
    body: &[Stmt],
    unrolled: &mut Vec<Id>,
) -> std::result::Result<(), Diagnostic> {
    for stmt in body {
        work::check(program, stmt).map_err(|problem| problem.at(stmt.span))?;
        for view in stmt.accesses() {
            of_view(program, view, unrolled).map_err(|problem| problem.at(stmt.span))?;
        }
        if let Some((view, mode)) = stmt
            .writes()
            .into_iter()
            .find_map(|view| Some((view, view.clamped.iter().chain(&view.nearest).next()?)))
        {
            let reported = format!(
                "`{}` is written here, and its out-of-bounds coordinates along mode {mode} are clamped, so the last element would be written several times",
                view.name
            );
            let help = "clamp only views that are read; writes skip out-of-bounds elements anyway";
            return Err(Problem::new(reported).help(help).at(stmt.span));
        }
        for at in integer_bounds::of_statement(stmt) {
            integer_bounds::check(program, at).map_err(|problem| problem.at(stmt.span))?;
        }
        for at in stmt.integers() {
            integer(program, at).map_err(|problem| problem.at(stmt.span))?;
        }
        if let Op::For { var, .. } | Op::Step { var, .. } = &stmt.op {
            let var = &program.vars[*var as usize];
            for at in [&var.from, &var.to] {
                integer(program, at).map_err(|problem| problem.at(stmt.span))?;
            }
        }
        let known = unrolled.len();
        if let Op::For { var, unroll: Unroll::Full, .. } = &stmt.op {
            unrolled.push(*var);
        }
        for inner in stmt.bodies() {
            statements(program, inner, unrolled)?;
        }
        unrolled.truncate(known);
    }
    Ok(())
}

/// Preconditions of lowering for a number that is no coordinate of a view.
fn integer(program: &Program, at: &Affine) -> Result<()> {
    let range = program.range(at);
    if !range.is_wide() {
        return Err(Problem::new(format!(
            "this number can be {} or {}, and integers go from -2^62 to 2^62",
            range.lo, range.hi
        ))
        .help(integer_bounds::bounding(at)));
    }
    known_sizes(program, at)?;
    quotients(program, at)
}

/// Sizes must be extents and strides of arguments, which a launch determines.
fn known_sizes(program: &Program, at: &Affine) -> Result<()> {
    let used = at.symbols();
    if used.is_empty() {
        return Ok(());
    }
    let known = program.symbols();
    match used.into_iter().find(|of| !known.contains(of)) {
        Some(of) => Err(Problem::new(format!("`{}` is no extent or stride of an argument", of.name()))
            .help("use the sizes of tensors that the kernel is given")),
        None => Ok(()),
    }
}

/// Divisors must be positive, and the dividend of a number known at launch nonnegative.
fn quotients(program: &Program, at: &Affine) -> Result<()> {
    for (coord, _) in &at.terms {
        coord.inside().iter().try_for_each(|inner| quotients(program, inner))?;
        let Coord::Two(with @ (Arith::Div | Arith::Rem), of) = coord else { continue };
        let sign = if *with == Arith::Div { "/" } else { "%" };
        let [left, right] = &**of;
        divisor(program, sign, right)?;
        if program.range(left).lo < 0 {
            return Err(Problem::new(format!(
                "the left side of this `{sign}`, {}, may be negative",
                text(program, left)
            ))
            .help("keep it from 0 on, with max(x, 0)"));
        }
    }
    Ok(())
}

/// A divisor must be positive.
pub fn divisor(program: &Program, sign: &str, by: &Affine) -> Result<()> {
    if program.range(by).lo >= 1 {
        return Ok(());
    }
    let problem =
        Problem::new(format!("the right side of this `{sign}`, {}, may be 0 or negative", text(program, by)));
    let help = "divide by a size or a positive number, such as max(n, 1)";
    Err(problem.help(match (&by.terms[..], by.constant) {
        ([(Coord::Two(Arith::Div, of), 1)], 0) if of.iter().all(|of| of.size().is_some()) => {
            let [size, part] = of.each_ref().map(|of| text(program, of).replace('`', ""));
            format!("{help}; if this quotient is exact, declare it: assert({size} % {part} == 0)")
        }
        _ => help.to_owned(),
    }))
}

fn of_view(program: &Program, view: &View, unrolled: &[Id]) -> Result<()> {
    for base in &view.base {
        known_sizes(program, base)?;
        quotients(program, base)?;
    }
    for mode in 0..view.base.len() {
        let range = reach(program, view, mode);
        if !range.is_wide() {
            return Err(Problem::new(format!(
                "the coordinate of `{}` along mode {mode} of its tensor can be {} or {}, and coordinates go from -2^62 to 2^62",
                view.name, range.lo, range.hi
            ))
            .help("scale the index by a smaller number"));
        }
    }
    ragged(view)?;
    let extents = view.layout.leaves().map(|(extent, _)| i128::from(extent.int().unwrap_or(1)));
    let elements = extents.fold(1i128, i128::saturating_mul);
    if elements > MOST_ELEMENTS {
        return Err(Problem::new(format!(
            "one thread has {elements} elements of `{}`, {}, to go through here, and {MOST_ELEMENTS} are the most",
            view.name,
            view.shape()
        ))
        .help("partition it over more threads with `parallelize`, or use a smaller tile"));
    }
    match program.tensor(view.tensor).space {
        Space::Registers { .. } => in_registers(program, view, unrolled),
        _ => Ok(()),
    }
}

/// The bound of a ragged partition applies to one piece along its mode of the tensor.
fn ragged(view: &View) -> Result<()> {
    let pieces = view.layout.leaves().find(|(extent, stride)| match stride {
        Value::Basis { times, path } => view.limits.get(usize::from(path.steps()[0])).is_some_and(|limit| {
            limit.as_ref().is_some_and(|(_, reach)| times >= reach && *extent != Value::Int(1))
        }),
        _ => false,
    });
    match pieces {
        None => Ok(()),
        Some(_) => Err(Problem::new(format!(
            "`{}`, {}, has several pieces whose extent its threads do not divide",
            view.name,
            view.shape()
        ))
        .help("use a tile whose extents the threads divide, or a statement for each piece")),
    }
}

/// Registers have no addresses: every index must be known while compiling, and in bounds.
pub(crate) fn in_registers(program: &Program, view: &View, unrolled: &[Id]) -> Result<()> {
    let fixed = |coord: &Coord| match coord {
        Coord::Var(var) => unrolled.contains(var),
        // Checked by their operands.
        Coord::Submode { .. } | Coord::Two(..) => true,
        _ => false,
    };
    if let Some(other) = view.base.iter().find(|base| base.any(&|coord| !fixed(coord))) {
        return Err(Problem::new(format!(
            "`{}` is in registers, and the index {} is not known while compiling",
            view.name,
            text(program, other)
        ))
        .help("index registers with numbers, or with the variable of a loop over `unroll(0..4)`"));
    }
    inside(program, view)
}

/// No index of a register view is out of bounds.
pub(crate) fn inside(program: &Program, view: &View) -> Result<()> {
    let tensor = program.tensor(view.tensor);
    let (name, extents) = (&tensor.name, tensor.layout.layout().modes());
    for (mode, extent) in extents.enumerate().take(view.base.len()) {
        let extent = i128::from(extent.size()?);
        let range = reach(program, view, mode);
        let outside = if range.lo < 0 { range.lo } else { range.hi };
        if range.lo < 0 || range.hi >= extent {
            return Err(Problem::new(format!(
                "`{name}` has {extent} elements along mode {mode}, numbered from 0, and this reaches element {outside}"
            ))
            .help(format!("registers have nothing beyond their ends: stay below {extent}")));
        }
    }
    Ok(())
}

/// The coordinates of a view's elements along a mode of its tensor.
fn reach(program: &Program, view: &View, mode: usize) -> Range {
    let leaves = view.layout.leaves().filter_map(|(count, stride)| match stride {
        Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
            Some(Range::below(most(count)).times(times))
        }
        _ => None,
    });
    leaves.fold(program.range(&view.base[mode]), Range::plus)
}

/// A coordinate in source form.
pub fn text(program: &Program, affine: &Affine) -> String {
    let coord = |coord: &Coord| match coord {
        Coord::Block(axis) => format!("block.{}", ["x", "y", "z"][usize::from(*axis)]),
        Coord::Thread(_) | Coord::Swizzled(..) => "thread.x".into(),
        Coord::Var(var) => program.vars[*var as usize].name.clone(),
        Coord::Member(group) => format!("the member of `{}`", program.groups[*group as usize].name),
        Coord::ClusterRank => "the block's rank in its cluster".into(),
        Coord::Phase(ring) => format!("the phase of `{}`", program.rings[*ring as usize].name),
        Coord::Size { of, over: 1 } => of.name().to_owned(),
        Coord::Size { of, over } => format!("ceil_div({}, {over})", of.name()),
        Coord::Scalar(id) => program.scalars[*id as usize].name.clone(),
        Coord::Loaded { number, .. } => program.reads[*number as usize].name.clone(),
        Coord::Two(with, of) => {
            let [left, right] = of.each_ref().map(|of| text(program, of).trim_matches('`').to_owned());
            let sign = match with {
                Arith::Mul => "*",
                Arith::Div => "/",
                Arith::Rem => "%",
                Arith::Min => return format!("min({left}, {right})"),
                Arith::Max => return format!("max({left}, {right})"),
            };
            let [left, right] = [left, right].map(|side| match side.contains(' ') && !side.ends_with(')') {
                true => format!("({side})"),
                false => side,
            });
            format!("{left} {sign} {right}")
        }
        Coord::Submode { of, over, extent } => {
            let of = text(program, of);
            let of = of.trim_matches('`');
            let of = if of.contains(' ') { format!("({of})") } else { of.to_owned() };
            match (over, extent) {
                (1, Some(n)) => format!("{of} % {n}"),
                (n, None) => format!("{of} / {n}"),
                (by, Some(n)) => format!("{of} / {by} % {n}"),
            }
        }
        Coord::Begin { .. } => "a computed coordinate".into(),
    };
    let term = |(of, by): &(Coord, i64)| match by {
        1 => coord(of),
        -1 => format!("-{}", coord(of)),
        ..=-2 => format!("-{} * {}", coord(of), by.unsigned_abs()),
        _ => format!("{} * {by}", coord(of)),
    };
    let mut parts: Vec<String> = affine.terms.iter().map(term).collect();
    if affine.constant != 0 || parts.is_empty() {
        parts.push(affine.constant.to_string());
    }
    let sum = parts.into_iter().reduce(|sum, part| match part.strip_prefix('-') {
        Some(less) => format!("{sum} - {less}"),
        None => format!("{sum} + {part}"),
    });
    format!("`{}`", sum.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Builder;
    use crate::tile::Expr;
    use crate::tile::view::At;
    use crate::values::elem::Elem;
    use tilewright_layout::layout;

    /// The diagnostic of a kernel that writes a slice of the registers `r`, (4,2), in a loop over `0..3`.
    #[track_caller]
    fn check_index(at: impl Fn(Affine) -> Affine, expected: &str) {
        let mut b = Builder::new("beside");
        let r = b.registers("r", Elem::F32, (4, 2)).unwrap();
        let c = b.tensor("c", Elem::F32, (4, 2), None, true).unwrap();
        b.repeat("i", Value::Int(3), Unroll::Full, |b, i| {
            let r = r.slice(&[At::All, At::Index(at(i))])?;
            b.fill(&r, Expr::lit(0.0))
        })
        .unwrap();
        b.parallelize(&c, &layout!((1, 2))).unwrap();
        assert_eq!(program(&b.finish(), Policy::Best).unwrap_err().text(), expected);
    }

    #[test]
    fn register_indices_are_in_bounds() {
        let beside = |at: i64| {
            format!(
                "`r` has 2 elements along mode 1, numbered from 0, and this reaches element {at}\nhelp: registers have nothing beyond their ends: stay below 2"
            )
        };
        check_index(|_| 3.into(), &beside(3));
        check_index(|_| (-1).into(), &beside(-1));
        check_index(|i| i, &beside(2));
        check_index(
            |_| Coord::Thread(0).into(),
            "`r` is in registers, and the index `thread.x` is not known while compiling\nhelp: index registers with numbers, or with the variable of a loop over `unroll(0..4)`",
        );
    }

    #[test]
    fn a_number_is_refused_where_it_is_written() {
        let mut b = Builder::new("beside");
        let r = b.registers("r", Elem::F32, (4, 2)).unwrap();
        let refused = b.slice(&r, &[At::All, At::Index(3.into())]).unwrap_err();
        assert_eq!(refused.arg, Some(1));
        assert!(b.slice(&r, &[At::All, At::Index(1.into())]).is_ok());
    }

    #[test]
    fn coordinates_that_64_bits_do_not_hold_are_refused() {
        let mut b = Builder::new("far");
        let x = b.tensor("x", Elem::F32, (Value::symbol("N"),), None, true).unwrap();
        let tiles = b.tile(&x, (64i64,), &[At::Index(Coord::Block(0).into())]).unwrap();
        b.parallelize(&tiles, &layout!(64)).unwrap();
        let far = Affine::from(Coord::Block(0)).times(1 << 40).unwrap();
        let far = far.plus(&Coord::Thread(0).into(), 1).unwrap();
        let far = View { base: vec![far], ..b.parallelize(&tiles, &layout!(64)).unwrap() };
        b.fill(&far, Expr::lit(0.0)).unwrap();
        let reported = program(&b.finish(), Policy::Best).unwrap_err().message;
        assert!(
            reported.starts_with("the coordinate of `x` along mode 0 of its tensor can be 0 or"),
            "{reported}"
        );
    }

    #[test]
    fn one_thread_accesses_65536_elements_at_most() {
        let mut b = Builder::new("long");
        let x = b.tensor("x", Elem::F32, (Value::symbol("N"),), None, true).unwrap();
        let tiles = b.tile(&x, (1i64 << 31,), &[At::Index(Coord::Block(0).into())]).unwrap();
        let mine = b.parallelize(&tiles, &layout!(64)).unwrap();
        b.fill(&mine, Expr::lit(0.0)).unwrap();
        let reported = program(&b.finish(), Policy::Best).unwrap_err().message;
        assert_eq!(
            reported,
            "one thread has 33554432 elements of `x`, (33554432), to go through here, and 65536 are the most"
        );
    }
}
