//! Launches with a size of 0 over which only loops run, such as K of a product: they take the kernel without these loops, which
//! writes the results of empty sums. It is lowered when a launch first needs it. Coordinates and bounds of elements are analysed
//! before these loops are removed, so they do not depend on whether a loop has iterations.

use std::cell::RefCell;

use tilewright_layout::{Symbol, Value};

use crate::isa::atom::Done;
use crate::launch::definition::{EmptyLoops, Variant};
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Arg, Multiply, Op, Program, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

/// The kernel for each size that is 0 in some launch which has work to do all the same; `lower` makes its variant.
pub fn all(program: &Program, lower: fn(&Program) -> Option<Variant>) -> Vec<EmptyLoops> {
    let mut all: Vec<Symbol> = arguments(program).flat_map(|id| sizes(program, id)).collect();
    all.sort_unstable_by_key(|size| size.name());
    all.dedup();
    let needs_elements = |size: &Symbol| program.least(*size) > 0;
    all.into_iter().filter(needs_elements).filter_map(|size| of(program, size, lower)).collect()
}

fn of(program: &Program, size: Symbol, lower: fn(&Program) -> Option<Variant>) -> Option<EmptyLoops> {
    let body = without_loops(program, &program.body, size)?;
    let (mut used, mut named) = (Vec::new(), false);
    for stmt in preorder(&body) {
        named |= stmt.mentions(program, &|at| at.symbols().contains(&size));
        used.extend(stmt.accesses().map(|view| view.tensor));
    }
    if named || used.iter().any(|id| sizes(program, *id).contains(&size)) {
        return None;
    }
    let idle = |(index, arg): (usize, &Arg)| match arg {
        Arg::Tensor(id) => (!used.contains(id)).then_some(index),
        Arg::Scalar(_) => None,
    };
    let idle = program.args.iter().enumerate().filter_map(idle).collect();
    let program = Program { zero: Some(size), competes: false, packs: Vec::new(), ..program.clone() };
    Some(EmptyLoops::new(size, idle, move || lower(&program)))
}

/// The program without the loops that have no iteration, if a size is 0 in all launches. Roles share registers for
/// asynchronous products: if no product is left, the registers keep their initial values.
pub fn reduced(program: Program) -> Program {
    let body = program.zero.and_then(|size| without_loops(&program, &program.body, size));
    let Some(body) = body else { return program };
    let mut reduced = Program { body, ..program };
    if !multiplies(&reduced.body) {
        reduced.groups.iter_mut().for_each(|group| group.registers = None);
    }
    reduced
}

/// Are there asynchronous products?
fn multiplies(body: &[Stmt]) -> bool {
    preorder(body).any(|stmt| matches!(&stmt.op, Op::Gemm { how: Multiply::Atom(row), .. } if matches!(row.family.completes, Done::Queue(_))))
}

/// The tensors among the arguments.
fn arguments(program: &Program) -> impl Iterator<Item = Id> {
    program.args.iter().filter_map(|arg| match arg {
        Arg::Tensor(id) => Some(*id),
        Arg::Scalar(_) => None,
    })
}

/// The sizes in the extents of a tensor.
fn sizes(program: &Program, id: Id) -> Vec<Symbol> {
    let symbol = |(extent, _): (&Value, &Value)| match extent {
        Value::Sym { of, .. } => Some(*of),
        _ => None,
    };
    program.tensor(id).plain().leaves().filter_map(|leaf| symbol((&leaf.0, &leaf.1))).collect()
}

/// The statements without the loops that have no iteration if this size is 0, and without conditions on whether they have an
/// iteration; `None` if there is no such loop.
fn without_loops(program: &Program, body: &[Stmt], size: Symbol) -> Option<Vec<Stmt>> {
    let mut result = false;
    let mut kept = Vec::new();
    for stmt in body {
        if let Op::For { var, .. } = &stmt.op
            && is_empty(program, *var, size)
        {
            result = true;
            continue;
        }
        if let Op::If { test, other, .. } = &stmt.op
            && never(program, test, size)
        {
            result = true;
            kept.extend(without_loops(program, other, size).unwrap_or_else(|| other.clone()));
            continue;
        }
        let mut stmt = stmt.clone();
        for inner in stmt.bodies_mut() {
            if let Some(rest) = without_loops(program, inner, size) {
                result = true;
                *inner = rest;
            }
        }
        kept.push(stmt);
    }
    result.then_some(kept)
}

/// Has a loop no iteration where this size is 0?
pub fn is_empty(program: &Program, var: Id, size: Symbol) -> bool {
    let var = &program.vars[var as usize];
    never_less(program, [&var.from, &var.to], size)
}

/// Is a condition, such as that a loop has iterations, always false where this size is 0?
fn never(program: &Program, test: &Test, size: Symbol) -> bool {
    matches!(test, Test::Less(a, b) if [a, b].iter().any(|at| at.symbols().contains(&size)) && never_less(program, [a, b], size))
}

/// Is the first of two numbers never less than the second where this size is 0?
fn never_less(program: &Program, numbers: [&Affine; 2], size: Symbol) -> bool {
    let [a, b] = numbers.map(|number| at_zero(number, size));
    a.zip(b).and_then(|(a, b)| b.plus(&a, -1)).is_some_and(|apart| program.range(&apart).hi <= 0)
}

/// A number where this size is 0.
fn at_zero(number: &Affine, size: Symbol) -> Option<Affine> {
    let result = RefCell::new(Vec::new());
    number.any(&|coord| {
        if matches!(coord, Coord::Size { of, .. } if *of == size) {
            result.borrow_mut().push(coord.clone());
        }
        false
    });
    result.into_inner().iter().try_fold(number.clone(), |number, coord| number.with(coord, &0.into()))
}
