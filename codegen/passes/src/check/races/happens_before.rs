//! The happens-before relation: for each warp, the events of others that it knows of, and the copies in flight.

use std::collections::VecDeque;

use super::event::{Event, Under};

/// Warps of a block.
const WARPS: usize = 32;

/// The copies that threads have started and not waited for.
#[derive(Clone, Default)]
pub(super) struct InFlight<'p> {
    /// Commit groups, oldest first.
    groups: VecDeque<Vec<Event<'p>>>,
    /// Copies that are not committed yet.
    pub(super) open: Vec<Event<'p>>,
}

impl<'p> InFlight<'p> {
    pub(super) fn all(&self) -> impl Iterator<Item = &Event<'p>> {
        self.groups.iter().flatten().chain(&self.open)
    }
}

/// The accesses so far, and their order.
#[derive(Clone)]
pub(super) struct State<'p> {
    /// Accesses that some warp does not know of.
    pub(super) past: Vec<Event<'p>>,
    /// The copies in flight.
    pub(super) flights: InFlight<'p>,
    /// The copies in flight are not known.
    pub(super) vague: bool,
    /// For each warp the last event of each warp that it knows of. A clock of the happens-before relation.
    clocks: Vec<Clock>,
    /// The number of the last event.
    last: u32,
}

/// The events that a warp knows of.
type Clock = [u32; WARPS];

/// Adds the events of a clock to those that are known.
fn join(known: &mut Clock, news: &Clock) {
    known.iter_mut().zip(news).for_each(|(known, news)| *known = (*known).max(*news));
}

impl<'p> State<'p> {
    pub(super) fn new() -> State<'p> {
        let clocks = vec![[0; WARPS]; WARPS];
        State { past: Vec::new(), flights: InFlight::default(), vague: false, clocks, last: 0 }
    }

    /// The number of the next event.
    pub(super) fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Commits the open group.
    pub(super) fn commit(&mut self) {
        let group = std::mem::take(&mut self.flights.open);
        self.flights.groups.push_back(group);
    }

    /// All but the last commit groups have completed: now their threads know it.
    pub(super) fn wait(&mut self, but: u32) {
        if !self.flights.open.is_empty() {
            self.commit();
        }
        let count = self.flights.groups.len().saturating_sub(but as usize);
        let time = self.next();
        let landed = self.flights.groups.drain(..count).flatten();
        self.past.extend(landed.map(|event| Event { time, ..event }));
    }

    /// No copy is in flight any more, and all warps know all.
    pub(super) fn settle(&mut self) {
        self.past.clear();
        self.flights = InFlight::default();
    }

    /// A barrier of these warps.
    pub(super) fn meet(&mut self, warps: u32) {
        let mut all = [0; WARPS];
        for warp in each(warps) {
            join(&mut all, &self.clocks[warp]);
            all[warp] = self.last;
        }
        each(warps).for_each(|warp| join(&mut self.clocks[warp], &all));
        let InFlight { groups, open } = &mut self.flights;
        groups.iter_mut().flatten().chain(open).for_each(|event| event.passed = true);
    }

    /// Forgets accesses that all these warps know of.
    pub(super) fn forget(&mut self, warps: u32) {
        let mut least = [u32::MAX; WARPS];
        for warp in each(warps) {
            least.iter_mut().zip(&self.clocks[warp]).for_each(|(least, known)| *least = (*least).min(*known));
        }
        self.past.retain(|event| each(event.warps).any(|warp| least[warp] < event.time));
    }

    /// Does a thread know of an access by another?
    pub(super) fn knows(&self, thread: u32, of: &Event<'p>, by: u32) -> bool {
        self.clocks[thread as usize / 32 % WARPS][by as usize / 32 % WARPS] >= of.time
    }

    /// Do all these warps know of an access by all threads that performed it?
    pub(super) fn all_know(&self, warps: u32, of: &Event<'p>) -> bool {
        each(warps).all(|warp| each(of.warps).all(|by| self.knows(warp as u32 * 32, of, by as u32 * 32)))
    }

    /// The state in which the other arm of a condition, or another role, begins: numbers continue.
    pub(super) fn after(self, first: &State<'p>) -> State<'p> {
        State { last: first.last, ..self }
    }

    /// The join of two arms of a condition: the facts after both. An access that only one arm has ordered is
    /// unordered after the other.
    pub(super) fn join(&mut self, first: State<'p>, arms: u64) {
        let flights = |state: &State<'p>| {
            let numbers: Vec<u32> = state.flights.all().map(|event| event.number).collect();
            (state.flights.groups.len(), numbers)
        };
        self.vague |= first.vague || flights(&first) != flights(self);
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
