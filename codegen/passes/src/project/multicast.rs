//! Copies into all blocks of a cluster. A tile that does not depend on `block.x` is the same for neighbouring blocks: each
//! block of a cluster copies a part of it, and multicasts that part to the others.

use tilewright_layout::{Tiler, Tuple, Value};

use crate::isa;
use crate::tile::view::{At, View};
use crate::tile::visit::{each_mut, preorder};
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::values::affine::Affine;

/// Rows of shared memory after which a swizzle repeats.
const PERIOD: i64 = 8;

/// Multicasts the copies of a producer where that is possible; slots of its rings are then filled by the whole cluster.
pub(super) fn multicast(program: &mut Program, produced: &mut [Stmt]) {
    // All blocks must fill the same slots in the same order.
    let (mut fills, mut diverge) = (Vec::new(), program.cluster[0] < 2);
    for stmt in preorder(produced) {
        diverge |= program.neighbours_diverge(&stmt.op);
        fills.extend(shared(program, stmt));
    }
    if diverge || fills.iter().all(Option::is_none) {
        return;
    }
    let mut parts = fills.into_iter();
    each_mut(produced, &mut |stmt| {
        let Op::Copy { from, to, how, .. } = &mut stmt.op else { return };
        if let Some(part) = parts.next().flatten() {
            (*from, *to, *how) = part;
        }
    });
    let by = produced.first().map(|stmt| stmt.by);
    let of_producer = program.rings.iter_mut().filter(|ring| Some(ring.from) == by);
    of_producer.for_each(|ring| ring.over_cluster = true);
}

type Part = (View, View, How);

/// For a copy this block's part of it, if all blocks of the cluster copy the same tile.
fn shared(program: &Program, stmt: &Stmt) -> Option<Option<Part>> {
    let Op::Copy { from, to, .. } = &stmt.op else { return None };
    let blocks = i64::from(program.cluster[0]);
    let origins = from.limits.iter().flatten().map(|(origin, _)| origin);
    if from.base.iter().chain(origins).any(|at| at.per_block(blocks)) {
        return Some(None);
    }
    Some((0..from.rank()).find_map(|mode| part(program, from, to, mode, blocks)))
}

/// A block's part of a copy, divided along a mode.
fn part(program: &Program, from: &View, to: &View, mode: usize, blocks: i64) -> Option<Part> {
    let (source, target) = (program.tensor(from.tensor), program.tensor(to.tensor));
    let extents = from.extents()?;
    let share = extents[mode] / blocks;
    if extents[mode] % blocks != 0 || to.extents()? != extents {
        return None;
    }
    // A part begins where the swizzle does.
    let Space::Shared { align } = target.space else { return None };
    let begin = |at: usize| if at == mode { share } else { 0 };
    let begin: Vec<i64> = (0..target.plain().rank()).map(begin).collect();
    let Value::Int(offset) = target.plain().at(Tuple::flat(&begin)).ok()? else { return None };
    let period = i64::from(align).max(PERIOD * crate::build::tiled::SWIZZLED);
    if target.elem.bytes_of(offset) % period != 0 {
        return None;
    }
    let of_block = |own: usize| if own == mode { program.number_in_cluster(0) } else { Affine::default() };
    let at: Vec<At> = (0..extents.len()).map(|own| At::Index(of_block(own))).collect();
    let tile = |own: usize| if own == mode { share } else { extents[own] };
    let tiler = Tiler::from(Tuple::flat(&(0..extents.len()).map(tile).collect::<Vec<_>>()));
    let row = isa::bulk_load(source.rank(), true)?;
    let of = |view: &View| Some(view.tile(&tiler, &at).ok()?.with_name(&view.name));
    Some((of(from)?, of(to)?, How::Atom(row)))
}
