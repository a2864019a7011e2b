//! What of tensors needs no device.

use super::*;

#[test]
fn strides_of_columns_and_rows() {
    assert_eq!(column_major(&[2, 3, 4]), [1, 2, 6]);
    assert_eq!(row_major(&[2, 3, 4]), [12, 4, 1]);
    // An empty mode does not fold the others.
    assert_eq!(column_major(&[2, 0, 4]), [1, 2, 2]);
    assert_eq!(column_major(&[usize::MAX, 2, 2]), [1, usize::MAX, usize::MAX]);
}

#[test]
fn tensors_reach_to_their_last_element() {
    assert_eq!(reach(&[2, 3], &[1, 2]), Some(6));
    assert_eq!(reach(&[2, 3], &[10, 1]), Some(13));
    assert_eq!(reach(&[2, 0], &[1, 1 << 60]), Some(0));
    assert_eq!(reach::<0>(&[], &[]), Some(1));
    assert_eq!(reach(&[3, usize::MAX], &[usize::MAX, 3]), None);
}

#[test]
fn no_memory_is_that_large() {
    assert_eq!(needed::<f64, 2>(&[1 << 20, 1 << 20], &[1, 1 << 20]).expect("it could be"), 1 << 40);
    for extents in [[1 << 32, 1 << 32], [usize::MAX, 1], [1 << 31, 1 << 30]] {
        let said = needed::<f64, 2>(&extents, &column_major(&extents)).unwrap_err().to_string();
        assert!(said.contains("reach over more than any memory"), "{said}");
    }
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
