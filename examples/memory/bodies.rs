//! Gravitational forces between all pairs of bodies.

use tilewright::prelude::*;

/// The columns of `bodies` are x, y, z and mass; `others` is its transpose. The columns of `pull` are the
/// components of the acceleration. S groups of L threads divide `others` among them; a thread takes J of them in
/// each iteration.
#[kernel]
pub fn gravity<const J: usize = 4, const L: usize = 32, const S: usize = 8>(
    bodies: &Tensor<f32, (N, _4), (_1, ldb)>,
    others: &Tensor<f32, (_4, N), (ldo, _1)>,
    pull: &mut Tensor<f32, (N, _3), (_1, ldp)>,
    softening: f32,
) {
    let groups = layout!((L, 1, S) : (1, 0, L));
    let own = parallelize(tile(bodies, (L, 1), (block.x, _)), groups, thread.x, (1, 1, _));
    let them = parallelize(tile(others, (1, J * S), (_, _)), groups, thread.x, (_, 1, 1), values = (1, J));
    let (x, y, z) =
        (registers::<f32>((1, 1), 0.0), registers::<f32>((1, 1), 0.0), registers::<f32>((1, 1), 0.0));
    copy(own[(_, _, 0)], x);
    copy(own[(_, _, 1)], y);
    copy(own[(_, _, 2)], z);
    let (ax, ay, az) =
        (registers::<f32>((1, J), 0.0), registers::<f32>((1, J), 0.0), registers::<f32>((1, J), 0.0));
    for k in 0..them.size(3) {
        let (u, v) = (registers::<f32>((1, J), 0.0), registers::<f32>((1, J), 0.0));
        let (w, mass) = (registers::<f32>((1, J), 0.0), registers::<f32>((1, J), 0.0));
        // Bodies out of bounds have mass 0.
        copy(them[(_, _, 0, k)], u, fill = 0.0);
        copy(them[(_, _, 1, k)], v, fill = 0.0);
        copy(them[(_, _, 2, k)], w, fill = 0.0);
        copy(them[(_, _, 3, k)], mass, fill = 0.0);
        let dx = map((u, x), |a, b| a - b);
        let dy = map((v, y), |a, b| a - b);
        let dz = map((w, z), |a, b| a - b);
        let force = map((dx, dy, dz, mass), |x, y, z, mass| {
            let inverse = fast_rsqrt(fma(x, x, fma(y, y, fma(z, z, softening))));
            mass * inverse * (inverse * inverse)
        });
        map((ax, dx, force), ax, |a, d, f| fma(d, f, a));
        map((ay, dy, force), ay, |a, d, f| fma(d, f, a));
        map((az, dz, force), az, |a, d, f| fma(d, f, a));
    }
    // A product with ones is a sum: over the elements of a thread, then over the groups.
    let (ones, shares) = (registers::<f32>((1, J), 1.0), registers::<f32>((1, S), 1.0));
    let (sx, sy, sz) =
        (shared::<f32>(layout!((L, S))), shared::<f32>(layout!((L, S))), shared::<f32>(layout!((L, S))));
    let (threads, first) = (layout!((L, S)), layout!((L * S, 1)));
    let sum_x = registers::<f32>((1, 1), 0.0);
    let sum_y = registers::<f32>((1, 1), 0.0);
    let sum_z = registers::<f32>((1, 1), 0.0);
    gemm(ax, ones, &mut sum_x);
    gemm(ay, ones, &mut sum_y);
    gemm(az, ones, &mut sum_z);
    copy(sum_x, parallelize(sx, threads, thread.x));
    copy(sum_y, parallelize(sy, threads, thread.x));
    copy(sum_z, parallelize(sz, threads, thread.x));
    sync_threads();
    let to = parallelize(tile(pull, (L, 1), (block.x, _)), first, thread.x, ragged = true);
    let (all_x, all_y, all_z) = (registers_like(x, 0.0), registers_like(y, 0.0), registers_like(z, 0.0));
    gemm(parallelize(sx, first, thread.x, ragged = true), shares, &mut all_x);
    gemm(parallelize(sy, first, thread.x, ragged = true), shares, &mut all_y);
    gemm(parallelize(sz, first, thread.x, ragged = true), shares, &mut all_z);
    copy(all_x, to[(_, _, 0)]);
    copy(all_y, to[(_, _, 1)]);
    copy(all_z, to[(_, _, 2)]);
}
