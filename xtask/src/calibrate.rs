//! Fits the rates of the estimate (`codegen/program/src/launch/estimate/rates.rs`) to the times in `bench/results`: at half of the sizes,
//! judged at the other half. Prints the rates that change.

use crate::shell::{Outcome, cargo, run as spawn, step};

pub(crate) fn run(_: &[String]) -> Outcome {
    let mut command = cargo(["test", "--release", "--package", "tilewright-tests", "--test", "choose"]);
    command.args(["--", "--ignored", "--exact", "--nocapture", "calibrate::calibrate"]);
    step("calibrate", || spawn(&mut command))
}
