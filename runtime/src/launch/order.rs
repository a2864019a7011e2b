//! The order of a launch with other streams, by our own events, independently of cudarc's tracking.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{self, CUpointer_attribute_enum};
use cudarc::driver::{CudaContext, CudaStream, DriverError};
use tilewright_program::launch::Refusal;

use crate::argument::{Argument, Kind};
use crate::error::{Error, Fault, While};
use crate::stream::{Stream, is_capturing, is_default, is_per_thread, is_recorded, is_same, per_thread};
use crate::tensor::Owner;

/// The first version of CUDA whose graphs have edges of programmatic dependent launch.
const PROGRAMMATIC_EDGES: (i32, i32) = (12, 3);

/// The order of one launch relative to all streams.
pub(crate) struct Order<'s> {
    stream: &'s Stream,
    /// Streams of buffers other than the launch's own, each once.
    others: Vec<Arc<CudaStream>>,
    /// The contexts of all streams other than the launch's own, each value of cudarc once: equal values keep separate error
    /// states.
    contexts: Vec<Arc<CudaContext>>,
    /// Must the launch wait for the kernel, because no one else keeps a buffer alive until then?
    waits: bool,
}

impl<'s> Order<'s> {
    /// Finds the streams, and refuses streams that cannot be ordered. Its only driver call asks whether
    /// streams are captured.
    pub(crate) fn find(
        stream: &'s Stream,
        name: &dyn Fn(usize) -> &'s str,
        arguments: &[Argument<'_>],
    ) -> Result<Order<'s>, Error> {
        let launch = stream.cuda();
        let (mut others, mut waits) = (Vec::<Arc<CudaStream>>::new(), false);
        let mut contexts = Vec::<Arc<CudaContext>>::new();
        for (index, argument) in arguments.iter().enumerate() {
            let Kind::Tensor(lent) = &argument.kind else { continue };
            let name = name(index);
            let own = lent.buffer.stream();
            if own.context() != launch.context() {
                return Err(elsewhere(name, own, launch).into());
            }
            // A launch on the per-thread stream comes from `Stream::from_cuda_in_thread`.
            if is_per_thread(own) && !is_per_thread(launch) {
                return Err(per_thread(&format!("the stream of argument `{name}`")));
            }
            let is_known = |known: &Arc<CudaContext>| Arc::ptr_eq(known, own.context());
            if !is_known(launch.context()) && !contexts.iter().any(is_known) {
                contexts.push(own.context().clone());
            }
            // cudarc frees a slice of the default stream in the order of the default stream of the context
            // that is then current, and a slice that comes from no pool immediately after waiting for the
            // stream, even if the wait failed.
            let is_ordered = !is_default(own) && own.context().has_async_alloc();
            waits |= !is_ordered && !matches!(lent.buffer.owner, Owner::Tensor(_));
            if !is_same(own, launch)
                && !stream.is_forked_from(own)
                && !others.iter().any(|other| is_same(own, other))
            {
                others.push(own.clone());
            }
        }
        let order = Order { stream, others, contexts, waits };
        order.check_errors().doing("looking for errors of what cudarc did before")?;
        if stream.is_recording() {
            order.recorded()?;
        } else if stream.is_captured_elsewhere()? {
            return Err(captured("the stream"));
        }
        for other in &order.others {
            if is_capturing(other)? {
                return Err(captured("the stream of a buffer"));
            }
        }
        Ok(order)
    }

    /// cudarc stores errors of its bookkeeping in the context value of each stream until asked. Returns the
    /// first, and clears all.
    pub(crate) fn check_errors(&self) -> Result<(), DriverError> {
        let all = std::iter::once(self.stream.cuda().context()).chain(&self.contexts);
        all.map(|context| context.check_err()).fold(Ok(()), Result::and)
    }

    /// A captured stream cannot wait, and cannot use events of other streams.
    fn recorded(&self) -> Result<(), Error> {
        if self.others.is_empty() && !self.waits {
            return Ok(());
        }
        Err(Refusal::new("a tensor was made on another stream than the one that is captured")
            .help("make the tensors of a captured launch on the stream that is captured")
            .into())
    }

    /// Memory that does not come from a pool is not freed in stream order: a module's, for one.
    pub(crate) fn view(&mut self, address: u64, elements: u64) -> Result<(), Error> {
        if self.waits || elements == 0 || is_from_pool(self.stream.cuda(), address)? {
            return Ok(());
        }
        self.waits = true;
        if self.stream.is_recording() { self.recorded() } else { Ok(()) }
    }

