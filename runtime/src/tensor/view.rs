//! Tensors that are borrowed for a launch: a buffer, extents, strides, and an offset.

use std::fmt;
use std::marker::PhantomData;

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use tilewright_program::element::Element;

use super::buffer::{Buffer, Owner};
use super::{DeviceTensor, Plain, column_major, row_major};

/// A tensor of `R` modes that a kernel reads. It borrows its memory, without a copy.
///
/// ```no_run
/// # use tilewright_runtime::{TensorRef, cudarc::driver::CudaSlice};
/// # fn show(slice: &CudaSlice<f32>) {
/// let a = TensorRef::new(slice, [64, 8]); // column-major
/// let b = TensorRef::new(slice, [64, 8]).strides([8, 1]); // row-major
/// let c = TensorRef::new(slice, [32, 8]).strides([1, 64]).offset(32); // the lower half of `a`
/// # }
/// ```
///
/// Extents, strides and the offset are checked against the buffer's length at launch.
pub struct TensorRef<'a, T: Element, const R: usize> {
    pub(crate) buffer: Buffer<'a>,
    pub(crate) region: Region<R>,
    element: PhantomData<&'a T>,
}

/// A tensor of `R` modes that a kernel writes. It borrows its memory, without a copy.
pub struct TensorMut<'a, T: Element, const R: usize> {
    pub(crate) buffer: Buffer<'a>,
    pub(crate) region: Region<R>,
    element: PhantomData<&'a mut T>,
}

/// Which elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region<const R: usize> {
    pub(crate) extents: [usize; R],
    pub(crate) strides: [usize; R],
    pub(crate) offset: usize,
}

impl<const R: usize> Region<R> {
    pub(crate) fn whole(extents: [usize; R], strides: [usize; R]) -> Region<R> {
        Region { extents, strides, offset: 0 }
    }
}

/// Memory of cudarc that can be lent as a tensor: [`CudaSlice`], [`CudaView`], [`CudaViewMut`]. The list is
/// closed, since the address of another type could not be trusted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent as a tensor",
    label = "neither a `&CudaSlice`, a `&CudaView` nor a `&CudaViewMut` of cudarc",
    note = "an address of anything else would have to be taken on trust"
)]
pub trait Lent<'a>: sealed::Lent<'a> {
    /// The element type.
    type Elem: Element;
}

/// Memory of cudarc that can be lent for writing: [`CudaSlice`], [`CudaViewMut`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent as a tensor that is written",
    label = "neither a `&mut CudaSlice` nor a `&mut CudaViewMut` of cudarc",
    note = "an address of anything else would have to be taken on trust"
)]
pub trait LentMut<'a>: sealed::LentMut<'a> {
    /// The element type.
    type Elem: Element;
}

mod sealed {
    use super::Buffer;

    pub trait Lent<'a> {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn buffer(self) -> Buffer<'a>;
    }

    pub trait LentMut<'a> {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn buffer(self) -> Buffer<'a>;
    }
}

macro_rules! lent {
    ($($(#[$doc:meta])* $inner:ident $lent:ident <$($life:lifetime),*> $ty:ty => $make:expr;)*) => {
        $(
            impl<$($life,)* S: Plain> sealed::$lent<'a> for $ty {
                #[allow(private_interfaces)]
                fn buffer(self) -> Buffer<'a> {
                    ($make)(self)
                }
            }
            impl<$($life,)* S: Plain> $lent<'a> for $ty {
                type Elem = S::Elem;
            }
        )*
    };
}

lent! {
    sealed Lent<'a> &'a CudaSlice<S> => |slice| Buffer::read(slice, Owner::Slice);
    sealed Lent<'a, 'b> &'b CudaView<'a, S> => Buffer::read_view;
    sealed Lent<'a, 'b> &'a CudaViewMut<'b, S> => Buffer::read_view_mut;
    sealed LentMut<'a> &'a mut CudaSlice<S> => |slice| Buffer::write(slice, Owner::Slice);
    sealed LentMut<'a, 'b> &'a mut CudaViewMut<'b, S> => Buffer::write_view;
}

