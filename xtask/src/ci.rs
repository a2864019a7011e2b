//! The checks that a change must pass.

use std::time::Instant;

use crate::shell::{Outcome, cargo, run as spawn, step};
use crate::{first_run, publish, test, words};

type Check = (&'static str, fn() -> Outcome);

const CHECKS: &[Check] = &[
    ("format", format),
    ("words", || words::run(&[])),
    ("clippy", clippy),
    ("first run", first_run::run),
    ("test", || test::run(&[])),
    ("documentation", documentation),
    ("publish", publish::rehearse),
];

/// Runs every check even after a failure, so that one run reports all failures; then how long each took, the longest first.
pub(crate) fn run(_: &[String]) -> Outcome {
    let mut failed = Vec::new();
    let mut times = Vec::new();
    for (name, check) in CHECKS {
        let start = Instant::now();
        if let Err(message) = check() {
            eprintln!("    {message}");
            failed.push(*name);
        }
        times.push((start.elapsed().as_secs_f64(), name));
    }
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    times.iter().for_each(|(seconds, name)| eprintln!("{seconds:>8.1} s  {name}"));
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
        // With the macros of the tests.
        let clippy = |of: &[&str]| {
            spawn(cargo(["clippy", "--profile=test"]).args(of).args(["--", "--deny", "warnings"]))
        };
        clippy(&["--workspace", "--all-targets"])?;
        // Alone the facade has its default features, and so no generator.
        clippy(&["--package=tilewright"])?;
        // The command as a library for a program's own kernels, without the shipped ones.
        clippy(&["--package=tilewright-cli", "--no-default-features"])
    })
}

fn documentation() -> Outcome {
    step("documentation", || {
        spawn(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
    })
}
