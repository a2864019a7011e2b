//! Graphs: the captured operations run one after another at each launch of the graph.

use std::thread;

use crate::Status;
use crate::call::give;
use crate::state::{Capture, Graph, Handle, MODE, State};
use crate::status::*;

const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

impl State {
    fn begin_capture(&mut self, handle: Handle, mode: u32) -> Result<(), Status> {
        let at = self.stream(handle)?;
        if self.streams[at].handle < 2 {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if self.streams[at].capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        let graph = self.make();
        self.graphs.insert(graph, Graph { operations: Vec::new(), valid: true });
        let thread = thread::current().id();
        self.captures.insert(graph, Capture { origin: at, mode, thread, apart: Vec::new() });
        self.streams[at].capture = Some(graph);
        Ok(())
    }

    /// The graph, unless the capture was invalidated.
    fn end_capture(&mut self, handle: Handle) -> Result<Handle, Status> {
        let at = self.stream(handle)?;
        let made = self.streams[at].capture.ok_or(ILLEGAL_STATE)?;
        if self.captures.get(&made).is_none_or(|capture| capture.origin != at) {
            return Err(CAPTURE_UNMATCHED);
        }
        let capture = self.captures.remove(&made).ok_or(ILLEGAL_STATE)?;
        self.streams.iter_mut().filter(|stream| stream.capture == Some(made)).for_each(|s| s.capture = None);
        if !self.graphs.get(&made).is_some_and(|graph| graph.valid) {
            return Err(CAPTURE_INVALIDATED);
        }
        if !capture.apart.is_empty() {
            self.invalidate(made);
            return Err(CAPTURE_UNJOINED);
        }
        Ok(made)
    }

    pub(crate) fn invalidate(&mut self, graph: Handle) {
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.valid = false;
        }
    }

    /// May this thread make a call that a capture would not record? If not, the capture that forbids it is
    /// invalidated.
    pub(crate) fn unseen(&mut self) -> Result<(), Status> {
        let (thread, relaxed) = (thread::current().id(), MODE.get() == RELAXED);
        let forbids = |capture: &Capture| match capture.mode {
            _ if relaxed => false,
            GLOBAL => true,
            mode => mode != RELAXED && capture.thread == thread,
        };
        let entries: Vec<Handle> =
            self.captures.iter().filter(|(_, capture)| forbids(capture)).map(|(&graph, _)| graph).collect();
        entries.iter().for_each(|&graph| self.invalidate(graph));
        if entries.is_empty() { Ok(()) } else { Err(CAPTURE_UNSUPPORTED) }
    }

    /// Begins the capture that `FAKE_CAPTURE` asks for, unless the stream is already being captured.
    pub(crate) fn other_thread_begins(&mut self, stream: Handle) {
        if self.begin_capture(stream, RELAXED).is_ok() {
            self.other_thread = Some(stream);
        }
    }

    /// No work submitted by a safe program may be in the graph: it could run after the memory is freed.
    pub(crate) fn other_thread_ends(&mut self) {
        let Some(stream) = self.other_thread.take() else { return };
        let Ok(graph) = self.end_capture(stream) else { return };
        for (what, _) in &self.graphs[&graph].operations {
            self.hazards.push(format!("another thread has {what} in a graph"));
        }
    }
}

driver! {
    fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) |state| {
        state.begin_capture(stream, mode)
    }

    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) |state| {
        let ended = state.end_capture(stream);
        unsafe { give(graph, ended.unwrap_or(0)) };
        ended.map(drop)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) |_state| {
        // SAFETY: the caller's pointer is valid for its mode.
        unsafe { mode.write(MODE.replace(mode.read())) };
        Ok(())
    }

    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) |state| {
        let operations = state.graphs.get(&graph).ok_or(INVALID_VALUE)?.operations.clone();
        let made = state.make();
        state.graphs.insert(made, Graph { operations, valid: true });
        unsafe { give(executable, made) };
        Ok(())
    }

    fn cuGraphLaunch(executable: Handle, stream: Handle) |state| {
        let at = state.stream(stream)?;
        let operations = state.graphs.get(&executable).ok_or(INVALID_VALUE)?.operations.clone();
        for (what, ranges) in operations {
            state.carry_out(at, what, &ranges);
        }
        Ok(())
    }

    fn cuGraphUpload(executable: Handle, stream: Handle) |state| {
        state.stream(stream)?;
        state.graphs.get(&executable).map(drop).ok_or(INVALID_VALUE)
    }

    fn cuGraphExecDestroy(executable: Handle) |state| {
        state.graphs.remove(&executable).map(drop).ok_or(INVALID_VALUE)
    }

    fn cuGraphDestroy(graph: Handle) |state| {
        state.graphs.remove(&graph).map(drop).ok_or(INVALID_VALUE)
    }
}
