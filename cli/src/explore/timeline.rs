//! A run in the simulator as its events.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tilewright_sim::{Event, Happening};

use super::answers::Question;
use crate::output::Result;
use crate::run;

/// Later events are left out.
const MOST_EVENTS: usize = 20_000;

/// Events, and whether some are left out.
type Recorded = (Vec<Value>, bool);

/// The run, with the events of its first cluster of blocks.
pub(super) fn run(question: &Question) -> Result<Value> {
    let chosen = question.kernel()?;
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
    let mut answer =
        run::simulate(&chosen, question.given("size"), question.number("seed").unwrap_or(0), events)?;
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
    }
}
