//! Rows: softmax, norms, losses, the largest elements.

use crate::{close, drawn, every, generated, right, rows, rows_out};
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

/// A vector of length 1: the length is one number, which the closure uses by its name.
#[kernel]
fn normalize(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    at_most(N, 1024);
    let x = map(tile(x, 1024, 0), |x| x);
    let squares = sum(map(x, |x| x * x));
    copy(map(x, |x| x * rsqrt(squares)), tile(y, 1024, 0));
}

/// The same from parts of threads.
#[kernel]
fn normalize_by_threads(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    at_most(N, 1024);
    let part = |x| parallelize(tile(x, 1024, 0), layout!(256), thread.x);
    let x = map(part(x), |x| x);
    let squares = block_sum(sum(map(x, |x| x * x)));
    map(x, part(y), |x| x * rsqrt(squares));
}

#[test]
fn vectors_of_length_one() {
    for n in [1, 300, 1024] {
        let x: Vec<f32> = drawn(n, 10).iter().map(|x| x + 4.5).collect();
        let length = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let wanted: Vec<f64> = x.iter().map(|x| f64::from(*x) / length).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([n])];
        right(generated!(normalize()), &args, "y", &wanted, 1e-5);
        right(generated!(normalize_by_threads()), &args, "y", &wanted, 1e-5);
    }
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
