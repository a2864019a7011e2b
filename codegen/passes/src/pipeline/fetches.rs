//! The fetches of a pipelined loop: the statements of its body that only copy, which run iterations ahead of the others.
//!
//! Each iteration has its own slot. A tile that is copied only in some iterations is fetched ahead only if it is read under
//! the same condition. Otherwise an iteration could need elements that an earlier iteration has copied to another slot, so the
//! copy remains with the statements of its iteration. The same is true of several copies to the same elements.

use std::collections::BTreeSet;

use tilewright_layout::Value;

use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Ahead, How, Op, Program, Space, Stmt};
use crate::values::affine::Coord;
use crate::values::condition::Test;

/// Where a pipelined loop's copies come from and go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Tiles, from global to shared memory.
    Tiles,
    /// Fragments, from shared memory to registers.
    Fragments,
}

impl Level {
    /// Does a copy fetch that?
    fn takes(self, program: &Program, [from, to]: [&View; 2], how: &How) -> bool {
        match (self, program.tensor(from.tensor).space, program.tensor(to.tensor).space) {
            (Level::Tiles, Space::Global { .. }, Space::Shared { .. }) => {
                matches!(how, How::Derive | How::Async | How::Staged)
            }
            (Level::Fragments, Space::Shared { .. }, Space::Registers { .. }) => {
                !matches!(how, How::Async | How::Staged)
            }
            _ => false,
        }
    }

    /// Does this statement only copy tiles or fragments that a loop of this level fetches?
    fn only_copies(self, program: &Program, stmt: &Stmt) -> bool {
        match &stmt.op {
            Op::Copy { from, to, how, token: None, .. } => self.takes(program, [from, to], how),
            Op::For { ahead: None, .. } | Op::If { .. } => {
                let mut inner = stmt.bodies().into_iter().flatten().peekable();
                inner.peek().is_some() && inner.all(|stmt| self.only_copies(program, stmt))
            }
            _ => false,
        }
    }
}

/// Is it an asynchronous copy from global to shared memory, in flight until a wait?
pub(crate) fn is_in_flight(program: &Program, stmt: &Stmt) -> bool {
    matches!(stmt.op, Op::Copy { .. }) && Level::Tiles.only_copies(program, stmt)
}

/// The copies that a loop fetches ahead.
pub(crate) struct Fetches<'p> {
    pub(super) program: &'p Program,
    pub(super) level: Level,
    /// Tensors whose copies stay with the statements of their iteration.
    apart: BTreeSet<Id>,
}

