//! Fourier transforms of rows and of columns. A transform in two dimensions is one of the rows, then one of the columns of its result.
//!
//! Complex numbers are pairs: real and imaginary parts. The exponent of a transform is negative, of an inverse positive. Results are
//! not divided by the number of points. The error, root of mean squares, is below 1e-6 of the result in f32, 1e-14 in f64.

use tilewright::prelude::*;

/// Transforms N numbers. Each thread has P of them, thread j the numbers at j, j + N / P and so on. `s` has room for them between
/// passes, and for other sequences beside them. The threads of one sequence are `near` apart, the sequences `far`.
#[device]
pub fn transform<T>(z: &mut View, s: View, near: usize, far: usize, sign: T) {
    use self::{butterflies, twiddle};
    let (p, n, of) = (z.size(1), s.size(1), s.size(2));
    let (t, bits) = (n / p, if p == 16 { 4 } else { 5 });
    for pass in unroll(0..4) {
        // Earlier passes have made `done` frequencies, each of a sequence of `rest` numbers.
        let done = 1 << (pass * bits);
        let rest = max(1, n / done);
        if rest > 1 {
            butterflies::<T>(&mut z, min(p, rest), sign);
        }
        if rest > p {
            let angle = 2.0 * sign * T::consts::PI * ((thread.x / near % t / done) as T) / rest as T;
            twiddle::<T>(&mut z, angle);
            let to = regroup(s, (2, done, p, rest / p, of));
            let by = layout!((1, done, 1, rest / p, of) : (0, near, 0, near * done, far));
            if pass > 0 {
                sync_threads();
            }
            copy(z, regroup(parallelize(to, by, thread.x, values = (2, 1, 1, 1, 1)), (2, p)));
            sync_threads();
            let by = layout!((1, t, of) : (0, near, far));
            copy(regroup(parallelize(s, by, thread.x, values = (2, 1, 1)), (2, p)), z);
        }
    }
}

/// Transforms of `radix` numbers of a thread each, which are z.size(1) / radix apart.
#[device]
pub fn butterflies<T>(z: &mut View, radix: usize, sign: T) {
    let p = z.size(1);
    for step in unroll(0..5) {
        let (near, far) = ((p / radix) << step, (radix / 2) >> step);
        if far > 0 {
            let from = registers::<T>((2, near, far, 2), 0.0);
            copy(regroup(z, (2, near, far, 2)), from);
            let to = regroup(z, (2, near, 2, far));
            to[(_, _, 0, _)] = from[(_, _, _, 0)] + from[(_, _, _, 1)];
            let d = from[(_, _, _, 0)] - from[(_, _, _, 1)];
            for i in unroll(0..far) {
                let (u, v) = (d[(0, _, i)], d[(1, _, i)]);
                if i == 0 {
                    to[(_, _, 1, 0)] = d[(_, _, 0)];
                } else if 2 * i == far {
                    to[(0, _, 1, i)] = -sign * v;
                    to[(1, _, 1, i)] = sign * u;
                } else {
                    let angle = sign * T::consts::PI * (i as T) / far as T;
                    to[(0, _, 1, i)] = u * cos(angle) - v * sin(angle);
                    to[(1, _, 1, i)] = v * cos(angle) + u * sin(angle);
                }
            }
        }
    }
}

/// Multiplies the i-th number by the i-th power of the number of this angle on the unit circle.
#[device]
pub fn twiddle<T>(z: &mut View, angle: T) {
    let p = z.size(1);
    let w = registers::<T>((2, p), 0.0);
    w[(0, 1)] = cos(angle);
    w[(1, 1)] = sin(angle);
    for i in unroll(1..p) {
        if i > 1 {
            let (j, k) = (i / 2, i - i / 2);
            w[(0, i)] = w[(0, j)] * w[(0, k)] - w[(1, j)] * w[(1, k)];
            w[(1, i)] = w[(0, j)] * w[(1, k)] + w[(1, j)] * w[(0, k)];
        }
        let (u, v) = (z[(0, i)], z[(1, i)]);
        z[(0, i)] = u * w[(0, i)] - v * w[(1, i)];
        z[(1, i)] = v * w[(0, i)] + u * w[(1, i)];
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
    let t = N / P; // threads of a row
    let rows = max(1, 256 / t); // of a block
    let by = layout!((1, t, rows));
    let gx = parallelize(tile(x, (2, N, rows), (0, 0, block.x)), by, thread.x, values = (2, 1, 1));
    let gy = parallelize(tile(y, (2, N, rows), (0, 0, block.x)), by, thread.x, values = (2, 1, 1));
    // One pair in P + 1 is left out, so that columns of P pairs have no bank conflicts either.
    let s = shared::<T>(layout!((2, (P, t), rows) : (1, (2, 2 * P + 2), (2 * P + 2) * t)));
    let z = registers::<T>((2, P), 0.0);
    copy(regroup(gx, (2, P)), z);
    transform::<T>(&mut z, s, 1, t, if INVERSE == 1 { 1.0 } else { -1.0 });
    copy(z, regroup(gy, (2, P)));
}

/// Transforms of the columns of matrices, W neighbouring ones in a block, whose elements share sectors.
#[kernel(T = f32 | f64, choose((N, P, W) in [
    (256, 16, 16), (512, 32, 16), (1024, 32, 8), (2048, 32, 8), (4096, 32, 4), (8192, 32, 2), (32, 16, 128), (64, 16, 64),
    (128, 16, 32),
]))]
pub fn fft_columns<T, const N: usize, const P: usize, const W: usize, const INVERSE: usize = 0>(
    x: &Tensor<T, (_2, C, L, B), (_1, _2, ldx, lbx)>,
    y: &mut Tensor<T, (_2, C, L, B), (_1, _2, ldy, lby)>,
) {
    use self::transform;
    assert(L == N);
    let t = N / P;
    let (by, at) = (layout!((1, W, t, 1) : (0, 1, W, 0)), (0, block.x, 0, block.y));
    let gx = parallelize(tile(x, (2, W, N, 1), at), by, thread.x, values = (2, 1, 1, 1));
    let gy = parallelize(tile(y, (2, W, N, 1), at), by, thread.x, values = (2, 1, 1, 1));
    let s = shared::<T>(layout!((2, (P, t), W) : (1, (2 * W, 2 * W * (P + 1)), 2)));
    let z = registers::<T>((2, P), 0.0);
    copy(regroup(gx, (2, P)), z);
    transform::<T>(&mut z, s, W, 1, if INVERSE == 1 { 1.0 } else { -1.0 });
    copy(z, regroup(gy, (2, P)));
}
