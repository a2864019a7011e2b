//! All tests of the workspace.

use crate::setup;
use crate::shell::{Outcome, cargo, run as spawn, step};

pub(crate) fn run(extra: &[String]) -> Outcome {
    let environment = setup::prepare()?;
    // One failing crate must not hide the results of the others.
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    command.args(extra).envs(environment);
    step("test", || spawn(&mut command))
}
