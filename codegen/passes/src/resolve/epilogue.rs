//! Results in registers are staged in shared memory if threads would write them to global memory in short, scattered
//! pieces: in an epilogue tile, whole or in parts.

use tilewright_layout::{Distribution, Submode, Tiler, Transfer, Tuple, Value, WarpAccess};

use super::bulk::BulkEpilogue;
use super::forms::{contiguous, spread};
use super::{Resolve, part, shared};
use crate::isa::scope::Scope;
use crate::source::problem::Result;
use crate::thread::{Change, MemoryOrder, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, Form, How, LaunchRule, Op, Space, Stmt, Tensor, Update};
use crate::values::affine::Affine;
use crate::values::condition::Test;
use crate::values::elem::Elem;
use crate::values::target::WARP;

/// How much more of the moved bytes a wide, coalesced store must use to be worth two accesses to shared
/// memory and two barriers.
const GAIN: f64 = 2.0;
/// Bytes between neighbours along a mode that is not contiguous: more than a line.
const FAR: i64 = 1 << 20;
/// The most parts of a tile.
const PARTS: i64 = 8;
/// The most accesses to global memory of a thread for each part: the other parts' elements are in registers meanwhile.
const ACCESSES: i64 = 16;

/// Elements of a thread, from which on it is quicker to add them by bulk stores.
const MANY: i64 = 16;

/// How a tile reaches global memory.
pub(super) enum Epilogue {
    /// Threads copy it from shared memory.
    Threads(Box<EpilogueTile>),
    Bulk(Box<BulkEpilogue>),
}

/// A tile on its way to global memory, whole or part after part.
pub(super) struct EpilogueTile {
    /// A part in shared memory.
    tile: View,
    /// Which thread has which elements of it before, and which thread copies which elements on.
    narrow: Distribution,
    wide: Distribution,
    /// The mode along which the tile is divided into parts, and how many there are.
    parts: Parts,
}

impl Epilogue {
    /// Do threads copy it part after part?
    pub(super) fn is_in_parts(&self) -> bool {
        matches!(self, Epilogue::Threads(tile) if tile.parts.count > 1)
    }
}

/// The equal parts into which a tile is divided along a mode.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Parts {
    pub(super) mode: usize,
    pub(super) count: i64,
}

/// A part of a view of a tile that is divided along a mode, or of a thread's elements of it.
pub(super) fn part_at(view: &View, parts: Parts, at: &Affine) -> Result<View> {
    let Parts { mode, count } = parts;
    let extents = super::extents(view)?;
    let within = |own: usize, extent: i64| if own == mode { (extent / count).max(1) } else { extent };
    let tiler: Vec<i64> = extents.iter().enumerate().map(|(own, extent)| within(own, *extent)).collect();
    // A mode of one element is a broadcast.
    let index = |own: usize| if own == mode && extents[own] > 1 { at.clone() } else { 0.into() };
    let coord: Vec<At> = (0..extents.len()).map(|own| At::Index(index(own))).collect();
    Ok(view.tile(&Tiler::from(Tuple::flat(&tiler)), &coord)?.with_name(&view.name))
}

/// A tile in parts: the distribution of a part, if each thread has an equal share of every part.
pub(super) fn in_parts(d: &Distribution, Parts { mode, count }: Parts) -> Option<Distribution> {
    if count == 1 {
        return Some(d.clone());
    }
    let outer = d.value_submodes().iter().rposition(|submode| submode.mode == mode && submode.step > 0)?;
    let submode = d.value_submodes()[outer];
    let mut others = d.thread_submodes().iter().chain(&d.value_submodes()[..outer]);
    let whole = d.reach(mode) == d.tile()[mode] && submode.extent % count == 0;
    if !whole || others.any(|other| other.mode == mode && other.step > submode.step) {
        return None;
    }
    let (mut tile, mut values) = (d.tile().to_vec(), d.value_submodes().to_vec());
    tile[mode] /= count;
    values[outer] = Submode { extent: submode.extent / count, ..submode };
    Some(Distribution::new(&tile, d.thread_submodes().to_vec(), values))
}

