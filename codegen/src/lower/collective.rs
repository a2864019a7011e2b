//! Copies and matrix products by warp- and warpgroup-wide instructions of the table.

use super::Lower;
use super::address::{Leaf, leaves};
use crate::atom::{Atom, Effect, OperandKind};
use crate::index::Ix;
use crate::problem::{Problem, Result};
use crate::thread::{AtomArg, Fence, Frag, Op, Queue, Scope, Unroll};
use crate::view::View;

impl Lower<'_> {
    fn arch_of(&mut self, row: &Atom) {
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
        let names = ["i", "j", "l", "m", "n"];
        let walked: Vec<(String, i64)> = extents(&to_leaves, to_values)
            .into_iter()
            .enumerate()
            .map(|(i, n)| (names[i % 5].to_owned(), n))
            .collect();
        self.loops(&walked, Unroll::Full, &mut |lower, at| {
            let mut args = Vec::new();
            for operand in row.operands {
                let (view, all, skip) = if operand.writes {
                    (to, &to_leaves, to_values)
                } else {
                    (from, &from_leaves, from_values)
                };
                let mut place = vec![lower.int(0); skip];
                place.extend(at);
                args.push(match operand.kind {
                    OperandKind::Frag { .. } => AtomArg::Frag(lower.frag(view, all, skip, &place)),
                    OperandKind::SharedAddress | OperandKind::GlobalAddress => {
                        lower.check_row(row, view, all)?;
                        AtomArg::At(lower.place(view, all, &place))
                    }
                    // The verifier refuses other operands.
                    OperandKind::Descriptor
                    | OperandKind::TensorMap { .. }
                    | OperandKind::Barrier
                    | OperandKind::Int
                    | OperandKind::Immediate => return Err(Problem::said()),
                });
            }
            lower.emit(Op::Atom { row, args, guard: None });
            Ok(())
        })
    }

    /// The elements of a fragment that one instruction takes.
    fn frag(&mut self, view: &View, all: &[Leaf], values: usize, at: &[Ix]) -> Frag {
        let reg = self.places[view.tensor as usize];
        let len: i64 = all[..values].iter().map(|leaf| leaf.extent).product();
        Frag { reg, at: self.register_index(view, all, at), len: len as u32 }
    }

    /// Each lane's address must be that of 16 contiguous, aligned bytes.
    fn check_row(&mut self, row: &Atom, view: &View, all: &[Leaf]) -> Result<()> {
        let elem = self.program.tensor(view.tensor).elem;
        let wanted = i64::from(16 / elem.bytes());
        let width = self.width(view, all, 0, wanted);
        if width < wanted {
            return Err(Problem::new(format!(
                "`{}` needs rows of {wanted} consecutive, aligned elements, and `{}` has {width}",
                row.name,
                self.program.tensor(view.tensor).name
            ))
            .help("choose a shared layout in which that mode has stride 1 and other strides are multiples of 16 bytes"));
        }
        Ok(())
    }

    /// A product by an instruction of the table, from fragments or from matrices in shared memory.
    pub(super) fn gemm_by(
        &mut self,
        row: &'static Atom,
        [a, b, acc]: [&View; 3],
        in_flight: bool,
        from_zero: bool,
    ) -> Result<()> {
        self.arch_of(row);
        let Effect::Mma { m, n, k, .. } = row.effect else {
            return Err(Problem::said());
        };
        let sets = if from_zero { "=" } else { "+=" };
        self.comment(format!("{} {sets} {} * {} by {m}x{n}x{k}", acc.name, a.name, b.name));
        let (a_leaves, b_leaves, acc_leaves) = (leaves(a), leaves(b), leaves(acc));
        let fragment =
            |operand: char| matches!(row.operand(operand).map(|o| o.kind), Some(OperandKind::Frag { .. }));
        let steps = |view: &View, operand: char, mode: usize, size: u32| -> Result<i64> {
            match fragment(operand) {
                true => Ok(view.layout.mode(mode + 1)?.size()?),
                false => Ok(view.layout.mode(mode)?.size()? / i64::from(size)),
            }
        };
        let (rows, k_steps) = (steps(a, 'a', 0, m)?, steps(a, 'a', 1, k)?);
        let columns = steps(b, 'b', 0, n)?;
        let asynchronous = row.group == Scope::Warpgroup;
        if asynchronous {
            self.emit(Op::Fence(Fence::Wgmma));
        }
        let walked = [("m".to_owned(), rows), ("n".to_owned(), columns), ("kk".to_owned(), k_steps)];
        self.loops(&walked, Unroll::Full, &mut |lower, at| {
            let mut args = Vec::new();
            for operand in row.operands {
                let (view, all, first, second, size) = match operand.name {
                    'a' => (a, &a_leaves, at[0], at[2], m),
                    'b' => (b, &b_leaves, at[1], at[2], n),
                    _ => (acc, &acc_leaves, at[0], at[1], m),
                };
                args.push(match (operand.kind, operand.name) {
                    (OperandKind::Frag { .. }, _) => {
                        let values = view.layout.mode(0)?.leaves().len();
                        let mut place = vec![lower.int(0); values];
                        place.extend([first, second]);
                        AtomArg::Frag(lower.frag(view, all, values, &place))
                    }
                    (OperandKind::Descriptor, _) => {
                        let (size, k) = (lower.int(i64::from(size)), lower.int(i64::from(k)));
                        let place = [lower.exprs().mul(first, size), lower.exprs().mul(second, k)];
                        lower.descriptor(row, view, all, &place)?
                    }
                    // The first k-step replaces the accumulator.
                    (OperandKind::Int, 's') if from_zero => AtomArg::Int(at[2]),
                    (OperandKind::Int, 's') => AtomArg::Int(lower.int(1)),
                    (OperandKind::Immediate, which) => {
                        let transposed = lower.matrix(row, if which == 't' { a } else { b })?.transposed;
                        AtomArg::Int(lower.int(transposed.into()))
                    }
                    _ => {
                        return Err(Problem::new(format!(
                            "`{}` has an operand of an unknown kind",
                            row.name
                        )));
                    }
                });
            }
            lower.emit(Op::Atom { row, args, guard: None });
            Ok(())
        })?;
        if asynchronous {
            self.emit(Op::Commit(Queue::Wgmma));
            if !in_flight {
                self.emit(Op::WaitQueue { queue: Queue::Wgmma, pending: 0 });
            }
        }
        Ok(())
    }
}
