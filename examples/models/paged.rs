//! Attention of tokens to keys and values in pages: the tokens of a prompt, or the newest token of each of several sequences.

use tilewright::prelude::*;

/// Turns queries and keys by the angles of their positions, in place, and stores keys and values in pages. A row of `qkv` has G heads of
/// queries for each of the J heads of keys, then the keys, then the values. A block has H heads of keys of a token, and their queries.
#[kernel(T = f16 | bf16, overlaps)]
pub fn rotate_and_store<
    T,
    const G: usize = 1,
    const D: usize = 64,
    const P: usize = 64,
    const H: usize = 1,
>(
    positions: &Tensor<i32, M>,
    sequences: &Tensor<i32, M>,
    table: &Tensor<i32, (S, L), (ldt, _1)>,
    cosines: &Tensor<f32, { (C, D / 2) }, (ldc, _1)>,
    sines: &Tensor<f32, { (C, D / 2) }, (lds, _1)>,
    qkv: &mut Tensor<T, { (M, (G + 2) * J, D) }, (ldx, hx, _1)>,
    keys: &mut Tensor<T, (R, P, J, D), (rk, pk, hk, _1)>,
    values: &mut Tensor<T, (R, P, J, D), (rv, pv, hv, _1)>,
) {
    assert(J % H == 0);
    let (token, part) = walk((M, ceil_div(J, H)), block.x);
    let position = positions[(token)];
    let (page, slot) = (table[(sequences[(token)], position / P)], position % P);
    let (c, s) = (tile(cosines, (1, D / 2), (position, 0)), tile(sines, (1, D / 2), (position, 0)));
    let rotate = |a, b, c, s| {
        let (a, b) = (a as f32, b as f32);
        (a * c - b * s, b * c + a * s)
    };
    let (left, right) = (
        tile(qkv, (1, G * H, D / 2), (token, part, 0))[(0, _, _)],
        tile(qkv, (1, G * H, D / 2), (token, part, 1))[(0, _, _)],
    );
    let (a, b) = map((left, right, c, s), rotate);
    copy(a, left);
    copy(b, right);
    let at = G * (J / H) + part;
    let (left, right) = (
        tile(qkv, (1, H, D / 2), (token, at, 0))[(0, _, _)],
        tile(qkv, (1, H, D / 2), (token, at, 1))[(0, _, _)],
    );
    let (a, b) = map((left, right, c, s), rotate);
    copy(a, left);
    copy(b, right);
    copy(a, tile(keys, (1, 1, H, D / 2), (page, slot, part, 0))[(0, 0, _, _)]);
    copy(b, tile(keys, (1, 1, H, D / 2), (page, slot, part, 1))[(0, 0, _, _)]);
    let value = tile(qkv, (1, H, D), (token, at + J / H, 0))[(0, _, _)];
    copy(value, tile(values, (1, 1, H, D), (page, slot, part, 0))[(0, 0, _, _)]);
}

/// softmax(scale · Q·Kᵀ)·V of each token and the tokens of its sequence up to it. G heads of queries, the rows of a tile, share a head
/// of keys. A block reads BN keys at once, which divides P. The keys of a sequence are divided among X blocks: 264 blocks in all fill an
/// H200. If X > 1, blocks store their results in `parts` and `sums`, and the last to arrive combines them. `arrived` is 0 before and after
/// a launch.
#[kernel(T = f16 | bf16, overlaps)]
pub fn paged_attention<
    T,
    const G: usize = 1,
    const D: usize = 64,
    const P: usize = 64,
    const BN: usize = 32,
