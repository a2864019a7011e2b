//! Faults of loops that copy ahead: slots, waits, barriers, fragments.

use super::{Fault, fault, rare};
use crate::draw::Kind;

const LAYOUTS: &str = "codegen/tile/src/tile/slots.rs";
const FILL: &str = "codegen/passes/src/pipeline/fill.rs";
const FRAGMENTS: &str = "codegen/passes/src/pipeline/fragments.rs";
const SLOTS: &str = "codegen/passes/src/pipeline/schedule.rs";
const STEPS: &str = "codegen/passes/src/pipeline/steps.rs";
const SYNCHRONISE: &str = "codegen/passes/src/synchronise.rs";
const ALLOCATE: &str = "codegen/passes/src/allocate.rs";
const COMMITS: &str = "codegen/passes/src/lower/commits.rs";
const FLOW: &str = "codegen/program/src/values/flow.rs";
const READS: &str = "codegen/passes/src/pipeline/reads.rs";
const RING: &str = "codegen/passes/src/lower/ring.rs";

pub(super) const FAULTS: &[Fault] = &[
    fault(
        SYNCHRONISE,
        "a wait leaves one group more in flight",
        "Wait { token: None, but: in_flight }",
        "Wait { token: None, but: in_flight + 1 }",
    ),
    fault(
        SLOTS,
        "the ring has one slot fewer than stages",
        "view.at_slot(iteration, i64::from(stages));",
        "view.at_slot(iteration, i64::from(stages) - 1);",
    ),
    fault(
        SYNCHRONISE,
        "no barrier after the wait of an iteration",
        "if barrier != Barrier::None {",
        "if barrier != Barrier::None && !matches!(stmt.op, Op::Await { .. }) {",
    ),
    fault(
        SYNCHRONISE,
        "no barrier before a loop that reuses the slots",
        "let used = ring.buffers.iter().any(|buffer| state.used.contains_key(buffer));",
        "let used = ring.buffers.is_empty();",
    )
    .first(3960),
    fault(SLOTS, "the prologue skips the first stage", "for at in 0..ahead {", "for at in 1..ahead {"),
    fault(
        SLOTS,
        "an iteration copies the previous tile",
        "plus(&ahead.into(), 1)",
        "plus(&(ahead - 1).into(), 1)",
    ),
    rare(fault(
        SYNCHRONISE,
        "no barrier at the end of an iteration of one stage",
        "if barrier != Barrier::None {",
        "if barrier != Barrier::None && !matches!(stmt.op, Op::Release { .. }) {",
    )),
    fault(
        LAYOUTS,
        "slots overlap",
        "let apart = (tile.cosize()? + block - 1) / block * block;",
        "let apart = (tile.cosize()? / 2 + block - 1) / block * block;",
    ),
    fault(
        FILL,
        "a copy through registers loses its fill",
        "copy(from, fragment.clone(), fill)",
        "copy(from, fragment.clone(), 1.into())",
    ),
    fault(
        FRAGMENTS,
        "both k-steps are loaded into one fragment",
        "let to = operand.at(&step)?;",
        "let to = operand.at(&0.into())?;",
    ),
    fault(
        STEPS,
        "the loop exits one k-step early",
        "self.begin.plus(k_step, self.apart);",
        "self.begin.plus(k_step, self.apart).and_then(|left| left.plus(&1.into(), 1));",
    ),
    fault(
        STEPS,
        "the last k-step is multiplied with the wrong fragment",
        "body.extend(self.at(&self.work, &last.into())?);",
        "body.extend(self.at(&self.work, &(last + 1).into())?);",
    ),
    fault(
        COMMITS,
        "copies are not committed before a wait counts them",
        "if before.open {",
        "if before.open && !before.issued {",
    ),
    fault(COMMITS, "waits are dropped", "if !before.issued {", "if before.issued {"),
    fault(
        FLOW,
        "copies in flight across iterations are ignored",
        "let again = F::join(entry.clone(), &end);",
        "let again = F::join(entry.clone(), &entry);",
    ),
    fault(
        READS,
        "an integer that copies need is not read ahead",
        "if early.contains(number) {\n                    ahead",
        "if early.len() > 9 {\n                    ahead",
    )
    .by(Kind::Targeted, 65),
    fault(
        ALLOCATE,
        "shared arrays overlap",
        "all.bytes.max(at + bytes(tensor))",
        "all.bytes.max(at + bytes(tensor) / 2)",
    ),
    fault(
        RING,
        "a ring's first slots are not free",
        "self.exprs().add(wraps, -1)",
        "self.exprs().add(wraps, 0)",
    ),
    fault(
        RING,
        "one warp's release frees a slot",
        "let warps = self.program.threads_of(ring.to).div_ceil(32);",
        "let warps = self.program.threads_of(ring.to).div_ceil(32).min(1);",
    ),
    fault(
        RING,
        "the phase parity of a slot is always 0",
        "(self.exprs().rem(phase, slots), self.exprs().div(phase, slots))",
        "(self.exprs().rem(phase, slots), self.int(0))",
    ),
    fault(
        RING,
        "no __syncwarp before a release of a slot",
        "self.emit(Op::Fence(Fence::Threads(Scope::Warp)));",
        "",
    )
    .by(Kind::Options, 150),
    fault(
        RING,
        "a phase does not advance",
        "let next = self.exprs().add(phase, by);",
        "let next = self.exprs().sub(phase, by);",
    ),
];
