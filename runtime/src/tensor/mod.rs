//! Tensors in device memory, and copies from and to the host.
#![allow(unsafe_code)]

mod any;
mod buffer;
#[cfg(feature = "ndarray")]
mod from_ndarray;
mod passed;
mod size;
mod storage;
mod view;

use std::fmt;
use std::marker::PhantomData;

use cudarc::driver::{CudaSlice, result};
use tilewright_program::Elem;
use tilewright_program::element::{Element, bf16, e4m3, e5m2, f16, tf32};
use tilewright_program::launch::Refusal;

use crate::device::Device;
use crate::error::{Error, While};
use crate::stream::{Stream, is_per_thread, per_thread};

pub use any::AnyTensor;
pub(crate) use buffer::{Buffer, Owner};
pub use passed::{ReadTensor, WriteTensor};
use size::{needed, packed, reach, room, spans};
use storage::Storage;
pub(crate) use view::Region;
pub use view::{Lent, LentMut, TensorMut, TensorRef};

/// A type whose values a device holds as elements: the element types themselves, and with the feature `half`
/// that crate's `f16` and `bf16`. The list is closed.
#[diagnostic::on_unimplemented(
    message = "tensors have no elements of type `{Self}`",
    label = "not an element type",
    note = "elements are `f64`, `f32`, `f16`, `bf16`, `i64`, `u64`, `i32`, `u32`, `i16`, `u16`, `i8`, `u8`, `bool`, `tf32`, `e4m3` and \
            `e5m2`, and with the feature `half` the types of that crate"
)]
pub trait Stored: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The element type.
    type Elem: Element;
}

/// A type for which any bytes are a value: every element type but `bool`. cudarc reads the memory of slices as it is.
#[diagnostic::on_unimplemented(
    message = "slices of `{Self}` cannot be shared with kernels",
    label = "not every byte is a value of it",
    note = "a tensor of `bool` is made by `DeviceTensor::from_host`; a slice of `u8` is a tensor of `u8`, and `x != 0` a condition"
)]
pub trait Plain: Stored {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! stored {
    ($($ty:ty as $elem:ty),* $(,)?) => {
        $(
            impl sealed::Sealed for $ty {}
            impl Stored for $ty {
                type Elem = $elem;
            }
            impl Plain for $ty {}
        )*
    };
}

stored!(f64 as f64, f32 as f32, f16 as f16, bf16 as bf16, i32 as i32, u32 as u32, i8 as i8, u8 as u8);
stored!(tf32 as tf32, e4m3 as e4m3, e5m2 as e5m2, i64 as i64, u64 as u64, i16 as i16, u16 as u16);
impl sealed::Sealed for bool {}
impl Stored for bool {
    type Elem = bool;
}
#[cfg(feature = "half")]
stored!(half::f16 as f16, half::bf16 as bf16);

/// A tensor of `R` modes in a device's memory, which it owns.
///
/// ```no_run
/// use tilewright_runtime::{Device, DeviceTensor};
///
/// let stream = Device::open(0)?.stream()?;
/// let host: Vec<f32> = (0..6).map(|n| n as f32).collect();
/// let a = DeviceTensor::from_host(&stream, [2, 3], &host)?; // column-major
/// let b = DeviceTensor::<f32, 2>::zeros(&stream, [2, 3])?;
/// assert_eq!(a.to_host()?, host);
/// # Ok::<(), tilewright_runtime::Error>(())
/// ```
///
/// All its uses are ordered with its own stream: it may be used by launches on any stream of its device,
/// and dropped at any time.
pub struct DeviceTensor<T: Element, const R: usize> {
    storage: Storage,
    device: Device,
    region: Region<R>,
    element: PhantomData<T>,
}

/// Strides of columns one after another: the first mode is contiguous.
pub(crate) fn column_major<const R: usize>(extents: &[usize; R]) -> [usize; R] {
    let mut stride = 1usize;
    extents.map(|extent| {
        let next = stride.saturating_mul(extent.max(1));
        std::mem::replace(&mut stride, next)
    })
}

/// Strides of rows one after another: the last mode is contiguous.
pub(crate) fn row_major<const R: usize>(extents: &[usize; R]) -> [usize; R] {
    let mut reversed = *extents;
    reversed.reverse();
    let mut strides = column_major(&reversed);
    strides.reverse();
    strides
}

impl<T: Element, const R: usize> DeviceTensor<T, R> {
    /// A column-major tensor of these values: the first mode is contiguous.
    pub fn from_host<S: Stored<Elem = T>>(
        stream: &Stream,
        extents: [usize; R],
        values: &[S],
    ) -> Result<DeviceTensor<T, R>, Error> {
        packed(T::ELEM, &extents)?;
        DeviceTensor::from_host_strided(stream, extents, column_major(&extents), values)
    }

