//! Registers, spills and instructions of every shipped kernel, compared with an earlier table.

use crate::setup;
use crate::shell::{Outcome, cargo, run as spawn, step};

/// Where the table goes.
const TABLE: &str = "target/machine_code.tsv";

pub(crate) fn run(before: &[String]) -> Outcome {
    if before.len() > 1 {
        return Err("`cargo xtask machine-code` takes one table of before at most".into());
    }
    let environment = setup::prepare()?;
    let mut command =
        cargo(["run", "--profile=test", "--package=tilewright-tests", "--example=machine_code", "--", TABLE]);
    command.args(before).envs(environment);
    step("machine code", || spawn(&mut command))
}
