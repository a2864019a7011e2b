//! More from machine learning: quantised weights, a recurrent cell, a factor of a matrix.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// y = W x with weights of 4 bits, two in a byte, and a scale for each row.
#[kernel(allow(uncoalesced))]
fn four_bits<const W: usize = 256>(
    w: &Tensor<u8, (M, H), (ldw, _1)>,
    scale: &Tensor<f32, M>,
    x: &Tensor<f32, (_2, H)>,
    y: &mut Tensor<f32, M>,
) {
    let w = tile(w, (4, W), (block.x, _));
    let x = tile(x, (2, W), (0, _));
    let mut acc = full::<f32>((4, W), 0.0);
    for k in 0..w.size(2) {
        acc = map((acc, w[(_, _, k)], x[(0, _, k)].along(1), x[(1, _, k)].along(1)), |s, w, a, b| {
            let (low, high) = (w % 16, w / 16);
            s + (low as f32 - 8.0) * a + (high as f32 - 8.0) * b
        });
    }
    copy(
        map((sum(acc, 1, out_of_bounds = 0.0)[(_, 0)], tile(scale, 4, block.x)), |y, s| y * s),
        tile(y, 4, block.x),
    );
}

#[test]
fn weights_of_four_bits() {
    inputs(four_bits().def()).written(["M = 7, H = 300"]);
}

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
