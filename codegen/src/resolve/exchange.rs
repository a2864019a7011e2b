//! Elements of register tiles change threads through shared memory: for a statement that needs another
//! distribution, as an operand of an instruction, and on their way to global memory where threads would
//! write it in narrow, scattered pieces.

use std::collections::BTreeMap;

use tilewright_layout::{Composed, Digit, Distribution, Tiler, Transfer, Tuple, Value, WarpAccess};

use super::forms::{contiguous, spread};
use super::{Resolve, each, part, shared};
use crate::affine::Affine;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::target::{STATIC_SHARED, Target, WARP};
use crate::thread::{Id, Unroll};
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::view::{At, View};

/// How much more of the moved bytes a wide, coalesced store must use to be worth two accesses to shared
/// memory and two barriers.
const GAIN: f64 = 2.0;
/// Bytes that are left to mbarriers.
const BARRIERS: i64 = 1024;
/// Bytes between neighbours along a mode that is not contiguous: more than a line.
const FAR: i64 = 1 << 20;

/// Where shared tensors are used for the last time.
#[derive(Default)]
pub(super) struct Uses {
    /// The last statement, and whether it reads the tensor.
    last: BTreeMap<Id, (Id, bool)>,
    /// Slots of what pipelined loops fill.
    slots: BTreeMap<Id, i64>,
    /// Is every access a statement of this program, in its order? Not those of rings, roles and other blocks.
    in_order: bool,
}

impl Uses {
    /// The uses in a numbered program.
    pub(super) fn of(program: &Program, body: &[Stmt]) -> Uses {
        let in_order = program.rings.is_empty() && program.groups.len() == 1;
        let mut uses = Uses { in_order, ..Uses::default() };
        each(body, &mut |stmt| {
            uses.in_order &= stmt.reads().into_iter().chain(stmt.writes()).all(|view| view.peer.is_none());
            for view in stmt.writes() {
                uses.last.insert(view.tensor, (stmt.id, false));
            }
            for view in stmt.reads() {
                uses.last.insert(view.tensor, (stmt.id, true));
            }
            if let Op::Pipelined { ahead, body, .. } = &stmt.op {
                let filled = body.iter().flat_map(Stmt::writes);
                uses.slots.extend(filled.map(|view| (view.tensor, i64::from(ahead.stages))));
            }
        });
        uses
    }

    /// Is a tensor read for the last time before this statement? A copy that no one waits for may still be
    /// in flight.
    fn dead(&self, id: Id, at: &Stmt) -> bool {
        let over = |&(last, reads): &(Id, bool)| reads && last < at.id;
        self.in_order && self.last.get(&id).is_some_and(over)
    }
}

/// The most parts in which a tile is staged.
const PARTS: i64 = 8;
/// The most accesses to global memory of a thread for each part: the other parts' elements are in registers meanwhile.
const ACCESSES: i64 = 16;

/// A tile on its way to global memory, whole or part after part.
pub(super) struct Stage {
    /// A part in shared memory.
    tile: View,
    /// Which thread has which elements of it before, and which thread copies which elements on.
    narrow: Distribution,
    wide: Distribution,
    /// The mode along which the tile is staged in parts, and how many there are.
    parts: (usize, i64),
}

impl Stage {
    /// Does the tile leave in parts?
    pub(super) fn in_parts(&self) -> bool {
        self.parts.1 > 1
    }
}

/// A part of a view of a tile that is divided along a mode, or of a thread's elements of it.
fn part_at(view: &View, (mode, count): (usize, i64), at: &Affine) -> Result<View> {
    let extents = super::extents(view)?;
    let within = |own: usize, extent: i64| if own == mode { (extent / count).max(1) } else { extent };
    let tiler: Vec<i64> = extents.iter().enumerate().map(|(own, extent)| within(own, *extent)).collect();
    // A mode of one element is a broadcast.
    let index = |own: usize| if own == mode && extents[own] > 1 { at.clone() } else { 0.into() };
    let coord: Vec<At> = (0..extents.len()).map(|own| At::Index(index(own))).collect();
    Ok(view.tile(&Tiler::from(Tuple::flat(&tiler)), &coord)?.with_name(&view.name))
}

