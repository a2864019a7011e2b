//! Lists of integers that select the operands of products: blocks of keys, rows of experts, pages. Producers read them too.

use crate::{below, close, drawn, every, generated, right, rows_out};
use tilewright::prelude::*;
use tilewright_sim::Arg;

fn halves(count: usize, seed: u64) -> Vec<bf16> {
    drawn(count, seed).into_iter().map(|x| bf16::from_f32(x / 2.0)).collect()
}

fn product(a: &[bf16], b: &[bf16]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum()
}

/// Attention to the blocks of keys that a list names, for each block of queries.
#[kernel(arch = 90)]
fn block_sparse<const BM: usize = 64, const BN: usize = 64, const D: usize = 64>(
    scale: f32,
    start: &Tensor<i32, { ceil_div(M, BM) + 1 }>,
    column: &Tensor<i32, Z>,
    q: &Tensor<bf16, (M, D), (ldq, _1)>,
    k: &Tensor<bf16, (N, D), (ldk, _1)>,
    v: &Tensor<bf16, (N, D), (ldv, _1)>,
    o: &mut Tensor<bf16, (M, D), (ldo, _1)>,
) {
    let (sq, sk, sv) = (shared::<bf16>((BM, D)), shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    copy(tile(q, (BM, D), (block.x, 0)), sq);
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut out = mma.accumulators((BM, D), 0.0);
    let mut most = full::<f32>((BM, 1), f32::MIN);
    let mut total = full::<f32>((BM, 1), 0.0);
    for z in pipelined(start[(block.x)]..start[(block.x + 1)], stages = 2, producer = warp) {
        copy(tile(k, (BN, D), (column[(z)], 0)), sk);
        copy(tile(v, (BN, D), (column[(z)], 0)), sv);
        let mut s = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut s);
        let now = max(most, maximum(s * scale, 1));
        let w = exp(s * scale - now);
        let shrink = exp(most - now);
        total = total * shrink + sum(w, 1);
        out *= shrink;
        gemm(w as bf16, permute(sv, (1, 0)), &mut out);
        most = now;
    }
    copy(out / total, tile(o, (BM, D), (block.x, 0)));
}

#[test]
fn keys_are_those_of_listed_blocks() {
    let (m, n, d, scale) = (150, 200, 64, 0.125f32);
    let (start, column) = ([0i32, 2, 3, 6], [0i32, 3, 1, 0, 2, 3]);
    let (q, k, v) = (halves(m * d, 1), halves(n * d, 2), halves(n * d, 3));
    let row = |x: &[bf16], i: usize| x[i * d..][..d].to_vec();
    let mut wanted = Vec::new();
    for i in 0..m {
        let blocks = &column[start[i / 64] as usize..start[i / 64 + 1] as usize];
        let keys: Vec<usize> =
            blocks.iter().flat_map(|b| *b as usize * 64..((*b as usize + 1) * 64).min(n)).collect();
        let grown: Vec<f64> =
            keys.iter().map(|j| (product(&row(&q, i), &row(&k, *j)) * f64::from(scale)).exp()).collect();
        let total: f64 = grown.iter().sum();
        let sum = |l: usize| {
            grown.iter().zip(&keys).map(|(g, j)| g * f64::from(v[j * d + l].to_f32())).sum::<f64>()
        };
        wanted.extend((0..d).map(|l| sum(l) / total));
    }
    let rows = |x: &[bf16], count: usize| Arg::tensor(x, [count, d]).strides([d, 1]);
    let args = [
        Arg::number(scale),
        Arg::tensor(&start, [4]),
        Arg::tensor(&column, [6]),
        rows(&q, m),
        rows(&k, n),
        rows(&v, n),
        Arg::output::<bf16>([m, d]).strides([d, 1]),
    ];
    for outcome in every(generated!(block_sparse()), &args) {
        let o: Vec<f32> = outcome.get::<bf16>("o").unwrap().iter().map(|x| x.to_f32()).collect();
        close(&o, &wanted, 2e-2);
    }
}

