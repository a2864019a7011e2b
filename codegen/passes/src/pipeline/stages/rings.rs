//! Rings that another group fills, in a loop with stages: a slot is awaited before its first use, and released after its
//! last use, perhaps in a later stage. A phase is the number of times that the ring has been advanced.

use super::{Item, Staged, Step, uses, waits};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result, count};
use crate::thread::Id;
use crate::tile::visit::substitute;
use crate::tile::{Op, Program, StageOrder, Stmt};
use crate::values::affine::{Affine, Coord};

/// The statements of a ring in a loop's body: each iteration takes one slot.
pub(super) struct Taken {
    pub(super) ring: Id,
    full: Stmt,
    release: Stmt,
    advance: Stmt,
}

/// A ring in the schedule.
pub(super) struct Counted {
    ring: Id,
    /// The stage that advances it.
    stage: i64,
}

/// The rings that each iteration takes one slot of, and the other statements.
pub(super) fn apart(
    program: &Program,
    placed: Vec<(StageOrder, Stmt)>,
) -> (Vec<Taken>, Vec<(StageOrder, Stmt)>) {
    let mut taken = Vec::new();
    for ring in 0..program.rings.len() as Id {
        let here = Affine::from(Coord::Phase(ring));
        let (mut all, mut inside) = (Vec::new(), 0);
        for (_, stmt) in &placed {
            match &stmt.op {
                Op::Await { ring: of, phase } | Op::Release { ring: of, phase }
                    if *of == ring && *phase == here =>
                {
                    all.push(stmt);
                }
                Op::Advance { ring: of } if *of == ring => all.push(stmt),
                _ => {}
            }
            inside += stmt.preorder().filter(|stmt| stmt.ring() == Some(ring)).count();
        }
        if let [full, release, advance] = all[..]
            && inside == 3
            && matches!(full.op, Op::Await { .. })
            && matches!(release.op, Op::Release { .. })
            && matches!(advance.op, Op::Advance { .. })
        {
            let [full, release, advance] = [full, release, advance].map(Stmt::clone);
            taken.push(Taken { ring, full, release, advance });
        }
    }
    let is_taken = |stmt: &Stmt| match &stmt.op {
        Op::Await { ring, .. } | Op::Release { ring, .. } | Op::Advance { ring } => {
            taken.iter().any(|of| of.ring == *ring)
        }
        _ => false,
    };
    let rest = placed.into_iter().filter(|(_, stmt)| !is_taken(stmt)).collect();
    (taken, rest)
}

/// The statements of a ring in an iteration.
struct RingStatements {
    ring: Id,
    full: Stmt,
    release: Stmt,
    advance: Stmt,
}

/// The first or last use of a slot: its stage, and the item of the step.
#[derive(Clone, Copy)]
struct UseOfSlot {
    stage: i64,
    item: usize,
}

impl Staged {
    /// Inserts the statements of rings.
    pub(super) fn insert_rings(
        &mut self,
        program: &Program,
        taken: Vec<Taken>,
    ) -> std::result::Result<(), Diagnostic> {
        for Taken { ring, full, release, advance } in taken {
            let of = &program.rings[ring as usize];
            let items = &self.items;
            let users: Vec<usize> =
                (0..items.len()).filter(|&at| uses(&items[at].stmt, &of.buffers)).collect();
            let first = users.iter().copied().min_by_key(|&at| (items[at].stage, at)).unwrap_or(0);
            // A product in flight uses its slot until it has been waited for.
            let done = |at: usize| match waits::of(items, at) {
                Some((wait, 0)) => (items[at].stage, wait),
                Some(_) => (items[at].stage, items.len()),
                None => (items[at].stage, at),
            };
            let last = users.iter().map(|&at| (done(at), at)).max().unwrap_or(((0, 0), 0));
            let ((stage, end), user) = last;
            let begin = items.get(first).map_or(0, |item| item.stage);
            if stage - begin >= i64::from(of.slots) {
                let name = of.buffers.iter().find(|id| uses(&items[user].stmt, &[**id]));
                let name = name.map_or(of.name.as_str(), |id| &program.tensor(*id).name);
                let problem = Problem::new(format!(
                    "`{name}` is used {} after its slot is first used, which takes more than {}",
                    count(stage - begin, "step"),
                    count(of.slots, "slot")
                ));
                let help = format!("write stages = {} in this loop", stage - begin + 2);
                return Err(problem.help(help).at(items[user].stmt.span));
            }
            self.insert_ring(
                RingStatements { ring, full, release, advance },
                UseOfSlot { stage: begin, item: first },
                UseOfSlot { stage, item: end },
            );
        }
        Ok(())
    }

    fn insert_ring(
        &mut self,
        RingStatements { ring, full, release, advance }: RingStatements,
        first: UseOfSlot,
        last: UseOfSlot,
    ) {
        self.items.insert(first.item, Item::work(full, first.stage));
        let stage = last.stage;
        let mut end = last.item + if first.item <= last.item { 2 } else { 1 };
        if end > self.items.len() {
            // A wait of the next step comes at the end of this one.
            let of_next = |items: &[Item], at: usize| match waits::of(items, at) {
                Some((wait, 1)) if items[at].stage == stage => Some(wait),
                _ => None,
            };
            while let Some(wait) = (0..self.items.len()).find_map(|at| of_next(&self.items, at)) {
                let mut item = self.items.remove(wait);
                item.stage -= 1;
                self.items.push(item);
            }
            end = self.items.len();
        }
        self.items.splice(end..end, [release, advance].map(|stmt| Item::work(stmt, stage)));
        self.rings.push(Counted { ring, stage });
    }

    /// The statement at a position of a step, with the phases that it acts on.
    pub(super) fn counted(&self, item: usize, step: Step) -> Result<Stmt> {
        let mut stmt = self.items[item].stmt.clone();
        for Counted { ring, stage } in &self.rings {
            let advances = |item: &Item| matches!(&item.stmt.op, Op::Advance { ring: of } if of == ring);
            let behind = self.items.iter().position(advances).is_some_and(|at| at < item);
            // The steps from the statement's iteration to the iteration of the next slot.
            let own = self.items[item].stage;
            let by = match step {
                Step::Before(at) if at < *stage => at - own,
                Step::Before(_) | Step::Main | Step::Behind(_) => stage - own - i64::from(behind),
            };
            if by == 0 {
                continue;
            }
            let here = Coord::Phase(*ring);
            let far = || Problem::new("a phase passes 63 bits");
            let phase = Affine::from(here.clone()).plus(&by.into(), 1).ok_or_else(far)?;
            substitute(std::slice::from_mut(&mut stmt), &here, &phase).ok_or_else(far)?;
        }
        Ok(stmt)
    }
}