/// A tile in so many parts along a mode: the distribution of a part, if each thread has as much of every part.
fn in_parts(d: &Distribution, mode: usize, count: i64) -> Option<Distribution> {
    if count == 1 {
        return Some(d.clone());
    }
    let outer = d.value_digits().iter().rposition(|digit| digit.mode == mode && digit.step > 0)?;
    let digit = d.value_digits()[outer];
    let mut others = d.thread_digits().iter().chain(&d.value_digits()[..outer]);
    let whole = d.reach(mode) == d.tile()[mode] && digit.extent % count == 0;
    if !whole || others.any(|other| other.mode == mode && other.step > digit.step) {
        return None;
    }
    let (mut tile, mut values) = (d.tile().to_vec(), d.value_digits().to_vec());
    tile[mode] /= count;
    values[outer] = Digit { extent: digit.extent / count, ..digit };
    Some(Distribution::new(&tile, d.thread_digits().to_vec(), values))
}

impl Resolve {
    /// A register tile in another distribution, through shared memory.
    pub(super) fn through_shared(
        &mut self,
        stmt: &Stmt,
        tile: Id,
        own: &Distribution,
        to: &Distribution,
        fragment: Id,
    ) -> Result<()> {
        let (name, elem) = (self.program.tensor(tile).name.clone(), self.program.tensor(tile).elem);
        let whole = View::whole(tile, &name, &Tuple::flat(own.tile()))?;
        let layout = shared::exchanged(elem, own, to, own.tile().len().saturating_sub(1))?;
        let scratch = self.stored(stmt, &whole, own, &format!("{name}_exchanged"), elem, layout)?;
        let from = part::of_memory(&scratch, to, stmt.by, false)?;
        let into = part::of_tile(&whole, to.tile(), to, fragment)?;
        self.push(stmt, Op::Copy { from, to: into, how: How::Derive, fill: 0.0.into(), token: None });
        Ok(())
    }

    /// A register tile in shared memory, for all threads to read.
    pub(super) fn stored(
        &mut self,
        stmt: &Stmt,
        view: &View,
        own: &Distribution,
        name: &str,
        elem: Elem,
        layout: Composed,
    ) -> Result<View> {
        if self.loops > 0 {
            // Other threads may still be reading the previous iteration's elements.
            self.push(stmt, Op::Sync);
        }
        let scratch = self.scratch(stmt, name, elem, layout)?;
        let from = self.side(stmt, view, own, false)?;
        let to = part::of_memory(&scratch, own, stmt.by, true)?;
        self.push(stmt, Op::Copy { from, to, how: How::Derive, fill: 0.0.into(), token: None });
        self.push(stmt, Op::Sync);
        Ok(scratch)
    }

    /// Shared memory for a statement, in the place of tiles that are no longer used.
    fn scratch(&mut self, stmt: &Stmt, name: &str, elem: Elem, layout: Composed) -> Result<View> {
        let over: Vec<View> = self
            .free(stmt)
            .into_iter()
            .map(|id| View::whole(id, name, &self.program.tensor(id).layout.shape()))
            .collect::<Result<_>>()?;
        let mut made = None;
        self.built(stmt, |builder| {
            made = Some(builder.shared_after(name, elem, layout, &over.iter().collect::<Vec<_>>())?);
            Ok(())
        })?;
        let made = made.ok_or_else(Problem::said)?;
        self.uses.last.insert(made.tensor, (stmt.id, true));
        Ok(made)
    }

    /// Shared tensors that are no longer used where a statement begins: those behind all others.
    fn free(&self, stmt: &Stmt) -> Vec<Id> {
        if self.loops > 0 {
            return Vec::new();
        }
        let shared = self.shared();
        let free = shared.iter().rev().map(|(id, _)| *id);
        free.take_while(|id| self.uses.dead(*id, stmt)).collect()
    }

    /// Every shared tensor, with its bytes in all slots.
    fn shared(&self) -> Vec<(Id, i64)> {
        let all = (0..).zip(&self.program.tensors);
        let shared = all.filter(|(_, tensor)| matches!(tensor.space, Space::Shared { .. }));
        shared
            .map(|(id, tensor)| {
                let slots = self.uses.slots.get(&id).copied().unwrap_or(1);
                (id, tensor.layout.cosize().unwrap_or(0) * i64::from(tensor.elem.bytes()) * slots)
            })
            .collect()
    }