/// Rows from `start[e]` on times the weights of expert e, wherever they begin.
#[kernel(arch = 90)]
fn ragged<const BM: usize = 64, const BN: usize = 64, const BK: usize = 64>(
    start: &Tensor<i32, { E + 1 }>,
    x: &Tensor<bf16, (T, K), (ldx, _1)>,
    w: &Tensor<bf16, (N, K, E), (ldw, _1, ew)>,
    y: &mut Tensor<f32, (T, N), (ldy, _1)>,
) {
    persistent();
    let (m, n, e) = (walk(ceil_div(T, BM), block.x), block.y, block.z);
    let first = start[(e)];
    let end = start[(e + 1)];
    if m * BM < end - first {
        let gx = shift(tile(x, (BM, BK), (m, _)), (first, 0, 0));
        let gw = tile(w, (BN, BK, 1), (n, _, e))[(_, _, 0, _)];
        let (sx, sw) = (shared::<bf16>((BM, BK)), shared::<bf16>((BN, BK)));
        let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((BM, BN), 0.0);
        for k in pipelined(0..gx.size(2), stages = 3, producer = warp) {
            copy(gx[(_, _, k)], sx);
            copy(gw[(_, _, k)], sw);
            gemm(sx, sw, &mut acc);
        }
        scatter(acc, y, |v, at| (if at.0 < end { (at.0, at.1) } else { (-1, -1) }, v));
    }
}

#[test]
fn experts_have_rows_of_their_own() {
    let (t, k, n, e) = (150, 90, 70, 4);
    let start = [0i32, 70, 70, 97, 150];
    let (x, w) = (halves(t * k, 1), halves(n * k * e, 2));
    let mut wanted = Vec::new();
    for i in 0..t {
        let of = (0..e).find(|of| i < start[of + 1] as usize).unwrap();
        wanted.extend((0..n).map(|j| product(&x[i * k..][..k], &w[(of * n + j) * k..][..k])));
    }
    let args = [
        Arg::tensor(&start, [e + 1]),
        Arg::tensor(&x, [t, k]).strides([k, 1]),
        Arg::tensor(&w, [n, k, e]).strides([k, 1, n * k]),
        rows_out(t, n),
    ];
    right(generated!(ragged()), &args, "y", &wanted, 1e-3);
}

/// Sums of listed pages with an even number, and a one for each iteration that a counter allows, which is then 0.
#[kernel(arch = 90)]
fn pages(
    table: &Tensor<i32, (P, B)>,
    allowed: &mut Tensor<i32, B>,
    x: &Tensor<f32, (_64, _32, Z), (_32, _1, xz)>,
    y: &mut Tensor<f32, (_64, B)>,
    sums: &mut Tensor<f32, B>,
) {
    let b = block.x;
    let s = shared::<f32>((64, 32));
    let mut acc = full::<f32>((64, 1), 0.0);
    for p in pipelined(0..P, stages = 3, producer = warp) {
        let page = table[(p, b)];
        copy(tile(x, (64, 32, 1), (0, 0, page / 2))[(_, _, 0)], s);
        if page % 2 == 0 {
            acc += sum(s, 1);
        }
        if allowed[(b)] > p {
            acc += 1.0;
        }
    }
    copy(acc, tile(y, (64, 1), (0, b)));
    copy(sum(acc, out_of_bounds = 0.0), tile(sums, 1, b));
    fill(tile(allowed, 1, b), 0);
}

