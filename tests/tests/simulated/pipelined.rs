//! A pipelined loop in a custom kernel generates the same code as the product family.

use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::inputs::inputs;

#[kernel]
fn matmul<const BM: usize = 128, const BN: usize = 128, const BK: usize = 16>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let sa = shared::<f32>(padded((BM, BK), 4));
    let sb = shared::<f32>(padded((BN, BK), 4));
    let ga = tile(a, (BM, BK), (block.x, _));
    let gb = tile(b, (BN, BK), (block.y, _));
    let gc = tile(c, (BM, BN), (block.x, block.y));

    let ta = layout!((32, 8));
    let tc = layout!((16, 16));
    let ta_ga = parallelize(ga, ta, thread.x, values = (4, 1));
    let ta_sa = parallelize(sa, ta, thread.x, values = (4, 1));
    let tb_gb = parallelize(gb, ta, thread.x, values = (4, 1));
    let tb_sb = parallelize(sb, ta, thread.x, values = (4, 1));
    let tc_sa = parallelize(sa, tc, thread.x, (1, _));
    let tc_sb = parallelize(sb, tc, thread.x, (_, 1));
    let tc_gc = parallelize(gc, tc, thread.x);

    let mut acc = registers_like(tc_gc, 0.0);
    for k in pipelined(0..ta_ga.size(2), stages = 3) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        gemm(tc_sa, tc_sb, &mut acc);
    }
    copy(acc, tc_gc);
}

#[test]
fn it_is_the_loop_of_the_product_family() {
    const FAMILY: MatmulKernel<f32> = matmul_kernel!(bk = 16, stages = 3, schedule = (vec = 4, pad = 4));
    assert_eq!(matmul().source(), FAMILY.source());
}

/// The difference from the row's maximum; the copy fills out-of-bounds elements.
#[kernel(allow(unbounded))]
fn row_maxima(x: &Tensor<f32, (N, R)>, y: &mut Tensor<f32, (N, R)>) {
    let part = parallelize(tile(x, (1024, 1), (0, block.x)), layout!((256, 1)), thread.x);
    let out = parallelize(tile(y, (1024, 1), (0, block.x)), layout!((256, 1)), thread.x);
    let mut own = registers_like(part, 0.0);
    copy(part, own, fill = f32::NEG_INFINITY);
    let most = block_maximum(maximum(own));
    copy(map((own, most), |x, m| x - m), out);
}

#[test]
fn filled_elements_need_no_mask() {
    let source = row_maxima().source().to_owned();
    assert!(source.contains("? x[") && source.contains(": -infinity()"), "{source}");
    assert!(source.contains("__shfl_xor_sync") && source.contains("most_of_warps["), "{source}");
    // N is compared only in the guards of the load and of the store.
    assert_eq!(source.matches("< N").count(), 2, "{source}");
}

/// Sums of 32 columns each, from a fourth column on.
#[kernel(arch = 90)]
fn columns(from: i32, a: &Tensor<f32, (M, K), (lda, _1)>, c: &mut Tensor<f32, (M, _32), (_32, _1)>) {
    let (ga, gc) = (tile(a, (64, 32), (block.x, _)), tile(c, (64, 32), (block.x, 0)));
    let s = shared::<f32>((64, 32));
    let mut acc = full::<f32>((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(shift(ga[(_, _, k)], (0, 4 * from)), s);
        acc += s;
    }
    copy(acc, gc);
}

#[test]
fn bulk_copies_begin_at_multiples_of_numbers() {
    for from in [0, 1, -2, 9, 1 << 20] {
        inputs(columns().def()).written([&*format!("M = 70, K = 100, from = {from}")]);
    }
}

/// Coordinates of elements that a loop over k-steps loads ahead.
#[kernel]
fn early_places(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let t = layout!((32, 1));
    let s = shared::<f32>(layout!((32, 16)));
    let (from, to) =
        (parallelize(tile(x, (32, 16), (block.x, block.y)), t, thread.x), parallelize(s, t, thread.x));
    let out = parallelize(tile(y, (32, 16), (block.x, block.y)), t, thread.x);
    copy(from, to);
    cp_async_wait_all();
    sync_threads();
    let fragment = registers::<f32>((1, 4));
    for kk in pipelined(0..4, stages = 2) {
        copy(tile(to, (1, 4), (0, kk)), fragment);
        map(fragment, tile(out, (1, 4), (0, kk)), |x, at| x + (at.0 + 100 * at.1) as f32);
    }
}

#[test]
fn coordinates_in_a_loop_that_loads_ahead() {
    let (m, n) = (40, 21);
    let x: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let kernel = early_places().def().generate().unwrap();
    for outcome in
        run_every(&kernel, &[Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n])], &Options::default())
            .unwrap()
    {
        let y = outcome.get::<f32>("y").unwrap();
        for i in 0..m * n {
            assert_eq!(y[i], x[i] + (i % m + 100 * (i / m)) as f32);
        }
    }
}

