//! Kernels on tensors as PyTorch has them: identifiers, offsets and targets of 64 bits, masks of `bool`.

use tilewright::prelude::*;

#[kernel]
fn embedding_backward(
    ids: &Tensor<i64, N>,
    g: &Tensor<f32, (N, D), (ldg, _1)>,
    table: &mut Tensor<f32, (V, D), (ldt, _1)>,
) {
    scatter(
        tile(g, (8, 64), (block.x, block.y)),
        table,
        |g, at| ((ids[(at.0)], at.1), g),
        how = "atomic_add",
    );
}

#[test]
fn gradients_of_an_embedding() {
    let (n, d, v) = (19, 70, 5);
    let ids: Vec<i64> = (0..n).map(|i| if i == 7 { 1 << 40 } else { (i * 3 % v) as i64 }).collect();
    let g: Vec<f32> = (0..n * d).map(|i| (i % 9) as f32).collect();
    let mut wanted = vec![0.0f32; v * d];
    for (i, &id) in ids.iter().enumerate().filter(|(_, id)| **id < v as i64) {
        (0..d).for_each(|j| wanted[id as usize * d + j] += g[i * d + j]);
    }
    let args = [
        Arg::tensor(&ids, [n]),
        Arg::tensor(&g, [n, d]).strides([d, 1]),
        Arg::in_out(&vec![0.0f32; v * d], [v, d]).strides([d, 1]),
    ];
    assert_eq!(embedding_backward().simulate(&args).unwrap().get::<f32>("table").unwrap(), wanted);
}

#[kernel]
fn spmv(
    ptr: &Tensor<i64, { M + 1 }>,
    col: &Tensor<i64, Z>,
    val: &Tensor<f32, Z>,
    x: &Tensor<f32, K>,
    y: &mut Tensor<f32, M>,
) {
    let (from, to) = (ptr[(block.x)], ptr[(block.x + 1)]);
    let mut total = full::<f32>(1, 0.0);
    for k in 0..ceil_div(to - from, 128) {
        let at = map(iota(128), |i| i as i64 + from + 128 * (k as i64));
        total +=
            sum(map(at, |at| if at < to { val[(at)] * x[(col[(at)])] } else { 0.0 }), out_of_bounds = 0.0);
    }
    copy(total, tile(y, 1, block.x));
}

#[test]
fn sparse_rows_with_offsets_of_64_bits() {
    let lengths = [0usize, 3, 300, 1, 129];
    let ptr: Vec<i64> = (0..=5).map(|row| lengths[..row].iter().sum::<usize>() as i64).collect();
    let (z, k) = (433, 50);
    let col: Vec<i64> = (0..z).map(|i| (i * 7 % k) as i64).collect();
    let val: Vec<f32> = (0..z).map(|i| (i % 4) as f32).collect();
    let x: Vec<f32> = (0..k).map(|i| (i % 5) as f32).collect();
    let row =
        |m: usize| (ptr[m] as usize..ptr[m + 1] as usize).map(|i| val[i] * x[col[i] as usize]).sum::<f32>();
    let args = [
        Arg::tensor(&ptr, [6]),
        Arg::tensor(&col, [z]),
        Arg::tensor(&val, [z]),
        Arg::tensor(&x, [k]),
        Arg::output::<f32>([5]),
    ];
    let y = spmv().simulate(&args).unwrap().get::<f32>("y").unwrap();
    assert_eq!(y, (0..5).map(row).collect::<Vec<_>>());
}

#[kernel]
fn argmax(x: &Tensor<f32, (M, N), (ld, _1)>, best: &mut Tensor<i64, M>) {
    at_most(N, 1024);
    let x = tile(x, (1, 1024), (block.x, 0));
    let places = map(x, |x, at| (x, at.1 as i64));
    let better = |a, i, b, j| (b > a) | ((b == a) & (j < i));
    let (_, at) = reduce(
        places,
        (f32::NEG_INFINITY, i64::MAX),
        |(a, i), (b, j)| if better(a, i, b, j) { (b, j) } else { (a, i) },
        mode = 1,
    );
    copy(at, tile(best, 1, block.x).along(0));
}

