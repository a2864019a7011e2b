//! Kernels with lists of tensors, loops over lists of values, and grids that are sums.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("mean", mean().def().clone()),
        ("adam", adam().def().clone()),
        ("concatenated", concatenated().def().clone()),
        ("looked_up", looked_up().def().clone()),
        ("stencil", stencil().def().clone()),
        ("added", added().def().clone()),
        ("transposed_pair", transposed_pair().def().clone()),
        ("halves", halves().def().clone()),
        ("shifted", shifted().def().clone()),
    ]
}

/// The mean of some tensors of the same size.
#[kernel]
pub fn mean(xs: [&Tensor<f32, N>; 3], y: &mut Tensor<f32, N>) {
    let mut total = full::<f32>(512, 0.0);
    for x in xs {
        total += tile(x, 512, block.x);
    }
    copy(total * (1.0 / xs.len() as f32), tile(y, 512, block.x));
}

/// A step of Adam for K tensors of any lengths, in one launch.
#[kernel]
pub fn adam<const K: usize = 3>(
    lr: f32,
    gradients: [&Tensor<f32, _>; K],
    first: [&mut Tensor<f32, _>; K],
    second: [&mut Tensor<f32, _>; K],
    parameters: [&mut Tensor<f32, _>; K],
) {
    let mut blocks = 0;
    for p in parameters {
        blocks += ceil_div(p.size(0), 256);
    }
    let _ = walk(blocks, block.x);
    let mut before = 0;
    for i in unroll(0..K) {
        let at = block.x - before;
        before += ceil_div(parameters[i].size(0), 256);
        if at >= 0 && block.x < before {
            let (g, p) = (tile(gradients[i], 256, at), tile(parameters[i], 256, at));
            let (m, v) = (tile(first[i], 256, at), tile(second[i], 256, at));
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * (g * g);
            p -= lr * m / (sqrt(v) + 1e-8);
        }
    }
}

/// Vectors one after the other.
#[kernel]
pub fn concatenated(xs: [&Tensor<i32, _>; 4], y: &mut Tensor<i32, N>) {
    let (mut tiles, mut length) = (0, 0);
    for x in xs {
        tiles += ceil_div(x.size(0), 128);
        length += x.size(0);
    }
    assert(length == N);
    let block = walk(tiles, block.x);
    let (mut tiles, mut begin) = (0, 0);
    for x in xs {
        scatter(tile(x, 128, block - tiles), y, |x, at| (begin + at.0, x));
        tiles += ceil_div(x.size(0), 128);
        begin += x.size(0);
    }
}

/// Rows of several tables, a table for each column of identifiers.
#[kernel]
pub fn looked_up(
    ids: &Tensor<i32, (N, _3), (ldi, _1)>,
    tables: [&Tensor<f32, (_, D), (_, _1)>; 3],
    outs: [&mut Tensor<f32, (N, D), (_, _1)>; 3],
) {
    for i in unroll(0..3) {
        let row = ids[(block.x, i)];
        copy(tile(tables[i], (1, 64), (row, block.y)), tile(outs[i], (1, 64), (block.x, block.y)));
    }
}

/// A stencil, whose distances and weights are a list.
#[kernel]
pub fn stencil(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = tile(x, 256, block.x);
    let mut sum = 0.5 * x;
    for (distance, weight) in [(1, 0.25), (4, 0.125), (16, -0.5)] {
        sum += weight * shift(x, distance) + weight * shift(x, -distance);
    }
    copy(sum, tile(y, 256, block.x));
}

/// The sum of tiles of two tensors.
#[device]
pub fn both(xs: [View; 2], at: usize) -> View {
    let mut total = full::<f32>(64, 0.0);
    for x in xs {
        total += tile(x, 64, at);
    }
    total
}

/// The sum of two tensors.
#[kernel]
pub fn added(xs: [&Tensor<f32, N>; 2], y: &mut Tensor<f32, N>) {
    use self::both;
    copy(both(xs, block.x), tile(y, 64, block.x));
}

/// Tiles of two tensors in one walk: the blocks of the first, then the others, along columns.
#[kernel]
pub fn transposed_pair(xs: [&Tensor<f32, (_, N), (_, _1)>; 2], ys: [&mut Tensor<f32, (N, _), (_, _1)>; 2]) {
    let rows = ceil_div(xs[0].size(0), 32);
    let (row, column) = walk((rows + ceil_div(xs[1].size(0), 32), ceil_div(N, 32)), block.x);
    if row < rows {
        copy(permute(tile(xs[0], (32, 32), (row, column)), (1, 0)), tile(ys[0], (32, 32), (column, row)));
    } else {
        let row = row - rows;
        copy(permute(tile(xs[1], (32, 32), (row, column)), (1, 0)), tile(ys[1], (32, 32), (column, row)));
    }
}

/// Elements at even and at odd places: there may be one more of the first.
#[kernel]
pub fn halves(
    x: &Tensor<f32, N>,
    even: &mut Tensor<f32, { ceil_div(N, 2) }>,
    odd: &mut Tensor<f32, { N / 2 }>,
) {
    let _ = walk(max(ceil_div(N, 512), ceil_div(N / 2, 256)), block.x);
    let pairs = map(regroup(tile(x, 512, block.x), (2, 256)), |x| x);
    copy(pairs[(0, _)], tile(even, 256, block.x));
    copy(pairs[(1, _)], tile(odd, 256, block.x));
}

/// x plus a bias, if there is one; the sums before the function too, if they are asked for.
#[kernel]
pub fn shifted(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    bias: Option<&Tensor<f32, N>>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
    before: Option<&mut Tensor<f32, (M, N), (ldy, _1)>>,
) {
    let at = (block.x, block.y);
    let x = tile(x, (4, 64), at);
    let sum = if let Some(row) = bias { x + tile(row, 64, block.y).along(1) } else { 1.0 * x };
    if let Some(before) = before {
        copy(sum, tile(before, (4, 64), at));
    }
    copy(map(sum, |x| max(x, 0.0)), tile(y, (4, 64), at));
}
