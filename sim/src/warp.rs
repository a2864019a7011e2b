//! A warp: its program counter, its active lanes, its integers and registers.

use tilewright_program::Elem;
use tilewright_program::thread::Launch;

use crate::clock::Seen;
use crate::code::{Code, FIRST_SCALAR, IntCell, RANK, Slot, Src, THREAD, is_double};
use crate::global::Word;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// One integer for each lane.
pub(crate) type Ints = [i64; LANES];

/// Why a warp waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Waiting {
    /// A barrier of the block, by the hardware's number.
    Barrier(u32),
    Cluster,
    /// Mbarriers: block, number, the number of completed phases to wait for.
    Mbarriers(Vec<(usize, usize, i64)>),
    /// Products of its warpgroup up to this one.
    Products(u64),
    /// Registers of its block's pool: how many more a thread.
    Registers(u32),
    /// A flag in global memory, and the value to wait for.
    Flag {
        word: Word,
        least: i128,
    },
}

/// Registers that an operation in flight uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) from: Slot,
    pub(crate) to: Slot,
    /// May they be read meanwhile?
    pub(crate) readable: bool,
    /// The product.
    pub(crate) product: u64,
    pub(crate) site: u32,
}

/// The uses of a cell since the last `wgmma.fence`, which products check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// No fence has been executed yet.
    Start,
    Read,
    Written,
    Fenced,
    /// A fence has been executed, and no pin stood between it and the last use.
    Unpinned,
    /// The accumulator of a product, by its row of the code's instructions: another one of that shape needs no fence.
    Product(u32),
}

impl Since {
    pub(crate) fn fence(&mut self, pin: Pin) {
        *self = if pin == Pin::Used { Since::Unpinned } else { Since::Fenced };
    }

    pub(crate) fn read(&mut self) {
        if *self != Since::Written {
            *self = Since::Read;
        }
    }
}

/// The uses of a cell since it was last pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    Unused,
    Used,
    /// By an asynchronous product, which writes it.
    Changed,
}

/// A commit group of asynchronous operations of a warp's lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) lanes: u32,
    pub(crate) number: u32,
    pub(crate) agents: Vec<u64>,
}

/// Commit groups of one kind, oldest first, and operations that are not committed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) open: Vec<(u32, u64)>,
    pub(crate) closed: Vec<Group>,
    pub(crate) count: u32,
}

/// A warp.
#[derive(Clone, Debug)]
pub(crate) struct Warp {
    /// Its block within the cluster, and its number there.
    pub(crate) block: usize,
    pub(crate) number: u32,
    /// Component of lane 0.
    pub(crate) first: u32,
    /// Lanes that exist.
    pub(crate) live: u32,
    /// Active lanes.
    pub(crate) mask: u32,
    pub(crate) pc: usize,
    /// Masks of the enclosing conditions, and the lanes for which each is true.
    pub(crate) stack: Vec<(u32, u32)>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) ended: bool,
    /// Lanes that have waited for the previous kernel in the stream.
    pub(crate) awaited: u32,
    /// Registers that each of its threads has.
    pub(crate) registers: u32,
    pub(crate) scalars: Vec<i64>,
    pub(crate) vectors: Vec<Ints>,
    pub(crate) words: Vec<[u32; LANES]>,
    pub(crate) doubles: Vec<[u64; LANES]>,
    /// Lanes in which a cell is initialised.
    pub(crate) initialised_words: Vec<u32>,
    pub(crate) initialised_doubles: Vec<u32>,
    pub(crate) seen: Seen,
    pub(crate) copies: Groups,
    pub(crate) stores: Groups,
    /// Matrix products that it has issued, and the last of each commit group.
    pub(crate) products: u64,
    pub(crate) product_groups: Vec<u64>,
    pub(crate) locks: Vec<Lock>,
    /// The last access to each cell, for checks of asynchronous products; empty without wgmma.
    pub(crate) since: Vec<Since>,
    /// The same since its last pin.
    pub(crate) pins: Vec<Pin>,
}

impl Warp {
    /// A compiler fence for cells. Products in flight may change theirs again.
    pub(crate) fn pin(&mut self, from: Slot, to: Slot) {
        let Warp { pins, locks, .. } = self;
        for slot in from..to {
            let in_flight = |lock: &Lock| !lock.readable && (lock.from..lock.to).contains(&slot);
            if let Some(pin) = pins.get_mut(slot as usize)
                && !locks.iter().any(in_flight)
            {
                *pin = Pin::Unused;
            }
        }
    }

