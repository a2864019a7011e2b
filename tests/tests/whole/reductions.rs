//! Sums and extrema over modes of whole tiles.

use tilewright::prelude::*;
use tilewright_sim::{Arg, run_every};

use crate::elements::{numbers, options};

/// y = softmax of each row
#[kernel]
fn softmax<const R: usize = 4, const W: usize = 1024>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let gx = tile(x, (R, W), (block.x, 0));
    let x = map(gx, |x| x);
    let most = maximum(x, 1);
    let grown = map((x, most), |x, m| exp(x - m));
    let total = sum(grown, 1);
    copy(map((grown, total), |e, t| e / t), tile(y, (R, W), (block.x, 0)));
}

#[test]
fn softmax_is_right_for_every_size() {
    for (rows, width) in [(4, 1024), (1, 1000), (3, 100), (16, 64), (64, 16), (2, 31)] {
        let kernel = softmax().specialize(&[("R", rows), ("W", width)]).unwrap();
        let kernel = kernel.def().generate().unwrap();
        for (m, n) in [(1, 1), (5, 3), (4, width), (7, width - 1), (33, width / 2)] {
            let x = numbers(m * n, 3);
            let mut wanted = Vec::new();
            for row in x.chunks(n) {
                let most = row.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
                let total: f32 = row.iter().map(|x| (x - most).exp()).sum();
                wanted.extend(row.iter().map(|x| (x - most).exp() / total));
            }
            let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])];
            for outcome in run_every(&kernel, &args, &options())
                .unwrap_or_else(|e| panic!("{rows} {width}, {m} {n}: {e}"))
            {
                let got = outcome.get::<f32>("y").unwrap();
                let worst = got.iter().zip(&wanted).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-6, "{rows} {width}, {m} {n}: {worst}");
            }
        }
    }
}
