//! Atomic updates, and flags by which blocks wait for each other: a release stores the clock of its thread with the element,
//! and a later acquire of the element joins it.

use std::collections::HashMap;

use tilewright_layout::Transfer;
use tilewright_program::Elem;
use tilewright_program::thread::{Change, MemoryOrder, Scope, Space};

use crate::arithmetic::Arithmetic;
use crate::clock::{Carried, lanes_of};
use crate::code::Ins;
use crate::count::Class;
use crate::global::{Atomic, Word};
use crate::machine::{Cluster, Result};
use crate::memory::Reach;
use crate::shadow::{By, Stamp, Touch};
use crate::value;
use crate::warp::{Waiting, Warp};

/// An element of a parameter or of a block's shared memory; and the block, if the update orders only
/// threads of one block.
type Element = (Space, Option<usize>, i64, Option<usize>);

/// Clocks that releases have stored at elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released(HashMap<Element, Carried>);

/// The order or scope that an atomic update lacks to order accesses of other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Release,
    Acquire,
    /// Its scope has no other block.
    Scope,
}

/// An atomic update with a weaker order than it could have: its stamp, its element, and the missing part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weak {
    pub(crate) stamp: Stamp,
    pub(crate) at: i64,
    pub(crate) lack: Lack,
}

/// The operand of an update, and the expected value of a compare-and-exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    pub(crate) by: u64,
    pub(crate) expected: Option<u64>,
}

/// An atomic update of one lane: the element and the order.
struct Ordered<'r> {
    space: Space,
    reach: &'r Reach,
    lane: usize,
    order: MemoryOrder,
    scope: Scope,
}

/// The new value of an element.
pub(crate) fn changed(
    arithmetic: Arithmetic,
    change: Change,
    old: u64,
    operands: Operands,
    elem: Elem,
) -> u64 {
    let Operands { by, expected } = operands;
    match change.function() {
        Some(function) => arithmetic.bin(function, old, by, elem),
        None if expected.is_some_and(|expected| expected != old) => old,
        None => by,
    }
}

