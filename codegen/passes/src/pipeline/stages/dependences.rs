//! The statements of a loop that must remain in order: they access the same tensor, number, ring or token, and one of
//! them writes it, in one iteration or in an iteration and the next.

use std::collections::BTreeSet;

use super::{Item, Kind};
use crate::pipeline::reads;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::{Op, Program, Space, StageOrder, Stmt};
use crate::values::affine::{Affine, Coord};

/// A resource that statements share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Thing {
    Tensor(Id),
    /// An integer that is read from memory.
    Number(Id),
    Ring(Id),
    Token(Id),
    /// Shared and global memory, for statements that order all accesses to it.
    Memory,
}

/// The things that a statement and its substatements access, and whether they write them.
pub(super) fn accesses(program: &Program, stmt: &Stmt) -> BTreeSet<(Thing, bool)> {
    let mut all = BTreeSet::new();
    let phases = |at: &Affine, to: &mut BTreeSet<(Thing, bool)>| {
        for ring in 0..program.rings.len() as Id {
            if at.any(&|coord| *coord == Coord::Phase(ring)) {
                to.insert((Thing::Ring(ring), false));
            }
        }
    };
    for stmt in stmt.preorder() {
        let (reads, writes) = (stmt.reads(), stmt.writes());
        let views = reads.iter().map(|view| (view, false)).chain(writes.iter().map(|view| (view, true)));
        for (view, writes) in views {
            view.base.iter().for_each(|at| phases(at, &mut all));
            match program.tensor(view.tensor).space {
                Space::Global { mutable: false } => continue,
                Space::Global { mutable: true } | Space::Shared { .. } => {
                    all.insert((Thing::Memory, false));
                }
                Space::Registers { .. } => {}
            }
            all.insert((Thing::Tensor(view.tensor), writes));
        }
        match &stmt.op {
            Op::Atomic { update, .. } | Op::Scatter { update: Some(update), .. } => {
                all.extend(update.old.iter().map(|old| (Thing::Tensor(old.tensor), true)));
            }
            Op::Take { number, .. } => {
                all.insert((Thing::Number(*number), true));
            }
            _ => {}
        }
        all.extend(stmt.token().map(|token| (Thing::Token(token), true)));
        all.extend(stmt.ring().map(|ring| (Thing::Ring(ring), true)));
        if stmt.orders_groups() {
            all.insert((Thing::Memory, true));
        }
    }
    all.extend(reads::used(program, stmt).into_iter().map(|number| (Thing::Number(number), false)));
    all
}

/// A statement of the loop as it is written.
pub(super) struct Line {
    pub(super) order: StageOrder,
    pub(super) stmt: Stmt,
    /// Its position in a step.
    pub(super) at: usize,
    pub(super) accesses: BTreeSet<(Thing, bool)>,
}

impl Line {
    pub(super) fn stage(&self) -> i64 {
        self.order.stage.into()
    }

    /// When it runs, counted from the step of its iteration's stage 0.
    pub(super) fn when(&self) -> (i64, usize) {
        (self.stage(), self.at)
    }

    pub(super) fn writes(&self, thing: Thing) -> bool {
        self.accesses.contains(&(thing, true))
    }

    pub(super) fn accesses(&self, thing: Thing) -> bool {
        self.writes(thing) || self.accesses.contains(&(thing, false))
    }

    fn is_barrier(&self) -> bool {
        matches!(self.stmt.op, Op::Sync | Op::Wait { token: None, .. })
    }

    /// It in words.
    fn words(&self) -> String {
        format!("{} in stage {}", self.stmt.words(), self.order.stage)
    }
}

/// The statements of a loop as they are written.
pub(super) struct Text {
    pub(super) lines: Vec<Line>,
    /// Tensors that have a slot for each iteration.
    slots: Vec<Id>,
}