/// The inputs of an operation that writes elements.
pub(super) struct Inputs<'a> {
    pub(super) ins: &'a [View],
    /// The input that has the target's old elements: it goes through shared memory too.
    pub(super) old: Option<Old>,
}

/// An input with the old elements of the target.
pub(super) struct Old {
    /// Which input.
    pub(super) at: usize,
    /// A condition where they are read, which does not depend on elements.
    pub(super) test: Option<Expr>,
}

impl Resolve {
    /// Shared memory for a statement's results in global memory, if threads would write them in short,
    /// scattered pieces, and there is room for the tile or a part of it.
    pub(super) fn epilogue_tile(
        &mut self,
        stmt: &Stmt,
        ins: &[&View],
        to: &View,
        d: &Distribution,
    ) -> Result<Option<Epilogue>> {
        let (elem, space) = (self.program.tensor(to.tensor).elem, self.program.tensor(to.tensor).space);
        let distributed = ins.iter().any(|view| self.forms.contains_key(&view.tensor));
        if !distributed || self.divergent > 0 || !matches!(space, Space::Global { .. }) {
            return Ok(None);
        }
        let Some(fast) = contiguous(&self.program, to) else { return Ok(None) };
        let threads = i64::from(self.program.groups[stmt.by as usize].threads);
        let vector = elem.elements_in(self.width.writes).max(1);
        // Bulk stores overlap the next tile of a persistent kernel. Warps that store whole sectors by themselves do so as well, without
        // a condition on C's rows.
        let of_warps = |form: &Form| matches!(form, Form::Sums(mma) if !mma.is_asynchronous());
        let overlaps = self.loops > 0
            && self.program.launch == LaunchRule::Persistent
            && !self.program.forms.values().any(of_warps);
        if (overlaps
            || is_worth_it(d, &spread(&self.program, &[to], threads, self.width)?, fast, (elem, vector))?)
            && let Some(bulk) = self.bulk_epilogue(stmt, ins, to, d)?
        {
            return Ok(Some(Epilogue::Bulk(Box::new(bulk))));
        }
        if self.program.alternates {
            return Ok(None);
        }
        let counts = (0..).map(|bit| 1 << bit).take_while(|count| *count <= PARTS);
        // Parts of whole rows where that is possible.
        let modes = d.tile().len();
        let of_count = |count| (0..modes).map(move |mode| Parts { mode: (mode + fast + 1) % modes, count });
        for parts in counts.flat_map(of_count) {
            let Some(narrow) = in_parts(d, parts) else { continue };
            let first = match parts.count {
                1 => to.clone(),
                _ => part_at(to, parts, &0.into())?,
            };
            let wide = spread(&self.program, &[&first], threads, self.width)?;
            if first.layout.size()? < threads || !is_worth_it(&narrow, &wide, fast, (elem, vector))? {
                continue;
            }
            let accesses = wide.values() / shared::vector(&wide, fast, vector);
            if parts.count > 1 && accesses > ACCESSES {
                continue;
            }
            let layout = shared::exchanged(elem, &narrow, &wide, fast)?;
            // Not every view can be masked where threads do not divide it.
            let fits = part::of_memory(&first, &wide, stmt.by, true).is_ok();
            if fits && self.has_room(stmt, elem.bytes_of(layout.cosize()?)) {
                let tile = self.scratch(stmt, &format!("{}_staged", to.name), elem, layout)?;
                let tile = EpilogueTile { tile, narrow, wide, parts };
                return Ok(Some(Epilogue::Threads(Box::new(tile))));
            }
        }
        Ok(None)
    }

