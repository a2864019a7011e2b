//! Tests of tensors that need no device.

use super::*;

#[test]
fn strides_of_columns_and_rows() {
    assert_eq!(column_major(&[2, 3, 4]), [1, 2, 6]);
    assert_eq!(row_major(&[2, 3, 4]), [12, 4, 1]);
    // An empty mode does not change the strides of the others.
    assert_eq!(column_major(&[2, 0, 4]), [1, 2, 2]);
    assert_eq!(column_major(&[usize::MAX, 2, 2]), [1, usize::MAX, usize::MAX]);
}

#[test]
fn tensors_may_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<DeviceTensor<f32, 2>>();
    check::<TensorRef<'_, f32, 2>>();
    check::<Stream>();
    check::<Device>();
    check::<Error>();
}
