//! For an operation without an answer: the nearest right operand that has one. Only error messages use it.

use crate::error::{LayoutError, Operand};
use crate::layout::Layout;
use crate::value::Value;

/// The range of the variation of extents and strides.
const REACH: i64 = 64;

pub(crate) fn nearest(error: &LayoutError) -> Option<Operand> {
    let [Operand::Layout(left), right] = error.operands() else {
        return None;
    };
    let run = match error.operation() {
        "composition" => |left: &Layout, right: &Layout| left.composition(right).is_ok(),
        "logical_divide" | "zipped_divide" | "tiled_divide" | "flat_divide" => {
            |left: &Layout, right: &Layout| left.logical_divide(right).is_ok()
        }
        _ => return None,
    };
    match right {
        Operand::Layout(right) if error.is_a_bend() => {
            around(right).find(|right| run(left, right)).map(Operand::Layout)
        }
        _ => None,
    }
}

/// Layouts like this one in which a single number differs, nearest first: extents before strides, smaller
/// before larger.
fn around(layout: &Layout) -> impl Iterator<Item = Layout> + '_ {
    let leaves = layout.shape.len();
    (1..REACH).flat_map(move |by| {
        [-by, by].into_iter().flat_map(move |by| {
            (0..2 * leaves).filter_map(move |which| {
                let mut other = layout.clone();
                let index =
                    if which < leaves { &mut other.shape[which] } else { &mut other.stride[which - leaves] };
                let moved = index.int()?.checked_add(by)?;
                *index = Value::Int(moved);
                let other = other.recheck("nearest").ok()?;
                (moved > 0 && other.size().ok()? > 1).then_some(other)
            })
        })
    })
}
