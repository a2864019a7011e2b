//! Operators on a GPU: candle's buffers are lent to the kernels, on candle's stream.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::Arc;

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaStream};
use candle_core::cuda_backend::{CudaDType, CudaDevice, CudaStorage};
use candle_core::{DType, Error, Result, Shape, bail};
use half::{bf16, f16};
use tilewright::matmul::{Factor, Matmul};
use tilewright::runtime::{self, Graph, Plain};
use tilewright::{Elem, Launch as _, Stream, TensorMut, TensorRef};

use crate::launch::{Argument, Launch, Product, Step};
use crate::operator::Call;
use crate::view::{Slot, View};

/// The stream of a device of candle, as kernels are launched on it. Each thread has its own value, because the stream of
/// `Device::new_cuda` is another stream in each thread.
pub(crate) fn stream(device: &CudaDevice) -> Result<Stream> {
    thread_local! {
        static STREAMS: RefCell<Vec<(Arc<CudaStream>, Stream)>> = const { RefCell::new(Vec::new()) };
    }
    let theirs = device.cuda_stream();
    STREAMS.with_borrow_mut(|known| {
        if let Some((_, stream)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, &theirs)) {
            return Ok(stream.clone());
        }
        // SAFETY: the stream is alive and candle's, which submits all its work on it: kernels are ordered as candle's own. Only this thread
        // uses the result. A capture by other code than `capture` is noticed, and the launch is refused.
        let stream = unsafe { Stream::from_cuda_in_thread(theirs.clone()) }.map_err(Error::wrap)?;
        known.push((theirs, stream.clone()));
        Ok(stream)
    })
}

/// Captures the work of `work` on a device into a graph: operators of this crate and of candle.
///
/// Run the same work once before, so that its kernels are loaded. Make the device by `CudaDevice::new_with_stream`, and disable its event
/// tracking, because a captured stream cannot wait for earlier events.
///
/// # Safety
/// For as long as the graph may run, every tensor that `work` used is alive, and no one else uses these tensors while it runs.
pub unsafe fn capture(device: &CudaDevice, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
    let (stream, mut result) = (stream(device)?, Ok(()));
    // SAFETY: the caller's.
    let graph = unsafe {
        stream.capture(|| {
            result = work();
            Ok(())
        })
    };
    result?;
    graph.map_err(Error::wrap)
}

/// Memory of the results of a call from `first` on, on the device of a tensor.
pub(crate) fn alloc(call: &Call, first: usize, beside: &CudaStorage) -> Result<Vec<CudaStorage>> {
    // SAFETY: any bits are a number, and the kernels write the results.
    let alloc = |(dtype, shape): &(DType, Shape)| unsafe { beside.device().alloc_uninit(shape, *dtype) };
    call.outputs.borrow()[first..].iter().map(alloc).collect()
}

/// Runs launches.
pub(crate) fn run(
    call: &Call,
    launches: &[Launch],
    inputs: &[&CudaStorage],
    outputs: &mut [&mut CudaStorage],
) -> Result<()> {
    let Some(first) = outputs.first() else { bail!("{}: it has no result", call.name) };
    let stream = stream(first.device())?;
    for launch in launches {
        match &launch.step {
            Step::Kernel(kernel, arguments) => {
                let mut free: Vec<_> = outputs.iter_mut().map(|output| Some(&mut **output)).collect();
                let argument = |argument: &Argument| match argument {
                    Argument::Tensor(view) => match view.slot {
                        Slot::Input(index) => input(view, inputs[index]),
                        Slot::Output(index) => match free[index].take() {
                            Some(storage) => output(view, storage),
                            None => bail!("{}: a launch has each result once", call.name),
                        },
                    },
                    Argument::F32(number) => Ok(tilewright::Argument::scalar(*number)),
                    Argument::I32(number) => Ok(tilewright::Argument::scalar(*number)),
                };
                let mut arguments = arguments.iter().map(argument).collect::<Result<Vec<_>>>()?;
                let failed = |error: runtime::Error| Error::Msg(format!("{}: {error}", call.name)).bt();
                kernel.launch_with(&stream, &mut arguments).map_err(failed)?;
            }
            Step::Matmul(product) => {
                let result = &mut *outputs[0];
                let done = match result.dtype() {
                    DType::F32 => multiply::<f32>(product, &stream, inputs, result),
                    DType::F16 => multiply::<f16>(product, &stream, inputs, result),
                    _ => multiply::<bf16>(product, &stream, inputs, result),
                };
                done.map_err(|error| Error::Msg(format!("{}: {error}", call.name)).bt())?;
            }
        }
    }
    Ok(())
}

