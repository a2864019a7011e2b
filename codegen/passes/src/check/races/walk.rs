//! Executes the steps of the block, and of groups of threads with roles one after another.

use super::Findings;
use super::blame::Fault;
use super::event::{self, Event, Under, bits, touches};
use super::happens_before::State;
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
}

impl<'p, 'b> Walk<'p, 'b> {
    /// Slots of rings are left to the simulator: the pass that makes the groups hands them on.
    pub(super) fn new(program: &'p Program, global: Vec<bool>, budget: &'b mut Budget) -> Walk<'p, 'b> {
        let (mut written, mut given_up) =
            (vec![false; program.tensors.len()], vec![false; program.tensors.len()]);
        for stmt in preorder(&program.body) {
            stmt.writes().into_iter().for_each(|view| written[view.tensor as usize] = true);
        }
        let buffers = program.rings.iter().flat_map(|ring| &ring.buffers);
        buffers.for_each(|id| given_up[*id as usize] = true);
        Walk {
            program,
            maps: Maps::new(program, budget),
            state: State::new(),
            given_up,
            global,
            written,
            reported: Vec::new(),
            findings: Findings::default(),
            under: Under::Always,
        }
    }

    /// Executes the steps of a group.
    pub(super) fn run(&mut self, role: &Role<'p>) {
        self.steps(&role.steps, bits(&role.warps));
    }

    fn steps(&mut self, steps: &[Step<'p>], live: u32) {
        steps.iter().for_each(|step| self.step(step, live));
    }

    /// Executes a step. `live`: the warps that run it, one bit each.
    fn step(&mut self, step: &Step<'p>, live: u32) {
        match step {
            Step::Do(stmt, env) => self.perform(stmt, env, live),
            Step::Branch(arms, number) => {
                let (before, outer) = (self.state.clone(), self.under);
                self.under = Under::Arm(*number << 1);
                self.steps(&arms[0], live);
                let other = before.after(&self.state);
                let first = std::mem::replace(&mut self.state, other);
                self.under = Under::Arm(*number << 1 | 1);
                self.steps(&arms[1], live);
                self.under = outer;
                self.state.join(first, *number);
            }
            Step::Leave(body, why) => self.leave(body, why),
            Step::Fork(roles) => {
                let before = self.state.clone();
                for role in roles {
                    self.state = before.clone().after(&self.state);
                    self.run(role);
                }
                self.state.settle();
            }
        }
    }

    fn perform(&mut self, stmt: &'p Stmt, env: &Env, live: u32) {
        if !stmt.is_barrier() {
            self.access(stmt, env);
        }
        match &stmt.op {
            _ if stmt.is_barrier() => self.meet(stmt, live),
            // A block-wide reduction has a barrier inside. It orders accesses here, although users should not rely on it.
            Op::Fold { across: Across::Block | Across::Cluster(_) | Across::Blocks(2..), .. } => {
                self.meet(stmt, live);
            }
            Op::Scan { how, .. } if how.across().contains(&Across::Block) || how.blocks().is_some() => {
                self.meet(stmt, live);
            }
            Op::CommitCopies => self.state.commit(),
            Op::Wait { token: None, but } => self.state.wait(*but),
            _ => {}
        }
    }

    /// The barrier of a group, or of each member of a family.
    fn meet(&mut self, stmt: &Stmt, live: u32) {
        for warps in super::trace::members(self.program, stmt.by) {
            self.state.meet(bits(&warps) & live);
        }
        self.state.forget(live);
    }

    /// Leaves the tensors that these statements touch to the simulator.
    fn leave(&mut self, body: &'p [Stmt], why: &str) {
        for id in 0..self.program.tensors.len() as Id {
            if let Some(span) = first_touch(body, id) {
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

    fn access(&mut self, stmt: &'p Stmt, env: &Env) {
        let (mut events, mut in_flight) = (Vec::new(), Vec::new());
        let actors = event::actors(self.program, stmt, env);
        let warps =
            event::members(self.program, stmt.by, env).iter().fold(0, |all, member| all | bits(member));
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
                        warps,
                    };
                    events.push(event);
                    in_flight.push(touch.in_flight);
                }
                Err(why) => {
                    self.give_up(tensor, stmt.span, why);
                    self.state.past.retain(|event| event.tensor != tensor);
                }
            }
        }
        self.judge(stmt, &events);
        for (event, in_flight) in events.into_iter().zip(in_flight) {
            let to = if in_flight { &mut self.state.flights.open } else { &mut self.state.past };
            to.push(event);
        }
    }
}

/// The first access of these statements to a tensor.
fn first_touch(body: &[Stmt], tensor: Id) -> Option<Span> {
    let uses = |stmt: &&Stmt| stmt.accesses().any(|view| view.tensor == tensor);
    preorder(body).find(uses).map(|stmt| stmt.span)
}
