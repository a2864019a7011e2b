//! Accesses without a fallback, under the assumptions of a variant: their elements must be contiguous and
//! aligned.

use crate::isa::atom::{Atom, OperandKind};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::tile::alternative::Policy;
use crate::tile::bounds::{Assumed, Edges};
use crate::tile::pair::align;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{How, Op, Program, Stmt};

/// Checks statements, also inside others.
pub(super) fn check(program: &Program, policy: Policy, body: &[Stmt]) -> std::result::Result<(), Diagnostic> {
    for stmt in body {
        let fits = match &stmt.op {
            Op::Copy { from, to, how: How::Atom(row), .. } if !row.has_map() => {
                rows(program, policy, row, [from, to])
            }
            Op::Copy { from, to, how: How::Async, fill, .. } if policy == Policy::Best => {
                let pair = align(from, to).map_err(|problem| problem.at(stmt.span))?;
                let (sources, targets) = (leaves(&pair.from), leaves(&pair.to));
                let (assumed, needs) = (Assumed::new(program, policy), &mut Vec::new());
                let bounds = assumed.bounds(&[]);
                let is_possible = !bounds.fills_with_zeros(&pair, &sources, &targets, *fill, needs)
                    || bounds.asynchronous(&pair, &sources, &targets, needs).is_some();
                let (_, width) =
                    bounds.vector(&[(&pair.from, &sources), (&pair.to, &targets)], Edges::Split, needs);
                let bytes = program.tensor(to.tensor).elem.bytes_of(width);
                if is_possible { Ok(()) } else { Err(narrow(&pair.to.name, bytes)) }
            }
            _ => Ok(()),
        };
        fits.map_err(|problem| problem.at(stmt.span))?;
        stmt.bodies().into_iter().try_for_each(|inner| check(program, policy, inner))?;
    }
    Ok(())
}

/// The error where elements of a copy are too few for an asynchronous one.
fn narrow(name: &str, bytes: i64) -> Problem {
    Problem::new(format!(
        "`{name}` cannot be prefetched: asynchronous copies move 4, 8 or 16 bytes at once, and here {bytes} are contiguous"
    ))
    .help("let each thread take consecutive elements, such as values = (4, 1), along the mode that is contiguous in both memories")
}

/// Each lane's address must refer to 16 contiguous, aligned bytes.
fn rows(program: &Program, policy: Policy, row: &Atom, [from, to]: [&View; 2]) -> Result<()> {
    for operand in row.operands {
        let view = match operand.kind {
            OperandKind::SharedAddress | OperandKind::GlobalAddress if operand.writes => to,
            OperandKind::SharedAddress | OperandKind::GlobalAddress => from,
            OperandKind::Frag { .. }
            | OperandKind::Descriptor
            | OperandKind::TensorMap { .. }
            | OperandKind::Barrier
            | OperandKind::Int
            | OperandKind::Immediate => continue,
        };
        let tensor = program.tensor(view.tensor);
        let wanted = tensor.elem.elements_in(16i64);
        let width = Assumed::new(program, policy).bounds(&[]).width(
            view,
            &leaves(view),
            0,
            wanted,
            Edges::Whole,
            &mut Vec::new(),
        );
        if width < wanted {
            return Err(Problem::new(format!(
                "`{}` needs rows of {wanted} consecutive, aligned elements, and `{}` has rows of {width}",
                row.name, tensor.name
            ))
            .help("choose a shared layout in which that mode has stride 1 and other strides are multiples of 16 bytes"));
        }
    }
    Ok(())
}
