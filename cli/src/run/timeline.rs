//! The timeline of a block: of the simulator's events, and the file that it is written to.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use tilewright_codegen::Generated;
use tilewright_codegen::launch::timeline::{Interval, Timeline};
use tilewright_codegen::thread::Op;
use tilewright_codegen::thread::visit::preorder;
use tilewright_sim::{Event, Happening, OnEvent};

use crate::output::{Failure, Result};

/// The events of a run so far.
pub(super) type Events = Arc<Mutex<Vec<Event>>>;

/// What receives the events.
pub(super) fn receiver(events: &Events) -> OnEvent {
    let events = events.clone();
    Arc::new(move |event: &Event| {
        events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    })
}

/// The timeline of the first block of a run of a variant. Its time is the number of events before.
pub(super) fn of_events(events: &Events, kernel: &Generated, variant: usize) -> Timeline {
    let events = events.lock().unwrap_or_else(PoisonError::into_inner);
    let body = &kernel.probed().variant(variant).program.body;
    let roles =
        preorder(body).filter_map(|stmt| if let Op::Roles(all) = &stmt.op { Some(all) } else { None });
    let roles: Vec<_> = roles.flatten().collect();
    let role = |warp: u32| {
        let of = roles.iter().find(|role| (role.warps.0..role.warps.1).contains(&warp));
        of.map_or(String::new(), |role| role.name.clone())
    };
    let mut timeline = Timeline { intervals: Vec::new(), unit: "steps" };
    let mut open: BTreeMap<u32, (u64, String, Option<String>)> = BTreeMap::new();
    let block = events.first().map(|event| event.block);
    for (now, event) in (0u64..).zip(events.iter()) {
        let Some(warp) = event.warp.filter(|_| Some(event.block) == block) else { continue };
        let next = match &event.happening {
            Happening::Runs => Some("runs".to_owned()),
            Happening::Waits { what, .. } => Some(format!("wait for {what}")),
            Happening::Begins { to, .. } => Some(format!("copy to {to}")),
            Happening::Issues { .. } => Some("multiply".to_owned()),
            Happening::Ends => None,
            _ => continue,
        };
        if let Some((from, name, line)) = open.remove(&warp).filter(|(from, ..)| *from < now) {
            timeline.intervals.push(Interval { warp, role: role(warp), name, line, from, to: now });
        }
        open.extend(next.map(|name| (warp, (now, name, event.line.clone()))));
    }
    timeline
}

/// Writes a timeline to a file, in the form that its name asks for.
pub(super) fn write(timeline: &Timeline, file: &str) -> Result {
    fs::write(file, timeline.for_file(file)).map_err(|why| Failure::of(format!("writing {file}: {why}")))
}
