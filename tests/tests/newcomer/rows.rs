//! Rows: a softmax by warps, and numbers of 8 bits.

use crate::{close, drawn, every, generated, rows, rows_out};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::inputs::inputs;

/// One row for each warp, in registers.
#[kernel]
fn softmax_by_warps(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 256);
    let t = layout!((4, 32) : (32, 1));
    let x = parallelize(tile(x, (4, 256), (block.x, 0)), t, thread.x, values = (1, 4));
    let y = parallelize(tile(y, (4, 256), (block.x, 0)), t, thread.x, values = (1, 4));
    let row = map(x, |x| x);
    let most = warp_maximum(maximum(row, 1));
    let grown = map((row, most), |x, m| exp(x - m));
    let total = warp_sum(sum(grown, 1));
    map((grown, total), y, |e, t| e / t);
}

#[test]
fn softmaxes() {
    inputs(softmax_by_warps().def()).near(1e-6, ["M = 3, N = 1", "M = 7, N = 129", "M = 4, N = 256"]);
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
    let round = |x, s| if s > 0.0 { min(max(round_ties_even(x / s), -127.0), 127.0) as i8 } else { 0 };
    map((x, s), regroup(tile(q, (2, 1024), here), (2, 128, 8)), round);
}

#[test]
fn rows_are_quantised_in_blocks() {
    for (m, n) in [(9, 300), (1, 1), (3, 2050)] {
        let mut x = drawn(m * n, 6);
        x[0] = 0.0;
        let blocks = n.div_ceil(128);
        let (mut numbers, mut scales) = (Vec::new(), Vec::new());
        for block in x.chunks(n).flat_map(|row| row.chunks(128)) {
            let scale = block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
            scales.push(f64::from(scale));
            let number = |x: &f32| {
                if scale > 0.0 { (x / scale).round_ties_even().clamp(-127.0, 127.0) as i8 } else { 0 }
            };
            numbers.extend(block.iter().map(number));
        }
        let args = [rows(&x, m, n), Arg::output::<i8>([m, n]).strides([n, 1]), rows_out(m, blocks)];
        for outcome in every(generated!(quantised()), &args) {
            assert_eq!(outcome.get::<i8>("q").unwrap(), numbers);
            close(&outcome.get::<f32>("scale").unwrap(), &scales, 1e-7);
        }
    }
}
