//! Gravity among bodies, all pairs.

use tilewright::prelude::*;

/// What pulls each body: columns of `bodies` are x, y, z and mass, and rows of `others` the same once more; columns of
/// `pull` are the acceleration's parts.
#[kernel]
pub fn gravity<const R: usize = 1, const J: usize = 8, const L: usize = 128>(
    bodies: &Tensor<f32, (N, _4), (_1, ldb)>,
    others: &Tensor<f32, (_4, N), (ldo, _1)>,
    pull: &mut Tensor<f32, (N, _3), (_1, ldp)>,
    softening: f32,
) {
    let (threads, all) = (layout!((L, 1)), layout!((1, 1, L) : (0, 0, 1)));
    let own = parallelize(tile(bodies, (R * L, 1), (block.x, _)), threads, thread.x);
    let to = parallelize(tile(pull, (R * L, 1), (block.x, _)), threads, thread.x);
    let them = parallelize(tile(others, (1, J), (_, _)), all, thread.x, (1, 1, _));
    let (x, y, z) =
        (registers::<f32>((R, 1), 0.0), registers::<f32>((R, 1), 0.0), registers::<f32>((R, 1), 0.0));
    copy(own[(_, _, 0)], x);
    copy(own[(_, _, 1)], y);
    copy(own[(_, _, 2)], z);
    let (ax, ay, az) =
        (registers::<f32>((R, J), 0.0), registers::<f32>((R, J), 0.0), registers::<f32>((R, J), 0.0));
    for k in 0..them.size(3) {
        let u = registers::<f32>((1, J), 0.0);
        let v = registers::<f32>((1, J), 0.0);
        let w = registers::<f32>((1, J), 0.0);
        let mass = registers::<f32>((1, J), 0.0);
        copy(them[(_, _, 0, k)], u, fill = 0.0);
        copy(them[(_, _, 1, k)], v, fill = 0.0);
        copy(them[(_, _, 2, k)], w, fill = 0.0);
        copy(them[(_, _, 3, k)], mass, fill = 0.0);
        let dx = map((u, x), |a, b| a - b);
        let dy = map((v, y), |a, b| a - b);
        let dz = map((w, z), |a, b| a - b);
        let force = map((dx, dy, dz, mass), |x, y, z, mass| {
            let inverse = rsqrt(fma(x, x, fma(y, y, fma(z, z, softening))));
            mass * inverse * (inverse * inverse)
        });
        map((ax, dx, force), ax, |a, d, f| fma(d, f, a));
        map((ay, dy, force), ay, |a, d, f| fma(d, f, a));
        map((az, dz, force), az, |a, d, f| fma(d, f, a));
    }
    // Bodies beyond the last have no mass.
    let ones = registers::<f32>((1, J), 1.0);
    let (sx, sy, sz) =
        (registers::<f32>((R, 1), 0.0), registers::<f32>((R, 1), 0.0), registers::<f32>((R, 1), 0.0));
    gemm(ax, ones, &mut sx);
    gemm(ay, ones, &mut sy);
    gemm(az, ones, &mut sz);
    copy(sx, to[(_, _, 0)]);
    copy(sy, to[(_, _, 1)]);
    copy(sz, to[(_, _, 2)]);
}
