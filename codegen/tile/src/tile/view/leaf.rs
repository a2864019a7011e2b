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
