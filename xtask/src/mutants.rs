//! The simulator must report faults in broken kernels, and none in correct ones: the long version of the
//! test `mutants`, with 1,000 seeds. Choreographies run under 200 schedules each. Then 1,000 faults of random kernels, by class.

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
    command.args(["--", "--ignored", "--nocapture", "a_thousand_seeds", "all_of_them_under_200_schedules"]);
    step("mutants", || spawn(&mut command))?;
    let mut drawn =
        cargo(["run", "--quiet", "--profile=fuzz", "--package=tilewright-fuzz", "--bin", "mutation"]);
    step("faults of random kernels", || spawn(drawn.args(["--", "1000"])))
}
