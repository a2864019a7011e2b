// Kernels that call every function of the language, for tests that replace the integers in them.

#[kernel]
fn parts<const T: usize = 64>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    at_most(N, 8192);
    at_least(N, 64);
    assert(N % 4 == 0);
    assert_device(N >= 64, "rows are long");
    print(N, block = (1, 0));
    blocks_per_sm(2);
    let t = layout!((16, 4) : (4, 1));
    let s = shared::<f32>(layout!((34, 10) : (1, 36)));
    let r = registers::<f32>((2, 2), 0.0);
    let inner = tile(s, (32, 8), (1, 1));
    fill(parallelize(s, layout!((2, 32)), thread.x, ragged = true), 1.0);
    sync_threads();
    let p = parallelize(shift(inner, (1, -1)), t, thread.x);
    let q = registers_like(p, 0.0);
    copy(p, q);
    let sum = map((q, r), |a, b| a + b * 2);
    let own = parallelize(tile(y, T, block.x), layout!(64), thread.x);
    fill(own, 3.0);
}

#[kernel]
fn copies(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let t = layout!((4, 8));
    let s = shared::<f32>(padded((16, 64), 4));
    copy(parallelize(tile(x, (16, 64), (block.x, block.y)), t, thread.x, values = (1, 4)), parallelize(s, t, thread.x, values = (1, 4)));
    cp_async_commit();
    cp_async_wait(0);
    cp_async_wait_all();
    sync_threads();
    copy(parallelize(s, t, thread.x, ragged = true), parallelize(tile(y, (16, 64), (block.x, block.y)), t, thread.x, ragged = true), how = "staged");
}

#[kernel]
fn layouts(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let a = row_major((32, 8));
    let b = swizzled(2, 0, 3, layout!((32, 8)));
    let c = composition(layout!((32, 8) : (8, 1)), layout!((4, 2) : (2, 1)));
    let d = logical_divide(layout!((32, 8)), (4, 2));
    let e = zipped_divide(layout!((32, 8)), (4, 2));
    let f = blocked_product(layout!((2, 2)), layout!((4, 2)));
    let g = raked_product(layout!((2, 2)), layout!((4, 4)));
    let h = coalesce(layout!((4, (2, 4)) : (1, (4, 8))));
    let n = ceil_div(N, 32) + ceil_div(100, 7) + min(3, 5) + max(M, 7) * 2 - (N + 5) / 3 % 4;
    let s = shared::<f32>(b);
    fill(parallelize(s, layout!((8, 4)), thread.x), 0.0);
    sync_threads();
    let i = min(n * 2 + block.x * 8 - 3, 100);
    if i < 64 && thread.x == 5 || N > 3 << 2 {
        copy(parallelize(s, f, thread.x), parallelize(tile(y, (32, 8), (block.x, block.y)), f, thread.x));
    }
}

#[kernel]
fn whole(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    threads(64);
    let (i, j) = walk((ceil_div(M, 16), ceil_div(N, 32)), block.x);
    let g = tile(x, (16, 32), (i, j), halo = 1);
    let s = shared::<f32>((18, 34));
    copy(g, s, clamp = true);
    let around = tile(s, (16, 32), (1, 1));
    let both = shift(around, (-1, 1)) + around * 2.0 + full::<f32>((16, 32), 1.0);
    let row = maximum(both, 1) - minimum(both, 1) + sum(both, 1);
    let all = both + broadcast(row[(_, 0)], (_, 32)) + iota((16, 32), 1) as f32;
    let turned = regroup(all, (8, 64));
    copy(regroup(turned, (16, 32)), tile(y, (16, 32), (i, j)));
}

#[kernel]
fn coordinates(x: &Tensor<f32, (M, N), (ldx, _1)>, ids: &Tensor<i32, L>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (b, _) = walk((132, 1), block.x);
    let n = ids[(b * 2 + 1)];
    let t = tile(permute(x, (1, 0)), (32, 8), (n, 3));
    let e = map(t, |v, at| if at.0 * 3 + 1 < 7 { v } else { 2.0 });
    let z = sum(e, 0, acc = f64, out_of_bounds = 0.0);
    scatter(e, y, |v, at| ((at.1 + 1, at.0 * 2), v + 3.0), how = "atomic_add");
    let k = x[(4, n + 5)];
    for i in unroll(0..2) {
        scatter(e, y, |v, at| ((at.0 - 1, i), k), out_of_bounds = -1);
    }
}

