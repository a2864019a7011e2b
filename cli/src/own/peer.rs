//! Peers that `bench` measures beside a kernel: a library's function, or a kernel from elsewhere, on the same arguments.

use std::error::Error;
use std::sync::Arc;

use tilewright::cudarc::driver::CudaStream;
use tilewright_codegen::Elem;
use tilewright_runtime::Stream;
use tilewright_runtime::raw::AnyTensor;

use crate::run::device::set;
use crate::run::problem::{Argument, Problem, Tensor};

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
    tensors: Vec<(&'p Tensor, AnyTensor)>,
}

impl<'p> Operands<'p> {
    /// The operands, in memory that is freed in the order of the peer's stream `other`.
    pub(crate) fn new(
        stream: &Stream,
        other: &Arc<CudaStream>,
        problem: &'p Problem,
    ) -> Result<Operands<'p>, Failed> {
        let mut tensors = Vec::new();
        for (at, argument) in problem.arguments().iter().enumerate() {
            let Argument::Tensor(tensor) = argument else { continue };
            let Tensor { elem, extents, strides, .. } = tensor;
            let slice = other.alloc_zeros(tensor.stored_len().max(1) * elem.bytes() as usize)?;
            let mut memory = AnyTensor::from_slice(slice, *elem, extents, strides)?;
            set(stream, &mut memory, tensor, at)?;
            tensors.push((tensor, memory));
        }
        stream.synchronize()?;
        Ok(Operands { problem, tensors })
    }

    fn tensor(&self, name: &str) -> &(&'p Tensor, AnyTensor) {
        let result = self.tensors.iter().find(|(tensor, _)| tensor.name == name);
        result.unwrap_or_else(|| panic!("the kernel has no tensor `{name}`"))
    }

    /// The address of a tensor's first element. Panics if the kernel has no such tensor; so do the other methods.
    pub fn address(&self, name: &str) -> u64 {
        self.tensor(name).1.address()
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
}

/// A peer on its operands.
pub(crate) struct Peer<'p> {
    operands: Operands<'p>,
    launch: Launch,
}

impl<'p> Peer<'p> {
    pub(crate) fn new(
        prepare: &Prepare,
        stream: &Stream,
        other: &Arc<CudaStream>,
        problem: &'p Problem,
    ) -> Result<Peer<'p>, Failed> {
        let operands = Operands::new(stream, other, problem)?;
        let launch = prepare(other, &operands)?;
        Ok(Peer { operands, launch })
    }

    pub(crate) fn launch(&mut self) -> Result<(), Failed> {
        (self.launch)()
    }

    /// The tensors that it writes.
    pub(crate) fn written(&self) -> impl Iterator<Item = &AnyTensor> {
        self.operands.tensors.iter().filter(|(tensor, _)| tensor.written).map(|(_, memory)| memory)
    }
}
