//! Fourier transforms of rows of real numbers, and their inverses. Neighbouring numbers are transformed as pairs, half as many.

use tilewright::prelude::*;

/// Makes twice the transform of 2 N real numbers from the transform of N pairs; with a positive sign back. It needs the number at
/// N - k for the one at k, which is in s.
#[device]
fn untangle<T>(z: &mut View, s: View, sign: T) {
    let (p, n) = (z.size(1), s.size(1));
    let (j, row) = (thread.x % (n / p), thread.x / (n / p));
    let (w, v, m) = (registers::<T>(2, 0.0), registers::<T>(2, 0.0), registers::<T>(2, 0.0));
    let angle = sign * T::consts::PI * (j as T) / n as T;
    w[(0)] = cos(angle);
    w[(1)] = sin(angle);
    for i in unroll(0..p) {
        copy(regroup(s, (2, n, s.size(2)))[(_, (n - j - n / p * i) % n, row)], m);
        let own = sign * T::consts::PI * (i as T / p as T + 0.5);
        v[(0)] = w[(0)] * cos(own) - w[(1)] * sin(own);
        v[(1)] = w[(0)] * sin(own) + w[(1)] * cos(own);
        let (a, b) = (z[(0, i)], z[(1, i)]);
        z[(0, i)] = a + m[(0)] + v[(0)] * (a - m[(0)]) + -v[(1)] * (b + m[(1)]);
        z[(1, i)] = b - m[(1)] + v[(0)] * (b + m[(1)]) + v[(1)] * (a - m[(0)]);
    }
}

/// Transforms of real rows: of the L numbers of a row, the frequencies 0 to L / 2. Neighbours are transformed as pairs.
#[kernel(T = f32 | f64, allow(bank_conflicts, uncoalesced), choose((N, P, Q) in [
    (256, 16, 3), (512, 16, 3), (1024, 16, 3), (2048, 16, 3), (4096, 16, 3), (8192, 32, 2), (16384, 16, 1), (32, 16, 3),
    (64, 16, 3), (128, 16, 3),
]))]
pub fn rfft_rows<T, const N: usize, const P: usize, const Q: usize = 0>(
    x: &Tensor<T, (L, M), (_1, ldx)>,
    y: &mut Tensor<T, { (2, L / 2 + 1, M) }, (_1, _2, ldy)>,
) {
    use self::untangle;
    use super::fourier::transform;
    assert(L == 2 * N);
    let (t, rows) = (N / P, max(1, 256 * P / N)); // threads of a row, rows of a block
    blocks_per_sm(Q);
    let by = layout!((1, t, rows));
    let gx = regroup(tile(x, (2 * N, rows), (0, block.x)), (2, N, rows));
    let gy = tile(y, (2, N, rows), (0, 0, block.x));
    let s = shared::<T>(layout!((2, (P, t), rows) : (1, (2, 2 * P + 2), (2 * P + 2) * t)));
    let (z, last) = (registers::<T>((2, P), 0.0), registers::<T>((2, 1, 1), 0.0));
    copy(regroup(parallelize(gx, by, thread.x, values = (2, 1, 1)), (2, P)), z);
    transform::<T>(&mut z, s, 1, t, -1.0);
    last[(0, 0, 0)] = z[(0, 0)] - z[(1, 0)];
    sync_threads();
    copy(z, regroup(parallelize(s, by, thread.x, values = (2, 1, 1)), (2, P)));
    sync_threads();
    untangle::<T>(&mut z, s, -1.0);
    z *= 0.5;
    copy(z, regroup(parallelize(gy, by, thread.x, values = (2, 1, 1)), (2, P)));
    let gy = shift(tile(y, (2, 1, rows), (0, 0, block.x)), (0, N, 0));
    copy(last, parallelize(gy, by, thread.x, values = (2, 1, 1), ragged = true));
}

/// The inverse: from the frequencies 0 to L / 2 to the L numbers of a row, times L. Imaginary parts of the first and the last
/// frequency count as 0.
#[kernel(T = f32 | f64, allow(bank_conflicts, uncoalesced), choose((N, P, Q) in [
    (256, 16, 3), (512, 16, 3), (1024, 16, 3), (2048, 16, 3), (4096, 16, 3), (8192, 32, 2), (16384, 16, 1), (32, 16, 3),
    (64, 16, 3), (128, 16, 3),
]))]
pub fn irfft_rows<T, const N: usize, const P: usize, const Q: usize = 0>(
    x: &Tensor<T, { (2, L / 2 + 1, M) }, (_1, _2, ldx)>,
    y: &mut Tensor<T, (L, M), (_1, ldy)>,
) {
    use self::untangle;
    use super::fourier::transform;
    assert(L == 2 * N);
    let (t, rows) = (N / P, max(1, 256 * P / N)); // threads of a row, rows of a block
    blocks_per_sm(Q);
    let by = layout!((1, t, rows));
    let gx = tile(x, (2, N, rows), (0, 0, block.x));
    let gy = regroup(tile(y, (2 * N, rows), (0, block.x)), (2, N, rows));
    let s = shared::<T>(layout!((2, (P, t), rows) : (1, (2, 2 * P + 2), (2 * P + 2) * t)));
    let z = registers::<T>((2, P), 0.0);
    copy(regroup(parallelize(gx, by, thread.x, values = (2, 1, 1)), (2, P)), z);
    let first = z[(0, 0)];
    if thread.x % t == 0 {
        z[(0, 0)] = x[(0, N, block.x * rows + thread.x / t)];
        z[(1, 0)] = 0.0;
    }
    copy(z, regroup(parallelize(s, by, thread.x, values = (2, 1, 1)), (2, P)));
    sync_threads();
    z[(0, 0)] = first;
    untangle::<T>(&mut z, s, 1.0);
    sync_threads();
    transform::<T>(&mut z, s, 1, t, 1.0);
    copy(z, regroup(parallelize(gy, by, thread.x, values = (2, 1, 1)), (2, P)));
}
