//! Copies by instructions of the table, most of them of a warp.

use super::Lower;
use super::numbering::named;
use crate::isa::atom::{Atom, OperandKind};
use crate::source::problem::{Problem, Result};
use crate::thread::index::Ix;
use crate::thread::{AtomArg, Frag, Op, Unroll};
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};

impl Lower<'_> {
    pub(super) fn arch_of(&mut self, row: &Atom) {
        self.kernel.arch = self.kernel.arch.max(row.arch);
        self.kernel.arch_specific |= row.arch_specific;
    }

    /// A copy by an instruction of the table.
    pub(super) fn copy_by(
        &mut self,
        row: &'static Atom,
        from: &View,
        to: &View,
        in_flight: bool,
    ) -> Result<()> {
        self.arch_of(row);
        self.comment(format!("{} <- {}, {}", to.name, from.name, to.shape()));
        if row.has_map() {
            return self.bulk(row, from, to, in_flight);
        }
        let (from_leaves, to_leaves) = (leaves(from), leaves(to));
        // One instruction moves the first mode; loops run over the others.
        let values = |view: &View| -> Result<usize> { Ok(view.layout.mode(0)?.leaves().len()) };
        let (from_values, to_values) = (values(from)?, values(to)?);
        let extents =
            |leaves: &[Leaf], skip: usize| leaves[skip..].iter().map(|l| l.extent).collect::<Vec<_>>();
        let walked = named(extents(&to_leaves, to_values));
        self.loops(&walked, Unroll::Full, &mut |lower, at| {
            let mut args = Vec::new();
            for operand in row.operands {
                let (view, all, skip) = if operand.writes {
                    (to, &to_leaves, to_values)
                } else {
                    (from, &from_leaves, from_values)
                };
                let mut position = vec![lower.int(0); skip];
                position.extend(at);
                args.push(match operand.kind {
                    OperandKind::Frag { .. } => AtomArg::Frag(lower.frag(view, all, skip, &position)),
                    OperandKind::SharedAddress | OperandKind::GlobalAddress => {
                        AtomArg::At(lower.address(view, all, &position))
                    }
                    // The verifier refuses other operands.
                    OperandKind::Descriptor
                    | OperandKind::TensorMap { .. }
                    | OperandKind::Barrier
                    | OperandKind::Int
                    | OperandKind::Immediate => {
                        return Err(Problem::internal(format!(
                            "`{}` has an operand that copies do not have",
                            row.name
                        )));
                    }
                });
            }
            lower.emit(Op::Atom { row, args, guard: None });
            Ok(())
        })
    }

    /// The elements of a fragment that one instruction takes.
    pub(super) fn frag(&mut self, view: &View, all: &[Leaf], values: usize, at: &[Ix]) -> Frag {
        let reg = self.storage[view.tensor as usize];
        let len: i64 = all[..values].iter().map(|leaf| leaf.extent).product();
        Frag { reg, at: self.register_index(view, all, at), len: len as u32 }
    }
}