impl Text {
    pub(super) fn new(
        program: &Program,
        var: Id,
        placed: Vec<(StageOrder, Stmt)>,
        slots: Vec<Id>,
    ) -> Result<Text, Diagnostic> {
        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_by_key(|&line| (placed[line].0.order, placed[line].0.stage, line));
        let mut at = vec![0; placed.len()];
        order.iter().enumerate().for_each(|(position, &line)| at[line] = position);
        let mut lines = Vec::new();
        for (at, (order, stmt)) in at.into_iter().zip(placed) {
            for inner in stmt.preorder() {
                let problem = match inner.op {
                    Op::CommitCopies | Op::Wait { token: None, but: 1.. } => Problem::new(
                        "commit groups are counted in the order of the text, and stages change that order",
                    )
                    .help("copy in a pipelined loop, which counts by itself"),
                    Op::Leave { of, .. } if of == var => {
                        Problem::new("this loop is left early, and its statements have stages")
                            .help("leave `stage` out")
                    }
                    _ => continue,
                };
                return Err(problem.at(inner.span));
            }
            let accesses = accesses(program, &stmt);
            lines.push(Line { order, stmt, at, accesses });
        }
        // A wait concerns all that is in flight under its token.
        for line in 0..lines.len() {
            let Op::Wait { token: Some(token), .. } = lines[line].stmt.op else { continue };
            let under = lines.iter().filter(|other| other.writes(Thing::Token(token)));
            let all: Vec<_> = under.flat_map(|other| other.accesses.iter().copied()).collect();
            lines[line].accesses.extend(all);
        }
        Ok(Text { lines, slots })
    }

    /// The last stage.
    pub(super) fn last(&self) -> i64 {
        self.lines.iter().map(Line::stage).max().unwrap_or(0)
    }

