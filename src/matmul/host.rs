//! Products of tensors in the host's memory.

use std::fmt;

use tilewright_program::element::Element;
#[cfg(feature = "cuda")]
use tilewright_runtime::raw::AnyTensor;

use super::operand::{Backend, Lent, Modes, sealed};
use super::product::Product;
use super::{Error, Precision, cpu};

/// Multiplies tensors in the host's memory. If there is a GPU, the tensors are copied to the first one; otherwise the CPU
/// multiplies them. [`Ran`] reports which.
///
/// The CPU runs small products in the simulator, which executes the kernel that a GPU would run and checks every access. It
/// computes larger products by loops over all its cores. Both compute the epilogue by the same operations, so results whose sums
/// are exact are equal to the bit. Other sums of K products differ by at most (K + 8)·2⁻²²·Σ|a·b| (2⁻⁵¹ for f64), unless Σ|a·b|
/// overflows. On a device, functions also differ by [their accuracy](crate::language::types), and NaN has other bits.
#[derive(Clone, Debug, Default)]
pub struct Host {
    processor: bool,
}

/// Multiply-adds of a product that the simulator runs.
const SIMULATED: i64 = 1 << 15;

impl Host {
    /// On the GPU if there is one.
    pub fn new() -> Host {
        Host { processor: false }
    }

    /// On the CPU, even if there is a GPU.
    pub fn cpu() -> Host {
        Host { processor: true }
    }
}

/// How a product of tensors of the host was computed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ran {
    /// On a device.
    #[cfg(feature = "cuda")]
    Device(Box<tilewright_runtime::Launched>),
    /// By the simulator.
    #[cfg(feature = "sim")]
    Simulator(Box<tilewright_sim::Outcome>),
    /// By loops on the CPU.
    Processor {
        /// The number of threads.
        threads: usize,
    },
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "cuda")]
            Ran::Device(launched) => write!(f, "on the GPU: {launched}"),
            #[cfg(feature = "sim")]
            Ran::Simulator(outcome) => {
                write!(f, "in the simulator: variant {} of the kernel", outcome.variant() + 1)
            }
            Ran::Processor { threads: 1 } => f.write_str("on the processor, by loops"),
            Ran::Processor { threads } => write!(f, "on the processor, by loops in {threads} threads"),
        }
    }
}

/// An operand in the host's memory.
#[doc(hidden)]
pub struct Operands<'a> {
    pub(super) modes: Modes,
    pub(super) values: Box<dyn Values + 'a>,
}

/// Values of any type.
pub(super) trait Values: Sync {
    /// The bits of each.
    fn bits(&self) -> Vec<u64>;
    /// Whether they are the values of the result.
    fn is_written(&self) -> bool;
    /// Writes all of a result, as they are stored.
    fn write(&mut self, bits: &mut dyn Iterator<Item = u64>);
    /// As an argument of the simulator.
    #[cfg(feature = "sim")]
    fn simulated(&self, modes: &Modes) -> tilewright_sim::Arg;
    /// As a tensor on a device.
    #[cfg(feature = "cuda")]
    fn upload(&self, stream: &tilewright_runtime::Stream, modes: &Modes) -> Result<AnyTensor, Error>;
}

/// Values that are read, or written.
pub(super) enum Slice<'a, T> {
    Read(&'a [T]),
    Written(&'a mut [T]),
}

impl<T> Slice<'_, T> {
    fn get(&self) -> &[T] {
        match self {
            Slice::Read(values) => values,
            Slice::Written(values) => values,
        }
    }
}

impl<T: Element> Values for Slice<'_, T> {
    fn bits(&self) -> Vec<u64> {
        self.get().iter().map(|value| value.to_raw()).collect()
    }

    fn is_written(&self) -> bool {
        matches!(self, Slice::Written(_))
    }

    fn write(&mut self, bits: &mut dyn Iterator<Item = u64>) {
        if let Slice::Written(values) = self {
            values.iter_mut().zip(bits).for_each(|(value, bits)| *value = T::from_raw(bits));
        }
    }

    #[cfg(feature = "sim")]
    fn simulated(&self, modes: &Modes) -> tilewright_sim::Arg {
        let all =
            |of: [i64; 3]| of.into_iter().take(modes.rank).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let arg = match self {
            Slice::Read(values) => tilewright_sim::Arg::tensor(values, all(modes.extents)),
            Slice::Written(values) => tilewright_sim::Arg::in_out(values, all(modes.extents)),
        };
        arg.strides(all(modes.strides))
    }

    #[cfg(feature = "cuda")]
    fn upload(&self, stream: &tilewright_runtime::Stream, modes: &Modes) -> Result<AnyTensor, Error> {
        let all = |of: [i64; 3]| of.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (extents, strides) = (all(modes.extents), all(modes.strides));
        let (extents, strides) = (&extents[..modes.rank], &strides[..modes.rank]);
        Ok(AnyTensor::new(stream, T::ELEM, extents, strides, self.get())?)
    }
}

