//! One GPU for benchmarks: raw memory, launches without checks, events. Results are checked before anything
//! is timed; programs launch through the runtime, which checks everything.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::rc::Rc;

use tilewright_codegen::Elem;
use tilewright_codegen::launch::{Limits, Map};
use tilewright_codegen::narrow::Int4;
use tilewright_runtime::cudarc::driver::result::{self, DriverError};
use tilewright_runtime::cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use tilewright_runtime::raw::{self, Shape};

use super::Result;
use super::nvml::Nvml;

/// A device, and the stream for all its work.
pub(crate) struct Device {
    pub(crate) name: String,
    /// Compute capability, such as 90.
    pub(crate) capability: u32,
    pub(crate) multiprocessors: u32,
    /// Bytes of the cache between the multiprocessors and memory.
    pub(crate) cache: usize,
    /// CUDA version of the driver: `13.0`.
    pub(crate) driver: String,
    pub(crate) limits: Limits,
    pub(crate) nvml: Option<Nvml>,
    stream: sys::CUstream,
    events: [sys::CUevent; 2],
    /// Keeps the context alive.
    _runtime: tilewright_runtime::Device,
}

fn failure(doing: &str, error: DriverError) -> String {
    let text = error.error_string().map(CStr::to_string_lossy);
    format!("the driver failed while {doing}: {}", text.unwrap_or_else(|_| error.to_string().into()))
}

impl Device {
    /// The first device.
    pub(crate) fn open() -> Result<Device> {
        let runtime = tilewright_runtime::Device::open(0).map_err(|why| why.to_string())?;
        let (context, properties) = (runtime.context().clone(), runtime.properties().clone());
        let call = |doing: &'static str| move |why: DriverError| failure(doing, why);
        context.bind_to_thread().map_err(call("opening the device"))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        let event =
            || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(call("making an event"));
        let number_of = |attribute| context.attribute(attribute).map_err(call("asking about the device"));
        let pci = format!(
            "{:08x}:{:02x}:{:02x}.0",
            number_of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            number_of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            number_of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?
        );
        let (major, minor) = runtime.driver_version().map_err(|why| why.to_string())?;
        Ok(Device {
            name: properties.name.clone(),
            capability: properties.arch(),
            multiprocessors: properties.multiprocessors,
            cache: properties.l2_bytes as usize,
            driver: format!("{major}.{minor}"),
            limits: runtime.limits(),
            nvml: Nvml::open(&pci),
            stream: stream.map_err(call("making a stream"))?,
            events: [event()?, event()?],
            _runtime: runtime,
        })
    }

