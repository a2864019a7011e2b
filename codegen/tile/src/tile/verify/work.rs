//! Checks of computing statements: operands of instructions, extents of products, threads of reductions and scans.

use crate::isa::atom::{Atom, Effect, Operand, OperandKind, OperandName};
use crate::source::problem::{Problem, Result};
use crate::tile::boxes::Boxes;
use crate::tile::matrix_descriptor::Matrix;
use crate::tile::view::View;
use crate::tile::whole::{is_cooperative, unpacks};
use crate::tile::{Across, Expr, How, Op, Program, Space, Stmt};
use crate::values::lanes;
use crate::values::scan::Level;

/// Checks one statement.
pub(super) fn check(program: &Program, stmt: &Stmt) -> Result<()> {
    let threads = program.combined(stmt.by);
    match &stmt.op {
        // Threads unpack whole tiles.
        op @ Op::Copy { .. } if unpacks(op).is_some() && is_cooperative(program, stmt.by, op) => Ok(()),
        Op::Copy { how: How::Atom(row), from, to, .. } if !row.has_map() => copy(row, from, to),
        Op::Copy { how: How::Atom(row), from, to, .. } => Boxes::of(program, row, from, to).map(drop),
        Op::Gemm { how, a, b, acc, .. } => {
            let row = how.row(program.tensor(acc.tensor).elem)?;
            if row.is_scalar() { same_k(a, b) } else { product(program, row, [a, b]) }
        }
        Op::Fold { from, to, across, .. } => {
            in_registers(program, from.iter().chain(to), "a reduction")?;
            groups(*across, threads)
        }
        Op::Scan { from, to, carry, how } => {
            in_registers(program, from.iter().chain(to).chain(carry), "a scan")?;
            levels(&how.levels, threads)
        }
        Op::Lanes { ins, to, lanes, .. } => {
            in_registers(program, ins.iter().chain([to]), "an exchange between lanes")?;
            groups(Across::Warp(*lanes), threads)
        }
        Op::Map { ins, value, .. } => coordinates(ins, value),
        Op::Flag { flag, .. } => one_element(flag),
        _ => Ok(()),
    }
}

/// A function reads coordinates of its inputs along modes that they have.
fn coordinates(ins: &[View], value: &Expr) -> Result<()> {
    let modes = |input: u8| ins.get(usize::from(input)).map_or(0, |view| view.base.len());
    let is_missing = |part: &Expr| matches!(part, Expr::Coord(n, mode) if usize::from(*mode) >= modes(*n));
    match value.any(&is_missing) {
        true => Err(Problem::new("a function reads a coordinate along a mode that its input does not have")),
        false => Ok(()),
    }
}

/// Both sides of a copy by an instruction that moves registers from or to addresses.
fn copy(row: &Atom, from: &View, to: &View) -> Result<()> {
    let moves = |kind| match kind {
        OperandKind::Frag { .. } | OperandKind::SharedAddress | OperandKind::GlobalAddress => true,
        OperandKind::Descriptor
        | OperandKind::TensorMap { .. }
        | OperandKind::Barrier
        | OperandKind::Int
        | OperandKind::Immediate => false,
    };
    if !row.operands.iter().all(|operand| moves(operand.kind)) {
        return Err(Problem::new(format!("`{}` is not a copy between views", row.name)));
    }
    // One instruction moves the first mode.
    let repeated = |view: &View| -> Result<Vec<i64>> {
        let skip = view.layout.mode(0)?.leaves().len();
        Ok(view.layout.leaves().skip(skip).map(|(extent, _)| extent.int().unwrap_or(1)).collect())
    };
    if repeated(from)? != repeated(to)? {
        return Err(Problem::new(format!(
            "`{}`, {}, and `{}`, {}, differ in the modes over which `{}` is repeated",
            from.name,
            from.shape(),
            to.name,
            to.shape(),
            row.name
        )));
    }
    Ok(())
}

/// An instruction that multiplies, and the matrices in shared memory that it reads.
fn product(program: &Program, row: &Atom, [a, b]: [&View; 2]) -> Result<()> {
    let reads = |operand: &Operand| match operand.kind {
        OperandKind::Descriptor => {
            Matrix::of(program, row, if operand.name == OperandName::A { a } else { b }).map(drop)
        }
        OperandKind::Immediate => {
            Matrix::of(program, row, if operand.name == OperandName::TransposeA { a } else { b }).map(drop)
        }
        OperandKind::Frag { .. } | OperandKind::Int => Ok(()),
        OperandKind::SharedAddress
        | OperandKind::GlobalAddress
        | OperandKind::TensorMap { .. }
        | OperandKind::Barrier => {
            Err(Problem::new(format!("`{}` has an operand of an unknown kind", row.name)))
        }
    };
    match row.effect {
        Effect::Mma { .. } => row.operands.iter().try_for_each(reads),
        Effect::Copy
        | Effect::Convert
        | Effect::Unpack(_)
        | Effect::FunnelShift
        | Effect::Multiply
        | Effect::Subtract
        | Effect::Reduce(_)
        | Effect::Hint => Err(Problem::new(format!("`{}` is not a matrix product", row.name))),
    }
}

/// Both operands of a product have one extent along K.
fn same_k(a: &View, b: &View) -> Result<()> {
    let (left, right) = (a.extent_along(1)?, b.extent_along(1)?);
    if left == right {
        return Ok(());
    }
    Err(Problem::new(format!("`{}` has K = {left} and `{}` has K = {right}", a.name, b.name)))
}

