//! What the checks of the puzzles share: tensors whose elements are functions of their coordinates.

use std::error::Error;

use tilewright::layouts::Value;
use tilewright::{Arg, Element, Layout};

/// An error explains what is wrong.
pub(super) type Check = Result<(), Box<dyn Error>>;

fn integers(layout: &Layout) -> (Vec<usize>, Vec<usize>) {
    let integer = |value: Value| usize::try_from(value.factor()).expect("extents and strides are positive");
    layout.leaves().map(|(extent, stride)| (integer(extent), integer(stride))).unzip()
}

/// All coordinates of a layout, the first mode fastest.
pub(super) fn coordinates<const R: usize>(layout: &Layout) -> impl Iterator<Item = [usize; R]> {
    let (extents, _) = integers(layout);
    (0..extents.iter().product()).map(move |mut rest| {
        std::array::from_fn(|mode| {
            let at = rest % extents[mode];
            rest /= extents[mode];
            at
        })
    })
}

/// A tensor whose elements are a function of their coordinates.
pub(super) fn input<T: Element, const R: usize>(layout: &Layout, value: impl Fn([usize; R]) -> T) -> Arg {
    let (extents, strides) = integers(layout);
    let size = layout.cosize().expect("the extents are integers");
    let mut memory = vec![value([0; R]); size as usize];
    for (offset, at) in layout.offsets().expect("the strides are integers").zip(coordinates(layout)) {
        memory[offset as usize] = value(at);
    }
    Arg::tensor(&memory, extents).strides(strides)
}

/// A result of `f32`, whose elements the kernel must all write.
pub(super) fn output(layout: &Layout) -> Arg {
    let (extents, strides) = integers(layout);
    Arg::output::<f32>(extents).strides(strides)
}

pub(super) use super::costs::{cost_at_most, operations_at_most};
pub(super) use super::goal::{Goal, Writer};
