//! Plans of products by mma.sync on architectures with bulk copies: one warp fills a ring, which needs no instructions of the
//! warps that multiply. Those warps wait for slots of the ring, and never for each other. The ring is not drained between tiles, so
//! copies of the next tile overlap the epilogue of this tile.

use crate::build::tiled::row_of;
use crate::matmul::Config;
use crate::matmul::plan::Plan;

/// The first architecture with bulk copies.
pub(in crate::matmul) const BULK: u32 = 90;
/// Bytes of a swizzled row, at least.
const LEAST: i64 = 32;
/// Most rows or columns of a bulk copy.
const BOX: i64 = 256;
/// Accumulators of a thread that leave registers for addresses of a bias, or of C, beside direct stores' addresses.
const MOST_SUMS: i64 = 128;

/// The plan with a producer, if bulk copies and ldmatrix support the types, orders and sizes.
pub(in crate::matmul) fn bulk(c: &Config, plan: &Plan) -> Option<Plan> {
    let [left, right, bk] = plan.tile;
    let mut fits = c.arch >= BULK
        && plan.a_left == c.c_rows
        && !c.block_scales
        && c.of_tiles.is_none()
        && left.max(right).max(bk) <= BOX;
    let [over, across, _] = plan.groups;
    let operands = plan.sides([(c.a_rows, c.dtype), (c.b_rows, c.b_dtype)]);
    for ((along_k, elem), (rows, warps)) in operands.into_iter().zip([(left, over), (right, across)]) {
        let bytes = i64::from(elem.bytes());
        let k = if elem == c.b_dtype { c.k_of_b(bk) } else { bk };
        // Elements that are converted are loaded in pairs along K, others by ldmatrix, which transposes elements of two bytes.
        let converted = elem != c.dtype;
        fits &= if converted { along_k } else { bytes == 2 || along_k && bytes <= 4 };
        let run = row_of(if along_k { k } else { rows }, bytes);
        let part = rows / warps;
        // A warp's part of rows in blocks consists of whole blocks, or is in one block.
        let divides = along_k || part % run == 0 || run % part == 0;
        fits &= run * bytes >= LEAST && divides;
    }
    let (columns, bytes) = (right / across, i64::from(c.out.bytes()));
    if plan.is_staged(c) {
        fits &= row_of(columns, bytes) * bytes >= LEAST;
    } else if c.bias.is_some() || c.alpha_beta || c.has_matrices() {
        fits &= left * right / plan.threads() < MOST_SUMS;
    }
    let fits = fits && plan.stages > 1 && plan.beside_sums(c) > 1;
    fits.then(|| Plan { bulk: true, fewer: true, ..plan.clone() })
}