fn in_registers<'v>(program: &Program, mut views: impl Iterator<Item = &'v View>, what: &str) -> Result<()> {
    match views.all(|view| matches!(program.tensor(view.tensor).space, Space::Registers { .. })) {
        true => Ok(()),
        false => Err(Problem::new(format!("{what} needs both sides in registers"))
            .help("copy them to registers first")),
    }
}

/// Groups of threads that combine their elements divide the threads.
fn groups(across: Across, threads: i64) -> Result<()> {
    match across {
        Across::Thread | Across::Block | Across::Cluster(_) | Across::Blocks(_) => Ok(()),
        Across::Warp(lanes) => {
            if lanes::GROUPS.contains(&lanes) && threads % i64::from(lanes) == 0 {
                return Ok(());
            }
            Err(Problem::new(format!(
                "groups of {lanes} lanes cannot combine their elements: there are {threads} threads"
            ))
            .help("groups have 2, 4, 8, 16 or 32 lanes and divide the number of threads; across the block any number combines"))
        }
        Across::Submodes(submodes) => {
            let whole = submodes.all().last().map_or(1, |(extent, step)| i64::from(extent * step));
            if threads % whole == 0 {
                return Ok(());
            }
            Err(Problem::new(format!(
                "groups of {whole} threads cannot combine their elements: there are {threads}"
            ))
            .help("the largest digit's extent times its step divides the number of threads"))
        }
    }
}

/// Checks the threads of each level of a scan: over a cluster, a scan takes all threads of each block.
fn levels(levels: &[Level], threads: i64) -> Result<()> {
    let mut combined = 1;
    for level in levels {
        match *level {
            Level::Own { .. } => {}
            Level::Threads(across) => {
                groups(across, threads)?;
                combined *= across.submodes(threads).iter().map(|(extent, _)| extent).product::<i64>();
            }
            Level::Blocks(_) if combined != threads => {
                return Err(Problem::new(
                    "a scan over a cluster runs along all threads of each block, and these have several rows, or no elements",
                )
                .help("take tiles of one row, with at least as many elements as the block has threads"));
            }
            Level::Blocks(_) => {}
        }
    }
    Ok(())
}

fn one_element(flag: &View) -> Result<()> {
    if flag.layout.leaves().all(|(extent, _)| extent.int().is_none_or(|extent| extent == 1)) {
        return Ok(());
    }
    Err(Problem::new(format!("a flag is one element, and `{}` is {}", flag.name, flag.shape())))
}

#[cfg(test)]
mod tests {
    use tilewright_layout::layout;

    use super::*;
    use crate::build::Builder;
    use crate::thread::Bin;
    use crate::thread::Change;
    use crate::tile::alternative::Policy;
    use crate::tile::{Multiply, Order};
    use crate::values::elem::Elem;
    use crate::{isa, tile::verify};

    /// A statement that the builder would refuse is refused here, with this message.
    #[track_caller]
    fn check(op: impl FnOnce(&mut Builder) -> Result<Op>, expected: &str) {
        let mut b = Builder::new("wrong");
        let op = op(&mut b).unwrap();
        b.statement(op);
        assert_eq!(verify::program(&b.finish(), Policy::Best).unwrap_err().message, expected);
    }

    fn registers(b: &mut Builder, name: &str, shape: (i64, i64)) -> Result<View> {
        b.registers(name, Elem::F32, shape)
    }

    fn product(b: &mut Builder, k: [i64; 2], how: Multiply) -> Result<Op> {
        let (left, right) = (registers(b, "x", (4, k[0]))?, registers(b, "y", (4, k[1]))?);
        let (acc, order) = (registers(b, "acc", (4, 4))?, Order::Plain);
        Ok(Op::Gemm { a: left, b: right, acc, how, order, token: None })
    }

    fn sum(from: View, to: View, across: Across) -> Op {
        let (with, identity) = (vec![Bin::Add.into()], vec![0.0.into()]);
        Op::Fold { from: vec![from], to: vec![to], with, identity, across, claimed: false }
    }

    #[test]
    fn what_cannot_be_computed_is_refused() {
        check(|b| product(b, [2, 3], Multiply::SUMS), "`x` has K = 2 and `y` has K = 3");
        check(
            |b| product(b, [2, 2], Multiply::Atom(isa::named("ldmatrix_x4")?)),
            "`ldmatrix_x4` is not a matrix product",
        );
        check(
            |b| {
                let (from, to) = (registers(b, "x", (4, 2))?, registers(b, "y", (4, 2))?);
                let how = How::Atom(isa::named("cp_async_16_or_zero")?);
                Ok(Op::Copy { from, to, how, fill: 0.0.into(), token: None })
            },
            "`cp_async_16_or_zero` is not a copy between views",
        );
        check(
            |b| Ok(sum(registers(b, "x", (4, 2))?, registers(b, "y", (4, 1))?, Across::Warp(3))),
            "groups of 3 lanes cannot combine their elements: there are 0 threads",
        );
        check(
            |b| {
                let from = b.shared("s", Elem::F32, layout!((4, 2)))?;
                Ok(sum(from, registers(b, "y", (4, 1))?, Across::Thread))
            },
            "a reduction needs both sides in registers",
        );
        check(
            |b| {
                let x = registers(b, "x", (4, 2))?;
                Ok(Op::Map { ins: vec![x.clone()], to: x, value: Expr::Coord(0, 2).cast(Elem::F32) })
            },
            "a function reads a coordinate along a mode that its input does not have",
        );
        check(
            |b| {
                let flag = b.registers("f", Elem::I32, (4i64,))?;
                Ok(Op::Flag { flag, with: Change::Add, value: 1.into() })
            },
            "a flag is one element, and `f` is (4)",
        );
    }
}
