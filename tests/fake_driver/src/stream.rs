//! Streams and events.

use std::ffi::c_int;

use crate::Status;
use crate::call::give;
use crate::order::Clock;
use crate::state::{Event, Handle, State};
use crate::status::*;

const NON_BLOCKING: u32 = 1;

impl State {
    fn new_stream(&mut self, flags: u32) -> Result<Handle, Status> {
        let context = self.current()?;
        let made = self.make();
        self.add_stream(made, context, flags & NON_BLOCKING == 0);
        Ok(made)
    }

    fn finished(&self, clock: &Clock) -> bool {
        let mut joined = self.done.clone();
        joined.join(clock);
        format!("{joined:?}") == format!("{:?}", self.done)
    }
}

driver! {
    fn cuStreamCreate(stream: *mut Handle, flags: u32) |state| {
        let made = state.new_stream(flags)?;
        unsafe { give(stream, made) };
        Ok(())
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: u32, priority: c_int) |state| {
        let made = state.new_stream(flags)?;
        unsafe { give(stream, made) };
        Ok(())
    }

    // Work submitted to it continues.
    fn cuStreamDestroy_v2(stream: Handle) |state| {
        if stream <= 2 {
            return Err(INVALID_HANDLE);
        }
        let at = state.stream(stream)?;
        state.streams[at].alive = false;
        Ok(())
    }

    fn cuStreamSynchronize(stream: Handle) |state| {
        let at = state.stream(stream)?;
        if let Some(graph) = state.streams[at].capture {
            state.invalidate(graph);
            return Err(CAPTURE_UNSUPPORTED);
        }
        state.catch_up(at);
        let clock = state.streams[at].clock.clone();
        state.done.join(&clock);
        Ok(())
    }

    fn cuStreamQuery(stream: Handle) |state| {
        let at = state.stream(stream)?;
        if state.streams[at].capture.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if state.finished(&state.streams[at].clock) { Ok(()) } else { Err(NOT_READY) }
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) |state| {
        let at = state.stream(stream)?;
        let entry = state.events.get(&event).ok_or(INVALID_HANDLE)?;
        let (captured, by, clock) = (entry.captured, entry.stream, entry.recorded.clone());
        // An event of a finished capture counts as unrecorded.
        if captured.is_some_and(|graph| !state.captures.contains_key(&graph)) {
            return Err(INVALID_VALUE);
        }
        match (state.streams[at].capture, captured) {
            // The stream joins the capture that the event belongs to.
            (None, Some(graph)) => state.streams[at].capture = Some(graph),
            (Some(graph), Some(of)) if graph == of => {
                let capture = state.captures.get_mut(&graph).ok_or(CAPTURE_INVALIDATED)?;
                if capture.origin == at {
                    capture.apart.retain(|&stream| stream != by);
                }
            }
            (Some(graph), _) => {
                state.invalidate(graph);
                return Err(CAPTURE_ISOLATION);
            }
            (None, None) => state.streams[at].clock.join(&clock.unwrap_or_default()),
        }
        Ok(())
    }

    fn cuStreamIsCapturing(stream: Handle, capture: *mut u32) |state| {
        let at = state.stream(stream)?;
        let graph = state.streams[at].capture.and_then(|graph| state.graphs.get(&graph));
        unsafe { give(capture, graph.map_or(0, |graph| if graph.valid { 1 } else { 2 })) };
        Ok(())
    }

    fn cuStreamGetCtx(stream: Handle, context: *mut Handle) |state| {
        let at = state.stream(stream)?;
        unsafe { give(context, state.streams[at].context) };
        Ok(())
    }

    fn cuStreamGetFlags(stream: Handle, flags: *mut u32) |state| {
        let at = state.stream(stream)?;
        unsafe { give(flags, u32::from(!state.streams[at].blocking)) };
        Ok(())
    }

    fn cuEventCreate(event: *mut Handle, flags: u32) |state| {
        let context = state.current()?;
        let made = state.make();
        state.events.insert(made, Event { context, recorded: None, asked: false, captured: None, stream: 0 });
        unsafe { give(event, made) };
        Ok(())
    }

    fn cuEventDestroy_v2(event: Handle) |state| {
        state.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuEventRecord(event: Handle, stream: Handle) |state| {
        let at = state.stream(stream)?;
        state.catch_up(at);
        let (context, capture) = (state.streams[at].context, state.streams[at].capture);
        let clock = state.streams[at].clock.clone();
        let event = state.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        if event.context != context {
            return Err(INVALID_HANDLE);
        }
        (event.captured, event.stream) = (capture, at);
        event.recorded = capture.is_none().then_some(clock);
        event.asked = false;
        Ok(())
    }

    fn cuEventSynchronize(event: Handle) |state| {
        let event = state.events.get(&event).ok_or(INVALID_HANDLE)?;
        if event.captured.is_some() {
            return Err(CAPTURED_EVENT);
        }
        let clock = event.recorded.clone().unwrap_or_default();
        state.done.join(&clock);
        Ok(())
    }

    // The first query returns `NOT_READY`.
    fn cuEventQuery(event: Handle) |state| {
        state.unseen()?;
        let entry = state.events.get(&event).ok_or(INVALID_HANDLE)?;
        if let Some(graph) = entry.captured {
            let lasts = state.captures.contains_key(&graph);
            state.invalidate(graph);
            return Err(if lasts { CAPTURED_EVENT } else { INVALID_VALUE });
        }
        let clock = entry.recorded.clone().unwrap_or_default();
        let ready = entry.asked || state.finished(&clock);
        if let Some(entry) = state.events.get_mut(&event) {
            entry.asked = true;
        }
        if !ready {
            return Err(NOT_READY);
        }
        state.done.join(&clock);
        Ok(())
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) |state| {
        for event in [start, end] {
            state.events.get(&event).ok_or(INVALID_HANDLE)?;
        }
        unsafe { give(milliseconds, 0.125) };
        Ok(())
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) |state| {
        for event in [start, end] {
            state.events.get(&event).ok_or(INVALID_HANDLE)?;
        }
        unsafe { give(milliseconds, 0.125) };
        Ok(())
    }
}
