//! Arguments of a launch: tensors and numbers of any types.

use smallvec::SmallVec;
use tilewright_program::Elem;
use tilewright_program::element::Element;

use crate::tensor::{Buffer, DeviceTensor, Region, TensorMut, TensorRef};

/// An argument of a kernel whose types are known only at run time: a tensor that is read, a tensor that is
/// written, or a number.
///
/// ```no_run
/// # use tilewright_runtime::{Argument, DeviceTensor};
/// # fn show(a: &DeviceTensor<f32, 2>, c: &mut DeviceTensor<f32, 2>) {
/// let arguments = [Argument::from(a), Argument::from(c), Argument::scalar(1.0f32)];
/// # }
/// ```
#[derive(Debug)]
pub struct Argument<'a> {
    pub(crate) kind: Kind<'a>,
}

#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Tensor(Lent<'a>),
    /// A number's type, and its bytes.
    Scalar(Elem, u64),
}

/// A tensor of any type.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    pub(crate) buffer: Buffer<'a>,
    pub(crate) elem: Elem,
    /// Extents, then strides.
    pub(crate) modes: SmallVec<[i64; 8]>,
    /// In elements.
    offset: usize,
}

impl Lent<'_> {
    /// The tensor's first element in bytes from the start of its buffer, and the number of elements from there on: 0 out of
    /// bounds, where the address does not matter.
    pub(crate) fn first(&self) -> (u64, u64) {
        let bytes = self.elem.bytes() as usize;
        let len = self.buffer.len() / bytes;
        let offset = self.offset.min(len);
        ((offset * bytes) as u64, (len - offset) as u64)
    }
}

impl<'a> Argument<'a> {
    /// Extents, then strides, and where the tensor starts in the buffer, in elements.
    pub(crate) fn tensor(
        buffer: Buffer<'a>,
        elem: Elem,
        modes: impl Iterator<Item = usize>,
        offset: usize,
    ) -> Argument<'a> {
        // Values that do not fit are refused by name when the launch is planned.
        let modes = modes.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect();
        Argument { kind: Kind::Tensor(Lent { buffer, elem, modes, offset }) }
    }

    fn of<const R: usize>(buffer: Buffer<'a>, elem: Elem, region: Region<R>) -> Argument<'a> {
        let modes = region.extents.into_iter().chain(region.strides);
        Argument::tensor(buffer, elem, modes, region.offset)
    }
}

impl Argument<'_> {
    /// A number.
    pub fn scalar<T: Element>(value: T) -> Argument<'static> {
        Argument::number(T::ELEM, value.to_raw())
    }

    /// The number with these bits.
    #[doc(hidden)]
    pub fn number(elem: Elem, bits: u64) -> Argument<'static> {
        Argument { kind: Kind::Scalar(elem, bits) }
    }

    /// The type of the elements, or of the number.
    pub fn elem(&self) -> Elem {
        match &self.kind {
            Kind::Tensor(lent) => lent.elem,
            Kind::Scalar(elem, _) => *elem,
        }
    }

    /// The extents of a tensor, one for each mode; a number has none.
    pub fn extents(&self) -> &[i64] {
        let modes = self.modes();
        &modes[..modes.len() / 2]
    }

    /// The strides of a tensor in elements, one for each mode; a number has none.
    pub fn strides(&self) -> &[i64] {
        let modes = self.modes();
        &modes[modes.len() / 2..]
    }

    fn modes(&self) -> &[i64] {
        match &self.kind {
            Kind::Tensor(lent) => &lent.modes,
            Kind::Scalar(..) => &[],
        }
    }

    /// The same tensor with two modes exchanged, without a copy. A number is unchanged.
    ///
    /// ```no_run
    /// # use tilewright_runtime::{Argument, DeviceTensor};
    /// # fn show(b: &DeviceTensor<f32, 3>) {
    /// let transposed = Argument::from(b).swapped(0, 1); // a transpose for each index of the third mode
    /// # }
    /// ```
    pub fn swapped(mut self, one: usize, other: usize) -> Self {
        if let Kind::Tensor(lent) = &mut self.kind {
            let modes = &mut lent.modes;
            let rank = modes.len() / 2;
            modes.swap(one, other);
            modes.swap(rank + one, rank + other);
        }
        self
    }
}

impl<'a, T: Element, const R: usize> From<TensorRef<'a, T, R>> for Argument<'a> {
    fn from(tensor: TensorRef<'a, T, R>) -> Self {
        Argument::of(tensor.buffer, T::ELEM, tensor.region)
    }
}

impl<'a, T: Element, const R: usize> From<TensorMut<'a, T, R>> for Argument<'a> {
    fn from(tensor: TensorMut<'a, T, R>) -> Self {
        Argument::of(tensor.buffer, T::ELEM, tensor.region)
    }
}

impl<'a, T: Element, const R: usize> From<&'a DeviceTensor<T, R>> for Argument<'a> {
    fn from(tensor: &'a DeviceTensor<T, R>) -> Self {
        tensor.view().into()
    }
}

impl<'a, T: Element, const R: usize> From<&'a mut DeviceTensor<T, R>> for Argument<'a> {
    fn from(tensor: &'a mut DeviceTensor<T, R>) -> Self {
        tensor.view_mut().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_program::element::{bf16, f16};

    #[track_caller]
    fn check<T: Element>(value: T, expected: u64) {
        match Argument::scalar(value).kind {
            Kind::Scalar(elem, bits) => assert_eq!((elem, bits), (T::ELEM, expected)),
            Kind::Tensor(_) => panic!("a number"),
        }
    }

    #[test]
    fn numbers_keep_their_bits() {
        check(1.0f64, 0x3ff0_0000_0000_0000);
        check(1.0f32, 0x3f80_0000);
        check(f16::from_f32(1.0), 0x3c00);
        check(bf16::from_f32(1.0), 0x3f80);
        check(-1i32, 0xffff_ffff);
        check(7u32, 7);
        check(-1i8, 0xff);
        check(200u8, 200);
    }
}
