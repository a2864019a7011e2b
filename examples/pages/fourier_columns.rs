//! Fourier transforms of columns. A transform in two dimensions is one of the rows, then one of the columns of its result.

use tilewright::prelude::*;

/// Transforms of the columns of matrices, W neighbouring ones in a block, whose elements share sectors.
#[kernel(T = f32 | f64, choose((N, P, W) in [
    (256, 16, 16), (512, 32, 16), (1024, 32, 8), (2048, 32, 8), (4096, 32, 4), (8192, 32, 2), (32, 16, 128), (64, 16, 64),
    (128, 16, 32),
]))]
pub fn fft_columns<T, const N: usize, const P: usize, const W: usize, const INVERSE: usize = 0>(
    x: &Tensor<T, (_2, C, L, B), (_1, _2, ldx, lbx)>,
    y: &mut Tensor<T, (_2, C, L, B), (_1, _2, ldy, lby)>,
) {
    use super::fourier::transform;
    assert(L == N);
    let (t, at) = (N / P, (0, block.x, 0, block.y));
    let by = layout!((1, W, t, 1) : (0, 1, W, 0));
    let part =
        |of| regroup(parallelize(tile(of, (2, W, N, 1), at), by, thread.x, values = (2, 1, 1, 1)), (2, P));
    let s = shared::<T>(layout!((2, (P, t), W) : (1, (2 * W, 2 * W * (P + 1)), 2)));
    let mut z = map(part(x), |z| z);
    transform::<T>(&mut z, s, W, 1, if INVERSE == 1 { 1.0 } else { -1.0 });
    copy(z, part(y));
}
