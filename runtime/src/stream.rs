//! Streams: queues of work on a device, with timing and graph capture.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::sys::{
    self, CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode, CUstreamCaptureStatus, cudaError_enum,
};
use cudarc::driver::{CudaEvent, CudaGraph, CudaStream, DriverError};

use tilewright_program::launch::Refusal;

use crate::device::Device;
use crate::driver::{GRAPH_FUNCTIONS, driver};
use crate::error::{Error, While};
use crate::tensor::DeviceTensor;

/// A stream of a device: launches on it run in order.
///
/// Clones are the same stream. After the last clone is dropped, submitted work still runs to its end:
/// every buffer that it uses is freed after it, in stream order.
///
/// The driver's stream is private to this type: no safe call returns it. Any thread may start to capture a
/// stream of cudarc into a graph at any time, and the driver cannot tell afterwards whether a kernel was
/// run or captured. A private stream is captured only by [`Stream::capture`].
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    cuda: Arc<CudaStream>,
    /// Is work of this stream being captured into a graph, by [`Stream::capture`]?
    recording: AtomicBool,
    /// Has code outside of this crate had the driver's stream?
    shared: AtomicBool,
    /// Memory for launches that copy arguments first, or whose blocks pass sums to each other, one launch after the other; and
    /// memory that is 0 between launches.
    workspace: Mutex<[Option<Arc<Workspace>>; 2]>,
    /// The workspaces of launches that are being captured.
    captured: Mutex<Vec<Arc<Workspace>>>,
    /// The stream whose tensors it uses without waiting, while a [`Fork`] orders both.
    forked_from: Mutex<Option<Arc<CudaStream>>>,
    /// Multiprocessors that persistent kernels leave to the second stream of a [`Fork`].
    reserved: AtomicU32,
}

