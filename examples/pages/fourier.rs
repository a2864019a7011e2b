//! Fourier transforms of rows.

use tilewright::prelude::*;

/// Discrete Fourier transforms of the rows of x, whose elements are pairs: real and imaginary parts. Without INVERSE the exponent is
/// negative; with it results are not divided by N. Each thread has P numbers of a row in registers. A pass transforms P of them at a
/// time, the last one fewer, and multiplies them by roots of unity. Between passes numbers change places in shared memory.
#[kernel(choose((N, P) in [
    (256, 16), (512, 16), (1024, 16), (2048, 16), (4096, 16), (8192, 16), (16384, 16), (32, 16), (64, 16), (128, 16),
]))]
pub fn fft_rows<const N: usize, const P: usize, const INVERSE: usize = 0>(
    x: &Tensor<f32, (_2, L, M), (_1, _2, ldx)>,
    y: &mut Tensor<f32, (_2, L, M), (_1, _2, ldy)>,
) {
    assert(L == N);
    let t = N / P; // threads of a row
    let rows = max(1, 256 / t); // of a block
    let threads = layout!((1, t, rows));
    let gx = parallelize(tile(x, (2, N, rows), (0, 0, block.x)), threads, thread.x, values = (2, 1, 1));
    let gy = parallelize(tile(y, (2, N, rows), (0, 0, block.x)), threads, thread.x, values = (2, 1, 1));
    // One pair in P + 1 is left out, so that columns of P pairs have no bank conflicts either.
    let s = shared::<f32>(layout!((2, (P, t), rows) : (1, (2, 2 * P + 2), (2 * P + 2) * t)));
    let z = registers::<f32>((2, P), 0.0);
    copy(regroup(gx, (2, P)), z);

    let sign = if INVERSE == 1 { 1.0 } else { -1.0 };
    let passes = if N <= P { 1 } else { if N <= P * P { 2 } else { if N <= P * P * P { 3 } else { 4 } } };
    for pass in unroll(0..passes) {
        // Earlier passes have made `done` frequencies, each of a sequence of `rest` numbers.
        let done =
            if pass == 0 { 1 } else { if pass == 1 { P } else { if pass == 2 { P * P } else { P * P * P } } };
        let rest = N / done;
        let radix = min(P, rest);
        for step in unroll(0..5) {
            let (near, far) = ((P / radix) << step, (radix / 2) >> step);
            let from = registers::<f32>((2, P), 0.0);
            copy(z, from);
            for i in unroll(0..if far > 0 { P / 2 } else { 0 }) {
                let (q, p) = (i % near, i / near);
                let (one, two) = (q + near * p, q + near * (p + far));
                let (u, v) = (from[(0, one)] - from[(0, two)], from[(1, one)] - from[(1, two)]);
                let to = q + 2 * near * p;
                z[(0, to)] = from[(0, one)] + from[(0, two)];
                z[(1, to)] = from[(1, one)] + from[(1, two)];
                if p == 0 {
                    z[(0, to + near)] = u;
                    z[(1, to + near)] = v;
                } else if 2 * p == far {
                    z[(0, to + near)] = -sign * v;
                    z[(1, to + near)] = sign * u;
                } else {
                    let angle = sign * f32::consts::PI * (p as f32) / far as f32;
                    z[(0, to + near)] = u * cos(angle) - v * sin(angle);
                    z[(1, to + near)] = v * cos(angle) + u * sin(angle);
                }
            }
        }
        if pass + 1 < passes {
            // The powers of one root.
            let angle = 2.0 * sign * f32::consts::PI * ((thread.x % t / done) as f32) / rest as f32;
            let w = registers::<f32>((2, P), 0.0);
            w[(0, 1)] = cos(angle);
            w[(1, 1)] = sin(angle);
            for i in unroll(1..P) {
                if i > 1 {
                    let (j, k) = (i / 2, i - i / 2);
                    w[(0, i)] = w[(0, j)] * w[(0, k)] - w[(1, j)] * w[(1, k)];
                    w[(1, i)] = w[(0, j)] * w[(1, k)] + w[(1, j)] * w[(0, k)];
                }
                let (u, v) = (z[(0, i)], z[(1, i)]);
                z[(0, i)] = u * w[(0, i)] - v * w[(1, i)];
                z[(1, i)] = v * w[(0, i)] + u * w[(1, i)];
            }
            let to = regroup(s, (2, done, P, rest / P, rows));
            let to =
                parallelize(to, layout!((1, done, 1, rest / P, rows)), thread.x, values = (2, 1, 1, 1, 1));
            let next = parallelize(regroup(s, (2, N, rows)), threads, thread.x, values = (2, 1, 1));
            if pass > 0 {
                sync_threads();
            }
            copy(z, regroup(to, (2, P)));
            sync_threads();
            copy(regroup(next, (2, P)), z);
        }
    }
    copy(z, regroup(gy, (2, P)));
}
