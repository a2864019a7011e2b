//! Global memory. Clusters of blocks do not see each other's writes: each has its own pages over the original
//! contents, and the pages are merged in the order of the grid. Two clusters that access one element race, so
//! the order in which host threads run them makes no difference.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tilewright_program::Elem;
use tilewright_program::thread::{Change, Scope};

use crate::arithmetic::Arithmetic;
use crate::clock::Components;
use crate::shadow::{By, Shadow, Stamp, Touch};
use crate::shared::Trouble;
use crate::update::{Operands, changed};
use crate::value::whole;

/// Elements of a page.
pub(crate) const PAGE: usize = 256;

/// An element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) buffer: u32,
    pub(crate) at: usize,
}

/// An atomic update.
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub(crate) op: Change,
    pub(crate) scope: Scope,
    pub(crate) value: Operands,
}

/// A tensor that a launch passes.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) elem: Elem,
    /// The address that the kernel sees.
    pub(crate) address: u64,
    pub(crate) extents: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    /// Elements from the first to the last.
    pub(crate) len: usize,
    /// The original contents.
    pub(crate) data: Vec<u8>,
    /// Are its contents initialised?
    pub(crate) initialised: bool,
    /// Does the kernel write it?
    pub(crate) written: bool,
    /// Do strides leave gaps between the tensor's elements?
    pub(crate) gaps: bool,
}

impl Buffer {
    /// The coordinate of an offset, if it is one.
    pub(crate) fn coordinate(&self, offset: i64) -> Option<Vec<i64>> {
        let mut modes: Vec<usize> = (0..self.extents.len()).collect();
        modes.sort_by_key(|&mode| std::cmp::Reverse((self.strides[mode], self.extents[mode])));
        let mut at = vec![0; self.extents.len()];
        (offset >= 0 && self.decompose(offset, &modes, &mut at)).then_some(at)
    }

    /// The digits of the remaining offset, in modes from the largest stride on. If modes overlap, as the
    /// modes of an input may, the largest index need not be the correct one.
    fn decompose(&self, rest: i64, modes: &[usize], at: &mut [i64]) -> bool {
        let Some((&mode, others)) = modes.split_first() else { return rest == 0 };
        let (extent, stride) = (self.extents[mode], self.strides[mode]);
        if extent <= 1 || stride <= 0 {
            return self.decompose(rest, others, at);
        }
        let reach: i64 =
            others.iter().map(|&mode| (self.extents[mode] - 1).max(0) * self.strides[mode]).sum();
        let most = (rest / stride).min(extent - 1);
        let least = (rest - reach + stride - 1).div_euclid(stride).max(0);
        (least..=most).rev().any(|coordinate| {
            at[mode] = coordinate;
            self.decompose(rest - coordinate * stride, others, at)
        })
    }

    /// Is this the offset of an element?
    pub(crate) fn contains(&self, offset: i64) -> bool {
        (0..self.len as i64).contains(&offset) && (!self.gaps || self.coordinate(offset).is_some())
    }
}

const INITIALISED: u8 = 1;
const WRITTEN: u8 = 2;
const READ: u8 = 4;
const ATOMIC: u8 = 8;
/// Updated atomically with a scope that other clusters are not in.
const NARROW: u8 = 16;

/// Some elements of a tensor as one cluster sees them.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    data: Vec<u8>,
    state: [u8; PAGE],
    /// The last writer and reader of each element.
    by: Vec<[(u32, u32); 2]>,
    shadow: Option<Shadow>,
}

/// An atomic update, applied again when clusters are merged.
#[derive(Clone, Copy, Debug)]
struct Update {
    buffer: u32,
    at: usize,
    op: Change,
    value: Operands,
}

/// The writes and accesses of one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    pages: HashMap<(u32, u32), Box<Page>>,
    updates: Vec<Update>,
}

/// An access to global memory: elements of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) buffer: u32,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// State common to all of them.
pub(crate) struct World<'w> {
    pub(crate) buffers: &'w [Buffer],
    /// Which elements of tensors that the kernel does not write it has read, a bit for each.
    pub(crate) seen: Vec<Box<[AtomicU64]>>,
    pub(crate) components: Components,
    pub(crate) races: bool,
    pub(crate) written_once: bool,
    pub(crate) arithmetic: Arithmetic,
    /// Does one cluster, or one group of blocks that run concurrently, execute the whole grid?
    pub(crate) alone: bool,
}