    /// Shared memory for what a statement writes to global memory, if threads would write narrow, scattered
    /// pieces of it, and there is room for the tile or a part of it.
    pub(super) fn stage(
        &mut self,
        stmt: &Stmt,
        ins: &[&View],
        to: &View,
        d: &Distribution,
    ) -> Result<Option<Stage>> {
        let (elem, space) = (self.program.tensor(to.tensor).elem, self.program.tensor(to.tensor).space);
        let distributed = ins.iter().any(|view| self.forms.contains_key(&view.tensor));
        if !distributed || self.divergent > 0 || !matches!(space, Space::Global { .. }) {
            return Ok(None);
        }
        let Some(fast) = contiguous(&self.program, to) else { return Ok(None) };
        let threads = i64::from(self.program.groups[stmt.by as usize].threads);
        let ways = (0..).map(|bit| 1 << bit).take_while(|count| *count <= PARTS);
        // Parts of whole rows where that is possible.
        let modes = d.tile().len();
        let ways = ways.flat_map(|count| (0..modes).map(move |mode| ((mode + fast + 1) % modes, count)));
        for parts in ways {
            let Some(narrow) = in_parts(d, parts.0, parts.1) else { continue };
            let first = match parts.1 {
                1 => to.clone(),
                _ => part_at(to, parts, &0.into())?,
            };
            let wide = spread(&self.program, &[&first], threads, self.width)?;
            let (before, after) = (efficiency(&narrow, fast, elem)?, efficiency(&wide, fast, elem)?);
            if first.layout.size()? < threads || before * GAIN > after {
                continue;
            }
            let accesses = wide.values() / shared::vector(&wide, fast, i64::from(16 / elem.bytes()));
            if parts.1 > 1 && accesses > ACCESSES {
                continue;
            }
            let layout = shared::exchanged(elem, &narrow, &wide, fast)?;
            // Not every view can be masked where threads do not divide it.
            let fits = part::of_memory(&first, &wide, stmt.by, true).is_ok();
            if fits && self.has_room(stmt, layout.cosize()? * i64::from(elem.bytes())) {
                let tile = self.scratch(stmt, &format!("{}_staged", to.name), elem, layout)?;
                return Ok(Some(Stage { tile, narrow, wide, parts }));
            }
        }
        Ok(None)
    }

    /// Writes elements of a thread where they belong, by the operation that is made of `ins` and the target.
    pub(super) fn written(
        &mut self,
        stmt: &Stmt,
        (to, d): (&View, &Distribution),
        stage: Option<Stage>,
        ins: &[View],
        make: impl Fn(&[View], View) -> Op,
    ) -> Result<()> {
        let Some(stage) = stage else {
            let to = self.side(stmt, to, d, true)?;
            self.push(stmt, make(ins, to));
            return Ok(());
        };
        let (count, looped) = (stage.parts.1, self.loops > 0);
        let shares = |ins: &[View], to: &View| -> Result<[Op; 2]> {
            let mine = part::of_memory(&stage.tile, &stage.narrow, stmt.by, true)?;
            let from = part::of_memory(&stage.tile, &stage.wide, stmt.by, false)?;
            let to = part::of_memory(to, &stage.wide, stmt.by, true)?;
            let on = Op::Copy { from, to, how: How::Derive, fill: 0.0.into(), token: None };
            Ok([make(ins, mine), on])
        };
        if count == 1 {
            if looped {
                self.push(stmt, Op::Sync);
            }
            let [stored, on] = shares(ins, to)?;
            [stored, Op::Sync, on].into_iter().for_each(|op| self.push(stmt, op));
            return Ok(());
        }
        self.built(stmt, |b| {
            b.repeat("part", Value::Int(count), Unroll::Full, |b, at| -> Result<()> {
                let ins: Vec<View> =
                    ins.iter().map(|view| part_at(view, stage.parts, &at)).collect::<Result<_>>()?;
                let [stored, on] = shares(&ins, &part_at(to, stage.parts, &at)?)?;
                // Other threads may still be reading the part before.
                [Op::Sync, stored, Op::Sync, on].into_iter().for_each(|op| b.statement(op));
                Ok(())
            })
        })
    }

