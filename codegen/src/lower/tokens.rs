//! Wait counts of tokens: how many commit groups of cp.async may stay in flight. A token names some of the
//! groups, so the count is the number of groups committed after the last one that must be done, on the path
//! with the fewest.
//!
//! Lowering commits a group after each copy that has a token, and makes waits drain all groups, which is
//! always correct. A forward dataflow pass over the thread program, as in [`super::commits`], then raises the
//! counts where it can, and removes waits that no copy can precede.

use std::collections::HashMap;

use super::Lower;
use super::ring::is_bulk_store;
use crate::atom::Done;
use crate::thread::{Id, Kernel, Op, Queue, Stmt};
use crate::tile;

/// The most groups that are left in flight.
const MOST: u32 = 63;

/// The role of a statement for a token. The statement's row of the kernel's sites is its own, and is the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// A group of copies under the token is committed here.
    Closes(Id),
    /// All but the last so many groups under the token are waited for.
    Waits(Id, u32),
}

/// Marks by row of the sites.
pub(super) type Marks = HashMap<Id, Mark>;

impl Lower<'_> {
    /// Commits the group of a copy that has a token, if any of it is asynchronous.
    pub(super) fn close_group(&mut self, token: Id, first: usize) {
        if self.block[first..].iter().any(|stmt| copies(&stmt.op)) {
            self.marked(Mark::Closes(token), Op::Commit(Queue::CpAsync));
        }
    }

    /// Waits for copies under a token, if there are any.
    pub(super) fn wait_for_copies(&mut self, token: Id, but: u32) {
        let mut issued = false;
        for stmt in &self.program.body {
            stmt.each(&mut |stmt| {
                issued |= matches!(&stmt.op, tile::Op::Copy { token: Some(of), how, .. } if *of == token && !is_bulk_store(*how));
            });
        }
        if issued {
            self.marked(Mark::Waits(token, but), Op::WaitQueue { queue: Queue::CpAsync, pending: 0 });
        }
    }

    fn marked(&mut self, mark: Mark, op: Op) {
        let site = self.kernel.sites[self.scope.site as usize].clone();
        self.kernel.sites.push(site);
        let site = self.kernel.sites.len() as Id - 1;
        self.marks.insert(site, mark);
        self.block.push(Stmt { site, op });
    }
}

/// Does a statement issue copies that a wait counts?
fn copies(op: &Op) -> bool {
    match op {
        Op::Atom { row, .. } => row.done == Done::Queue(Queue::CpAsync),
        Op::For { body, .. } | Op::Elect(_, body) => body.iter().any(|stmt| copies(&stmt.op)),
        Op::If { then, other, .. } | Op::When { then, other, .. } => {
            then.iter().chain(other).any(|stmt| copies(&stmt.op))
        }
        // Roles are no part of a copy.
        Op::Comment(_)
        | Op::Let(..)
        | Op::Set(..)
        | Op::Take(..)
        | Op::Assign { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::Atomic { .. }
        | Op::AwaitFlag { .. }
        | Op::Commit(_)
        | Op::WaitQueue { .. }
        | Op::Fence(_)
        | Op::Sync(_)
        | Op::Arrive { .. }
        | Op::Await { .. }
        | Op::InitBarriers(_)
        | Op::Leave { .. }
        | Op::Roles(_) => false,
    }
}

/// Raises the counts of waits as far as possible.
pub(super) fn relax(kernel: &mut Kernel, marks: &Marks) {
    if marks.is_empty() {
        return;
    }
    let mut longest = HashMap::new();
    for mark in marks.values() {
        if let Mark::Waits(token, but) = mark {
            let known = longest.entry(*token).or_insert(*but);
            *known = (*known).max(*but);
        }
    }
    let mut body = std::mem::take(&mut kernel.body);
    let mut walk = Walk { marks, longest, leaving: Vec::new() };
    walk.block(&mut body, Ages::default(), true);
    kernel.body = body;
}

/// For each token, latest group first: how many groups were committed after it, on the path with the fewest.
/// Groups that are missing were issued on no path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ages(HashMap<Id, Vec<u32>>);

impl Ages {
    fn or(mut self, other: &Ages) -> Ages {
        for (token, theirs) in &other.0 {
            let mine = self.0.entry(*token).or_default();
            for (at, &age) in theirs.iter().enumerate() {
                match mine.get_mut(at) {
                    Some(known) => *known = (*known).min(age),
                    None => mine.push(age),
                }
            }
        }
        self
    }

    /// A group is committed, perhaps under a token of which so many are tracked.
    fn close(&mut self, under: Option<(Id, u32)>) {
        self.0.values_mut().flatten().for_each(|age| *age = (*age + 1).min(MOST));
        if let Some((token, most)) = under {
            let ages = self.0.entry(token).or_default();
            ages.insert(0, 0);
            ages.truncate(most as usize + 1);
        }
    }
}

struct Walk<'m> {
    marks: &'m Marks,
    /// By token: the most groups that a wait leaves.
    longest: HashMap<Id, u32>,
    /// Loops around the statement, with the state at their early exits.
    leaving: Vec<(Id, Option<Ages>)>,
}