/// A buffer as a tensor of any rank.
macro_rules! ranked {
    ($tensor:expr, $view:expr) => {
        ranked!($tensor, $view, 1 2 3 4 5)
    };
    ($tensor:expr, $view:expr, $($rank:literal)*) => {
        match $view.dims.len() {
            $($rank => Ok($tensor.reshaped(modes::<$rank>(&$view.dims), modes::<$rank>(&$view.strides)).offset($view.offset).into()),)*
            rank => bail!("an argument of a kernel has one to five modes, and this has {rank}"),
        }
    };
}

/// The first numbers of a list that has as many.
fn modes<const R: usize>(all: &[usize]) -> [usize; R] {
    std::array::from_fn(|mode| all[mode])
}

fn whole<S: Plain>(slice: &CudaSlice<S>) -> TensorRef<'_, S::Elem, 1> {
    TensorRef::new(slice, [slice.len()])
}

fn whole_mut<S: Plain>(slice: &mut CudaSlice<S>) -> TensorMut<'_, S::Elem, 1> {
    let len = slice.len();
    TensorMut::new(slice, [len])
}

fn input<'a>(view: &View, storage: &'a CudaStorage) -> Result<tilewright::Argument<'a>> {
    match view.elem {
        Elem::F64 => ranked!(whole(storage.as_cuda_slice::<f64>()?), view),
        Elem::F32 => ranked!(whole(storage.as_cuda_slice::<f32>()?), view),
        Elem::F16 => ranked!(whole(storage.as_cuda_slice::<f16>()?), view),
        Elem::Bf16 => ranked!(whole(storage.as_cuda_slice::<bf16>()?), view),
        Elem::U32 => ranked!(whole(storage.as_cuda_slice::<u32>()?), view),
        Elem::I32 if storage.dtype() == DType::U32 => {
            let slice = storage.as_cuda_slice::<u32>()?;
            // SAFETY: integers are signed integers, as many.
            let Some(signed) = (unsafe { slice.transmute::<i32>(slice.len()) }) else { bail!("no integers") };
            ranked!(TensorRef::new(&signed, [slice.len()]), view)
        }
        Elem::I32 => ranked!(whole(storage.as_cuda_slice::<i32>()?), view),
        Elem::I64 => ranked!(whole(storage.as_cuda_slice::<i64>()?), view),
        Elem::U8 => ranked!(whole(storage.as_cuda_slice::<u8>()?), view),
        Elem::I8 => {
            let slice = storage.as_cuda_slice::<u8>()?;
            // SAFETY: bytes are signed integers, as many.
            let Some(signed) = (unsafe { slice.transmute::<i8>(slice.len()) }) else { bail!("no bytes") };
            ranked!(TensorRef::new(&signed, [slice.len()]), view)
        }
        other => bail!("candle has no elements of type {other}"),
    }
}

fn output<'a>(view: &View, storage: &'a mut CudaStorage) -> Result<tilewright::Argument<'a>> {
    match view.elem {
        Elem::F16 => ranked!(whole_mut(storage.as_cuda_slice_mut::<f16>()?), view),
        Elem::Bf16 => ranked!(whole_mut(storage.as_cuda_slice_mut::<bf16>()?), view),
        Elem::I32 => ranked!(whole_mut(storage.as_cuda_slice_mut::<i32>()?), view),
        _ => ranked!(whole_mut(storage.as_cuda_slice_mut::<f32>()?), view),
    }
}

/// A product by `tilewright::matmul`, which chooses the kernel for types, layouts and sizes.
fn multiply<T: CudaDType + Plain>(
    product: &Product,
    stream: &Stream,
    inputs: &[&CudaStorage],
    result: &mut CudaStorage,
) -> Result<()>
where
    T::Elem: Factor<Product = T::Elem>,
{
    let Product { a, b, bias, activation, c } = product;
    let operand = |view: &View| match view.slot {
        Slot::Input(index) => Ok((whole(inputs[index].as_cuda_slice::<T>()?), view.clone())),
        Slot::Output(_) => bail!("a product reads inputs"),
    };
    fn matrix<'t, E: tilewright::Element>(
        (tensor, view): (TensorRef<'t, E, 1>, View),
    ) -> TensorRef<'t, E, 2> {
        tensor.reshaped(modes(&view.dims), modes(&view.strides)).offset(view.offset)
    }
    let mut matmul = Matmul::<Stream>::new();
    if let Some(bias) = bias {
        let (tensor, view) = operand(bias)?;
        matmul =
            matmul.bias(tensor.reshaped(modes::<1>(&view.dims), modes(&view.strides)).offset(view.offset));
    }
    if let Some(activation) = activation {
        matmul = matmul.activation(*activation);
    }
    let out = whole_mut(result.as_cuda_slice_mut::<T>()?);
    let out = out.reshaped(modes::<2>(&c.dims), modes(&c.strides)).offset(c.offset);
    matmul.run_into(stream, matrix(operand(a)?), matrix(operand(b)?), out).map_err(Error::wrap)?;
    Ok(())
}
