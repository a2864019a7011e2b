//! Block t waits for flag t - 1, so block t must signal flag t. The signal comes after `ends(t)` is written, and
//! releases it.

use tilewright::prelude::*;

/// y(n) = x(0) + … + x(n), in one pass.
#[kernel]
pub fn chained(
    x: &Tensor<f32, N>,
    ticket: &mut Tensor<i32, _1>,
    flags: &mut Tensor<i32, { ceil_div(N, 64) }>,
    ends: &mut Tensor<f32, { ceil_div(N, 64) }>,
    y: &mut Tensor<f32, N>,
) {
    let _ = walk(flags.size(0), block.x);
    let begun = copy(1, ticket, how = "atomic_add", order = "relaxed");
    let t = begun[(0)];
    let mut end = full::<f32>(1, 0.0);
    let own = scan(tile(x, 64, t), 0.0, |a, b| a + b, carry = &mut end);
    wait(flags[(t - 1)], 1);
    let before = map(tile(ends, 1, t - 1), |x| x);
    copy(end + before, tile(ends, 1, t));
    signal(flags[(t)]);
    copy(own + before, tile(y, 64, t));
}
