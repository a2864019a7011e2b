//! The driver's state: every object, its owner, and the order of operations on it.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::thread::{self, ThreadId};

use crate::nccl::Comm;
use crate::order::{Clock, Point, Range};
use crate::settings::Settings;
use crate::signature::Kernel;
use crate::{Status, status};

/// A handle.
pub(crate) type Handle = usize;

pub(crate) struct State {
    pub(crate) settings: Settings,
    /// Additional fields for this call's line of the log.
    pub(crate) reported: Vec<String>,
    /// The hazards of this call on a device.
    pub(crate) hazards: Vec<String>,
    /// The device is lost: every call fails from now on.
    pub(crate) lost: bool,
    pub(crate) initialized: bool,
    pub(crate) contexts: BTreeMap<Handle, Context>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) events: BTreeMap<Handle, Event>,
    pub(crate) memory: BTreeMap<u64, Allocation>,
    pub(crate) modules: BTreeMap<Handle, Module>,
    pub(crate) functions: BTreeMap<Handle, Function>,
    pub(crate) graphs: BTreeMap<Handle, Graph>,
    pub(crate) captures: BTreeMap<Handle, Capture>,
    pub(crate) comms: BTreeMap<Handle, Comm>,
    /// The stream of the capture that `FAKE_CAPTURE` asks for, while it is active.
    pub(crate) other_thread: Option<Handle>,
    /// The operations known to be finished, because they were waited for.
    pub(crate) done: Clock,
    handles: Handle,
    /// The default streams: of a context, or of a thread in it.
    implicit: HashMap<(Handle, Option<ThreadId>), usize>,
}

pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) retained: u32,
}

pub(crate) struct Stream {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// Does it synchronise with the default stream?
    pub(crate) blocking: bool,
    pub(crate) alive: bool,
    pub(crate) clock: Clock,
    pub(crate) number: u64,
    /// The graph that it is captured into.
    pub(crate) capture: Option<Handle>,
}

/// An active capture.
pub(crate) struct Capture {
    /// The stream that it began on.
    pub(crate) origin: usize,
    pub(crate) mode: u32,
    pub(crate) thread: ThreadId,
    /// Streams with captured work that the origin does not wait for yet.
    pub(crate) apart: Vec<usize>,
}

pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) recorded: Option<Clock>,
    pub(crate) asked: bool,
    pub(crate) captured: Option<Handle>,
    /// The stream that it was last recorded on.
    pub(crate) stream: usize,
}

pub(crate) struct Allocation {
    pub(crate) bytes: u64,
    pub(crate) context: Handle,
    /// Was it allocated in stream order?
    pub(crate) from_pool: bool,
    pub(crate) accesses: Vec<(Point, Range, &'static str)>,
    pub(crate) freed: bool,
}

pub(crate) struct Module {
    pub(crate) context: Handle,
    /// The kernels of a fake binary; any other module has every kernel asked for.
    pub(crate) kernels: Option<Vec<Kernel>>,
}

pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) name: String,
    pub(crate) kernel: Option<Kernel>,
    pub(crate) shared: i32,
}

/// The captured operations, in order.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) operations: Vec<(&'static str, Vec<Range>)>,
    pub(crate) valid: bool,
}

thread_local! {
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
    /// The thread's capture mode: global, thread-local, relaxed.
    pub(crate) static MODE: Cell<u32> = const { Cell::new(0) };
}

impl State {
    pub(crate) fn new() -> State {
        State {
            settings: Settings::read(),
            reported: Vec::new(),
            hazards: Vec::new(),
            lost: false,
            initialized: false,
            contexts: BTreeMap::new(),
            streams: Vec::new(),
            events: BTreeMap::new(),
            memory: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            captures: BTreeMap::new(),
            comms: BTreeMap::new(),
            other_thread: None,
            done: Clock::default(),
            handles: 0x1_0000,
            implicit: HashMap::new(),
        }
    }

    /// A handle that was never returned before.
    pub(crate) fn make(&mut self) -> Handle {
        self.handles += 0x10;
        self.reported.push(format!("made={:#x}", self.handles));
        self.handles
    }

    pub(crate) fn current(&self) -> Result<Handle, Status> {
        let current = CURRENT.get();
        if self.contexts.contains_key(&current) { Ok(current) } else { Err(status::INVALID_CONTEXT) }
    }

    pub(crate) fn current_or_none(&self) -> Handle {
        CURRENT.get()
    }

    pub(crate) fn set_current(&mut self, context: Handle) {
        CURRENT.set(context);
    }

    /// The stream of a handle: 0 and 1 are the context's default stream, 2 is the thread's.
    pub(crate) fn stream(&mut self, handle: Handle) -> Result<usize, Status> {
        if handle > 2 {
            let entry = self.streams.iter().position(|stream| stream.handle == handle && stream.alive);
            return entry.ok_or(status::INVALID_HANDLE);
        }
        let context = self.current()?;
        let thread = (handle == 2).then(|| thread::current().id());
        if let Some(&stream) = self.implicit.get(&(context, thread)) {
            return Ok(stream);
        }
        let stream = self.add_stream(handle, context, true);
        self.implicit.insert((context, thread), stream);
        Ok(stream)
    }

    pub(crate) fn add_stream(&mut self, handle: Handle, context: Handle, blocking: bool) -> usize {
        let (clock, number, alive) = (Clock::default(), 0, true);
        self.streams.push(Stream { handle, context, blocking, alive, clock, number, capture: None });
        self.streams.len() - 1
    }