impl<'p> Fetches<'p> {
    /// The copies of a loop's body: tiles, unless it copies none.
    pub(crate) fn of(program: &'p Program, var: Id, ahead: &Ahead, body: &[Stmt]) -> Fetches<'p> {
        let copies = |level: Level| body.iter().any(|stmt| level.only_copies(program, stmt));
        let level = match !copies(Level::Tiles) && copies(Level::Fragments) {
            true => Level::Fragments,
            false => Level::Tiles,
        };
        let mut fetches = Fetches { program, level, apart: BTreeSet::new() };
        fetches.apart = fetches.copied_again(body);
        // A single slot still has the elements of an earlier iteration's copy.
        if ahead.stages > 1 {
            fetches.apart.extend(fetches.read_elsewhere(var, body));
        }
        fetches
    }

    /// Is a statement of the body fetched ahead?
    pub(super) fn takes(&self, stmt: &Stmt) -> bool {
        let mut written = stmt.preorder().flat_map(Stmt::writes);
        !written.any(|to| self.apart.contains(&to.tensor)) && self.level.only_copies(self.program, stmt)
    }

    /// The tensors that statements fetch.
    pub(crate) fn tensors(&self, body: &[Stmt]) -> Vec<Id> {
        let taken = body.iter().filter(|stmt| self.takes(stmt)).flat_map(Stmt::preorder);
        taken.flat_map(Stmt::writes).map(|to| to.tensor).collect()
    }

    /// May other copies of the body be in flight?
    pub(super) fn others_in_flight(&self, body: &[Stmt]) -> bool {
        let mut others = body.iter().filter(|stmt| !self.takes(stmt)).flat_map(Stmt::preorder);
        others.any(|stmt| is_in_flight(self.program, stmt))
    }

    /// The error where it fetches no tile.
    pub(super) fn none(&self, body: &[Stmt]) -> Problem {
        let in_flight = preorder(body).filter(|stmt| is_in_flight(self.program, stmt));
        let Some(id) = in_flight.flat_map(Stmt::writes).map(|to| to.tensor).next() else {
            let problem = Problem::new("this pipelined loop copies nothing from global to shared memory");
            return problem.help("write a plain loop, or copy its tiles in its body");
        };
        Problem::new(format!(
            "this pipelined loop does not copy `{}` exactly once in each iteration, so no copy can run ahead",
            self.program.tensor(id).name
        ))
        .help("copy it once in each iteration, read it under the condition under which it is copied, or write a plain loop")
    }

    /// The statements that only copy.
    fn copies<'s>(&self, body: &'s [Stmt]) -> impl Iterator<Item = &'s Stmt> {
        body.iter().filter(|stmt| self.level.only_copies(self.program, stmt))
    }

    /// The tensors whose elements an iteration copies twice. Copies in flight have no order.
    fn copied_again(&self, body: &[Stmt]) -> BTreeSet<Id> {
        let mut again = Again { program: self.program, loops: Vec::new(), tensors: BTreeSet::new() };
        again.body(self.copies(body), &mut Vec::new());
        again.tensors
    }

    /// The tensors that are copied under a condition which differs from iteration to iteration, and read without it.
    fn read_elsewhere(&self, var: Id, body: &[Stmt]) -> BTreeSet<Id> {
        let (mut copied, mut read) = (Vec::new(), Vec::new());
        let own = Own::of(self.program, var, body);
        for stmt in body {
            match self.level.only_copies(self.program, stmt) {
                true => own.accesses(stmt, &mut Vec::new(), &mut |stmt, path| {
                    let varies = path.iter().filter(|test| own.differs(test)).cloned();
                    let varies: Vec<Test> = varies.collect();
                    copied.extend(stmt.writes().into_iter().map(|to| (to, varies.clone())));
                }),
                false => own.accesses(stmt, &mut Vec::new(), &mut |stmt, path| {
                    read.extend(stmt.reads().into_iter().map(|from| (from.tensor, path.to_vec())));
                }),
            }
        }
        let always: Vec<&View> = self.copies(body).flat_map(|stmt| self.always(stmt)).collect();
        let elsewhere = |(to, tests): &(&View, Vec<Test>)| {
            let mut reads = read.iter().filter(|(from, _)| *from == to.tensor);
            !always.contains(to) && reads.any(|(_, path)| tests.iter().any(|test| !path.contains(test)))
        };
        copied.iter().filter(|copy| elsewhere(copy)).map(|(to, _)| to.tensor).collect()
    }

    /// The tensors that a statement copies on every path.
    fn always<'s>(&self, stmt: &'s Stmt) -> Vec<&'s View> {
        let all = |body: &'s [Stmt]| body.iter().flat_map(|stmt| self.always(stmt)).collect::<Vec<_>>();
        match &stmt.op {
            Op::If { then, other, .. } => {
                let other = all(other);
                all(then).into_iter().filter(|to| other.contains(to)).collect()
            }
            Op::For { var, body, .. } if self.program.runs(*var) => all(body),
            Op::For { .. } => Vec::new(),
            _ => stmt.writes(),
        }
    }
}

/// Finds two copies to the same elements.
struct Again<'p> {
    program: &'p Program,
    /// The loops around a statement.
    loops: Vec<Id>,
    tensors: BTreeSet<Id>,
}

