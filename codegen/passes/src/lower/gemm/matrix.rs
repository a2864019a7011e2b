//! Products by instructions of warps and warpgroups, whose operands are fragments or matrices in shared memory.

use super::super::Lower;
use crate::isa::atom::{Atom, Effect, OperandKind, OperandName};
use crate::source::problem::{Problem, Result};
use crate::thread::index::Ix;
use crate::thread::{AtomArg, Fence, Op, Queue, Unroll};
use crate::tile::ProductViews;
use crate::tile::matrix_descriptor::Matrix;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::values::id::Id;

impl Lower<'_> {
    /// A descriptor of the part of a matrix that begins at these coordinates.
    fn descriptor(&mut self, row: &Atom, view: &View, all: &[Leaf], at: &[Ix]) -> Result<AtomArg> {
        let matrix = Matrix::of(self.program, row, view)?;
        let at = self.start_of(view, all, at);
        let (leading, stride) = (matrix.leading as u32, matrix.stride as u32);
        Ok(AtomArg::Descriptor { at, leading, stride, mode: matrix.mode })
    }

    /// A product by an instruction of the table, from fragments or from matrices in shared memory.
    pub(super) fn by_instruction(
        &mut self,
        row: &'static Atom,
        ProductViews { a, b, acc }: ProductViews<'_>,
        token: Option<Id>,
    ) -> Result<()> {
        self.arch_of(row);
        let from_zero = self.replaced.remove(&acc.tensor);
        let Effect::Mma { m, n, k, .. } = row.effect else {
            return Err(Problem::internal(format!("`{}` is no matrix product", row.name)));
        };
        let sets = if from_zero { "=" } else { "+=" };
        self.comment(format!("{} {sets} {} * {} by {m}x{n}x{k}", acc.name, a.name, b.name));
        let (a_leaves, b_leaves, acc_leaves) = (leaves(a), leaves(b), leaves(acc));
        let fragment = |operand: OperandName| {
            matches!(row.operand(operand).map(|o| o.kind), Some(OperandKind::Frag { .. }))
        };
        let steps = |view: &View, operand: OperandName, mode: usize, size: u32| -> Result<i64> {
            match fragment(operand) {
                true => Ok(view.layout.mode(mode + 1)?.size()?),
                false => Ok(view.layout.mode(mode)?.size()? / i64::from(size)),
            }
        };
        let (rows, k_steps) = (steps(a, OperandName::A, 0, m)?, steps(a, OperandName::A, 1, k)?);
        let columns = steps(b, OperandName::B, 0, n)?;
        let asynchronous = row.family.is_asynchronous();
        if asynchronous {
            self.emit(Op::Fence(Fence::Products));
        }
        let walked = [("m".to_owned(), rows), ("n".to_owned(), columns), ("kk".to_owned(), k_steps)];
        self.loops(&walked, Unroll::Full, &mut |lower, at| {
            let mut args = Vec::new();
            for operand in row.operands {
                let (view, all, first, second, size) = match operand.name {
                    OperandName::A => (a, &a_leaves, at[0], at[2], m),
                    OperandName::B => (b, &b_leaves, at[1], at[2], n),
                    _ => (acc, &acc_leaves, at[0], at[1], m),
                };
                args.push(match operand.kind {
                    OperandKind::Frag { .. } => {
                        let values = view.layout.mode(0)?.leaves().len();
                        let mut position = vec![lower.int(0); values];
                        position.extend([first, second]);
                        AtomArg::Frag(lower.frag(view, all, values, &position))
                    }
                    OperandKind::Descriptor => {
                        let size = lower.int(i64::from(size));
                        let position =
                            [lower.exprs().mul(first, size), lower.exprs().mul(second, i64::from(k))];
                        lower.descriptor(row, view, all, &position)?
                    }
                    // Is the product added to the accumulator? The first k-step may replace it.
                    OperandKind::Int if from_zero => AtomArg::Int(at[2]),
                    OperandKind::Int => AtomArg::Int(lower.int(1)),
                    OperandKind::Immediate => {
                        let view = if operand.name == OperandName::TransposeA { a } else { b };
                        let transposed = Matrix::of(lower.program, row, view)?.transposed;
                        AtomArg::Int(lower.int(transposed.into()))
                    }
                    // The verifier refuses other operands.
                    OperandKind::SharedAddress
                    | OperandKind::GlobalAddress
                    | OperandKind::TensorMap { .. }
                    | OperandKind::Barrier => {
                        return Err(Problem::internal(format!(
                            "`{}` has an operand that products do not have",
                            row.name
                        )));
                    }
                });
            }
            lower.emit(Op::Atom { row, args, guard: None });
            Ok(())
        })?;
        if asynchronous {
            self.commit_products(token);
            if token.is_none() {
                self.emit(Op::WaitQueue { queue: Queue::Products, pending: 0 });
            }
        }
        Ok(())
    }
}
