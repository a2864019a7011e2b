//! Peers that `bench` measures beside a kernel: a library's function, or a kernel from elsewhere, on the same arguments.

use std::error::Error;
use std::sync::Arc;

use tilewright::cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use tilewright_codegen::Elem;

use crate::run::device::{stored, values};
use crate::run::problem::{Problem, Tensor};

/// Why a peer failed.
pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// Launches a peer once; it may be called any number of times.
pub(crate) type Launch = Box<dyn FnMut() -> Result<(), Failed>>;

/// Prepares a peer for some arguments, which are on the device.
pub(crate) type Prepare =
    Arc<dyn Fn(&Arc<CudaStream>, &Operands<'_>) -> Result<Launch, Failed> + Send + Sync>;

/// The arguments of a kernel on a device, for a peer, which has its own copies.
pub struct Operands<'p> {
    problem: &'p Problem,
    stream: Arc<CudaStream>,
    tensors: Vec<(&'p Tensor, CudaSlice<u8>)>,
}

impl<'p> Operands<'p> {
    pub(crate) fn new(stream: &Arc<CudaStream>, problem: &'p Problem) -> Result<Operands<'p>, Failed> {
        let sent = |tensor: &'p Tensor| -> Result<_, Failed> {
            Ok((tensor, stream.clone_htod(&stored(tensor.elem, &tensor.values))?))
        };
        let tensors = problem.tensors().map(sent).collect::<Result<_, _>>()?;
        Ok(Operands { problem, stream: stream.clone(), tensors })
    }

    fn tensor(&self, name: &str) -> &(&'p Tensor, CudaSlice<u8>) {
        let result = self.tensors.iter().find(|(tensor, _)| tensor.name == name);
        result.unwrap_or_else(|| panic!("the kernel has no tensor `{name}`"))
    }

    /// The address of a tensor's first element. Panics if the kernel has no such tensor; so do the other methods.
    pub fn address(&self, name: &str) -> u64 {
        self.tensor(name).1.device_ptr(&self.stream).0
    }

    /// The extents of a tensor.
    pub fn extents(&self, name: &str) -> &'p [usize] {
        &self.tensor(name).0.extents
    }

    /// Its strides, in elements.
    pub fn strides(&self, name: &str) -> &'p [usize] {
        &self.tensor(name).0.strides
    }

    /// The type of its elements.
    pub fn elem(&self, name: &str) -> Elem {
        self.tensor(name).0.elem
    }

    /// A number that the kernel takes.
    pub fn number(&self, name: &str) -> f64 {
        let number = self.problem.number(name);
        number.unwrap_or_else(|| panic!("the kernel takes no number `{name}`"))
    }

    /// The written tensors as stored, after submitted work has ended.
    fn results(&self) -> Result<Vec<Vec<f64>>, Failed> {
        let written = self.tensors.iter().filter(|(tensor, _)| tensor.written);
        let read = |(tensor, slice): &(&Tensor, CudaSlice<u8>)| -> Result<Vec<f64>, Failed> {
            let bytes = self.stream.clone_dtoh(slice)?;
            self.stream.synchronize()?;
            Ok(values(tensor.elem, &bytes))
        };
        written.map(read).collect()
    }
}

/// A peer on its operands.
pub(crate) struct Peer<'p> {
    operands: Operands<'p>,
    launch: Launch,
}

impl<'p> Peer<'p> {
    pub(crate) fn new(
        prepare: &Prepare,
        stream: &Arc<CudaStream>,
        problem: &'p Problem,
    ) -> Result<Peer<'p>, Failed> {
        let operands = Operands::new(stream, problem)?;
        let launch = prepare(stream, &operands)?;
        Ok(Peer { operands, launch })
    }

    pub(crate) fn launch(&mut self) -> Result<(), Failed> {
        (self.launch)()
    }

    /// Launches it for the first time, and returns its results.
    pub(crate) fn first(&mut self) -> Result<Vec<Vec<f64>>, Failed> {
        self.launch()?;
        self.operands.results()
    }
}

/// The largest difference of results, relative to the mean size of the others.
pub(crate) fn difference(results: &[Vec<f64>], others: &[Vec<f64>]) -> f64 {
    let one = |(own, others): (&Vec<f64>, &Vec<f64>)| {
        let squares: f64 = others.iter().map(|value| value * value).sum();
        let mean = (squares / others.len().max(1) as f64).sqrt();
        let apart = own.iter().zip(others).map(|(own, other)| (own - other).abs());
        // NaN is kept: f64::max would drop it.
        let most =
            apart.fold(0.0, |most: f64, apart| if apart > most || apart.is_nan() { apart } else { most });
        if most == 0.0 { 0.0 } else { most / mean }
    };
    results
        .iter()
        .zip(others)
        .map(one)
        .fold(0.0, |most, one| if one > most || one.is_nan() { one } else { most })
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn differences_are_relative_to_the_mean_size() {
        let all = |values: &[f64]| vec![values.to_vec()];
        assert_eq!(difference(&all(&[3.0, 4.0]), &all(&[3.0, 4.0])), 0.0);
        assert_eq!(difference(&all(&[2.0, -2.0]), &all(&[2.0, 2.0])), 2.0);
        assert!(difference(&all(&[f64::NAN, 2.0]), &all(&[2.0, 2.0])).is_nan());
        assert_eq!(difference(&all(&[1.0]), &all(&[0.0])), f64::INFINITY);
    }
}