    pub(crate) fn new(code: &Code, block: usize, number: u32, at: [u32; 3], launch: &Launch) -> Warp {
        let (threads, registers) = (launch.threads, launch.registers_at_entry().next_multiple_of(8));
        let warps = threads.div_ceil(LANES as u32);
        let first = number * LANES as u32;
        let count = (threads - first).min(LANES as u32);
        let live = if count == 32 { u32::MAX } else { (1 << count) - 1 };
        let mut warp = Warp {
            block,
            number,
            first: (block as u32 * warps + number) * LANES as u32,
            live,
            mask: live,
            pc: 0,
            stack: Vec::new(),
            waiting: None,
            ended: false,
            awaited: 0,
            registers,
            scalars: vec![0; code.scalars.max(FIRST_SCALAR) as usize],
            vectors: vec![[0; LANES]; code.vectors as usize],
            words: vec![[u32::MAX; LANES]; code.words as usize],
            doubles: vec![[u64::MAX; LANES]; code.doubles as usize],
            initialised_words: vec![0; code.words as usize],
            initialised_doubles: vec![0; code.doubles as usize],
            seen: Seen { epoch: 1, ..Seen::default() },
            copies: Groups::default(),
            stores: Groups::default(),
            products: 0,
            product_groups: Vec::new(),
            locks: Vec::new(),
            since: if code.uses.wgmma { vec![Since::Start; code.words as usize] } else { Vec::new() },
            pins: if code.uses.wgmma { vec![Pin::Unused; code.words as usize] } else { Vec::new() },
        };
        for (to, at) in warp.scalars.iter_mut().zip(at) {
            *to = i64::from(at);
        }
        warp.scalars[RANK as usize] = block as i64;
        for (lane, thread) in warp.vectors[THREAD as usize].iter_mut().enumerate() {
            *thread = i64::from(first) + lane as i64;
        }
        for &(slot, elem, bits) in &code.consts {
            if is_double(elem) {
                warp.doubles[slot as usize] = [bits; LANES];
                warp.initialised_doubles[slot as usize] = u32::MAX;
            } else {
                warp.words[slot as usize] = [bits as u32; LANES];
                warp.initialised_words[slot as usize] = u32::MAX;
            }
        }
        warp
    }

    /// The number within the block of a lane's thread.
    pub(crate) fn thread(&self, lane: u32) -> u32 {
        self.number * LANES as u32 + lane
    }

    /// Threads of some lanes.
    pub(crate) fn threads(&self, lanes: u32) -> Vec<u32> {
        crate::clock::lanes_of(lanes).map(|lane| self.thread(lane)).collect()
    }

    /// The value in the first active lane.
    #[inline]
    pub(crate) fn scalar(&self, src: Src) -> i64 {
        match src {
            Src::Const(n) => n,
            Src::Scalar(slot, add) => self.scalars[slot as usize].wrapping_add(add),
            Src::Vector(slot, add) => {
                self.vectors[slot as usize][self.mask.trailing_zeros() as usize & 31].wrapping_add(add)
            }
        }
    }

    /// The value in each lane.
    #[inline]
    pub(crate) fn ints(&self, src: Src) -> Ints {
        match src {
            Src::Const(n) => [n; LANES],
            Src::Scalar(slot, add) => [self.scalars[slot as usize].wrapping_add(add); LANES],
            Src::Vector(slot, add) => {
                let mut all = self.vectors[slot as usize];
                all.iter_mut().for_each(|value| *value = value.wrapping_add(add));
                all
            }
        }
    }

    /// Lanes in which a condition is true.
    #[inline]
    pub(crate) fn lanes_where(&self, src: Src) -> u32 {
        match src {
            Src::Vector(slot, add) => {
                let all = &self.vectors[slot as usize];
                all.iter().rev().fold(0, |mask, &value| mask << 1 | u32::from(value.wrapping_add(add) != 0))
            }
            _ if self.scalar(src) != 0 => u32::MAX,
            _ => 0,
        }
    }

    /// Active lanes in which a guard is true.
    #[inline]
    pub(crate) fn guarded(&self, guard: Option<Src>) -> u32 {
        self.mask & guard.map_or(u32::MAX, |guard| self.lanes_where(guard))
    }

    /// Lanes in which a cell is initialised.
    #[inline]
    pub(crate) fn initialised(&self, slot: Slot, elem: Elem) -> u32 {
        if is_double(elem) {
            self.initialised_doubles[slot as usize]
        } else {
            self.initialised_words[slot as usize]
        }
    }

    /// A cell's bits in each lane.
    #[inline]
    pub(crate) fn bits(&self, slot: Slot, elem: Elem) -> [u64; LANES] {
        if is_double(elem) { self.doubles[slot as usize] } else { self.words[slot as usize].map(u64::from) }
    }

    /// One lane's bits.
    #[inline]
    pub(crate) fn bit(&self, slot: Slot, elem: Elem, lane: usize) -> u64 {
        if is_double(elem) {
            self.doubles[slot as usize][lane]
        } else {
            u64::from(self.words[slot as usize][lane])
        }
    }

    #[inline]
    pub(crate) fn set_bit(&mut self, slot: Slot, elem: Elem, lane: usize, bits: u64) {
        if is_double(elem) {
            self.doubles[slot as usize][lane] = bits;
            self.initialised_doubles[slot as usize] |= 1 << lane;
        } else {
            self.words[slot as usize][lane] = bits as u32;
            self.initialised_words[slot as usize] |= 1 << lane;
        }
    }

