//! Fourier transforms of rows.
//!
//! Complex numbers are pairs: real and imaginary parts. The exponent of a transform is negative, of an inverse positive. Results are
//! not divided by the number of points. The error, root of mean squares, is below 1e-6 of the result in f32, 1e-14 in f64.

use tilewright::prelude::*;

/// Transforms N numbers. Each thread has P of them, thread j the numbers at j, j + N / P and so on. `s` has room for them between
/// passes, and for other sequences beside them. `near` and `far` are the strides of a sequence's threads and of sequences.
#[device]
pub fn transform<T>(z: &mut View, s: View, near: usize, far: usize, sign: T) {
    use self::{butterflies, twiddle};
    let (p, n, of) = (z.size(1), s.size(1), s.size(2));
    let bits = count_ones(p - 1);
    for pass in unroll(0..ceil_div(count_ones(n - 1), bits)) {
        // Earlier passes have made `done` frequencies, each of a sequence of `rest` numbers.
        let (done, rest) = (1 << (pass * bits), n >> (pass * bits));
        butterflies::<T>(&mut z, min(p, rest), sign);
        if rest > p {
            let angle = 2.0 * sign * T::consts::PI * ((thread.x / near % (n / p) / done) as T) / rest as T;
            twiddle::<T>(&mut z, angle);
            let to = regroup(s, (2, done, p, rest / p, of));
            let by = layout!((1, done, 1, rest / p, of) : (0, near, 0, near * done, far));
            if pass > 0 {
                sync_threads();
            }
            copy(z, regroup(parallelize(to, by, thread.x, values = (2, 1, 1, 1, 1)), (2, p)));
            sync_threads();
            let by = layout!((1, n / p, of) : (0, near, far));
            copy(regroup(parallelize(s, by, thread.x, values = (2, 1, 1)), (2, p)), z);
        }
    }
}

/// Transforms of `radix` numbers of a thread each, which are z.size(1) / radix apart.
#[device]
pub fn butterflies<T>(z: &mut View, radix: usize, sign: T) {
    for step in unroll(0..count_ones(radix - 1)) {
        let (near, far) = ((z.size(1) / radix) << step, (radix / 2) >> step);
        let from = map(regroup(z, (2, near, far, 2)), |z| z);
        let to = regroup(z, (2, near, 2, far));
        to[(_, _, 0, _)] = from[(_, _, _, 0)] + from[(_, _, _, 1)];
        let d = from[(_, _, _, 0)] - from[(_, _, _, 1)];
        for i in unroll(0..far) {
            let (u, v, angle) = (d[(0, _, i)], d[(1, _, i)], sign * T::consts::PI * (i as T) / far as T);
            (to[(0, _, 1, i)], to[(1, _, 1, i)]) = if i == 0 {
                (u, v)
            } else if 2 * i == far {
                (-sign * v, sign * u)
            } else {
                (u * cos(angle) - v * sin(angle), v * cos(angle) + u * sin(angle))
            };
        }
    }
}

/// Multiplies the i-th number by the i-th power of the number of this angle on the unit circle.
#[device]
pub fn twiddle<T>(z: &mut View, angle: T) {
    let w = registers::<T>((2, z.size(1)), 0.0);
    (w[(0, 1)], w[(1, 1)]) = (cos(angle), sin(angle));
    for i in unroll(1..z.size(1)) {
        let (j, k, u, v) = (i / 2, i - i / 2, z[(0, i)], z[(1, i)]);
        if i > 1 {
            w[(0, i)] = w[(0, j)] * w[(0, k)] - w[(1, j)] * w[(1, k)];
            w[(1, i)] = w[(0, j)] * w[(1, k)] + w[(1, j)] * w[(0, k)];
        }
        (z[(0, i)], z[(1, i)]) = (u * w[(0, i)] - v * w[(1, i)], v * w[(0, i)] + u * w[(1, i)]);
    }
}

/// Transforms of the rows of x. Each thread has P numbers of a row in registers.
#[kernel(T = f32 | f64, choose((N, P) in [
    (256, 16), (512, 16), (1024, 16), (2048, 16), (4096, 16), (8192, 32), (16384, 32), (32, 16), (64, 16), (128, 16),
]))]
pub fn fft_rows<T, const N: usize, const P: usize, const INVERSE: usize = 0>(
    x: &Tensor<T, (_2, L, M), (_1, _2, ldx)>,
    y: &mut Tensor<T, (_2, L, M), (_1, _2, ldy)>,
) {
    use self::transform;
    assert(L == N);
    let (t, rows) = (N / P, max(1, 256 * P / N)); // threads of a row, rows of a block
    let by = layout!((1, t, rows));
    let part = |of| parallelize(tile(of, (2, N, rows), (0, 0, block.x)), by, thread.x, values = (2, 1, 1));
    // One pair in P + 1 is left out, so that columns of P pairs have no bank conflicts either.
    let s = shared::<T>(layout!((2, (P, t), rows) : (1, (2, 2 * P + 2), (2 * P + 2) * t)));
    let mut z = map(regroup(part(x), (2, P)), |z| z);
    transform::<T>(&mut z, s, 1, t, if INVERSE == 1 { 1.0 } else { -1.0 });
    copy(z, regroup(part(y), (2, P)));
}
