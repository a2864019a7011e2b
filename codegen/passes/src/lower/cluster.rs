//! The exchange of results between the blocks of a cluster, through distributed shared memory. Each block stores its results
//! in the shared memory of every block by st.async; the bytes complete a phase of an mbarrier there. No thread waits for its
//! stores to global memory, as it would at a barrier of the cluster with release semantics.
//!
//! The exchanges of a kernel alternate between two slots, each with an mbarrier. Two slots suffice because no block is two
//! exchanges ahead of another. When a block has the results of an exchange, all other blocks have sent theirs. Each of them
//! did so after a barrier of its threads, which had read the slot of the previous exchange. So a message that arrives belongs
//! to the exchange for which the block waits, or to the next one, whose slot is free. It may arrive before the block expects
//! its bytes: the phase completes with the arrival that expects them.
//!
//! No message arrives before its mbarrier is initialised. One thread initialises the mbarriers, every thread executes a fence
//! that releases them to the cluster, and the blocks meet with acquire semantics before their first exchange. Because of the
//! fence, the arrival may be relaxed. Mbarriers are initialised once, and the number of bytes of an exchange is a constant of
//! the kernel: each block sends all its results, also results without an element. All threads of a block wait, so no thread is
//! a phase behind when the parity repeats.
//!
//! All blocks of a cluster perform the same exchanges (programs in which blocks or roles would differ are refused), and in each
//! exchange a block waits for the messages of all others. So when a block ends, no message to it is in flight. Its own messages
//! contain values, not addresses in its memory, so they remain valid.

use super::Lower;
use super::numbering::named;
use super::reduce::{Combined, Kept, Part, Runs};
use crate::isa::{self, WORD};
use crate::source::problem::{Problem, Result};
use crate::thread::index::{Int, Ix};
use crate::thread::{AtomArg, Bar, Frag, Id, Mem, Op, Scope, Unroll};
use crate::tile;
use crate::tile::visit::preorder;
use crate::values::affine::Coord;

/// Exchanges that may be under way at once.
const SLOTS: i64 = 2;

/// The exchanges of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Exchanges {
    /// Their mbarriers.
    bar: Id,
    /// How many there have been.
    count: Count,
}

#[derive(Clone, Copy)]
enum Count {
    /// No exchange is in a loop or under a condition.
    Known(i64),
    /// A variable.
    Variable(Ix),
}

/// An exchange: its slot and the phase of the mbarrier.
#[derive(Clone, Copy)]
struct ExchangeSlot {
    bar: Id,
    slot: Ix,
    phase: Ix,
}

