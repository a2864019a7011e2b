// C = A·Bᵀ on tensor cores. Warpgroups multiply by wgmma (`WGMMA`), or warps by mma.sync. One warp copies tiles with TMA (`BULK`), or
// threads copy them with cp.async. If B is the left operand (`A_LEFT == 0`), the transposed product is computed.
//
// Sizes and keys give the constants. `tilewright inspect matmul … --kernel` prints what is left of the page with them.

#[kernel]
fn matmul<
    // Elements of A and B, as they are multiplied, of sums, of the epilogue, of C, the residual and the second result; packed weights.
    A, B, T, Acc, S, C, R, X, W,
    const BM: usize = 128, const BN: usize = 128, const BK: usize = 64, const STAGES: usize = 4,
    const WARPGROUPS: usize = 2, const WM: usize = 2, const WN: usize = 2, const WK: usize = 1, const SHARES_K: usize = 0,
    const CLUSTER: usize = 1, const SPLIT: usize = 1, const PARTS: usize = 1, const A_LEFT: usize = 1,
    const EPILOGUE: fn(f32) -> f32 = { |x| x }, const HAS_EPILOGUE: usize = 0,
    const WGMMA: usize = 0, const BULK: usize = 0, const PING_PONG: usize = 0, const BAND: usize = 1,
    // Stages are at most this many; blocks of a cluster may split K.
    const FEWER: usize = 1, const SPLITS: usize = 0,
    const BATCHED: usize = 0, const A_ROWS: usize = 1, const B_ROWS: usize = 1, const C_ROWS: usize = 1,
    // The name of an instruction; numbers in two terms, or rounded.
    const INSTRUCTION: &str = { "" }, const IN_TERMS: usize = 0, const ROUNDED: usize = 0,
    const SWIZZLED: usize = 0, const BITS: usize = 3, const BASE: usize = 3, const SHIFT: usize = 3,
    // Weights: converted, two in an element; groups along K, their columns of scales in a step, columns of a copy, and columns for a group.
    const CONVERTS: usize = 0, const PACKED: usize = 0, const GROUP: usize = 128,
    const COLUMNS: usize = 1, const COPIED: usize = 1, const EACH: usize = 64, const OF_GROUP: usize = 1,
    // Sums of a step have registers of their own; steps of a block with one scale.
    const PROMOTES: usize = 0, const BLOCK_STEPS: usize = 0,
    const BIAS_ROWS: usize = 0, const RESIDUAL_AFTER: usize = 0, const PLAIN: usize = 0,
    // Extents and strides of matrices.
    const OF: fn(f32, f32) -> f32 = { |m, n| if BATCHED == 1 { (m, n, L) } else { (m, n) } },
    const LD: fn(f32, f32, f32) -> f32 = {
        |rows, ld, batch| if BATCHED == 1 {
            if rows == 1 { (ld, _1, batch) } else { (_1, ld, batch) }
        } else {
            if rows == 1 { (ld, _1) } else { (_1, ld) }
        }
    },
