// C = A·Bᵀ by multiply-adds of threads. A thread layout distributes each copy into shared memory, and another one the products. Its third
// mode, and the blocks of a cluster, divide K.
//
// Sizes and keys give the constants. `tilewright inspect matmul … --kernel` prints what is left of the page with them.

#[kernel]
fn matmul<
    // Elements of A and B, of sums, of the epilogue, of C, the residual and the second result.
    A, Acc, S, C, R, X,
    const BM: usize = 128, const BN: usize = 128, const BK: usize = 8, const SPLIT: usize = 1,
    const EPILOGUE: fn(f32) -> f32 = { |x| x }, const HAS_EPILOGUE: usize = 0,
    // Threads of both copies and of the product, shared tiles, and shared sums.
    const TA: Arrangement = { layout!((32, 8)) }, const TB: Arrangement = { layout!((32, 8)) },
    const TC: Arrangement = { layout!((16, 16)) },
    const SA: Arrangement = { padded((BM, BK), 1) }, const SB: Arrangement = { padded((BN, BK), 1) },
    const SUMS: Arrangement = { layout!((BM, BN)) },
    // Adjacent elements of a thread in C, and in copies of A and B.
    const C_M: usize = 1, const C_N: usize = 1, const A_M: usize = 1, const A_K: usize = 1, const B_N: usize = 1, const B_K: usize = 1,
    const A_STAGED: usize = 0, const B_STAGED: usize = 0,
    const STAGES: usize = 1, const FRAGMENTS: usize = 1, const EXITS: usize = 1, const ORDER: &str = { "" },
    // Groups of threads with parts of K, blocks of a cluster; sums in registers (0), or in shared memory of a block (1) or of a cluster (2).
    const OVER_K: usize = 0, const GROUPS: usize = 1, const BLOCKS: usize = 1, const STORED: usize = 0,
    const BATCHED: usize = 0, const A_ROWS: usize = 0, const B_ROWS: usize = 0, const C_ROWS: usize = 0,
    // The argument of the epilogue's function is a sum as it is.
    const PLAIN: usize = 0,
    const BIAS_ROWS: usize = 0, const RESIDUAL_AFTER: usize = 0,
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
    b: &Tensor<A, { OF(N, K) }, { LD(B_ROWS, ldb, batch_b) }>,
    c: &mut Tensor<C, { OF(M, N) }, { LD(C_ROWS, ldc, batch_c) }>,
    alpha: Option<S>,
    beta: Option<S>,
    scale_rows: Option<&Tensor<S, M>>,
    scale_columns: Option<&Tensor<S, N>>,
    bias: Option<&Tensor<C, { if BIAS_ROWS == 1 { M } else { N } }>>,
    residual: Option<&Tensor<R, { OF(M, N) }, { LD(C_ROWS, ldresidual, batch_residual) }>>,
    aux: Option<&mut Tensor<X, { OF(M, N) }, { LD(C_ROWS, ldaux, batch_aux) }>>,
) {
    if STORED == 2 {
        cluster(SPLIT);
    }
    let (rank, batch) = if STORED < 2 { (0, block.z) } else if BATCHED == 1 { walk((SPLIT, L), block.x) } else { (block.x, 0) };
    let (row, column) = if STORED == 2 { (block.y, block.z) } else { (block.x, block.y) };
    let matrix = |x| if BATCHED == 1 { x[(_, _, batch)] } else { x };
    // Tiles of the blocks that split K are adjacent.
    let steps = |x, rows, at| if STORED == 2 {
        tile(tile(x, (rows, BK * SPLIT), (at, _)), (rows, BK), (0, rank, _))
    } else {
        tile(x, (rows, BK), (at, _))
    };
    let like_c = |x| tile(matrix(x), (BM, BN), (row, column));
    let ga = steps(matrix(a), BM, row);
    let gb = steps(matrix(b), BN, column);
    let gc = like_c(c);
    let ta = TA;
    let tb = TB;
    let tc = TC;
    let sa = shared::<A>(SA);
    let sb = shared::<A>(SB);
    let of_thread = |x, threads, keep, m, n| parallelize(x, threads, thread.x, keep, values = if m * n == 1 { [] } else { (m, n) });
    let tc_gc = of_thread(gc, tc, if OVER_K == 1 { (1, 1, _) } else { [] }, C_M, C_N);
    let gscale_rows = if let Some(scale_rows) = scale_rows { [broadcast(tile(scale_rows, BM, row), (_, BN))] } else { [] };
    let gscale_columns = if let Some(scale_columns) = scale_columns { [broadcast(tile(scale_columns, BN, column), (BM, _))] } else { [] };
    let gbias = if let Some(bias) = bias {
        [if BIAS_ROWS == 1 { broadcast(tile(bias, BM, row), (_, BN)) } else { broadcast(tile(bias, BN, column), (BM, _)) }]
    } else {
        []
    };
    let gresidual = if let Some(residual) = residual { [like_c(residual)] } else { [] };
    let gaux = if let Some(aux) = aux { [like_c(aux)] } else { [] };
    let ta_ga = of_thread(ga, ta, [], A_M, A_K);
    let ta_sa = of_thread(sa, ta, [], A_M, A_K);
    let tb_gb = of_thread(gb, tb, [], B_N, B_K);
    let tb_sb = of_thread(sb, tb, [], B_N, B_K);
    let tc_sa = of_thread(sa, tc, if OVER_K == 1 { (1, _, 1) } else { (1, _) }, C_M, 1);
    let tc_sb = of_thread(sb, tc, if OVER_K == 1 { (_, 1, 1) } else { (_, 1) }, C_N, 1);
    let mut acc = registers_like::<Acc>(tc_gc, 0 as Acc);
    // The partial tile may come first: threads and blocks that share K then multiply other parts of it.
    for k in pipelined(
        0..ga.size(2),
        stages = STAGES,
        fragments = if FRAGMENTS > 1 { FRAGMENTS } else { [] },
        exits = if FRAGMENTS > 1 && EXITS == 0 { false } else { [] },
        split = if FRAGMENTS > 1 && (GROUPS > 1 || BLOCKS > 1) { threads } else { [] },
    ) {
        // Rows out of bounds only affect accumulators that are not stored. Where copies are interleaved with multiply-adds, predicates would
        // be slower.
        copy(
            ta_ga[(_, _, k)], ta_sa,
            how = if A_STAGED == 1 { "staged" } else { [] }, boundary_check = if FRAGMENTS > 1 { 1 } else { [] },
        );
        copy(
            tb_gb[(_, _, k)], tb_sb,
            how = if B_STAGED == 1 { "staged" } else { [] }, boundary_check = if FRAGMENTS > 1 { 1 } else { [] },
        );
        gemm(tc_sa, tc_sb, &mut acc, order = if ORDER == "" { [] } else { ORDER });
    }

    // Sums of groups of threads and of blocks. Stores of whole tiles are coalesced, too.
    let parts = if STORED > 0 { [shared::<Acc>(SUMS)] } else { [] };
    let tc_parts = if STORED > 0 { [of_thread(parts[0], tc, [], C_M, C_N)] } else { [] };
    let group = |x, n| if OVER_K == 1 { x[0][(_, _, n)] } else { x[0] };
    let groups = |n| if n == 0 { group(parts, 0) } else { (groups(n - 1), group(parts, n)) };
    let added_up = |x, n| if n == 0 { x } else { added_up(x.0, n - 1) + x.1 };
    let total = |n| if n == 0 { group(parts, 0) } else { total(n - 1) + group(parts, n) };
    if STORED > 0 {
        copy(acc, group(tc_parts, 0));
    }
    if STORED == 2 {
        if GROUPS > 1 {
            map((groups(GROUPS - 2), group(parts, GROUPS - 1)), group(parts, 0), |x, last| added_up(x, GROUPS - 2) + last);
        }
        sync_cluster();
    }
    // The rows or columns that a block of a cluster adds and stores, whichever are contiguous. Its own sums come first.
    let own = |x| if STORED < 2 {
        x
    } else if C_ROWS == 1 {
        tile(x, (BM / SPLIT, BN), (rank, 0))
    } else {
        tile(x, (BM, BN / SPLIT), (0, rank))
    };
    let part = if STORED == 2 { [own(group(parts, 0))] } else { [] };
    let of_blocks = |n| if n == 0 { part[0] } else { of_blocks(n - 1) + peer(part[0], (rank + n) % SPLIT) };
    let mut sums = if STORED == 0 {
        acc
    } else if STORED == 2 {
        of_blocks(BLOCKS - 1)
    } else if OVER_K == 1 {
        total(GROUPS - 1)
    } else {
        map(parts[0], |x| x)
    };

    // The tiles of the threads.
    let target = || if STORED == 0 { tc_gc } else { own(gc) };
    let tiles = |x| if STORED == 0 { of_thread(x, tc, if OVER_K == 1 { (1, 1, _) } else { [] }, C_M, C_N) } else { own(x) };
    let input = |x| if let Some(x) = x { [tiles(x)] } else { [] };

    // Sums are scaled. The epilogue's function is between two additions.
    let times = |x, y| if let Some(y) = y { x * y } else { x };
    let added = |x, y| if let Some(y) = y { x + if C == S { y } else { y as S } } else { x };
    let plus = |x, y| if let Some(y) = y { x + if R == S { y } else { y as S } } else { x };
    let number = |x| if Acc == S { x } else { x as S };
    let scaled = |x, rows, columns| times(times(if let Some(alpha) = alpha { alpha * number(x) } else { number(x) }, rows), columns);
    let before = |x, bias, residual| if RESIDUAL_AFTER == 1 { added(x, bias) } else { plus(added(x, bias), residual) };
    let applied = |x| if HAS_EPILOGUE == 1 { EPILOGUE(x) } else { x };
    let after = |x, residual| if RESIDUAL_AFTER == 1 { plus(applied(x), residual) } else { applied(x) };
    let result = |x, residual| if C == S { after(x, residual) } else { after(x, residual) as C };
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
    let of_sums = |f, residual| map(
        (sums, input(gscale_rows), input(gscale_columns), input(gbias), residual, if let Some(beta) = beta { [target()] } else { [] }),
        |x, rows, columns, bias, residual, old| with_c(f, x, rows, columns, bias, residual, old),
    );
    if HAS_AUX == 0 {
        if PLAIN == 1 && HAS_EPILOGUE == 0 && RESIDUAL_AFTER == 0 {
            copy(sums, target());
        } else {
            map(
                (sums, input(gscale_rows), input(gscale_columns), input(gbias), input(gresidual), if let Some(beta) = beta { [target()] } else { [] }),
                target(),
                |x, rows, columns, bias, residual, old| with_c(result, x, rows, columns, bias, residual, old),
            );
        }
    } else {
        if PLAIN == 0 && Acc == S {
            sums = of_sums(same, if RESIDUAL_AFTER == 1 { [] } else { input(gresidual) });
        }
        let sums = if PLAIN == 0 && Acc != S {
            of_sums(same, if RESIDUAL_AFTER == 1 { [] } else { input(gresidual) })
        } else {
            sums
        };
        map(sums, tiles(gaux[0]), |x| if X == S { x } else { x as X });
        map((sums, if RESIDUAL_AFTER == 1 { input(gresidual) } else { [] }), target(), |x, residual| result(x, residual));
    }
}
