//! Products of tensors in the host's memory.

use std::fmt;

use tilewright_codegen::element::Element;
use tilewright_codegen::launch::Refusal;

use super::operand::{IsMatrix, Lent, Matrix, Modes, Operand, Place, Rank, Target, sealed};
use super::product::Product;
use super::{Error, cpu};

/// Where tensors of the host are multiplied: on the first GPU if there is one, to which they are copied, otherwise by the
/// processor. [`Ran`] says which.
///
/// The processor runs small products in the simulator, which executes the kernel that a GPU would run and checks every access,
/// and others by loops over all its cores.
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

    /// By the processor, also where there is a GPU.
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
    /// By loops on the processor.
    Processor {
        /// The threads.
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

/// A tensor of `R` modes in the host's memory, which it owns.
///
/// ```
/// use tilewright::HostTensor;
/// let a = HostTensor::row_major([2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!((a.shape(), a.strides(), a.at([1, 0])), ([2, 3], [3, 1], 4.0));
/// assert_eq!(a.view().transposed().shape(), [3, 2]);
/// # Ok::<(), tilewright::matmul::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct HostTensor<T: Element, const R: usize> {
    values: Vec<T>,
    extents: [usize; R],
    strides: [usize; R],
}

/// A tensor of `R` modes in the host's memory, borrowed to be read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostRef<'a, T: Element, const R: usize> {
    values: &'a [T],
    extents: [usize; R],
    strides: [usize; R],
}

/// Strides of a tensor without gaps.
fn packed<const R: usize>(extents: &[usize; R], rows: bool) -> [usize; R] {
    let (mut strides, mut next) = ([1; R], 1usize);
    for place in 0..R {
        let mode = if rows { R - 1 - place } else { place };
        strides[mode] = next;
        next = next.saturating_mul(extents[mode].max(1));
    }
    strides
}

/// Elements from the first to the last.
fn reach<const R: usize>(extents: &[usize; R], strides: &[usize; R]) -> usize {
    if extents.contains(&0) {
        return 0;
    }
    let modes = extents.iter().zip(strides);
    modes.fold(1, |all: usize, (n, d)| all.saturating_add((n - 1).saturating_mul(*d)))
}

/// Are there exactly so many values?
fn counted<const R: usize>(extents: &[usize; R], strides: &[usize; R], values: usize) -> Result<(), Error> {
    let needed = reach(extents, strides);
    if needed == values {
        return Ok(());
    }
    let message = format!("a tensor of extents {extents:?} has {needed} elements, and {values} were given");
    Err(Refusal::new(message).help("give as many values as the product of the extents").into())
}

/// Have distinct coordinates distinct elements?
fn distinct<const R: usize>(extents: &[usize; R], strides: &[usize; R]) -> Result<(), Error> {
    let mut modes: Vec<(usize, usize)> = strides.iter().copied().zip(extents.iter().copied()).collect();
    modes.retain(|(_, extent)| *extent > 1);
    modes.sort_unstable();
    let mut reach = 0usize;
    for (stride, extent) in modes {
        if stride <= reach {
            let message = format!(
                "extents {extents:?} with strides {strides:?} have one element at several coordinates"
            );
            return Err(Refusal::new(message).help("give every element memory of its own").into());
        }
        reach += (extent - 1) * stride;
    }
    Ok(())
}

impl<T: Element, const R: usize> HostTensor<T, R> {
    /// A row-major tensor of these values, the last mode running fastest.
    pub fn row_major(extents: [usize; R], values: Vec<T>) -> Result<HostTensor<T, R>, Error> {
        let strides = packed(&extents, true);
        counted(&extents, &strides, values.len())?;
        Ok(HostTensor { values, extents, strides })
    }

    /// A column-major tensor of these values, the first mode running fastest.
    pub fn column_major(extents: [usize; R], values: Vec<T>) -> Result<HostTensor<T, R>, Error> {
        let strides = packed(&extents, false);
        counted(&extents, &strides, values.len())?;
        Ok(HostTensor { values, extents, strides })
    }

    /// A tensor of values that lie as these strides say, in elements. `values` reaches from the first to the last, and distinct
    /// coordinates have distinct elements.
    pub fn strided(
        extents: [usize; R],
        strides: [usize; R],
        values: Vec<T>,
    ) -> Result<HostTensor<T, R>, Error> {
        counted(&extents, &strides, values.len())?;
        distinct(&extents, &strides)?;
        Ok(HostTensor { values, extents, strides })
    }

    /// A row-major tensor of zeros.
    pub fn zeros(extents: [usize; R]) -> Result<HostTensor<T, R>, Error> {
        HostTensor::of_zeros(extents, true)
    }