    /// A row-major tensor of these values: the last mode is contiguous.
    ///
    /// ```no_run
    /// # use tilewright_runtime::{DeviceTensor, Error, Stream};
    /// # fn show(stream: &Stream) -> Result<(), Error> {
    /// let a = DeviceTensor::from_host_row_major(stream, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(a.strides(), [3, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_host_row_major<S: Stored<Elem = T>>(
        stream: &Stream,
        extents: [usize; R],
        values: &[S],
    ) -> Result<DeviceTensor<T, R>, Error> {
        packed(T::ELEM, &extents)?;
        DeviceTensor::from_host_strided(stream, extents, row_major(&extents), values)
    }

    /// A tensor with these strides, in elements. `values` must reach exactly from the first element to the
    /// last.
    pub fn from_host_strided<S: Stored<Elem = T>>(
        stream: &Stream,
        extents: [usize; R],
        strides: [usize; R],
        values: &[S],
    ) -> Result<DeviceTensor<T, R>, Error> {
        DeviceTensor::of_values(stream, extents, strides, values)
    }

    /// The same where only the type of the elements is known.
    #[doc(hidden)]
    pub fn from_elements(
        stream: &Stream,
        extents: [usize; R],
        strides: [usize; R],
        values: &[T],
    ) -> Result<DeviceTensor<T, R>, Error> {
        DeviceTensor::of_values(stream, extents, strides, values)
    }

    /// `S` is an element type, or one of the same bytes.
    fn of_values<S: Copy>(
        stream: &Stream,
        extents: [usize; R],
        strides: [usize; R],
        values: &[S],
    ) -> Result<DeviceTensor<T, R>, Error> {
        let needed = needed(T::ELEM, &extents, &strides)?;
        spans(&extents, &strides, needed, values.len())?;
        let mut tensor = DeviceTensor::allocated(stream, Region::whole(extents, strides), needed)?;
        tensor.copy_from(values)?;
        Ok(tensor)
    }

    /// A column-major tensor of zeros.
    pub fn zeros(stream: &Stream, extents: [usize; R]) -> Result<DeviceTensor<T, R>, Error> {
        DeviceTensor::filled(stream, extents, 0)
    }

    /// A column-major tensor whose bytes are all 255: NaN for floating-point types, and -1 or the greatest
    /// value for integers. For tests, and for results that a kernel will write.
    pub fn poisoned(stream: &Stream, extents: [usize; R]) -> Result<DeviceTensor<T, R>, Error> {
        DeviceTensor::filled(stream, extents, 0xff)
    }

    fn filled(stream: &Stream, extents: [usize; R], byte: u8) -> Result<DeviceTensor<T, R>, Error> {
        const DOING: &str = "filling a tensor";
        let region = Region::whole(extents, column_major(&extents));
        let tensor = DeviceTensor::allocated(stream, region, packed(T::ELEM, &extents)?)?;
        let (cuda, bytes) = (stream.cuda(), tensor.stored_len() * size_of::<T>());
        if bytes > 0 {
            cuda.context().bind_to_thread().doing(DOING)?;
            // SAFETY: the tensor owns this number of bytes at this address, allocated in the order of this stream;
            // any bytes are values of an element type.
            unsafe { result::memset_d8_async(tensor.storage.address(), byte, bytes, cuda.cu_stream()) }
                .doing(DOING)?;
        }
        Ok(tensor)
    }

    /// A tensor without gaps, row-major or column-major, with unspecified contents: for results.
    #[doc(hidden)]
    pub fn for_results(
        stream: &Stream,
        extents: [usize; R],
        rows: bool,
    ) -> Result<DeviceTensor<T, R>, Error> {
        let strides = if rows { row_major(&extents) } else { column_major(&extents) };
        DeviceTensor::allocated(stream, Region::whole(extents, strides), packed(T::ELEM, &extents)?)
    }

    /// Memory with unspecified contents.
    fn allocated(stream: &Stream, region: Region<R>, len: usize) -> Result<DeviceTensor<T, R>, Error> {
        let storage = Storage::allocate(stream.cuda(), T::ELEM, len)?;
        Ok(DeviceTensor { storage, device: stream.device().clone(), region, element: PhantomData })
    }

    /// A column-major tensor that takes over a slice of cudarc. No element is copied.
    pub fn from_slice<S: Plain<Elem = T>>(
        slice: CudaSlice<S>,
        extents: [usize; R],
    ) -> Result<DeviceTensor<T, R>, Error> {
        packed(T::ELEM, &extents)?;
        DeviceTensor::from_slice_strided(slice, extents, column_major(&extents))
    }

    /// A tensor that takes over a slice of cudarc, without a copy, with these strides in elements.
    pub fn from_slice_strided<S: Plain<Elem = T>>(
        slice: CudaSlice<S>,
        extents: [usize; R],
        strides: [usize; R],
    ) -> Result<DeviceTensor<T, R>, Error> {
        if is_per_thread(slice.stream()) {
            return Err(per_thread("the stream of the slice"));
        }
        let (needed, len) = (needed(T::ELEM, &extents, &strides)?, slice.len());
        if needed > len {
            let message = format!(
                "extents {extents:?} with strides {strides:?} span {needed} elements, and the slice has {len}"
            );
            return Err(Refusal::new(message).into());
        }
        let device = Device::of(slice.context())?;
        let storage = Storage::of(slice)?;
        Ok(DeviceTensor { storage, device, region: Region::whole(extents, strides), element: PhantomData })
    }

