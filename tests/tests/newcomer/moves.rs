//! Elements that go elsewhere.

use crate::{below, drawn, every, generated, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// A transpose through shared memory.
#[kernel]
fn transpose(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
    let s = shared::<f32>((32, 32));
    copy(tile(x, (32, 32), (block.x, block.y)), s);
    copy(permute(s, (1, 0)), tile(y, (32, 32), (block.y, block.x)));
}

/// The same with the threads' parts written out.
#[kernel]
fn transpose_by_threads(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
    let s = shared::<f32>(padded((32, 32), 1));
    let t = layout!((32, 8));
    copy(parallelize(tile(x, (32, 32), (block.x, block.y)), t, thread.x), parallelize(s, t, thread.x));
    cp_async_wait_all();
    sync_threads();
    let turned = parallelize(permute(s, (1, 0)), t, thread.x);
    copy(turned, parallelize(tile(y, (32, 32), (block.y, block.x)), t, thread.x));
}

#[test]
fn transposes() {
    for (m, n) in [(64, 32), (33, 70), (1, 9)] {
        let x = drawn(m * n, 1);
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([n, m])];
        written(transpose().def(), &args);
        written(transpose_by_threads().def(), &args);
    }
}

/// The negative of a picture: the three colours are a mode of the regrouped tile, which four threads do not
/// divide.
#[kernel(allow(uncoalesced))]
fn negative(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!((4, 30));
    let part = |x| parallelize(regroup(tile(x, 90, block.x), (3, 30)), t, thread.x, ragged = true);
    let (from, to) = (part(x), part(y));
    map(from, to, |x| -x);
}

#[test]
fn a_ragged_mode_of_a_regrouped_tile() {
    for n in [90, 33, 271] {
        let x = drawn(n, 10);
        written(negative().def(), &[Arg::tensor(&x, [n]), Arg::output::<f32>([n])]);
    }
}

/// Rows of a table, by index.
#[kernel]
fn gather(
    ids: &Tensor<i32, R>,
    table: &Tensor<f32, (V, D), (ldt, _1)>,
    out: &mut Tensor<f32, (R, D), (ldo, _1)>,
) {
    let row = ids[(block.x)];
    copy(tile(table, (1, 256), (row, block.y)), tile(out, (1, 256), (block.x, block.y)));
}

#[test]
fn gathered_rows() {
    let (r, v, d) = (9, 5, 300);
    let (ids, table) = (below(6, r, 2), drawn(v * d, 3)); // the table has no 5

    let args = [Arg::tensor(&ids, [r]), rows(&table, v, d), rows_out(r, d)];
    written(gather().def(), &args);
}

/// Rows added to a table at indices.
#[kernel]
fn scatter_add(
    ids: &Tensor<i32, R>,
    from: &Tensor<f32, (R, D), (ldf, _1)>,
    table: &mut Tensor<f32, (V, D), (ldt, _1)>,
) {
    let row = ids[(block.x)];
    copy(tile(from, (1, 256), (block.x, block.y)), tile(table, (1, 256), (row, block.y)), how = "atomic_add");
}

#[test]
fn scattered_rows() {
    let (r, v, d) = (11, 4, 261);
    let (ids, from) = (below(5, r, 4), drawn(r * d, 5));

    let args = [
        Arg::tensor(&ids, [r]),
        rows(&from, r, d),
        Arg::in_out(&vec![0.0f32; v * d], [v, d]).strides([d, 1]),
    ];
    written(scatter_add().def(), &args);
}

/// Words and positions: the sum of two tables' rows.
#[kernel]
fn embedding(
    ids: &Tensor<i32, (T, B)>,
    words: &Tensor<f32, (D, V)>,
    places: &Tensor<f32, (D, T)>,
    out: &mut Tensor<f32, (D, T, B)>,
) {
    let word = tile(words, (128, 1), (block.z, ids[(block.x, block.y)]))[(_, 0)];
    let index = tile(places, (128, 1), (block.z, block.x))[(_, 0)];
    copy(map((word, index), |w, p| w + p), tile(out, (128, 1, 1), (block.z, block.x, block.y))[(_, 0, 0)]);
}

#[test]
fn embeddings() {
    let (d, t, b, v) = (200, 3, 2, 7);
    let (ids, words, places) = (below(7, t * b, 6), drawn(d * v, 7), drawn(d * t, 8));

    let args = [
        Arg::tensor(&ids, [t, b]),
        Arg::tensor(&words, [d, v]),
        Arg::tensor(&places, [d, t]),
        Arg::output::<f32>([d, t, b]),
    ];
    written(embedding().def(), &args);
}

