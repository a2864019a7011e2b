//! Conditions of elements as tiles of `bool`.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("within", within().def().clone()),
        ("neighbours", neighbours().def().clone()),
        ("collatz", collatz().def().clone()),
    ]
}

/// The number of elements between two limits, the first and the last of them, and the elements with the others set to -1.
#[kernel]
pub fn within(
    low: f32,
    high: f32,
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    count: &mut Tensor<i32, M>,
    any: &mut Tensor<bool, M>,
    last: &mut Tensor<i32, M>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    at_most(N, 512);
    let x = tile(x, (4, 512), (block.x, 0));
    let inside = (x > low) & (x < high);
    copy(sum(inside, 1), tile(count, 4, block.x).along(0));
    copy(reduce(inside, false, |a, b| a | b, mode = 1), tile(any, 4, block.x).along(0));
    let column = map(inside, |inside, at| if inside { at.1 } else { -1 });
    copy(maximum(column, 1), tile(last, 4, block.x).along(0));
    map((inside, x), tile(y, (4, 512), (block.x, 0)), |inside, x| if inside { x } else { -1.0 });
}

/// Masks of parts of threads: ballots, shuffles, and stores under a mask.
#[kernel]
pub fn neighbours(x: &Tensor<i32, N>, votes: &mut Tensor<u32, N>, y: &mut Tensor<i32, N>) {
    let t = layout!(128);
    let x = parallelize(tile(x, 128, block.x), t, thread.x);
    let odd = map(x, |x| x % 2 != 0);
    copy(warp_ballot(odd), parallelize(tile(votes, 128, block.x), t, thread.x));
    let next = warp_shuffle(odd, |lane| lane ^ 1);
    scatter(
        (odd, next, x),
        y,
        |odd, next, x, at| (if odd & !next { at.0 } else { -1 }, x),
        out_of_bounds = -1,
    );
}

/// A mask that a loop changes, and that ends it.
#[kernel]
pub fn collatz(x: &Tensor<i32, N>, steps: &mut Tensor<i32, N>) {
    let mut n = map(tile(x, 256, block.x), |x| x);
    let mut count = full::<i32>(256, 0);
    let mut open = n > 1;
    for _ in 0..1000 {
        if sum(open, out_of_bounds = false) == 0 {
            break;
        }
        count += open as i32;
        n = if open { if n % 2 == 0 { n / 2 } else { 3 * n + 1 } } else { n };
        open = n > 1;
    }
    copy(count, tile(steps, 256, block.x));
}
