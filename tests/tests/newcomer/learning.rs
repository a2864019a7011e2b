//! From machine learning: numbers of 8 bits, a recurrent cell, a factor of a matrix.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// The cell of an LSTM: four gates of H numbers for each element of the batch.
#[kernel]
fn lstm_cell(gates: &Tensor<f32, (H, _4, B)>, c: &mut Tensor<f32, (H, B)>, h: &mut Tensor<f32, (H, B)>) {
    let g = tile(gates, (256, 4, 1), (block.x, 0, block.y))[(_, _, 0)];
    let c = tile(c, (256, 1), (block.x, block.y))[(_, 0)];
    let next = map((g[(_, 0)], g[(_, 1)], g[(_, 2)], c), |i, f, z, c| sigmoid(f) * c + sigmoid(i) * tanh(z));
    copy(map((g[(_, 3)], next), |o, c| sigmoid(o) * tanh(c)), tile(h, (256, 1), (block.x, block.y))[(_, 0)]);
    copy(next, c);
}

#[test]
fn cells_of_an_lstm() {
    inputs(lstm_cell().def()).with("c", |x| x).written(["H = 300, B = 2"]);
}

/// The Cholesky factor of a matrix of 32 rows, for each matrix of a batch; above the diagonal it is 0.
#[kernel(allow(bank_conflicts))]
fn cholesky(a: &Tensor<f32, (_32, _32, B)>, l: &mut Tensor<f32, (_32, _32, B)>) {
    let s = shared::<f32>((32, 32));
    let to = tile(l, (32, 32, 1), (0, 0, block.x))[(_, _, 0)];
    copy(tile(a, (32, 32, 1), (0, 0, block.x))[(_, _, 0)], s);
    for j in 0..32 {
        let column = map(s[(_, j)], |x| x * rsqrt(s[(j, j)]));
        // `to` is not read: its coordinates are meant.
        map((s, column.along(0), column.along(1), to), s, |x, a, b, _, at| {
            let own = if at.0 >= j { a } else { 0.0 };
            if at.1 > j {
                x - a * b
            } else if at.1 == j {
                own
            } else {
                x
            }
        });
    }
    copy(s, to);
}

#[test]
fn cholesky_factors() {
    // Positive definite: the diagonal dominates.
    inputs(cholesky().def())
        .indexed("a", |at, x| if at % 1024 % 33 == 0 { 160.0 } else { x })
        .written(["B = 2"]);
}

/// Numbers of 8 bits with a scale for each 128 of a row, eight of these at once.
#[kernel(allow(uncoalesced))] // scales are few
fn quantised(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    q: &mut Tensor<i8, (M, N), (ldq, _1)>,
    scale: &mut Tensor<f32, { (M, ceil_div(N, 128)) }, (lds, _1)>,
) {
    let here = (block.x, block.y);
    let x = map(regroup(tile(x, (2, 1024), here), (2, 128, 8)), |x| x);
    let s = maximum(abs(x), 1) / 127.0;
    copy(s, regroup(tile(scale, (2, 8), here), (2, 1, 8)));
    let quantized = |x, s| if s > 0.0 { min(max(round_ties_even(x / s), -127.0), 127.0) as i8 } else { 0 };
    map((x, s), regroup(tile(q, (2, 1024), here), (2, 128, 8)), quantized);
}

#[test]
fn rows_are_quantised_in_blocks() {
    inputs(quantised().def())
        .indexed("x", |at, x| if at < 128 { 0.0 } else { x.sin() })
        .near(1e-7, ["M = 9, N = 300", "M = 1, N = 1", "M = 3, N = 2050"]);
}
