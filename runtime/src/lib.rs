//! The run-time side: NVRTC compiles the generated source, a cache stores the binary, the driver runs it.
//!
//! Only this crate and the command can fail because of the machine that they run on. A missing prerequisite
//! is an ordinary error, an `Absence`, that says how to get it. Compiling needs NVRTC and no device; building
//! this crate needs neither.
#![cfg_attr(
    feature = "cuda",
    doc = r#"
# Running a kernel

```no_run
use tilewright_runtime::{Device, DeviceTensor, Error, LaunchMatmul};
# fn product() -> tilewright_codegen::kernel_value::MatmulKernel<f32> { unimplemented!() }

let stream = Device::open(0)?.stream()?;
let a = DeviceTensor::from_host(&stream, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?; // column-major
let b = DeviceTensor::from_host(&stream, [4, 3], &[1.0f32; 12])?;
let mut c = DeviceTensor::<f32, 2>::poisoned(&stream, [2, 4])?;

let kernel = product(); // `matmul_kernel!(…)`; what `#[kernel]` makes has a method `launch` too
let launched = kernel.launch(&stream, &a, &b, &mut c)?;
println!("{launched}"); // which variant ran, and why faster ones did not
assert_eq!(c.to_host()?[..2], [9.0, 12.0]);
# Ok::<(), Error>(())
```

A launch returns once the kernel is submitted; [`DeviceTensor::to_host`] waits for it. Tensors may be dropped, and used on
other streams of their device, whenever the program pleases: see [safety](#safety).

# Buffers of cudarc

Whoever has buffers already lends them. Nothing is copied, and what does not fit is refused before anything runs.

```no_run
use tilewright_runtime::{DeviceTensor, Error, Stream, TensorMut, TensorRef, cudarc::driver::CudaContext};
# use tilewright_runtime::{ReadTensor, WriteTensor};
# fn launch<'a>(stream: &Stream, from: impl ReadTensor<'a, f32, 2>, to: impl WriteTensor<'a, f32, 2>) -> Result<(), Error> { unimplemented!() }

let context = CudaContext::new(0)?;
let theirs = context.new_stream()?;
let from = theirs.alloc_zeros::<f32>(64 * 100)?;
let mut to = theirs.alloc_zeros::<f32>(64 * 100)?;

let stream = tilewright_runtime::Device::of(&context)?.stream()?;
let rows = TensorRef::new(&from, [64, 90]).strides([100, 1]).offset(10); // the last 90 of 100 columns, rows contiguous
launch(&stream, rows, TensorMut::new(&mut to, [64, 90]))?;

let tensor = DeviceTensor::from_slice(from, [100, 64])?; // or hands them over
let from: cudarc::driver::CudaSlice<f32> = tensor.into_slice()?; // and back
# use tilewright_runtime::cudarc;
# Ok::<(), Error>(())
```

cudarc frees a slice of its *default* stream in the order of whatever context is current by then. A launch therefore waits
for its kernel when such a slice is only lent, and says so in [`Launched::waited`]: use `new_stream`, or hand the slice over.
So it does on devices without memory pools, where cudarc frees slices at once.

# Arguments that are known at run time

[`Launch::launch_with`] takes a list of [`Argument`]s. [`Launch::compile_for`] compiles and loads all variants beforehand,
and says what became of each.

```no_run
use tilewright_codegen::{Definition, kernel_def::{KernelDef, Places}};
use tilewright_runtime::{Argument, Device, DeviceTensor, Launch, Error};

let definition = Definition::Matmul(vec![]);
let kernel = KernelDef::of(&definition.generate().kernel.unwrap(), &definition, &Places::default());
let stream = Device::open(0)?.stream()?;
for compiled in kernel.compile_for(stream.device())? {
    println!("{compiled}"); // variant 1, sm_90: 126 registers, nothing spilled
}
let (a, b) = (DeviceTensor::<f32, 2>::zeros(&stream, [64, 8])?, DeviceTensor::<f32, 2>::zeros(&stream, [32, 8])?);
let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [64, 32])?;
kernel.launch_with(&stream, &mut [(&a).into(), (&b).into(), Argument::from(&mut c)])?;
# Ok::<(), Error>(())
```

# Safety

No safe call, of this crate or of cudarc around it, makes a kernel touch memory outside of its tensors, or memory that was
freed. What that rests on:

- The generator. Every access of a kernel that it makes is guarded by the bounds of its tensor, and a launch makes the
  kernel again from its definition: the source that a program carries is for reading. A kernel with an access that cannot
  be guarded is an `unsafe fn`, and so is its launch.
- The plan. Before the driver is called, types, extents, strides, lengths, overlaps, alignment, index widths and the
  device's limits are compared with what the kernel assumes. A variant whose assumptions do not hold is passed over.
- The buffers. They are exactly cudarc's `CudaSlice`, `CudaView` and `CudaViewMut`, whose addresses are cudarc's, all in the
  context of the stream. A trait that anybody can implement is never asked for an address.
- The order. A launch waits for the stream of each buffer, and that stream waits for the launch, by events of its own. A
  buffer is freed in the order of its stream, so after the kernel, whatever is dropped first. Streams that mean something
  else in every thread are refused; where memory is not freed in the order of a stream, the launch waits.
- Graphs. A captured launch could run when the tensors are gone, and cudarc lets any thread capture any stream of cudarc at
  any moment. Kernels, copies and allocations of this crate go to streams that no safe call hands out; of buffers' own
  streams nothing is used but events, and the driver says of an event for certain whether it was captured. What it was not
  is launched, and anything else refused. [`Stream::capture`] is `unsafe`, and says what must hold, as
  [`Stream::from_cuda`] and [`Stream::cuda_stream`] do. What cudarc itself submits to a stream that another thread captures
  is captured: then its own order after a kernel may be lost, which gives wrong results, never wrong addresses.
- Errors. If anything fails once a kernel is submitted, the launch waits for the kernel before it says so.

Races between threads of one kernel in shared memory are a matter of the checker and the simulator. They give wrong
results, never wrong addresses.
"#
)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod cache;
pub mod export;
pub mod nvrtc;
pub mod report;

#[cfg(feature = "cuda")]
mod absence;
#[cfg(feature = "cuda")]
mod argument;
#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod error;
#[cfg(feature = "cuda")]
mod few;
#[cfg(feature = "cuda")]
mod jit;
#[cfg(feature = "cuda")]
mod kernel;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod raw;
#[cfg(feature = "cuda")]
mod stream;
#[cfg(feature = "cuda")]
mod tensor;

#[cfg(feature = "cuda")]
pub use cudarc;

#[cfg(feature = "cuda")]
pub use self::{
    absence::Absence,
    argument::Argument,
    device::{Device, Properties},
    driver::FUNCTIONS as DRIVER_FUNCTIONS,
    error::{Error, Error as LaunchError, Fault},
    jit::Compiled,
    kernel::{Built, Launch, LaunchMatmul},
    launch::Launched,
    stream::{Graph, Stream},
    tensor::{DeviceTensor, Lent, LentMut, Plain, ReadTensor, Stored, TensorMut, TensorRef, WriteTensor},
};
