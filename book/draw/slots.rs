//! The slots of a ring in time, from the events of a run in the simulator. Positions are the numbers of events, which are no times.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tilewright::prelude::*;
use tilewright::sim::{self, Arg, Event, Happening, Options};

use crate::{pipeline, ring};

const STAGES: usize = 3;

/// The state of a slot between two events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Filling,
    Full,
}

/// A state of a slot: the tile of this iteration, from one event to another.
struct Span {
    slot: usize,
    iteration: usize,
    state: State,
    from: usize,
    to: usize,
}

/// The ring of [`pipeline::row_sums`]: the copies of a stage are counted, since `cp.async` has no barrier for each slot.
pub(crate) fn of_pipeline() -> Result<String, sim::Error> {
    const ITERATIONS: usize = 8;
    let x = vec![1.0f32; 64 * 8 * ITERATIONS];
    let events =
        record(&pipeline::row_sums(), &[Arg::tensor(&x, [64, 8 * ITERATIONS]), Arg::output::<f32>([64])])?;
    let begun: Vec<(usize, u64)> = positions(&events, |happening| match happening {
        Happening::Begins { copy, .. } => Some(*copy),
        _ => None,
    });
    let warps = 2;
    let mut of_warp = vec![0; warps];
    let each = begun.len() / (ITERATIONS * warps);
    let mut filled = [(usize::MAX, 0); ITERATIONS];
    for (position, copy) in &begun {
        let warp = events[*position].warp.unwrap_or(0) as usize;
        let iteration = of_warp[warp] / each;
        of_warp[warp] += 1;
        let landed = events.iter().position(|event| event.happening == Happening::Lands { copy: *copy });
        let (first, last) = filled[iteration];
        filled[iteration] = (first.min(*position), last.max(landed.unwrap_or(events.len())));
    }
    let mut spans = Vec::new();
    for (iteration, &(from, landed)) in filled.iter().enumerate() {
        let reused = filled.get(iteration + STAGES).map_or(events.len(), |next| next.0);
        let slot = iteration % STAGES;
        spans.push(Span { slot, iteration, state: State::Filling, from, to: landed });
        spans.push(Span { slot, iteration, state: State::Full, from: landed, to: reused });
    }
    Ok(drawn("row_sums, 8 iterations", &spans, events.len()))
}

/// The ring of [`ring::added`]: each slot has two mbarriers, whose phases are events.
pub(crate) fn of_ring() -> Result<String, sim::Error> {
    const K: usize = 64 * 8;
    let rows = |of: Arg, stride: usize| of.strides([stride, 1]);
    let (operand, residual) = (vec![bf16::from_f32(1.0); 64 * K], vec![bf16::from_f32(0.0); 64 * 64]);
    let operand = rows(Arg::tensor(&operand, [64, K]), K);
    let (residual, c) = (rows(Arg::tensor(&residual, [64, 64]), 64), rows(Arg::output::<bf16>([64, 64]), 64));
    let events = record(&ring::added(), &[operand.clone(), operand, residual, c])?;
    let mut spans = Vec::new();
    for slot in 0..STAGES {
        let (full, empty) = (format!("ring_full[{slot}]"), format!("ring_empty[{slot}]"));
        let requested = positions(&events, |happening| match happening {
            Happening::Arrives { at, bytes } => (*at == full && *bytes > 0).then_some(()),
            _ => None,
        });
        let completed = |barrier: &str| {
            positions(&events, |happening| match happening {
                Happening::Completes { at, .. } => (at == barrier).then_some(()),
                _ => None,
            })
        };
        let (arrived, read) = (completed(&full), completed(&empty));
        for (phase, ((from, ()), (landed, ()))) in requested.iter().zip(&arrived).enumerate() {
            let iteration = slot + phase * STAGES;
            let free = read.get(phase).map_or(events.len(), |end| end.0);
            spans.push(Span { slot, iteration, state: State::Filling, from: *from, to: *landed });
            spans.push(Span { slot, iteration, state: State::Full, from: *landed, to: free });
        }
    }
    Ok(drawn("added, 8 iterations", &spans, events.len()))
}

/// The events of a run.
fn record(kernel: &impl Simulate, args: &[Arg]) -> Result<Vec<Event>, sim::Error> {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let seen = events.clone();
    let receive = move |event: &Event| {
        // Matrix products in flight are not drawn.
        if !matches!(event.happening, Happening::Issues { .. } | Happening::Finishes { .. }) {
            seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(event.clone());
        }
    };
    kernel.simulate_with(args, &Options { events: Some(Arc::new(receive)), ..Options::default() })?;
    Ok(std::mem::take(&mut *events.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
}

/// The positions of the events that are selected, with what is selected of each.
fn positions<T>(events: &[Event], select: impl Fn(&Happening) -> Option<T>) -> Vec<(usize, T)> {
    let selected = events.iter().enumerate();
    selected.filter_map(|(position, event)| Some((position, select(&event.happening)?))).collect()
}

/// Positions and sizes in pixels.
const LEFT: usize = 64;
const TOP: usize = 44;
const ROW: usize = 34;
const WIDTH: usize = 720;

const INK: &str = "#1c2430";
const FAINT: &str = "#6b7686";
const FILLING: &str = "#cfdcff";
const FULL: &str = "#d9f2bf";
const FREE: &str = "#f1f3f5";

/// One row for each slot; free, filling and full, with the number of the iteration.
fn drawn(title: &str, spans: &[Span], events: usize) -> String {
    let x = |position: usize| LEFT + position * WIDTH / events.max(1);
    let height = TOP + STAGES * ROW + 40;
    let width = LEFT + WIDTH + 14;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         style=\"max-width:100%;height:auto\" font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\">\n\
         <title>{title}</title>\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#ffffff\"/>\n\
         <text x=\"14\" y=\"24\" font-size=\"15\" font-weight=\"600\" fill=\"{INK}\">{title}</text>\n"
    );
    let mut rect = |x: usize, y: usize, width: usize, height: usize, colour: &str| {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
        );
    };
    for slot in 0..STAGES {
        rect(LEFT, TOP + slot * ROW, WIDTH, ROW - 6, FREE);
    }
    for span in spans.iter().filter(|span| span.from < span.to) {
        let colour = if span.state == State::Filling { FILLING } else { FULL };
        rect(x(span.from), TOP + span.slot * ROW, (x(span.to) - x(span.from)).max(2) - 1, ROW - 6, colour);
    }
    let legend = TOP + STAGES * ROW + 8;
    let keys = [(FREE, "free"), (FILLING, "copy in flight"), (FULL, "full, until it is read")];
    for (at, (colour, _)) in keys.iter().enumerate() {
        rect(LEFT + at * 190, legend, 14, 14, colour);
    }
    let mut text = |x: usize, y: usize, colour: &str, anchor: &str, words: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"12\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
        );
    };
    for slot in 0..STAGES {
        text(LEFT - 8, TOP + slot * ROW + 18, FAINT, "end", &format!("slot {slot}"));
    }
    for span in spans.iter().filter(|span| span.state == State::Full) {
        let middle = (x(span.from) + x(span.to)) / 2;
        text(middle, TOP + span.slot * ROW + 18, INK, "middle", &format!("{}", span.iteration));
    }
    for (at, (_, words)) in keys.iter().enumerate() {
        text(LEFT + at * 190 + 20, legend + 12, FAINT, "start", words);
    }
    svg.push_str("</svg>\n");
    svg
}
