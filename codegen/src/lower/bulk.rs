//! Bulk tensor copies (TMA): one elected thread issues the copies of a tile between global and shared memory,
//! in the largest boxes that the instruction takes.

use tilewright_layout::{Composed, Layout, Obligation, Value};

use super::Lower;
use super::address::{Leaf, leaves};
use crate::atom::{Atom, Done};
use crate::index::Ix;
use crate::problem::{Problem, Result};
use crate::thread::{AtomArg, Fact, Id, Mem, Op, Param, Queue, Space, Unroll};
use crate::view::View;

/// Most elements of a box along a mode.
const MOST_BOX: i64 = 256;

/// How a tile is divided into boxes.
struct Boxes {
    /// The tensor's modes, the contiguous one first.
    order: Vec<usize>,
    /// Extents of a box, in that order.
    sizes: Vec<i64>,
    /// How many boxes the tile has, in that order.
    counts: Vec<i64>,
    /// Bytes of the hardware swizzle.
    swizzle: u32,
}

impl Lower<'_> {
    /// One elected thread issues the copies of a tile. Stores stay in flight until their token is waited for.
    pub(super) fn bulk(&mut self, row: &'static Atom, from: &View, to: &View, in_flight: bool) -> Result<()> {
        let stores = row.done == Done::Queue(Queue::Bulk);
        let (global, shared) = if stores { (to, from) } else { (from, to) };
        let (outer, inner) = (leaves(global), leaves(shared));
        let boxes = self.boxes(global, &outer, shared, &inner)?;
        if stores {
            self.ends_with_a_group(global, boxes.order[0])?;
        }
        let param = self.map_of(global, &boxes);
        let arrival = if stores { None } else { Some(self.arrival(shared)?) };
        let names = ["i", "j", "l", "m", "n"];
        let walked: Vec<(String, i64)> =
            boxes.counts.iter().enumerate().map(|(at, &n)| (names[at % 5].to_owned(), n)).collect();
        let (mut copies, ()) = self.nested(|lower| {
            lower.loops(&walked, Unroll::Full, &mut |lower, at| {
                let atom =
                    lower.box_copy(row, (global, &outer), (shared, &inner), &boxes, (param, arrival), at);
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

    /// Bulk stores clip out-of-bounds elements in groups of 16 bytes, so the row extent must be a multiple of
    /// that.
    fn ends_with_a_group(&mut self, global: &View, mode: usize) -> Result<()> {
        let tensor = self.program.tensor(global.tensor);
        let divisor = i64::from(16 / tensor.elem.bytes());
        match tensor.plain().leaves().nth(mode).map(|leaf| leaf.0) {
            Some(Value::Int(n)) if n % divisor != 0 => Err(Problem::new(format!(
                "a bulk store writes 16 bytes at once, {divisor} elements of {}, and rows of `{}` have {n}",
                tensor.elem, tensor.name
            ))
            .help("store the tile by threads: copy it without naming an instruction")),
            Some(of @ Value::Sym { .. }) => {
                self.need(Fact::Divides(Obligation { divisor, of }));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The copy of one box.
    fn box_copy(
        &mut self,
        row: &'static Atom,
        (global, outer): (&View, &[Leaf]),
        (shared, inner): (&View, &[Leaf]),
        boxes: &Boxes,
        (param, arrival): (Id, Option<(Id, Ix)>),
        at: &[Ix],
    ) -> Op {
        // The start of the box in the tile, leaf by leaf: both views have the same modes.
        let mut begin = vec![self.int(0); outer.len()];
        for ((&mode, &size), &number) in boxes.order.iter().zip(&boxes.sizes).zip(at) {
            let Some(leaf) = outer.iter().position(|leaf| leaf.mode == mode) else { continue };
            let size = self.int(size);
            begin[leaf] = self.exprs().mul(number, size);
        }
        let coordinates = self.coordinates(global, outer, &begin);
        let place = AtomArg::At(self.start_of(shared, inner, &begin));
        let map = AtomArg::Map { param, at: boxes.order.iter().map(|&mode| coordinates[mode]).collect() };
        let Some((bar, slot)) = arrival else {
            return Op::Atom { row, args: vec![map, place], guard: None };
        };
        let mut args = vec![place, map, AtomArg::Barrier { bar, slot }];
        if row.operand('k').is_some() {
            let everybody = (1i64 << self.program.cluster.iter().product::<u32>()) - 1;
            args.push(AtomArg::Int(self.int(everybody)));
        }
        Op::Atom { row, args, guard: None }
    }

    /// The boxes of a tile: as wide as the swizzle or as rows in shared memory, with as many rows as a box can
    /// have.
    fn boxes(&mut self, global: &View, outer: &[Leaf], shared: &View, inner: &[Leaf]) -> Result<Boxes> {
        let (source, target) = (self.program.tensor(global.tensor), self.program.tensor(shared.tensor));
        let modes: Vec<(Value, Value)> = source.plain().leaves().collect();
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(|&mode| modes[mode].1 != Value::Int(1));
        if modes[order[0]].1 != Value::Int(1) {
            return Err(Problem::new(format!("no mode of `{}` has stride 1", source.name)));
        }
        // A mode at one index has no part in the tile.
        let plain = |all: &[Leaf]| all.len() <= order.len() && all.iter().all(|leaf| leaf.step == 1);
        let contiguous = outer.iter().any(|leaf| leaf.mode == order[0]);
        if !plain(outer) || !plain(inner) || outer.len() != inner.len() || !contiguous {
            return Err(Problem::new(format!(
                "a bulk copy moves a tile with a mode for each of the {} modes of `{}`, and this is {} to or from {}",
                order.len(),
                source.name,
                global.shape(),
                shared.shape()
            ))
            .help("copy a whole tile of the tensor to a tile of the same shape"));
        }
        let bytes = i64::from(source.elem.bytes());
        let swizzle = swizzle_bytes(&target.layout, source.elem.bytes())?;
        let extent = |mode: usize| outer.iter().find(|leaf| leaf.mode == mode).map_or(1, |leaf| leaf.extent);
        let first = outer.iter().position(|leaf| leaf.mode == order[0]).unwrap_or(0);
        let widest = match swizzle {
            0 => MOST_BOX.min(run(&target.plain().mode(inner[first].mode)?)),
            bytes_of_row => i64::from(bytes_of_row) / bytes,
        };
        let size = |at: usize| extent(order[at]).min(if at == 0 { widest } else { MOST_BOX });
        let sizes: Vec<i64> = (0..order.len()).map(size).collect();
        let counts: Vec<i64> = order.iter().zip(&sizes).map(|(&mode, &size)| extent(mode) / size).collect();
        let whole = order.iter().zip(&sizes).all(|(&mode, &size)| extent(mode) % size == 0);
        let row = sizes[0] * bytes;
        if !whole || row % 16 != 0 {
            return Err(Problem::new(format!(
                "a tile of {} elements has no whole boxes of {sizes:?}: their rows are {row} bytes",
                global.shape()
            ))
            .help(
                "use a tile whose rows are a multiple of 16 bytes, and of the swizzle where they are longer",
            ));
        }
        // A box is dense in shared memory: its rows are consecutive.
        let mut step = 1;
        for (&mode, &size) in order.iter().zip(&sizes) {
            let Some(leaf) = outer.iter().position(|leaf| leaf.mode == mode) else { continue };
            let along = target.plain().mode(inner[leaf].mode)?;
            if size > 1 && !runs(&along, size, step) {
                return Err(Problem::new(format!(
                    "a bulk copy needs boxes of {sizes:?} elements with consecutive rows in shared memory, and `{}` is {}",
                    target.name, target.layout
                ))
                .help("put the mode that is contiguous in global memory first, and make rows consecutive"));
            }
            step *= size;
        }
        Ok(Boxes { order, sizes, counts, swizzle })
    }

    /// The tensor map for boxes of a tensor. Records the launch facts that it needs.
    fn map_of(&mut self, global: &View, boxes: &Boxes) -> Id {
        let source = self.program.tensor(global.tensor);
        let tensor = self.places[global.tensor as usize];
        let wanted = Param::TensorMap {
            name: format!("{}_map", source.name),
            tensor,
            tile: boxes.sizes.iter().map(|&n| n as u32).collect(),
            modes: boxes.order.iter().map(|&mode| mode as u8).collect(),
            swizzle: boxes.swizzle,
        };
        self.need(Fact::Aligned { param: tensor, bytes: 16 });
        let divisor = i64::from(16 / source.elem.bytes());
        let strides: Vec<Value> = source.plain().leaves().map(|leaf| leaf.1).collect();
        for &mode in &boxes.order[1..] {
            self.need(Fact::Divides(Obligation { divisor, of: strides[mode] }));
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
        let ring = self.program.rings.iter().position(|ring| ring.buffers.contains(&shared.tensor));
        let Some(ring) = ring else {
            let name = &self.program.tensor(shared.tensor).name;
            return Err(Problem::new(format!(
                "`{name}` belongs to no ring, so no mbarrier would signal that the copy is done"
            )));
        };
        // The slot is the coordinate in the buffer's last mode.
        let slot = match shared.base.last() {
            Some(slot) => self.affine(&slot.clone()),
            None => self.int(0),
        };
        Ok((self.rings[ring], slot))
    }

    /// The start address of a tile before the swizzle: the hardware swizzles addresses itself.
    pub(super) fn start_of(&mut self, view: &View, all: &[Leaf], at: &[Ix]) -> Mem {
        let layout = self.program.tensor(view.tensor).layout.layout().clone();
        let coordinates = self.coordinates(view, all, at);
        let index = self.offset(&layout.into(), &coordinates);
        Mem { space: Space::Shared(self.places[view.tensor as usize]), index, peer: None }
    }
}

/// How many elements of a mode are adjacent.
fn run(mode: &Layout) -> i64 {
    let mut reach = 1;
    for (extent, stride) in mode.leaves() {
        match (extent, stride) {
            (Value::Int(extent), Value::Int(stride)) if extent == 1 || stride == reach => reach *= extent,
            _ => break,
        }
    }
    reach
}

/// Does a mode consist of runs of `size` elements with stride `step`?
fn runs(mode: &Layout, size: i64, step: i64) -> bool {
    let mut reach = 1;
    for (extent, stride) in mode.leaves() {
        let (Value::Int(extent), Value::Int(stride)) = (extent, stride) else { return false };
        if extent > 1 && stride != step * reach {
            return false;
        }
        reach *= extent;
        if reach >= size {
            return reach % size == 0;
        }
    }
    false
}

/// The hardware swizzle of a shared layout: 0, 32, 64 or 128 bytes.
pub(super) fn swizzle_bytes(layout: &Composed, elem: u32) -> Result<u32> {
    let swizzle = layout.swizzle();
    if swizzle.is_identity() {
        return Ok(0);
    }
    let in_bytes = swizzle.downcast(i64::from(elem))?;
    match (in_bytes.bits(), in_bytes.base(), in_bytes.shift()) {
        (bits @ 1..=3, 4, 3) => Ok(16 << bits),
        _ => Err(Problem::new(format!(
            "{swizzle} of {elem}-byte elements is not a swizzle that bulk copies have"
        ))
        .help("those are Sw<1,4,3>, Sw<2,4,3> and Sw<3,4,3> on bytes")),
    }
}
