//! The leaves of a view's layout, as steps along modes of its tensor.

use tilewright_layout::Value;

use super::View;

/// A leaf of a view's layout: its extent, the tensor mode that it runs along, and its stride there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaf {
    /// The extent.
    pub extent: i64,
    /// The mode of the tensor.
    pub mode: usize,
    /// The stride in that mode.
    pub step: i64,
}

/// Do leaves of these strides and extents cover a range of this length, without overlap?
pub fn covers(mut leaves: Vec<(i64, i64)>, length: i64) -> bool {
    leaves.retain(|(_, n)| *n > 1);
    leaves.sort_unstable();
    let next = |below: i64, &(by, n): &(i64, i64)| (by == below).then(|| below.checked_mul(n)).flatten();
    leaves.iter().try_fold(1, next) == Some(length)
}

/// The leaves of a view's layout; extents that are not integers count as 1.
pub fn leaves(view: &View) -> Vec<Leaf> {
    view.layout
        .leaves()
        .map(|(extent, stride)| {
            let extent = extent.int().unwrap_or(1);
            match stride {
                Value::Basis { times, path } => {
                    Leaf { extent, mode: usize::from(path.steps()[0]), step: times }
                }
                _ => Leaf { extent, mode: 0, step: 0 },
            }
        })
        .collect()
}