impl<'s> Again<'_> {
    /// Adds to the tensors copied on the path to a statement.
    fn body(&mut self, body: impl Iterator<Item = &'s Stmt>, known: &mut Vec<&'s View>) {
        for stmt in body {
            match &stmt.op {
                Op::If { then, other, .. } => {
                    let mut here = known.clone();
                    self.body(then.iter(), known);
                    self.body(other.iter(), &mut here);
                    known.append(&mut here);
                }
                Op::For { var, body, .. } => {
                    self.loops.push(*var);
                    self.body(body.iter(), known);
                    self.loops.pop();
                }
                _ => {
                    for to in stmt.writes() {
                        if known.contains(&to) || self.loops.iter().any(|var| self.is_in_each(to, *var)) {
                            self.tensors.insert(to.tensor);
                        }
                        known.push(to);
                    }
                }
            }
        }
    }

    /// Is it the same in several iterations of a loop?
    fn is_in_each(&self, to: &View, var: Id) -> bool {
        let is_var = |coord: &Coord| *coord == Coord::Var(var);
        let once = matches!(self.program.vars[var as usize].extent(), Some(Value::Int(1)));
        !once && !to.base.iter().any(|at| at.any(&is_var))
    }
}

/// Numbers that may differ from iteration to iteration of a loop.
struct Own<'p> {
    program: &'p Program,
    /// Its variable.
    var: Id,
    /// Loops in its body.
    inner: BTreeSet<Id>,
    /// Integers that its body reads.
    read: BTreeSet<Id>,
}

impl Own<'_> {
    fn of<'p>(program: &'p Program, var: Id, body: &[Stmt]) -> Own<'p> {
        let (mut inner, mut read) = (BTreeSet::new(), BTreeSet::new());
        for stmt in preorder(body) {
            match stmt.op {
                Op::For { var, .. } => drop(inner.insert(var)),
                Op::Take { number, .. } => drop(read.insert(number)),
                _ => {}
            }
        }
        Own { program, var, inner, read }
    }

    fn differs(&self, test: &Test) -> bool {
        let mut differs = false;
        let own = |coord: &Coord| match coord {
            Coord::Loaded { number, .. } => self.read.contains(number),
            Coord::Var(var) if self.inner.contains(var) => {
                let var = &self.program.vars[*var as usize];
                self.differs(&Test::Less(var.from.clone(), var.to.clone()))
            }
            Coord::Var(var) => *var == self.var,
            _ => false,
        };
        test.clone().each_mut(&mut |at| differs |= at.any(&own));
        differs
    }

    /// Statements without bodies, with the conditions under which they run.
    fn accesses<'s>(&self, stmt: &'s Stmt, path: &mut Vec<Test>, f: &mut dyn FnMut(&'s Stmt, &[Test])) {
        let depth = path.len();
        let mut under = |tests: Vec<Test>, body: &'s [Stmt], f: &mut dyn FnMut(&'s Stmt, &[Test])| {
            path.extend(tests);
            body.iter().for_each(|stmt| self.accesses(stmt, path, f));
            path.truncate(depth);
        };
        match &stmt.op {
            Op::If { test, then, other } => {
                under(conjuncts(test.clone()), then, f);
                under(conjuncts(test.clone().negated()), other, f);
            }
            Op::For { var, body, .. } if !self.program.runs(*var) => {
                let var = &self.program.vars[*var as usize];
                under(vec![Test::Less(var.from.clone(), var.to.clone())], body, f);
            }
            _ if stmt.bodies().is_empty() => f(stmt, path),
            _ => stmt.bodies().into_iter().for_each(|body| under(Vec::new(), body, f)),
        }
    }
}

/// The conditions that are all true where one is.
fn conjuncts(test: Test) -> Vec<Test> {
    match test {
        Test::Both(both) => both.into_iter().flat_map(conjuncts).collect(),
        test => vec![test],
    }
}