    fn of_zeros(extents: [usize; R], rows: bool) -> Result<HostTensor<T, R>, Error> {
        let (strides, mut values) = (packed(&extents, rows), Vec::new());
        let count = reach(&extents, &strides);
        if values.try_reserve_exact(count).is_err() {
            let message = format!("the host has no room for a tensor of extents {extents:?}");
            return Err(Refusal::new(message).into());
        }
        values.resize(count, T::ZERO);
        Ok(HostTensor { values, extents, strides })
    }

    /// The values, in the order in which they are stored.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The same, for writing.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// The values, without the tensor.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }

    /// The element at a coordinate. Panics out of bounds.
    pub fn at(&self, coordinate: [usize; R]) -> T {
        self.view().at(coordinate)
    }

    /// Its extents.
    pub fn shape(&self) -> [usize; R] {
        self.extents
    }

    /// Its strides, in elements.
    pub fn strides(&self) -> [usize; R] {
        self.strides
    }

    /// The tensor for reading.
    pub fn view(&self) -> HostRef<'_, T, R> {
        HostRef { values: &self.values, extents: self.extents, strides: self.strides }
    }
}

impl<'a, T: Element, const R: usize> HostRef<'a, T, R> {
    /// Row-major values, the last mode running fastest.
    pub fn row_major(extents: [usize; R], values: &'a [T]) -> Result<HostRef<'a, T, R>, Error> {
        let strides = packed(&extents, true);
        counted(&extents, &strides, values.len())?;
        Ok(HostRef { values, extents, strides })
    }

    /// Column-major values, the first mode running fastest.
    pub fn column_major(extents: [usize; R], values: &'a [T]) -> Result<HostRef<'a, T, R>, Error> {
        let strides = packed(&extents, false);
        counted(&extents, &strides, values.len())?;
        Ok(HostRef { values, extents, strides })
    }

    /// Values with these strides, in elements. There may be more of them than the tensor reaches.
    pub fn strided(
        extents: [usize; R],
        strides: [usize; R],
        values: &'a [T],
    ) -> Result<HostRef<'a, T, R>, Error> {
        let (needed, given) = (reach(&extents, &strides), values.len());
        if needed > given {
            let message = format!(
                "extents {extents:?} with strides {strides:?} reach over {needed} elements, and there are {given}"
            );
            return Err(Refusal::new(message).help("give a longer slice, or smaller extents").into());
        }
        Ok(HostRef { values: &values[..needed], extents, strides })
    }

    /// The element at a coordinate. Panics out of bounds.
    pub fn at(&self, coordinate: [usize; R]) -> T {
        assert!(
            coordinate.iter().zip(&self.extents).all(|(at, extent)| at < extent),
            "there is no element {coordinate:?} in a tensor of extents {:?}",
            self.extents
        );
        self.values[coordinate.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum::<usize>()]
    }

    /// Its extents.
    pub fn shape(&self) -> [usize; R] {
        self.extents
    }

    /// Its strides, in elements.
    pub fn strides(&self) -> [usize; R] {
        self.strides
    }
}

impl<T: Element> HostRef<'_, T, 2> {
    /// The transpose; nothing is copied.
    pub fn transposed(mut self) -> Self {
        self.extents.reverse();
        self.strides.reverse();
        self
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
    /// Are they those of the result?
    fn is_written(&self) -> bool;
    /// Writes all of a result, as they are stored.
    fn write(&mut self, bits: &mut dyn Iterator<Item = u64>);
    /// As an argument of the simulator.
    #[cfg(feature = "sim")]
    fn simulated(&self, modes: &Modes) -> tilewright_sim::Arg;
    /// As a tensor on a device.
    #[cfg(feature = "cuda")]
    fn upload(&self, stream: &tilewright_runtime::Stream, modes: &Modes) -> Result<Box<dyn Uploaded>, Error>;
}

/// A tensor that was copied to a device.
#[cfg(feature = "cuda")]
pub(super) trait Uploaded {
    /// As an argument; what is written too.
    fn argument(&mut self, written: bool) -> tilewright_runtime::Argument<'_>;
    /// The bits of its elements, as they are stored.
    fn bits(&self) -> Result<Vec<u64>, Error>;
}

/// Values that are read, or written.
enum Slice<'a, T> {
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
    fn upload(&self, stream: &tilewright_runtime::Stream, modes: &Modes) -> Result<Box<dyn Uploaded>, Error> {
        Ok(match modes.rank {
            1 => Box::new(uploaded::<T, 1>(stream, modes, self.get())?),
            2 => Box::new(uploaded::<T, 2>(stream, modes, self.get())?),
            _ => Box::new(uploaded::<T, 3>(stream, modes, self.get())?),
        })
    }
}

#[cfg(feature = "cuda")]
fn uploaded<T: Element, const R: usize>(
    stream: &tilewright_runtime::Stream,
    modes: &Modes,
    values: &[T],
) -> Result<tilewright_runtime::DeviceTensor<T, R>, Error> {
    let all = |of: [i64; 3]| std::array::from_fn(|mode| usize::try_from(of[mode]).unwrap_or(usize::MAX));
    Ok(tilewright_runtime::DeviceTensor::from_elements(
        stream,
        all(modes.extents),
        all(modes.strides),
        values,
    )?)
}

