//! With a halo of 2, element n of the tile is element n + 2 of `s`. At the ends of `x` the halo is 0.

use tilewright::prelude::*;

/// y(n) = x(n - 2) + x(n - 1) + x(n) + x(n + 1) + x(n + 2)
#[kernel]
pub fn neighbours(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let h = 2;
    let s = shared::<f32>(64 + 2 * h);
    copy(tile(x, 64, block.x, halo = h), s);
    map(iota(64), tile(y, 64, block.x), |n| {
        s[(n + h - 2)] + s[(n + h - 1)] + s[(n + h)] + s[(n + h + 1)] + s[(n + h + 2)]
    });
}
