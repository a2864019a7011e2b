//! The happens-before relation: for each warp, the events of others that it knows of, and the operations in flight.

use std::collections::{BTreeMap, VecDeque};

use super::event::{Event, Flights, Under};
use crate::thread::Id;

/// Warps of a block.
const WARPS: usize = 32;
/// The first component of a clock that is about waits, and the first about rings.
const WAITS: usize = WARPS;
const RINGS: usize = 2 * WARPS;

/// A commit group of operations in flight.
#[derive(Clone, Default)]
pub(super) struct Flight<'p> {
    pub(super) all: Vec<Event<'p>>,
    /// The token of the operation that committed it.
    pub(super) token: Option<Id>,
}

/// The operations that a group has started and not waited for.
#[derive(Clone, Default)]
pub(super) struct InFlight<'p> {
    /// Commit groups, oldest first.
    queues: [VecDeque<Flight<'p>>; 3],
    /// Copies that are not committed yet.
    pub(super) open: Vec<Event<'p>>,
}

impl<'p> InFlight<'p> {
    pub(super) fn queue(&mut self, which: Flights) -> &mut VecDeque<Flight<'p>> {
        &mut self.queues[which as usize]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Event<'p>> {
        self.queues.iter().flatten().flat_map(|group| &group.all).chain(&self.open)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Event<'p>> {
        self.queues.iter_mut().flatten().flat_map(|group| &mut group.all).chain(&mut self.open)
    }
}

/// The accesses so far, and their order.
#[derive(Clone)]
pub(super) struct State<'p> {
    /// Accesses that some warp does not know of.
    pub(super) past: Vec<Event<'p>>,
    /// The operations in flight, by the first warp of the group that started them.
    flights: BTreeMap<u32, InFlight<'p>>,
    /// The operations in flight are not known.
    pub(super) vague: bool,
    /// For each warp: the last event of each warp that it knows of, the last wait of each warp that it knows of, then for
    /// each ring how many phases it knows to be full. A clock of the happens-before relation.
    clocks: Vec<Vec<u32>>,
    /// The number of the last event.
    last: u32,
}

/// The events that a warp knows of.
pub(super) type Clock = Vec<u32>;

/// Adds the events of a clock to those that are known.
pub(super) fn join(known: &mut [u32], news: &[u32]) {
    known.iter_mut().zip(news).for_each(|(known, news)| *known = (*known).max(*news));
}