#[kernel]
fn reductions(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let t = layout!((1, 64));
    let p = parallelize(tile(x, (1, 256), (block.x, 0)), t, thread.x, values = (1, 4));
    let r = registers_like(p, 0.0);
    copy(p, r);
    let a = warp_sum(r, acc = f64, lanes = 8);
    let b = warp_maximum(r, lanes = 16);
    let c = warp_minimum(r, lanes = 2);
    let d = warp_reduce(r, 0.0, |a, b| a + b, lanes = 4);
    let e = block_sum(r, acc = f32);
    let f = block_maximum(r);
    let g = block_minimum(r);
    let h = block_reduce(r, 0.0, |a, b| a + b);
    let i = reduce(r, 0.0, |a, b| a + b, mode = 1);
    let j = warp_scan(r, 0.0, |a, b| a + b, lanes = 8, exclusive = true);
    let m = warp_shuffle(r, |lane| lane ^ 1, lanes = 8);
    let n = warp_ballot(r > 0.0, lanes = 16);
    let o = warp_match(n, lanes = 2, out_of_bounds = 0);
    let k = block_scan(r, 0.0, |a, b| a + b);
    let mut total = registers::<f32>((1, 1), 0.0);
    let l = scan(r, 0.0, |a, b| a + b, mode = 1, carry = &mut total);
    copy(map(i[(_, 0)], |i| i), parallelize(tile(y, 1, block.x), layout!(64), thread.x, ragged = true));
}

#[kernel(arch = 90)]
fn clusters(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 512);
    cluster(2);
    let (part, row) = walk((2, M), block.x);
    let t = layout!((1, 64));
    let x = parallelize(tile(x, (1, 256), (row, part)), t, thread.x, values = (1, 4));
    let y = parallelize(tile(y, (1, 256), (row, part)), t, thread.x, values = (1, 4));
    let own = map(x, |x| x);
    let s = cluster_sum(sum(own), acc = f32, out_of_bounds = 0.0);
    let m = cluster_maximum(maximum(own), per_block = true);
    let n = cluster_minimum(minimum(own));
    let r = cluster_reduce(reduce(own, 0.0, |a, b| a + b), 0.0, |a, b| a + b);
    let c = cluster_scan(own, 0.0, |a, b| a + b, exclusive = true);
    map((own, s, c), y, |x, s, c| x - s + c);
}

#[kernel(arch = 90, threads = 128)]
fn ring(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    persistent();
    raster(4);
    let g = tile(x, (64, 32), (block.x, _));
    let s = shared::<f32>((64, 32));
    let mut acc = full::<f32>((64, 32), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(g[(_, _, k)], s);
        acc += s;
    }
    copy(acc, tile(y, (64, 32), (block.x, 0)));
}

