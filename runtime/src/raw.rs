//! The driver's calls around a kernel: loading it, encoding tensor maps, launching it. This module does not check
//! arguments. `launch` checks them before it calls these functions. Benchmarks, which time kernels alone, are
//! responsible for their own arguments.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::result::module;
use cudarc::driver::sys::{
    self, CUfunction_attribute_enum as Attribute, CUlaunchAttribute, CUlaunchAttributeID_enum as Id,
    CUlaunchAttributeValue, CUlaunchConfig,
};
use tilewright_program::target::STATIC_SHARED;
use tilewright_program::thread::{Kernel, Launch};

use crate::error::{Error, While};

pub use crate::launch::encode as tensor_map;
pub use crate::tensor::AnyTensor;

/// The portable cluster size: larger clusters are not supported by every device of an architecture.
const PORTABLE_CLUSTER: u32 = 8;

/// The oldest compute capability with programmatic dependent launch.
pub const OVERLAPS: u32 = 90;

/// A part of a launch through the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The kernel, the arguments, and their memory.
    Checks,
    /// Finding the plan, or making it.
    Plan,
    /// The order of streams, before and after.
    Order,
    /// The driver's launch.
    Driver,
}

/// Sees the parts of a launch end, each after the one before; a part may have several stretches.
pub trait Watch {
    /// A stretch of this part has ended.
    fn end(&mut self, part: Part);
}

/// Nobody watches.
impl Watch for () {
    #[inline(always)]
    fn end(&mut self, _: Part) {}
}

/// Launches a kernel as [`crate::Launch::launch_with`] does, watched.
pub fn watched(
    kernel: &impl tilewright_program::kernel_value::Kernel,
    stream: &crate::Stream,
    arguments: &mut [crate::Argument<'_>],
    watch: &mut impl Watch,
) -> Result<crate::Launched, Error> {
    let made = crate::jit::made(kernel.def())?;
    watch.end(Part::Checks);
    crate::launch::launch(&made, stream, arguments, false, watch)
}

/// The memory that instrumented kernels of a device write to, for tests; `None` before the first one is loaded.
pub fn records(device: &crate::Device) -> Option<*mut u64> {
    device.records_if_any().map(crate::instrument::Records::words)
}

/// The launch configuration of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Blocks of a cluster along x, y, z; 0 counts as 1.
    pub cluster: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Programmatic dependent launch: may it begin before the previous kernel in the stream has ended? See
    /// [`launch`].
    pub overlaps: bool,
}

impl Shape {
    /// The shape of a program's launch, with dependent launch wherever the program allows it.
    pub fn of(program: &Kernel, grid: [u32; 3]) -> Shape {
        let Launch { cluster, threads, shared_bytes, overlaps, .. } = program.launch;
        Shape { grid, cluster, threads, shared_bytes, overlaps }
    }

    /// The shape for a device of this compute capability: older devices have no dependent launch.
    pub fn on(self, capability: u32) -> Shape {
        Shape { overlaps: self.overlaps && capability >= OVERLAPS, ..self }
    }

    fn cluster(&self) -> [u32; 3] {
        self.cluster.map(|blocks| blocks.max(1))
    }

    fn cluster_blocks(&self) -> u32 {
        self.cluster().into_iter().fold(1, u32::saturating_mul)
    }

    /// Bytes of dynamic shared memory; arrays up to the limit are static.
    fn dynamic(&self) -> u32 {
        if self.shared_bytes > STATIC_SHARED { self.shared_bytes } else { 0 }
    }
}

/// Loads a binary and prepares one of its functions for launches of a shape, on any grid. It is never
/// unloaded.
///
/// # Safety
/// A context is current, and the compiler made the binary.
pub unsafe fn load(cubin: &[u8], name: &str, shape: &Shape) -> Result<sys::CUfunction, Error> {
    // SAFETY: the caller's.
    unsafe { load_module(cubin, name, shape) }.map(|(_, function)| function)
}

