//! A run as JSON.

use serde_json::{Value, json};
use tilewright_sim::{Fault, Party};

use super::Shown;
use super::problem::Problem;
use super::reference::Comparison;
use crate::inspect;
use crate::kernel::Chosen;

/// A fault with the threads that take part in it.
pub(super) fn fault(fault: &Fault) -> Value {
    let party = |party: &Party| json!({ "block": party.block, "threads": party.threads, "doing": party.doing, "line": party.line });
    json!({
        "fault": fault.to_string(),
        "message": fault.message(),
        "parties": fault.parties().iter().map(party).collect::<Vec<_>>(),
        "help": fault.help(),
        "variant": fault.variant() + 1,
        "seed": fault.seed(),
    })
}

/// A run, and the comparison of its results.
pub(super) fn run(
    chosen: &Chosen,
    problem: &Problem,
    seed: u64,
    shown: &Shown,
    compared: Option<&Comparison>,
) -> Value {
    let sizes: serde_json::Map<String, Value> =
        problem.sizes.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
    let compared = compared.map(|comparison| {
        json!({
            "right": comparison.is_right(),
            "largest_error": comparison.error,
            "part_of_rounding": comparison.share,
            "wrong": comparison.wrong,
            "elements": comparison.elements,
        })
    });
    json!({
        "kernel": chosen.name,
        "device": shown.device,
        "sizes": sizes,
        "seed": seed,
        "comparison": compared,
        "report": inspect::report(&tilewright_codegen::report_of(&chosen.generated, shown.variant.unwrap_or(0))),
        "run": shown.json,
    })
}
