//! Bulk tensor copies (TMA): one elected thread issues the copies of a tile between global and shared memory,
//! box by box; see [`crate::tile::boxes`].

use tilewright_layout::{Obligation, Value};

use super::Lower;
use super::numbering::named;
use crate::isa::atom::{Atom, OperandName};
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::thread::{AtomArg, Fact, Id, Mem, Op, Param, Queue, Space, Unroll};
use crate::tile::boxes::{self, Boxes};
use crate::tile::view::View;
use crate::tile::view::leaf::Leaf;

/// The copies of the boxes of a tile.
struct BoxCopy<'a> {
    row: &'static Atom,
    /// The tile in global memory, and its leaves.
    global: &'a View,
    outer: &'a [Leaf],
    /// The tile in shared memory, and its leaves.
    shared: &'a View,
    inner: &'a [Leaf],
    boxes: &'a Boxes,
    /// The parameter of the tensor map.
    param: Id,
    /// The mbarrier of a load, and its slot.
    arrival: Option<(Id, Ix)>,
}

impl Lower<'_> {
    /// One elected thread issues the copies of a tile. Stores stay in flight until their token is waited for.
    pub(super) fn bulk(&mut self, row: &'static Atom, from: &View, to: &View, in_flight: bool) -> Result<()> {
        let stores = boxes::stores(row);
        let (global, shared) = if stores { (to, from) } else { (from, to) };
        let (outer, inner) = boxes::leaf_by_leaf(global, shared);
        let boxes = Boxes::of(self.program, row, from, to)?;
        if stores
            && let Some((of @ Value::Sym { .. }, _)) =
                self.program.tensor(global.tensor).plain().leaves().nth(boxes.order[0])
        {
            let divisor = self.program.tensor(global.tensor).elem.elements_in(16i64);
            self.assumed.need(Fact::Divides(Obligation { divisor, of }));
        }
        let param = self.map_of(global, &boxes);
        let arrival = if stores { None } else { Some(self.arrival(shared)?) };
        let copy =
            BoxCopy { row, global, outer: &outer, shared, inner: &inner, boxes: &boxes, param, arrival };
        let walked = named(boxes.counts.iter().copied());
        let (mut copies, ()) = self.nested(|lower| {
            lower.loops(&walked, Unroll::Full, &mut |lower, at| {
                let atom = lower.box_copy(&copy, at)?;
                lower.emit(atom);
                Ok(())
            })
        })?;
        if stores {
            let site = self.scope.site;
            let stmt = |op| crate::thread::Stmt { site, op };
            copies.push(stmt(Op::Commit(Queue::Bulk)));
            if !in_flight {
                copies.push(stmt(Op::WaitQueue { queue: Queue::Bulk, pending: 0 }));
            }
        }
        self.elect(copies.into_iter().map(|stmt| stmt.op).collect());
        Ok(())
    }

    /// The copy of the box with these numbers along the modes of the map.
    fn box_copy(&mut self, copy: &BoxCopy<'_>, at: &[Ix]) -> Result<Op> {
        let &BoxCopy { row, global, outer, shared, inner, boxes, param, arrival } = copy;
        // The start of the box in the tile, leaf by leaf: both views have the same modes.
        let mut begin = vec![self.int(0); outer.len()];
        for ((&mode, &size), &number) in boxes.order.iter().zip(&boxes.sizes).zip(at) {
            let Some(leaf) = outer.iter().position(|leaf| leaf.mode == mode) else { continue };
            begin[leaf] = self.exprs().mul(number, size);
        }
        let coordinates = self.coordinates(global, outer, &begin);
        let location = AtomArg::At(self.start_of(shared, inner, &begin));
        let coordinates = boxes.order.iter().map(|&mode| self.in_32_bits(coordinates[mode])).collect();
        let map = AtomArg::Map { param, at: coordinates };
        let Some((bar, slot)) = arrival else {
            return Ok(Op::Atom { row, args: vec![map, location], guard: None });
        };
        let mut args = vec![location, map, AtomArg::Barrier { bar, slot }];
        if row.operand(OperandName::Mask).is_some() {
            let blocks = self.program.cluster[0];
            let first = self.rank_along_x(0)?;
            args.push(AtomArg::Int(self.exprs().shl((1 << blocks) - 1, first)));
        }
        Ok(Op::Atom { row, args, guard: None })
    }

    /// A coordinate in 32 bits. A coordinate that does not fit is out of bounds of every tensor. It is clamped to a
    /// multiple of 16 that is out of bounds too: along the contiguous mode, the instruction takes only multiples of 16
    /// bytes.
    fn in_32_bits(&mut self, coordinate: Ix) -> Ix {
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX - 15));
        let known = self.kernel.exprs.get(coordinate);
        if known.lo >= least && known.hi <= i64::from(i32::MAX) {
            return coordinate;
        }
        let least = self.int(least);
        let above = self.exprs().max(coordinate, least);
        self.exprs().min(above, most)
    }

    /// The tensor map for boxes of a tensor. Records the launch facts that it needs.
    fn map_of(&mut self, global: &View, boxes: &Boxes) -> Id {
        let source = self.program.tensor(global.tensor);
        let tensor = self.storage[global.tensor as usize];
        let wanted = Param::TensorMap {
            name: format!("{}_map", source.name),
            tensor,
            tile: boxes.sizes.iter().map(|&n| n as u32).collect(),
            steps: boxes.steps.iter().map(|&n| n as u32).collect(),
            modes: boxes.order.iter().map(|&mode| mode as u8).collect(),
            swizzle: boxes.swizzle,
        };
        self.assumed.need(Fact::Aligned { param: tensor, bytes: 16 });
        let divisor = source.elem.elements_in(16i64);
        let (extents, strides): (Vec<Value>, Vec<Value>) = source.plain().leaves().unzip();
        // No map describes a tensor without elements.
        for of in extents {
            if let Value::Sym { of: size, .. } = of
                && self.program.least(size) == 0
            {
                self.assumed.need(Fact::AtLeast { of, limit: 1 });
            }
        }
        for &mode in &boxes.order[1..] {
            self.assumed.need(Fact::Divides(Obligation { divisor, of: strides[mode] }));
        }
        match self.kernel.params.iter().position(|known| *known == wanted) {
            Some(at) => at as Id,
            None => {
                self.kernel.params.push(wanted);
                self.kernel.params.len() as Id - 1
            }
        }
    }

    /// The mbarrier that a copy into a ring's slot completes.
    fn arrival(&mut self, shared: &View) -> Result<(Id, Ix)> {
        let ring = boxes::ring(self.program, shared.tensor)?;
        // The slot is the coordinate in the buffer's last mode.
        let slot = match shared.base.last() {
            Some(slot) => self.affine(&slot.clone()),
            None => self.int(0),
        };
        Ok((self.rings[ring as usize], slot))
    }

    /// The start address of a tile before the swizzle: the hardware swizzles addresses itself.
    pub(super) fn start_of(&mut self, view: &View, all: &[Leaf], at: &[Ix]) -> Mem {
        let layout = self.program.tensor(view.tensor).layout.layout().clone();
        let coordinates = self.coordinates(view, all, at);
        let index = self.offset(&layout.into(), &coordinates, Some(view.tensor));
        Mem { space: Space::Shared(self.storage[view.tensor as usize]), index, peer: None }
    }
}
