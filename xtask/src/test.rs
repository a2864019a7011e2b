//! All tests of the workspace. Tests over many cases run a share of them, a different one for each commit, or all of them.

use std::process::Command;

use crate::setup;
use crate::shell::{Outcome, capture, cargo, root, run_filtered, scope, step};
use crate::times::{Slowest, runner};

/// The variable that tests over many cases read: a seed that draws their share, or `all`.
const SWEEP: &str = "TILEWRIGHT_SWEEP";

/// Every case of every test.
pub(crate) fn sweep(extra: &[String]) -> Outcome {
    all(extra, "all")
}

/// A share of the cases of long tests.
pub(crate) fn run(extra: &[String]) -> Outcome {
    let chosen = std::env::var(SWEEP).unwrap_or_else(|_| seed().to_string());
    eprintln!(
        "    long tests run a share of their cases; {SWEEP}={chosen} repeats it, `cargo xtask sweep` runs all"
    );
    all(extra, &chosen)
}

/// A number that changes with the commit; 0 without git.
fn seed() -> u32 {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short=7", "HEAD"]).current_dir(root());
    let commit = capture(&mut git).map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    commit.ok().and_then(|commit| u32::from_str_radix(&commit, 16).ok()).unwrap_or(0)
}

fn all(extra: &[String], cases: &str) -> Outcome {
    let environment = setup::prepare()?;
    // One failing crate must not hide the results of the others.
    let mut command = cargo(["test", "--no-fail-fast"]);
    command.args(runner()).args(scope(extra)).args(extra).envs(environment).env(SWEEP, cases);
    let mut slowest = Slowest::default();
    let outcome = step("test", || {
        run_filtered(&mut command, |line| {
            slowest.read(line);
            true
        })
    });
    slowest.show();
    outcome
}
