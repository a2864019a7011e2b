//! What ranks tell each other beside the tensors: the call that each is about to make, and failures. Ranks of one process share a board.
//! Each process has its own, and a board passes what happens to the others ([`super::remote`]).

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Error;
use super::remote::Sockets;

/// What a rank brings to an exchange: its call and data for the others, or its error.
pub(super) type Entry = Result<Call, String>;

/// A call that all ranks make.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Call {
    /// Equal for all ranks.
    pub(super) text: String,
    /// For the others.
    pub(super) data: Vec<u8>,
}

/// An event, for all boards.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Event {
    Post {
        rank: usize,
        exchange: u64,
        entry: Entry,
    },
    Lost {
        rank: usize,
        why: String,
    },
    /// The process is alive.
    Alive,
}

#[derive(Default)]
struct State {
    exchanges: BTreeMap<u64, Exchange>,
    lost: Option<(usize, String)>,
    /// The number of connections that have ended.
    ended: usize,
}

struct Exchange {
    entries: Vec<Option<Entry>>,
    /// The ranks of this process that have read all entries.
    readers: usize,
}

/// The exchanges of ranks.
pub(super) struct Board {
    ranks: usize,
    /// The ranks of this process.
    local: usize,
    pub(super) timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
    pub(super) sockets: Sockets,
}

impl Board {
    pub(super) fn new(ranks: usize, local: usize, timeout: Duration, sockets: Sockets) -> Board {
        Board { ranks, local, timeout, state: Mutex::default(), changed: Condvar::new(), sockets }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an event.
    pub(super) fn apply(&self, event: Event) {
        let mut state = self.locked();
        match event {
            Event::Post { rank, exchange, entry } if rank < self.ranks => {
                let fresh = || Exchange { entries: vec![None; self.ranks], readers: 0 };
                state.exchanges.entry(exchange).or_insert_with(fresh).entries[rank] = Some(entry);
            }
            Event::Lost { rank, why } => {
                state.lost.get_or_insert((rank, why));
            }
            Event::Post { .. } | Event::Alive => return,
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Takes note of an event of this process, and tells the other boards.
    pub(super) fn publish(&self, event: Event) {
        self.sockets.send(&event, None);
        self.apply(event);
    }

    /// A rank of this process is lost: the group ends. Only the first loss is remembered.
    pub(super) fn lose(&self, rank: usize, why: impl Into<String>) {
        if self.lost().is_none() {
            self.publish(Event::Lost { rank, why: why.into() });
        }
    }

    /// The rank that was lost first.
    pub(super) fn lost(&self) -> Option<Error> {
        let lost = self.locked().lost.clone();
        lost.map(|(rank, why)| Error::Lost { rank, why })
    }

    /// Waits for a loss, at most this long.
    pub(super) fn wait_for_loss(&self, time: Duration) -> Option<Error> {
        let waiting = |state: &mut State| state.lost.is_none();
        drop(self.changed.wait_timeout_while(self.locked(), time, waiting));
        self.lost()
    }

    /// Brings a rank's entry to an exchange, and waits for the entries of all ranks.
    pub(super) fn exchange(&self, rank: usize, exchange: u64, entry: Entry) -> Result<Vec<Entry>, Error> {
        let call = entry.as_ref().map_or("its error".to_string(), |call| call.text.clone());
        self.publish(Event::Post { rank, exchange, entry });
        let start = Instant::now();
        let mut state = self.locked();
        loop {
            if let Some((rank, why)) = state.lost.clone() {
                return Err(Error::Lost { rank, why });
            }
            let Some(known) = state.exchanges.get_mut(&exchange) else {
                unreachable!("the exchange has this rank's entry")
            };
            let Some(missing) = known.entries.iter().position(Option::is_none) else {
                let entries = known.entries.iter().flatten().cloned().collect();
                known.readers += 1;
                if known.readers == self.local {
                    state.exchanges.remove(&exchange);
                }
                return Ok(entries);
            };
            let Some(left) = self.timeout.checked_sub(start.elapsed()) else {
                drop(state);
                self.lose(missing, format!("it did not come to {call} within {:?}", self.timeout));
                return Err(self
                    .lost()
                    .unwrap_or(Error::Lost { rank: missing, why: "it did not come".into() }));
            };
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// A connection has ended.
    pub(super) fn end(&self) {
        self.locked().ended += 1;
        self.changed.notify_all();
    }

    /// Waits until this many connections have ended.
    pub(super) fn wait_for_ends(&self, count: usize) {
        let waiting = |state: &mut State| state.ended < count;
        drop(self.changed.wait_timeout_while(self.locked(), self.timeout, waiting));
    }

    /// Forgets all exchanges, where no rank is in one.
    pub(super) fn clear(&self) {
        self.locked().exchanges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        Ok(Call { text: text.into(), data: Vec::new() })
    }

    #[test]
    fn a_rank_that_does_not_come_is_lost() {
        let board = Board::new(2, 1, Duration::from_millis(30), Sockets::default());
        let error = board.exchange(0, 1, entry("a sum")).unwrap_err().to_string();
        let expected =
            "rank 1 is lost: it did not come to a sum within 30ms\nhelp: the group has ended; make a new one";
        assert_eq!(error, expected);
        assert_eq!(board.exchange(0, 2, entry("another sum")).unwrap_err().to_string(), expected);
    }

    #[test]
    fn entries_of_all_ranks_come_in_order() {
        let board = Board::new(3, 3, Duration::from_secs(9), Sockets::default());
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let board = &board;
                scope.spawn(move || {
                    for exchange in 0..100 {
                        let entries = board.exchange(rank, exchange, Err(format!("{rank}"))).unwrap();
                        assert_eq!(entries, [0, 1, 2].map(|rank| Err(rank.to_string())));
                    }
                });
            }
        });
        assert!(board.locked().exchanges.is_empty());
    }
}
