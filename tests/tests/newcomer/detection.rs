//! Masks of overlapping boxes, and gradients that go to the places of maxima.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// For each box the bits of those after it that overlap it by more than a limit, 32 in a word: the first half of the
/// suppression of all but the best ones.
#[kernel]
fn overlapping(limit: f32, boxes: &Tensor<f32, (N, _4)>, mask: &mut Tensor<u32, { (N, ceil_div(N, 32)) }>) {
    let own = tile(boxes, (64, 4), (block.x, 0));
    let (x0, y0, x1, y1) = (own[(_, 0)], own[(_, 1)], own[(_, 2)], own[(_, 3)]);
    let area = |x0, y0, x1, y1| (x1 - x0) * (y1 - y0);
    let mut word = full::<u32>(64, 0);
    for bit in 0..32 {
        let other = 32 * block.y + bit;
        let (ox0, oy0, ox1, oy1) =
            (boxes[(other, 0)], boxes[(other, 1)], boxes[(other, 2)], boxes[(other, 3)]);
        let both = max(min(x1, ox1) - max(x0, ox0), 0.0) * max(min(y1, oy1) - max(y0, oy0), 0.0);
        let either = area(x0, y0, x1, y1) + area(ox0, oy0, ox1, oy1) - both;
        let over = map((both, either), |i, u, at| (i > limit * u) & (other > at.0) & (other < N));
        word |= (over as u32) << bit;
    }
    copy(word.along(0), tile(mask, (64, 1), (block.x, block.y)));
}

#[test]
fn boxes_overlap() {
    inputs(overlapping().def()).set("limit = 0.3").written(["N = 1", "N = 2", "N = 33", "N = 64", "N = 130"]);
}

/// Max pooling of windows of 3x3, every second one: each gradient is added at the first maximum of its window.
#[kernel]
fn max_pool_dx(
    x: &Tensor<f32, (H, W), (ldx, _1)>,
    dy: &Tensor<f32, (P, Q), (ldy, _1)>,
    dx: &mut Tensor<f32, (H, W), (ldd, _1)>,
) {
    let dy = tile(dy, (8, 32), (block.x, block.y));
    let mut best = full::<f32>((8, 32), f32::NEG_INFINITY);
    let (mut row, mut column) = (full::<i32>((8, 32), -1), full::<i32>((8, 32), -1));
    for i in unroll(0..3) {
        for j in unroll(0..3) {
            (best, row, column) = map((best, row, column, dy), |best, row, column, _, at| {
                let (p, q) = (2 * at.0 + i, 2 * at.1 + j);
                let here = if (p < H) & (q < W) { x[(p, q)] } else { f32::NEG_INFINITY };
                if here > best { (here, p, q) } else { (best, row, column) }
            });
        }
    }
    scatter((dy, row, column), dx, |d, row, column| ((row, column), d), how = "atomic_add");
}

#[test]
fn gradients_go_to_maxima() {
    inputs(max_pool_dx().def()).zero("dx").near(
        1e-5,
        [
            "H = 1, W = 1, P = 1, Q = 1",
            "H = 3, W = 3, P = 2, Q = 2",
            "H = 20, W = 71, P = 10, Q = 36",
            "H = 5, W = 0, P = 3, Q = 0",
        ],
    );
}