/// Memory of a stream that a launch owns from its first kernel to its last.
pub(crate) type Workspace = DeviceTensor<u8, 1>;

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Stream, Error> {
        let cuda = device.context().new_stream().doing("making a stream")?;
        Ok(Stream::around(device.clone(), cuda, false))
    }

    fn around(device: Device, cuda: Arc<CudaStream>, shared: bool) -> Stream {
        let (recording, workspace, captured, forked_from, reserved) = Default::default();
        let shared = AtomicBool::new(shared);
        let inner = Inner { device, cuda, recording, shared, workspace, captured, forked_from, reserved };
        Stream { inner: Arc::new(inner) }
    }

    /// A stream of cudarc, or of another library through cudarc.
    ///
    /// # Safety
    /// For as long as the result, or a tensor that was made on it, is alive:
    /// - the stream exists and belongs to the context that it names;
    /// - foreign work on it is ordered with the tensors that are launched on it; foreign dependent launches
    ///   (programmatic stream serialization) end after the kernel before them;
    /// - nobody captures it into a graph except by [`Stream::capture`].
    pub unsafe fn from_cuda(stream: Arc<CudaStream>) -> Result<Stream, Error> {
        if is_per_thread(&stream) {
            return Err(per_thread("a stream"));
        }
        Ok(Stream::around(Device::of(stream.context())?, stream, true))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// A stream of cudarc for the calling thread alone, which may be cudarc's per-thread stream. Buffers of the per-thread stream can
    /// then be lent too.
    ///
    /// # Safety
    /// As for [`Stream::from_cuda`], and where it is the per-thread stream:
    /// - only the calling thread uses the result;
    /// - buffers of the per-thread stream that other threads allocate or free are ordered with launches, for example by the events of
    ///   cudarc.
    pub unsafe fn from_cuda_in_thread(stream: Arc<CudaStream>) -> Result<Stream, Error> {
        Ok(Stream::around(Device::of(stream.context())?, stream, true))
    }

    /// The stream as cudarc knows it. Ordering cudarc's buffers with launches does not need it: lend them
    /// ([`crate::TensorRef`]), or hand them over ([`crate::DeviceTensor::from_slice`]).
    ///
    /// # Safety
    /// As for [`Stream::from_cuda`]:
    /// - foreign work on it is ordered with the tensors that are launched on this stream;
    /// - nobody captures it or its clones into a graph except by [`Stream::capture`].
    pub unsafe fn cuda_stream(&self) -> &Arc<CudaStream> {
        self.inner.shared.store(true, Ordering::SeqCst);
        self.cuda()
    }

    pub(crate) fn cuda(&self) -> &Arc<CudaStream> {
        &self.inner.cuda
    }

    /// Waits until all submitted work is done, and returns its errors.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device().waited(self.cuda().synchronize().doing("waiting for a stream"))
    }

    /// Runs `work`, which submits to this stream, waits for it, and returns its time on the device.
    ///
    /// ```no_run
    /// # use tilewright_runtime::{Device, DeviceTensor};
    /// let stream = Device::open(0)?.stream()?;
    /// let (zeros, time) = stream.time(|| DeviceTensor::<f32, 2>::zeros(&stream, [4096, 4096]))?;
    /// println!("{time:?}");
    /// # Ok::<(), tilewright_runtime::Error>(())
    /// ```
    pub fn time<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<(T, Duration), Error> {
        const DOING: &str = "measuring time";
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.cuda().record_event(flags).doing(DOING)?;
        let result = work()?;
        let end = self.cuda().record_event(flags).doing(DOING)?;
        end.synchronize().doing("waiting for what is measured")?;
        start.synchronize().doing(DOING)?;
        // SAFETY: both were made above in the stream's context, with timing, and live through the call.
        let elapsed = unsafe { driver()?.elapsed(start.cu_event().cast(), end.cu_event().cast()) };
        let milliseconds =
            elapsed.map_err(|_| DriverError(cudaError_enum::CUDA_ERROR_UNKNOWN)).doing(DOING)?;
        Ok((result, Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3)))
    }

    /// Captures the launches of `work` on this stream into a graph, instead of running them.
    ///
    /// Kernels must have run, or been compiled, on this device before, because no kernel is loaded while a stream is
    /// captured. A launch that copies arguments first, or whose blocks divide a loop, must have run on this stream, because no
    /// memory is allocated either.
    ///
    /// # Safety
    /// A graph keeps addresses, not tensors. For as long as it may run,
    /// - every tensor that `work` launches on keeps its address: it is neither dropped nor moved into another
    ///   buffer;
    /// - no one else uses these tensors at the same time;
    /// - `work` makes and drops no tensors, and no other thread uses this stream while it runs.
    pub unsafe fn capture(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
        const DOING: &str = "capturing a graph";
        let driver = driver()?;
        if let Some(lacks) = GRAPH_FUNCTIONS.iter().find(|name| !driver.has(name)) {
            return Err(crate::Absence::OldDriver { version: driver.version, lacks }.into());
        }
        locked(&self.inner.captured).clear();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.cuda().begin_capture(mode).doing(DOING)?;
        self.inner.recording.store(true, Ordering::SeqCst);
        /// Ends the capture even if `work` panics.
        struct Ends<'s>(&'s Stream);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                if self.0.inner.recording.swap(false, Ordering::SeqCst) {
                    let _ = end_capture(self.0.cuda());
                }
            }
        }
        let ends = Ends(self);
        work()?;
        self.inner.recording.store(false, Ordering::SeqCst);
        drop(ends);
        let graph = end_capture(self.cuda()).doing(DOING)?;
        let graph = graph.ok_or_else(|| Error::refused("nothing was captured"))?;
        let workspaces = std::mem::take(&mut *locked(&self.inner.captured));
        Ok(Graph { graph, stream: self.clone(), _workspaces: workspaces })
    }

    /// Runs `submit` with the addresses of a workspace and of memory that is 0, of these numbers of bytes, which belong to the work that it
    /// submits to this stream. No other thread's launches come between. The stream keeps the memory for the next launch; the work
    /// leaves the second one 0.
    pub(crate) fn with_workspace<T>(
        &self,
        bytes: [u64; 2],
        submit: impl FnOnce([u64; 2]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if bytes == [0; 2] {
            return submit(bytes);
        }
        let mut all = locked(&self.inner.workspace);
        let mut addresses = [0; 2];
        for (at, workspace) in all.iter_mut().enumerate().filter(|(at, _)| bytes[*at] > 0) {
            let bytes = usize::try_from(bytes[at]).unwrap_or(usize::MAX);
            if workspace.as_ref().is_none_or(|known| known.stored_len() < bytes) {
                if self.is_recording() {
                    let message = format!(
                        "the launch needs {bytes} bytes of memory beside its arguments, which the stream does not have yet"
                    );
                    return Err(Refusal::new(message)
                        .help("run it once on this stream before it is captured")
                        .into());
                }
                // The previous one is freed in stream order, unless a graph keeps it.
                *workspace = None;
                *workspace = Some(Arc::new(match at {
                    0 => Workspace::uninitialised(self, bytes)?,
                    _ => Workspace::zeros(self, [bytes])?,
                }));
            }
            if let (true, Some(known)) = (self.is_recording(), &*workspace) {
                locked(&self.inner.captured).push(known.clone());
            }
            addresses[at] = workspace.as_ref().map_or(0, |known| known.address());
        }
        submit(addresses)
    }

    /// Is work of this stream captured by other code than [`Stream::capture`]? Such code has promised not to, and cannot do so
    /// without the driver's stream.
    pub(crate) fn is_captured_elsewhere(&self) -> Result<bool, Error> {
        Ok(self.inner.shared.load(Ordering::SeqCst) && !self.is_recording() && is_capturing(self.cuda())?)
    }

    /// Multiprocessors that launches leave to other work.
    pub(crate) fn reserved(&self) -> u32 {
        self.inner.reserved.load(Ordering::SeqCst)
    }

    /// Does a [`Fork`] order this stream with another one?
    pub(crate) fn is_forked_from(&self, other: &CudaStream) -> bool {
        locked(&self.inner.forked_from).as_ref().is_some_and(|known| is_same(known, other))
    }

    /// Is work of this stream being captured by [`Stream::capture`]?
    pub(crate) fn is_recording(&self) -> bool {
        self.inner.recording.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.device())
    }
}

