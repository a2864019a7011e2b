//! A kernel on a device: through the runtime, with all its checks.

use std::time::Duration;

use tilewright_codegen::element::Element;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::{Elem, with_element};
use tilewright_runtime::{self as runtime, Built, Device, DeviceTensor, Launched, Stored, Stream};

use super::problem::{Argument, Problem, Tensor, decoded, encoded};
use crate::output::{Failure, Result};

/// The outcome of a run on a device.
pub(super) struct Ran {
    /// Results as stored, in the order of the written tensors.
    pub(super) results: Vec<Vec<f64>>,
    pub(super) launched: Launched,
    /// The device's name.
    pub(super) device: String,
    /// The fastest of a few launches.
    pub(super) time: Duration,
}

/// Timed launches, after the one whose result counts.
const TIMED: u32 = 5;

pub(super) fn run(def: &KernelDef, problem: &Problem, ordinal: usize) -> Result<Ran> {
    let device = Device::open(ordinal).map_err(Failure::of)?;
    let stream = device.stream().map_err(Failure::of)?;
    on(&stream, def, problem).map_err(Failure::of)
}

fn on(stream: &Stream, def: &KernelDef, problem: &Problem) -> std::result::Result<Ran, runtime::Error> {
    let mut launches = Launches::new(stream, Built::carried(def)?, problem)?;
    let launched = launches.launch()?;
    let mut time = Duration::MAX;
    // Results are read before further launches add to them.
    let results = launches.results()?;
    for _ in 0..TIMED {
        time = time.min(stream.time(|| launches.launch())?.1);
    }
    let device = stream.device().properties().name.clone();
    Ok(Ran { results, launched, device, time })
}

/// A kernel and its arguments on a device, to be launched any number of times.
pub(crate) struct Launches<'s> {
    stream: &'s Stream,
    kernel: Built,
    owned: Vec<Box<dyn Owned>>,
}

impl<'s> Launches<'s> {
    pub(crate) fn new(
        stream: &'s Stream,
        kernel: Built,
        problem: &Problem,
    ) -> std::result::Result<Launches<'s>, runtime::Error> {
        let mut owned: Vec<Box<dyn Owned>> = Vec::new();
        for argument in &problem.arguments {
            owned.push(match argument {
                Argument::Tensor(tensor) => sent(stream, tensor)?,
                Argument::Number { elem, value, .. } => Box::new(Number(*elem, *value)),
            });
        }
        Ok(Launches { stream, kernel, owned })
    }

    pub(crate) fn launch(&mut self) -> std::result::Result<Launched, runtime::Error> {
        let mut arguments: Vec<_> = self.owned.iter_mut().map(|one| one.argument()).collect();
        self.kernel.launch_with(self.stream, &mut arguments)
    }

    /// Sets the kernel.
    pub(crate) fn set(&mut self, kernel: Built) {
        self.kernel = kernel;
    }

    /// Sets the kernel, and what it writes to what it was at the beginning.
    pub(crate) fn replace(&mut self, kernel: Built) -> std::result::Result<(), runtime::Error> {
        self.kernel = kernel;
        self.owned.iter_mut().try_for_each(|one| one.reset())
    }

    /// The written tensors as stored.
    pub(crate) fn results(&self) -> std::result::Result<Vec<Vec<f64>>, runtime::Error> {
        let all = self.owned.iter().map(|one| one.result());
        all.filter_map(std::result::Result::transpose).collect()
    }
}

/// An argument on the device, of any type.
trait Owned {
    fn argument(&mut self) -> runtime::Argument<'_>;
    /// Sets it to what it was at the beginning, if it is written.
    fn reset(&mut self) -> std::result::Result<(), runtime::Error> {
        Ok(())
    }
    /// Its contents as stored, if it is written.
    fn result(&self) -> std::result::Result<Option<Vec<f64>>, runtime::Error>;
}

struct Number(Elem, f64);

impl Owned for Number {
    fn argument(&mut self) -> runtime::Argument<'_> {
        with_element!(self.0, T => runtime::Argument::scalar(T::from_raw(encoded(self.0, self.1))))
    }

    fn result(&self) -> std::result::Result<Option<Vec<f64>>, runtime::Error> {
        Ok(None)
    }
}

struct Sent<T: Element, const R: usize> {
    tensor: DeviceTensor<T, R>,
    /// What it was at the beginning, if it is written.
    written: Option<Vec<T>>,
}

impl<T: Element + Stored<Elem = T>, const R: usize> Owned for Sent<T, R> {
    fn argument(&mut self) -> runtime::Argument<'_> {
        match self.written.is_some() {
            true => (&mut self.tensor).into(),
            false => (&self.tensor).into(),
        }
    }

    fn reset(&mut self) -> std::result::Result<(), runtime::Error> {
        self.written.as_ref().map_or(Ok(()), |values| self.tensor.write(values))
    }

    fn result(&self) -> std::result::Result<Option<Vec<f64>>, runtime::Error> {
        if self.written.is_none() {
            return Ok(None);
        }
        Ok(Some(converted(&self.tensor.to_host_stored()?, |value| decoded(T::ELEM, value.to_raw()))))
    }
}

fn sent(stream: &Stream, tensor: &Tensor) -> std::result::Result<Box<dyn Owned>, runtime::Error> {
    with_element!(tensor.elem, T => match tensor.extents.len() {
        1 => with_rank::<T, 1>(stream, tensor),
        2 => with_rank::<T, 2>(stream, tensor),
        3 => with_rank::<T, 3>(stream, tensor),
        _ => with_rank::<T, 4>(stream, tensor),
    })
}

fn with_rank<T: Element + Stored<Elem = T>, const R: usize>(
    stream: &Stream,
    tensor: &Tensor,
) -> std::result::Result<Box<dyn Owned>, runtime::Error> {
    let all = |values: &[usize]| {
        let mut modes = [1; R];
        modes.iter_mut().zip(values).for_each(|(mode, value)| *mode = *value);
        modes
    };
    let values: Vec<T> = converted(&tensor.values, |&value| T::from_raw(encoded(T::ELEM, value)));
    let (extents, strides) = (all(&tensor.extents), all(&tensor.strides));
    let sent = DeviceTensor::from_host_strided(stream, extents, strides, &values)?;
    Ok(Box::new(Sent { tensor: sent, written: tensor.written.then_some(values) }))
}

/// Converts values, by all processors.
fn converted<S: Sync, T: Send>(values: &[S], convert: impl Fn(&S) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = values.len().div_ceil(threads).max(1 << 16);
    let convert = &convert;
    std::thread::scope(|scope| {
        let parts = values.chunks(part);
        let running: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(convert).collect::<Vec<T>>())).collect();
        let joined =
            running.into_iter().map(|one| one.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        joined.flatten().collect()
    })
}
