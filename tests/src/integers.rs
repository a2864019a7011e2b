//! Kernels with data-dependent integers: conditions, loop bounds, coordinates read from memory.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("gather", gather().def().clone()),
        ("gather_elements", gather_elements().def().clone()),
        ("scatter_rows", scatter_rows().def().clone()),
        ("prefix", prefix().def().clone()),
        ("causal", causal().def().clone()),
        ("split_k", split_k().def().clone()),
        ("sparse", sparse().def().clone()),
        ("conditions", conditions().def().clone()),
        ("as_numbers", as_numbers().def().clone()),
        ("halves", halves().def().clone()),
        ("label_of_best", label_of_best().def().clone()),
        ("unsigned_ranges", unsigned_ranges().def().clone()),
        ("numbered_tiles", numbered_tiles().def().clone()),
        ("numbered_ahead", numbered_ahead().def().clone()),
        ("numbered_inside", numbered_inside().def().clone()),
    ]
}

/// A gather of rows: one row of a table per block.
#[kernel]
pub fn gather(
    ids: &Tensor<i32, N>,
    table: &Tensor<f32, (V, D), (ldt, _1)>,
    out: &mut Tensor<f32, (N, D), (ldo, _1)>,
) {
    let row = ids[(block.x)];
    let t = layout!((1, 32));
    let from = parallelize(tile(table, (1, 64), (row, block.y)), t, thread.x);
    let to = parallelize(tile(out, (1, 64), (block.x, block.y)), t, thread.x);
    copy(from, to);
}

/// A gather of elements: one index per thread.
#[kernel]
pub fn gather_elements(ids: &Tensor<u32, N>, table: &Tensor<f32, V>, out: &mut Tensor<f32, N>) {
    let t = layout!(64);
    let (own, to) =
        (parallelize(tile(ids, 64, block.x), t, thread.x), parallelize(tile(out, 64, block.x), t, thread.x));
    let row = own[(0)];
    copy(table[(row)], to[(0)], fill = -7.0);
}

/// A scatter of rows by a permutation; rows whose target is out of bounds are dropped.
#[kernel]
pub fn scatter_rows(
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    places: &Tensor<i32, N>,
    out: &mut Tensor<f32, (V, D), (ldo, _1)>,
) {
    let t = layout!((1, 32));
    let from = parallelize(tile(x, (1, 32), (block.x, block.y)), t, thread.x);
    let to = parallelize(tile(out, (1, 32), (places[(block.x)], block.y)), t, thread.x);
    copy(from, to);
}

/// Sums over all tiles up to the block's own: a triangle of tiles.
#[kernel]
pub fn prefix(x: &Tensor<f32, (N, D)>, out: &mut Tensor<f32, (N, D)>) {
    let t = layout!((16, 4));
    let to = parallelize(tile(out, (32, 8), (block.x, block.y)), t, thread.x);
    let all = parallelize(tile(x, (32, 8), (_, block.y)), t, thread.x);
    let mut sum = registers_like(to, 0.0);
    for j in 0..block.x + 1 {
        sum += all[(_, _, j)];
    }
    copy(sum, to);
}

/// C = L·X with a lower triangular L: the loop over K ends at the diagonal.
#[kernel]
pub fn causal<const B: usize = 32, const BK: usize = 8>(
    l: &Tensor<f32, (M, K)>,
    x: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let (sl, sx) = (shared::<f32>(padded((B, BK), 4)), shared::<f32>(padded((B, BK), 4)));
    let (gl, gx) = (tile(l, (B, BK), (block.x, _)), tile(x, (B, BK), (block.y, _)));
    let t = layout!((8, 8));
    let (fl, tl) =
        (parallelize(gl, t, thread.x, values = (4, 1)), parallelize(sl, t, thread.x, values = (4, 1)));
    let (fx, tx) =
        (parallelize(gx, t, thread.x, values = (4, 1)), parallelize(sx, t, thread.x, values = (4, 1)));
    let (rows, columns) = (parallelize(sl, t, thread.x, (1, _)), parallelize(sx, t, thread.x, (_, 1)));
    let out = parallelize(tile(c, (B, B), (block.x, block.y)), t, thread.x);
    let mut acc = registers_like(out, 0.0);
    for k in pipelined(0..min(gl.size(2), (block.x + 1) * (B / BK)), stages = 3) {
        copy(fl[(_, _, k)], tl);
        copy(fx[(_, _, k)], tx);
        gemm(rows, columns, &mut acc);
    }
    copy(acc, out);
}