macro_rules! both {
    ($name:ident) => {
        impl<'a, T: Element, const R: usize> $name<'a, T, R> {
            pub(crate) fn of(buffer: Buffer<'a>, region: Region<R>) -> $name<'a, T, R> {
                $name { buffer, region, element: PhantomData }
            }

            /// The same memory with other strides, in elements, one for each mode.
            pub fn strides(mut self, strides: [usize; R]) -> Self {
                self.region.strides = strides;
                self
            }

            /// The same memory with other extents, one for each mode; the strides do not change.
            pub fn extents(mut self, extents: [usize; R]) -> Self {
                self.region.extents = extents;
                self
            }

            /// The same memory as a tensor of other modes.
            pub fn reshaped<const Q: usize>(
                self,
                extents: [usize; Q],
                strides: [usize; Q],
            ) -> $name<'a, T, Q> {
                $name::of(self.buffer, Region { extents, strides, offset: self.region.offset })
            }

            /// The same memory, row-major: the last mode has stride 1.
            pub fn row_major(mut self) -> Self {
                self.region.strides = row_major(&self.region.extents);
                self
            }

            /// Starts this many elements later.
            pub fn offset(mut self, elements: usize) -> Self {
                self.region.offset = self.region.offset.saturating_add(elements);
                self
            }

            /// The part with these coordinates along a mode, without a copy: rows of a matrix along mode 0. The range ends at the tensor's end.
            pub fn part(mut self, mode: usize, range: std::ops::Range<usize>) -> Self {
                let end = range.end.min(self.region.extents[mode]);
                let start = range.start.min(end);
                self.region.extents[mode] = end - start;
                self.region.offset =
                    self.region.offset.saturating_add(start.saturating_mul(self.region.strides[mode]));
                self
            }

            /// Its extents.
            pub fn shape(&self) -> [usize; R] {
                self.region.extents
            }
        }

        impl<'a, T: Element> $name<'a, T, 2> {
            /// The transpose, without a copy.
            pub fn transposed(mut self) -> Self {
                self.region.extents.reverse();
                self.region.strides.reverse();
                self
            }
        }

        impl<T: Element, const R: usize> fmt::Debug for $name<'_, T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Region { extents, strides, offset } = self.region;
                write!(
                    f,
                    "{}<{}>(extents {extents:?}, strides {strides:?}, offset {offset})",
                    stringify!($name),
                    T::ELEM
                )
            }
        }
    };
}

both!(TensorRef);
both!(TensorMut);

impl<'a, T: Element, const R: usize> TensorRef<'a, T, R> {
    /// A column-major tensor in a buffer of cudarc: `&CudaSlice`, `&CudaView`, `&CudaViewMut`.
    pub fn new(from: impl Lent<'a, Elem = T>, extents: [usize; R]) -> TensorRef<'a, T, R> {
        TensorRef::of(from.buffer(), Region::whole(extents, column_major(&extents)))
    }
}

impl<'a, T: Element, const R: usize> TensorMut<'a, T, R> {
    /// A column-major tensor in a buffer of cudarc: `&mut CudaSlice`, `&mut CudaViewMut`.
    pub fn new(from: impl LentMut<'a, Elem = T>, extents: [usize; R]) -> TensorMut<'a, T, R> {
        TensorMut::of(from.buffer(), Region::whole(extents, column_major(&extents)))
    }

    /// The same tensor for reading.
    pub fn as_ref(&self) -> TensorRef<'_, T, R> {
        TensorRef::of(self.buffer.again(), self.region)
    }
}

impl<T: Element, const R: usize> Clone for TensorRef<'_, T, R> {
    fn clone(&self) -> Self {
        match self.buffer.copy() {
            Some(buffer) => TensorRef::of(buffer, self.region),
            None => unreachable!("what is read is lent for reading"),
        }
    }
}

impl<'a, T: Element, const R: usize> From<&'a DeviceTensor<T, R>> for TensorRef<'a, T, R> {
    fn from(tensor: &'a DeviceTensor<T, R>) -> Self {
        tensor.view()
    }
}

impl<'a, T: Element, const R: usize> From<&'a mut DeviceTensor<T, R>> for TensorRef<'a, T, R> {
    fn from(tensor: &'a mut DeviceTensor<T, R>) -> Self {
        tensor.view()
    }
}

impl<'a, T: Element, const R: usize> From<&'a mut DeviceTensor<T, R>> for TensorMut<'a, T, R> {
    fn from(tensor: &'a mut DeviceTensor<T, R>) -> Self {
        tensor.view_mut()
    }
}

impl<'a, T: Element, const R: usize> From<&TensorRef<'a, T, R>> for TensorRef<'a, T, R> {
    fn from(tensor: &TensorRef<'a, T, R>) -> Self {
        tensor.clone()
    }
}

impl<'a, T: Element, const R: usize> From<&'a mut TensorMut<'_, T, R>> for TensorMut<'a, T, R> {
    fn from(tensor: &'a mut TensorMut<'_, T, R>) -> Self {
        let region = tensor.region;
        TensorMut::of(tensor.buffer.again_mut(), region)
    }
}

/// A slice as a vector.
impl<'a, S: Plain<Elem = T>, T: Element> From<&'a CudaSlice<S>> for TensorRef<'a, T, 1> {
    fn from(slice: &'a CudaSlice<S>) -> Self {
        let len = slice.len();
        TensorRef::new(slice, [len])
    }
}

/// A slice as a vector.
impl<'a, S: Plain<Elem = T>, T: Element> From<&'a mut CudaSlice<S>> for TensorMut<'a, T, 1> {
    fn from(slice: &'a mut CudaSlice<S>) -> Self {
        let len = slice.len();
        TensorMut::new(slice, [len])
    }
}
