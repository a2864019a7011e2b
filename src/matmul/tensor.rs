//! Tensors in the host's memory.

use tilewright_program::element::Element;
use tilewright_program::launch::Refusal;

use super::Error;
use super::host::{Host, Operands, Slice, lent};
use super::operand::{IsMatrix, Matrix, Operand, Rank, Target, read, sealed, written};

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
    for backend in 0..R {
        let mode = if rows { R - 1 - backend } else { backend };
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

/// Checks that a tensor of these extents and strides has exactly this number of values.
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

/// What tensors that own their values and tensors that borrow them have in common.
macro_rules! both {
    ($name:ident, <$($life:lifetime)?> $ty:ty, $values:ty) => {
        impl<$($life,)? T: Element, const R: usize> $ty {
            /// A row-major tensor of these values: the last mode is contiguous.
            pub fn row_major(extents: [usize; R], values: $values) -> Result<$ty, Error> {
                let strides = packed(&extents, true);
                counted(&extents, &strides, values.len())?;
                Ok($name { values, extents, strides })
            }

            /// A column-major tensor of these values: the first mode is contiguous.
            pub fn column_major(extents: [usize; R], values: $values) -> Result<$ty, Error> {
                let strides = packed(&extents, false);
                counted(&extents, &strides, values.len())?;
                Ok($name { values, extents, strides })
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
    };
}

both!(HostTensor, <> HostTensor<T, R>, Vec<T>);
both!(HostRef, <'a> HostRef<'a, T, R>, &'a [T]);

impl<T: Element, const R: usize> HostTensor<T, R> {
    /// A tensor with these strides, in elements. `values` must reach exactly from the first element to the last, and distinct
    /// coordinates must have distinct elements.
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
        Ok(HostTensor::for_results(&Host::cpu(), extents, true)?)
    }

    fn for_results(_: &Host, extents: [usize; R], rows: bool) -> Result<HostTensor<T, R>, Refusal> {
        let (strides, mut values) = (packed(&extents, rows), Vec::new());
        let count = reach(&extents, &strides);
        if values.try_reserve_exact(count).is_err() {
            let message = format!("the host has no room for a tensor of extents {extents:?}");
            return Err(Refusal::new(message));
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

    /// The tensor for reading.
    pub fn view(&self) -> HostRef<'_, T, R> {
        HostRef { values: &self.values, extents: self.extents, strides: self.strides }
    }
}

impl<'a, T: Element, const R: usize> HostRef<'a, T, R> {
    /// Values with these strides, in elements. There may be more of them than the tensor reaches.
    pub fn strided(
        extents: [usize; R],
        strides: [usize; R],
        values: &'a [T],
    ) -> Result<HostRef<'a, T, R>, Error> {
        let (needed, given) = (reach(&extents, &strides), values.len());
        if needed > given {
            let message = format!(
                "extents {extents:?} with strides {strides:?} span {needed} elements, and the buffer has {given}"
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
}

impl<T: Element> HostRef<'_, T, 2> {
    /// The transpose, without a copy.
    pub fn transposed(mut self) -> Self {
        self.extents.reverse();
        self.strides.reverse();
        self
    }
}

impl<'a, T: Element, const R: usize> From<&'a HostTensor<T, R>> for HostRef<'a, T, R> {
    fn from(tensor: &'a HostTensor<T, R>) -> Self {
        tensor.view()
    }
}

impl<'a, T: Element, const R: usize> From<&HostRef<'a, T, R>> for HostRef<'a, T, R> {
    fn from(tensor: &HostRef<'a, T, R>) -> Self {
        *tensor
    }
}

impl<'a, T: Element, const R: usize> From<HostRef<'a, T, R>> for Operands<'a> {
    fn from(HostRef { values, extents, strides }: HostRef<'a, T, R>) -> Self {
        lent(Slice::Read(values), extents, strides)
    }
}

impl<'a, T: Element, const R: usize> From<&'a mut HostTensor<T, R>> for Operands<'a> {
    fn from(tensor: &'a mut HostTensor<T, R>) -> Self {
        lent(Slice::Written(&mut tensor.values), tensor.extents, tensor.strides)
    }
}

read! {
    Host, Operands, HostRef, HostTensor:
    <'a> &'a HostTensor<T, R>;
    <'a> HostRef<'a, T, R>;
    <'a, 'b> &'b HostRef<'a, T, R>;
}

written! {
    Host, Operands, Operands:
    <'a> &'a mut HostTensor<T, R>;
}