/// How often each value occurs; values outside of the table are not counted.
#[kernel]
fn histogram(x: &Tensor<i32, N>, bins: &mut Tensor<i32, B>) {
    let x = parallelize(tile(x, 256, block.x), layout!(256), thread.x);
    let one = registers::<i32>((1), 1);
    copy(one, tile(bins, 1, x[(0)]), how = "atomic_add");
}

#[test]
fn counted_values() {
    let (n, b) = (1000, 7);
    let x = below(9, n, 9);
    let wanted: Vec<i32> = (0..b).map(|bin| x.iter().filter(|x| **x == bin).count() as i32).collect();
    let args = [Arg::tensor(&x, [n]), Arg::in_out(&[0i32; 7], [b as usize])];
    for outcome in every(generated!(histogram()), &args) {
        assert_eq!(outcome.get::<i32>("bins").unwrap(), wanted);
    }
}

/// The end of each row's list, from prefix sums of {E + 1} offsets; `at_most` bounds the computed extent.
#[kernel]
fn offsets(counts: &Tensor<i32, { E + 1 }>, ends: &mut Tensor<i32, { E + 1 }>) {
    at_most(E + 1, 512);
    copy(scan(tile(counts, 512, 0), 0, |a, b| a + b), tile(ends, 512, 0));
}

/// Each tile of each image, plus the tile above it: a walk over three modes, and a choice between integers.
#[kernel]
fn echoes(x: &Tensor<f32, (M, N, B)>, y: &mut Tensor<f32, (M, N, B)>) {
    let (i, j, image) = walk((ceil_div(M, 32), ceil_div(N, 8), B), block.x);
    let above = if i > 0 { i - 1 } else { 0 };
    let sum = tile(x, (32, 8, 1), (i, j, image)) + tile(x, (32, 8, 1), (above, j, image));
    copy(sum, tile(y, (32, 8, 1), (i, j, image)));
}

/// The sums of 3 or 5 tiles.
#[kernel]
fn sums_of_some(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (count, step) = if block.x % 2 == 0 || block.x > 2 { (3, 1) } else { (5, -1) };
    let mut total = full::<f32>(64, 0.0);
    for k in 0..count {
        total += tile(x, 64, block.x + step * k);
    }
    copy(total, tile(y, 64, block.x));
}

#[test]
fn integers_that_are_chosen() {
    for (m, n, b) in [(70, 20, 3), (32, 1, 1)] {
        let x = drawn(m * n * b, 1);
        let above = |at: usize| if at % m < 32 { at } else { at - 32 };
        let wanted: Vec<f32> = (0..x.len()).map(|at| x[at] + x[above(at)]).collect();
        let args = [Arg::tensor(&x, [m, n, b]), Arg::output::<f32>([m, n, b])];
        for outcome in every(generated!(echoes()), &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted);
        }
    }
    let x: Vec<f32> = (0..400).map(|n| (n % 17) as f32).collect();
    let sum = |at: usize| {
        let block = (at / 64) as i64;
        let (count, step) = if block % 2 == 0 || block > 2 { (3, 64) } else { (5, -64) };
        (0..count).filter_map(|k| x.get(usize::try_from(at as i64 + step * k).ok()?)).sum::<f32>()
    };
    let wanted: Vec<f32> = (0..400).map(sum).collect();
    for outcome in every(generated!(sums_of_some()), &[Arg::tensor(&x, [400]), Arg::output::<f32>([400])]) {
        assert_eq!(outcome.get::<f32>("y").unwrap(), wanted);
    }
}

#[test]
fn computed_extents_have_bounds() {
    let counts = below(9, 301, 3);
    let wanted: Vec<i32> = counts
        .iter()
        .scan(0, |sum, n| {
            *sum += n;
            Some(*sum)
        })
        .collect();
    let args = |n: usize| [Arg::tensor(&vec![1; n], [n]), Arg::output::<i32>([n])];
    for outcome in every(generated!(offsets()), &[Arg::tensor(&counts, [301]), Arg::output::<i32>([301])]) {
        assert_eq!(outcome.get::<i32>("ends").unwrap(), wanted);
    }
    assert!(offsets().simulate(&args(513)).unwrap_err().to_string().contains("at most 512"));
}