/// A second stream beside a stream, whose work may run at the same time. It begins after the work of the main stream so far, and when this
/// value is dropped, the main stream waits for it. In between, tensors that were made on the main stream are used by both without waiting:
/// the caller orders them. If the main stream is captured into a graph, so is the second one.
#[derive(Debug)]
pub struct Fork<'s> {
    main: &'s Stream,
    side: &'s Stream,
}

impl<'s> Fork<'s> {
    /// Begins the second stream's work.
    ///
    /// # Safety
    /// - nobody else uses the second stream while this value is alive, and its work uses tensors of the main stream or its own;
    /// - where both streams use an element that one of them writes, [`Fork::side_waits`] or [`Fork::main_waits`] is between;
    /// - the tensors are alive until this value is dropped.
    pub unsafe fn new(main: &'s Stream, side: &'s Stream) -> Result<Fork<'s>, Error> {
        if main.device() != side.device() || is_same(main.cuda(), side.cuda()) {
            return Err(Error::refused("a second stream is another stream of the same device"));
        }
        let fork = Fork { main, side };
        *locked(&side.inner.forked_from) = Some(main.cuda().clone());
        fork.side_waits()?;
        side.inner.recording.store(main.is_recording(), Ordering::SeqCst);
        Ok(fork)
    }

    /// The second stream.
    pub fn side(&self) -> &'s Stream {
        self.side
    }

    /// Persistent kernels that are launched on the main stream leave this many multiprocessors to the second one.
    pub fn reserve(&self, multiprocessors: u32) {
        self.main.inner.reserved.store(multiprocessors, Ordering::SeqCst);
    }

    /// What the second stream does next waits for all that the main stream has done so far.
    pub fn side_waits(&self) -> Result<(), Error> {
        order(self.main, self.side)
    }

    /// What the main stream does next waits for all that the second stream has done so far.
    pub fn main_waits(&self) -> Result<(), Error> {
        order(self.side, self.main)
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        // Without an event, only waiting is left.
        if self.main_waits().is_err() {
            let _ = self.side.synchronize();
        }
        self.reserve(0);
        *locked(&self.side.inner.forked_from) = None;
        self.side.inner.recording.store(false, Ordering::SeqCst);
        locked(&self.main.inner.captured).append(&mut locked(&self.side.inner.captured));
    }
}

