//! Instructions of the table, and rings: what warps and warpgroups do together.

use tilewright_layout::{Composed, Value};

use super::Lower;
use super::address::{Leaf, leaves};
use crate::atom::{Atom, Effect, OperandKind};
use crate::atoms;
use crate::index::Ix;
use crate::problem::{Problem, Result};
use crate::thread::{AtomArg, Fact, Fence, Frag, Id, Mem, Op, Param, Queue, Scope, Space, Unroll};
use crate::view::View;

fn row(name: &str) -> Result<&'static Atom> {
    atoms::find(name).ok_or_else(|| Problem::new(format!("there is no instruction `{name}`")))
}

impl Lower<'_> {
    fn arch_of(&mut self, row: &Atom) {
        self.kernel.arch = self.kernel.arch.max(row.arch);
        self.kernel.arch_specific |= row.arch_specific;
    }

    /// A copy by a row of the table.
    pub(super) fn copy_by(&mut self, name: &str, from: &View, to: &View) -> Result<()> {
        let row = row(name)?;
        self.arch_of(row);
        self.comment(format!("{} <- {}, {}", to.name, from.name, to.shape()));
        if row.operands.iter().any(|o| matches!(o.kind, OperandKind::TensorMap { .. })) {
            return self.bulk_load(row, from, to);
        }
        let (from_leaves, to_leaves) = (leaves(from), leaves(to));
        // The first mode is what one instruction moves; the others are walked.
        let values = |view: &View| -> Result<usize> { Ok(view.layout.mode(0)?.leaves().len()) };
        let (from_values, to_values) = (values(from)?, values(to)?);
        let extents =
            |leaves: &[Leaf], skip: usize| leaves[skip..].iter().map(|l| l.extent).collect::<Vec<_>>();
        if extents(&from_leaves, from_values) != extents(&to_leaves, to_values) {
            return Err(Problem::new(format!(
                "`{}`, {}, and `{}`, {}, are not walked alike by `{name}`",
                from.name,
                from.shape(),
                to.name,
                to.shape()
            )));
        }
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
                    _ => return Err(Problem::new(format!("`{}` is not a copy between views", row.name))),
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

    /// A lane's address must be that of a row of 16 bytes.
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

    /// One elected thread has the copy engine move a box.
    fn bulk_load(&mut self, row: &'static Atom, from: &View, to: &View) -> Result<()> {
        let source = self.program.tensor(from.tensor);
        let target = self.program.tensor(to.tensor);
        let ring = self.program.rings.iter().position(|ring| ring.buffers.contains(&to.tensor)).ok_or_else(
            || {
                Problem::new(format!(
                    "`{}` belongs to no ring, so nobody would know when the copy is done",
                    target.name
                ))
            },
        )?;
        let all = leaves(from);
        let modes: Vec<(Value, Value)> = source.plain().leaves().collect();
        // Innermost first: the mode with stride 1, then the others.
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(|&mode| modes[mode].1 != Value::Int(1));
        if modes[order[0]].1 != Value::Int(1) {
            return Err(Problem::new(format!("no mode of `{}` has stride 1", source.name)));
        }
        let extent = |mode: usize| all.iter().filter(|l| l.mode == mode).map(|l| l.extent).product::<i64>();
        let tile: Vec<u32> = order.iter().map(|&mode| extent(mode) as u32).collect();
        let swizzle = swizzle_bytes(&target.layout, source.elem.bytes())?;
        let bytes = tile[0] * source.elem.bytes();
        if tile.iter().any(|&n| n > 256) || !bytes.is_multiple_of(16) || (swizzle > 0 && bytes > swizzle) {
            let limit = if swizzle > 0 { swizzle } else { 256 * source.elem.bytes() };
            return Err(Problem::new(format!(
                "a box of {tile:?} elements cannot be copied at once: its rows are {bytes} bytes, and the limit is {limit}"
            ))
            .help("use a narrower tile, or several copies"));
        }
        let pointer = self.places[from.tensor as usize];
        let map = Param::TensorMap {
            name: format!("{}_map", source.name),
            tensor: pointer,
            tile,
            modes: order.iter().map(|&mode| mode as u8).collect(),
            swizzle,
        };
        let param = match self.kernel.params.iter().position(|known| *known == map) {
            Some(at) => at as Id,
            None => {
                self.kernel.params.push(map);
                self.kernel.params.len() as Id - 1
            }
        };
        self.need(Fact::Aligned { param: pointer, bytes: 16 });
        for &mode in &order[1..] {
            let divisor = i64::from(16 / source.elem.bytes());
            let obligation = tilewright_layout::Obligation { divisor, of: modes[mode].1 };
            self.need(Fact::Divides(obligation));
        }
        let zeros = vec![self.int(0); all.len()];
        let coordinates = self.coordinates(from, &all, &zeros);
        let to_leaves = leaves(to);
        let zeros = vec![self.int(0); to_leaves.len()];
        let place = self.start_of(to, &to_leaves, &zeros);
        let slot = self.slot_of(to);
        let bar = self.rings[ring];
        let mut args = vec![
            AtomArg::At(place),
            AtomArg::Map { param, at: order.iter().map(|&mode| coordinates[mode]).collect() },
            AtomArg::Barrier { bar, slot },
        ];
        if row.operand('k').is_some() {
            let everybody = (1i64 << self.program.cluster.iter().product::<u32>()) - 1;
            args.push(AtomArg::Int(self.int(everybody)));
        }
        self.elect(vec![Op::Atom { row, args, guard: None }]);
        Ok(())
    }

    /// Where a tile begins, before the swizzle: hardware swizzles addresses itself.
    fn start_of(&mut self, view: &View, all: &[Leaf], at: &[Ix]) -> Mem {
        let layout = self.program.tensor(view.tensor).layout.layout().clone();
        let coordinates = self.coordinates(view, all, at);
        let index = self.offset(&layout.into(), &coordinates);
        Mem { space: Space::Shared(self.places[view.tensor as usize]), index, peer: None }
    }

    /// The slot of a ring's buffer: the coordinate in its last mode.
    fn slot_of(&mut self, view: &View) -> Ix {
        match view.base.last() {
            Some(slot) => self.affine(&slot.clone()),
            None => self.int(0),
        }
    }

    /// A product by a row of the table: fragments, or matrices in shared memory.
    pub(super) fn gemm_by(
        &mut self,
        name: &str,
        a: &View,
        b: &View,
        acc: &View,
        in_flight: bool,
    ) -> Result<()> {
        let row = row(name)?;
        self.arch_of(row);
        let Effect::Mma { m, n, k } = row.effect else {
            return Err(Problem::new(format!("`{name}` is not a matrix product")));
        };
        self.comment(format!("{} += {} * {} by {m}x{n}x{k}", acc.name, a.name, b.name));
        let (a_leaves, b_leaves, acc_leaves) = (leaves(a), leaves(b), leaves(acc));
        let fragment =
            |operand: char| matches!(row.operand(operand).map(|o| o.kind), Some(OperandKind::Frag { .. }));
        let steps = |view: &View, operand: char, mode: usize, size: u32| -> Result<i64> {
            match fragment(operand) {
                true => Ok(view.layout.mode(mode + 1)?.size()?),
                false => Ok(view.layout.mode(mode)?.size()? / i64::from(size)),
            }
        };
        let (rows, depth) = (steps(a, 'a', 0, m)?, steps(a, 'a', 1, k)?);
        let columns = steps(b, 'b', 0, n)?;
        let asynchronous = row.group == Scope::Warpgroup;
        if asynchronous {
            self.emit(Op::Fence(Fence::Wgmma));
        }
        let walked = [("m".to_owned(), rows), ("n".to_owned(), columns), ("kk".to_owned(), depth)];
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
                        let (size, depth) = (lower.int(i64::from(size)), lower.int(i64::from(k)));
                        let place = [lower.exprs().mul(first, size), lower.exprs().mul(second, depth)];
                        lower.descriptor(view, all, &place)?
                    }
                    (OperandKind::Int, 's') => AtomArg::Int(lower.int(1)),
                    // Both operands are read along their depth: not transposed.
                    (OperandKind::Immediate, _) => AtomArg::Int(lower.int(0)),
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

    /// A matrix in shared memory as tensor cores read it, off the strides of its layout: rows of 32, 64 or 128 bytes along
    /// the depth, swizzled over as many, eight rows after another.
    fn descriptor(&mut self, view: &View, all: &[Leaf], at: &[Ix]) -> Result<AtomArg> {
        let tensor = self.program.tensor(view.tensor);
        let bytes = i64::from(tensor.elem.bytes());
        let swizzle = i64::from(swizzle_bytes(&tensor.layout, tensor.elem.bytes())?);
        let stride = |leaf: &Leaf| -> Option<i64> {
            let mode = tensor.plain().modes().nth(leaf.mode)?;
            let mut parts = mode.leaves().filter(|(extent, _)| *extent != Value::Int(1));
            match (parts.next(), parts.next()) {
                (Some((_, Value::Int(d))), None) => Some(d * leaf.step),
                _ => None,
            }
        };
        let refuse = || {
            Problem::new(format!("`{}`, {}, cannot be read by tensor cores", tensor.name, tensor.layout))
                .help("lay it out in rows of 128 bytes along the depth, swizzled: swizzled(3, 3, 3, row_major((rows, 64)))")
        };
        let [rows, depth] = all else { return Err(refuse()) };
        let (Some(apart), Some(1)) = (stride(rows), stride(depth)) else { return Err(refuse()) };
        let mode = match swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => return Err(refuse()),
        };
        if apart * bytes != swizzle || depth.extent * bytes > swizzle {
            return Err(refuse());
        }
        let at = self.start_of(view, all, at);
        Ok(AtomArg::Descriptor { at, leading: 16, stride: (8 * apart * bytes) as u32, mode })
    }
}

/// The hardware's swizzle that a shared layout is: 0, 32, 64 or 128 bytes.
fn swizzle_bytes(layout: &Composed, elem: u32) -> Result<u32> {
    let swizzle = layout.swizzle();
    if swizzle.is_identity() {
        return Ok(0);
    }
    let in_bytes = swizzle.downcast(i64::from(elem))?;
    match (in_bytes.bits(), in_bytes.base(), in_bytes.shift()) {
        (bits @ 1..=3, 4, 3) => Ok(16 << bits),
        _ => Err(Problem::new(format!(
            "{swizzle} of {elem}-byte elements is not a swizzle of the copy engine"
        ))
        .help("those are Sw<1,4,3>, Sw<2,4,3> and Sw<3,4,3> on bytes")),
    }
}