>(
    scale: f32,
    positions: &Tensor<i32, M>,
    sequences: &Tensor<i32, M>,
    table: &Tensor<i32, (S, L), (ldt, _1)>,
    q: &Tensor<T, (M, J, G, D), (ldq, jq, hq, _1)>,
    keys: &Tensor<T, (R, P, J, D), (rk, pk, hk, _1)>,
    values: &Tensor<T, (R, P, J, D), (rv, pv, hv, _1)>,
    parts: &mut Tensor<f32, (D, G, J, M, X)>,
    sums: &mut Tensor<f32, (G, X, J, M, _2)>,
    arrived: &mut Tensor<i32, (J, M)>,
    out: &mut Tensor<T, (M, J, G, D), (ldo, jo, ho, _1)>,
) {
    at_most(X, 64);
    let ((part, token), head) = (walk((X, M), block.x), block.y);
    let (last, sequence) = (positions[(token)], sequences[(token)]);
    let tiles = max(0, last) / BN + 1;
    let each = ceil_div(tiles, X);
    let unit = scale * 1.442695; // exp(scale · s) is exp2(unit · s)
    let (sq, sk, sv) = (shared::<T>((16, D)), shared::<T>((BN, D)), shared::<T>((BN, D)));
    copy(tile(q, (1, 1, 16, D), (token, head, 0, 0))[(0, 0, _, _)], sq);
    let mma = tiled_mma::<T, f32>(warps = 1);
    let mut acc = mma.accumulators((16, D), 0.0);
    let mut most = full::<f32>((16, 1), f32::MIN);
    let mut total = full::<f32>((16, 1), 0.0);
    for n in pipelined(part * each..min(tiles, (part + 1) * each), stages = 3) {
        let (number, within) = (n / (P / BN), n % (P / BN));
        let page = table[(sequence, number)];
        copy(tile(keys, (1, BN, 1, D), (page, within, head, 0))[(0, _, 0, _)], sk);
        copy(tile(values, (1, BN, 1, D), (page, within, head, 0))[(0, _, 0, _)], sv);
        let mut s = mma.accumulators((16, BN), 0.0);
        gemm(sq, sk, &mut s);
        if (n + 1) * BN > last + 1 || page >= R {
            s = map(s, |s, at| if (number * P + at.1 <= last) & (page < R) { s } else { f32::NEG_INFINITY });
        }
        let next = map((most, maximum(s, 1, out_of_bounds = f32::NEG_INFINITY)), |a, b| max(a, b));
        let p = map((s, next), |s, m| exp2((s - m) * unit));
        let shrink = map((most, next), |m, next| exp2((m - next) * unit));
        total = map((total, shrink, sum(p, 1, out_of_bounds = 0.0)), |t, c, p| t * c + p);
        acc = map((acc, shrink), |acc, c| acc * c);
        gemm(map(p, |p| p as T), permute(sv, (1, 0)), &mut acc);
        most = next;
    }
    let to = tile(out, (1, 1, 16, D), (token, head, 0, 0))[(0, 0, _, _)];
    if X == 1 {
        copy(map((acc, total), |acc, total| acc / total), to);
    } else {
        copy(acc, permute(tile(parts, (D, 16, 1, 1, 1), (0, 0, head, token, part))[(_, _, 0, 0, 0)], (1, 0)));
        let own = tile(sums, (16, 1, 1, 1, 1), (0, part, head, token, _))[(_, _, 0, 0, 0, _)];
        copy(most, own[(_, _, 0)]);
        copy(total, own[(_, _, 1)]);
        let before = copy(1, arrived[(head, token)], how = "atomic_add");
        if before == X - 1 {
            let sums = tile(sums, (G, 64, 1, 1, 1), (0, 0, head, token, _))[(_, _, 0, 0, 0, _)];
            let most = maximum(map(sums[(_, _, 0)], |m| m), 1);
            let weights = map(
                (sums[(_, _, 0)], most),
                |m, most, at| if at.1 < X { exp2((m - most) * unit) } else { 0.0 },
            );
            let total = sum(map((weights, sums[(_, _, 1)]), |w, t| w * t), 1);
            let sw = shared::<f32>((G, 64));
            copy(weights, sw);
            let parts = tile(parts, (D, G, 1, 1, 8), (0, 0, head, token, _))[(_, _, 0, 0, _, _)];
            let mut acc = full::<f32>((D, G, 8), 0.0);
            for n in 0..ceil_div(X, 8) {
                let weights = broadcast(tile(sw, (G, 8), (0, n)), (D, _, _));
                acc = map((acc, parts[(_, _, _, n)], weights), |acc, part, w| acc + part * w);
            }
            let acc = sum(acc, 2, out_of_bounds = 0.0)[(_, _, 0)];
            let to = permute(tile(to, (G, D), (0, 0)), (1, 0));
            copy(map((acc, total[(_, 0)].along(1)), |acc, total| acc / total), to);
            copy(0, arrived[(head, token)]);
        }
    }
}

/// Attention of the tokens of a prompt, one after the other: BM of them are the rows of a tile, for one head.
#[kernel(T = f16 | bf16)]
pub fn paged_prefill<
    T,
    const BM: usize = 64,
    const G: usize = 1,
    const D: usize = 64,
    const P: usize = 64,
>(
    scale: f32,
    positions: &Tensor<i32, M>,
    sequences: &Tensor<i32, M>,
    table: &Tensor<i32, (S, L), (ldt, _1)>,
    q: &Tensor<T, { (M, J * G, D) }, (ldq, hq, _1)>,
    keys: &Tensor<T, (R, P, J, D), (rk, pk, hk, _1)>,
    values: &Tensor<T, (R, P, J, D), (rv, pv, hv, _1)>,
    out: &mut Tensor<T, { (M, J * G, D) }, (ldo, ho, _1)>,
) {
    let (first, sequence, head) = (positions[(0)], sequences[(0)], block.y / G);
    let (sq, sk, sv) = (shared::<T>((BM, D)), shared::<T>((P, D)), shared::<T>((P, D)));
    copy(tile(q, (BM, 1, D), (block.x, block.y, 0))[(_, 0, _)], sq);
    let mma = tiled_mma::<T, f32>(warps = BM / 16);
    let mut acc = mma.accumulators((BM, D), 0.0);
    let mut most = full::<f32>((BM, 1), f32::MIN);
    let mut total = full::<f32>((BM, 1), 0.0);
    for n in pipelined(0..ceil_div(first + min(M, (block.x + 1) * BM), P), stages = 2) {
        let page = table[(sequence, n)];
        copy(tile(keys, (1, P, 1, D), (page, 0, head, 0))[(0, _, 0, _)], sk);
        copy(tile(values, (1, P, 1, D), (page, 0, head, 0))[(0, _, 0, _)], sv);
        let mut s = mma.accumulators((BM, P), 0.0);
        gemm(sq, sk, &mut s);
        let s =
            map(
                s,
                |s, at| {
                    if (n * P + at.1 <= first + at.0) & (page < R) { s * scale } else { f32::NEG_INFINITY }
                },
            );
        let next = map((most, maximum(s, 1, out_of_bounds = f32::NEG_INFINITY)), |a, b| max(a, b));
        let p = map((s, next), |s, m| exp(s - m));
        total = map((total, most, next, sum(p, 1, out_of_bounds = 0.0)), |t, m, n, p| t * exp(m - n) + p);
        acc = map((acc, most, next), |acc, m, n| acc * exp(m - n));
        gemm(map(p, |p| p as T), permute(sv, (1, 0)), &mut acc);
        most = next;
    }
    copy(
        map((acc, total), |acc, total| acc / total),
        tile(out, (BM, 1, D), (block.x, block.y, 0))[(_, 0, _)],
    );
}