impl World<'_> {
    /// A bit for each element of each buffer that is only read.
    pub(crate) fn unseen(buffers: &[Buffer]) -> Vec<Box<[AtomicU64]>> {
        let words = |buffer: &Buffer| if buffer.written { 0 } else { buffer.len.div_ceil(64) };
        buffers.iter().map(|buffer| (0..words(buffer)).map(|_| AtomicU64::new(0)).collect()).collect()
    }

    fn see(&self, Span { buffer, at, len }: Span) {
        for at in at..at + len {
            let (word, bit) = (&self.seen[buffer as usize][at / 64], 1 << (at % 64));
            // Most have been read before, and a load is shared by all threads of the host.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// How many elements of a tensor that the kernel does not write it never read, and the first of them.
    pub(crate) fn never_read(&self, buffer: usize) -> Option<(usize, usize)> {
        let (of, seen) = (&self.buffers[buffer], &self.seen[buffer]);
        let unread = |at: &usize| {
            seen[at / 64].load(Ordering::Relaxed) & 1 << (at % 64) == 0 && of.contains(*at as i64)
        };
        let mut all = (0..of.len.min(64 * seen.len())).filter(unread);
        all.next().map(|first| (1 + all.count(), first))
    }
}

impl Overlay {
    fn page(&mut self, world: &World<'_>, buffer: u32, page: usize) -> &mut Page {
        self.pages.entry((buffer, page as u32)).or_insert_with(|| {
            let of = &world.buffers[buffer as usize];
            let bytes = of.elem.bytes() as usize;
            let mut data = vec![0xff; PAGE * bytes];
            let from = page * PAGE * bytes;
            let len = data.len().min(of.data.len() - from);
            data[..len].copy_from_slice(&of.data[from..from + len]);
            Box::new(Page {
                data,
                state: [if of.initialised { INITIALISED } else { 0 }; PAGE],
                by: vec![[(0, 0); 2]; PAGE],
                shadow: world.races.then(|| Shadow::new(PAGE)),
            })
        })
    }

    /// Reads elements. Tensors that the kernel does not write have no pages.
    pub(crate) fn read(
        &mut self,
        world: &World<'_>,
        span: Span,
        by: &By<'_>,
        me: Stamp,
        to: &mut [u8],
    ) -> Result<(), Trouble> {
        let buffer = &world.buffers[span.buffer as usize];
        let bytes = buffer.elem.bytes() as usize;
        if !buffer.written {
            if !buffer.initialised {
                return Err(Trouble::Unwritten(span.at));
            }
            let from = span.at * bytes;
            to.copy_from_slice(&buffer.data[from..from + span.len * bytes]);
            world.see(span);
            return Ok(());
        }
        for n in 0..span.len {
            let (at, decompose) = (span.at + n, (span.at + n) % PAGE);
            let page = self.page(world, span.buffer, at / PAGE);
            if page.state[decompose] & INITIALISED == 0 {
                return Err(Trouble::Unwritten(at));
            }
            if let Some(shadow) = &mut page.shadow {
                shadow
                    .touch(&world.components, decompose, Touch::Read, by, me)
                    .map_err(|conflict| Trouble::Conflict(at, conflict))?;
            }
            if page.state[decompose] & READ == 0 {
                page.state[decompose] |= READ;
                page.by[decompose][1] = (me.access, me.thread);
            }
            to[n * bytes..(n + 1) * bytes]
                .copy_from_slice(&page.data[decompose * bytes..(decompose + 1) * bytes]);
        }
        Ok(())
    }

    /// Writes elements.
    pub(crate) fn write(
        &mut self,
        world: &World<'_>,
        span: Span,
        by: &By<'_>,
        me: Stamp,
        from: &[u8],
    ) -> Result<(), Trouble> {
        let buffer = &world.buffers[span.buffer as usize];
        let bytes = buffer.elem.bytes() as usize;
        for n in 0..span.len {
            let (at, decompose) = (span.at + n, (span.at + n) % PAGE);
            let page = self.page(world, span.buffer, at / PAGE);
            if let Some(shadow) = &mut page.shadow {
                shadow
                    .touch(&world.components, decompose, Touch::Write, by, me)
                    .map_err(|conflict| Trouble::Conflict(at, conflict))?;
            }
            if page.state[decompose] & WRITTEN != 0 && world.written_once && !buffer.initialised {
                let (access, thread) = page.by[decompose][0];
                return Err(Trouble::Again(at, Stamp { access, thread, ..Stamp::default() }));
            }
            page.state[decompose] |= INITIALISED | WRITTEN;
            page.by[decompose][0] = (me.access, me.thread);
            page.data[decompose * bytes..(decompose + 1) * bytes]
                .copy_from_slice(&from[n * bytes..(n + 1) * bytes]);
        }
        Ok(())
    }

    /// Updates one element.
    pub(crate) fn update(
        &mut self,
        world: &World<'_>,
        Word { buffer, at }: Word,
        Atomic { op, scope, value }: Atomic,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<u64, Trouble> {
        let elem = world.buffers[buffer as usize].elem;
        let page = self.page(world, buffer, at / PAGE);
        let decompose = at % PAGE;
        if page.state[decompose] & INITIALISED == 0 {
            return Err(Trouble::Unwritten(at));
        }
        if let Some(shadow) = &mut page.shadow {
            shadow
                .touch(&world.components, decompose, Touch::Atomic(scope), by, me)
                .map_err(|conflict| Trouble::Conflict(at, conflict))?;
        }
        page.state[decompose] |= if scope == Scope::Grid { ATOMIC } else { ATOMIC | NARROW };
        page.by[decompose][0] = (me.access, me.thread);
        let old = change(world.arithmetic, &mut page.data, decompose, elem, op, value);
        if !world.alone {
            self.updates.push(Update { buffer, at, op, value });
        }
        Ok(old)
    }

    /// The value of a flag, if it is initialised.
    pub(crate) fn flag(&self, world: &World<'_>, Word { buffer, at }: Word) -> Option<i128> {
        let of = &world.buffers[buffer as usize];
        let bits = match self.pages.get(&(buffer, (at / PAGE) as u32)) {
            Some(page) => {
                (page.state[at % PAGE] & INITIALISED != 0).then(|| raw(&page.data, at % PAGE, of.elem))
            }
            None => of.initialised.then(|| raw(&of.data, at, of.elem)),
        };
        bits.map(|bits| whole(bits, of.elem))
    }

    /// Reads an element that others update.
    pub(crate) fn look(
        &mut self,
        world: &World<'_>,
        Word { buffer, at }: Word,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<u64, Trouble> {
        let elem = world.buffers[buffer as usize].elem;
        let page = self.page(world, buffer, at / PAGE);
        if page.state[at % PAGE] & INITIALISED == 0 {
            return Err(Trouble::Unwritten(at));
        }
        if let Some(shadow) = &mut page.shadow {
            shadow
                .touch(&world.components, at % PAGE, Touch::Atomic(Scope::Grid), by, me)
                .map_err(|conflict| Trouble::Conflict(at, conflict))?;
        }
        Ok(raw(&page.data, at % PAGE, elem))
    }
}

/// The bits of a float, of 0 with its sign for a subnormal number.
fn normal(bits: u64) -> u64 {
    if f32::from_bits(bits as u32).is_subnormal() { bits & 0x8000_0000 } else { bits }
}

/// Changes an element; returns its old value.
fn change(
    arithmetic: Arithmetic,
    data: &mut [u8],
    at: usize,
    elem: Elem,
    op: Change,
    value: Operands,
) -> u64 {
    let old = raw(data, at, elem);
    // Sums of floats in global memory have no subnormal numbers, neither operands nor results; other types have, and so has
    // shared memory.
    let flushes = elem == Elem::F32 && arithmetic.ring_of(elem).is_none();
    let changed = |old, value| changed(arithmetic, op, old, value, elem);
    let new = match flushes && matches!(op, Change::Add | Change::Sub) {
        true => normal(changed(normal(old), Operands { by: normal(value.by), ..value })),
        false => changed(old, value),
    };
    let bytes = elem.bytes() as usize;
    data[at * bytes..(at + 1) * bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
    old
}

/// The bits of an element.
pub(crate) fn raw(data: &[u8], at: usize, elem: Elem) -> u64 {
    let bytes = elem.bytes() as usize;
    let mut all = [0; 8];
    all[..bytes].copy_from_slice(&data[at * bytes..(at + 1) * bytes]);
    u64::from_le_bytes(all)
}

/// Two clusters that access one element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clash {
    pub(crate) buffer: u32,
    pub(crate) at: usize,
    pub(crate) first: Accessed,
    pub(crate) second: Accessed,
    /// Both are atomic updates, and one has the scope of a block or of a cluster.
    pub(crate) narrow: bool,
}

/// An access to an element by a thread of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessed {
    pub(crate) cluster: u32,
    /// The access of the program.
    pub(crate) access: u32,
    pub(crate) thread: u32,
    pub(crate) writes: bool,
}

/// Accesses to an element in the whole grid.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    writer: Option<Accessed>,
    atomic: bool,
    narrow: bool,
    reader: Option<Accessed>,
    /// Another cluster that read it.
    other: Option<Accessed>,
}

/// The grid's results while clusters are merged.
pub(crate) struct Merged {
    /// By buffer; empty for buffers that are not written.
    pub(crate) data: Vec<Vec<u8>>,
    written: Vec<Vec<bool>>,
    owners: Vec<Vec<Owner>>,
}

impl Merged {
    pub(crate) fn new(buffers: &[Buffer]) -> Merged {
        let of = |buffer: &Buffer| buffer.written;
        Merged {
            data: buffers.iter().map(|b| if of(b) { b.data.clone() } else { Vec::new() }).collect(),
            written: buffers.iter().map(|b| vec![b.initialised; if of(b) { b.len } else { 0 }]).collect(),
            owners: buffers.iter().map(|b| vec![Owner::default(); if of(b) { b.len } else { 0 }]).collect(),
        }
    }

    /// Merges a cluster; clusters come in the order of the grid.
    pub(crate) fn add(&mut self, world: &World<'_>, cluster: u32, overlay: Overlay) -> Result<(), Clash> {
        let mut pages: Vec<_> = overlay.pages.into_iter().collect();
        pages.sort_unstable_by_key(|(key, _)| *key);
        for ((buffer, number), page) in pages {
            let of = &world.buffers[buffer as usize];
            let bytes = of.elem.bytes() as usize;
            for decompose in 0..PAGE {
                let (state, at) = (page.state[decompose], number as usize * PAGE + decompose);
                if state & (WRITTEN | READ | ATOMIC) == 0 {
                    continue;
                }
                let owner = &mut self.owners[buffer as usize][at];
                let [(access, thread), read_by] = page.by[decompose];
                let by = Accessed { cluster, access, thread, writes: true };
                let read_by = Accessed { cluster, access: read_by.0, thread: read_by.1, writes: false };
                let clash = |first, second| Clash { buffer, at, first, second, narrow: false };
                let (writes, atomic) = (state & (WRITTEN | ATOMIC) != 0, state & WRITTEN == 0);
                if writes {
                    let both_atomic = atomic && owner.atomic;
                    let narrow = both_atomic && (owner.narrow || state & NARROW != 0);
                    if let Some(writer) = owner.writer.filter(|_| !both_atomic || narrow && world.races) {
                        return Err(Clash { narrow, ..clash(writer, by) });
                    }
                    owner.narrow |= state & NARROW != 0;
                    if world.races {
                        let mut readers = [owner.reader, owner.other].into_iter().flatten();
                        if let Some(reader) = readers.find(|reader| reader.cluster != cluster) {
                            return Err(clash(reader, by));
                        }
                    }
                    (owner.writer, owner.atomic) = (Some(by), atomic);
                }
                if state & READ != 0 {
                    if let Some(writer) =
                        owner.writer.filter(|writer| world.races && writer.cluster != cluster)
                    {
                        return Err(clash(writer, read_by));
                    }
                    match owner.reader {
                        None => owner.reader = Some(read_by),
                        Some(_) => owner.other = owner.other.or(Some(read_by)),
                    }
                }
                if state & WRITTEN != 0 || world.alone && writes {
                    self.written[buffer as usize][at] = true;
                    self.data[buffer as usize][at * bytes..(at + 1) * bytes]
                        .copy_from_slice(&page.data[decompose * bytes..(decompose + 1) * bytes]);
                }
            }
            // Elements with plain writes already contain their updates.
        }
        for Update { buffer, at, op, value } in overlay.updates {
            let owner = &self.owners[buffer as usize][at];
            if owner.atomic {
                let elem = world.buffers[buffer as usize].elem;
                change(world.arithmetic, &mut self.data[buffer as usize], at, elem, op, value);
                self.written[buffer as usize][at] = true;
            }
        }
        Ok(())
    }

    /// The first element of a result that was never written.
    pub(crate) fn unwritten(&self, buffer: usize, of: &Buffer) -> Option<usize> {
        (0..self.written[buffer].len()).find(|&at| !self.written[buffer][at] && of.contains(at as i64))
    }
}
