//! Kernels that permute their elements on purpose, or whose elements have several coordinates: the coordinate
//! check accepts all of them.

use tilewright::prelude::*;

/// G = X·Xᵀ: rows and columns have the same extent, and come from the same tensor.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn gram(x: &Tensor<f32, (N, K)>, g: &mut Tensor<f32, (N, N)>) {
    let t = layout!((16, 16));
    let rows = parallelize(tile(x, (32, _), (block.x, 0)), t, thread.x, (1, _));
    let columns = parallelize(tile(x, (32, _), (block.y, 0)), t, thread.x, (_, 1));
    let out = parallelize(tile(g, (32, 32), (block.x, block.y)), t, thread.x);
    let mut acc = registers_like(out, 0.0);
    gemm(rows, columns, &mut acc);
    copy(acc, out);
}

/// Squared distances of all pairs: norms of rows and of columns with the same extent, and inner products.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn distances(
    x: &Tensor<f32, (N, K)>,
    y: &Tensor<f32, (N, K)>,
    nx: &Tensor<f32, (N, _1)>,
    ny: &Tensor<f32, (_1, N)>,
    d: &mut Tensor<f32, (N, N)>,
) {
    let t = layout!((16, 16));
    let rows = parallelize(tile(x, (16, _), (block.x, 0)), t, thread.x, (1, _));
    let columns = parallelize(tile(y, (16, _), (block.y, 0)), t, thread.x, (_, 1));
    let out = parallelize(tile(d, (16, 16), (block.x, block.y)), t, thread.x);
    let of_rows = parallelize(tile(nx, (16, 1), (block.x, 0)), layout!((16, 16) : (1, 16)), thread.x, (1, _));
    let of_columns =
        parallelize(tile(ny, (1, 16), (0, block.y)), layout!((1, 16, 16) : (0, 16, 1)), thread.x, (1, 1, _));
    let mut acc = registers_like(out, 0.0);
    gemm(rows, columns, &mut acc);
    copy(map((acc, of_rows, of_columns), |s, x, y| x + y - 2.0 * s), out);
}

/// The sums of all pairs of elements of two vectors with the same extent.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn pairs(x: &Tensor<f32, (N, _1)>, y: &Tensor<f32, (N, _1)>, z: &mut Tensor<f32, (N, N)>) {
    let t = layout!((16, 16));
    let rows = parallelize(tile(x, (16, 1), (block.x, 0)), t, thread.x, (1, _));
    let columns = parallelize(tile(y, (16, 1), (block.y, 0)), t, thread.x, (_, 1));
    copy(map((rows, columns), |x, y| x + y), parallelize(tile(z, (16, 16), (block.x, block.y)), t, thread.x));
}

/// O = (Q·Kᵀ)·V over one tile of keys, all with the same extent: the columns of one product are the K of the
/// next.
#[kernel(allow(unbounded, bank_conflicts, uncoalesced))]
fn mixed(
    q: &Tensor<f32, (S, D)>,
    k: &Tensor<f32, (S, D)>,
    v: &Tensor<f32, (S, D)>,
    o: &mut Tensor<f32, (S, D)>,
) {
    let t = layout!((16, 16));
    let p = shared::<f32>(padded((16, 16), 1));
    let vt = shared::<f32>(padded((16, 16), 1));
    let rows = parallelize(tile(q, (16, 16), (block.x, 0)), t, thread.x, (1, _));
    let columns = parallelize(tile(k, (16, 16), (0, 0)), t, thread.x, (_, 1));
    let out = parallelize(tile(o, (16, 16), (block.x, 0)), t, thread.x);
    let mut s = registers_like(out, 0.0);
    gemm(rows, columns, &mut s);
    copy(map(s, |s| exp(s)), parallelize(p, t, thread.x));
    // V is (s, d) and is transposed into shared memory as (d, s).
    copy(
        parallelize(tile(v, (16, 16), (0, 0)), t, thread.x),
        parallelize(vt, layout!((16, 16) : (16, 1)), thread.x),
    );
    cp_async_wait_all();
    sync_threads();
    let mut acc = registers_like(out, 0.0);
    gemm(parallelize(p, t, thread.x, (1, _)), parallelize(vt, t, thread.x, (_, 1)), &mut acc);
    copy(acc, out);
}

/// Two products into one accumulator, over different extents.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn two_products(
    x: &Tensor<f32, (M, K)>,
    w: &Tensor<f32, (N, K)>,
    h: &Tensor<f32, (M, R)>,
    u: &Tensor<f32, (N, R)>,
    y: &mut Tensor<f32, (M, N)>,
) {
    let t = layout!((16, 16));
    let out = parallelize(tile(y, (32, 32), (block.x, block.y)), t, thread.x);
    let mut acc = registers_like(out, 0.0);
    let rows = parallelize(tile(x, (32, _), (block.x, 0)), t, thread.x, (1, _));
    gemm(rows, parallelize(tile(w, (32, _), (block.y, 0)), t, thread.x, (_, 1)), &mut acc);
    let rows = parallelize(tile(h, (32, _), (block.x, 0)), t, thread.x, (1, _));
    gemm(rows, parallelize(tile(u, (32, _), (block.y, 0)), t, thread.x, (_, 1)), &mut acc);
    copy(acc, out);
}

/// An output extent that is also the extent of K: Y = X·Wᵀ with a square W, and X added.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn residual(x: &Tensor<f32, (M, D)>, w: &Tensor<f32, (D, D)>, y: &mut Tensor<f32, (M, D)>) {
    let t = layout!((16, 16));
    let out = parallelize(tile(y, (32, 32), (block.x, block.y)), t, thread.x);
    let own = parallelize(tile(x, (32, 32), (block.x, block.y)), t, thread.x);
    let mut acc = registers_like(out, 0.0);
    let rows = parallelize(tile(x, (32, _), (block.x, 0)), t, thread.x, (1, _));
    gemm(rows, parallelize(tile(w, (32, _), (block.y, 0)), t, thread.x, (_, 1)), &mut acc);
    copy(map((acc, own), |s, x| s + x), out);
}