    fn is_default(&self, stream: usize) -> bool {
        self.streams[stream].handle < 2
    }

    /// Updates a stream's clock with all finished operations, and synchronises the default stream with the
    /// blocking ones.
    pub(crate) fn catch_up(&mut self, at: usize) {
        let mut clock = self.streams[at].clock.clone();
        clock.join(&self.done);
        let (context, is_default, blocking) =
            (self.streams[at].context, self.is_default(at), self.streams[at].blocking);
        for (other, stream) in self.streams.iter().enumerate() {
            let waits = is_default && stream.blocking || blocking && self.is_default(other);
            if other != at && stream.context == context && waits {
                clock.join(&stream.clock);
            }
        }
        self.streams[at].clock = clock;
    }

    /// An operation on a stream that accesses memory; a captured stream only records it. Is it executed now?
    pub(crate) fn operate(
        &mut self,
        at: usize,
        what: &'static str,
        ranges: Vec<Range>,
    ) -> Result<bool, Status> {
        let Some(handle) = self.streams[at].capture else {
            self.carry_out(at, what, &ranges);
            return Ok(true);
        };
        self.reported.push(format!("captured={handle:#x}"));
        let graph = self.graphs.get_mut(&handle).filter(|graph| graph.valid);
        graph.ok_or(status::CAPTURE_INVALIDATED)?.operations.push((what, ranges));
        let capture = self.captures.get_mut(&handle).ok_or(status::CAPTURE_INVALIDATED)?;
        if capture.origin != at && !capture.apart.contains(&at) {
            capture.apart.push(at);
        }
        Ok(false)
    }

    /// Advances a stream by one operation.
    pub(crate) fn step(&mut self, at: usize) -> Point {
        self.catch_up(at);
        let stream = &mut self.streams[at];
        stream.number += 1;
        let point = Point { stream: at, number: stream.number };
        stream.clock.add(point);
        point
    }

    pub(crate) fn carry_out(&mut self, at: usize, what: &'static str, ranges: &[Range]) {
        let point = self.step(at);
        let (clock, context) = (self.streams[at].clock.clone(), self.streams[at].context);
        for range in ranges {
            let Some((&start, memory)) = self.memory.range_mut(..=range.from).next_back() else {
                self.hazards.push(format!("{:#x} was never allocated", range.from));
                continue;
            };
            if range.to > start + memory.bytes {
                self.hazards.push(format!("{:#x} is outside of every allocation", range.from));
                continue;
            }
            if memory.freed {
                self.hazards.push(format!("{what} uses {start:#x}, which is freed"));
            }
            if memory.context != context {
                self.hazards.push(format!("{what} uses {start:#x} of another context"));
            }
            for (before, other, which) in &memory.accesses {
                if other.conflicts(range) && *before != point && !clock.covers(*before) {
                    self.hazards.push(format!("{what} on {start:#x} does not wait for {which}"));
                }
            }
            // Whatever waits for this access waits for earlier ones of its stream.
            let same = |of: &Range| (of.from, of.to, of.written) == (range.from, range.to, range.written);
            memory.accesses.retain(|(before, of, _)| before.stream != point.stream || !same(of));
            memory.accesses.push((point, *range, what));
        }
    }

    /// Frees memory at a point of a stream, or immediately: every use must have happened before.
    pub(crate) fn free(&mut self, address: u64, clock: &Clock) -> Result<(), Status> {
        let memory = self.memory.get_mut(&address).ok_or(status::INVALID_VALUE)?;
        if memory.freed {
            self.hazards.push(format!("{address:#x} is freed twice"));
            return Err(status::INVALID_VALUE);
        }
        memory.freed = true;
        for (before, _, which) in &memory.accesses {
            if !clock.covers(*before) {
                self.hazards.push(format!("{address:#x} is freed, and {which} may still run"));
            }
        }
        Ok(())
    }

    /// The range from a pointer to the end of its allocation.
    pub(crate) fn rest_of(&mut self, from: u64, written: bool) -> Range {
        let entry = self.memory.range(..=from).next_back();
        let end = entry.map(|(start, memory)| start + memory.bytes).filter(|&end| from <= end);
        // An invalid pointer is reported when it is used.
        Range { from, to: end.unwrap_or(from + 1), written }
    }

    pub(crate) fn attribute(&self, device: usize, attribute: i32) -> i32 {
        if let Some(&value) = self.settings.attributes.get(&attribute) {
            return value;
        }
        let arch = self.settings.arches[device] as i32;
        match attribute {
            1..=3 => 1024,
            4 => 64,
            5 => i32::MAX,
            6 | 7 => 65535,
            8 => 48 << 10,
            9 => 64 << 10,
            10 => 32,
            12 | 82 => 65536,
            13 => 1_980_000,
            14 => 512,
            16 => 132,
            36 => 2_619_000,
            37 => 5120,
            38 => 50 << 20,
            39 => 2048,
            75 => arch / 10,
            76 => arch % 10,
            81 => 228 << 10,
            97 if arch == 75 => 64 << 10,
            97 if matches!(arch, 86 | 89 | 120) => 99 << 10,
            97 if matches!(arch, 80 | 87) => 163 << 10,
            97 => 227 << 10,
            106 => 32,
            111 => 1 << 10,
            31 | 40 | 41 | 83 | 89 | 90 | 95 | 99 | 115 => 1,
            120 | 127 => i32::from(arch >= 90),
            _ => 0,
        }
    }
}
