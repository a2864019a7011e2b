//! Executes the steps of groups of threads, each until it has to wait for another.

use std::collections::{HashMap, HashSet};

use super::Findings;
use super::blame::Fault;
use super::event::{self, Completes, Event, Flights, Hold, Slot, Under, bits, commits, touches};
use super::happens_before::{Clock, Flight, State, join};
use super::trace::{Env, Role, Step};
use crate::check::touch::Maps;
use crate::source::ast::Span;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Across, Op, Program, Space, Stmt};
use crate::view_elements::Budget;

/// The walk of a program.
pub(super) struct Walk<'p, 'b> {
    pub(super) program: &'p Program,
    pub(super) maps: Maps<'p, 'b>,
    pub(super) state: State<'p>,
    /// Tensors that are left to the simulator.
    given_up: Vec<bool>,
    /// Tensors in global memory whose accesses are judged.
    global: Vec<bool>,
    /// Tensors that some statement writes.
    pub(super) written: Vec<bool>,
    /// Statements that have been reported.
    pub(super) reported: Vec<(*const Stmt, Fault)>,
    pub(super) findings: Findings,
    under: Under,
    /// Full slots, by ring and phase: the clock of the warps that filled them.
    full: HashMap<(Id, i64), Clock>,
    /// Phases that their producer has passed.
    passed: HashSet<(Id, i64)>,
    /// Free slots, by ring and phase: the warps that have released them, and their clock.
    free: HashMap<(Id, i64), (u32, Clock)>,
    /// The warps that have waited for a phase.
    waiters: HashMap<PhaseOf, Vec<Waiter<'p>>>,
    /// Barriers of groups that have different roles, by group and member.
    meetings: HashMap<(Id, usize), Meeting>,
    /// Entries of ordered sections that have been left, and the clock of their group.
    left: HashMap<(Id, u32), Clock>,
    /// No group can continue.
    stuck: bool,
}

/// The mbarriers of a ring's slots: of full or of free slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Full,
    Free,
}

/// A phase of a ring's mbarriers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PhaseOf {
    end: End,
    ring: Id,
    phase: i64,
}

/// Warps that have waited for a slot.
struct Waiter<'p> {
    stmt: &'p Stmt,
    warps: u32,
    time: u32,
}

/// A barrier at which groups with different roles meet.
#[derive(Default)]
struct Meeting {
    /// How often all have met.
    times: u32,
    arrived: u32,
    clock: Clock,
    /// The events that all knew of together when they last met.
    last: Clock,
}

/// A group that runs.
pub(super) struct Running<'p> {
    role: Role<'p>,
    at: usize,
    warps: u32,
    /// Slots of rings that it has waited for, by ring and slot.
    slots_now: HashMap<(Id, i64), Hold>,
    /// Barriers at which it has arrived: when it can continue.
    arrived: Vec<((Id, usize), u32)>,
}

impl<'p> Running<'p> {
    fn new(role: Role<'p>) -> Running<'p> {
        let warps = bits(&role.warps);
        Running { role, at: 0, warps, slots_now: HashMap::new(), arrived: Vec::new() }
    }

    pub(super) fn first(&self) -> u32 {
        self.role.warps.start
    }
}

impl<'p, 'b> Walk<'p, 'b> {
    pub(super) fn new(program: &'p Program, global: Vec<bool>, budget: &'b mut Budget) -> Walk<'p, 'b> {
        let mut written = vec![false; program.tensors.len()];
        for stmt in preorder(&program.body) {
            stmt.writes().into_iter().for_each(|view| written[view.tensor as usize] = true);
            if let Op::Publish { ring, .. } = &stmt.op {
                let buffers = &program.rings[*ring as usize].buffers;
                buffers.iter().for_each(|id| written[*id as usize] = true);
            }
        }
        Walk {
            program,
            maps: Maps::new(program, budget),
            state: State::new(program.rings.len()),
            given_up: vec![false; program.tensors.len()],
            global,
            written,
            reported: Vec::new(),
            findings: Findings::default(),
            under: Under::Always,
            full: HashMap::new(),
            passed: HashSet::new(),
            free: HashMap::new(),
            waiters: HashMap::new(),
            meetings: HashMap::new(),
            left: HashMap::new(),
            stuck: false,
        }
    }