impl<'p> State<'p> {
    pub(super) fn new(rings: usize) -> State<'p> {
        let clocks = vec![vec![0; RINGS + rings]; WARPS];
        State { past: Vec::new(), flights: BTreeMap::new(), vague: false, clocks, last: 0 }
    }

    /// The number of the next event.
    pub(super) fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// The operations that a group has in flight.
    pub(super) fn of(&mut self, group: u32) -> &mut InFlight<'p> {
        self.flights.entry(group).or_default()
    }

    /// Everything in flight.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Event<'p>> {
        self.flights.values().flat_map(InFlight::all)
    }

    /// Commits the open group.
    pub(super) fn commit(&mut self, group: u32, which: Flights, token: Option<Id>) {
        let all = std::mem::take(&mut self.of(group).open);
        self.of(group).queue(which).push_back(Flight { all, token });
    }

    /// The oldest operations of a queue have completed: now their threads know it.
    pub(super) fn land(&mut self, group: u32, which: Flights, count: usize) {
        let landed: Vec<Flight<'p>> = self.of(group).queue(which).drain(..count).collect();
        let time = self.next();
        self.past.extend(landed.into_iter().flat_map(|group| group.all).map(|event| Event { time, ..event }));
    }

    /// No operation is in flight any more, and all warps know all.
    pub(super) fn settle(&mut self) {
        self.past.clear();
        self.flights.clear();
    }

    /// The events of other warps that a warp knows of.
    pub(super) fn clock(&self, warp: u32) -> Clock {
        self.clocks[warp as usize % WARPS].clone()
    }

    /// The events that these warps together know of now.
    pub(super) fn known_to(&self, warps: u32) -> Clock {
        let mut all = vec![0; self.clocks[0].len()];
        for warp in each(warps) {
            join(&mut all, &self.clocks[warp]);
            all[warp] = self.last;
        }
        all
    }

    /// These warps learn something.
    pub(super) fn learn(&mut self, warps: u32, news: &Clock) {
        each(warps).for_each(|warp| join(&mut self.clocks[warp], news));
    }

    /// These warps learn that a ring's slot is full.
    pub(super) fn learn_full(&mut self, warps: u32, ring: Id, phase: i64) {
        for warp in each(warps) {
            let known = &mut self.clocks[warp][RINGS + ring as usize];
            *known = (*known).max(phase as u32 + 1);
        }
    }

    /// These warps have waited for a phase of an mbarrier. The time at which they have.
    pub(super) fn waited(&mut self, warps: u32) -> u32 {
        let time = self.next();
        each(warps).for_each(|warp| self.clocks[warp][WAITS + warp] = time);
        time
    }

    /// The warps, among these, whose wait a clock knows of.
    pub(super) fn known_waits(clock: &Clock, warps: u32, time: u32) -> u32 {
        each(warps).filter(|warp| clock[WAITS + warp] >= time).fold(0, |all, warp| all | 1 << warp)
    }

    /// A barrier of these warps.
    pub(super) fn meet(&mut self, group: u32, warps: u32) {
        let all = self.known_to(warps);
        self.learn(warps, &all);
        self.of(group).all_mut().for_each(|event| event.passed = true);
    }

    /// Forgets accesses that all these warps know of.
    pub(super) fn forget(&mut self, warps: u32) {
        let mut least = vec![u32::MAX; self.clocks[0].len()];
        for warp in each(warps) {
            least.iter_mut().zip(&self.clocks[warp]).for_each(|(least, known)| *least = (*least).min(*known));
        }
        self.past.retain(|event| match event.fills {
            Some((ring, phase)) => i64::from(least[RINGS + ring as usize]) <= phase,
            None => each(event.warps).any(|warp| least[warp] < event.time),
        });
    }

    /// Does a thread know of an access by another?
    pub(super) fn knows(&self, thread: u32, of: &Event<'p>, by: u32) -> bool {
        let clock = &self.clocks[thread as usize / 32 % WARPS];
        match of.fills {
            Some((ring, phase)) => i64::from(clock[RINGS + ring as usize]) > phase,
            None => clock[by as usize / 32 % WARPS] >= of.time,
        }
    }

    /// Do all these warps know of an access by all threads that performed it?
    pub(super) fn all_know(&self, warps: u32, of: &Event<'p>) -> bool {
        each(warps).all(|warp| each(of.warps).all(|by| self.knows(warp as u32 * 32, of, by as u32 * 32)))
    }

    /// The state in which the other arm of a condition begins: numbers continue.
    pub(super) fn other_arm(self, first: &State<'p>) -> State<'p> {
        State { last: first.last, ..self }
    }

    /// The join of two arms of a condition: the facts after both. An access that only one arm has ordered is
    /// unordered after the other.
    pub(super) fn join(&mut self, first: State<'p>, arms: u64) {
        let numbers = |state: &State<'p>| state.in_flight().map(|event| event.number).collect::<Vec<_>>();
        let groups = |state: &State<'p>| {
            let count = |of: &InFlight<'p>| of.queues.each_ref().map(VecDeque::len);
            state.flights.values().map(count).filter(|count| *count != [0; 3]).collect::<Vec<_>>()
        };
        self.vague |= first.vague || groups(&first) != groups(self) || numbers(&first) != numbers(self);
        let only = |events: &mut [Event<'p>], known: &[Event<'p>], arm: u64| {
            for event in events.iter_mut().filter(|e| !known.iter().any(|k| k.number == e.number)) {
                event.under = match event.under {
                    Under::Always => Under::Arm(arm),
                    Under::Arm(same) if same == arm => event.under,
                    _ => Under::Mixed,
                };
            }
        };
        for (mine, other) in self.clocks.iter_mut().zip(&first.clocks) {
            mine.iter_mut().zip(other).for_each(|(mine, other)| *mine = (*mine).min(*other));
        }
        let (mut all, mut second) = (first.past, std::mem::take(&mut self.past));
        let known = all.clone();
        only(&mut all, &second, arms << 1);
        only(&mut second, &known, arms << 1 | 1);
        second.retain(|event| !known.iter().any(|k| k.number == event.number));
        all.extend(second);
        self.past = all;
    }
}

fn each(warps: u32) -> impl Iterator<Item = usize> {
    (0..WARPS).filter(move |warp| warps >> warp & 1 == 1)
}
