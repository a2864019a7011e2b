//! The limits of programs, checked before any other pass, so that all passes can rely on them: names are
//! identifiers, sizes fit 31 bits, trees are not too deep for recursion, and the work is bounded.

use tilewright_layout::Value;

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::source::stack::ROOM;
use crate::tile::{Op, Program, Space, Stmt, Var};
use crate::values::across::Across;
use crate::values::affine::Coord;
use crate::values::limits::{
    self, DEEPEST_BLOCKS, MOST_BLOCKS, MOST_BYTES, MOST_STATEMENTS, bytes, coordinate, function, measure,
    name, symbols, too_deep, too_much,
};
use crate::values::scan::Scan;

/// Errors of a program, with the spans that it knows.
pub fn program(program: &Program) -> std::result::Result<(), Diagnostic> {
    let nowhere = |problem: Problem| problem.at(Span::default());
    name("a kernel", &program.name).map_err(nowhere)?;
    for scalar in &program.scalars {
        name("an argument", &scalar.name).map_err(nowhere)?;
    }
    for (index, var) in program.vars.iter().enumerate() {
        iterations(index, var).map_err(nowhere)?;
    }
    for read in &program.reads {
        name("a number that is read", &read.name).map_err(nowhere)?;
    }
    let more = program.more.iter().flatten();
    symbols(program.grid.iter().flatten().chain(more).copied()).map_err(nowhere)?;
    for require in &program.requires {
        let mut integers = require.test.integers().into_iter();
        integers.try_for_each(|at| coordinate(at).map(drop)).map_err(nowhere)?;
    }
    cluster(program).map_err(nowhere)?;
    sizes(program)?;
    work(program)
}

/// Visits statements: nesting depth, and total cost.
pub fn work(program: &Program) -> std::result::Result<(), Diagnostic> {
    let (mut count, mut cost) = (0u64, 0u64);
    // Without recursion, as they may nest deeper than any stack allows.
    let mut left: Vec<(&Stmt, u32)> = program.body.iter().rev().map(|stmt| (stmt, 1)).collect();
    while let Some((stmt, depth)) = left.pop() {
        if depth > DEEPEST_BLOCKS {
            return Err(too_deep().at(stmt.span));
        }
        count += 1;
        cost += statement(stmt).map_err(|problem| problem.at(stmt.span))?;
        if cost > MOST_STATEMENTS {
            return Err(too_much(count).at(stmt.span));
        }
        left.extend(stmt.bodies().into_iter().flatten().rev().map(|inner| (inner, depth + 1)));
    }
    Ok(())
}

/// Does recursion over the statements and their functions need a large stack?
pub fn is_deep(program: &Program) -> bool {
    let mut left: Vec<(&Stmt, u32)> = program.body.iter().map(|stmt| (stmt, 1)).collect();
    while let Some((stmt, depth)) = left.pop() {
        let function = match &stmt.op {
            Op::Map { value, .. } => measure(value).1,
            Op::If { test, .. } => test.scalars().into_iter().map(|expr| measure(expr).1).max().unwrap_or(0),
            Op::Fold { with, .. } | Op::Scan { how: Scan { with, .. }, .. } => {
                with.iter().map(|value| measure(value).1).max().unwrap_or(0)
            }
            Op::Lanes { how, .. } => how.function().map_or(0, |value| measure(value).1),
            _ => 0,
        };
        if depth + function > ROOM {
            return true;
        }
        left.extend(stmt.bodies().into_iter().flatten().map(|inner| (inner, depth + 1)));
    }
    false
}

/// Each array against the reach of offsets, and all of shared memory against the same.
pub fn sizes(program: &Program) -> std::result::Result<(), Diagnostic> {
    let mut all = 0i64;
    for tensor in &program.tensors {
        let own = || -> Result<i64> {
            name("a tensor", &tensor.name)?;
            symbols(tensor.plain().leaves().flat_map(|(extent, stride)| [extent, stride]))?;
            match tensor.space {
                Space::Global { .. } => limits::layout(tensor.plain()).map(|()| 0),
                Space::Shared { align } => {
                    // Padding for alignment comes on top.
                    Ok(bytes(&tensor.name, tensor.layout.cosize()?, tensor.elem)? + i64::from(align.max(16)))
                }
                Space::Registers { .. } => {
                    bytes(&tensor.name, tensor.layout.cosize()?, tensor.elem)?;
                    Ok(0)
                }
            }
        };
        all += own().map_err(|problem| problem.at(tensor.span))?;
        if all > MOST_BYTES {
            let problem = Problem::new(format!(
                "shared tensors up to `{}` take {all} bytes together, and offsets reach {MOST_BYTES}",
                tensor.name
            ));
            return Err(problem.help("use smaller tiles, or fewer stages").at(tensor.span));
        }
    }
    Ok(())
}

fn iterations(index: usize, var: &Var) -> Result<()> {
    name("a loop's variable", &var.name)?;
    for end in [&var.from, &var.to] {
        coordinate(end)?;
        // Range analysis goes from variable to variable.
        if end.any(&|coord| matches!(coord, Coord::Var(of) if *of as usize >= index)) {
            let problem =
                format!("the loop over `{}` ends or begins at a variable that comes later", var.name);
            return Err(Problem::new(problem).help("use variables of loops around it"));
        }
    }
    match var.extent() {
        Some(Value::Int(n)) if !(0..=i64::from(i32::MAX)).contains(&n) => {
            let problem = format!(
                "the loop over `{}` has {n} iterations, and 0 to {} are possible",
                var.name,
                i32::MAX
            );
            Err(Problem::new(problem).help("write two loops, one in the other"))
        }
        Some(size) => symbols([size]),
        None => Ok(()),
    }
}

fn cluster(program: &Program) -> Result<()> {
    let blocks = program.cluster.iter().try_fold(1u32, |all, &n| all.checked_mul(n)).unwrap_or(u32::MAX);
    if !(1..=MOST_BLOCKS).contains(&blocks) {
        let [x, y, z] = program.cluster;
        let problem = Problem::new(format!("a cluster of {x} x {y} x {z} blocks"));
        return Err(problem.help(format!("a cluster has 1 to {MOST_BLOCKS} blocks")));
    }
    Ok(())
}

/// The cost of a statement.
fn statement(stmt: &Stmt) -> Result<u64> {
    let mut leaves = 0;
    for view in stmt.accesses() {
        name("a view", &view.name)?;
        leaves += view.layout.leaves().count() as u64;
        view.within_limits()?;
    }
    let operations = match &stmt.op {
        Op::Map { value, .. } => function(value)?,
        Op::Fold { with, .. } | Op::Scan { how: Scan { with, .. }, .. } => {
            with.iter().map(function).sum::<Result<u64>>()?
        }
        Op::Lanes { how, .. } => how.function().map_or(Ok(0), function)?,
        Op::If { test, .. } | Op::Leave { test, .. } => {
            test.scalars().into_iter().map(function).sum::<Result<u64>>()? + test.integers().len() as u64
        }
        _ => 0,
    };
    for at in stmt.integers() {
        coordinate(at)?;
    }
    let across = match &stmt.op {
        Op::Fold { across: Across::Block | Across::Submodes(_), .. } => 8,
        Op::Fold { across: Across::Cluster(_) | Across::Blocks(_), .. } => 16,
        Op::Scan { how, .. } => 8 * how.levels.len() as u64,
        Op::Fold { across: Across::Warp(_), .. } => 2,
        _ => 0,
    };
    Ok(1.max(leaves / 2) + across + operations / 8)
}
