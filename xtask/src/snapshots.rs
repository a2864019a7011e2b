//! Blessing: the tests run as usual, but overwrite their expected output with the actual one.

use crate::setup;
use crate::shell::{Outcome, cargo, run as spawn, scope, step};

/// One row per tool that keeps expected output in files.
const BLESS: &[(&str, &str)] = &[("INSTA_UPDATE", "always"), ("TILEWRIGHT_BLESS", "1")];

pub(crate) fn run(extra: &[String]) -> Outcome {
    let environment = setup::prepare()?;
    // `--tests` leaves out documentation examples: they hold no snapshots and are the slow part.
    let mut command = cargo(["test", "--no-fail-fast", "--tests"]);
    command.args(scope(extra)).args(extra).envs(environment).envs(BLESS.iter().copied());
    step("rewrite snapshots", || spawn(&mut command))?;
    eprintln!("    now read `git diff`: what it shows is what you claim to be right");
    Ok(())
}