    /// The target of kernels: `sm_90a`.
    pub(crate) fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability, if self.capability >= 90 { "a" } else { "" })
    }

    /// The stream, for libraries.
    pub(crate) fn stream(&self) -> *mut c_void {
        self.stream.cast()
    }

    /// Memory, with every byte 0xff: floating-point elements are NaN, so unwritten elements are detected.
    pub(crate) fn memory(&self, bytes: usize) -> Result<Rc<Memory>> {
        let memory = Rc::new(self.raw_memory(bytes)?);
        self.poison(&memory)?;
        Ok(memory)
    }

    /// Uninitialised memory.
    pub(crate) fn raw_memory(&self, bytes: usize) -> Result<Memory> {
        // SAFETY: it is freed once, by `Memory`.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.map_err(|why| failure(&format!("allocating {bytes} bytes"), why))?;
        Ok(Memory { address, bytes })
    }

    /// Sets every byte to 0xff.
    pub(crate) fn poison(&self, memory: &Memory) -> Result {
        self.set(memory, 0xff)
    }

    /// Sets every byte.
    pub(crate) fn set(&self, memory: &Memory, byte: u8) -> Result {
        // SAFETY: the memory is alive, and has `memory.bytes` bytes.
        unsafe { result::memset_d8_async(memory.address, byte, memory.bytes, self.stream) }
            .map_err(|why| failure("setting memory", why))
    }

    /// Starts a copy of the first bytes of one memory to another.
    pub(crate) fn copy(&self, from: &Memory, to: &Memory, bytes: usize) -> Result {
        assert!(
            bytes <= from.bytes.min(to.bytes),
            "{bytes} bytes are copied from {} to {}",
            from.bytes,
            to.bytes
        );
        // SAFETY: both are alive and have at least `bytes` bytes.
        unsafe { result::memcpy_dtod_async(to.address, from.address, bytes, self.stream) }
            .map_err(|why| failure("copying memory", why))
    }

    /// Copies the first bytes to the host, after all work is done.
    pub(crate) fn read(&self, memory: &Memory, into: &mut [u8]) -> Result {
        assert!(into.len() <= memory.bytes, "{} bytes are read from {}", into.len(), memory.bytes);
        self.finish()?;
        // SAFETY: both sides have this number of bytes, and no operation is in flight.
        unsafe { result::memcpy_dtoh_sync(into, memory.address) }
            .map_err(|why| failure("reading memory", why))
    }

    /// Copies bytes of the host to the first of a memory, after all work is done.
    pub(crate) fn write(&self, from: &[u8], memory: &Memory) -> Result {
        assert!(from.len() <= memory.bytes, "{} bytes are written to {}", from.len(), memory.bytes);
        self.finish()?;
        // SAFETY: both sides have this number of bytes, and no operation is in flight.
        unsafe { result::memcpy_htod_sync(memory.address, from) }
            .map_err(|why| failure("writing memory", why))
    }

    /// Waits until all work is done.
    pub(crate) fn finish(&self) -> Result {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|why| failure("running", why))
    }

    /// Seconds on the device for the work that `begin` submits.
    pub(crate) fn time(&self, begin: impl FnOnce() -> Result) -> Result<f64> {
        let [start, end] = self.events;
        let call = |why| failure("timing", why);
        // SAFETY: the events and the stream are alive.
        unsafe { result::event::record(start, self.stream) }.map_err(call)?;
        begin()?;
        // SAFETY: as above; the events are recorded when their difference is read.
        unsafe {
            result::event::record(end, self.stream).map_err(call)?;
            result::event::synchronize(end).map_err(|why| failure("running", why))?;
            result::event::elapsed(start, end).map(|ms| f64::from(ms) * 1e-3).map_err(call)
        }
    }

    /// A kernel of a binary, for launches of a shape, on any grid. It remains loaded.
    pub(crate) fn function(&self, cubin: &[u8], name: &str, shape: Shape) -> Result<Function> {
        // SAFETY: the context is current, and the binary comes from the compiler.
        let function = unsafe { raw::load(cubin, name, &shape) };
        let function = function.map_err(|why| format!("`{name}`: {why}"))?;
        Ok(Function { function, shape: shape.on(self.capability) })
    }

    /// Launches a kernel.
    ///
    /// # Safety
    ///
    /// The arguments match the kernel, and their memory lives until the stream has done the work.
    pub(crate) unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        arguments: &[Argument],
    ) -> Result {
        let mut pointers: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.0.as_ptr().cast_mut().cast()).collect();
        let shape = Shape { grid, ..function.shape };
        // SAFETY: the context is current, `function` loaded it for this shape, and the caller is responsible
        // for the rest.
        unsafe { raw::launch(function.function, &shape, self.stream, &mut pointers) }
            .map_err(|why| why.to_string())
    }
}

/// A loaded kernel.
#[derive(Clone)]
pub(crate) struct Function {
    function: sys::CUfunction,
    shape: Shape,
}

/// Device memory.
pub(crate) struct Memory {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `Device::memory` and is freed once; the driver waits for work that
        // still uses it.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// The bytes of one argument of a kernel.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Argument([u64; 16]);

impl Argument {
    /// Up to eight bytes, little-endian.
    pub(crate) fn word(word: u64) -> Argument {
        let mut bytes = [0; 16];
        bytes[0] = word;
        Argument(bytes)
    }

    /// An `Array` of `helpers.cu`: its address, and the number of its element type.
    pub(crate) fn array(memory: &Memory, elem: Elem) -> Argument {
        let mut words = [0; 16];
        (words[0], words[1]) = (memory.address, elem as u64);
        Argument(words)
    }

    /// The `Array` of numbers of four bits, two in a byte; their types follow the element types.
    pub(crate) fn int4(memory: &Memory, of: Int4) -> Argument {
        let mut words = [0; 16];
        (words[0], words[1]) = (memory.address, (Elem::all().count() + of as usize) as u64);
        Argument(words)
    }

    /// The `Array` without elements.
    pub(crate) fn no_array() -> Argument {
        Argument([0; 16])
    }

    /// A tensor map of the argument of this name.
    pub(crate) fn map(name: &str, elem: Elem, address: u64, map: &Map) -> Result<Argument> {
        let made = raw::tensor_map(name, map, elem, address).map_err(|why| why.to_string())?;
        Ok(Argument(made.opaque))
    }
}
