//! All tests of the workspace.

use crate::setup;
use crate::shell::{Outcome, cargo, run as spawn, scope, step};

pub(crate) fn run(extra: &[String]) -> Outcome {
    let environment = setup::prepare()?;
    // One failing crate must not hide the results of the others.
    let mut command = cargo(["test", "--no-fail-fast"]);
    command.args(scope(extra)).args(extra).envs(environment);
    step("test", || spawn(&mut command))
}
