//! Wait counts of tokens: the number of commit groups of cp.async, or of wgmma, that may remain in flight. A token names some
//! of the groups. The count is the number of groups committed after the last group that must be done, on the path with the
//! fewest.
//!
//! Lowering commits a group after each copy or product that has a token, and makes waits drain all groups, which is
//! always correct. A forward dataflow pass over the thread program then raises the counts where it can, and removes waits
//! that no copy can precede.

use std::collections::HashMap;

use super::Lower;
use super::commits::{Copies, copies, groups};
use super::ring::is_bulk_store;
use crate::thread::visit;
use crate::thread::{Id, Kernel, Op, Queue, Stmt};
use crate::tile;
use crate::tile::visit::preorder;
use crate::values::flow::{Edit, Forward, forward};

/// The most groups that are left in flight.
const MOST: u32 = 63;

/// The role of a statement for a token. The statement's row of the kernel's sites is its own, and is the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// A group of copies or products under the token is committed here.
    Closes(Id),
    /// Waits for all groups under the token except this number of the last groups.
    Waits(Id, u32),
}

/// Marks by row of the sites.
pub(super) type Marks = HashMap<Id, Mark>;

impl Lower<'_> {
    /// Commits the group of a copy that has a token, if any of it is asynchronous.
    pub(super) fn close_group(&mut self, token: Id, first: usize) {
        if visit::preorder(&self.block[first..]).any(|stmt| matches!(copies(&stmt.op), Some(Copies::Issue))) {
            self.marked(Mark::Closes(token), Op::Commit(Queue::CpAsync));
        }
    }

    /// Waits for copies under a token, if there are any.
    pub(super) fn wait_for_copies(&mut self, token: Id, but: u32) {
        let issues = |stmt: &tile::Stmt| matches!(&stmt.op, tile::Op::Copy { token: Some(of), how, .. } if *of == token && !is_bulk_store(*how));
        if preorder(&self.program.body).any(issues) {
            self.marked(Mark::Waits(token, but), Op::WaitQueue { queue: Queue::CpAsync, pending: 0 });
        }
    }

    pub(super) fn marked(&mut self, mark: Mark, op: Op) {
        let site = self.kernel.sites[self.scope.site as usize].clone();
        self.kernel.sites.push(site);
        let site = self.kernel.sites.len() as Id - 1;
        self.marks.insert(site, mark);
        self.block.push(Stmt { site, op });
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
    for queue in [Queue::CpAsync, Queue::Products] {
        let body = std::mem::take(&mut kernel.body);
        let mut relaxed = Relaxed { queue, marks, longest: &longest };
        kernel.body = forward(&mut relaxed, kernel, body, Ages::default());
    }
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

    /// A group is committed, perhaps under a token with its number of tracked groups.
    fn close(&mut self, under: Option<(Id, u32)>) {
        self.0.values_mut().flatten().for_each(|age| *age = (*age + 1).min(MOST));
        if let Some((token, most)) = under {
            let ages = self.0.entry(token).or_default();
            ages.insert(0, 0);
            ages.truncate(most as usize + 1);
        }
    }
}

struct Relaxed<'m> {
    queue: Queue,
    marks: &'m Marks,
    /// By token: the most groups that a wait leaves.
    longest: &'m HashMap<Id, u32>,
}

impl Forward<Kernel> for Relaxed<'_> {
    type State = Ages;

    fn join(one: Ages, other: &Ages) -> Ages {
        one.or(other)
    }

    fn pass(&mut self, stmt: &Stmt, ages: &mut Ages) -> Edit<Stmt> {
        let mark = self.marks.get(&stmt.site).copied();
        match (groups(&stmt.op, self.queue), mark) {
            (Some(Copies::Commit), Some(Mark::Closes(token))) => {
                let most = self.longest.get(&token).copied().unwrap_or(0);
                ages.close(Some((token, most)));
                Edit::Keep
            }
            (Some(Copies::Commit), Some(Mark::Waits(..)) | None) => {
                ages.close(None);
                Edit::Keep
            }
            (Some(Copies::Wait), Some(Mark::Waits(token, but))) => {
                let age = ages.0.get(&token).and_then(|ages| ages.get(but as usize));
                let op = age.map(|&pending| Op::WaitQueue { queue: self.queue, pending });
                Edit::Instead(op.map(|op| Stmt { site: stmt.site, op }).into_iter().collect())
            }
            (Some(Copies::Wait), Some(Mark::Closes(_)) | None) | (Some(Copies::Issue) | None, _) => {
                Edit::Keep
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa;
    use crate::lower::Policy;
    use crate::thread::Unroll;
    use crate::thread::index::Ix;
    use crate::tile::Program;
    use crate::tile::bounds::Assumed;

    /// Sites: 0 without a token, 1 + t commits a group under token t, 11 + t waits for all of t, 21 + t for
    /// all but the last.
    fn stmt(site: Id, op: Op) -> Stmt {
        Stmt { site, op }
    }

    fn copy(token: Id) -> Vec<Stmt> {
        let row = isa::find("cp_async_16").expect("a row of the table");
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
        vec![stmt(0, Op::If { cond: Ix::default().into(), then, other })]
    }

    /// How many groups each wait leaves in flight, in the order of the text, without waits that are removed.
    #[track_caller]
    fn check(body: Vec<Vec<Stmt>>, expected: &[u32]) {
        let mut kernel = Lower::new(Assumed::new(&Program::new("k"), Policy::General)).kernel;
        kernel.body = body.concat();
        let marks = (0..4).flat_map(|token| {
            [
                (1 + token, Mark::Closes(token)),
                (11 + token, Mark::Waits(token, 0)),
                (21 + token, Mark::Waits(token, 1)),
            ]
        });
        relax(&mut kernel, &marks.collect());
        let pending = visit::preorder(&kernel.body).filter_map(|stmt| match stmt.op {
            Op::WaitQueue { pending, .. } => Some(pending),
            _ => None,
        });
        assert_eq!(pending.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn younger_groups_stay_in_flight() {
        check(vec![copy(0), wait(11)], &[0]);
        check(vec![copy(0), copy(1), wait(11), wait(12)], &[1, 0]);
        check(vec![copy(0), copy(0), wait(21), wait(11)], &[1, 0]);
        // No operation to wait for precedes it.
        check(vec![wait(11), copy(0)], &[]);
        check(vec![copy(0), wait(21)], &[]);
        // Groups without a token count.
        check(vec![copy(0), vec![stmt(0, COMMIT)], wait(11)], &[1]);
    }

    #[test]
    fn products_are_counted_apart_from_copies() {
        const PRODUCT: Op = Op::Commit(Queue::Products);
        let product = |token: Id| vec![stmt(1 + token, PRODUCT)];
        let done = |site: Id| vec![stmt(site, Op::WaitQueue { queue: Queue::Products, pending: 0 })];
        check(vec![product(0), product(1), done(11), done(12)], &[1, 0]);
        check(vec![product(0), copy(1), done(11), wait(12)], &[0, 0]);
        // The product of the previous iteration, after which a product of this iteration has been issued.
        check(vec![product(0), looped(vec![product(1), done(11), product(0)]), done(11)], &[1, 0]);
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
