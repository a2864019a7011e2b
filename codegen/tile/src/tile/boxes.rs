//! Boxes of bulk tensor copies (TMA): how a tile is divided into the largest boxes that the instruction takes, and
//! which tiles have no boxes.

use tilewright_layout::{Composed, Layout, Value};

use crate::isa::atom::{Atom, Done};
use crate::isa::scope::Queue;
use crate::source::problem::{Problem, Result};
use crate::tile::Program;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::values::elem::Elem;
use crate::values::id::Id;

/// Most elements of a box along a mode, from its first to its last.
pub const MOST_BOX: i64 = 256;

/// The largest distance of a box's elements along a mode.
const MOST_STEP: i64 = 8;

/// Alignment in bytes of the boxes of bulk tensor copies in shared memory.
pub const BOX_ALIGN: u32 = 128;

/// The least number of elements that is at least as many and a multiple of 16 bytes.
pub(crate) fn whole_groups(elements: i64, bytes: i64) -> i64 {
    let group = 16 / bytes;
    (elements + group - 1) / group * group
}

/// How a tile is divided into boxes.
pub struct Boxes {
    /// The tensor's modes, the contiguous one first.
    pub order: Vec<usize>,
    /// Extents of a box, in that order.
    pub sizes: Vec<i64>,
    /// How far apart a box's elements are along each mode, in that order.
    pub steps: Vec<i64>,
    /// How many boxes the tile has, in that order.
    pub counts: Vec<i64>,
    /// Bytes of the hardware swizzle.
    pub swizzle: u32,
}

/// Is it a store to global memory?
pub fn stores(row: &Atom) -> bool {
    row.family.completes == Done::Queue(Queue::Bulk)
}

/// The ring whose mbarriers a copy into this buffer completes.
pub fn ring(program: &Program, buffer: Id) -> Result<Id> {
    let ring = program.rings.iter().position(|ring| ring.buffers.contains(&buffer));
    ring.map(|ring| ring as Id).ok_or_else(|| {
        let name = &program.tensor(buffer).name;
        Problem::new(format!(
            "`{name}` belongs to no ring, so no mbarrier would signal that the copy is done"
        ))
    })
}

/// Bulk stores clip out-of-bounds elements in groups of 16 bytes, so the row extent must be a multiple of that.
fn ends_with_a_group(program: &Program, global: &View, mode: usize) -> Result<()> {
    let tensor = program.tensor(global.tensor);
    let divisor = tensor.elem.elements_in(16i64);
    match tensor.plain().leaves().nth(mode).and_then(|leaf| leaf.0.int()) {
        Some(n) if n % divisor != 0 => Err(Problem::new(format!(
            "a bulk store writes 16 bytes at once, {divisor} elements of {}, and rows of `{}` have {n}",
            tensor.elem, tensor.name
        ))
        .help("store the tile by threads: copy it without naming an instruction")),
        // A launch fact, where it is no number.
        Some(_) | None => Ok(()),
    }
}

/// A box begins at a multiple of 16 bytes along the contiguous mode: elsewhere the instruction is an illegal one.
fn begins_with_a_group(program: &Program, global: &View, mode: usize) -> Result<()> {
    let tensor = program.tensor(global.tensor);
    let group = tensor.elem.elements_in(16i64);
    if program.divisor(&global.base[mode]) % group == 0 {
        return Ok(());
    }
    Err(Problem::new(format!(
        "a bulk copy must begin at a multiple of {group} elements along mode {mode} of `{}` (16 bytes of {}), and `{}` may begin elsewhere",
        tensor.name, tensor.elem, global.name
    ))
    .help(format!(
        "begin at a multiple such as {group} * n, or leave the producer out: threads copy such tiles"
    )))
}

/// The remedy for a tile that bulk copies do not support.
const BY_THREADS: &str = "let threads copy it: leave `producer` out";

/// The most rows of a box, at most this many, where each box begins at an aligned address.
fn rows_of_box(global: &View, rows: i64, most: i64, row_bytes: i64) -> Result<i64> {
    let fits =
        |size: &i64| rows % size == 0 && (*size == rows || size * row_bytes % i64::from(BOX_ALIGN) == 0);
    (1..=most.min(rows)).rev().find(fits).ok_or_else(|| {
        Problem::new(format!(
            "a bulk copy moves at most {most} rows, and the {rows} rows of `{}`, {}, do not divide into equal parts of a multiple of {BOX_ALIGN} bytes",
            global.name,
            global.shape()
        ))
        .help(format!("use a tile of {most} rows at most, or {BY_THREADS}"))
    })
}

impl Boxes {
    /// The bytes of all boxes.
    pub fn bytes(&self, elem: Elem) -> i64 {
        elem.bytes_of(self.sizes.iter().chain(&self.counts).product())
    }

    /// The boxes of a copy by a row of the table.
    pub fn of(program: &Program, row: &Atom, from: &View, to: &View) -> Result<Boxes> {
        if stores(row) {
            let boxes = Boxes::between(program, to, from, true)?;
            ends_with_a_group(program, to, boxes.order[0])?;
            return Ok(boxes);
        }
        ring(program, to.tensor)?;
        Boxes::between(program, from, to, false)
    }

