//! Layouts of shared tiles that bulk copies fill and wgmma reads: rows of at most 128 bytes with the hardware swizzle.

use tilewright_layout::{Composed, Layout, Swizzle, Tuple};

use crate::build::BOX_ALIGN;
use crate::source::problem::Result;
use crate::tile::boxes::whole_groups;
use crate::values::elem::Elem;

/// Bytes of the longest row of shared memory that bulk copies swizzle.
pub const SWIZZLED: i64 = 128;

/// Rows of `bytes` bytes, with the hardware swizzle of bulk copies and wgmma: groups of 16 bytes are
/// exchanged among rows.
fn swizzled(elem: Elem, bytes: i64, layout: Layout) -> Result<Composed> {
    let group = elem.elements_in(16u32).trailing_zeros();
    Ok(Composed::new(Swizzle::new((bytes / 16).trailing_zeros(), group, 3)?, 0, layout))
}

/// The elements of a block, with those up to the next address at which a box can begin.
pub fn to_next_box(elements: i64, bytes: i64) -> i64 {
    (elements * bytes).cast_unsigned().next_multiple_of(BOX_ALIGN.into()).cast_signed() / bytes
}

/// A tile whose mode `along` is contiguous, in blocks of a swizzled row. Each block is a box of a bulk copy, and begins at a
/// multiple of 128 bytes. Rows that are no multiple of 16 bytes are longer than the tile's.
///
/// ```
/// use tilewright_codegen::{Elem, tiled::swizzled_tile};
/// assert_eq!(swizzled_tile(Elem::Bf16, [128, 64], 1)?.to_string(), "Sw<3,3,3> o 0 o (128,64):(64,1)");
/// assert_eq!(swizzled_tile(Elem::F64, [10, 7], 0)?.to_string(), "((2,5),7):((1,16),2)");
/// assert_eq!(swizzled_tile(Elem::Bf16, [128, 64], 0)?.to_string(), "Sw<3,3,3> o 0 o ((64,2),64):((1,4096),64)");
/// assert_eq!(swizzled_tile(Elem::F16, [24, 5], 1)?.to_string(), "(24,8):(8,1)");
/// # Ok::<(), tilewright_codegen::problem::Problem>(())
/// ```
pub fn swizzled_tile(elem: Elem, [rows, columns]: [i64; 2], along: usize) -> Result<Composed> {
    let bytes = i64::from(elem.bytes());
    let [run_of, others] = if along == 1 { [columns, rows] } else { [rows, columns] };
    let run_of = whole_groups(run_of, bytes);
    let run = row_of(run_of, bytes);
    let block = to_next_box(others * run, bytes);
    let layout = match along {
        1 if run == run_of => Layout::new((rows, run), (run, 1i64))?,
        1 => Layout::new((rows, (run, run_of / run)), (run, (1i64, block)))?,
        _ => Layout::new(((run, run_of / run), columns), ((1i64, block), run))?,
    };
    swizzled(elem, run * bytes, layout)
}

/// A tile of any modes, with that mode contiguous and the others after it in order, in rows of a multiple of 16 bytes.
pub fn rows_of(elem: Elem, tile: &[i64], along: usize) -> Result<Composed> {
    let mut extents = tile.to_vec();
    extents[along] = whole_groups(extents[along], elem.bytes().into());
    let mut strides = vec![1; extents.len()];
    let mut next = extents[along];
    for mode in (0..extents.len()).filter(|&mode| mode != along) {
        strides[mode] = next;
        next *= extents[mode];
    }
    Ok(Layout::new(Tuple::flat(&extents), Tuple::flat(&strides))?.into())
}

/// Elements of a row: the width of the widest swizzle that divides the extent; 16 bytes where none does.
pub fn row_of(extent: i64, bytes: i64) -> i64 {
    let widths = [SWIZZLED, SWIZZLED / 2, SWIZZLED / 4].map(|width| width / bytes);
    widths.into_iter().find(|width| extent % width == 0).unwrap_or(16 / bytes)
}
