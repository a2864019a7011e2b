//! The machine code of every shipped kernel, before and after a change of the generator.

use crate::setup;
use crate::shell::{Outcome, cargo, run as spawn, step};

/// Where the sources before the change are.
const FOLDER: &str = "target/machine_code";

pub(crate) fn run(words: &[String]) -> Outcome {
    if !(words.is_empty() || words == ["save"]) {
        return Err(
            "write `cargo xtask machine-code save` before a change, and `cargo xtask machine-code` after it"
                .into(),
        );
    }
    let environment = setup::prepare()?;
    let mut command = cargo([
        "run",
        "--profile=test",
        "--package=tilewright-tests",
        "--example=machine_code",
        "--",
        FOLDER,
    ]);
    command.args(words).envs(environment);
    step("machine code", || spawn(&mut command))
}
