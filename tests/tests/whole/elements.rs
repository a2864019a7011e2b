//! Copies and functions of elements.

use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};

pub(crate) const SIZES: [usize; 6] = [1, 3, 31, 100, 256, 1000];

pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed) % 19) as f32 - 9.0).collect()
}

pub(crate) fn options() -> Options {
    Options { schedules: 2, ..Options::default() }
}

/// y = a x + y
#[kernel]
fn axpy<const W: usize = 1024>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, a: f32) {
    let (gx, gy) = (tile(x, W, block.x), tile(y, W, block.x));
    copy(map((gx, gy), |x, y| a * x + y), gy);
}

#[test]
fn axpy_is_right_for_every_size_and_tile() {
    for width in [1, 3, 31, 100, 256, 1024, 5000] {
        let kernel = axpy().specialize(&[("W", width)]).unwrap();
        let kernel = kernel.def().generate().unwrap();
        for n in SIZES {
            let (x, y) = (numbers(n, 1), numbers(n, 2));
            let wanted: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
            let args = [Arg::tensor(&x, [n]), Arg::in_out(&y, [n]), Arg::number(3.0f32)];
            for outcome in
                run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{width} {n}: {e}"))
            {
                assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{width} {n}");
            }
        }
    }
}