/// Split-K: each block sums one part of K, as many parts as the workspace has.
#[kernel]
pub fn split_k(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, parts: &mut Tensor<f32, (M, N, S)>) {
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let (ga, gb) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let t = layout!((8, 8));
    let (fa, ta) =
        (parallelize(ga, t, thread.x, values = (4, 1)), parallelize(sa, t, thread.x, values = (4, 1)));
    let (fb, tb) =
        (parallelize(gb, t, thread.x, values = (4, 1)), parallelize(sb, t, thread.x, values = (4, 1)));
    let (rows, columns) = (parallelize(sa, t, thread.x, (1, _)), parallelize(sb, t, thread.x, (_, 1)));
    let gc = tile(parts, (32, 32, 1), (block.x, block.y, block.z));
    let out = parallelize(gc[(_, _, 0)], t, thread.x);
    let mut acc = registers_like(out, 0.0);
    let each = ceil_div(ga.size(2), S);
    for k in pipelined(block.z * each..min((block.z + 1) * each, ga.size(2)), stages = 2) {
        copy(fa[(_, _, k)], ta);
        copy(fb[(_, _, k)], tb);
        gemm(rows, columns, &mut acc);
    }
    copy(acc, out);
}

/// A sparse matrix in CSR format times a vector: one row per thread, with a data-dependent loop.
#[kernel]
pub fn sparse(
    begin: &Tensor<i32, { M + 1 }>,
    column: &Tensor<i32, Z>,
    value: &Tensor<f32, Z>,
    x: &Tensor<f32, N>,
    y: &mut Tensor<f32, M>,
) {
    let t = layout!(32);
    let to = parallelize(tile(y, 32, block.x), t, thread.x);
    let row = block.x * 32 + thread.x;
    let mut sum = registers::<f32>((1), 0.0);
    for at in begin[(row)]..begin[(row + 1)] {
        map((sum, value[(at)], x[(column[(at)])]), sum, |sum, value, x| sum + value * x);
    }
    copy(sum, to);
}

/// Conditions on the block, loop variables, sizes, integer and other arguments, data, and `&&`, `||`, `!`.
#[kernel(allow(uncoalesced))]
pub fn conditions(flags: &Tensor<i32, B>, n: i32, alpha: f32, out: &mut Tensor<f32, (B, _8)>) {
    let t = layout!((1, 8));
    let to = parallelize(tile(out, (1, 8), (block.x, 0)), t, thread.x);
    let mut sum = registers_like(to, 0.0);
    if block.x == 0 || flags[(block.x)] >= 3 && !(n == 2) {
        sum += 1.0;
    } else {
        sum += 2.0;
    }
    for k in 0..n {
        if k % 2 == 0 && block.x < B - 1 {
            sum += 10.0;
        }
        if k == n - 1 {
            sum += 100.0;
        }
    }
    if alpha > 0.5 && n > 0 {
        sum *= -1.0;
    }
    if thread.x >= 4 {
        sum += 0.5;
    }
    copy(sum, to);
}

/// Sizes, the block index and loop variables converted to numbers.
#[kernel]
pub fn as_numbers(x: &Tensor<f32, (M, N)>, out: &mut Tensor<f32, M>) {
    let t = layout!((32, 1));
    let all = parallelize(tile(x, (32, 1), (block.x, _)), t, thread.x);
    let to = parallelize(tile(out, 32, block.x), layout!(32), thread.x);
    let mut sum = registers::<f32>((1, 1), 0.0);
    for k in 0..N {
        map((sum, all[(_, _, k)]), sum, |sum, x| sum + x * (k as f32 + 1.0));
    }
    sum *= 2.0 * (x.size(1) as f32);
    map(sum, sum, |sum| if block.x == 0 { sum } else { sum + (block.x as i32 - 3) as f32 });
    copy(sum[(0, _)], to);
}

/// An argmax along a row by one warp, whose result indexes the labels.
#[kernel]
pub fn label_of_best(
    score: &Tensor<i32, (N, _32), (_32, _1)>,
    label: &Tensor<f32, _32>,
    out: &mut Tensor<f32, (N, _1)>,
) {
    let t = layout!((1, 32));
    let own = parallelize(tile(score, (1, 32), (block.x, 0)), t, thread.x);
    let mut best = registers::<i32>((1, 1), 0);
    map(own, best, |x| x * 32 + (31 - thread.x as i32));
    let best = warp_maximum(best);
    let index = map(best, |best| 31 - (best & 31));
    let to = parallelize(tile(out, (1, 1), (block.x, 0)), t, thread.x, ragged = true);
    copy(label[(index[(0, 0)])], to[(0, 0)]);
}

