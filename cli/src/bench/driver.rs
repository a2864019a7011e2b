//! One GPU as a benchmark uses it: raw memory, launches without checks, events. What runs here is known to be right
//! before it is timed; programs launch through the runtime, which checks everything.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::rc::Rc;

use tilewright_codegen::launch::Limits;
use tilewright_runtime::cudarc::driver::result::{self, DriverError};
use tilewright_runtime::cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::Result;
use super::nvml::Nvml;

/// A device, and the stream on which everything happens.
pub(super) struct Device {
    pub(super) name: String,
    /// Compute capability, such as 90.
    pub(super) capability: u32,
    pub(super) multiprocessors: u32,
    /// Bytes of the cache between the multiprocessors and memory.
    pub(super) cache: usize,
    /// Version of CUDA that the driver speaks: `13.0`.
    pub(super) driver: String,
    pub(super) limits: Limits,
    pub(super) nvml: Option<Nvml>,
    stream: sys::CUstream,
    events: [sys::CUevent; 2],
    /// Holds the context.
    _runtime: tilewright_runtime::Device,
}

fn said(doing: &str, error: DriverError) -> String {
    let text = error.error_string().map(CStr::to_string_lossy);
    format!("the driver failed while {doing}: {}", text.unwrap_or_else(|_| error.to_string().into()))
}

impl Device {
    /// The first device.
    pub(super) fn open() -> Result<Device> {
        let runtime = tilewright_runtime::Device::open(0).map_err(|why| why.to_string())?;
        let (context, properties) = (runtime.context().clone(), runtime.properties().clone());
        let call = |doing: &'static str| move |why: DriverError| said(doing, why);
        context.bind_to_thread().map_err(call("opening the device"))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        let event =
            || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(call("making an event"));
        let place = |attribute| context.attribute(attribute).map_err(call("asking about the device"));
        let pci = format!(
            "{:08x}:{:02x}:{:02x}.0",
            place(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            place(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            place(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?
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

    /// What kernels are compiled for: `sm_90a`.
    pub(super) fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability, if self.capability >= 90 { "a" } else { "" })
    }

    /// The stream, for libraries.
    pub(super) fn stream(&self) -> *mut c_void {
        self.stream.cast()
    }

    /// Memory, with every byte 0xff: no floating-point number has these bits, so what nobody writes is found.
    pub(super) fn memory(&self, bytes: usize) -> Result<Rc<Memory>> {
        let memory = Rc::new(self.raw_memory(bytes)?);
        self.poison(&memory)?;
        Ok(memory)
    }

    /// Memory as it comes.
    pub(super) fn raw_memory(&self, bytes: usize) -> Result<Memory> {
        // SAFETY: it is freed once, by `Memory`.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.map_err(|why| said(&format!("allocating {bytes} bytes"), why))?;
        Ok(Memory { address, bytes })
    }

    /// Sets every byte to 0xff.
    pub(super) fn poison(&self, memory: &Memory) -> Result {
        self.set(memory, 0xff)
    }

    /// Sets every byte.
    pub(super) fn set(&self, memory: &Memory, byte: u8) -> Result {
        // SAFETY: the memory is alive, and has so many bytes.
        unsafe { result::memset_d8_async(memory.address, byte, memory.bytes, self.stream) }
            .map_err(|why| said("setting memory", why))
    }

    /// Copies the first bytes back, when everything is done.
    pub(super) fn read(&self, memory: &Memory, into: &mut [u8]) -> Result {
        assert!(into.len() <= memory.bytes, "{} bytes are read from {}", into.len(), memory.bytes);
        self.finish()?;
        // SAFETY: there are as many bytes on both sides, and nothing is in flight.
        unsafe { result::memcpy_dtoh_sync(into, memory.address) }.map_err(|why| said("reading memory", why))
    }

    /// Waits until everything is done.
    pub(super) fn finish(&self) -> Result {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|why| said("running", why))
    }

    /// Seconds on the device from the first to the last of what is begun in between.
    pub(super) fn time(&self, begin: impl FnOnce() -> Result) -> Result<f64> {
        let [start, end] = self.events;
        let call = |why| said("timing", why);
        // SAFETY: the events and the stream are alive.
        unsafe { result::event::record(start, self.stream) }.map_err(call)?;
        begin()?;
        // SAFETY: as above; the events are recorded when their difference is read.
        unsafe {
            result::event::record(end, self.stream).map_err(call)?;
            result::event::synchronize(end).map_err(|why| said("running", why))?;
            result::event::elapsed(start, end).map(|ms| f64::from(ms) * 1e-3).map_err(call)
        }
    }

    /// A kernel of a binary. It stays loaded.
    pub(super) fn function(&self, cubin: &[u8], name: &str, shared_bytes: u32) -> Result<Function> {
        let entry = CString::new(name).map_err(|_| format!("`{name}` cannot be a kernel's name"))?;
        // SAFETY: the driver copies the binary, which comes from the compiler.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|why| said(&format!("loading `{name}`"), why))?;
        // SAFETY: the module is never unloaded.
        let function = unsafe { result::module::get_function(module, entry) }
            .map_err(|why| said(&format!("looking for `{name}`"), why))?;
        let dynamic = if shared_bytes > STATIC_SHARED { shared_bytes } else { 0 };
        if dynamic > 0 {
            let what = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            unsafe { result::function::set_function_attribute(function, what, dynamic as i32) }
                .map_err(|why| said(&format!("giving `{name}` {dynamic} bytes of shared memory"), why))?;
        }
        Ok(Function { function, dynamic })
    }

    /// Begins a kernel.
    ///
    /// # Safety
    ///
    /// The arguments are those of the kernel, and their memory lives until the stream has done the work.
    pub(super) unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        cluster: [u32; 3],
        threads: u32,
        arguments: &[Argument],
    ) -> Result {
        let mut pointers: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.0.as_ptr().cast_mut().cast()).collect();
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        let [x, y, z] = cluster;
        attribute.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        let config = sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: function.dynamic,
            hStream: self.stream,
            attrs: &mut attribute,
            numAttrs: u32::from(cluster.iter().any(|&blocks| blocks > 1)),
        };
        // SAFETY: the configuration, the attribute and the arguments live through the call; the caller answers for the rest.
        unsafe {
            sys::cuLaunchKernelEx(&config, function.function, pointers.as_mut_ptr(), std::ptr::null_mut())
        }
        .result()
        .map_err(|why| said("launching", why))
    }
}

