//! Loads, stores and atomic updates of a warp: bounds, alignment, initialisation, races and cost.

use tilewright_layout::Transfer;
use tilewright_program::Elem;
use tilewright_program::thread::Space;

use crate::clock::lanes_of;
use crate::code::{Access, Location, Slot, Src};
use crate::count::Class;
use crate::fault::{FaultKind, count};
use crate::global::Span;
use crate::machine::{Cluster, Result};
use crate::shadow::{By, Stamp, Touch};
use crate::warp::{Ints, LANES, Warp};

/// The targets of an access: for each lane elements, bytes of shared memory or addresses, and the block of
/// the shared memory.
pub(crate) struct Reach {
    pub(crate) index: Ints,
    pub(crate) bytes: Ints,
    pub(crate) block: [u32; LANES],
}

const AWAIT_PREVIOUS: &str = "let every thread wait for the previous kernel (griddepcontrol.wait) before its first access to global memory";

impl Cluster<'_> {
    /// The stamp of a lane's current access.
    pub(crate) fn stamp(&self, w: &Warp, lane: u32, access: u32) -> Stamp {
        let component = w.first + lane;
        Stamp { component, epoch: w.seen.epoch, access, thread: component }
    }

    /// Checks the targets of these lanes.
    pub(crate) fn reach(
        &self,
        w: &Warp,
        location: Location,
        lanes: u32,
        count: u32,
        unit: u32,
    ) -> Result<Reach> {
        let access = &self.ctx.code.accesses[location.access as usize];
        let (index, size) = (w.ints(location.index), i64::from(access.elem));
        self.after_previous(w, location.access, lanes)?;
        let mut reach = Reach { index, bytes: [0; LANES], block: [w.block as u32; LANES] };
        if let Some(peer) = location.peer {
            let peers = w.ints(peer);
            for lane in lanes_of(lanes) {
                let peer = peers[lane as usize];
                let Some(block) = self.peer(w, peer) else {
                    let name = self.ctx.name_of(access.space);
                    return Err(self.no_peer(w, name, "reaches for", lane, peer, access.site));
                };
                reach.block[lane as usize] = block as u32;
            }
        }
        let (base, len) = match access.space {
            Space::Shared(id) => {
                let array = &self.ctx.kernel.shared[id as usize];
                (i64::from(array.offset), i64::from(array.len))
            }
            Space::Global(id) => {
                let buffer = &self.ctx.world.buffers[id as usize];
                (buffer.address as i64, buffer.len as i64)
            }
        };
        let gaps = match access.space {
            Space::Global(id) => self.ctx.world.buffers[id as usize].gaps,
            Space::Shared(_) => false,
        };
        for lane in lanes_of(lanes) {
            let at = index[lane as usize];
            if at < 0
                || at.saturating_add(i64::from(count)) > len
                || gaps && self.in_gap(access.space, at, count)
            {
                return Err(self.out_of_bounds(w, access, &index, lanes, count));
            }
            let byte = base + at * size;
            if byte & (i64::from(unit) - 1) != 0 {
                return Err(self.misaligned(w, access, lane, at, byte, unit));
            }
            if at < access.claim.0 || at > access.claim.1 {
                return Err(self.outside_claim(w, access, lane, at));
            }
            reach.bytes[lane as usize] = byte;
        }
        Ok(reach)
    }

    /// With programmatic dependent launch, the previous kernel may still run: a thread waits for its end before it accesses
    /// global memory.
    pub(crate) fn after_previous(&self, w: &Warp, access: u32, lanes: u32) -> Result<()> {
        let access = &self.ctx.code.accesses[access as usize];
        let early = lanes & !w.awaited;
        let launch = &self.ctx.kernel.launch;
        if early == 0 || !launch.overlaps || launch.beside || matches!(access.space, Space::Shared(_)) {
            return Ok(());
        }
        let name = self.ctx.name_of(access.space);
        let verb = if access.what.writes() { "write" } else { "read" };
        Err(self.ctx.fault(
            FaultKind::Race,
            format!("`{name}` is accessed before the previous kernel in the stream has been waited for: it may still run"),
            vec![self.party(w, early, format!("{verb} `{name}`"), access.site)],
            AWAIT_PREVIOUS,
        ))
    }

    /// A kernel that ends without that wait may end before the previous one, and the next one waits for this one alone.
    pub(crate) fn has_awaited_previous(&self, w: &Warp) -> Result<()> {
        let early = w.live & !w.awaited;
        if early == 0 || !self.ctx.kernel.launch.overlaps {
            return Ok(());
        }
        Err(self.ctx.fault(
            FaultKind::Race,
            "threads end without having waited for the previous kernel in the stream: this kernel may end first, and the next one would not wait for that".into(),
            vec![self.party(w, early, "end", self.site(w))],
            AWAIT_PREVIOUS,
        ))
    }

    fn in_gap(&self, space: Space, at: i64, count: u32) -> bool {
        let Space::Global(id) = space else { return false };
        (at..at + i64::from(count)).any(|at| !self.ctx.world.buffers[id as usize].contains(at))
    }

    pub(crate) fn count_access(
        &mut self,
        access: &Access,
        reach: &Reach,
        lanes: u32,
        transfer: Transfer,
        bytes: u32,
    ) {
        if !self.ctx.count || lanes == 0 {
            return;
        }
        match access.space {
            Space::Shared(_) => {
                self.counts.shared(&mut self.memo, access.counter, &reach.bytes, lanes, bytes, transfer)
            }
            Space::Global(_) => {
                self.counts.global(&mut self.memo, access.counter, &reach.bytes, lanes, bytes, transfer)
            }
        }
    }

    pub(crate) fn load(
        &mut self,
        w: &mut Warp,
        from: Location,
        to: Slot,
        guard: Option<Src>,
        fill: u64,
    ) -> Result<()> {
        let access = &self.ctx.code.accesses[from.access as usize];
        let (count, size) = (access.count, access.elem as usize);
        let elem = if size == 8 { Elem::F64 } else { Elem::U32 };
        self.writable(w, to, elem, count)?;
        let (all, lanes) = (w.mask, w.guarded(guard));
        if lanes != all {
            w.mask = all & !lanes;
            for n in 0..count {
                w.set(to + n, elem, &[fill; LANES]);
            }
            w.mask = all;
        }
        if lanes == 0 {
            return Ok(());
        }
        self.counts.operation(Class::Load, lanes);
        let reach = self.reach(w, from, lanes, count, access.bytes())?;
        self.count_access(access, &reach, lanes, Transfer::Load, access.bytes());
        let ctx = self.ctx;
        let mut data = [0u8; 16];
        for lane in lanes_of(lanes) {
            let at = lane as usize;
            let me = self.stamp(w, lane, from.access);
            let by = By::Lane { seen: &w.seen, lane };
            let bytes = count as usize * size;
            let block = reach.block[at] as usize;
            let outcome = match access.space {
                Space::Shared(_) => {
                    let shared = &mut self.blocks[block].shared;
                    let start = reach.bytes[at] as usize;
                    data[..bytes].copy_from_slice(&shared.bytes[start..start + bytes]);
                    shared.read(&ctx.world.components, start, bytes, &by, me)
                }
                Space::Global(buffer) => {
                    let span = Span { buffer, at: reach.index[at] as usize, len: count as usize };
                    self.overlay.read(&ctx.world, span, &by, me, &mut data[..bytes])
                }
            };
            if let Err(trouble) = outcome {
                return Err(self.trouble(trouble, me, false, block, &by));
            }
            for n in 0..count as usize {
                let bits = crate::global::raw(&data[n * size..], 0, UNSIGNED[size]);
                w.set_bit(to + n as u32, elem, at, bits);
            }
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, w: &mut Warp, to: Location, from: Slot, guard: Option<Src>) -> Result<()> {
        let access = &self.ctx.code.accesses[to.access as usize];
        let (count, size) = (access.count, access.elem as usize);
        let elem = if size == 8 { Elem::F64 } else { Elem::U32 };
        let (all, lanes) = (w.mask, w.guarded(guard));
        if lanes == 0 {
            return Ok(());
        }
        w.mask = lanes;
        for n in 0..count {
            self.need(w, from + n, elem)?;
        }
        w.mask = all;
        self.counts.operation(Class::Store, lanes);
        let reach = self.reach(w, to, lanes, count, access.bytes())?;
        self.count_access(access, &reach, lanes, Transfer::Store, access.bytes());
        let ctx = self.ctx;
        let mut data = [0u8; 16];
        for lane in lanes_of(lanes) {
            let at = lane as usize;
            let me = self.stamp(w, lane, to.access);
            let by = By::Lane { seen: &w.seen, lane };
            let bytes = count as usize * size;
            for n in 0..count as usize {
                let bits = w.bit(from + n as u32, elem, at).to_le_bytes();
                data[n * size..(n + 1) * size].copy_from_slice(&bits[..size]);
            }
            let block = reach.block[at] as usize;
            let outcome = match access.space {
                Space::Shared(_) => {
                    let shared = &mut self.blocks[block].shared;
                    let start = reach.bytes[at] as usize;
                    let outcome = shared.write(&ctx.world.components, start, bytes, Touch::Write, &by, me);
                    shared.bytes[start..start + bytes].copy_from_slice(&data[..bytes]);
                    outcome
                }
                Space::Global(buffer) => {
                    let span = Span { buffer, at: reach.index[at] as usize, len: count as usize };
                    self.overlay.write(&ctx.world, span, &by, me, &data[..bytes])
                }
            };
            if let Err(trouble) = outcome {
                return Err(self.trouble(trouble, me, true, block, &by));
            }
        }
        Ok(())
    }
}

