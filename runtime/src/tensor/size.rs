//! Element and byte counts of tensors. Extents and strides come from callers, so no arithmetic here may overflow.

use tilewright_program::Elem;
use tilewright_program::launch::Refusal;

use crate::error::Error;

/// The span of a tensor in elements, from its first to its last; saturates.
fn span(extents: &[usize], strides: &[usize]) -> u128 {
    if extents.contains(&0) {
        return 0;
    }
    let modes = extents.iter().zip(strides);
    modes.fold(1, |span, (&extent, &stride)| span.saturating_add((extent as u128 - 1) * stride as u128))
}

/// The same, if it fits `usize`.
pub(super) fn reach(extents: &[usize], strides: &[usize]) -> Option<usize> {
    usize::try_from(span(extents, strides)).ok()
}

/// The number of elements of a tensor, one for each coordinate.
fn count(extents: &[usize]) -> u128 {
    if extents.contains(&0) {
        return 0;
    }
    extents.iter().fold(1, |count, &extent| u128::saturating_mul(count, extent as u128))
}

/// The span of these strides in elements, if a memory can be that large.
pub(super) fn needed(elem: Elem, extents: &[usize], strides: &[usize]) -> Result<usize, Error> {
    fits(elem, span(extents, strides))
        .map_err(|many| refused(format!("extents {extents:?} with strides {strides:?} span {many}")))
}

/// The elements of a tensor without gaps, if a memory can be that large.
pub(super) fn packed(elem: Elem, extents: &[usize]) -> Result<usize, Error> {
    fits(elem, count(extents))
        .map_err(|many| refused(format!("a tensor with extents {extents:?} has {many}")))
}

/// Checks that values span a tensor exactly.
pub(super) fn spans(extents: &[usize], strides: &[usize], needed: usize, values: usize) -> Result<(), Error> {
    if needed == values {
        return Ok(());
    }
    let message = format!(
        "extents {extents:?} with strides {strides:?} span {needed} elements, and {values} were given"
    );
    Err(Refusal::new(message).into())
}

fn refused(message: String) -> Error {
    Refusal::new(format!("{message}: no memory has more than {} bytes", isize::MAX)).into()
}

/// No allocation has more bytes than half of the address space.
fn fits(elem: Elem, elements: u128) -> Result<usize, String> {
    let bytes = elements.checked_mul(u128::from(elem.bytes()));
    let fits = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
    match (usize::try_from(elements), bytes) {
        (Ok(elements), _) if fits => Ok(elements),
        (_, Some(bytes)) => Err(format!("{elements} elements of {elem}, {bytes} bytes")),
        (_, None) => Err(format!("more than {} bytes", u128::MAX)),
    }
}

/// A host vector with this capacity, still empty.
pub(super) fn room<S>(elements: usize) -> Result<Vec<S>, Error> {
    let mut values = Vec::new();
    match values.try_reserve_exact(elements) {
        Ok(()) => Ok(values),
        Err(_) => {
            let bytes = elements as u128 * size_of::<S>() as u128;
            let message =
                format!("the host has no room for the {elements} elements of the tensor, {bytes} bytes");
            Err(Refusal::new(message).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = usize::MAX;

    #[test]
    fn tensors_reach_to_their_last_element() {
        assert_eq!(reach(&[2, 3], &[1, 2]), Some(6));
        assert_eq!(reach(&[2, 3], &[10, 1]), Some(13));
        assert_eq!(reach(&[2, 0], &[1, 1 << 60]), Some(0));
        assert_eq!(reach(&[], &[]), Some(1));
        assert_eq!(reach(&[3, MOST], &[MOST, 3]), None);
        assert_eq!(reach(&[MOST; 4], &[MOST; 4]), None);
        assert_eq!(reach(&[MOST; 4], &[0; 4]), Some(1));
    }

    #[track_caller]
    fn check<T: std::fmt::Debug>(outcome: Result<T, Error>, expected: &str) {
        assert_eq!(outcome.unwrap_err().to_string(), expected);
    }

    #[test]
    fn no_memory_is_that_large() {
        assert_eq!(needed(Elem::F64, &[1 << 20, 1 << 20], &[1, 1 << 20]).expect("it could be"), 1 << 40);
        assert_eq!(needed(Elem::F64, &[MOST, 3], &[0, 1]).expect("it could be"), 3);
        assert_eq!(packed(Elem::F64, &[MOST, 0, MOST]).expect("it is empty"), 0);
        check(
            needed(Elem::F64, &[1 << 31, 1 << 30], &[1, 1 << 31]),
            "extents [2147483648, 1073741824] with strides [1, 2147483648] span 2305843009213693952 elements of \
             f64, 18446744073709551616 bytes: no memory has more than 9223372036854775807 bytes",
        );
        check(
            needed(Elem::I8, &[2, 2], &[MOST, 1]),
            "extents [2, 2] with strides [18446744073709551615, 1] span 18446744073709551617 elements of i8, \
             18446744073709551617 bytes: no memory has more than 9223372036854775807 bytes",
        );
        check(
            packed(Elem::F32, &[1 << 40, 1 << 40]),
            "a tensor with extents [1099511627776, 1099511627776] has 1208925819614629174706176 elements of f32, \
             4835703278458516698824704 bytes: no memory has more than 9223372036854775807 bytes",
        );
        check(
            packed(Elem::F32, &[1 << 62; 3]),
            "a tensor with extents [4611686018427387904, 4611686018427387904, 4611686018427387904] has more than \
             340282366920938463463374607431768211455 bytes: no memory has more than 9223372036854775807 bytes",
        );
    }

    #[test]
    fn hosts_have_less_room_than_tensors_broadcast() {
        check(
            room::<f32>(1 << 60),
            "the host has no room for the 1152921504606846976 elements of the tensor, 4611686018427387904 bytes",
        );
        assert!(room::<f32>(12).is_ok_and(|values| values.capacity() >= 12));
    }
}