/// Kernels declare shared memory themselves up to here; more is asked for by whoever launches.
const STATIC_SHARED: u32 = 48 * 1024;

/// A kernel that is loaded.
#[derive(Clone)]
pub(super) struct Function {
    function: sys::CUfunction,
    dynamic: u32,
}

/// Memory of the device.
pub(super) struct Memory {
    pub(super) address: u64,
    pub(super) bytes: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `Device::memory` and is freed once; the driver waits for what still uses it.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// The bytes of one argument of a kernel.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct Argument([u64; 16]);

impl Argument {
    /// Up to eight bytes, the lowest first.
    pub(super) fn word(word: u64) -> Argument {
        let mut bytes = [0; 16];
        bytes[0] = word;
        Argument(bytes)
    }

    /// A tensor map. Extents and the box innermost first, strides in bytes from the second mode on.
    pub(super) fn map(
        elem: tilewright_codegen::Elem,
        address: u64,
        map: &tilewright_codegen::launch::Map,
    ) -> Result<Argument> {
        use sys::{CUtensorMapDataType as Type, CUtensorMapSwizzle as Swizzle};
        use tilewright_codegen::Elem;
        let kind = match elem {
            Elem::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
            Elem::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            Elem::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            Elem::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            Elem::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
            Elem::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
            _ => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        };
        let swizzle = match map.swizzle {
            32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
            64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        };
        let steps = vec![1; map.tile.len()];
        let mut made = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: the lists are as long as the rank says (strides one shorter) and live through the call.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut made,
                kind,
                map.tile.len() as u32,
                address as *mut c_void,
                map.extents.as_ptr(),
                map.strides.as_ptr(),
                map.tile.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .map_err(|why| said("making a tensor map", why))?;
        Ok(Argument(made.opaque))
    }
}
