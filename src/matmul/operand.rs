//! The operands of a product, their types, and the device or host that has them.

use std::fmt;

use tilewright_program::Elem;
use tilewright_program::element::{Element, bf16, e4m3, e5m2, f16, tf32};

use super::Error;
use super::product::Product;

/// Where a product runs and its operands are: a [`Stream`](crate::Stream) of a device, or the [`Host`](super::Host).
pub trait Backend: sealed::Backend + Sized {
    /// How a product was computed.
    type Ran: fmt::Display + fmt::Debug;
    /// An operand, borrowed.
    #[doc(hidden)]
    type Lent<'a>: Lent;
    /// Runs a product. Everything except the operands' device has been checked.
    #[doc(hidden)]
    fn run(&self, product: Product<'_, Self>) -> Result<Self::Ran, Error>;
    /// The same operand with a shorter lifetime.
    #[doc(hidden)]
    fn shorter<'s, 'l: 's>(lent: Self::Lent<'l>) -> Self::Lent<'s>;
}

/// A borrowed operand of any type and number of modes.
#[doc(hidden)]
pub trait Lent: Sized {
    /// Its type, extents and strides.
    fn modes(&self) -> Modes;
    /// The transpose.
    fn transposed(self) -> Self;
}

/// A tensor that a product reads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of a product",
    label = "not a tensor",
    note = "pass a `&DeviceTensor` or a `TensorRef` with a stream, and a `&HostTensor` or a `HostRef` with `Host`"
)]
pub trait Operand<'a>: sealed::Operand {
    /// Type of its elements.
    type Elem: Element;
    /// Where it is.
    type Backend: Backend;
    /// Borrowed.
    #[doc(hidden)]
    fn lend(self) -> <Self::Backend as Backend>::Lent<'a>;
}

/// A matrix, or with a third mode a batch of them, that a product reads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no matrix that can be multiplied",
    label = "neither a tensor of two modes nor a batch of three",
    note = "pass a `&DeviceTensor` or a `TensorRef` with a stream, and a `&HostTensor` or a `HostRef` with `Host`: `reshaped` \
            changes the modes of a view"
)]
pub trait Matrix<'a>: Operand<'a> {
    /// A new tensor with the same number of modes, on the same device or host.
    type Result<U: Element>;
    /// Memory for a result.
    #[doc(hidden)]
    fn result<U: Element>(
        backend: &Self::Backend,
        extents: &[usize],
        rows: bool,
    ) -> Result<Self::Result<U>, Error>;
    /// A result, borrowed to be written.
    #[doc(hidden)]
    fn lend_result<U: Element>(result: &mut Self::Result<U>) -> <Self::Backend as Backend>::Lent<'_>;
}

/// A number of modes.
#[derive(Debug)]
pub struct Rank<const R: usize>;

/// The numbers of modes that a matrix, or a batch of matrices, has.
#[diagnostic::on_unimplemented(
    message = "a tensor of this many modes cannot be multiplied",
    label = "neither two modes nor three",
    note = "`reshaped` changes the modes of a view; the third mode of a batch counts products"
)]
pub trait IsMatrix {}

impl IsMatrix for Rank<2> {}
impl IsMatrix for Rank<3> {}

/// A tensor that a product writes.
#[diagnostic::on_unimplemented(
    message = "a product cannot be written to `{Self}`",
    label = "not a tensor that may be written",
    note = "pass a `&mut DeviceTensor` or a `TensorMut` with a stream, and a `&mut HostTensor` with `Host`"
)]
pub trait Target<'a>: sealed::Operand {
    /// Type of its elements.
    type Elem: Element;
    /// Where it is.
    type Backend: Backend;
    /// Borrowed.
    #[doc(hidden)]
    fn lend_mut(self) -> <Self::Backend as Backend>::Lent<'a>;
}

pub(super) mod sealed {
    /// Seals [`super::Backend`].
    pub trait Backend {}
    /// Seals the operands.
    pub trait Operand {}
}

/// Tensors of a backend that products read, through a view of `$view` that is lent as `$lent`; results have the type `$result`.
macro_rules! read {
    ($backend:ty, $lent:ident, $view:ident, $result:ident: $(<$($life:lifetime),*> $ty:ty;)*) => {
        $(
            impl<$($life,)* T: Element, const R: usize> sealed::Operand for $ty {}

            impl<$($life,)* T: Element, const R: usize> Operand<'a> for $ty {
                type Elem = T;
                type Backend = $backend;
                fn lend(self) -> $lent<'a> {
                    $view::from(self).into()
                }
            }

            impl<$($life,)* T: Element, const R: usize> Matrix<'a> for $ty
            where
                Rank<R>: IsMatrix,
            {
                type Result<U: Element> = $result<U, R>;
                fn result<U: Element>(
                    backend: &$backend,
                    extents: &[usize],
                    rows: bool,
                ) -> Result<$result<U, R>, Error> {
                    let extents = std::array::from_fn(|mode| extents[mode]);
                    Ok($result::for_results(backend, extents, rows)?)
                }
                fn lend_result<U: Element>(result: &mut $result<U, R>) -> $lent<'_> {
                    result.into()
                }
            }
        )*
    };
}

/// Tensors of a backend that products write.
macro_rules! written {
    ($backend:ty, $lent:ident, $view:ident: $(<$($life:lifetime),*> $ty:ty;)*) => {
        $(
            impl<$($life,)* T: Element, const R: usize> sealed::Operand for $ty {}

            impl<$($life,)* T: Element, const R: usize> Target<'a> for $ty {
                type Elem = T;
                type Backend = $backend;
                fn lend_mut(self) -> $lent<'a> {
                    $view::from(self).into()
                }
            }
        )*
    };
}

pub(super) use {read, written};

/// The type, extents and strides of an operand, in elements. A matrix has two modes, a batch three, a vector one.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    pub elem: Elem,
    pub rank: usize,
    pub extents: [i64; 3],
    pub strides: [i64; 3],
}

impl Modes {
    pub fn new(elem: Elem, extents: &[i64], strides: &[i64]) -> Modes {
        let rank = extents.len();
        let padded = |all: &[i64], other| [0, 1, 2].map(|mode| all.get(mode).copied().unwrap_or(other));
        Modes { elem, rank, extents: padded(extents, 1), strides: padded(strides, 0) }
    }
}

/// An element type of operands.
pub trait Factor: Element {
    /// The element type of their product: the same type, except that products of tf32 and of 8-bit types have the type of their
    /// accumulators.
    type Product: Element;
}

macro_rules! factors {
    ($($factor:ty => $product:ty),* $(,)?) => {
        $(impl Factor for $factor {
            type Product = $product;
        })*
    };
}

factors! {
    f64 => f64, f32 => f32, f16 => f16, bf16 => bf16, i32 => i32, u32 => u32,
    tf32 => f32, i8 => i32, u8 => i32, e4m3 => f32, e5m2 => f32,
}

/// The element type of a result: [`Natural`], or one that [`Matmul::out`](super::Matmul::out) names.
pub trait Out<A: Factor> {
    /// The type.
    type Elem: Element;
}

/// The element type that a product has by itself: see [`Factor::Product`].
#[derive(Clone, Copy, Debug)]
pub struct Natural;

/// A chosen element type.
#[derive(Clone, Copy, Debug)]
pub struct As<U>(std::marker::PhantomData<U>);

impl<A: Factor> Out<A> for Natural {
    type Elem = A::Product;
}

impl<A: Factor, U: Element> Out<A> for As<U> {
    type Elem = U;
}