/// Unsigned types by their bytes.
const UNSIGNED: [Elem; 9] =
    [Elem::U8, Elem::U8, Elem::F16, Elem::U32, Elem::U32, Elem::F64, Elem::F64, Elem::F64, Elem::F64];

// Errors of addresses.
impl Cluster<'_> {
    #[cold]
    fn out_of_bounds(
        &self,
        w: &Warp,
        access: &Access,
        index: &Ints,
        lanes: u32,
        count: u32,
    ) -> Box<crate::fault::Fault> {
        let name = self.ctx.name_of(access.space);
        let outside = |at: i64| match access.space {
            Space::Shared(id) => {
                at < 0 || at + i64::from(count) > i64::from(self.ctx.kernel.shared[id as usize].len)
            }
            Space::Global(id) => {
                let buffer = &self.ctx.world.buffers[id as usize];
                (at..at + i64::from(count)).any(|at| !buffer.contains(at))
            }
        };
        let bad = lanes_of(lanes)
            .filter(|&lane| outside(index[lane as usize]))
            .fold(0, |all: u32, lane| all | 1 << lane);
        let first = index[bad.trailing_zeros() as usize & 31];
        let wide = if count > 1 { format!(" to {}", first + i64::from(count) - 1) } else { String::new() };
        let what = match access.space {
            Space::Shared(id) => {
                format!("the array in shared memory has {} elements", self.ctx.kernel.shared[id as usize].len)
            }
            Space::Global(id) => {
                let buffer = &self.ctx.world.buffers[id as usize];
                let text = |all: &[i64]| all.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
                let (extents, strides) = (text(&buffer.extents), text(&buffer.strides));
                let inside = first >= 0 && first < buffer.len as i64;
                let gap = if inside { "; it lies between the tensor's elements" } else { "" };
                format!("the tensor is ({extents}) with strides ({strides}){gap}")
            }
        };
        let verb = if access.what.writes() { "write" } else { "read" };
        self.ctx.fault(
            FaultKind::OutOfBounds,
            format!("element {first}{wide} of `{name}` does not exist: {what}"),
            vec![self.party(w, bad, format!("{verb} beyond `{name}`"), access.site)],
            "check the layouts and tiles of this index, and the predicate that guards the access",
        )
    }

    #[cold]
    fn misaligned(
        &self,
        w: &Warp,
        access: &Access,
        lane: u32,
        at: i64,
        byte: i64,
        unit: u32,
    ) -> Box<crate::fault::Fault> {
        let name = self.ctx.name_of(access.space);
        let past = byte & (i64::from(unit) - 1);
        let verb = if access.what.writes() { "writes" } else { "reads" };
        let doing = format!("{verb} {unit} bytes at once from element {at} of `{name}` on");
        self.ctx.fault(
            FaultKind::Misaligned,
            format!("an access of {unit} bytes begins {} past a multiple of {unit}", count(past, "byte")),
            vec![self.party(w, 1 << lane, doing, access.site)],
            "use a layout whose strides are multiples of the vector, or narrower vectors",
        )
    }

    #[cold]
    fn outside_claim(&self, w: &Warp, access: &Access, lane: u32, at: i64) -> Box<crate::fault::Fault> {
        let (name, (lo, hi)) = (self.ctx.name_of(access.space), access.claim);
        self.ctx.fault(
            FaultKind::Claim,
            format!("an index into `{name}` is {at}, and the program was generated for {lo} to {hi}"),
            vec![self.party(w, 1 << lane, format!("uses element {at} of `{name}`"), access.site)],
            "this is a bug in the generator: 32 bits may not be enough for this index",
        )
    }

    /// An error for a block that is not in the cluster or has ended: array and action, the lane, the rank.
    #[cold]
    pub(crate) fn no_peer(
        &self,
        w: &Warp,
        name: &str,
        how: &str,
        lane: u32,
        peer: i64,
        site: u32,
    ) -> Box<crate::fault::Fault> {
        let count = self.ctx.cluster() as usize;
        if (0..count as i64).contains(&peer) {
            let party =
                self.party(w, 1 << lane, format!("{how} `{name}` of that block, which has ended"), site);
            return self.ends_too_early(w.block / count * count + peer as usize, party);
        }
        let party = self.party(w, 1 << lane, format!("{how} `{name}` of block {peer}"), site);
        let message = format!("there is no block {peer} in a cluster of {count}");
        let help = match count {
            1 => "launch clusters of several blocks".into(),
            _ => format!(
                "a cluster of {count} blocks has the ranks 0 to {}: take the peer's rank modulo {count}, or launch larger clusters",
                count - 1
            ),
        };
        self.ctx.fault(FaultKind::OutOfBounds, message, vec![party], help)
    }
}
