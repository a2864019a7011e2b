//! A kernel on a device: through the runtime, with all its checks.

use std::time::Duration;

use tilewright_codegen::Elem;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::launch::timeline::Timeline;
use tilewright_runtime::raw::AnyTensor;
use tilewright_runtime::{self as runtime, Built, Device, Launched, Stream};

use super::contents;
use super::input::Contents;
use super::problem::{Argument, Problem, Tensor, decoded, encoded};
use crate::output::{Failure, Result};
use crate::own::peer::Failed;

/// The outcome of a run on a device.
pub(super) struct Ran {
    /// Results as stored, in the order of the written tensors.
    pub(super) results: Vec<Vec<f64>>,
    pub(super) launched: Launched,
    /// The device's name.
    pub(super) device: String,
    /// The fastest of a few launches.
    pub(super) time: Duration,
    /// The timeline of the last one, if the program's kernels have one.
    pub(super) timeline: Timeline,
}

/// Timed launches, after the one whose result counts.
const TIMED: u32 = 5;

pub(super) fn run(def: &KernelDef, problem: &Problem, ordinal: usize) -> Result<Ran> {
    let device = Device::open(ordinal).map_err(Failure::of)?;
    let stream = device.stream().map_err(Failure::of)?;
    on(&stream, def, problem).map_err(Failure::of)
}

fn on(stream: &Stream, def: &KernelDef, problem: &Problem) -> std::result::Result<Ran, Failed> {
    let mut launches = Launches::new(stream, Built::carried(def)?, problem)?;
    let launched = launches.launch()?;
    let mut time = Duration::MAX;
    // Results are read before further launches add to them.
    let results = launches.results()?;
    for _ in 0..TIMED {
        time = time.min(stream.time(|| launches.launch())?.1);
    }
    let device = stream.device().properties().name.clone();
    Ok(Ran { results, launched, device, time, timeline: stream.device().timeline() })
}

/// A kernel and its arguments on a device, to be launched any number of times.
pub(crate) struct Launches<'s> {
    stream: &'s Stream,
    kernel: Built,
    owned: Vec<Owned>,
}

/// An argument on the device.
enum Owned {
    /// A tensor, what fills it, and whether it is written.
    Tensor(AnyTensor, Contents, bool),
    /// A number: its bits.
    Number(Elem, u64),
}

impl Owned {
    fn argument(&mut self) -> runtime::Argument<'_> {
        match self {
            Owned::Tensor(tensor, _, is_written) => tensor.argument(*is_written),
            Owned::Number(elem, bits) => runtime::Argument::number(*elem, *bits),
        }
    }
}

impl<'s> Launches<'s> {
    pub(crate) fn new(
        stream: &'s Stream,
        kernel: Built,
        problem: &Problem,
    ) -> std::result::Result<Launches<'s>, Failed> {
        let one = |(at, argument): (usize, &Argument)| match argument {
            Argument::Tensor(tensor) => {
                let Tensor { elem, extents, strides, .. } = tensor;
                let mut memory = AnyTensor::uninitialised(stream, *elem, extents, strides)?;
                set(stream, &mut memory, tensor, at)?;
                Ok(Owned::Tensor(memory, tensor.contents, tensor.written))
            }
            Argument::Number { elem, value, .. } => Ok(Owned::Number(*elem, encoded(*elem, *value))),
        };
        let owned = problem.arguments.iter().enumerate().map(one);
        Ok(Launches { stream, kernel, owned: owned.collect::<std::result::Result<_, Failed>>()? })
    }

    pub(crate) fn launch(&mut self) -> std::result::Result<Launched, runtime::Error> {
        let mut arguments: Vec<_> = self.owned.iter_mut().map(Owned::argument).collect();
        self.kernel.launch_with(self.stream, &mut arguments)
    }

    /// Sets the kernel.
    pub(crate) fn set(&mut self, kernel: Built) {
        self.kernel = kernel;
    }

    /// Sets what is written to what the device filled it with at the beginning.
    pub(crate) fn fill_written(&mut self) -> std::result::Result<(), Failed> {
        self.owned.iter_mut().enumerate().try_for_each(|(at, one)| match one {
            Owned::Tensor(tensor, contents, true) => {
                contents::fill(self.stream, tensor, *contents, at as u32)
            }
            _ => Ok(()),
        })
    }

    /// The written tensors.
    pub(crate) fn written(&self) -> impl Iterator<Item = &AnyTensor> {
        self.owned.iter().filter_map(|one| match one {
            Owned::Tensor(tensor, _, true) => Some(tensor),
            _ => None,
        })
    }

    /// The written tensors. Others with unspecified contents replace them.
    pub(crate) fn take_written(&mut self) -> std::result::Result<Vec<AnyTensor>, runtime::Error> {
        let mut taken = Vec::new();
        for one in &mut self.owned {
            if let Owned::Tensor(tensor, _, true) = one {
                let other = tensor.uninitialised_like(self.stream)?;
                taken.push(std::mem::replace(tensor, other));
            }
        }
        Ok(taken)
    }

    /// The written tensors as stored.
    pub(crate) fn results(&self) -> std::result::Result<Vec<Vec<f64>>, runtime::Error> {
        self.written().map(|tensor| Ok(values(tensor.elem(), &tensor.bytes()?))).collect()
    }
}

/// Sets a tensor to the values of an argument, or fills it on the device where there are none.
pub(crate) fn set(
    stream: &Stream,
    memory: &mut AnyTensor,
    tensor: &Tensor,
    at: usize,
) -> std::result::Result<(), Failed> {
    match &tensor.values[..] {
        [] => contents::fill(stream, memory, tensor.contents, at as u32),
        values => Ok(memory.write(&stored(tensor.elem, values))?),
    }
}

/// The bytes of values, as a device stores them.
pub(crate) fn stored(elem: Elem, values: &[f64]) -> Vec<u8> {
    let size = elem.bytes() as usize;
    let bytes = |value: &f64| encoded(elem, *value).to_le_bytes().into_iter().take(size);
    converted(values, 1, |part| part.iter().flat_map(bytes).collect())
}

/// The values of stored bytes.
pub(crate) fn values(elem: Elem, bytes: &[u8]) -> Vec<f64> {
    let size = elem.bytes() as usize;
    let value =
        |one: &[u8]| decoded(elem, one.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)));
    converted(bytes, size, |part| part.chunks_exact(size).map(value).collect())
}

/// Converts parts that are multiples of `size` elements, by all processors.
fn converted<S: Sync, T: Send>(values: &[S], size: usize, convert: impl Fn(&[S]) -> Vec<T> + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = size * (values.len() / size).div_ceil(threads).max(1 << 16);
    let convert = &convert;
    std::thread::scope(|scope| {
        let running: Vec<_> = values.chunks(part).map(|part| scope.spawn(move || convert(part))).collect();
        let joined =
            running.into_iter().map(|one| one.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        joined.flatten().collect()
    })
}