    /// Does a block need no more shared memory than before, or than every block has? Where a producer fills a ring, one
    /// block has a multiprocessor to itself.
    fn has_room(&self, stmt: &Stmt, bytes: i64) -> bool {
        let (free, shared) = (self.free(stmt), self.shared());
        let all: i64 = shared.iter().map(|(_, bytes)| bytes).sum();
        let live: i64 = shared.iter().filter(|(id, _)| !free.contains(id)).map(|(_, bytes)| bytes).sum();
        let limit = match self.program.rings.is_empty() {
            true => STATIC_SHARED.into(),
            false => i64::from(Target::of(self.program.arch).block_shared) - BARRIERS,
        };
        live + bytes <= all.max(limit)
    }
}

/// The part of the bytes moved to global memory that a warp's stores use, where one mode is contiguous.
fn efficiency(d: &Distribution, fast: usize, elem: Elem) -> Result<f64> {
    let bytes = i64::from(elem.bytes());
    let vector = shared::vector(d, fast, 16 / bytes);
    let (mut steps, mut next) = (Vec::new(), FAR);
    for (mode, extent) in d.tile().iter().enumerate() {
        steps.push(if mode == fast { bytes } else { next });
        next = next.saturating_mul(if mode == fast { 1 } else { *extent });
    }
    let address = |lane: i64| {
        let at = d.coordinate(lane, 0);
        let inside = at.iter().zip(d.tile()).all(|(at, extent)| at < extent);
        let first = d.replicated().iter().all(|(extent, stride)| lane / stride % extent == 0);
        (inside && first).then(|| at.iter().zip(&steps).map(|(at, step)| at.saturating_mul(*step)).sum())
    };
    let lanes: Vec<Option<i64>> = (0..d.threads().min(WARP.into())).map(address).collect();
    let access = WarpAccess::from_addresses(&lanes, vector * bytes, Transfer::Store)?;
    Ok(access.sectors(128)?.efficiency())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiled::TiledMma;

    #[test]
    fn parts_have_as_much_of_every_thread() {
        let ring = TiledMma::of_warpgroups(Elem::Bf16, Elem::F32, [128, 256], 2).unwrap();
        let sums = ring.distribution([128, 256]).unwrap();
        let half = in_parts(&sums, 1, 2).unwrap();
        assert_eq!((half.tile(), half.values() * 2), (&[128, 128][..], sums.values()));
        for (thread, value) in [(0, 0), (77, 5), (255, 63)] {
            assert_eq!(half.coordinate(thread, value), sums.coordinate(thread, value));
        }
        // Warps divide the rows.
        assert!(in_parts(&sums, 0, 64).is_none());
        // Neighbouring rows belong to different threads, and every thread has eight elements of each.
        let rows = Distribution::spread(&[128, 256], &[1, 0], 8, 256);
        assert_eq!(in_parts(&rows, 0, 4).unwrap().tile(), [32, 256]);
        assert!(in_parts(&rows, 1, 2).is_none());
    }

    #[test]
    fn stores_of_fragments() {
        let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [128, 256], 8).unwrap();
        let sums = mma.distribution([128, 256]).unwrap();
        let rows = Distribution::spread(&[128, 256], &[1, 0], 8, 256);
        let columns = Distribution::spread(&[128, 256], &[0, 1], 8, 256);
        let check = |d: &Distribution, fast, elem, used: f64| {
            assert_eq!(efficiency(d, fast, elem).unwrap(), used, "{d:?} {elem}");
        };
        // Four lanes have eight neighbours of a row: a sector of f32, half a sector of bf16.
        check(&sums, 1, Elem::F32, 1.0);
        check(&sums, 1, Elem::Bf16, 0.5);
        // Along a column a lane has one element, and eight lanes have neighbours.
        check(&sums, 0, Elem::F32, 1.0);
        check(&sums, 0, Elem::Bf16, 0.5);
        check(&rows, 1, Elem::Bf16, 1.0);
        check(&columns, 1, Elem::Bf16, 0.125);
        // Replicas are stored once.
        check(&sums.projected(&[true, false]), 0, Elem::F32, 1.0);
    }
}