    /// As wide as the swizzle or as rows in shared memory, with as many rows as a box can have.
    fn between(program: &Program, global: &View, shared: &View, stores: bool) -> Result<Boxes> {
        let (outer, inner) = leaf_by_leaf(global, shared);
        let (source, target) = (program.tensor(global.tensor), program.tensor(shared.tensor));
        let modes: Vec<(Value, Value)> = source.plain().leaves().collect();
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(|&mode| modes[mode].1 != Value::Int(1));
        if modes[order[0]].1 != Value::Int(1) {
            return Err(Problem::new(format!(
                "a bulk copy moves rows of consecutive elements, and no mode of `{}` has stride 1",
                source.name
            ))
            .help(format!("give a mode the stride 1, such as (ld, _1), or {BY_THREADS}")));
        }
        // A mode at one index has no part in the tile.
        let steps = |leaf: &Leaf| {
            leaf.step == 1 || !stores && leaf.mode != order[0] && (1..=MOST_STEP).contains(&leaf.step)
        };
        let plain = |all: &[Leaf]| all.len() <= order.len() && all.iter().all(steps);
        let contiguous = outer.iter().position(|leaf| leaf.mode == order[0]);
        let begins_rows = contiguous.and_then(|leaf| inner.get(leaf)).is_some_and(|leaf| leaf.step == 1);
        let whole = leaves(shared).iter().all(|leaf| leaf.step == 1);
        if !plain(&outer) || !whole || outer.len() != inner.len() || !begins_rows {
            return Err(Problem::new(format!(
                "a bulk copy keeps the shape of a tile of `{}`: from `{}`, {}, to `{}`, {}, the tile would be regrouped or sliced across its rows",
                source.name,
                global.name,
                global.shape(),
                shared.name,
                shared.shape()
            ))
            .help(format!(
                "copy whole rows to a tile of the same shape, and regroup or slice that tile where it is read; or {BY_THREADS}"
            )));
        }
        begins_with_a_group(program, global, order[0])?;
        let elem = source.elem;
        let swizzle = swizzle_bytes(&target.layout, elem.bytes())?;
        let of = |mode: usize| outer.iter().find(|leaf| leaf.mode == mode);
        let extent = |mode: usize| of(mode).map_or(1, |leaf| leaf.extent);
        let steps: Vec<i64> = order.iter().map(|&mode| of(mode).map_or(1, |leaf| leaf.step)).collect();
        let first = contiguous.unwrap_or(0);
        let row = target.plain().mode(inner[first].mode)?;
        let widest = match swizzle {
            0 => MOST_BOX.min(run(&row)),
            bytes => elem.elements_in(bytes.into()),
        };
        // A row in shared memory may have room for elements after the tile's.
        let of_row = match stores {
            true => extent(order[0]),
            false => whole_groups(extent(order[0]), elem.bytes().into()),
        };
        let mut sizes = vec![of_row.min(widest)];
        for (&mode, step) in order.iter().zip(&steps).skip(1) {
            let row_bytes = elem.bytes_of(sizes.iter().product());
            sizes.push(rows_of_box(global, extent(mode), (MOST_BOX - 1) / step + 1, row_bytes)?);
        }
        let counts: Vec<i64> =
            order.iter().zip(&sizes).map(|(&mode, &size)| (extent(mode) + size - 1) / size).collect();
        let open = || format!("leave the shared layout open, shared::<{}>({})", target.elem, shared.shape());
        let reach = sizes[0] * counts[0];
        let adjacent = swizzle > 0 || elem.bytes_of(run(&row)) >= 16.min(elem.bytes_of(extent(order[0])));
        if adjacent && (elem.bytes_of(sizes[0]) % 16 != 0 || reach > of_row.min(row.size()?)) {
            return Err(Problem::new(format!(
                "a bulk copy moves rows whose length is a multiple of 16 bytes, or of a swizzled row; the rows of `{}`, {}, have {} bytes, with the shared layout {}",
                global.name,
                global.shape(),
                elem.bytes_of(extent(order[0])),
                target.layout
            ))
            .help(format!("use a tile with rows of a multiple of 16 bytes, {}, or {BY_THREADS}", open())));
        }
        // A box is dense in shared memory: its rows are consecutive.
        let mut step = 1;
        for (&mode, &size) in order.iter().zip(&sizes) {
            let Some(leaf) = outer.iter().position(|leaf| leaf.mode == mode) else { continue };
            let Leaf { extent, mode, step: apart } = inner[leaf];
            let along = match apart {
                1 => target.plain().mode(mode)?,
                _ => target.plain().mode(mode)?.composition(Layout::new(extent, apart)?)?,
            };
            if !adjacent || size > 1 && !runs(&along, size, step) {
                return Err(Problem::new(format!(
                    "a bulk copy writes the rows of `{}` one after another, without gaps, and the layout of `{}`, {}, has other distances",
                    source.name, target.name, target.layout
                ))
                .help(format!(
                    "{}, put the mode first that is contiguous in global memory, with rows of a multiple of 16 bytes and without gaps, or {BY_THREADS}",
                    open()
                )));
            }
            step *= size;
        }
        Ok(Boxes { order, sizes, steps, counts, swizzle })
    }
}

/// The leaves of two views of the same elements. A mode of the shared tile is divided as the mode of the other view is: its rows may
/// come from several modes of a tensor.
pub fn leaf_by_leaf(global: &View, shared: &View) -> (Vec<Leaf>, Vec<Leaf>) {
    let outer = leaves(global);
    let mut rest = &outer[..];
    let mut inner = Vec::new();
    for whole in leaves(shared) {
        let mut step = 0;
        let parts = rest.iter().take_while(|leaf| {
            let is_part = step < whole.extent;
            step = step.max(1) * leaf.extent;
            is_part
        });
        let parts = &rest[..parts.count()];
        rest = &rest[parts.len()..];
        if parts.len() < 2 || parts.iter().map(|leaf| leaf.extent).product::<i64>() != whole.extent {
            inner.push(whole);
            continue;
        }
        let mut step = whole.step;
        for &Leaf { extent, .. } in parts {
            inner.push(Leaf { extent, step, ..whole });
            step *= extent;
        }
    }
    (outer, inner)
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
pub(crate) fn swizzle_bytes(layout: &Composed, elem: u32) -> Result<u32> {
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
