//! One GPU as a benchmark uses it: raw memory, launches without checks, events. What runs here is known to be right
//! before it is timed; programs launch through the runtime, which checks everything.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::rc::Rc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use tilewright_codegen::launch::Limits;

use super::Result;
use super::nvml::Nvml;

/// A device, its primary context, and the stream on which everything happens.
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
}

fn said(doing: &str, error: DriverError) -> String {
    let text = error.error_string().map(CStr::to_string_lossy);
    format!("the driver failed while {doing}: {}", text.unwrap_or_else(|_| error.to_string().into()))
}

impl Device {
    /// The first device.
    pub(super) fn open() -> Result<Device> {
        const ABSENT: &str = "there is no GPU here: ";
        // SAFETY: asking whether a library is there has no preconditions; the driver's own runs no code of ours.
        if !unsafe { sys::is_culib_present() } {
            return Err(format!("{ABSENT}the driver's library is not installed"));
        }
        result::init().map_err(|why| format!("{ABSENT}{}", said("starting", why)))?;
        let device =
            result::device::get(0).map_err(|why| format!("{ABSENT}{}", said("opening device 0", why)))?;
        let call = |doing: &'static str| move |why: DriverError| said(doing, why);
        // SAFETY: the device exists; its primary context is kept until the process ends, and is current on this thread.
        unsafe {
            let context = result::primary_ctx::retain(device).map_err(call("opening the device"))?;
            result::ctx::set_current(context).map_err(call("opening the device"))?;
        }
        let attribute = |attribute: Attribute| -> Result<u32> {
            // SAFETY: the device exists.
            let value = unsafe { result::device::get_attribute(device, attribute) };
            value.map(|value| value as u32).map_err(call("asking about the device"))
        };
        let capability = 10 * attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
            + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let limits = Limits {
            arch: capability,
            shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            threads: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            grid: [
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
        };
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(call("making a stream"))?;
        let event =
            || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(call("making an event"));
        let (mut pci, mut version) = ([0; 32], 0);
        // SAFETY: the device exists, and there is room for as many characters as is said.
        unsafe { sys::cuDeviceGetPCIBusId(pci.as_mut_ptr(), pci.len() as i32, device) }
            .result()
            .map_err(call("asking about the device"))?;
        // SAFETY: the driver has written a text that ends with a zero byte.
        let pci = unsafe { CStr::from_ptr(pci.as_ptr()) }.to_string_lossy().into_owned();
        // SAFETY: the number lives through the call.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(call("asking for the version"))?;
        Ok(Device {
            name: result::device::get_name(device).map_err(call("asking about the device"))?,
            capability,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            cache: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
            driver: format!("{}.{}", version / 1000, version % 1000 / 10),
            limits,
            nvml: Nvml::open(&pci),
            stream,
            events: [event()?, event()?],
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
        let doing = || format!("allocating {bytes} bytes");
        // SAFETY: it is freed once, by `Memory`.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|why| said(&doing(), why))?;
        let memory = Rc::new(Memory { address, bytes });
        self.poison(&memory)?;
        Ok(memory)
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