#[cfg(feature = "cuda")]
impl<T: Element, const R: usize> Uploaded for tilewright_runtime::DeviceTensor<T, R> {
    fn argument(&mut self, written: bool) -> tilewright_runtime::Argument<'_> {
        if written { self.into() } else { (&*self).into() }
    }

    fn bits(&self) -> Result<Vec<u64>, Error> {
        Ok(self.to_host_stored()?.into_iter().map(T::to_raw).collect())
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

fn lent<'a, T: Element, const R: usize>(
    values: Slice<'a, T>,
    extents: [usize; R],
    strides: [usize; R],
) -> Operands<'a> {
    let signed = |all: [usize; R]| all.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let modes = Modes::new(T::ELEM, &signed(extents), &signed(strides));
    Operands { modes, values: Box::new(values) }
}

impl sealed::Place for Host {}

impl Place for Host {
    type Ran = Ran;
    type Lent<'a> = Operands<'a>;

    fn run(&self, product: Product<'_, Host>) -> Result<Ran, Error> {
        #[cfg(feature = "cuda")]
        if !self.processor
            && let Ok(device) = tilewright_runtime::Device::open(0)
        {
            return on_device(&device, product);
        }
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
    let launched = Place::run(&stream, Product { form, alpha, beta, operands: arguments })?;
    let result = there.iter().zip(&mut operands).find(|((name, _), _)| *name == "c");
    if let Some(((_, tensor), (_, operand))) = result {
        operand.values.write(&mut tensor.bits()?.into_iter());
    }
    Ok(Ran::Device(Box::new(launched)))
}

/// In the simulator, which checks every access.
#[cfg(feature = "sim")]
fn simulated(product: Product<'_, Host>) -> Result<Ran, Error> {
    use super::product::Kernels;
    use tilewright_codegen::kernel_def::Places;
    use tilewright_codegen::{Elem, Generated};
    use tilewright_sim::{Arg, Options, run};

    static KERNELS: Kernels<Generated> = Kernels::new();
    let kernel =
        KERNELS.get(&product.form, |definition| Ok(definition.kernel("matmul", &Places::default())?))?;
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
                result = Some((operand.modes.elem.bytes() as usize, operand.values));
            }
            arg
        },
        number,
    );
    let outcome = run(&kernel, &args, &Options { count: false, ..Options::default() })?;
    if let (Some((size, mut values)), Some(bytes)) = (result, outcome.bytes("c")) {
        let bits = |element: &[u8]| element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        values.write(&mut bytes.chunks_exact(size).map(bits));
    }
    Ok(Ran::Simulator(Box::new(outcome)))
}

impl<T: Element, const R: usize> sealed::Operand for &HostTensor<T, R> {}
impl<T: Element, const R: usize> sealed::Operand for &mut HostTensor<T, R> {}
impl<T: Element, const R: usize> sealed::Operand for HostRef<'_, T, R> {}
impl<T: Element, const R: usize> sealed::Operand for &HostRef<'_, T, R> {}

macro_rules! read {
    ($(<$($life:lifetime),*> $ty:ty, $view:expr;)*) => {
        $(
            impl<$($life,)* T: Element, const R: usize> Operand<'a> for $ty {
                type Elem = T;
                type Place = Host;
                fn lend(self) -> Operands<'a> {
                    let view: fn($ty) -> HostRef<'a, T, R> = $view;
                    let HostRef { values, extents, strides } = view(self);
                    lent(Slice::Read(values), extents, strides)
                }
            }

            impl<$($life,)* T: Element, const R: usize> Matrix<'a> for $ty
            where
                Rank<R>: IsMatrix,
            {
                type Result<U: Element> = HostTensor<U, R>;
                fn result<U: Element>(
                    _: &Host,
                    extents: &[usize],
                    rows: bool,
                ) -> Result<HostTensor<U, R>, Error> {
                    HostTensor::of_zeros(std::array::from_fn(|mode| extents[mode]), rows)
                }
                fn lend_result<U: Element>(result: &mut HostTensor<U, R>) -> Operands<'_> {
                    result.lend_mut()
                }
            }
        )*
    };
}

read! {
    <'a> &'a HostTensor<T, R>, |tensor| tensor.view();
    <'a> HostRef<'a, T, R>, |view| view;
    <'a, 'b> &'b HostRef<'a, T, R>, |view| *view;
}

impl<'a, T: Element, const R: usize> Target<'a> for &'a mut HostTensor<T, R> {
    type Elem = T;
    type Place = Host;
    fn lend_mut(self) -> Operands<'a> {
        lent(Slice::Written(&mut self.values), self.extents, self.strides)
    }
}