impl Cluster<'_> {
    fn element_of(&self, w: &Warp, space: Space, reach: &Reach, lane: usize, scope: Scope) -> Element {
        let narrow = (scope <= Scope::Block).then_some(w.block);
        match space {
            Space::Shared(_) => (space, Some(reach.block[lane] as usize), reach.index[lane], None),
            Space::Global(_) => (space, None, reach.index[lane], narrow),
        }
    }

    pub(crate) fn atomic(&mut self, w: &mut Warp, ins: &Ins) -> Result<()> {
        let &Ins::Atomic { to, op, value: from, guard, order, scope, old, expected } = ins else {
            return Ok(());
        };
        let access = &self.ctx.code.accesses[to.access as usize];
        let lanes = w.guarded(guard);
        if lanes == 0 {
            return Ok(());
        }
        let size = access.elem;
        let file = if size == 8 { Elem::F64 } else { Elem::U32 };
        if let Some(old) = old {
            self.writable(w, old, file, 1)?;
        }
        self.counts.operation(Class::Atomic, lanes);
        let reach = self.reach(w, to, lanes, 1, size)?;
        self.count_access(access, &reach, lanes, Transfer::Store, size);
        let ctx = self.ctx;
        for lane in lanes_of(lanes) {
            let at = lane as usize;
            let operands = |w: &Warp, elem| Operands {
                by: w.bit(from, elem, at),
                expected: expected.map(|slot| w.bit(slot, elem, at)),
            };
            let me = self.stamp(w, lane, to.access);
            let by = By::Lane { seen: &w.seen, lane };
            let block = reach.block[at] as usize;
            let outcome = match access.space {
                Space::Shared(id) => {
                    let elem = ctx.kernel.shared[id as usize].elem;
                    let (start, bytes) = (reach.bytes[at] as usize, size as usize);
                    let value = operands(w, elem);
                    let shared = &mut self.blocks[block].shared;
                    let outcome =
                        shared.write(&ctx.world.components, start, bytes, Touch::Atomic(scope), &by, me);
                    let before = crate::global::raw(&shared.bytes[start..], 0, elem);
                    let new = changed(ctx.world.arithmetic, op, before, value, elem).to_le_bytes();
                    shared.bytes[start..start + bytes].copy_from_slice(&new[..bytes]);
                    outcome.map(|()| before)
                }
                Space::Global(buffer) => {
                    let elem = ctx.world.buffers[buffer as usize].elem;
                    let value = operands(w, elem);
                    let word = Word { buffer, at: reach.index[at] as usize };
                    self.overlay.update(&ctx.world, word, Atomic { op, scope, value }, &by, me)
                }
            };
            let before = match outcome {
                Ok(before) => before,
                Err(trouble) => return Err(self.trouble(trouble, me, true, block, &by)),
            };
            if let Some(old) = old {
                w.set_bit(old, file, at, before);
            }
            // Only where updates or waits read elements do other updates of them order anything: sums have no clocks.
            if ctx.world.races && ctx.code.flags.contains(&access.space) {
                if ctx.code.uses.together {
                    let update = Ordered { space: access.space, reach: &reach, lane: at, order, scope };
                    self.weak_update(w, &update, me, old.is_some());
                }
                let element = self.element_of(w, access.space, &reach, at, scope);
                if order.acquires()
                    && let Some(carried) = self.released.0.get(&element)
                {
                    w.seen.acquire(1 << lane, w.live, carried);
                }
                if order.releases() {
                    // One epoch for all lanes: it ends after the last release.
                    let epoch = w.seen.epoch;
                    w.seen.release(w.first, 1 << lane, self.released.0.entry(element).or_default());
                    w.seen.epoch = epoch;
                }
            }
        }
        w.seen.epoch += u32::from(order.releases() || ctx.code.uses.together);
        Ok(())
    }

    /// The accesses that an update would order if it released and acquired for the grid, for the help of faults.
    fn weak_update(&mut self, w: &mut Warp, update: &Ordered<'_>, me: Stamp, reads: bool) {
        let &Ordered { space, reach, lane, order, scope } = update;
        let narrow = scope <= Scope::Block;
        let lack = match (narrow, order.releases(), !reads || order.acquires()) {
            (true, ..) => Lack::Scope,
            (_, false, _) => Lack::Release,
            (_, _, false) => Lack::Acquire,
            (false, true, true) => return,
        };
        let element = self.element_of(w, space, reach, lane, Scope::Grid);
        let released = self.released.0.entry(element).or_default();
        if reads && (narrow || !order.acquires()) {
            w.seen.assume(lane as u32, w.live, released);
        }
        if narrow || !order.releases() {
            w.seen.assumes(w.first, lane as u32, released);
        }
        let at = reach.index[lane];
        let same = |weak: &&mut Weak| weak.stamp.component == me.component && weak.at == at;
        match self.weak.iter_mut().find(same) {
            Some(weak) => *weak = Weak { stamp: me, at, lack },
            None => self.weak.push(Weak { stamp: me, at, lack }),
        }
    }

    /// Waits for an element of each lane. True when all have reached their values.
    pub(crate) fn await_flag(&mut self, w: &mut Warp, ins: &Ins) -> Result<bool> {
        let &Ins::Atomic { to: from, value: least, guard, order, old, .. } = ins else { return Ok(true) };
        let access = &self.ctx.code.accesses[from.access as usize];
        let (Space::Global(buffer), lanes) = (access.space, w.guarded(guard)) else { return Ok(true) };
        if lanes == 0 {
            return Ok(true);
        }
        let reach = self.reach(w, from, lanes, 1, access.elem)?;
        let ctx = self.ctx;
        let elem = ctx.world.buffers[buffer as usize].elem;
        for lane in lanes_of(lanes) {
            let at = lane as usize;
            let word = Word { buffer, at: reach.index[at] as usize };
            let least = value::whole(w.bit(least, elem, at), elem);
            if self.overlay.flag(&ctx.world, word).is_some_and(|value| value < least) {
                w.waiting = Some(Waiting::Flag { word, least });
                return Ok(false);
            }
        }
        let file = if access.elem == 8 { Elem::F64 } else { Elem::U32 };
        if let Some(old) = old {
            self.writable(w, old, file, 1)?;
        }
        for lane in lanes_of(lanes) {
            let at = lane as usize;
            let word = Word { buffer, at: reach.index[at] as usize };
            let me = self.stamp(w, lane, from.access);
            let by = By::Lane { seen: &w.seen, lane };
            let seen = match self.overlay.look(&ctx.world, word, &by, me) {
                Ok(seen) => seen,
                Err(trouble) => return Err(self.trouble(trouble, me, false, w.block, &by)),
            };
            if let Some(old) = old {
                w.set_bit(old, file, at, seen);
            }
            if !ctx.world.races {
                continue;
            }
            if order.acquires() {
                let element = self.element_of(w, access.space, &reach, at, Scope::Grid);
                if let Some(carried) = self.released.0.get(&element) {
                    w.seen.acquire(1 << lane, w.live, carried);
                }
            } else {
                let (order, scope) = (MemoryOrder::Release, Scope::Grid);
                let update = Ordered { space: access.space, reach: &reach, lane: at, order, scope };
                self.weak_update(w, &update, me, true);
            }
        }
        Ok(true)
    }
}