#[test]
fn pages_are_listed() {
    let (p, b, z) = (7, 3, 5);
    let (table, allowed) = (below(2 * z as i32, p * b, 1), [3i32, 0, 9]);
    let x = drawn(64 * 32 * z, 2);
    let mut wanted = Vec::new();
    for q in 0..b {
        let pages = table[q * p..][..p].iter().filter(|page| *page % 2 == 0).map(|page| *page as usize / 2);
        let extra = f64::from(allowed[q].min(p as i32));
        let row = |page: usize, i: usize| x[(page * 64 + i) * 32..][..32].iter().map(|x| f64::from(*x));
        wanted.extend((0..64).map(|i| pages.clone().flat_map(|page| row(page, i)).sum::<f64>() + extra));
    }
    let sums: Vec<f64> = wanted.chunks(64).map(|all| all.iter().sum()).collect();
    let args = [
        Arg::tensor(&table, [p, b]),
        Arg::in_out(&allowed, [b]),
        Arg::tensor(&x, [64, 32, z]).strides([32, 1, 2048]),
        Arg::output::<f32>([64, b]),
        Arg::output::<f32>([b]),
    ];
    for outcome in every(generated!(pages()), &args) {
        close(&outcome.get::<f32>("y").unwrap(), &wanted, 1e-4);
        close(&outcome.get::<f32>("sums").unwrap(), &sums, 1e-4);
        assert_eq!(outcome.get::<i32>("allowed").unwrap(), [0; 3]);
    }
}

/// The greatest of each column of listed pages; the last page is shorter than the others.
#[kernel]
fn page_maxima<const S: usize = 3>(
    table: &Tensor<i32, (P, B)>,
    x: &Tensor<f32, (N, _32), (_32, _1)>,
    y: &mut Tensor<f32, (_32, B), (_1, ldy)>,
) {
    let s = shared::<f32>((64, 32));
    let mut most = full::<f32>((1, 32), f32::NEG_INFINITY);
    for p in pipelined(0..P, stages = S) {
        copy(tile(x, (64, 32), (table[(p, block.x)], 0)), s);
        most = max(most, maximum(-1.0 - abs(s), 0));
    }
    copy(permute(most, (1, 0)), tile(y, (32, 1), (0, block.x)));
}

#[test]
fn listed_pages_end_at_the_edge() {
    let (p, b, n) = (5, 3, 150);
    let table = [2i32, 0, 1, 1, 0, 0, 2, 2, 1, 0, 1, 0, 2, 0, 2];
    let x: Vec<f32> = drawn(n * 32, 2).into_iter().map(|x| x + x.signum()).collect();
    let mut wanted = Vec::new();
    for (q, j) in (0..b * 32).map(|at| (at / 32, at % 32)) {
        let pages = table[q * p..][..p].iter().map(|page| *page as usize * 64);
        let rows = pages.flat_map(|first| first..n.min(first + 64));
        wanted.push(rows.map(|i| -1.0 - f64::from(x[i * 32 + j]).abs()).fold(f64::MIN, f64::max));
    }
    let args =
        [Arg::tensor(&table, [p, b]), Arg::tensor(&x, [n, 32]).strides([32, 1]), Arg::output::<f32>([32, b])];
    for stages in [1, 2, 3, 4] {
        let kernel = page_maxima().specialize(&[("S", stages)]).unwrap();
        right(generated!(kernel), &args, "y", &wanted, 1e-5);
    }
    right(generated!(page_maxima_later()), &args, "y", &wanted, 1e-5);
}

/// The same where the tile of the previous iteration is reduced, with declared out-of-bounds values.
#[kernel]
fn page_maxima_later(
    table: &Tensor<i32, (P, B)>,
    x: &Tensor<f32, (N, _32), (_32, _1)>,
    y: &mut Tensor<f32, (_32, B), (_1, ldy)>,
) {
    let mut most = full::<f32>((1, 32), f32::NEG_INFINITY);
    let mut before = full::<f32>((64, 32), f32::NEG_INFINITY);
    for p in 0..P {
        let now = map(tile(x, (64, 32), (table[(p, block.x)], 0)), |x, at| {
            if at.0 < N { -1.0 - abs(x) } else { f32::NEG_INFINITY }
        });
        most = max(most, maximum(before, 0, out_of_bounds = f32::NEG_INFINITY));
        before = now;
    }
    most = max(most, maximum(before, 0, out_of_bounds = f32::NEG_INFINITY));
    copy(permute(most, (1, 0)), tile(y, (32, 1), (0, block.x)));
}