#[kernel(arch = 90)]
fn product(a: &Tensor<bf16, (M, K), (lda, _1)>, b: &Tensor<bf16, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

#[kernel]
fn fragments(a: &Tensor<bf16, (M, K), (lda, _1)>, b: &Tensor<bf16, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let (ga, gb) = (tile(a, (32, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let sa = shared::<bf16>(swizzled(2, 3, 3, row_major((32, 32))));
    let sb = shared::<bf16>(swizzled(2, 3, 3, row_major((32, 32))));
    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((2, 2)));
    let fa = fragment_like(mma.partition_a(sa, thread.x));
    let fb = fragment_like(mma.partition_b(sb, thread.x));
    let out = mma.partition_c(tile(c, (32, 32), (block.x, block.y)), thread.x);
    let mut acc = fragment_like(out, 0.0);
    let rows_a = mma.partition_a(sa, thread.x, how = "ldmatrix_x4");
    let rows_b = mma.partition_b(sb, thread.x, how = "ldmatrix_x4");
    let t = layout!((32, 4) : (4, 1));
    for k in 0..ga.size(2) {
        copy(parallelize(ga[(_, _, k)], t, thread.x, values = (1, 8)), parallelize(sa, t, thread.x, values = (1, 8)));
        copy(parallelize(gb[(_, _, k)], t, thread.x, values = (1, 8)), parallelize(sb, t, thread.x, values = (1, 8)));
        cp_async_wait_all();
        sync_threads();
        copy(rows_a, retile(fa, rows_a), how = "ldmatrix_x4");
        copy(rows_b, retile(fb, rows_b), how = "ldmatrix_x4");
        for step in unroll(0..2) {
            gemm(fa[(_, _, step)], fb[(_, _, step)], &mut acc, how = "mma_m16n8k16_bf16");
        }
        sync_threads();
    }
    copy(acc, out);
}

#[kernel]
fn stages(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let g = tile(x, (32, 32), (block.x, _));
    let mut all = full::<f32>((32, 32), 0.0);
    for k in 0..g.size(2) {
        let part = map(g[(_, _, k)], |x| x * 2.0);
        stage(1, order = 0);
        all += part;
    }
    copy(all, tile(y, (32, 32), (block.x, 0)));
}

#[kernel]
fn loops(x: &Tensor<f32, N>, n: i32, y: &mut Tensor<f32, N>) {
    let s = shared::<f32>((64, 2));
    let t = layout!(64);
    for k in 3..n + 5 {
        let p = parallelize(s[(_, k % 2)], t, thread.x);
        fill(p, 1.0);
        sync_threads();
        if k / 2 == 1 {
            copy(p, parallelize(tile(y, 64, k * 2 + 1), t, thread.x));
        }
        sync_threads();
    }
    for k in 7..N {
        fill(parallelize(s[(_, 1)], t, thread.x), 1.0);
    }
}

#[kernel]
fn pipeline(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let t = layout!((32, 4));
    let g = tile(x, (32, 16), (block.x, _));
    let s = shared::<f32>(layout!((32, 16) : (16, 1)));
    let r = registers::<f32>((1, 4), 0.0);
    for k in pipelined(1..g.size(2), stages = 3, fragments = 1) {
        copy(parallelize(g[(_, _, k)], t, thread.x), parallelize(s, t, thread.x));
        let v = parallelize(s, t, thread.x);
        map((v, r), r, |v, r| v + r);
    }
    copy(r, parallelize(tile(y, (32, 16), (block.x, 0)), t, thread.x));
}

#[kernel]
fn numbers(x: &Tensor<f32, N>, i: &Tensor<i32, N>, u: &Tensor<u32, N>, n: i32, y: &mut Tensor<f32, N>, z: &mut Tensor<i32, N>) {
    let (x, i, u) = (tile(x, 256, block.x), tile(i, 256, block.x), tile(u, 256, block.x));
    let a = map(x, |x| min(exp(x), 2.0) + max(log(x), 3.0) + sqrt(x * 4.0) + rsqrt(x) + tanh(x) + abs(x) + sin(x) + cos(x));
    let k = map(a, |x| fast_exp(x) + fast_log(x) + fast_log2(x) + fast_sqrt(x) + fast_rsqrt(x) + fast_tanh(x));
    let l = map(a, |x| fast_sin(x) * fast_cos(x) + fast_div(x, 3.0));
    let b = map(a, |x| exp2(x) + log2(x) + pow(x, 2.0) + erf(x) + sigmoid(x) + silu(x) + gelu(x) + gelu_tanh(x));
    let c = map(b, |x| floor(x) + ceil(x) + trunc(x) + round(x) + round_ties_even(x) + fmod(x, 3.0) + copysign(x, 2.0) + fma(x, 2.0, 1.0));
    let d = map((c, i), |x, i| select(i > 3, x, 4.0) + (bits::<u32>(x) & 7) as f32);
    let e = map((i, u), |i, u| mul_high(i, 3) + (count_ones(u) + leading_zeros(u)) as i32 * 5 / 7 % 11 - (i << 2) + (i >> 3) + n * 2);
    let f = map(e, |i| max(min(i, 5), 6) + abs(i - 1) + select(i == 2, 3, 4));
    copy(d, tile(y, 256, block.x));
    copy(f, tile(z, 256, block.x));
}

#[kernel]
fn scans(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let v = tile(x, (4, 256), (block.x, 0));
    let s = scan(map(v, |v| v), 0.0, |a, b| a + b, mode = 1, exclusive = true);
    let r = reduce(v, 0.0, |a, b| a + b, mode = 1, out_of_bounds = 0.0);
    copy(s + r, tile(y, (4, 256), (block.x, 0)));
}

/// Blocks that wait for the one before, in the order in which they begin.
#[kernel]
fn in_order(ticket: &mut Tensor<i32, _1>, flags: &mut Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let _ = walk(flags.size(0), block.x);
    let begun = copy(1, ticket, how = "atomic_add", order = "relaxed");
    let t = begun[(0)];
    wait(flags[(t - 1)], 1);
    copy(t, tile(y, 1, t));
    signal(flags[(t)], 1);
    let mut n = full::<i32>(1, 4);
    while n > 0 {
        n = n / 2;
        if t > 3 {
            break;
        }
    }
    copy(n, tile(y, 1, t));
}

#[kernel]
unsafe fn instructions(x: &Tensor<u32, N>, y: &mut Tensor<u32, N>) {
    map(tile(x, 64, block.x), tile(y, 64, block.x), |x| {
        asm::<u32>("lop3.b32 %0, %1, %2, %3, 0x96;", x, 7u32, 9u32, model = |a, b, c| a ^ b ^ c)
    });
}

/// Numbers of four bits.
#[kernel]
fn unpacked(w: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>, y: &mut Tensor<bf16, (N, K), (ldy, _1)>) {
    let w = unpack_int4::<u4, bf16>(tile(w, (64, 32), (block.x, block.y)));
    copy(w, tile(y, (64, 64), (block.x, block.y)));
}

#[kernel]
fn neighbours(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(2);
    let own = shared::<f32>(256);
    copy(tile(x, 256, block.x), own);
    sync_cluster();
    copy(peer(own, (block.x + 1) % 2), tile(y, 256, block.x));
}
