//! Graphs: what was captured is done, as one operation after another, each time that the graph is launched.

use crate::call::give;
use crate::state::{Graph, Handle};
use crate::status::*;

driver! {
    fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) |state| {
        let at = state.stream(stream)?;
        if state.streams[at].handle < 2 {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if state.streams[at].capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        let graph = state.make();
        state.graphs.insert(graph, Graph { operations: Vec::new(), valid: true });
        state.streams[at].capture = Some(graph);
        Ok(())
    }

    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) |state| {
        let at = state.stream(stream)?;
        let made = state.streams[at].capture.ok_or(ILLEGAL_STATE)?;
        for stream in &mut state.streams {
            if stream.capture == Some(made) {
                stream.capture = None;
            }
        }
        if !state.graphs.get(&made).is_some_and(|graph| graph.valid) {
            unsafe { give(graph, 0) };
            return Err(CAPTURE_INVALIDATED);
        }
        unsafe { give(graph, made) };
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