/// Two tiles in flight; the second is copied by cp.async only where its rows are aligned.
#[kernel]
fn one_in_flight(x: &Tensor<f32, N>, h: &Tensor<f16, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(32);
    let (a, b) = (shared::<f32>(64), shared::<f16>(64));
    let (mine, other) = (parallelize(a, t, thread.x, values = 2), parallelize(b, t, thread.x, values = 2));
    copy(parallelize(tile(x, 64, block.x), t, thread.x, values = 2), mine);
    cp_async_commit();
    copy(parallelize(tile(h, 64, block.x), t, thread.x, values = 2), other);
    cp_async_wait(1);
    let first = map(mine, |x| x);
    cp_async_wait_all();
    map((first, other), parallelize(tile(y, 64, block.x), t, thread.x, values = 2), |x, h| x + (h as f32));
}

#[test]
fn a_wait_counts_groups_that_hold_no_asynchronous_copy() {
    inputs(one_in_flight().def()).schedules(4).written(["N = 101"]);
}

/// Columns of K whose rows each thread takes from its own coordinate, and another operand that is complete.
#[kernel(allow(unbounded, uncoalesced, bank_conflicts))]
fn places_and_a_resident_operand(
    rows: &Tensor<i32, T>,
    x: &Tensor<f32, (M, K)>,
    w: &Tensor<f32, (N, K)>,
    y: &mut Tensor<f32, (_8, N)>,
    z: &mut Tensor<f32, (_8, N)>,
) {
    at_most(K, 32);
    let t = layout!((2, 4));
    let (sx, sw, all) = (shared::<f32>((8, 8)), shared::<f32>((8, 8)), shared::<f32>((8, 32)));
    copy(tile(w, (8, 32), (block.x, 0)), all);
    let (gx, gw) = (tile(x, (8, 8), (rows[thread.x], _)), tile(w, (8, 8), (block.x, _)));
    let (fx, fw) = (parallelize(sx, t, thread.x, (0, _)), parallelize(sw, t, thread.x, (_, 0)));
    let every = parallelize(tile(all, (8, 8), (0, _)), t, thread.x, (_, 0));
    let (mut mine, mut other) = (registers::<f32>((4, 2), 0.0), registers::<f32>((4, 2), 0.0));
    let fill = layout!((1, 8));
    for k in pipelined(0..gw.size(2), stages = 2, fragments = 2) {
        copy(parallelize(gx[(_, _, k)], fill, thread.x), parallelize(sx, fill, thread.x));
        copy(parallelize(gw[(_, _, k)], fill, thread.x), parallelize(sw, fill, thread.x));
        gemm(fx, fw, mine);
    }
    let first = tile(x, (8, 8), (0, _));
    let sf = shared::<f32>((8, 8));
    let ff = parallelize(sf, t, thread.x, (0, _));
    for k in pipelined(0..first.size(2), stages = 2, fragments = 2) {
        copy(parallelize(first[(_, _, k)], fill, thread.x), parallelize(sf, fill, thread.x));
        gemm(ff, every[(_, _, k)], other);
    }
    copy(mine, parallelize(tile(y, (8, 8), (0, block.x)), t, thread.x));
    copy(other, parallelize(tile(z, (8, 8), (0, block.x)), t, thread.x));
}

#[test]
fn a_partial_tile_is_first_only_where_all_of_k_moves_with_it() {
    inputs(places_and_a_resident_operand().def())
        .list("rows", [2, 0, 1, 2, 1, 0, 0, 2])
        .written(["T = 8, M = 24, N = 8, K = 21"]);
}

/// Two threads share the K of each result, and both store their sums.
#[kernel(allow(uncoalesced, bank_conflicts))]
fn parts_of_k(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, parts: &mut Tensor<f32, (M, N, _2)>) {
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let (ga, gb) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (t, tc) = (layout!((8, 16)), layout!((8, 8, 2)));
    let to = parallelize(tile(parts, (32, 32, 2), (block.x, block.y, 0)), tc, thread.x);
    let mut acc = registers_like(to, 0.0);
    let (fa, fb) = (parallelize(sa, tc, thread.x, (1, _, 1)), parallelize(sb, tc, thread.x, (_, 1, 1)));
    for k in pipelined(0..ga.size(2), stages = 2, fragments = 2) {
        copy(parallelize(ga[(_, _, k)], t, thread.x), parallelize(sa, t, thread.x));
        copy(parallelize(gb[(_, _, k)], t, thread.x), parallelize(sb, t, thread.x));
        gemm(fa, fb, acc[(_, _, 0)]);
    }
    copy(acc, to);
}

