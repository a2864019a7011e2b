//! The simulator must report faults in broken kernels, and none in correct ones: the long version of the
//! test `mutants`, with 1,000 seeds. Choreographies run under 200 schedules each.

use crate::shell::{Outcome, cargo, run as spawn, step};

pub(crate) fn run(_: &[String]) -> Outcome {
    let mut command = cargo([
        "test",
        "--release",
        "--package",
        "tilewright-tests",
        "--test",
        "mutants",
        "--test",
        "simulated",
    ]);
    command.args([
        "--",
        "--ignored",
        "--nocapture",
        "a_thousand_seeds",
        "few_seeds_catch_what_many_do",
        "all_of_them_under_200_schedules",
    ]);
    step("mutants", || spawn(&mut command))
}
