//! The traits of launch arguments, so that this crate can word the compiler's errors.

use tilewright_program::element::Element;

use super::{TensorMut, TensorRef};

/// Arguments for a tensor that a kernel reads: everything that converts to a [`TensorRef`].
///
/// ```no_run
/// # use tilewright_runtime::{DeviceTensor, ReadTensor, TensorRef, cudarc::driver::CudaSlice};
/// fn reads<'a>(tensor: impl ReadTensor<'a, f32, 2>) {}
/// # fn show(tensor: &DeviceTensor<f32, 2>, slice: &CudaSlice<f32>) {
/// reads(tensor);
/// reads(tensor.view().transposed());
/// reads(TensorRef::new(slice, [64, 8]));
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the kernel reads a tensor of `{T}` with {R} modes here, and `{Self}` is not one",
    label = "not a tensor of `{T}` with {R} modes that can be read",
    note = "pass a `&DeviceTensor<{T}, {R}>` or a `TensorRef<{T}, {R}>`: `tensor.view()` makes the one of the other, and \
            `reshaped` changes its modes",
    note = "`DeviceTensor::from_host` takes values of the host, `TensorRef::new(&buffer, extents)` a buffer of cudarc; a \
            `&CudaSlice` is a tensor of one mode as it is"
)]
pub trait ReadTensor<'a, T: Element, const R: usize> {
    /// The tensor, borrowed.
    fn lend(self) -> TensorRef<'a, T, R>;
}

#[diagnostic::do_not_recommend]
impl<'a, T: Element, const R: usize, X: Into<TensorRef<'a, T, R>>> ReadTensor<'a, T, R> for X {
    fn lend(self) -> TensorRef<'a, T, R> {
        self.into()
    }
}

/// Arguments for a tensor that a kernel writes: everything that converts to a [`TensorMut`].
///
/// ```no_run
/// # use tilewright_runtime::{DeviceTensor, TensorMut, WriteTensor, cudarc::driver::CudaSlice};
/// fn writes<'a>(tensor: impl WriteTensor<'a, f32, 2>) {}
/// # fn show(tensor: &mut DeviceTensor<f32, 2>, slice: &mut CudaSlice<f32>) {
/// writes(&mut *tensor);
/// writes(tensor.view_mut().transposed());
/// writes(TensorMut::new(slice, [64, 8]));
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the kernel writes a tensor of `{T}` with {R} modes here, and `{Self}` is not one that it may write",
    label = "not a tensor of `{T}` with {R} modes that can be written",
    note = "pass a `&mut DeviceTensor<{T}, {R}>` or a `TensorMut<{T}, {R}>`: `tensor.view_mut()` makes the one of the other, \
            and `reshaped` changes its modes",
    note = "`DeviceTensor::zeros` makes a tensor, `TensorMut::new(&mut buffer, extents)` lends a buffer of cudarc; a \
            `&mut CudaSlice` is a tensor of one mode as it is"
)]
pub trait WriteTensor<'a, T: Element, const R: usize> {
    /// The tensor, mutably borrowed.
    fn lend(self) -> TensorMut<'a, T, R>;
}

#[diagnostic::do_not_recommend]
impl<'a, T: Element, const R: usize, X: Into<TensorMut<'a, T, R>>> WriteTensor<'a, T, R> for X {
    fn lend(self) -> TensorMut<'a, T, R> {
        self.into()
    }
}