    /// Runs groups concurrently, until all are done or no group can continue: with only the first iterations of loops, one
    /// group may hand over fewer slots than another waits for.
    pub(super) fn run(&mut self, roles: Vec<Role<'p>>) {
        let mut all: Vec<Running<'p>> = roles.into_iter().map(Running::new).collect();
        let live = all.iter().fold(0, |live, group| live | group.warps);
        let mut hurry = false;
        while !self.stuck {
            let (mut moved, mut done) = (false, true);
            for group in &mut all {
                while !self.stuck && group.at < group.role.steps.len() {
                    let mut steps = std::mem::take(&mut group.role.steps);
                    let goes_on = self.step(&mut steps[group.at], group, live, hurry);
                    group.role.steps = steps;
                    if !goes_on {
                        done = false;
                        break;
                    }
                    group.at += 1;
                    moved = true;
                }
            }
            if done {
                return;
            }
            self.stuck = !moved && hurry;
            hurry = !moved;
        }
        // Who waits for a free slot may wait for a group that waits for a full one.
        if !all.iter().any(|group| self.waits_forever(group, true)) {
            all.iter().for_each(|group| _ = self.waits_forever(group, false));
        }
    }

    /// Reports a group that waits for a slot that no other group ever fills or frees.
    fn waits_forever(&mut self, group: &Running<'p>, full: bool) -> bool {
        let Some(Step::Do(stmt, _)) = group.role.steps.get(group.at) else { return false };
        let (ring, never) = match (&stmt.op, full) {
            (Op::Await { ring, .. }, true) => (*ring, !self.full.keys().any(|(of, _)| of == ring)),
            (Op::Acquire { ring, .. }, false) => (*ring, !self.free.keys().any(|(of, _)| of == ring)),
            _ => return false,
        };
        let followed = |id: &Id| !self.given_up[*id as usize];
        let reports = never && self.program.rings[ring as usize].buffers.iter().all(followed);
        if reports {
            self.deadlock(stmt, ring);
        }
        reports
    }

    /// Executes a step; `false` if the group has to wait.
    fn step(&mut self, step: &mut Step<'p>, group: &mut Running<'p>, live: u32, hurry: bool) -> bool {
        match step {
            Step::Do(stmt, env) => return self.perform(stmt, env, group, live, hurry),
            Step::Branch(arms, number) => {
                let (before, outer) = (self.state.clone(), self.under);
                self.under = Under::Arm(*number << 1);
                self.arm(&mut arms[0], group, live);
                let other = before.other_arm(&self.state);
                let after = std::mem::replace(&mut self.state, other);
                self.under = Under::Arm(*number << 1 | 1);
                self.arm(&mut arms[1], group, live);
                self.under = outer;
                self.state.join(after, *number);
            }
            Step::Leave(body, why) => self.leave(body, why),
            Step::Fork(roles) => self.run(std::mem::take(roles)),
            Step::Ordered(order, entry, true) => {
                if *entry > 0 {
                    let Some(clock) = self.left.get(&(*order, *entry - 1)) else { return false };
                    self.state.learn(group.warps, clock);
                }
            }
            Step::Ordered(order, entry, false) => {
                self.left.insert((*order, *entry), self.state.known_to(group.warps));
            }
        }
        true
    }

