//! Long random testing. A fuzz target is a property test named `fuzz_*` and marked `#[ignore]` that takes its
//! number of cases from proptest's default configuration.

use crate::kernels;
use crate::shell::{Outcome, capture, cargo, judge, run_filtered, step};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DEFAULT_SECONDS: u64 = 60;
const FIRST_RUN: u32 = 1_000;
/// A run may be this much longer than the one before: its speed is extrapolated from that one.
const GROWTH: f64 = 10.0;

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some((word, rest)) = arguments.split_first()
        && word == "kernels"
    {
        return kernels::run(rest);
    }
    let budget = match arguments {
        [] => Duration::from_secs(DEFAULT_SECONDS),
        [text] => seconds(text)?,
        _ => return Err("`cargo xtask fuzz` takes one number of seconds".into()),
    };
    let targets = step("build fuzz targets", list_targets)?;
    if targets.is_empty() {
        return Err("no fuzz targets: no test is both named `fuzz_*` and marked `#[ignore]`".into());
    }
    let title = format!("fuzz {} for {} s", targets.join(", "), budget.as_secs());
    step(&title, || rounds(budget))
}

/// Runs all targets, each time with more cases, until the time is used. Every run draws new cases.
fn rounds(budget: Duration) -> Outcome {
    let start = Instant::now();
    let mut cases = FIRST_RUN;
    loop {
        eprintln!("    {cases} cases for each target");
        let started = Instant::now();
        run_filtered(&mut fuzz_run(cases), tells_something).map_err(|message| {
            format!("{message}\nThe case is above; commit the seed that proptest wrote for it with the fix")
        })?;
        let left = budget.saturating_sub(start.elapsed());
        let Some(next) = next_run(cases, started.elapsed(), left, budget) else {
            return Ok(());
        };
        cases = next;
    }
}

/// Drops routine output of test binaries in every run: the number of tests, dots, success.
fn tells_something(line: &str) -> bool {
    let routine = line.starts_with("running ") || line.starts_with("test result: ok.");
    !routine && !line.chars().all(|letter| letter == '.')
}

/// How many cases fit into the time that is left; none when that is not worth another start.
fn next_run(cases: u32, took: Duration, left: Duration, budget: Duration) -> Option<u32> {
    if left < budget / 20 {
        return None;
    }
    let scale = (left.as_secs_f64() / took.as_secs_f64().max(1e-3)).min(GROWTH);
    Some((f64::from(cases) * scale).max(1.0) as u32)
}

fn fuzz_run(cases: u32) -> Command {
    // A long run discards many cases in total; only a test that discards nearly all should fail for it.
    let rejects = cases.saturating_mul(20);
    let mut command = fuzz_targets();
    command.env("CARGO_TERM_QUIET", "true");
    command.env("PROPTEST_CASES", cases.to_string());
    command.env("PROPTEST_MAX_GLOBAL_REJECTS", rejects.to_string());
    command
}

fn list_targets() -> Outcome<Vec<String>> {
    let mut command = fuzz_targets();
    command.arg("--list").stderr(Stdio::inherit());
    let output = capture(&mut command)?;
    judge(&command, output.status)?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(String::from).collect())
}

/// Optimised, with overflow checks and debug assertions: see `profile.fuzz` in the workspace's `Cargo.toml`.
fn fuzz_targets() -> Command {
    let mut command = cargo(["test", "--workspace", "--tests", "--profile=fuzz"]);
    command.args(["--", "fuzz_", "--ignored"]);
    command
}

fn seconds(text: &str) -> Outcome<Duration> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(Duration::from_secs(count)),
        _ => Err(format!("`{text}` is not a number of seconds; for example: cargo xtask fuzz 600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cases: u32, took: u64, left: u64, expected: Option<u32>) {
        let budget = Duration::from_secs(100);
        let next = next_run(cases, Duration::from_secs(took), Duration::from_secs(left), budget);
        assert_eq!(next, expected, "{cases} cases took {took} s, {left} s of 100 left");
    }

    #[test]
    fn rounds_fill_the_time() {
        check(1_000, 0, 100, Some(10_000)); // too fast to measure: grow, but not blindly
        check(1_000, 1, 99, Some(10_000));
        check(1_000, 20, 80, Some(4_000)); // exactly what is left
        check(1_000, 90, 9, Some(100));
        check(1_000, 97, 3, None);
        check(1_000, 200, 0, None);
        check(1, 50, 10, Some(1));
    }

    #[test]
    fn only_news_is_shown() {
        for routine in ["", "running 0 tests", "..", "test result: ok. 2 passed; 0 failed"] {
            assert!(!tells_something(routine), "{routine}");
        }
        for news in ["fuzz_parse --- FAILED", "test result: FAILED. 1 passed", "a = 3"] {
            assert!(tells_something(news), "{news}");
        }
    }
}
