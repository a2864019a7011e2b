//! Tensors from and to `ndarray` arrays of the same shape.

use ndarray::{Array, ArrayBase, Data, Dim, Dimension, IntoDimension, ShapeBuilder};
use tilewright_program::element::Element;
use tilewright_program::launch::Refusal;

use super::size::{packed, room};
use super::{DeviceTensor, Stored};
use crate::error::Error;
use crate::stream::Stream;

impl<T: Element, const R: usize> DeviceTensor<T, R> {
    /// A column-major tensor with an array's elements, in any memory order.
    ///
    /// ```no_run
    /// # use tilewright_runtime::{Device, DeviceTensor};
    /// # let stream = Device::open(0)?.stream()?;
    /// let array = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let tensor = DeviceTensor::from_ndarray(&stream, &array)?;
    /// assert_eq!(tensor.to_ndarray()?, array);
    /// # Ok::<(), tilewright_runtime::Error>(())
    /// ```
    pub fn from_ndarray<S, A>(
        stream: &Stream,
        array: &ArrayBase<A, Dim<[usize; R]>>,
    ) -> Result<DeviceTensor<T, R>, Error>
    where
        S: Stored<Elem = T>,
        A: Data<Elem = S>,
        Dim<[usize; R]>: Dimension,
    {
        let mut extents = [0; R];
        extents.copy_from_slice(array.shape());
        // With the modes reversed, the first mode is the fastest.
        let mut values: Vec<S> = room(packed::<T>(&extents)?)?;
        values.extend(array.t().iter());
        DeviceTensor::from_host(stream, extents, &values)
    }

    /// The elements as an array, column-major.
    pub fn to_ndarray(&self) -> Result<Array<T, Dim<[usize; R]>>, Error>
    where
        [usize; R]: IntoDimension<Dim = Dim<[usize; R]>>,
        Dim<[usize; R]>: Dimension,
    {
        let shape = self.shape().into_dimension().f();
        Array::from_shape_vec(shape, self.to_host()?).map_err(|why| Refusal::new(why.to_string()).into())
    }
}