    /// Shared memory for sums of products that bulk stores add to global memory, part after part, where a thread would add many
    /// elements one by one.
    pub(super) fn added_in_bulk(
        &mut self,
        stmt: &Stmt,
        from: &View,
        to: &View,
        update: &Update,
        d: &Distribution,
    ) -> Result<Option<Epilogue>> {
        let Tensor { elem, space, .. } = *self.program.tensor(to.tensor);
        let is_plain = update.with == Change::Add
            && update.order == MemoryOrder::Relaxed
            && update.scope == Scope::Grid
            && update.tiles().next().is_none();
        let is_sum = matches!(self.program.forms.get(&from.tensor), Some(Form::Sums(_)))
            && self.program.tensor(from.tensor).elem == elem;
        let is_far = matches!(space, Space::Global { .. }) && self.divergent == 0;
        if !(is_plain && is_sum && is_far && d.values() >= MANY) {
            return Ok(None);
        }
        Ok(self.bulk_epilogue(stmt, &[from], to, d)?.map(|bulk| Epilogue::Bulk(Box::new(bulk))))
    }

    /// Writes elements of a thread where they belong, by the operation that is made of the inputs and the target.
    pub(super) fn written(
        &mut self,
        stmt: &Stmt,
        to: &View,
        d: &Distribution,
        epilogue: Option<Epilogue>,
        Inputs { ins, old }: Inputs<'_>,
        make: impl Fn(&[View], View) -> Op,
    ) -> Result<()> {
        let epilogue = match epilogue {
            Some(Epilogue::Threads(tile)) => tile,
            Some(Epilogue::Bulk(bulk)) => return self.written_in_bulk(stmt, to, &bulk, ins, make),
            None => {
                let to = self.side(stmt, to, d, true)?;
                self.push(stmt, make(ins, to));
                return Ok(());
            }
        };
        let (count, looped) = (epilogue.parts.count, self.loops > 0);
        let shares = |ins: &[View], to: &View| -> Result<Vec<Op>> {
            let mine = part::of_memory(&epilogue.tile, &epilogue.narrow, stmt.by, true)?;
            let wide = |view: &View, stores| part::of_memory(view, &epilogue.wide, stmt.by, stores);
            let copy = |from, to, how| Op::Copy { from, to, how, fill: 0.0.into(), token: None };
            let (mut all, mut ins) = (Vec::new(), ins.to_vec());
            if let Some(Old { at, test }) = &old {
                // Through registers, so that no wait is needed before the barrier.
                let fetch = copy(wide(to, false)?, wide(&epilogue.tile, true)?, How::Plain);
                let then = |op| vec![Stmt { op, ..stmt.clone() }];
                all.push(match test.clone() {
                    Some(cond) => Op::If { test: Test::IsTrue(cond), then: then(fetch), other: Vec::new() },
                    None => fetch,
                });
                all.push(Op::Sync);
                ins[*at] = mine.clone();
            }
            all.extend([make(&ins, mine), Op::Sync]);
            all.push(copy(wide(&epilogue.tile, false)?, wide(to, true)?, How::Derive));
            Ok(all)
        };
        if count == 1 {
            if looped {
                self.push(stmt, Op::Sync);
            }
            shares(ins, to)?.into_iter().for_each(|op| self.push(stmt, op));
            return Ok(());
        }
        self.built(stmt, |b| {
            b.repeat("part", Value::Int(count), Unroll::Full, |b, at| -> Result<()> {
                let ins: Vec<View> =
                    ins.iter().map(|view| part_at(view, epilogue.parts, &at)).collect::<Result<_>>()?;
                // Other threads may still be reading the part before.
                b.sync();
                shares(&ins, &part_at(to, epilogue.parts, &at)?)?.into_iter().for_each(|op| b.statement(op));
                Ok(())
            })
        })
    }
}

