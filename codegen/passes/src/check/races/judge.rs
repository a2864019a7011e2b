//! Compares the accesses of a statement with unordered earlier accesses.

use super::event::{Event, Under};
use super::walk::Walk;
use crate::check::touch::{Clash, Footprint};
use crate::thread::Id;
use crate::tile::{Space, Stmt};

/// A pair of unordered accesses, and an element of both.
pub(super) struct Race<'p, 'e> {
    pub(super) past: Event<'p>,
    pub(super) now: &'e Event<'p>,
    pub(super) clash: Clash,
}

impl<'p> Walk<'p, '_> {
    /// Judges the accesses of a statement.
    pub(super) fn judge(&mut self, stmt: &'p Stmt, events: &[Event<'p>]) {
        self.unwritten(stmt, events);
        if self.meets_flights(stmt, events) || self.clashes_within(stmt, events) {
            return;
        }
        let mut races: Vec<Race<'p, '_>> = Vec::new();
        for now in events {
            for past in &self.state.past {
                let updates = past.atomic && now.atomic;
                if past.tensor != now.tensor || updates || !(past.writes || now.writes) {
                    continue;
                }
                if self.is_guarded(past) || self.is_guarded(now) {
                    continue;
                }
                if self.state.all_know(now.warps, past) {
                    // Other lanes of the warp know of it, too: a warp learns of its own accesses only by barriers.
                    continue;
                }
                let unordered = |by: u32, thread: u32| by != thread && !self.state.knows(thread, past, by);
                if let Some(clash) =
                    Footprint::clash(&past.footprint, &now.footprint, &mut self.maps, &unordered)
                {
                    races.push(Race { past: past.clone(), now, clash });
                    break;
                }
            }
        }
        let Some(first) = races.first() else { return };
        if !first.past.under.meets(first.now.under) {
            let name = &self.program.tensor(first.past.tensor).name;
            let text = format!("`{name}`: whether a barrier lies between accesses depends on a condition");
            self.findings.undecided(stmt.span, text);
        } else {
            let tensors: Vec<Id> = races.iter().map(|race| race.now.tensor).collect();
            self.unordered(first, &tensors);
        }
        // Continue as if it were ordered, so that one mistake is one error.
        self.state.past.clear();
    }

    /// A copy in flight is unordered: what it writes can be neither read nor overwritten. Is there such an access?
    fn meets_flights(&mut self, stmt: &'p Stmt, events: &[Event<'p>]) -> bool {
        let (mut caught, mut is_sure): (Vec<Event<'p>>, _) = (Vec::new(), true);
        for copy in self.state.flights.all() {
            for event in events {
                let meets = match event.tensor == copy.tensor {
                    true => Footprint::meet(&copy.footprint, &event.footprint, &mut self.maps).is_some(),
                    false => self.overlays(event.tensor, copy.tensor),
                };
                if meets {
                    is_sure &= !caught.is_empty() || copy.under.meets(event.under);
                    caught.push(copy.clone());
                }
            }
        }
        let Some(copy) = caught.first() else { return false };
        if self.state.vague || !is_sure {
            let name = &self.program.tensor(copy.tensor).name;
            let text = format!("`{name}`: whether its copy is still in flight depends on a condition");
            self.findings.undecided(stmt.span, text);
        } else {
            self.in_flight(stmt, &caught);
        }
        // Continue as if the wait were there.
        self.state.settle();
        true
    }

    /// Does a tensor reuse the memory of another?
    fn overlays(&self, one: Id, other: Id) -> bool {
        self.program.overlays.iter().any(|(over, dead)| *over == one && dead.contains(&other))
    }

    /// Is it an access to global memory under a condition? Blocks and sizes decide it, too.
    fn is_guarded(&self, event: &Event<'p>) -> bool {
        event.under != Under::Always
            && matches!(self.program.tensor(event.tensor).space, Space::Global { .. })
    }

    /// Do threads read elements that others write in the same statement, or write one element of global memory?
    fn clashes_within(&mut self, stmt: &'p Stmt, events: &[Event<'p>]) -> bool {
        for write in events.iter().filter(|event| event.writes && !self.is_guarded(event)) {
            let global = matches!(self.program.tensor(write.tensor).space, Space::Global { .. });
            if let Some(clash) = write.footprint.twice().filter(|_| global) {
                self.written_twice(stmt, write.tensor, clash);
                return true;
            }
        }
        for read in events.iter().filter(|event| !event.writes) {
            for write in events.iter().filter(|event| event.writes && event.tensor == read.tensor) {
                if self.is_guarded(write) {
                    continue;
                }
                let other = |x: u32, y: u32| x != y;
                if let Some(clash) =
                    Footprint::clash(&read.footprint, &write.footprint, &mut self.maps, &other)
                {
                    self.within(stmt, read.tensor, clash);
                    return true;
                }
            }
        }
        false
    }
}
