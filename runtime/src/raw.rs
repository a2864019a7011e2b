//! The driver's calls around a kernel, each said once: loading it, describing tensors for bulk copies, launching it.
//! Nothing is checked here. `launch` checks before it calls these; benchmarks, which time kernels alone, answer for
//! themselves.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::result::module;
use cudarc::driver::sys::{
    self, CUfunction_attribute_enum as Attribute, CUlaunchAttribute, CUlaunchAttributeID_enum,
    CUlaunchAttributeValue, CUlaunchConfig,
};
use tilewright_codegen::cuda::STATIC_LIMIT;
use tilewright_codegen::thread::{Kernel, Launch};

use crate::error::{Error, While};

pub use crate::launch::encode as tensor_map;

/// Larger clusters are not promised by every device of an architecture.
const PORTABLE_CLUSTER: u32 = 8;

/// A grid of blocks of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Blocks of a cluster along x, y, z; 0 and 1 are the same.
    pub cluster: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
}

impl Shape {
    /// That of a program.
    pub fn of(program: &Kernel, grid: [u32; 3]) -> Shape {
        let Launch { cluster, threads, shared_bytes, .. } = program.launch;
        Shape { grid, cluster, threads, shared_bytes }
    }

    fn cluster(&self) -> [u32; 3] {
        self.cluster.map(|blocks| blocks.max(1))
    }

    /// Bytes of shared memory that a launch asks for; arrays up to the limit are part of the kernel.
    fn dynamic(&self) -> u32 {
        if self.shared_bytes > STATIC_LIMIT { self.shared_bytes } else { 0 }
    }
}

/// Loads a binary and prepares one of its functions for launches of a shape, whatever the grid. It stays loaded.
///
/// # Safety
/// A context is current, and the compiler made the binary.
pub unsafe fn load(cubin: &[u8], name: &str, shape: &Shape) -> Result<sys::CUfunction, Error> {
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
    if shape.cluster().iter().product::<u32>() > PORTABLE_CLUSTER {
        set(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
    }
    Ok(function)
}

/// Submits a kernel.
///
/// # Safety
/// - the context of the stream is current, and [`load`] made the function, for this shape;
/// - `pointers` are to as many values as the function has parameters, of at least their sizes;
/// - every address among them is of memory that stays allocated until the kernel has ended, and the kernel, launched in
///   this shape, touches nothing else.
pub unsafe fn launch(
    function: sys::CUfunction,
    shape: &Shape,
    stream: sys::CUstream,
    pointers: &mut [*mut c_void],
) -> Result<(), Error> {
    const DOING: &str = "launching a kernel";
    let (grid, threads, shared) = (shape.grid, shape.threads, shape.dynamic());
    let [x, y, z] = shape.cluster();
    if x * y * z == 1 {
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
    // SAFETY: all fields of the union are numbers, for which zeros are values.
    let mut value: CUlaunchAttributeValue = unsafe { std::mem::zeroed() };
    value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    let id = CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    let mut attribute = CUlaunchAttribute { id, pad: [0; 4], value };
    let config = CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: stream,
        attrs: &mut attribute,
        numAttrs: 1,
    };
    // SAFETY: as above; the configuration and its attribute live through the call.
    unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), ptr::null_mut()) }
        .result()
        .doing(DOING)
}