impl Lent for Operands<'_> {
    fn modes(&self) -> Modes {
        self.modes
    }

    fn transposed(mut self) -> Self {
        self.modes.extents.swap(0, 1);
        self.modes.strides.swap(0, 1);
        self
    }
}

pub(super) fn lent<'a, T: Element, const R: usize>(
    values: Slice<'a, T>,
    extents: [usize; R],
    strides: [usize; R],
) -> Operands<'a> {
    let signed = |all: [usize; R]| all.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let modes = Modes::new(T::ELEM, &signed(extents), &signed(strides));
    Operands { modes, values: Box::new(values) }
}

impl sealed::Backend for Host {}

impl Backend for Host {
    type Ran = Ran;
    type Lent<'a> = Operands<'a>;

    fn run(&self, mut product: Product<'_, Host>) -> Result<Ran, Error> {
        #[cfg(feature = "cuda")]
        if !self.processor
            && let Ok(device) = tilewright_runtime::Device::open(0)
        {
            return on_device(&device, product);
        }
        // Other precisions are for the tensor cores of a device.
        product.form.options.precision = Precision::Strict;
        #[cfg(feature = "sim")]
        if work(&product) <= SIMULATED {
            return simulated(product);
        }
        Ok(Ran::Processor { threads: cpu::multiply(product)? })
    }

    fn shorter<'s, 'l: 's>(lent: Operands<'l>) -> Operands<'s> {
        lent
    }
}

/// Multiply-adds.
#[cfg(feature = "sim")]
fn work(product: &Product<'_, Host>) -> i64 {
    let [(_, a), _, (_, c), ..] = &product.operands[..] else { return i64::MAX };
    c.modes.extents.iter().fold(a.modes.extents[1], |all, n| all.saturating_mul(*n))
}

#[cfg(feature = "cuda")]
fn on_device(device: &tilewright_runtime::Device, product: Product<'_, Host>) -> Result<Ran, Error> {
    let stream = device.stream()?;
    let Product { form, alpha, beta, mut operands } = product;
    let mut there = Vec::new();
    for (name, operand) in &operands {
        there.push((*name, operand.values.upload(&stream, &operand.modes)?));
    }
    let arguments = there.iter_mut().map(|(name, tensor)| (*name, tensor.argument(*name == "c"))).collect();
    let launched = Backend::run(&stream, Product { form, alpha, beta, operands: arguments })?;
    let result = there.iter().zip(&mut operands).find(|((name, _), _)| *name == "c");
    if let Some(((_, tensor), (_, operand))) = result {
        written(operand, &tensor.bytes()?);
    }
    Ok(Ran::Device(Box::new(launched)))
}

/// Writes a result, of which these bytes are stored.
#[cfg(any(feature = "cuda", feature = "sim"))]
fn written(result: &mut Operands, bytes: &[u8]) {
    let bits = |element: &[u8]| element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    let size = result.modes.elem.bytes() as usize;
    result.values.write(&mut bytes.chunks_exact(size).map(bits));
}

/// In the simulator, which checks every access.
#[cfg(feature = "sim")]
fn simulated(product: Product<'_, Host>) -> Result<Ran, Error> {
    use super::product::Kernels;
    use tilewright_codegen::Generate;
    use tilewright_program::kernel_def::Locations;
    use tilewright_program::{Elem, Generated};
    use tilewright_sim::{Arg, Options, run};

    static KERNELS: Kernels<Generated> = Kernels::new();
    let kernel =
        KERNELS.get(&product.form, |definition| Ok(definition.kernel("matmul", &Locations::default())?))?;
    let number = |elem, value: f64| match elem {
        Elem::F64 => Arg::number(value),
        Elem::I32 => Arg::number(value as i32),
        Elem::U32 => Arg::number(value as u32),
        _ => Arg::number(value as f32),
    };
    let mut result = None;
    let args = product.arguments(
        &kernel.params,
        |operand| {
            let arg = operand.values.simulated(&operand.modes);
            if operand.values.is_written() {
                result = Some(operand);
            }
            arg
        },
        number,
    );
    let outcome = run(&kernel, &args, &Options { count: false, ..Options::default() })?;
    if let (Some(mut result), Some(bytes)) = (result, outcome.bytes("c")) {
        written(&mut result, bytes);
    }
    Ok(Ran::Simulator(Box::new(outcome)))
}
