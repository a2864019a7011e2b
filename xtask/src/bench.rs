//! The benchmarks.

use crate::shell::{Outcome, cargo, run as spawn, scope, step};

pub(crate) fn run(extra: &[String]) -> Outcome {
    // `--bench *` names the bench targets alone: unit tests would trip over a benchmark's arguments.
    let mut command = cargo(["bench", "--bench", "*"]);
    command.args(scope(extra)).args(extra);
    step("bench", || spawn(&mut command))
}