impl Lower<'_> {
    /// Combines the results of a block, which all its threads have, with the results of the cluster's other
    /// blocks. Every thread combines in the order of ranks, so all blocks get the same number.
    pub(super) fn across_blocks(&mut self, all: &Combined<'_>, blocks: i64, met: bool) -> Result<()> {
        let kept = self.results_of_blocks(all, blocks, met)?;
        let zero = self.int(0);
        self.combine_runs(all, &self.blocks_of_cluster(&[(blocks, 1)]), &kept, zero)
    }

    /// The blocks of a cluster as runs of threads, by their ranks.
    pub(super) fn blocks_of_cluster<'d>(&self, submodes: &'d [(i64, i64)]) -> Runs<'d> {
        Runs { threads: self.combined(), submodes, name: "blocks" }
    }

    /// The mbarriers of exchanges, if there are any.
    pub(super) fn declare_exchanges(&mut self) -> Option<Id> {
        let straight = self.program.body.iter().filter(|stmt| stmt.is_over_cluster()).count() as i64;
        let all = preorder(&self.program.body).filter(|stmt| stmt.is_over_cluster()).count() as i64;
        if all == 0 {
            return None;
        }
        let slots = if straight == all { all.min(SLOTS) } else { SLOTS } as u32;
        let offset = self.allocation.mbarriers(slots);
        let bar = self.kernel.bars.len() as Id;
        // Asynchronous stores alone access slots of other blocks.
        let (name, scope) = ("exchange".to_owned(), Scope::Block);
        self.kernel.bars.push(Bar::Mbarriers { name, offset, slots, slots_name: None, count: 1, scope });
        let count = match straight == all {
            true => Count::Known(0),
            false => Count::Variable(self.counter("exchanges", super::ring::MOST_PHASES)),
        };
        self.exchanges = Some(Exchanges { bar, count });
        Some(bar)
    }

    /// The results of each block of the cluster, in the shared memory of this block. All threads of a block have the same
    /// results, and one thread for each rank sends them there. `met`: all threads of the block have met since the
    /// previous exchange.
    pub(super) fn results_of_blocks(&mut self, all: &Combined<'_>, blocks: i64, met: bool) -> Result<Kept> {
        let len = self.results(all);
        self.start_exchanges();
        if !met {
            self.meet(self.scope.by);
        }
        let exchange = self.next_exchange()?;
        let (buffers, begin) = match self.scope.loops {
            0 => (1, self.int(0)),
            _ => (SLOTS, self.exprs().mul(exchange.slot, blocks * len)),
        };
        let array = |part: &Part| {
            let count = (buffers * blocks * len) as u32 * words_of(part).len;
            self.scratch_array(&format!("{}_of_blocks", part.name), part.elem, count, "blocks")
        };
        let arrays = all.parts.iter().map(array).collect();
        let rank = self.coord(&Coord::ClusterRank);
        let kept = Kept { arrays, begin, count: blocks, run: rank, in_words: true };
        let each: u32 = all.parts.iter().map(|part| words_of(part).bytes).sum();
        let bytes = Some((blocks * len) as u32 * each);
        let ExchangeSlot { bar, slot, phase } = exchange;
        self.elect(vec![Op::Arrive { bar, slot, peer: None, bytes }]);
        let thread = self.coord(&Coord::Thread(self.scope.by));
        let (sent, ()) = self.nested(|lower| {
            lower.loops(&named([len]), Unroll::Full, &mut |lower, at| {
                for (part, &array) in all.parts.iter().zip(&kept.arrays) {
                    let to = lower.address_of_run(&kept, array, at[0], rank);
                    lower.send(part, at[0], to, exchange, thread)?;
                }
                Ok(())
            })
        })?;
        let cond = self.exprs().lt(thread, blocks);
        self.emit(Op::If { cond: cond.into(), then: sent, other: Vec::new() });
        self.comment("until the results of all blocks have arrived".into());
        self.emit(Op::Await { bar, slot, phase });
        self.count_exchange();
        Ok(kept)
    }

    /// Sends a result to an address in the shared memory of the block of a rank.
    fn send(&mut self, part: &Part, at: Ix, to: Mem, exchange: ExchangeSlot, rank: Ix) -> Result<()> {
        let row = isa::st_async(part.elem).ok_or_else(|| Problem::internal("there is no st.async"))?;
        self.arch_of(row);
        let len = words_of(part).len;
        let from = match len {
            1 => Frag { reg: part.reg, at, len },
            _ => {
                let reg = self.register(format!("{}_sent", part.name), part.elem, len, true);
                for position in 0..len {
                    let (to, value) = (self.int(position.into()), crate::thread::Val::Reg(part.reg, at));
                    self.emit(Op::Assign { reg, at: to, value });
                }
                Frag { reg, at: self.int(0), len }
            }
        };
        let bar = AtomArg::Barrier { bar: exchange.bar, slot: exchange.slot };
        let args = vec![AtomArg::At(to), AtomArg::Frag(from), bar, AtomArg::Int(rank)];
        self.emit(Op::Atom { row, args, guard: None });
        Ok(())
    }

    /// The slot and phase of the next exchange.
    fn next_exchange(&mut self) -> Result<ExchangeSlot> {
        let Some(Exchanges { bar, count }) = self.exchanges else {
            return Err(Problem::internal("an exchange between blocks without mbarriers"));
        };
        let count = match count {
            Count::Known(count) => self.int(count),
            Count::Variable(count) => count,
        };
        let (slot, phase) = (self.exprs().rem(count, SLOTS), self.exprs().div(count, SLOTS));
        if self.exprs().constant(slot).is_some() {
            return Ok(ExchangeSlot { bar, slot, phase });
        }
        // The count changes before the slot is read.
        let id = self.var("exchange_slot", false);
        self.emit(Op::Let(id, slot));
        let slot = self.exprs().leaf(Int::Var(id), 0, SLOTS - 1, 1, Scope::Warp);
        Ok(ExchangeSlot { bar, slot, phase })
    }

    fn count_exchange(&mut self) {
        let Some(Exchanges { count, .. }) = &mut self.exchanges else { return };
        match count {
            Count::Known(count) => *count += 1,
            Count::Variable(count) => {
                let count = *count;
                let next = self.exprs().add(count, 1);
                if let Int::Var(id) = self.kernel.exprs.get(count).int {
                    self.emit(Op::Set(id, next));
                }
            }
        }
    }

    /// Waits until all blocks of the cluster run, and have mbarriers.
    fn start_exchanges(&mut self) {
        if std::mem::replace(&mut self.scope.exchanges, true) {
            return;
        }
        self.kernel.bars.push(Bar::ClusterStart);
        self.emit(Op::sync(self.kernel.bars.len() as Id - 1));
    }

    /// Exchanges in a loop begin before it.
    pub(super) fn before_exchanges(&mut self, body: &[tile::Stmt]) {
        let exchanges = preorder(body).any(|stmt| stmt.is_over_cluster());
        if exchanges && self.scope.loops == 0 {
            self.start_exchanges();
        }
    }
}

/// The smallest message is a word: a narrow element takes a whole word.
struct Words {
    /// Elements.
    len: u32,
    bytes: u32,
}

fn words_of(part: &Part) -> Words {
    let bytes = part.elem.bytes();
    Words { len: (WORD / bytes).max(1), bytes: bytes.max(WORD) }
}
