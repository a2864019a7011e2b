//! The arguments of a launch, as the planner and the driver need them.

use tilewright_program::Elem;
use tilewright_program::launch::{Given, Tensor};

/// An argument, with its memory resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<'a> {
    pub(super) elem: Elem,
    /// Extents, then strides, of a tensor.
    pub(super) modes: Option<&'a [i64]>,
    pub(super) mutable: bool,
    /// The address of a tensor's first element, or the bits of a number.
    pub(super) word: u64,
    /// Elements of a tensor's buffer from the first one on.
    pub(super) len: u64,
}

impl Bound<'_> {
    pub(super) fn scalar(elem: Elem, bits: u64) -> Bound<'static> {
        Bound { elem, modes: None, mutable: false, word: bits, len: 0 }
    }

    /// As the planner sees it.
    pub(super) fn given(&self) -> Given {
        let Bound { elem, mutable, word, len, .. } = *self;
        let Some(modes) = self.modes else { return Given::Scalar(elem) };
        let (extents, strides) = modes.split_at(modes.len() / 2);
        let (extents, strides) = (extents.to_vec(), strides.to_vec());
        Given::Tensor(Tensor { elem, mutable, extents, strides, len, address: word })
    }
}