/// Double buffering by hand: the product reads the tile fetched in the previous iteration.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn two_slots(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (sa, sb) = (shared::<f32>(padded((32, 8, 2), 1)), shared::<f32>(padded((32, 8, 2), 1)));
    let (t, tc) = (layout!((32, 8)), layout!((16, 16)));
    let (from_a, to_a) =
        (parallelize(tile(a, (32, 8), (block.x, _)), t, thread.x), parallelize(sa, t, thread.x));
    let (from_b, to_b) =
        (parallelize(tile(b, (32, 8), (block.y, _)), t, thread.x), parallelize(sb, t, thread.x));
    let (rows, columns) = (parallelize(sa, tc, thread.x, (1, _)), parallelize(sb, tc, thread.x, (_, 1)));
    let out = parallelize(tile(c, (32, 32), (block.x, block.y)), tc, thread.x);
    let mut acc = registers_like(out, 0.0);
    copy(from_a[(_, _, 0)], to_a[(_, _, 0)]);
    copy(from_b[(_, _, 0)], to_b[(_, _, 0)]);
    for k in 0..from_a.size(2) {
        cp_async_wait_all();
        sync_threads();
        copy(from_a[(_, _, k + 1)], to_a[(_, _, (k + 1) % 2)]);
        copy(from_b[(_, _, k + 1)], to_b[(_, _, (k + 1) % 2)]);
        gemm(rows[(_, _, k % 2)], columns[(_, _, k % 2)], &mut acc);
        sync_threads();
    }
    copy(acc, out);
}

/// An accumulator reordered in shared memory, in an operand's tile.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn reused(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (s, sb) = (shared::<f32>(padded((32, 32), 1)), shared::<f32>(padded((32, 32), 1)));
    let (t, tc) = (layout!((32, 8)), layout!((16, 16)));
    let from_a = parallelize(tile(a, (32, 32), (block.x, _)), t, thread.x);
    let from_b = parallelize(tile(b, (32, 32), (block.y, _)), t, thread.x);
    let mut acc = registers_like(parallelize(s, tc, thread.x), 0.0);
    for k in 0..from_a.size(2) {
        copy(from_a[(_, _, k)], parallelize(s, t, thread.x));
        copy(from_b[(_, _, k)], parallelize(sb, t, thread.x));
        cp_async_wait_all();
        sync_threads();
        gemm(parallelize(s, tc, thread.x, (1, _)), parallelize(sb, tc, thread.x, (_, 1)), &mut acc);
        sync_threads();
    }
    copy(acc, parallelize(s, tc, thread.x));
    sync_threads();
    copy(parallelize(s, t, thread.x), parallelize(tile(c, (32, 32), (block.x, block.y)), t, thread.x));
}

/// A permutation of elements within their tile.
#[kernel(allow(bank_conflicts, rearranged, uncoalesced))]
fn rearranged(x: &Tensor<f32, (N)>, y: &mut Tensor<f32, (N)>) {
    let from = parallelize(tile(x, (256), (block.x)), layout!((256)), thread.x);
    let to =
        parallelize(tile(y, (256), (block.x)), layout!(((16, 16), 1) : ((16, 1), 256)), thread.x, (1, _));
    copy(map(from, |x| 2.0 * x), to);
}

/// Each element combined with another one of the same tensor.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn exchanged(x: &Tensor<f32, (N)>, y: &mut Tensor<f32, (N)>) {
    let t = layout!((256));
    let one = parallelize(tile(x, (256), (block.x)), t, thread.x);
    let other =
        parallelize(tile(x, (256), (block.x)), layout!(((2, 128), 1) : ((128, 1), 256)), thread.x, (1, _));
    copy(map((one, other), |x, y| max(x, y)), parallelize(tile(y, (256), (block.x)), t, thread.x));
}

/// y = A·x with a square A of one tile of columns, by a reduction over the lanes of a row.
#[kernel(allow(unbounded, bank_conflicts, uncoalesced))]
fn matrix_vector(
    a: &Tensor<f32, (N, N), (lda, _1)>,
    x: &Tensor<f32, (_1, N), (ldx, _1)>,
    y: &mut Tensor<f32, (N, _1)>,
) {
    let t = layout!((8, 32) : (32, 1));
    let from = parallelize(tile(a, (8, 128), (block.x, _)), t, thread.x);
    let with = parallelize(tile(x, (1, 128), (0, _)), layout!((1, 32, 8) : (0, 1, 32)), thread.x, (1, 1, _));
    let piece = registers_like(from[(_, _, 0)], 0.0);
    copy(from[(_, _, 0)], piece);
    let total = sum(map((piece, with[(_, _, 0)]), |a, x| a * x), 1);
    let out = parallelize(tile(y, (8, 1), (block.x, 0)), t, thread.x, ragged = true);
    copy(warp_sum(total), out);
}

#[test]
fn all_of_them_have_source() {
    let all = [
        gram().source().to_owned(),
        distances().source().to_owned(),
        pairs().source().to_owned(),
        mixed().source().to_owned(),
        two_products().source().to_owned(),
        residual().source().to_owned(),
        two_slots().source().to_owned(),
        reused().source().to_owned(),
        rearranged().source().to_owned(),
        exchanged().source().to_owned(),
        matrix_vector().source().to_owned(),
    ];
    assert!(all.iter().all(|source| source.contains("__global__")));
}