>(
    a: &Tensor<A, { OF(M, K) }, { LD(A_ROWS, lda, batch_a) }>,
    b: &Tensor<B, { OF(N, if PACKED == 1 { ceil_div(K, 2) } else { K }) }, { LD(B_ROWS, ldb, batch_b) }>,
    c: &mut Tensor<C, { OF(M, N) }, { LD(C_ROWS, ldc, batch_c) }>,
    alpha: Option<S>,
    beta: Option<S>,
    scale: Option<&Tensor<A, { OF(N, ceil_div(K, GROUP)) }, { LD(0, ldscale, batch_scale) }>>,
    zero: Option<&Tensor<A, { OF(N, ceil_div(K, GROUP)) }, { LD(0, ldzero, batch_zero) }>>,
    scale_a: Option<&Tensor<Acc, { OF(M, ceil_div(K, 128)) }, { LD(0, ldscale_a, batch_scale_a) }>>,
    scale_b: Option<&Tensor<Acc, { OF(ceil_div(N, 128), ceil_div(K, 128)) }, { LD(1, ldscale_b, batch_scale_b) }>>,
    scale_rows: Option<&Tensor<S, M>>,
    scale_columns: Option<&Tensor<S, N>>,
    bias: Option<&Tensor<C, { if BIAS_ROWS == 1 { M } else { N } }>>,
    residual: Option<&Tensor<R, { OF(M, N) }, { LD(C_ROWS, ldresidual, batch_residual) }>>,
    aux: Option<&mut Tensor<X, { OF(M, N) }, { LD(C_ROWS, ldaux, batch_aux) }>>,
) {
    if WGMMA == 1 {
        cluster(CLUSTER);
    }
    if PING_PONG == 1 {
        persistent(alternate = true);
    } else if BULK == 1 {
        persistent();
    }
    // Concurrent blocks share operands in the L2 cache.
    raster(if WGMMA == 1 { BAND } else { 2048 / if A_LEFT == 1 { BM } else { BN } });
    // Blocks of a cluster share tiles of the right operand.
    let (row, column) = if A_LEFT == 1 { (block.x, block.y) } else { (block.y, block.x) };
    let matrix = |x| if BATCHED == 1 { x[(_, _, block.z)] } else { x };
    let ga = tile(matrix(a), (BM, BK), (row, _));
    let gb = tile(matrix(b), (BN, if PACKED == 1 { BK / 2 } else { BK }), (column, _));
    // Tiles as the accumulators have them.
    let turned = |x| if A_LEFT == 1 { x } else { permute(x, (1, 0)) };
    let like_c = |x| turned(tile(matrix(x), (BM, BN), (row, column)));
    let of_rows = |x| x.along(if A_LEFT == 1 { 0 } else { 1 });
    let of_columns = |x| x.along(if A_LEFT == 1 { 1 } else { 0 });
    let gc = like_c(c);
    let swizzle = |tile, rows| if SWIZZLED == 0 {
        tile
    } else {
        swizzled(BITS, BASE, SHIFT, if rows == 1 { row_major(tile) } else { padded(tile, 0) })
    };
    let sa = shared::<A>(swizzle((BM, BK), A_ROWS));
    let sb = shared::<B>(swizzle((BN, if PACKED == 1 { BK / 2 } else { BK }), B_ROWS));
    let (left, right) = if A_LEFT == 1 { (sa, sb) } else { (sb, sa) };

    let mma = if WGMMA == 1 {
        tiled_mma::<T, Acc>(warpgroups = WARPGROUPS)
    } else if INSTRUCTION != "" {
        tiled_mma(INSTRUCTION, if SHARES_K == 1 { (WM, WN, WK) } else { (WM, WN) }, terms = if IN_TERMS == 1 { 2 } else { [] })
    } else {
        tiled_mma::<T, Acc>(
            warps = if SHARES_K == 1 { (WM, WN, WK) } else { (WM, WN) },
            terms = if IN_TERMS == 1 { 2 } else { [] },
        )
    };
    let sums = |mma| mma.accumulators(if A_LEFT == 1 { (BM, BN) } else { (BN, BM) }, 0 as Acc);
    let mut acc = sums(mma);

    // Scales and zero points of groups; scales of blocks: of A for each row, of B for 128 columns.
    let numbers = |x| tile(matrix(x), (BN, COPIED), (column, _));
    let gscale = if let Some(scale) = scale { [numbers(scale)] } else { [] };
    let sscale = if let Some(scale) = scale { [shared::<A>(if COLUMNS == 1 { BN } else { (BN, COLUMNS) })] } else { [] };
    let gzero = if let Some(zero) = zero { [numbers(zero)] } else { [] };
    let szero = if let Some(zero) = zero { [shared::<A>(if COLUMNS == 1 { BN } else { (BN, COLUMNS) })] } else { [] };
    let gscale_a = if let Some(scale_a) = scale_a { [tile(matrix(scale_a), (BM, 1), (row, _))] } else { [] };
    let gscale_b = if let Some(scale_b) = scale_b { [tile(matrix(scale_b), (1, 1), (column * BN / 128, _))] } else { [] };
    let sscale_a = if let Some(scale_a) = scale_a { [shared::<Acc>(BM)] } else { [] };

    // Operands as they are multiplied: rounded, or weights times their scales.
    let rounded = |x| if ROUNDED == 1 { map(x, |x| x as T) } else { x };
    let unpacked = |x| if PACKED == 1 { unpack_int4::<W, A>(x) } else { x };
    let spread = |x| if COLUMNS == 1 { x.along(0) } else { regroup(broadcast(x, (_, EACH, _)), (BN, BK)) };
    let weight = |w| if PACKED == 1 { w } else { w as A };
    let centred = |w, z| if let Some(z) = z { weight(w) - z } else { weight(w) };
    let converted = |x| if let Some(sscale) = sscale {
        map(
            (unpacked(x), spread(sscale), if let Some(szero) = szero { [spread(szero)] } else { [] }),
            |w, s, szero| centred(w, szero) * s,
        )
    } else if PACKED == 1 {
        unpacked(x)
    } else {
        map(x, |w| w as A)
    };
    // An f32 as the sum of two tf32: the nearest, where ties go away from zero, and the rest, rounded away from zero. Half of the last bit
    // is added, and lower bits are cut off: a conversion preserves NaN in four operations, here the rest of a NaN is NaN. The rest has at
    // most 12 bits, and instructions ignore the last one: 1 + 2^-11 adds at least half of the eleventh bit, and less than all of it.
    let terms = |x| {
        let high = bits::<tf32>((bits::<u32>(x) + 4096) & 4294959104);
        (high, bits::<tf32>((x - high as f32) * 1.00048828125))
    };
    let high = if IN_TERMS == 1 && WGMMA == 1 { [shared::<tf32>((if A_LEFT == 1 { BN } else { BM }, BK))] } else { [] };
    let low = if IN_TERMS == 1 && WGMMA == 1 { [shared::<tf32>((if A_LEFT == 1 { BN } else { BM }, BK))] } else { [] };

    let of_group = |k| if OF_GROUP == 1 { k } else { k / OF_GROUP };
    let of_block = |k| if BLOCK_STEPS == 1 { k } else { k / BLOCK_STEPS };
    for k in pipelined(
        0..ga.size(2),
        stages = if FEWER == 1 { [] } else { STAGES },
        most_stages = if FEWER == 1 { STAGES } else { [] },
        producer = if BULK == 1 { warp } else { [] },
        split = if SPLITS == 0 { [] } else if PARTS > 1 { blocks(PARTS) } else { cluster(SPLIT) },
    ) {
        // Rows out of bounds only affect accumulators that are not stored. TMA needs no guards.
        copy(ga[(_, _, k)], sa, boundary_check = if BULK == 1 { [] } else { 1 });
        copy(gb[(_, _, k)], sb, boundary_check = if BULK == 1 { [] } else { 1 });
        // All columns of scales together, or each from its group.
        if let Some(gscale) = gscale {
            if COPIED > 1 {
                copy(gscale[(_, _, k)], sscale[0]);
            } else if COLUMNS == 1 {
                copy(gscale[(_, 0, of_group(k))], sscale[0]);
            } else {
                for i in unroll(0..COLUMNS) {
                    copy(gscale[(_, 0, of_group(k * COLUMNS + i))], sscale[0][(_, i)]);
                }
            }
        }
        if let Some(gzero) = gzero {
            if COPIED > 1 {
                copy(gzero[(_, _, k)], szero[0]);
            } else if COLUMNS == 1 {
                copy(gzero[(_, 0, of_group(k))], szero[0]);
            } else {
                for i in unroll(0..COLUMNS) {
                    copy(gzero[(_, 0, of_group(k * COLUMNS + i))], szero[0][(_, i)]);
                }
            }
        }
        if let Some(gscale_a) = gscale_a {
            copy(gscale_a[(_, 0, of_block(k))], sscale_a[0]);
        }
        if IN_TERMS == 1 && WGMMA == 1 {
            let left = map(left, terms);
            let right = map(right, terms);
            copy(right.0, high[0]);
            copy(right.1, low[0]);
            // Products with a lower term come first: tensor cores cut off bits below the last bits of the largest sum.
            let mut part = sums(mma);
            gemm(left.1, high[0], &mut part);
            gemm(left.0, low[0], &mut part);
            gemm(left.0, high[0], &mut part);
            acc = acc + part;
        } else {
            let mut part = if PROMOTES == 1 { sums(mma) } else { acc };
            if CONVERTS == 0 {
                gemm(rounded(left), rounded(right), &mut part);
            } else if A_LEFT == 1 {
                gemm(left, converted(right), &mut part);
            } else {
                gemm(converted(left), right, &mut part);
            }
            if let Some(gscale_b) = gscale_b {
                let scale = map((of_rows(sscale_a[0]), gscale_b[(_, _, of_block(k))]), |a, b| a * b);
                acc = map((acc, part, scale), |acc, part, scale| fma(part, scale, acc));
            } else if PROMOTES == 1 {
                acc = acc + part;
            }
        }
    }

    let gscale_rows = if let Some(scale_rows) = scale_rows { [of_rows(tile(scale_rows, BM, row))] } else { [] };
    let gscale_columns = if let Some(scale_columns) = scale_columns { [of_columns(tile(scale_columns, BN, column))] } else { [] };
    let gbias = if let Some(bias) = bias {
        [if BIAS_ROWS == 1 { of_rows(tile(bias, BM, row)) } else { of_columns(tile(bias, BN, column)) }]
    } else {
        []
    };
    let gresidual = if let Some(residual) = residual { [like_c(residual)] } else { [] };
    let gaux = if let Some(aux) = aux { [like_c(aux)] } else { [] };
    let old = if let Some(beta) = beta { [gc] } else { [] };

    // Sums are scaled. The epilogue's function is between two additions.
    let times = |x, y| if let Some(y) = y { x * y } else { x };
    let added = |x, y| if let Some(y) = y { x + if C == S { y } else { y as S } } else { x };
    let plus = |x, y| if let Some(y) = y { x + if R == S { y } else { y as S } } else { x };
    let number = |x| if Acc == S { x } else { x as S };
    let scaled = |x, rows, columns| times(times(if let Some(alpha) = alpha { alpha * number(x) } else { number(x) }, rows), columns);
    let before = |x, bias, residual| if RESIDUAL_AFTER == 1 { added(x, bias) } else { plus(added(x, bias), residual) };
    let applied = |x| if HAS_EPILOGUE == 1 { EPILOGUE(x) } else { x };
    let after = |x, residual| if RESIDUAL_AFTER == 1 { plus(applied(x), residual) } else { applied(x) };
    let same = |x, residual| x;
    // C is read only if beta is not 0.
    let with_c = |f, x, rows, columns, bias, residual, old| if let Some(beta) = beta {
        if beta != 0 as S {
            f(before(fma(beta, if C == S { old[0] } else { old[0] as S }, scaled(x, rows, columns)), bias, residual), residual)
        } else {
            f(before(scaled(x, rows, columns), bias, residual), residual)
        }
    } else {
        f(before(scaled(x, rows, columns), bias, residual), residual)
    };
    let to_c = |x| if WGMMA == 1 || C == S { x } else { x as C };
    let to_aux = |x| if WGMMA == 1 || X == S { x } else { x as X };
    let result = |x, scale_rows, scale_columns, bias, residual, old| to_c(with_c(after, x, scale_rows, scale_columns, bias, residual, old));
    let sum = |x, scale_rows, scale_columns, bias, residual, old| to_aux(with_c(same, x, scale_rows, scale_columns, bias, residual, old));
    // Threads of warps compute each element when they store it.
    let store = |f, to, is_plain| if is_plain == 1 {
        copy(acc, to)
    } else if WGMMA == 1 {
        copy(map((acc, gscale_rows, gscale_columns, gbias, gresidual, old), f), to)
    } else {
        map((acc, gscale_rows, gscale_columns, gbias, gresidual, old), to, f)
    };
    // What C was is read before it is written.
    if HAS_AUX == 1 && HAS_BETA == 1 {
        store(sum, gaux[0], PLAIN);
    }
    store(result, gc, if HAS_EPILOGUE == 1 || RESIDUAL_AFTER == 1 { 0 } else { PLAIN });
    if HAS_AUX == 1 && HAS_BETA == 0 {
        store(sum, gaux[0], PLAIN);
    }
}