/// Only one half of each tile is multiplied.
#[kernel(allow(uncoalesced, bank_conflicts))]
fn half_of_k(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let (ga, gb) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (t, tc) = (layout!((8, 8)), layout!((8, 8)));
    let to = parallelize(tile(c, (32, 32), (block.x, block.y)), tc, thread.x);
    let mut acc = registers_like(to, 0.0);
    let (ha, hb) = (tile(sa, (32, 8), (0, 1)), tile(sb, (32, 8), (0, 1)));
    let (fa, fb) = (parallelize(ha, tc, thread.x, (1, _)), parallelize(hb, tc, thread.x, (_, 1)));
    for k in pipelined(0..ga.size(2), stages = 2, fragments = 2) {
        copy(parallelize(ga[(_, _, k)], t, thread.x), parallelize(sa, t, thread.x));
        copy(parallelize(gb[(_, _, k)], t, thread.x), parallelize(sb, t, thread.x));
        gemm(fa, fb, &mut acc);
    }
    copy(acc, to);
}

#[test]
fn a_partial_tile_is_first_only_where_each_thread_multiplies_all_of_it() {
    let sizes = [1, 16, 17, 23, 32, 45].map(|k| format!("M = 33, N = 20, K = {k}"));
    for def in [parts_of_k().def(), half_of_k().def()] {
        inputs(def).written(sizes.iter().map(|sizes| &**sizes));
    }
}

/// Two groups of consumers multiply alternately, each all rows of its tile.
macro_rules! alternating {
    ($name:ident, $group:ident = $count:literal, $rows:literal) => {
        #[kernel(arch = 90)]
        fn $name(
            a: &Tensor<bf16, (M, K), (lda, _1)>,
            b: &Tensor<bf16, (N, K), (ldb, _1)>,
            c: &mut Tensor<f32, (M, N), (ldc, _1)>,
        ) {
            persistent(alternate = true);
            let (ga, gb) = (tile(a, ($rows, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
            let (sa, sb) = (shared::<bf16>(($rows, 64)), shared::<bf16>((64, 64)));
            let mut acc = tiled_mma::<bf16, f32>($group = $count).accumulators(($rows, 64), 0.0);
            for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
                copy(ga[(_, _, k)], sa);
                copy(gb[(_, _, k)], sb);
                gemm(sa, sb, &mut acc);
            }
            copy(acc, tile(c, ($rows, 64), (block.x, block.y)));
        }
    };
}

alternating!(alternating_4_warps, warps = 4, 64);
alternating!(alternating_8_warps, warps = 8, 128);
alternating!(alternating_1_warpgroup, warpgroups = 1, 64);
alternating!(alternating_2_warpgroups, warpgroups = 2, 128);
alternating!(alternating_3_warpgroups, warpgroups = 3, 192);

#[test]
fn groups_of_consumers_alternate() {
    for def in [
        alternating_4_warps().def(),
        alternating_8_warps().def(),
        alternating_1_warpgroup().def(),
        alternating_2_warpgroups().def(),
        alternating_3_warpgroups().def(),
    ] {
        inputs(def).written(["M = 70, N = 130, K = 136", "M = 400, N = 72, K = 8", "M = 8, N = 8, K = 0"]);
    }
}

/// A row that was chosen before the loop: copies of later iterations may depend on it.
#[kernel(allow(uncoalesced))]
fn rows_after(ids: &Tensor<i32, N>, x: &Tensor<f32, (M, K), (ldx, _1)>, y: &mut Tensor<f32, (N, _64)>) {
    let own = map(tile(ids, 1, block.x), |i| i + 1);
    let s = shared::<f32>((1, 64));
    let mut acc = full::<f32>((1, 64), 0.0);
    for k in pipelined(0..ceil_div(K, 64), stages = 3) {
        copy(tile(x, (1, 64), (own, k)), s);
        acc += s;
    }
    copy(acc, tile(y, (1, 64), (block.x, 0)));
}

#[test]
fn copies_run_ahead_by_a_number_that_is_computed_before_the_loop() {
    inputs(rows_after().def()).list("ids", [2, -1, 3, 7]).written(["N = 4, M = 5, K = 300"]);
}
