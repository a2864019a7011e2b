//! Races in shared memory, and in global memory between statements that complete at once, at coordinates that depend on no
//! size. The check executes the program as a block does, for the first iterations of each loop. It compares every access to
//! a shared tensor with earlier accesses that are not ordered before it. Accesses are ordered by barriers of the block or of
//! a group, and by waits for operations in flight. Groups with different roles are checked one by one: the slots of rings that
//! they hand on are left to the simulator.
//!
//! In global memory it checks the elements of the first block, in a tensor of the greatest size, and only statements
//! without a condition. It leaves undecided cases to the simulator, without a report.
//!
//! A copy from global to shared memory is in flight until a wait, and then visible to the thread that started it; a
//! barrier makes it visible to the others. A reported race happens in a run of the kernel; undecided pairs in shared memory are
//! listed.
//!
//! [`trace`] unrolls the statements of each group, [`walk`] executes them step by step, [`order`] is the happens-before
//! relation. [`judge`] compares an [`event`] with earlier ones, and [`blame`] writes the message.

mod blame;
mod event;
mod global;
mod happens_before;
mod judge;
mod trace;
mod walk;

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::tile::{Program, Space};
use crate::view_elements::Budget;
pub(super) use global::is_decided;
use trace::Unroll;
pub(super) use trace::{Env, first_of_member};
use walk::Walk;

/// Findings.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) undecided: Vec<(Span, String)>,
}

impl Findings {
    fn undecided(&mut self, span: Span, text: String) {
        if !self.undecided.iter().any(|(_, known)| *known == text) {
            self.undecided.push((span, text));
        }
    }
}

/// Walks a program.
pub(super) fn find(program: &Program, budget: &mut Budget) -> Findings {
    let global = global::followed(program);
    let shared = program.tensors.iter().any(|tensor| matches!(tensor.space, Space::Shared { .. }));
    if !shared && !global.contains(&true) {
        return Findings::default();
    }
    let mut unroll = Unroll::new(program);
    let block = unroll.block();
    let mut walk = Walk::new(program, global, budget);
    walk.run(&block);
    unroll.undecided.into_iter().for_each(|(span, text)| walk.findings.undecided(span, text));
    walk.findings
}