/// What the second stream does next waits for all that the first one has done so far.
fn order(first: &Stream, second: &Stream) -> Result<(), Error> {
    const DOING: &str = "ordering two streams";
    let event = first.cuda().record_event(None).doing(DOING)?;
    second.cuda().wait(&event).doing(DOING)
}

/// Captured launches, to run again.
pub struct Graph {
    graph: CudaGraph,
    stream: Stream,
    _workspaces: Vec<Arc<Workspace>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graph {
    /// Runs it on the stream that it was captured from. The caller of `capture` has promised that its tensors
    /// are alive.
    pub fn launch(&self) -> Result<(), Error> {
        self.graph.launch().doing("launching a graph")
    }

    /// The stream that it runs on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:?})", self.stream)
    }
}

/// The handle of the per-thread default stream.
const PER_THREAD: usize = 2;
/// The handle of the default stream of the current context.
const DEFAULT: usize = 0;
/// Another handle of the default stream.
const LEGACY: usize = 1;

fn handle(stream: &CudaStream) -> usize {
    stream.cu_stream() as usize
}

/// Is it the per-thread default stream? Its order depends on the calling thread.
pub(crate) fn is_per_thread(stream: &CudaStream) -> bool {
    handle(stream) == PER_THREAD
}

/// Is it the default stream?
pub(crate) fn is_default(stream: &CudaStream) -> bool {
    matches!(handle(stream), DEFAULT | LEGACY)
}

/// The same queue of work?
pub(crate) fn is_same(one: &CudaStream, other: &CudaStream) -> bool {
    one.context() == other.context() && (handle(one) == handle(other) || is_default(one) && is_default(other))
}

pub(crate) fn per_thread(what: &str) -> Error {
    Error::Refused(
        Refusal::new(format!(
            "{what} is cudarc's per-thread stream, which is another stream in every thread: nothing can be ordered by it"
        ))
        .help("use a stream that `new_stream` of the context makes"),
    )
}

/// Ends a capture, even if cudarc reports an old error instead: no one can wait for a stream that
/// is left in capture mode.
fn end_capture(stream: &Arc<CudaStream>) -> Result<Option<CudaGraph>, DriverError> {
    let end = || stream.end_capture(CUgraphInstantiate_flags(0));
    let ended = end();
    if ended.is_err() {
        let _ = end();
    }
    ended
}

/// Is work on this stream captured into a graph instead of run?
pub(crate) fn is_capturing(stream: &CudaStream) -> Result<bool, Error> {
    let status = stream.capture_status().doing("asking whether a stream is captured into a graph")?;
    Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Was the event recorded outside of every capture? An event keeps the state of its recording, so the answer is valid
/// even if other threads capture meanwhile. The status of a stream could have changed when it is returned.
pub(crate) fn is_recorded(event: &CudaEvent) -> Result<bool, Error> {
    const DOING: &str = "making sure that the stream of a buffer is not captured into a graph";
    event.context().bind_to_thread().doing(DOING)?;
    // Otherwise a thread that captures some stream, or any capture in global mode, forbids this query, and
    // the query would invalidate the capture.
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the mode is the thread's own, lives through the call, and is set back below.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result().doing(DOING)?;
    // SAFETY: the event is alive, and its context is current.
    let status = unsafe { sys::cuEventQuery(event.cu_event()) };
    // SAFETY: as above.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result().doing(DOING)?;
    use cudaError_enum::*;
    match status {
        CUDA_SUCCESS | CUDA_ERROR_NOT_READY => Ok(true),
        // During the capture; after its end the event is invalid, and so is the argument.
        CUDA_ERROR_CAPTURED_EVENT => Ok(false),
        _ => Err(DriverError(status)).doing(DOING),
    }
}