#[test]
fn the_first_of_the_largest() {
    let (m, n) = (3, 700);
    let x: Vec<f32> = (0..m * n).map(|i| ((i * 37) % 101) as f32).collect();
    let first = |x: &[f32]| x.iter().position(|y| *y == 100.0).unwrap() as i64;
    let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<i64>([m])];
    let best = argmax().simulate(&args).unwrap().get::<i64>("best").unwrap();
    assert_eq!(best, x.chunks(n).map(first).collect::<Vec<_>>());
}

#[kernel]
fn masked_mean(
    x: &Tensor<f32, (M, N), (ld, _1)>,
    keep: &Tensor<bool, (M, N), (ldk, _1)>,
    y: &mut Tensor<f32, M>,
    any: &mut Tensor<bool, M>,
    all: &mut Tensor<bool, M>,
) {
    at_most(N, 512);
    let (x, keep) = (tile(x, (4, 512), (block.x, 0)), tile(keep, (4, 512), (block.x, 0)));
    let (total, count) = (sum(if keep { x } else { 0.0 }, 1), sum(keep as f32, 1));
    copy(total / max(count, 1.0), tile(y, 4, block.x).along(0));
    copy(sum(keep, 1) > 0, tile(any, 4, block.x).along(0));
    copy(minimum(keep, 1), tile(all, 4, block.x).along(0));
}

#[test]
fn means_under_a_mask() {
    let (m, n) = (6, 300);
    let x: Vec<f32> = (0..m * n).map(|i| (i % 8) as f32).collect();
    let keep: Vec<bool> = (0..m * n).map(|i| [i % 2 == 0, false, true][i / n % 3]).collect();
    let mean = |row: usize| {
        let kept: Vec<f32> = (row * n..(row + 1) * n).filter(|i| keep[*i]).map(|i| x[i]).collect();
        kept.iter().sum::<f32>() / kept.len().max(1) as f32
    };
    let args = [
        Arg::tensor(&x, [m, n]).strides([n, 1]),
        Arg::tensor(&keep, [m, n]).strides([n, 1]),
        Arg::output::<f32>([m]),
        Arg::output::<bool>([m]),
        Arg::output::<bool>([m]),
    ];
    let done = masked_mean().simulate(&args).unwrap();
    assert_eq!(done.get::<f32>("y").unwrap(), (0..m).map(mean).collect::<Vec<_>>());
    let rows = |of: fn(&[bool]) -> bool| keep.chunks(n).map(of).collect::<Vec<_>>();
    assert_eq!(done.get::<bool>("any").unwrap(), rows(|row| row.contains(&true)));
    assert_eq!(done.get::<bool>("all").unwrap(), rows(|row| !row.contains(&false)));
}

#[kernel]
fn padded_batch(
    lens: &Tensor<i64, B>,
    x: &Tensor<f32, (T, B)>,
    y: &mut Tensor<f32, (T, B)>,
    inside: &mut Tensor<bool, (T, B)>,
) {
    let n = lens[(block.x)];
    let x = tile(x, (256, 1), (block.y, block.x));
    map(x, tile(y, (256, 1), (block.y, block.x)), |x, at| if (at.0 as i64) < n { x } else { 0.0 });
    let inside = tile(inside, (256, 1), (block.y, block.x));
    map(inside, inside, |_, at| (at.0 as i64) < n);
    inside = !inside;
}

#[test]
fn sequences_end_where_their_lengths_say() {
    let (t, lens) = (400, [0i64, 5, 400, 1 << 33, -2]);
    let x: Vec<f32> = (0..t * 5).map(|i| i as f32).collect();
    let kept = |at: usize| ((at % t) as i64) < lens[at / t];
    let args = [
        Arg::tensor(&lens, [5]),
        Arg::tensor(&x, [t, 5]),
        Arg::output::<f32>([t, 5]),
        Arg::in_out(&vec![false; t * 5], [t, 5]),
    ];
    let done = padded_batch().simulate(&args).unwrap();
    let wanted = (0..t * 5).map(|at| if kept(at) { x[at] } else { 0.0 });
    assert_eq!(done.get::<f32>("y").unwrap(), wanted.collect::<Vec<_>>());
    assert_eq!(done.get::<bool>("inside").unwrap(), (0..t * 5).map(|at| !kept(at)).collect::<Vec<_>>());
}
