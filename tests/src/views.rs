//! Kernels over shifted, overlapping, permuted and broadcast tiles, and raster orders over them.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("five_points", five_points().def().clone()),
        ("seven_points", seven_points().def().clone()),
        ("banded", banded().def().clone()),
        ("convolution", convolution().def().clone()),
        ("transposed", transposed().def().clone()),
        ("biased", biased().def().clone()),
        ("clustered", clustered().def().clone()),
        ("ordered", ordered().def().clone()),
    ]
}

/// The five-point stencil, with a tile and its halo in shared memory.
#[kernel(allow(bank_conflicts, uncoalesced))]
pub fn five_points(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let s = shared::<f32>((34, 10));
    let t = layout!((16, 4));
    let from = tile(x, (32, 8), (block.x, block.y), halo = 1);
    copy(parallelize(from, t, thread.x, ragged = true), parallelize(s, t, thread.x, ragged = true));
    cp_async_wait_all();
    sync_threads();
    let inner = tile(s, (32, 8), (0, 0));
    let (left, right) =
        (parallelize(shift(inner, (0, 1)), t, thread.x), parallelize(shift(inner, (2, 1)), t, thread.x));
    let (above, below) =
        (parallelize(shift(inner, (1, 0)), t, thread.x), parallelize(shift(inner, (1, 2)), t, thread.x));
    let own = parallelize(shift(inner, (1, 1)), t, thread.x);
    let to = parallelize(tile(y, (32, 8), (block.x, block.y)), t, thread.x);
    map((own, left, right, above, below), to, |own, l, r, a, b| l + r + a + b - 4.0 * own);
}

/// The seven-point stencil from global memory, clamped at the boundary.
#[kernel]
pub fn seven_points(x: &Tensor<f32, (L, M, N)>, y: &mut Tensor<f32, (L, M, N)>) {
    let t = layout!((16, 2, 2));
    let gx = tile(x, (32, 4, 2), (block.x, block.y, block.z));
    let to = parallelize(tile(y, (32, 4, 2), (block.x, block.y, block.z)), t, thread.x);
    let mut sum = registers_like(to, 0.0);
    let mut part = registers_like(to, 0.0);
    for d in unroll(0..3) {
        copy(parallelize(shift(gx, (d - 1, 0, 0)), t, thread.x), part, clamp = true);
        sum += part;
        copy(parallelize(shift(gx, (0, d - 1, 0)), t, thread.x), part, clamp = true);
        sum += part;
        copy(parallelize(shift(gx, (0, 0, d - 1)), t, thread.x), part, clamp = true);
        sum += part;
    }
    copy(sum, to);
}

/// A matrix with five diagonals times a vector; the loop variable is the shift of the vector.
#[kernel]
pub fn banded(a: &Tensor<f32, (N, _5)>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(32);
    let gx = tile(x, 64, block.x);
    let ga = tile(a, (64, 1), (block.x, _));
    let to = parallelize(tile(y, 64, block.x), t, thread.x);
    let mut sum = registers_like(to, 0.0);
    for d in 0..5 {
        map(
            (sum, parallelize(ga[(_, 0, d)], t, thread.x), parallelize(shift(gx, (d - 2)), t, thread.x)),
            sum,
            |sum, a, x| sum + a * x,
        );
    }
    copy(sum, to);
}

/// A 3x3 convolution without im2col: each filter tap is a shifted tile.
#[kernel]
pub fn convolution(
    x: &Tensor<f32, (H, W, C)>,
    filter: &Tensor<f32, (O, _3, _3, C)>,
    y: &mut Tensor<f32, (H, W, O)>,
) {
    let t = layout!((16, 4));
    let gx = tile(x, (16, 8, 1), (block.x, block.y, _));
    let to = parallelize(tile(y, (16, 8, 1), (block.x, block.y, block.z))[(_, _, 0)], t, thread.x);
    let mut sum = registers_like(to, 0.0);
    for c in 0..C {
        for r in 0..3 {
            for s in 0..3 {
                let window = parallelize(shift(gx[(_, _, 0, c)], (r - 1, s - 1)), t, thread.x);
                let weight = broadcast(filter[(block.z, r, s, c)], (_, 2));
                map((sum, window, weight), sum, |sum, x, weight| sum + x * weight);
            }
        }
    }
    copy(sum, to);
}

/// A transpose by permuting modes, directly and through shared memory.
#[kernel(allow(bank_conflicts, uncoalesced))]
pub fn transposed(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>, z: &mut Tensor<f32, (N, M)>) {
    let t = layout!((16, 8));
    let gx = tile(x, (32, 16), (block.x, block.y));
    copy(
        parallelize(permute(gx, (1, 0)), t, thread.x),
        parallelize(tile(y, (16, 32), (block.y, block.x)), t, thread.x),
    );
    let s = shared::<f32>(padded((32, 16), 1));
    copy(parallelize(gx, t, thread.x), parallelize(s, t, thread.x));
    cp_async_wait_all();
    sync_threads();
    let turned = permute(tile(z, (16, 32), (block.y, block.x)), (1, 0));
    let t = layout!((16, 8) : (8, 1));
    copy(parallelize(s, t, thread.x), parallelize(turned, t, thread.x));
}

/// A vector broadcast along one mode of a matrix, with tiles rastered in bands.
#[kernel]
pub fn biased(
    x: &Tensor<f32, (M, N)>,
    row: &Tensor<f32, N>,
    column: &Tensor<f32, M>,
    y: &mut Tensor<f32, (M, N)>,
) {
    let t = layout!((16, 4));
    raster(3);
    let gx = parallelize(tile(x, (16, 8), (block.x, block.y)), t, thread.x);
    let row = parallelize(broadcast(tile(row, 8, block.y), (16, _)), t, thread.x);
    let column = parallelize(broadcast(tile(column, 16, block.x), (_, 8)), t, thread.x);
    map(
        (gx, row, column),
        parallelize(tile(y, (16, 8), (block.x, block.y)), t, thread.x),
        |x, row, column| x + row * 2.0 - column,
    );
}

/// A copy whose clusters take the tiles of the grid in bands.
#[kernel(arch = 90)]
pub fn clustered(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let t = layout!((16, 4));
    raster(2);
    cluster(2);
    copy(
        parallelize(tile(x, (16, 8), (block.x, block.y)), t, thread.x),
        parallelize(tile(y, (16, 8), (block.x, block.y)), t, thread.x),
    );
}

/// A copy whose blocks take the tiles in the order of a layout, for a matrix of 4x6 tiles.
#[kernel]
pub fn ordered(x: &Tensor<f32, { (64, 48) }>, y: &mut Tensor<f32, { (64, 48) }>) {
    let t = layout!((16, 4));
    let (i, j) = walk(layout!((4, 6) : (6, 1)), block.x);
    copy(
        parallelize(tile(x, (16, 8), (i, j)), t, thread.x),
        parallelize(tile(y, (16, 8), (i, j)), t, thread.x),
    );
}
