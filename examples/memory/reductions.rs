//! What a softmax or a norm reduces a row to, and how results of its parts combine.

use tilewright::prelude::*;

/// exp(x - most).
#[device]
pub fn power(x: f32, most: f32) -> f32 {
    exp2(1.4426950408889634 * (x - most))
}

/// The larger of two maxima, and the sum of two sums of exp(x - maximum).
#[device]
pub fn merged(a: f32, s: f32, b: f32, t: f32) -> (f32, f32) {
    use self::power;
    (max(a, b), fma(s, power(a, max(a, b)), t * power(b, max(a, b))))
}

/// Of a block's elements, where those out of bounds are minus infinity: their maximum, their powers exp(x - maximum), and the sum of
/// these.
#[device]
pub fn powers(row: View) -> (View, View, View) {
    use self::power;
    let most = block_reduce(
        maximum(row, out_of_bounds = f32::NEG_INFINITY),
        f32::MIN,
        |a, b| max(a, b),
        out_of_bounds = f32::MIN,
    );
    let grown = map((row, most), |x, most| power(x, most));
    (most, grown, block_sum(sum(grown, out_of_bounds = 0.0)))
}

/// The sum of a thread's elements of each row, and the sum of their squares. Those out of bounds are 0.
#[device]
pub fn moments(off: View) -> (View, View) {
    (sum(off, 1, out_of_bounds = 0.0), sum(map(off, |d| d * d), 1, out_of_bounds = 0.0))
}

/// 1 / √(variance + eps) of n elements, from the sums of their differences from some number and of the squares of these.
#[device]
pub fn factor_of(total: f32, squares: f32, n: f32, eps: f32) -> f32 {
    rsqrt(max(squares - total * (total / n), 0.0) / n + eps)
}