    /// The resources that both statements access and at least one writes, apart from slots.
    fn shared<'l>(&'l self, one: &'l Line, other: &'l Line) -> impl Iterator<Item = Thing> + 'l {
        one.accesses.iter().filter_map(|(thing, writes)| {
            let slot = matches!(thing, Thing::Tensor(id) if self.slots.contains(id));
            let meets = other.writes(*thing) || (*writes && other.accesses(*thing));
            (!slot && meets).then_some(*thing)
        })
    }

    /// Checks that the schedule keeps the order of statements that depend on one another. Each iteration has its own
    /// `renamed` tensors.
    pub(super) fn check(
        &self,
        program: &Program,
        renamed: &[super::rename::Renamed],
    ) -> Result<(), Diagnostic> {
        for (second, later) in self.lines.iter().enumerate() {
            for earlier in &self.lines[..=second] {
                for thing in self.shared(earlier, later).filter(|thing| !self.is_read_anywhere(*thing)) {
                    if earlier.when() > later.when() {
                        return Err(self.too_early(program, earlier, later, thing));
                    }
                    let own = renamed.iter().any(|of| thing == Thing::Tensor(of.tensor));
                    let next = (earlier.stage() + 1, earlier.at);
                    if !own && later.when() > next {
                        return Err(self.too_late(program, earlier, later, thing));
                    }
                }
            }
        }
        Ok(())
    }

    /// Is it a number that any statement can read, since the loop does not write what it is read from?
    fn is_read_anywhere(&self, thing: Thing) -> bool {
        self.lines.iter().any(|line| match &line.stmt.op {
            Op::Take { number, from } if thing == Thing::Number(*number) => {
                !self.lines.iter().any(|line| line.writes(Thing::Tensor(from.tensor)))
            }
            _ => false,
        })
    }

    fn named(program: &Program, thing: Thing) -> String {
        match thing {
            Thing::Tensor(id) => format!("`{}`", program.tensor(id).name),
            Thing::Number(id) => format!("the integer `{}`", program.reads[id as usize].name),
            Thing::Ring(id) => format!("the ring `{}`", program.rings[id as usize].name),
            Thing::Token(_) => "what is in flight".into(),
            Thing::Memory => "memory that all blocks order".into(),
        }
    }

    /// In one iteration, `later` would run first.
    fn too_early(&self, program: &Program, earlier: &Line, later: &Line, thing: Thing) -> Diagnostic {
        let (name, one, other) = (Self::named(program, thing), earlier.words(), later.words());
        let problem = Problem::new(format!(
            "{other} would run before {one}, which comes before it in an iteration and uses {name} as well"
        ));
        let StageOrder { stage, order } = earlier.order;
        let help = match later.order.stage < stage {
            true => format!("write it behind `stage({stage})`"),
            false => format!("give it an order of {order} or more"),
        };
        problem.help(help).at(later.stmt.span)
    }

    /// The next iteration's `earlier` would run before this one's `later`.
    fn too_late(&self, program: &Program, earlier: &Line, later: &Line, thing: Thing) -> Diagnostic {
        let (name, one, other) = (Self::named(program, thing), earlier.words(), later.words());
        let problem = Problem::new(format!(
            "{one} would run for the next iteration before {other} has run for this one, and both use {name}"
        ));
        let same = later.order.stage;
        let help = match thing {
            Thing::Tensor(id) if matches!(program.tensor(id).space, Space::Shared { .. }) => format!(
                "fill {name} in a pipelined loop, which gives it slots, or write both statements behind `stage({same})`"
            ),
            Thing::Tensor(id) if matches!(program.tensor(id).space, Space::Registers { .. }) => format!(
                "write both behind `stage({same})`, or set all of {name} in each iteration, and use it in this loop alone"
            ),
            _ => format!("write both statements behind `stage({same})`"),
        };
        problem.help(help).at(later.stmt.span)
    }

    /// The statements of a step, in order, with the barriers that separate accesses to memory as the text's do.
    pub(super) fn items(&self, program: &Program) -> Vec<Item> {
        let mut ahead = vec![false; self.lines.len()];
        for (second, later) in self.lines.iter().enumerate() {
            for (first, earlier) in self.lines[..=second].iter().enumerate() {
                let memory = |thing: Thing| match thing {
                    Thing::Tensor(id) => !matches!(program.tensor(id).space, Space::Registers { .. }),
                    _ => false,
                };
                if !self.shared(earlier, later).any(memory) {
                    continue;
                }
                let next = (earlier.stage() + 1, earlier.at);
                let barrier = |line: &Line| matches!(line.stmt.op, Op::Sync);
                if first < second
                    && self.lines[first..second].iter().any(barrier)
                    && !self.separated(earlier.when(), later.when())
                {
                    ahead[second] = true;
                }
                let around = self.lines[second..].iter().chain(&self.lines[..first]);
                if around.into_iter().any(barrier) && !self.separated(later.when(), next) {
                    ahead[first] = true;
                }
            }
        }
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        order.sort_by_key(|&line| self.lines[line].at);
        let mut items = Vec::new();
        for line in order {
            let Line { stmt, .. } = &self.lines[line];
            if ahead[line] {
                let stmt = Stmt { op: Op::Sync, ..stmt.clone() };
                items.push(Item { stmt, stage: 0, kind: Kind::Always, at: None });
            }
            let barrier = self.lines[line].is_barrier();
            let (stage, kind) =
                if barrier { (0, Kind::Always) } else { (self.lines[line].stage(), Kind::Work) };
            items.push(Item { stmt: stmt.clone(), stage, kind, at: Some(self.lines[line].at) });
        }
        items
    }

    /// Is there a barrier between two points of the schedule?
    fn separated(&self, one: (i64, usize), other: (i64, usize)) -> bool {
        let between = |at: usize| match other.0 - one.0 {
            ..=0 => one.1 < at && at < other.1,
            1 => one.1 < at || at < other.1,
            _ => true,
        };
        self.lines.iter().any(|line| matches!(line.stmt.op, Op::Sync) && between(line.at))
    }
}
