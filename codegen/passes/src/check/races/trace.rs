//! The order in which groups of threads execute statements: the first iterations of loops are unrolled, and members of
//! families and roles run separate programs.

use std::ops::Range;
use std::rc::Rc;

use crate::check::touch::Actors;
use crate::source::ast::Span;
use crate::thread::Id;
use crate::thread::index::gcd;
use crate::tile::view::View;
use crate::tile::visit::{of_elements, of_order, preorder};
use crate::tile::{LaunchRule, Op, Past, Program, Space, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

/// The most iterations of one loop that are walked.
const MOST_ITERATIONS: i64 = 16;

/// The most statements that are walked, each as often as its loops run: nested loops multiply.
const MOST_STATEMENTS: u32 = 20_000;

/// Tiles of a persistent kernel that each group walks.
const TILES: u32 = 2;

/// The facts at the execution of a statement.
#[derive(Clone)]
pub(in crate::check) struct Env {
    /// The values of loop variables.
    pub(super) vars: Vec<i64>,
    /// The warps that run this.
    pub(super) warps: Range<u32>,
}

impl Env {
    /// A number's value; an unknown number counts as 0.
    pub(in crate::check) fn value(&self, program: &Program, affine: &Affine) -> i64 {
        affine.eval(&|coord| match coord {
            Coord::Var(var) => self.vars[*var as usize],
            Coord::Member(group) => self.member(program, *group).unwrap_or(0).into(),
            _ => 0,
        })
    }

    /// The member of a family that all these warps belong to.
    pub(in crate::check) fn member(&self, program: &Program, family: Id) -> Option<u32> {
        members(program, family).position(|all| is_true(&all, &self.warps)).map(|at| at as u32)
    }
}

/// The warps of each member of a group.
pub(super) fn members(program: &Program, group: Id) -> impl Iterator<Item = Range<u32>> + use<> {
    let group = &program.groups[group as usize];
    let (first, end) = group.warps.unwrap_or((0, program.threads().div_ceil(32)));
    let each = ((end - first) / group.members.max(1)).max(1);
    (0..group.members.max(1)).map(move |member| first + member * each..first + (member + 1) * each)
}

/// The first thread of the member that contains these, or of the group where several do.
pub(in crate::check) fn first_of_member(program: &Program, actors: &Actors) -> u32 {
    let threads = |all: &Range<u32>| all.start * 32..all.end * 32;
    let mut all = members(program, actors.by).map(|member| threads(&member));
    all.find(|member| is_true(member, &actors.threads)).map_or(0, |member| member.start)
}

/// Does one range contain another?
pub(super) fn is_true(all: &Range<u32>, part: &Range<u32>) -> bool {
    all.start <= part.start && part.end <= all.end
}

/// One step of a group.
pub(super) enum Step<'p> {
    /// A statement without substatements.
    Do(&'p Stmt, Rc<Env>),
    /// One of two sequences, it is not known which; the number says which condition it is.
    Branch([Vec<Step<'p>>; 2], u64),
    /// These statements are not followed, for this reason.
    Leave(&'p [Stmt], &'static str),
    /// Groups that run at the same time. The pass that makes them also orders what one of them does before another.
    Fork(Vec<Role<'p>>),
}

/// A group, or a member of a family, with its steps.
pub(super) struct Role<'p> {
    pub(super) warps: Range<u32>,
    pub(super) steps: Vec<Step<'p>>,
}

/// Unrolls a program.
pub(super) struct Unroll<'p> {
    program: &'p Program,
    env: Env,
    /// The environment of the last step, if it has not changed since.
    shared: Option<Rc<Env>>,
    steps: Vec<Step<'p>>,
    /// Extents of loops that have been unrolled, and for how many iterations.
    walked: Vec<(Affine, i64, Id)>,
    /// Variables of tiles, whose values are not known.
    tiles: Vec<Id>,
    /// Inside of an arm of a condition.
    in_arm: bool,
    arms: u64,
    /// The most commit groups that a wait leaves in flight.
    pending: i64,
    count: u32,
    /// Undecided questions.
    pub(super) undecided: Vec<(Span, String)>,
}

impl<'p> Unroll<'p> {
    pub(super) fn new(program: &'p Program) -> Unroll<'p> {
        let warps = 0..program.threads().div_ceil(32);
        Unroll {
            program,
            env: Env { vars: vec![0; program.vars.len()], warps },
            shared: None,
            steps: Vec::new(),
            walked: Vec::new(),
            tiles: Vec::new(),
            in_arm: false,
            arms: 0,
            pending: most_pending(&program.body),
            count: 0,
            undecided: Vec::new(),
        }
    }

    /// The steps of the block.
    pub(super) fn block(&mut self) -> Role<'p> {
        self.statements(&self.program.body);
        if self.count > MOST_STATEMENTS {
            let why = "its loops go through too many statements to walk while compiling";
            self.steps.push(Step::Leave(&self.program.body, why));
        }
        Role { warps: self.env.warps.clone(), steps: std::mem::take(&mut self.steps) }
    }

    fn statements(&mut self, body: &'p [Stmt]) {
        for stmt in body {
            self.count = self.count.saturating_add(1);
            if self.count > MOST_STATEMENTS {
                return;
            }
            self.statement(stmt);
        }
    }

    fn statement(&mut self, stmt: &'p Stmt) {
        match &stmt.op {
            Op::For { ahead: Some(_), .. } => self.leave(std::slice::from_ref(stmt), "it is pipelined"),
            Op::For { var, body, .. } => self.repeat(stmt, *var, body),
            Op::Step { var, at, past, body } => {
                let extent = self.end(at, &self.program.vars[*var as usize].to);
                let at = self.value(at);
                let (at, runs) = match (past, extent) {
                    (Past::Anyway | Past::Inside, _) | (_, None) => (at, true),
                    (Past::Last, Some(extent)) => (at.min(extent.saturating_sub(1)), extent > 0),
                    (Past::Skip, Some(extent)) => (at, at < extent),
                };
                if runs {
                    self.set(*var, at);
                    self.statements(body);
                }
            }
            Op::If { test, then, other } => {
                if test.on_arguments().is_some() {
                    return self.branch([then, other], (std::ptr::from_ref(stmt) as u64) | 1 << 63);
                }
                if let Some(is_true) = self.is_true(test) {
                    return self.statements(if is_true { then } else { other });
                }
                if test.per_thread() {
                    let why =
                        "some threads access it and others do not, depending on data or on the thread index";
                    return self.leave(std::slice::from_ref(stmt), why);
                }
                self.arms += 2;
                self.branch([then, other], self.arms);
            }
            Op::Leave { .. } => {}
            Op::Roles(roles) => self.roles(stmt, roles),
            Op::Tiles { vars, body, .. } => self.tiles(vars, body),
            Op::Ordered { body, .. } => self.statements(body),
            of_elements!() | of_order!() => self.perform(stmt),
        }
    }

    fn perform(&mut self, stmt: &'p Stmt) {
        let env = self.shared.get_or_insert_with(|| Rc::new(self.env.clone()));
        self.steps.push(Step::Do(stmt, Rc::clone(env)));
    }

    fn leave(&mut self, body: &'p [Stmt], why: &'static str) {
        self.steps.push(Step::Leave(body, why));
    }

    fn set(&mut self, var: Id, value: i64) {
        self.env.vars[var as usize] = value;
        self.shared = None;
    }

    fn value(&self, affine: &Affine) -> i64 {
        self.env.value(self.program, affine)
    }

    /// A number's value, if it is known. A loop whose extent is not known is taken to end where its walk does.
    fn number(&self, of: &Affine) -> Option<i64> {
        if self.is_known(of) {
            return Some(self.value(of));
        }
        self.walked.iter().find(|(known, ..)| known == of).map(|(_, end, _)| *end)
    }

    /// The end of a range that a coordinate is compared with, if it is known: for a coordinate of a loop, the loop's own
    /// end is where its walk ends. Otherwise the last iterations of the walk would perform statements that the last
    /// iterations of the loop skip.
    fn end(&self, at: &Affine, to: &Affine) -> Option<i64> {
        let own =
            |(end, _, var): &&(Affine, i64, Id)| end == to && at.any(&|coord| *coord == Coord::Var(*var));
        self.walked.iter().find(own).map(|(_, end, _)| *end).or_else(|| self.number(to))
    }

    /// Is a condition true here?
    fn is_true(&self, test: &Test) -> Option<bool> {
        Some(match test {
            Test::Less(a, b) => self.number(a)? < self.end(a, b)?,
            Test::Equal(a, b) => self.number(a)? == self.number(b)?,
            Test::IsTrue(_) => return None,
            Test::Not(inner) => !self.is_true(inner)?,
            Test::Both(both) => self.is_true(&both[0])? && self.is_true(&both[1])?,
            Test::Either(both) => self.is_true(&both[0])? || self.is_true(&both[1])?,
        })
    }

    /// Is this number known here: made of loop variables and members alone?
    fn is_known(&self, affine: &Affine) -> bool {
        !affine.any(&|coord| match coord {
            Coord::Var(var) => self.tiles.contains(var),
            Coord::Member(group) => self.env.member(self.program, *group).is_none(),
            Coord::Submode { .. } | Coord::Two(..) => false,
            _ => true,
        })
    }

    /// Unrolls the first iterations of a loop: until slots and copies in flight repeat.
    fn repeat(&mut self, stmt: &'p Stmt, var: Id, body: &'p [Stmt]) {
        let period = self.period(body, var);
        let wanted = period.map_or(i64::MAX, |period| period.saturating_add(self.pending).saturating_add(1));
        let of = &self.program.vars[var as usize];
        // A loop whose start is not known is walked as if from 0.
        let first = if self.is_known(&of.from) { self.value(&of.from) } else { 0 };
        let count = self.is_known(&of.to).then(|| self.value(&of.to).saturating_sub(first).max(0));
        let iterations = count.unwrap_or(i64::MAX).min(wanted).min(MOST_ITERATIONS);
        if wanted > MOST_ITERATIONS && count.is_none_or(|count| count > iterations) {
            let name = &self.program.vars[var as usize].name;
            let text = format!(
                "races after the first {iterations} iterations of `{name}` are left to the simulator"
            );
            self.undecided.push((stmt.span, text));
        }
        self.walked.retain(|(known, ..)| *known != of.to);
        let end = first.saturating_add(iterations);
        self.walked.push((of.to.clone(), end, var));
        for iteration in first..end {
            if self.count > MOST_STATEMENTS {
                return;
            }
            self.set(var, iteration);
            self.statements(body);
        }
    }

    /// The period, in iterations, of the slots that a loop accesses in shared memory; `None` if it accesses other elements in each.
    fn period(&self, body: &[Stmt], var: Id) -> Option<i64> {
        let is_shared = |view: &&View| matches!(self.program.tensor(view.tensor).space, Space::Shared { .. });
        let varies = |of: &Affine| of.any(&|coord| *coord == Coord::Var(var));
        let bases = preorder(body).flat_map(Stmt::accesses).filter(is_shared).flat_map(|view| &view.base);
        bases.flat_map(|base| &base.terms).try_fold(1, |period, (coord, _)| match coord {
            Coord::Submode { of, over, extent } if varies(of) => {
                let count = over.checked_mul((*extent)?).filter(|count| *count > 0)?;
                Some(lcm(period, count))
            }
            Coord::Var(_) | Coord::Two(..) if varies(&coord.clone().into()) => None,
            _ => Some(period),
        })
    }

    fn branch(&mut self, arms: [&'p [Stmt]; 2], number: u64) {
        let (outer, before) = (std::mem::replace(&mut self.in_arm, true), self.env.clone());
        let both = arms.map(|arm| {
            let steps = std::mem::take(&mut self.steps);
            (self.env, self.shared) = (before.clone(), None);
            self.statements(arm);
            std::mem::replace(&mut self.steps, steps)
        });
        (self.in_arm, self.env, self.shared) = (outer, before, None);
        self.steps.push(Step::Branch(both, number));
    }

    /// Roles run at the same time, and so do the members of a family.
    fn roles(&mut self, stmt: &'p Stmt, roles: &'p [(Id, Vec<Stmt>)]) {
        if self.in_arm {
            return self
                .leave(std::slice::from_ref(stmt), "a condition says whether groups of threads share it");
        }
        let (outer, before) = (std::mem::take(&mut self.steps), self.env.clone());
        let mut all = Vec::new();
        for (group, body) in roles {
            let alone = self.program.is_of_one_warp(body);
            for warps in members(self.program, *group) {
                let warps = if alone { warps.start..warps.start + 1 } else { warps };
                (self.env, self.shared) = (Env { vars: before.vars.clone(), warps: warps.clone() }, None);
                self.statements(body);
                all.push(Role { warps, steps: std::mem::take(&mut self.steps) });
            }
        }
        (self.steps, self.env, self.shared) = (outer, before, None);
        self.steps.push(Step::Fork(all));
    }

    /// A block of a persistent kernel takes several tiles.
    fn tiles(&mut self, vars: &[Id], body: &'p [Stmt]) {
        let known = self.tiles.len();
        self.tiles.extend(vars);
        let tiles = if self.program.launch == LaunchRule::Persistent { TILES } else { 1 };
        (0..tiles).for_each(|_| self.statements(body));
        self.tiles.truncate(known);
    }
}

fn most_pending(body: &[Stmt]) -> i64 {
    let pending = preorder(body).filter_map(|stmt| match stmt.op {
        Op::Wait { but: left, .. } => Some(left.into()),
        _ => None,
    });
    pending.max().unwrap_or(0)
}

/// The least common multiple, at most the greatest number.
fn lcm(a: i64, b: i64) -> i64 {
    (a / gcd(a, b).max(1)).saturating_mul(b)
}
