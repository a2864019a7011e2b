//! Goals for costs: counts of the simulator.

use tilewright::sim::{AccessCount, Outcome};

use super::check::Check;

/// The cost of all accesses must be at most the goal.
pub(super) fn cost_at_most(done: &Outcome, goal: u64, what: &str, cost: fn(&AccessCount) -> u64) -> Check {
    let total: u64 = done.accesses().iter().map(cost).sum();
    if total <= goal {
        return Ok(());
    }
    let mut text = format!("the result is right, but the cost is {total} {what}; the goal is {goal}");
    for access in done.accesses().iter().filter(|access| cost(access) > 0) {
        let line = access.line.as_deref().unwrap_or("an unknown line");
        text += &format!("\n{} by the {} of `{}`, at {line}", cost(access), access.what, access.tensor);
    }
    Err(text.into())
}

/// The number of operations of one kind, counted for each thread, must be at most the goal.
pub(super) fn operations_at_most(done: &Outcome, kind: &str, goal: u64) -> Check {
    match done.operations().find(|(name, count)| *name == kind && *count > goal) {
        Some((_, count)) => {
            Err(format!("the result is right, but threads execute {count} {kind}; the goal is {goal}").into())
        }
        None => Ok(()),
    }
}
