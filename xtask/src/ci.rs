//! What a change must pass.

use crate::shell::{Outcome, cargo, run as spawn, step};
use crate::{publish, test};

type Check = (&'static str, fn() -> Outcome);

const CHECKS: &[Check] = &[
    ("format", format),
    ("clippy", clippy),
    ("first run", first_run),
    ("test", || test::run(&[])),
    ("documentation", documentation),
    ("publish", publish::rehearse),
];

/// Runs every check even after a failure, so that one run reports all failures.
pub(crate) fn run(_: &[String]) -> Outcome {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        if let Err(message) = check() {
            eprintln!("    {message}");
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        eprintln!("==> ci: all {} checks passed", CHECKS.len());
        return Ok(());
    }
    Err(format!("ci: {} of {} checks failed: {}", failed.len(), CHECKS.len(), failed.join(", ")))
}

fn format() -> Outcome {
    step("format", || spawn(&mut cargo(["fmt", "--all", "--check"])))
}

fn clippy() -> Outcome {
    step("clippy", || {
        spawn(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
    })
}

/// The first command of the README.
fn first_run() -> Outcome {
    step("first run", || spawn(&mut cargo(["run", "--example", "matmul"])))
}

fn documentation() -> Outcome {
    step("documentation", || {
        spawn(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
    })
}
