//! The run-time side: NVRTC compiles the generated source, a cache stores the binary, the driver runs it.
//!
//! Only this crate and the command can fail because of the machine that they run on. A missing prerequisite
//! is an ordinary error, an `Absence`, that says how to get it. Compiling a kernel needs NVRTC and no device;
//! building this crate needs neither.
#![cfg_attr(
    feature = "cuda",
    doc = r#"
# Running a kernel

```no_run
use tilewright_runtime::{Device, DeviceTensor, Error, LaunchMatmul};
# fn product() -> tilewright_program::kernel_value::MatmulKernel<f32> { unimplemented!() }

let stream = Device::open(0)?.stream()?;
let a = DeviceTensor::from_host(&stream, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?; // column-major
let b = DeviceTensor::from_host(&stream, [4, 3], &[1.0f32; 12])?;
let mut c = DeviceTensor::<f32, 2>::poisoned(&stream, [2, 4])?;

let kernel = product(); // `matmul_kernel!(…)`; a `#[kernel]` has a method `launch` too
let launched = kernel.launch(&stream, &a, &b, &mut c)?;
println!("{launched}"); // which variant ran, and why faster ones did not
assert_eq!(c.to_host()?[..2], [9.0, 12.0]);
# Ok::<(), Error>(())
```

A launch returns once the kernel is submitted; [`DeviceTensor::to_host`] waits for it. The program may drop its tensors at
any time, and use them on other streams of their device: see [safety](#safety).

# Buffers of cudarc

A program that already has buffers can lend them, without a copy. Unsuitable buffers are refused before the launch.

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

cudarc frees a slice of its *default* stream in the order of the context that is current at that time. If such a slice is
lent, a launch therefore waits for its kernel, and [`Launched::waited`] reports that. To avoid the wait, use `new_stream`, or
hand the slice over. A launch also waits on devices without memory pools, where cudarc frees slices at once.

# Arguments that are known at run time

[`Launch::launch_with`] takes a list of [`Argument`]s. [`Launch::compile_for`] compiles and loads all variants beforehand,
and returns a report on each.

```no_run
# use tilewright_codegen::Generate;
use tilewright_program::{Definition, kernel_def::Locations};
use tilewright_runtime::{Argument, Device, DeviceTensor, Launch, Error};

let definition = Definition::Matmul(vec![]);
let kernel = definition.def(&definition.generate().kernel.unwrap(), &Locations::default());
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

No safe call, of this crate or of cudarc around it, makes a kernel access memory outside of its tensors, or memory that was
freed. This guarantee depends on:

- The generator. It guards every access of a kernel by the bounds of its tensor. A launch generates the kernel again from
  its definition; in a program without the generator, the macro has generated it and encoded its thread programs. The
  source that a program contains is only for reading. A kernel with an access that cannot be guarded is
  an `unsafe fn`, and so is its launch.
- The plan. Before the driver is called, types, extents, strides, lengths, overlaps, alignment, index widths and the
  device's limits are compared with what the kernel assumes. A variant with a false assumption is not launched.
- The buffers. They are exactly cudarc's `CudaSlice`, `CudaView` and `CudaViewMut`, whose addresses come from cudarc, all in
  the context of the stream. Addresses never come from a trait that anybody can implement.
- The order. A launch waits for the stream of each buffer, and that stream waits for the launch, by events that the launch
  records. A buffer is freed in the order of its stream, so after the kernel, in whichever order values are dropped. Streams
  that are a different stream in every thread are refused, unless the launch is on that stream itself, which takes the `unsafe`
  [`Stream::from_cuda_in_thread`]. If memory is not freed in the order of a stream, the launch waits.
- Graphs. A captured launch could run after its tensors are freed, and cudarc lets any thread capture any stream of cudarc at
  any moment. Kernels, copies and allocations of this crate use streams that no safe call hands out. A buffer's own stream is
  used only for events, and the driver reports reliably whether an event was captured. A launch goes on only if it was not,
  and is refused otherwise. [`Stream::capture`], [`Stream::from_cuda`], [`Stream::from_cuda_in_thread`] and
  [`Stream::cuda_stream`] are `unsafe`, and their documentation has the requirements. If another thread captures a stream to which cudarc itself submits work, that work is
  captured: its order after a kernel may be lost, which gives wrong results, but never wrong addresses.
- Errors. If anything fails after a kernel was submitted, the launch waits for the kernel before it returns the error.

The generator's checks and the simulator detect races between threads of one kernel in shared memory. Such races give wrong
results, but never wrong addresses.
"#
)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod bundle;
pub mod cache;
pub mod export;
pub mod nvrtc;
pub mod records;
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
mod instrument;
#[cfg(feature = "cuda")]
mod jit;
#[cfg(feature = "cuda")]
mod kernel;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "nccl")]
pub mod nccl;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod raw;
#[cfg(feature = "cuda")]
mod stream;
#[cfg(feature = "cuda")]
mod tensor;

#[cfg(feature = "cuda")]
pub use cudarc;

pub use tilewright_program::cuda::Instrument;
pub use tilewright_program::launch::timeline::{Interval, Timeline};

#[cfg(feature = "cuda")]
pub use self::{
    absence::Absence,
    argument::Argument,
    device::{Device, Properties},
    driver::FUNCTIONS as DRIVER_FUNCTIONS,
    error::{Error, Error as LaunchError, Fault},
    instrument::instrument,
    jit::Compiled,
    kernel::{Built, Launch, LaunchMatmul},
    launch::Launched,
    stream::{Fork, Graph, Stream},
    tensor::{DeviceTensor, Lent, LentMut, Plain, ReadTensor, Stored, TensorMut, TensorRef, WriteTensor},
};