    /// Sets a cell in the active lanes.
    #[inline]
    pub(crate) fn set_words(&mut self, slot: Slot, bits: &[u32; LANES]) {
        let (mask, cell) = (self.mask, &mut self.words[slot as usize]);
        if mask == u32::MAX {
            *cell = *bits;
        } else {
            for lane in 0..LANES {
                if mask >> lane & 1 == 1 {
                    cell[lane] = bits[lane];
                }
            }
        }
        self.initialised_words[slot as usize] |= mask;
    }

    /// Sets a cell of any type in the active lanes.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, elem: Elem, bits: &[u64; LANES]) {
        if !is_double(elem) {
            let words = bits.map(|bits| bits as u32);
            return self.set_words(slot, &words);
        }
        let (mask, cell) = (self.mask, &mut self.doubles[slot as usize]);
        for lane in 0..LANES {
            if mask >> lane & 1 == 1 {
                cell[lane] = bits[lane];
            }
        }
        self.initialised_doubles[slot as usize] |= mask;
    }

    /// Sets an integer in the active lanes.
    #[inline]
    pub(crate) fn set_ints(&mut self, slot: Slot, of: impl Fn(usize) -> i64) {
        let (mask, cell) = (self.mask, &mut self.vectors[slot as usize]);
        for (lane, cell) in cell.iter_mut().enumerate() {
            if mask >> lane & 1 == 1 {
                *cell = of(lane);
            }
        }
    }

    /// Jumps to another instruction where a condition is false.
    #[inline]
    pub(crate) fn skip_unless(&mut self, condition: bool, to: u32) {
        if !condition {
            self.pc = to as usize;
        }
    }

    /// Begins a loop. If its ends differ from lane to lane, some lanes leave it before the others.
    #[inline]
    pub(crate) fn begin(&mut self, var: IntCell, from: Src, to: Src, exit: u32) {
        match var {
            IntCell::Warp(var) => {
                let from = self.scalar(from);
                self.scalars[var as usize] = from;
                self.skip_unless(from < self.scalar(to), exit);
            }
            IntCell::Lanes(var) => {
                let (from, to) = (self.ints(from), self.ints(to));
                self.vectors[var as usize] = from;
                self.stack.push((self.mask, 0));
                self.mask &= below(&from, &to);
                self.skip_unless(self.mask != 0, exit);
            }
        }
    }

    /// Its next iteration, if there is one, in the lanes that have one.
    #[inline]
    pub(crate) fn next(&mut self, var: IntCell, step: i64, to: Src, head: u32) {
        match var {
            IntCell::Warp(var) => {
                let next = self.scalars[var as usize] + step;
                self.scalars[var as usize] = next;
                self.skip_unless(next >= self.scalar(to), head);
            }
            IntCell::Lanes(var) => {
                let to = self.ints(to);
                self.vectors[var as usize].iter_mut().for_each(|at| *at += step);
                self.mask &= below(&self.vectors[var as usize], &to);
                self.skip_unless(self.mask == 0, head);
            }
        }
    }

    /// Deactivates all but some lanes, until [`Warp::widen`].
    #[inline]
    pub(crate) fn narrow(&mut self, lanes: u32) {
        self.stack.push((self.mask, lanes));
        self.mask &= lanes;
    }

    /// The lanes before the last [`Warp::narrow`].
    #[inline]
    pub(crate) fn widen(&mut self) {
        if let Some((mask, _)) = self.stack.pop() {
            self.mask = mask;
        }
    }

    /// Deactivates some lanes until the end of a loop that is `depth` branches outside.
    #[inline]
    pub(crate) fn leave(&mut self, lanes: u32, depth: u32, next: u32, exit: u32) {
        let lanes = lanes & self.mask;
        self.mask &= !lanes;
        let outside = self.stack.len() - depth as usize;
        self.stack[outside..].iter_mut().for_each(|(mask, _)| *mask &= !lanes);
        if self.stack.get(outside).map_or(self.mask, |(mask, _)| *mask) == 0 {
            self.stack.truncate(outside);
            self.pc = exit as usize;
        } else {
            self.skip_unless(self.mask != 0, next);
        }
    }

    /// A branch that some lanes take; without any the warp continues elsewhere.
    #[inline]
    pub(crate) fn branch(&mut self, lanes: u32, other: u32) {
        self.narrow(lanes);
        self.skip_unless(self.mask != 0, other);
    }

    /// The lanes that did not take the last branch.
    #[inline]
    pub(crate) fn other(&mut self, end: u32) {
        if let Some(&(outer, lanes)) = self.stack.last() {
            self.mask = outer & !lanes;
        }
        self.skip_unless(self.mask != 0, end);
    }

    /// Marks a result as uninitialised in lanes without a value.
    pub(crate) fn mark_uninitialised(&mut self, slot: Slot, elem: Elem, lanes: u32) {
        let initialised = if is_double(elem) {
            &mut self.initialised_doubles[slot as usize]
        } else {
            &mut self.initialised_words[slot as usize]
        };
        *initialised &= !lanes;
    }
}

/// Lanes in which one number is below another.
fn below(at: &Ints, to: &Ints) -> u32 {
    (0..LANES).filter(|&lane| at[lane] < to[lane]).fold(0, |mask, lane| mask | 1 << lane)
}