/// The same, with the module.
///
/// # Safety
/// As for [`load`].
pub(crate) unsafe fn load_module(
    cubin: &[u8],
    name: &str,
    shape: &Shape,
) -> Result<(sys::CUmodule, sys::CUfunction), Error> {
    const DOING: &str = "loading a kernel";
    let name = CString::new(name).map_err(|_| Error::refused("a zero byte stands in the kernel's name"))?;
    // SAFETY: the caller's; the image lives through the call.
    let module = unsafe { module::load_data(cubin.as_ptr().cast()) }.doing(DOING)?;
    // SAFETY: the module is loaded, and never unloaded.
    let function = unsafe { module::get_function(module, name) }.doing(DOING)?;
    // SAFETY: the function is loaded, and the context is current.
    let set = |what, value| unsafe { sys::cuFuncSetAttribute(function, what, value) }.result().doing(DOING);
    if shape.dynamic() > 0 {
        set(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shape.dynamic() as i32)?;
    }
    if shape.cluster_blocks() > PORTABLE_CLUSTER {
        set(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
    }
    Ok((module, function))
}

/// Submits a kernel.
///
/// With dependent launch, the driver may begin the kernel before the previous one in the stream has ended.
/// This is correct because:
/// - every thread of such a kernel waits (`griddepcontrol.wait`) before it accesses memory, until the
///   previous kernel has ended and its writes are visible. When that kernel triggers its dependents, ours at
///   once and foreign ones possibly never, only affects how early this one begins;
/// - a copy of an argument that runs beside the copy before it waits at its end instead. All blocks of that
///   one have waited before they trigger this one, so all kernels before both have ended, and neither reads
///   what the other writes;
/// - hence it ends after the previous kernel, and so after everything before that: a later event, copy or
///   ordinary kernel, for which the driver waits until this one has ended, comes after all of them;
/// - after anything else, such as a copy, an event of another stream or a free, the launch is an ordinary
///   one.
///
/// # Safety
/// - the context of the stream is current, and [`load`] made the function, for this shape;
/// - `pointers` are to as many values as the function has parameters, of at least their sizes;
/// - every address among them is of memory that stays allocated until the kernel has ended, and the kernel,
///   launched in this shape, accesses no other memory;
/// - where the shape overlaps, the kernel waits before it accesses memory, or the step before it is a copy that it runs
///   beside; the device has [`OVERLAPS`], and foreign kernels in the stream end after the work before them.
pub unsafe fn launch(
    function: sys::CUfunction,
    shape: &Shape,
    stream: sys::CUstream,
    pointers: &mut [*mut c_void],
) -> Result<(), Error> {
    const DOING: &str = "launching a kernel";
    let (grid, threads, shared) = (shape.grid, shape.threads, shape.dynamic());
    let (mut attributes, count) = attributes(shape);
    if count == 0 {
        // SAFETY: the caller's; the driver copies the values before it returns.
        return unsafe {
            sys::cuLaunchKernel(
                function,
                grid[0],
                grid[1],
                grid[2],
                threads,
                1,
                1,
                shared,
                stream,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        }
        .result()
        .doing(DOING);
    }
    let config = CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: stream,
        numAttrs: count as u32,
        attrs: attributes.as_mut_ptr(),
    };
    // SAFETY: as above; the configuration and its attributes live through the call.
    unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), ptr::null_mut()) }
        .result()
        .doing(DOING)
}

/// The attributes of a launch, and how many there are.
fn attributes(shape: &Shape) -> ([CUlaunchAttribute; 2], usize) {
    // SAFETY: all fields of the union are numbers, for which zeros are values.
    let value = || -> CUlaunchAttributeValue { unsafe { std::mem::zeroed() } };
    let none = || CUlaunchAttribute { id: Id::CU_LAUNCH_ATTRIBUTE_IGNORE, pad: [0; 4], value: value() };
    let (mut attributes, mut count) = ([none(), none()], 0);
    let mut say = |id, value| {
        attributes[count] = CUlaunchAttribute { id, pad: [0; 4], value };
        count += 1;
    };
    let [x, y, z] = shape.cluster();
    if shape.cluster_blocks() > 1 {
        let mut value = value();
        value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        say(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value);
    }
    if shape.overlaps {
        let mut value = value();
        value.programmaticStreamSerializationAllowed = 1;
        say(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value);
    }
    (attributes, count)
}