/// Is a wide, coalesced store worth the way through shared memory?
fn is_worth_it(narrow: &Distribution, wide: &Distribution, fast: usize, stores: (Elem, i64)) -> Result<bool> {
    Ok(efficiency(narrow, fast, stores)? * GAIN <= efficiency(wide, fast, stores)?)
}

/// The part of the bytes moved to global memory that a warp's stores use, where one mode is contiguous. A store has at most `most` elements.
fn efficiency(d: &Distribution, fast: usize, (elem, most): (Elem, i64)) -> Result<f64> {
    let vector = shared::vector(d, fast, most);
    let (mut steps, mut next) = (Vec::new(), FAR);
    for (mode, extent) in d.tile().iter().enumerate() {
        steps.push(if mode == fast { elem.bytes().into() } else { next });
        next = next.saturating_mul(if mode == fast { 1 } else { *extent });
    }
    let address = |lane: i64| {
        let at = d.coordinate(lane, 0);
        let inside = at.iter().zip(d.tile()).all(|(at, extent)| at < extent);
        let first = d.replicated().iter().all(|(extent, stride)| lane / stride % extent == 0);
        (inside && first).then(|| at.iter().zip(&steps).map(|(at, step)| at.saturating_mul(*step)).sum())
    };
    let lanes: Vec<Option<i64>> = (0..d.threads().min(WARP.into())).map(address).collect();
    let access = WarpAccess::from_addresses(&lanes, elem.bytes_of(vector), Transfer::Store)?;
    Ok(access.sectors(128)?.efficiency())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tiled::TiledMma;

    #[test]
    fn parts_have_as_much_of_every_thread() {
        let ring = TiledMma::asynchronous(Elem::Bf16, Elem::F32, [128, 256], 2).unwrap();
        let sums = ring.distribution([128, 256]).unwrap();
        let half = in_parts(&sums, Parts { mode: 1, count: 2 }).unwrap();
        assert_eq!((half.tile(), half.values() * 2), (&[128, 128][..], sums.values()));
        for (thread, value) in [(0, 0), (77, 5), (255, 63)] {
            assert_eq!(half.coordinate(thread, value), sums.coordinate(thread, value));
        }
        // Warps divide the rows.
        assert!(in_parts(&sums, Parts { mode: 0, count: 64 }).is_none());
        // Neighbouring rows belong to different threads, and every thread has eight elements of each.
        let rows = Distribution::spread(&[128, 256], &[1, 0], 8, 256);
        assert_eq!(in_parts(&rows, Parts { mode: 0, count: 4 }).unwrap().tile(), [32, 256]);
        assert!(in_parts(&rows, Parts { mode: 1, count: 2 }).is_none());
    }

    #[test]
    fn stores_of_fragments() {
        let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [128, 256], 8).unwrap();
        let sums = mma.distribution([128, 256]).unwrap();
        let rows = Distribution::spread(&[128, 256], &[1, 0], 8, 256);
        let columns = Distribution::spread(&[128, 256], &[0, 1], 8, 256);
        let check = |d: &Distribution, fast, elem, used: f64| {
            assert_eq!(efficiency(d, fast, (elem, elem.elements_in(16))).unwrap(), used, "{d:?} {elem}");
        };
        // Four lanes have eight neighbours of a row: a sector of f32, half a sector of bf16.
        check(&sums, 1, Elem::F32, 1.0);
        check(&sums, 1, Elem::Bf16, 0.5);
        // Along a column a lane has one element, and eight lanes have neighbours.
        check(&sums, 0, Elem::F32, 1.0);
        check(&sums, 0, Elem::Bf16, 0.5);
        check(&rows, 1, Elem::Bf16, 1.0);
        check(&columns, 1, Elem::Bf16, 0.125);
        // Single elements of pairs are every other one.
        assert_eq!(efficiency(&sums, 1, (Elem::F32, 1)).unwrap(), 0.5);
        // Replicas are stored once.
        check(&sums.projected(&[true, false]), 0, Elem::F32, 1.0);
    }
}
