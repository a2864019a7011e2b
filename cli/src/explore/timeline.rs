//! A run in the simulator as its events.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tilewright_codegen::launch::Given;
use tilewright_sim::{Event, Happening};

use super::answers::Question;
use super::kernels;
use crate::output::{Failure, Result};
use crate::run;
use crate::run::problem::unallocated;

/// Later events are left out.
const MOST_EVENTS: usize = 20_000;

/// Elements of all tensors of a run: with more it would take too long, and fill the memory meanwhile.
const MOST_ELEMENTS: u64 = 1 << 24;

/// Events, and whether some are left out.
type Recorded = (Vec<Value>, bool);

/// The run, with the events of its first cluster of blocks.
pub(super) fn run(question: &Question) -> Result<Value> {
    let chosen = kernels::with_lines(question.kernel()?);
    let recorded: Arc<Mutex<Recorded>> = Arc::default();
    let seen = recorded.clone();
    let events = Arc::new(move |event: &Event| {
        // A panic elsewhere leaves the list as it is.
        let mut recorded = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match recorded.0.len() < MOST_EVENTS {
            true => recorded.0.push(as_json(event)),
            false => recorded.1 = true,
        }
    });
    let (sizes, inputs) = (question.given("size"), question.inputs()?);
    let (_, arguments) = unallocated(&chosen.generated, sizes, &inputs)?;
    let elements = arguments.iter().map(|argument| match argument {
        Given::Tensor(tensor) => tensor.len,
        Given::Scalar(_) => 1,
    });
    let elements = elements.fold(0, u64::saturating_add);
    if elements > MOST_ELEMENTS {
        let other = match chosen.written {
            Some(_) => String::new(),
            None => format!(", or `tilewright run {}`", chosen.name),
        };
        return Err(Failure::Refused(format!(
            "these sizes make {elements} elements, and a run on this page has at most {MOST_ELEMENTS}\nhelp: take smaller sizes{other}"
        )));
    }
    let mut answer = run::simulate(&chosen, sizes, &inputs, question.number("seed").unwrap_or(0), events)?;
    let mut recorded = recorded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    answer["events"] = std::mem::take(&mut recorded.0).into();
    answer["cut"] = recorded.1.into();
    Ok(answer)
}

/// `[block, warp, what, line, …]`
fn as_json(event: &Event) -> Value {
    let Event { block, warp, happening, line } = event;
    match happening {
        Happening::Runs => json!([block, warp, "runs", line]),
        Happening::Waits { at, what } => json!([block, warp, "waits", line, what, at]),
        Happening::Ends => json!([block, warp, "ends", line]),
        Happening::Meets(barrier) => json!([block, warp, "meets", line, barrier]),
        Happening::Arrives { at, bytes } => json!([block, warp, "arrives", line, at, bytes]),
        Happening::Completes { at, phase } => json!([block, warp, "completes", line, at, phase]),
        Happening::Begins { copy, to, bytes } => json!([block, warp, "begins", line, copy, to, bytes]),
        Happening::Lands { copy } => json!([block, warp, "lands", line, copy]),
        Happening::Issues { product, warpgroup } => json!([block, warp, "issues", line, product, warpgroup]),
        Happening::Finishes { product, warpgroup } => {
            json!([block, warp, "finishes", line, product, warpgroup])
        }
    }
}