    /// May the kernel use programmatic dependent launch? Not if it waits for other streams first: the combination is not
    /// specified. Captured, the order is an edge of the graph, for drivers that know such edges.
    pub(crate) fn overlaps(&self) -> bool {
        let is_known =
            || self.stream.device().driver_version().is_ok_and(|version| version >= PROGRAMMATIC_EDGES);
        self.others.is_empty() && (!self.stream.is_recording() || is_known())
    }

    /// The launch waits for the streams of its buffers. Another thread may start to capture one of them at
    /// any time. The event shows whether it was recorded outside of a capture; otherwise the kernel is not
    /// submitted.
    pub(crate) fn before(&self) -> Result<(), Error> {
        const DOING: &str = "ordering a launch after its buffers' streams";
        let launch = self.stream.cuda();
        for other in &self.others {
            let event = other.record_event(None).doing(DOING)?;
            if !is_recorded(&event)? {
                return Err(captured("the stream of a buffer"));
            }
            launch.wait(&event).doing(DOING)?;
        }
        Ok(())
    }

    /// The streams of the buffers wait for the launch, then cudarc's tracking is updated. If anything fails,
    /// the kernel has ended before the error is returned. Returns whether it waited.
    ///
    /// A captured stream cannot wait for uncaptured work: the driver refuses that, so the launch waits here.
    pub(crate) fn after(self, tell: impl FnOnce()) -> Result<bool, Error> {
        let launch = self.stream.cuda();
        let ordered = self.others_wait();
        tell();
        let ordered = ordered
            .and(self.check_errors())
            .map_err(|error| ("ordering a launch before what its buffers' streams do next", error));
        // Only if the owner of the stream broke the promise that nobody captures it.
        let captured = self.stream.is_captured_elsewhere();
        if ordered.is_ok() && matches!(captured, Ok(false)) && !self.waits {
            return Ok(false);
        }
        // Waiting for a captured stream invalidates the graph: captured work never runs.
        let ended = launch.synchronize();
        if ended.is_err() {
            // Then wait for the whole context; if that fails too, the context is lost, with all its work.
            let _ = launch.context().synchronize();
        }
        let fault = |(doing, error)| Error::Driver(Fault { doing, error, submitted: true });
        ordered.map_err(fault)?;
        match captured {
            Ok(false) => {}
            Ok(true) => return Err(self::captured("the stream")),
            Err(Error::Driver(Fault { doing, error, .. })) => return Err(fault((doing, error))),
            Err(error) => return Err(error),
        }
        ended.map_err(|error| fault(("waiting for the kernel", error)))?;
        Ok(true)
    }

    fn others_wait(&self) -> Result<(), DriverError> {
        if self.others.is_empty() {
            return Ok(());
        }
        let event = self.stream.cuda().record_event(None)?;
        self.others.iter().try_for_each(|other| other.wait(&event))
    }
}

fn elsewhere(name: &str, own: &CudaStream, launch: &CudaStream) -> Refusal {
    let (there, here) = (own.context().ordinal(), launch.context().ordinal());
    let message = if there == here {
        format!("it is in another context of device {here} than the stream")
    } else {
        format!("it is on device {there}, and the stream is on device {here}")
    };
    Refusal::of(name, message).help("copy it to the stream's device first, or launch on a stream of its own")
}

fn captured(what: &str) -> Error {
    Refusal::new(format!("{what} is being captured into a graph, which could run when the tensors are gone"))
        .help("capture with `Stream::capture`, which says what must hold")
        .into()
}

/// Was the memory at an address allocated from a pool, in stream order?
fn is_from_pool(stream: &CudaStream, address: u64) -> Result<bool, Error> {
    const DOING: &str = "asking where a buffer comes from";
    stream.context().bind_to_thread().doing(DOING)?;
    let mut pool: *mut std::ffi::c_void = std::ptr::null_mut();
    let what = CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    // SAFETY: the attribute is one pointer, and `pool` lives through the call. Any address may be
    // queried.
    unsafe { sys::cuPointerGetAttribute((&raw mut pool).cast(), what, address) }.result().doing(DOING)?;
    Ok(!pool.is_null())
}