    /// Executes an arm of a condition, in which nobody waits for other groups.
    fn arm(&mut self, steps: &mut [Step<'p>], group: &mut Running<'p>, live: u32) {
        for step in steps {
            self.step(step, group, live, true);
        }
    }

    fn perform(
        &mut self,
        stmt: &'p Stmt,
        env: &Env,
        group: &mut Running<'p>,
        live: u32,
        hurry: bool,
    ) -> bool {
        let first = group.first();
        match &stmt.op {
            _ if stmt.is_barrier() => return self.meet(stmt, group, live),
            // A group that has to wait comes here again.
            Op::Fold { .. } | Op::Scan { .. } if !group.arrived.is_empty() => {
                return self.meet(stmt, group, live);
            }
            Op::Fold { across, .. } => {
                self.access(stmt, env, group);
                // A block-wide reduction has a barrier inside. It orders accesses here, although users should not rely
                // on it.
                if matches!(across, Across::Block | Across::Cluster(_) | Across::Blocks(2..)) {
                    return self.meet(stmt, group, live);
                }
            }
            Op::Scan { how, .. } => {
                self.access(stmt, env, group);
                if how.across().contains(&Across::Block) || how.blocks().is_some() {
                    return self.meet(stmt, group, live);
                }
            }
            Op::CommitCopies => self.state.commit(first, Flights::Copies, None),
            Op::Wait { token: None, but } => {
                if !self.state.of(first).open.is_empty() {
                    self.state.commit(first, Flights::Copies, None);
                }
                let count = self.state.of(first).queue(Flights::Copies).len();
                self.state.land(first, Flights::Copies, count.saturating_sub(*but as usize));
            }
            Op::Wait { token: Some(token), but } => self.land(first, *token, *but),
            Op::Acquire { ring, phase } => {
                let (phase, slots) = (env.value(self.program, phase), self.slots(*ring));
                let warps = self.warps(stmt, env);
                if phase >= slots {
                    let Some(clock) = self.released(*ring, phase - slots) else { return false };
                    self.in_time(PhaseOf { end: End::Free, ring: *ring, phase: phase - slots }, &clock);
                    self.state.learn(warps, &clock);
                }
                self.waits(PhaseOf { end: End::Free, ring: *ring, phase }, stmt, warps);
                group.slots_now.insert((*ring, phase.rem_euclid(slots)), Hold::Now);
            }
            Op::Publish { ring, phase, bytes } => {
                let phase = env.value(self.program, phase);
                let warps = self.warps(stmt, env);
                // One elected thread arrives for bulk copies: the arrival orders the events that this thread knew of.
                let news = match bytes {
                    Some(_) => self.state.clock(warps.trailing_zeros()),
                    None => self.state.known_to(warps),
                };
                let known = self.full.entry((*ring, phase)).or_insert_with(|| news.clone());
                join(known, &news);
                if bytes.is_none() {
                    group.slots_now.insert((*ring, phase.rem_euclid(self.slots(*ring))), Hold::NoLonger);
                }
            }
            Op::Await { ring, phase } => {
                let phase = env.value(self.program, phase);
                // Its producer may still issue copies into the slot: they complete before this does.
                let ready = hurry || self.passed.contains(&(*ring, phase));
                let clock = self.full.get(&(*ring, phase)).filter(|_| ready).cloned();
                let (Some(clock), slots) = (clock, self.slots(*ring)) else { return false };
                let warps = self.warps(stmt, env);
                self.in_time(PhaseOf { end: End::Full, ring: *ring, phase: phase - slots }, &clock);
                self.waits(PhaseOf { end: End::Full, ring: *ring, phase }, stmt, warps);
                self.state.learn(warps, &clock);
                self.state.learn_full(warps, *ring, phase);
                group.slots_now.insert((*ring, phase.rem_euclid(self.slots(*ring))), Hold::Now);
            }
            Op::Release { ring, phase } => {
                let phase = env.value(self.program, phase);
                let slot = phase.rem_euclid(self.slots(*ring));
                self.release(stmt, group, (*ring, slot));
                let warps = self.warps(stmt, env);
                let news = self.state.known_to(warps);
                let (by, known) = self.free.entry((*ring, phase)).or_insert_with(|| (0, vec![0; news.len()]));
                *by |= warps;
                join(known, &news);
                group.slots_now.insert((*ring, slot), Hold::NoLonger);
            }
            Op::Advance { ring } => {
                let phase = env.phases[*ring as usize];
                if self.program.rings[*ring as usize].from == group.role.group {
                    self.passed.insert((*ring, phase));
                    group.slots_now.remove(&(*ring, phase.rem_euclid(self.slots(*ring))));
                }
            }
            _ => self.access(stmt, env, group),
        }
        true
    }

    /// Completes the operations of a token, except for the last ones. Operations of a queue complete in the order in which
    /// they were committed.
    fn land(&mut self, warp: u32, token: Id, but: u32) {
        for which in [Flights::Copies, Flights::Products, Flights::Stores] {
            let queue = self.state.of(warp).queue(which).iter().enumerate().rev();
            let mine = queue.filter(|(_, flight)| flight.token == Some(token));
            let last = mine.map(|(at, _)| at + 1).nth(but as usize);
            self.state.land(warp, which, last.unwrap_or(0));
        }
    }

    /// These warps have waited for a phase.
    fn waits(&mut self, of: PhaseOf, stmt: &'p Stmt, warps: u32) {
        let time = self.state.waited(warps);
        self.waiters.entry(of).or_default().push(Waiter { stmt, warps, time });
    }

    /// A wait tests only the parity of a phase, so it must return before the next phase of the same mbarrier completes:
    /// the thread that completes that phase must know that all warps have waited, not only the first warp.
    fn in_time(&mut self, of: PhaseOf, known: &Clock) {
        let waiters = self.waiters.remove(&of).unwrap_or_default();
        for Waiter { stmt, warps, time } in waiters {
            let known = State::known_waits(known, warps, time);
            if known != 0 && known != warps {
                self.late(stmt, of.ring);
            }
        }
    }

    fn slots(&self, ring: Id) -> i64 {
        self.program.rings[ring as usize].slots.max(1).into()
    }

    /// The warps that execute a statement.
    fn warps(&self, stmt: &Stmt, env: &Env) -> u32 {
        event::members(self.program, stmt.by, env).iter().fold(0, |all, member| all | bits(member))
    }

    /// The events that consumers knew of when all of them had released a slot.
    fn released(&self, ring: Id, phase: i64) -> Option<Clock> {
        let (by, clock) = self.free.get(&(ring, phase))?;
        let to = self.program.rings[ring as usize].to;
        let mut members = super::trace::members(self.program, to).map(|member| bits(&member));
        members.any(|member| by & member == member).then(|| clock.clone())
    }

    /// The barrier of a group, or of each member of a family; `false` while others are missing.
    fn meet(&mut self, stmt: &Stmt, group: &mut Running<'p>, live: u32) -> bool {
        if group.arrived.is_empty() {
            for (member, warps) in super::trace::members(self.program, stmt.by).enumerate() {
                let (all, here) = (bits(&warps), bits(&warps) & group.warps);
                let rest = all & live & !group.warps;
                match here {
                    0 => {}
                    // Warps without a role have none to wait for.
                    _ if rest == 0 => self.state.meet(group.first(), here),
                    _ => {
                        let news = self.state.known_to(here);
                        let meeting = self.meetings.entry((stmt.by, member)).or_default();
                        group.arrived.push(((stmt.by, member), meeting.times));
                        meeting.clock.resize(news.len(), 0);
                        join(&mut meeting.clock, &news);
                        meeting.arrived |= here;
                        if all & live & !meeting.arrived == 0 {
                            meeting.last = std::mem::take(&mut meeting.clock);
                            (meeting.times, meeting.arrived) = (meeting.times + 1, 0);
                        }
                    }
                }
            }
        }
        if group.arrived.iter().any(|(of, times)| self.meetings[of].times == *times) {
            return false;
        }
        for (of, _) in std::mem::take(&mut group.arrived) {
            let members: Vec<_> = super::trace::members(self.program, of.0).collect();
            self.state.learn(bits(&members[of.1]) & group.warps, &self.meetings[&of].last);
        }
        self.state.forget(live);
        true
    }

    /// Leaves the tensors that these statements touch to the simulator.
    fn leave(&mut self, body: &'p [Stmt], why: &str) {
        for id in 0..self.program.tensors.len() as Id {
            if let Some(span) = first_touch(self.program, body, id) {
                self.give_up(id, span, why);
            }
        }
        // These statements may start or wait for copies.
        self.state.vague |= !body.is_empty();
    }

    fn give_up(&mut self, tensor: Id, span: Span, why: &str) {
        let of = self.program.tensor(tensor);
        let known = std::mem::replace(&mut self.given_up[tensor as usize], true);
        if matches!(of.space, Space::Shared { .. }) && !known {
            self.findings
                .undecided(span, format!("`{}`: {why}; its order is left to the simulator", of.name));
        }
    }

    fn access(&mut self, stmt: &'p Stmt, env: &Env, group: &mut Running<'p>) {
        let mut events = Vec::new();
        let actors = event::actors(self.program, stmt, env);
        for touch in touches(self.program, stmt, &self.global) {
            let (view, tensor) = (touch.view, touch.view.tensor);
            if view.peer.is_some() {
                self.give_up(tensor, stmt.span, "other blocks of the cluster reach it");
            }
            if self.given_up[tensor as usize] {
                continue;
            }
            match self.maps.footprint(view, env, &actors) {
                Ok(footprint) => {
                    let number = self.state.next();
                    let slot = event::slot(self.program, view, env).map(|(ring, at)| {
                        let hold = group.slots_now.get(&(ring, at)).copied().unwrap_or(Hold::NotYet);
                        Slot { ring, at, hold }
                    });
                    let fills = slot.filter(|_| touch.completes == Completes::WithSlot).map(|slot| {
                        let (next, slots) = (env.phases[slot.ring as usize], self.slots(slot.ring));
                        (slot.ring, next + (slot.at - next).rem_euclid(slots))
                    });
                    let event = Event {
                        number,
                        time: number,
                        stmt,
                        tensor,
                        footprint,
                        writes: touch.writes,
                        atomic: touch.atomic,
                        under: self.under,
                        passed: false,
                        group: group.role.group,
                        first: group.first(),
                        warps: self.warps(stmt, env),
                        fills,
                        slot,
                    };
                    events.push((event, touch.completes));
                }
                Err(why) => {
                    self.give_up(tensor, stmt.span, why);
                    self.state.past.retain(|event| event.tensor != tensor);
                }
            }
        }
        self.judge(stmt, &events);
        let (queued, done): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|(_, completes)| matches!(completes, Completes::Queued(_)));
        self.state.past.extend(done.into_iter().map(|(event, _)| event));
        let queued = queued.into_iter().map(|(event, _)| event);
        let flying = self.state.of(group.first());
        match commits(stmt) {
            None => flying.open.extend(queued),
            Some((Flights::Copies, token)) => {
                flying.open.extend(queued);
                self.state.commit(group.first(), Flights::Copies, Some(token));
            }
            Some((which, token)) => {
                flying.queue(which).push_back(Flight { all: queued.collect(), token: Some(token) });
            }
        }
    }
}

/// The first access of these statements to a tensor.
fn first_touch(program: &Program, body: &[Stmt], tensor: Id) -> Option<Span> {
    let uses = |stmt: &&Stmt| {
        let ring = stmt.ring().filter(|_| !matches!(stmt.op, Op::Advance { .. }));
        ring.is_some_and(|ring| program.rings[ring as usize].buffers.contains(&tensor))
            || stmt.accesses().any(|view| view.tensor == tensor)
    };
    preorder(body).find(uses).map(|stmt| stmt.span)
}