/// Extents computed from others, and a size that four divides.
#[kernel]
pub fn halves(
    x: &Tensor<f32, { 2 * N }>,
    pairs: &mut Tensor<f32, N>,
    total: &mut Tensor<f32, { (ceil_div(N, 64)) }>,
) {
    assert(N % 4 == 0);
    let t = layout!(16);
    let gx = shift(tile(x, 64, 0), (block.x * 64));
    let first = parallelize(gx, t, thread.x, values = 4);
    let second = parallelize(shift(gx, (N)), t, thread.x, values = 4);
    let to = parallelize(tile(pairs, 64, block.x), t, thread.x, values = 4);
    let mut own = registers_like(to, 0.0);
    map((first, second), own, |x, y| x + y);
    copy(own, to);
    copy(first, own);
    copy(block_sum(sum(own)), parallelize(tile(total, 1, block.x), t, thread.x, ragged = true));
}

/// Rows from one number of memory to another, without a sign, which may be the largest.
#[kernel]
pub fn unsigned_ranges(
    x: &Tensor<f32, (_32, N)>,
    ends: &Tensor<u32, { 2 * B }>,
    y: &mut Tensor<f32, (_32, B)>,
) {
    let rows = tile(x, (32, 1), (0, _));
    let s = shared::<f32>((32, 1));
    let mut total = full::<f32>((32, 1), 0.0);
    for k in pipelined(ends[block.x * 2]..min(ends[block.x * 2 + 1], 6), stages = 3) {
        copy(rows[(_, _, k)], s);
        total += s;
    }
    copy(total, tile(y, (32, 1), (0, block.x)));
}

/// Tiles along three modes have one number; four blocks have a part of them each.
#[kernel]
pub fn numbered_tiles(x: &Tensor<f32, (L, M, N)>, y: &mut Tensor<f32, (L, M, N)>) {
    at_most(L, 65536);
    at_most(M, 65536);
    at_most(N, 65536);
    let t = layout!((16, 2, 1));
    let (gx, gy) = (tile(x, (16, 4, 1), (_, _, _)), tile(y, (16, 4, 1), (_, _, _)));
    let (columns, rows) = (gx.size(3), gx.size(4));
    let all = columns * rows * N;
    let part = walk(4, block.x);
    let each = ceil_div(all, 4);
    for k in 0..min(each, all - part * each) {
        let at = part * each + k;
        let (i, j, l) = (at % columns, at / columns % rows, at / (columns * rows));
        let (from, to) = (gx[(_, _, _, i, j, l)], gy[(_, _, _, i, j, l)]);
        map(parallelize(from, t, thread.x), parallelize(to, t, thread.x), |x| 2.0 * x);
    }
}

/// The sum of all tiles of a block's part, whose copies run ahead.
#[kernel]
pub fn numbered_ahead(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (_16, _4, _3)>) {
    let t = layout!((16, 2));
    let (gx, s) = (tile(x, (16, 4), (_, _)), shared::<f32>((16, 4)));
    let to = parallelize(tile(y, (16, 4, 1), (0, 0, block.x))[(_, _, 0)], t, thread.x);
    let mut sum = registers_like(to, 0.0);
    let rows = gx.size(2);
    let all = rows * gx.size(3);
    let part = walk(3, block.x);
    let each = ceil_div(all, 3);
    for k in pipelined(0..min(each, all - part * each), stages = 3) {
        let at = part * each + k;
        copy(parallelize(gx[(_, _, at % rows, at / rows)], t, thread.x), parallelize(s, t, thread.x));
        sum += parallelize(s, t, thread.x);
    }
    copy(sum, to);
}

/// A loop in a loop: the number of a tile grows with both, and the outer one's quotient is read inside.
#[kernel]
pub fn numbered_inside(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (_16, _4)>) {
    at_most(M, 65536);
    at_most(N, 65536);
    let t = layout!((16, 2));
    let gx = tile(x, (16, 4), (_, _));
    let to = parallelize(tile(y, (16, 4), (0, 0)), t, thread.x);
    let mut sum = registers_like(to, 0.0);
    let (rows, columns) = (gx.size(2), gx.size(3));
    for j in 1..columns {
        for k in 0..rows {
            let at = j * rows + k;
            sum += parallelize(gx[(_, _, at % rows, at / rows)], t, thread.x);
            sum += parallelize(gx[(_, _, k, (j + 2) % columns)], t, thread.x);
            sum += parallelize(gx[(_, _, (j + k) / (rows * columns), (j + k) / rows % columns)], t, thread.x);
        }
    }
    copy(sum, to);
}
