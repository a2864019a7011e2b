//! Addresses from memory: rows of a sparse matrix.

use crate::{drawn, generated, right};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Softmax of the values of each row of a sparse matrix, whose values begin at `start`.
#[kernel(threads = 128)]
fn sparse_softmax(start: &Tensor<i32, { R + 1 }>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    // One block more than there are rows, which finds no values.
    let row = walk(start.size(0), block.x);
    let (from, to) = (start[(row)], if row < R { start[(row + 1)] } else { 0 });
    let (mut most, mut total) = (full::<f32>(1, f32::NEG_INFINITY), full::<f32>(1, 0.0));
    for k in 0..ceil_div(to - from, 128) {
        let values = shift(tile(x, 128, 0), (from + 128 * k));
        let own = map(values, |x, at| if at.0 < to { x } else { f32::NEG_INFINITY });
        let greater = max(most, maximum(own, out_of_bounds = f32::NEG_INFINITY));
        total = total * exp(most - greater) + sum(exp(own - greater), out_of_bounds = 0.0);
        most = greater;
    }
    for k in 0..ceil_div(to - from, 128) {
        let values = shift(tile(x, 128, 0), (from + 128 * k));
        scatter(
            exp(values - most) / total,
            y,
            |p, at| (if at.0 < to { at.0 } else { -1 }, p),
            out_of_bounds = -1,
        );
    }
}

#[test]
fn rows_of_any_length_add_up_to_one() {
    for lengths in [vec![1], vec![5, 0, 300, 128, 1]] {
        let mut start = vec![0];
        lengths.iter().for_each(|length| start.push(start.last().unwrap() + length));
        let n = *start.last().unwrap() as usize;
        let x = drawn(n, 2);
        let mut wanted = Vec::new();
        for row in start.windows(2) {
            let row = &x[row[0] as usize..row[1] as usize];
            let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            wanted.extend(row.iter().map(|x| f64::from(*x).exp() / total));
        }
        let args = [Arg::tensor(&start, [start.len()]), Arg::tensor(&x, [n]), Arg::output::<f32>([n])];
        right(generated!(sparse_softmax()), &args, "y", &wanted, 1e-5);
    }
}