    /// Converts the tensor to a slice of cudarc, with all its elements as they are stored.
    pub fn into_slice<S: Plain<Elem = T>>(self) -> Result<CudaSlice<S>, Error> {
        self.storage.into_slice()
    }

    /// Copies values into the tensor, as they are stored. Their number must be [`DeviceTensor::stored_len`].
    pub fn write<S: Stored<Elem = T>>(&mut self, values: &[S]) -> Result<(), Error> {
        self.copy_from(values)
    }

    /// `S` is an element type, or one of the same bytes.
    fn copy_from<S: Copy>(&mut self, values: &[S]) -> Result<(), Error> {
        const DOING: &str = "copying to a tensor";
        if size_of_val(values) != self.stored_len() * size_of::<T>() {
            let message =
                format!("the tensor has {} elements, and {} were given", self.stored_len(), values.len());
            return Err(Refusal::new(message).into());
        }
        if values.is_empty() {
            return Ok(());
        }
        let stream = self.storage.copies(&self.device, DOING)?;
        stream.context().bind_to_thread().doing(DOING)?;
        // SAFETY: the tensor owns this number of elements of this size at this address, and the stream comes after
        // all that uses them; `values` is lent until the copy is done, which is waited for also where it
        // fails.
        let copied = unsafe { result::memcpy_htod_async(self.storage.address(), values, stream.cu_stream()) };
        let done = stream.synchronize();
        copied.and(done).doing(DOING)
    }

    /// The values, column-major and without gaps, however they are stored.
    pub fn to_host(&self) -> Result<Vec<T>, Error> {
        let Region { extents, strides, .. } = self.region;
        if strides == column_major(&extents) {
            return self.to_host_stored();
        }
        // Strides of 0 make tensors larger than their memory.
        let count = packed(T::ELEM, &extents)?;
        let mut values = room(count)?;
        let stored = self.to_host_stored()?;
        let mut at = [0usize; R];
        for _ in 0..count {
            let offset: usize = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
            values.push(stored[offset]);
            for (at, extent) in at.iter_mut().zip(&extents) {
                *at += 1;
                if *at < *extent {
                    break;
                }
                *at = 0;
            }
        }
        Ok(values)
    }

    /// The elements from the first to the last as they are stored.
    pub fn to_host_stored(&self) -> Result<Vec<T>, Error> {
        if T::ELEM == Elem::Bool {
            // Not every byte is a `bool`.
            return Ok(self.stored(0u8)?.into_iter().map(|byte| T::from_raw(byte.into())).collect());
        }
        self.stored(T::ZERO)
    }

    /// The stored elements as values of a type of the same size, for which any bytes are a value.
    fn stored<S: Copy>(&self, zero: S) -> Result<Vec<S>, Error> {
        const DOING: &str = "copying from a tensor";
        let len = self.stored_len();
        let mut values = room(len)?;
        if len == 0 {
            return Ok(values);
        }
        values.resize(len, zero);
        let stream = self.storage.copies(&self.device, DOING)?;
        stream.context().bind_to_thread().doing(DOING)?;
        // SAFETY: the tensor owns this number of elements at this address, and the stream comes after all that
        // writes them; `values` lives until the copy is done, which is waited for also where it fails.
        let copied =
            unsafe { result::memcpy_dtoh_async(&mut values, self.storage.address(), stream.cu_stream()) };
        let done = stream.synchronize();
        self.device.waited(copied.and(done).doing(DOING))?;
        Ok(values)
    }

    /// The number of stored elements, gaps included.
    pub fn stored_len(&self) -> usize {
        reach(&self.region.extents, &self.region.strides).unwrap_or(0)
    }

    /// Its extents.
    pub fn shape(&self) -> [usize; R] {
        self.region.extents
    }

    /// Its strides, in elements.
    pub fn strides(&self) -> [usize; R] {
        self.region.strides
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The tensor for reading. The view can have other strides.
    pub fn view(&self) -> TensorRef<'_, T, R> {
        TensorRef::of(self.storage.read(), self.region)
    }

    /// The tensor for writing. The view can have other strides.
    pub fn view_mut(&mut self) -> TensorMut<'_, T, R> {
        TensorMut::of(self.storage.write(), self.region)
    }
}

impl DeviceTensor<u8, 1> {
    /// Memory of this number of bytes, with unspecified contents.
    pub(crate) fn uninitialised(stream: &Stream, bytes: usize) -> Result<DeviceTensor<u8, 1>, Error> {
        DeviceTensor::allocated(stream, Region::whole([bytes], [1]), bytes)
    }

    pub(crate) fn address(&self) -> u64 {
        self.storage.address()
    }
}

impl<T: Element, const R: usize> fmt::Debug for DeviceTensor<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Region { extents, strides, .. } = self.region;
        write!(f, "DeviceTensor<{}>(extents {extents:?}, strides {strides:?}, {:?})", T::ELEM, self.device)
    }
}

#[cfg(test)]
mod tests;