impl Walk<'_> {
    /// The state at the end of a block. Rewrites the block only with `write`.
    fn block(&mut self, block: &mut Vec<Stmt>, mut ages: Ages, write: bool) -> Ages {
        let mut at = 0;
        while at < block.len() {
            let mark = self.marks.get(&block[at].site).copied();
            match (&mut block[at].op, mark) {
                (Op::Commit(Queue::CpAsync), Some(Mark::Closes(token))) => {
                    let most = self.longest.get(&token).copied().unwrap_or(0);
                    ages.close(Some((token, most)));
                }
                (Op::Commit(Queue::CpAsync), _) => ages.close(None),
                (Op::WaitQueue { queue: Queue::CpAsync, pending }, Some(Mark::Waits(token, but)))
                    if write =>
                {
                    match ages.0.get(&token).and_then(|ages| ages.get(but as usize)) {
                        Some(&age) => *pending = age,
                        None => {
                            block.remove(at);
                            continue;
                        }
                    }
                }
                (op, _) => ages = self.inside(op, ages, write),
            }
            at += 1;
        }
        ages
    }

    fn inside(&mut self, op: &mut Op, ages: Ages, write: bool) -> Ages {
        match op {
            Op::For { var, body, .. } => {
                let mut entry = ages;
                // A fixed point: an iteration starts from what the previous one leaves, and ages only
                // decrease.
                loop {
                    self.leaving.push((*var, None));
                    let end = self.block(body, entry.clone(), false);
                    let left = self.leaving.pop().and_then(|(_, left)| left);
                    let again = entry.clone().or(&end);
                    if again == entry {
                        if write {
                            self.leaving.push((*var, None));
                            self.block(body, entry.clone(), true);
                            self.leaving.pop();
                        }
                        return left.map_or(again.clone(), |left| again.or(&left));
                    }
                    entry = again;
                }
            }
            Op::Leave { of, .. } => {
                if let Some((_, left)) = self.leaving.iter_mut().rev().find(|(var, _)| var == of) {
                    *left = Some(left.take().map_or(ages.clone(), |left| left.or(&ages)));
                }
                ages
            }
            Op::If { then, other, .. } | Op::When { then, other, .. } => {
                let first = self.block(then, ages.clone(), write);
                first.or(&self.block(other, ages, write))
            }
            Op::Elect(_, body) => self.block(body, ages.clone(), write).or(&ages),
            Op::Roles(roles) => {
                let ends = roles.iter_mut().map(|role| self.block(&mut role.body, ages.clone(), write));
                ends.collect::<Vec<_>>().iter().fold(ages, Ages::or)
            }
            Op::Comment(_)
            | Op::Let(..)
            | Op::Set(..)
            | Op::Take(..)
            | Op::Assign { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::AwaitFlag { .. }
            | Op::Atom { .. }
            | Op::Commit(_)
            | Op::WaitQueue { .. }
            | Op::Fence(_)
            | Op::Sync(_)
            | Op::Arrive { .. }
            | Op::Await { .. }
            | Op::InitBarriers(_) => ages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atoms;
    use crate::index::Ix;
    use crate::lower::Policy;
    use crate::thread::Unroll;
    use crate::tile::Program;

    /// Sites: 0 without a token, 1 + t commits a group under token t, 11 + t waits for all of t, 21 + t for
    /// all but the last.
    fn stmt(site: Id, op: Op) -> Stmt {
        Stmt { site, op }
    }

    fn copy(token: Id) -> Vec<Stmt> {
        let row = atoms::find("cp_async_16").expect("a row of the table");
        vec![stmt(0, Op::Atom { row, args: Vec::new(), guard: None }), stmt(1 + token, COMMIT)]
    }

    const COMMIT: Op = Op::Commit(Queue::CpAsync);

    fn wait(site: Id) -> Vec<Stmt> {
        vec![stmt(site, Op::WaitQueue { queue: Queue::CpAsync, pending: 0 })]
    }

    fn looped(body: Vec<Vec<Stmt>>) -> Vec<Stmt> {
        let (at, body) = (Ix::default(), body.concat());
        vec![stmt(0, Op::For { var: 0, from: at, to: at, step: 1, unroll: Unroll::No, body })]
    }

    fn either(then: Vec<Vec<Stmt>>, other: Vec<Vec<Stmt>>) -> Vec<Stmt> {
        let (then, other) = (then.concat(), other.concat());
        vec![stmt(0, Op::If { cond: Ix::default(), then, other })]
    }

    fn pending(body: &[Stmt], to: &mut Vec<u32>) {
        for stmt in body {
            match &stmt.op {
                Op::WaitQueue { pending, .. } => to.push(*pending),
                Op::For { body, .. } => pending(body, to),
                Op::If { then, other, .. } => [then, other].into_iter().for_each(|body| pending(body, to)),
                _ => {}
            }
        }
    }

    /// How many groups each wait leaves in flight, in the order of the text, without waits that are removed.
    #[track_caller]
    fn check(body: Vec<Vec<Stmt>>, expected: &[u32]) {
        let mut kernel = Lower::new(&Program::new("k"), Policy::General).kernel;
        kernel.body = body.concat();
        let marks = (0..4).flat_map(|token| {
            [
                (1 + token, Mark::Closes(token)),
                (11 + token, Mark::Waits(token, 0)),
                (21 + token, Mark::Waits(token, 1)),
            ]
        });
        relax(&mut kernel, &marks.collect());
        let mut found = Vec::new();
        pending(&kernel.body, &mut found);
        assert_eq!(found, expected);
    }

    #[test]
    fn younger_groups_stay_in_flight() {
        check(vec![copy(0), wait(11)], &[0]);
        check(vec![copy(0), copy(1), wait(11), wait(12)], &[1, 0]);
        check(vec![copy(0), copy(0), wait(21), wait(11)], &[1, 0]);
        // Nothing to wait for precedes it.
        check(vec![wait(11), copy(0)], &[]);
        check(vec![copy(0), wait(21)], &[]);
        // Groups without a token count.
        check(vec![copy(0), vec![stmt(0, COMMIT)], wait(11)], &[1]);
    }

    #[test]
    fn the_path_with_the_fewest_groups_counts() {
        check(vec![copy(0), either(vec![copy(1)], vec![]), wait(11)], &[0]);
        check(vec![copy(0), either(vec![copy(1)], vec![copy(2)]), wait(11)], &[1]);
        check(vec![either(vec![copy(0)], vec![]), copy(1), wait(11)], &[1]);
    }

    #[test]
    fn the_next_iteration_waits_for_groups_of_this_one() {
        // All but the last: the group of the previous iteration.
        check(vec![copy(0), looped(vec![copy(0), wait(21)]), wait(11)], &[1, 0]);
        check(vec![looped(vec![copy(0), copy(1), wait(11)])], &[1]);
        check(vec![looped(vec![wait(11), copy(0), copy(1)])], &[1]);
        // The loop may not run.
        check(vec![copy(0), looped(vec![copy(1)]), wait(11)], &[0]);
    }
}
