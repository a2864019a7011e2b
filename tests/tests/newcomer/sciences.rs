//! Kernels of simulations and of numerical mathematics: systems of equations, lattices, wavelets.

use crate::{below, close, drawn, every, generated, near, right, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Prices of European calls and puts.
#[kernel]
fn black_scholes(
    rate: f64,
    sigma: f64,
    spot: &Tensor<f64, N>,
    strike: &Tensor<f64, N>,
    years: &Tensor<f64, N>,
    call: &mut Tensor<f64, N>,
    put: &mut Tensor<f64, N>,
) {
    let (s, k, t) = (tile(spot, 512, block.x), tile(strike, 512, block.x), tile(years, 512, block.x));
    let normal = |x| 0.5 * (1.0 + erf(x * 0.7071067811865476));
    let d1 = (log(s / k) + (rate + 0.5 * sigma * sigma) * t) / (sigma * sqrt(t));
    let d2 = d1 - sigma * sqrt(t);
    let discounted = k * exp(-rate * t);
    copy(s * normal(d1) - discounted * normal(d2), tile(call, 512, block.x));
    copy(discounted * normal(-d2) - s * normal(-d1), tile(put, 512, block.x));
}

#[test]
fn options_have_prices() {
    let (rate, sigma) = (0.03, 0.2);
    for n in [0, 1, 511, 1300] {
        let of = |seed| drawn(n, seed).into_iter().map(|x| f64::from(x) + 20.0).collect::<Vec<f64>>();
        let (s, k, t) = (of(1), of(2), of(3));
        let args = [
            Arg::number(rate),
            Arg::number(sigma),
            Arg::tensor(&s, [n]),
            Arg::tensor(&k, [n]),
            Arg::tensor(&t, [n]),
            Arg::output::<f64>([n]),
            Arg::output::<f64>([n]),
        ];
        written(black_scholes().def(), &args);
    }
}

/// Trajectories of Lorenz's system, by Runge and Kutta's method.
#[kernel]
fn lorenz(steps: i32, h: f32, x: &mut Tensor<f32, (N, _3)>) {
    let x = tile(x, (256, 3), (block.x, 0));
    let slope = |x, y, z| (10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z);
    let (mut a, mut b, mut c) = (map(x[(_, 0)], |x| x), map(x[(_, 1)], |x| x), map(x[(_, 2)], |x| x));
    for _ in 0..steps {
        let k1 = slope(a, b, c);
        let k2 = slope(a + 0.5 * h * k1.0, b + 0.5 * h * k1.1, c + 0.5 * h * k1.2);
        let k3 = slope(a + 0.5 * h * k2.0, b + 0.5 * h * k2.1, c + 0.5 * h * k2.2);
        let k4 = slope(a + h * k3.0, b + h * k3.1, c + h * k3.2);
        a += h / 6.0 * (k1.0 + 2.0 * k2.0 + 2.0 * k3.0 + k4.0);
        b += h / 6.0 * (k1.1 + 2.0 * k2.1 + 2.0 * k3.1 + k4.1);
        c += h / 6.0 * (k1.2 + 2.0 * k2.2 + 2.0 * k3.2 + k4.2);
    }
    copy(a, x[(_, 0)]);
    copy(b, x[(_, 1)]);
    copy(c, x[(_, 2)]);
}

#[test]
fn trajectories_of_a_strange_attractor() {
    let (h, steps) = (0.01f64, 20);
    for n in [1, 256, 300] {
        let x = drawn(3 * n, 1);
        let args = [Arg::number(steps), Arg::number(h as f32), Arg::in_out(&x, [n, 3])];
        near(lorenz().def(), &args, 1e-3);
    }
}

/// Tridiagonal systems by Thomas's algorithm, one for each thread: forwards, then backwards.
#[kernel]
fn tridiagonal(
    a: &Tensor<f32, (N, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &Tensor<f32, (N, K)>,
    d: &Tensor<f32, (N, K)>,
    upper: &mut Tensor<f32, (N, K)>,
    x: &mut Tensor<f32, (N, K)>,
) {
    let systems = |t| tile(t, (128, 1), (block.x, _))[(_, 0, _)];
    let (a, b, c, d) = (systems(a), systems(b), systems(c), systems(d));
    let (upper, x) = (systems(upper), systems(x));
    let (mut above, mut known) = (full::<f32>(128, 0.0), full::<f32>(128, 0.0));
    for k in 0..K {
        let pivot = 1.0 / (b[(_, k)] - a[(_, k)] * above);
        above = c[(_, k)] * pivot;
        known = (d[(_, k)] - a[(_, k)] * known) * pivot;
        copy(above, upper[(_, k)]);
        copy(known, x[(_, k)]);
    }
    let mut next = full::<f32>(128, 0.0);
    for k in 0..K {
        let row = K - 1 - k;
        next = x[(_, row)] - upper[(_, row)] * next;
        copy(next, x[(_, row)]);
    }
}

#[test]
fn tridiagonal_systems() {
    for (n, k) in [(1, 1), (128, 7), (200, 20)] {
        let diagonal: Vec<f32> = drawn(n * k, 2).into_iter().map(|x| x + 20.0).collect();
        let (a, c, d) = (drawn(n * k, 1), drawn(n * k, 3), drawn(n * k, 4));
        let args = [
            Arg::tensor(&a, [n, k]),
            Arg::tensor(&diagonal, [n, k]),
            Arg::tensor(&c, [n, k]),
            Arg::tensor(&d, [n, k]),
            Arg::output::<f32>([n, k]),
            Arg::in_out(&vec![f32::NAN; n * k], [n, k]),
        ];
        written(tridiagonal().def(), &args);
    }
}

/// A step of reaction and diffusion, after Gray and Scott, on a torus.
#[kernel]
fn gray_scott(
    feed: f32,
    kill: f32,
    u: &Tensor<f32, (W, H)>,
    v: &Tensor<f32, (W, H)>,
    next: &mut Tensor<f32, (W, H, _2)>,
) {
    let (tu, tv) = (tile(u, (64, 8), (block.x, block.y)), tile(v, (64, 8), (block.x, block.y)));
    let (next_u, next_v) = map((tu, tv), |here, other, at| {
        let (east, west) = ((at.0 + 1) % W, (at.0 + W - 1) % W);
        let (north, south) = ((at.1 + 1) % H, (at.1 + H - 1) % H);
        let lap_u = u[(east, at.1)] + u[(west, at.1)] + u[(at.0, north)] + u[(at.0, south)] - 4.0 * here;
        let lap_v = v[(east, at.1)] + v[(west, at.1)] + v[(at.0, north)] + v[(at.0, south)] - 4.0 * other;
        let reaction = here * other * other;
        (
            here + 0.2 * lap_u - reaction + feed * (1.0 - here),
            other + 0.1 * lap_v + reaction - (feed + kill) * other,
        )
    });
    let next = tile(next, (64, 8, 2), (block.x, block.y, 0));
    copy(next_u, next[(_, _, 0)]);
    copy(next_v, next[(_, _, 1)]);
}

#[test]
fn patterns_react_and_diffuse() {
    for (w, h) in [(1, 1), (64, 16), (70, 13)] {
        let (u, v) = (drawn(w * h, 1), drawn(w * h, 2));

        let args = [
            Arg::number(0.04f32),
            Arg::number(0.06f32),
            Arg::tensor(&u, [w, h]),
            Arg::tensor(&v, [w, h]),
            Arg::output::<f32>([w, h, 2]),
        ];
        written(gray_scott().def(), &args);
    }
}

/// A step of a wave in three dimensions, with differences of eighth order: a stencil of 25 points.
#[kernel]
fn wave(
    c: &Tensor<f32, _5>,
    speed: &Tensor<f32, (X, Y, Z)>,
    p: &Tensor<f32, (X, Y, Z)>,
    next: &mut Tensor<f32, (X, Y, Z)>,
) {
    let here = |t| tile(t, (32, 8, 1), (block.x, block.y, block.z));
    let now = here(p);
    let mut around = 3.0 * c[(0)] * now;
    for r in unroll(1..5) {
        let along = |x, y, z| shift(now, (x, y, z)) + shift(now, (-x, -y, -z));
        around += c[(r)] * (along(r, 0, 0) + along(0, r, 0) + along(0, 0, r));
    }
    let next = here(next);
    next = 2.0 * now - next + here(speed) * around;
}

#[test]
fn waves_in_three_dimensions() {
    let c = [-2.847_222f32, 1.6, -0.2, 0.025_396_825, -0.001_785_714_3];
    for [x, y, z] in [[3, 2, 1], [32, 8, 2], [37, 11, 6]] {
        let n = x * y * z;
        let (speed, p, before) = (drawn(n, 1), drawn(n, 2), drawn(n, 3));
        let args = [
            Arg::tensor(&c, [5]),
            Arg::tensor(&speed, [x, y, z]),
            Arg::tensor(&p, [x, y, z]),
            Arg::in_out(&before, [x, y, z]),
        ];
        written(wave().def(), &args);
    }
}

/// A good mixer of 32 bits.
#[device]
fn mixed(x: u32) -> u32 {
    let a = (x ^ (x >> 16)) * 0x7feb352d;
    let b = (a ^ (a >> 15)) * 0x846ca68b;
    b ^ (b >> 16)
}

/// Ising's model: half a sweep, which updates the spins of one colour of a checkerboard.
#[kernel]
fn ising(colour: i32, beta: f32, seed: u32, s: &mut Tensor<i8, (W, H)>) {
    use self::mixed;
    let spins = tile(s, (64, 8), (block.x, block.y));
    scatter(spins, s, |spin, (i, j)| {
        let own = (i + j) % 2 == colour;
        // Spins of the other colour change at this moment: none of those is read for nothing.
        let of = |i, j| s[(if own { i } else { -1 }, j)];
        let near = of((i + 1) % W, j) + of((i + W - 1) % W, j) + of(i, (j + 1) % H) + of(i, (j + H - 1) % H);
        let gain = 2.0 * beta * (spin * near) as f32;
        let chance = (mixed(seed ^ mixed((i + j * W) as u32)) >> 8) as f32 / 16777216.0;
        (if own & (chance < exp(-gain)) { (i, j) } else { (-1, -1) }, -spin)
    });
}

#[test]
fn spins_of_one_colour() {
    for (w, h) in [(2, 2), (64, 8), (70, 14)] {
        let s: Vec<i8> = below(2, w * h, 5).into_iter().map(|x| 2 * x as i8 - 1).collect();
        for colour in [0, 1] {
            let args = [Arg::number(colour), Arg::number(0.4f32), Arg::number(7u32), Arg::in_out(&s, [w, h])];
            written(ising().def(), &args);
        }
    }
}

/// One level of Haar's wavelet: means and details of squares of four pixels.
#[kernel]
fn haar(x: &Tensor<f32, { (2 * P, 2 * Q) }>, y: &mut Tensor<f32, (P, Q, _4)>) {
    let x = regroup(tile(x, (64, 16), (block.x, block.y)), (2, 32, 2, 8));
    let y = tile(y, (32, 8, 4), (block.x, block.y, 0));
    let (a, b, c, d) = (x[(0, _, 0, _)], x[(1, _, 0, _)], x[(0, _, 1, _)], x[(1, _, 1, _)]);
    copy(0.5 * (a + b + c + d), y[(_, _, 0)]);
    copy(0.5 * (a - b + c - d), y[(_, _, 1)]);
    copy(0.5 * (a + b - c - d), y[(_, _, 2)]);
    copy(0.5 * (a - b - c + d), y[(_, _, 3)]);
}

#[test]
fn wavelets() {
    for (p, q) in [(1, 1), (32, 8), (40, 11)] {
        let x = drawn(4 * p * q, 1);

        let args = [Arg::tensor(&x, [2 * p, 2 * q]), Arg::output::<f32>([p, q, 4])];
        written(haar().def(), &args);
    }
}

/// Products of small matrices, one for each thread.
#[kernel]
fn small_products(
    a: &Tensor<f32, (_4, _4, N)>,
    b: &Tensor<f32, (_4, _4, N)>,
    c: &mut Tensor<f32, (_4, _4, N)>,
) {
    let own =
        |x| parallelize(tile(x, (4, 4, 128), (0, 0, block.x)), layout!((1, 1, 128)), thread.x)[(_, _, 0)];
    let (a, b, c) = (map(own(a), |x| x), map(own(b), |x| x), own(c));
    let mut acc = registers_like(c, 0.0);
    gemm(a, permute(b, (1, 0)), &mut acc);
    copy(acc, c);
}

#[test]
fn small_matrices() {
    for n in [0, 1, 128, 200] {
        let (a, b) = (drawn(16 * n, 1), drawn(16 * n, 2));
        let wanted: Vec<f64> = (0..16 * n)
            .map(|at| {
                let (i, j, m) = (at % 4, at / 4 % 4, at / 16 * 16);
                (0..4).map(|k| f64::from(a[m + i + 4 * k]) * f64::from(b[m + k + 4 * j])).sum()
            })
            .collect();
        let args = [Arg::tensor(&a, [4, 4, n]), Arg::tensor(&b, [4, 4, n]), Arg::output::<f32>([4, 4, n])];
        right(generated!(small_products()), &args, "c", &wanted, 1e-5);
    }
}

/// Jacobi's iteration for Poisson's equation, and the largest change.
#[kernel(allow(uncoalesced))]
fn jacobi(
    f: &Tensor<f32, (W, H)>,
    x: &Tensor<f32, (W, H)>,
    y: &mut Tensor<f32, (W, H)>,
    most: &mut Tensor<u32, _1>,
) {
    let here = tile(x, (64, 8), (block.x, block.y));
    let near = shift(here, (1, 0)) + shift(here, (-1, 0)) + shift(here, (0, 1)) + shift(here, (0, -1));
    let new = 0.25 * (near + tile(f, (64, 8), (block.x, block.y)));
    copy(new, tile(y, (64, 8), (block.x, block.y)));
    let inside = |old, new, at| if (at.0 < W) & (at.1 < H) { abs(new - old) } else { 0.0 };
    let change = reduce(map((here, new), inside), 0.0, |a, b| max(a, b), out_of_bounds = 0.0);
    copy(bits::<u32>(change), tile(most, 1, 0), how = "atomic_max");
}

#[test]
fn the_largest_change_of_an_iteration() {
    for (w, h) in [(1, 1), (64, 8), (70, 13)] {
        let (f, x) = (drawn(w * h, 1), drawn(w * h, 2));
        let of = |i: usize, j: usize| if i < w && j < h { f64::from(x[i + j * w]) } else { 0.0 };
        let (mut wanted, mut most) = (vec![], 0.0f64);
        for (i, j) in (0..w * h).map(|at| (at % w, at / w)) {
            let near = of(i + 1, j) + of(i.wrapping_sub(1), j) + of(i, j + 1) + of(i, j.wrapping_sub(1));
            wanted.push(0.25 * (near + f64::from(f[i + j * w])));
            most = most.max((wanted[i + j * w] - of(i, j)).abs());
        }
        let args = [
            Arg::tensor(&f, [w, h]),
            Arg::tensor(&x, [w, h]),
            Arg::output::<f32>([w, h]),
            Arg::in_out(&[0u32], [1]),
        ];
        for out in every(generated!(jacobi()), &args) {
            close(&out.get::<f32>("y").unwrap(), &wanted, 1e-5);
            close(&[f32::from_bits(out.get::<u32>("most").unwrap()[0])], &[most], 1e-5);
        }
    }
}

/// The first of seven products of Strassen's method: (A₁₁ + A₂₂)·(B₁₁ + B₂₂)ᵀ.
#[kernel]
fn strassen(a: &Tensor<f32, (P, _2, K, _2)>, b: &Tensor<f32, (Q, _2, K, _2)>, m: &mut Tensor<f32, (P, Q)>) {
    let (ga, gb) = (tile(a, (32, 1, 8, 1), (block.x, _, _, _)), tile(b, (32, 1, 8, 1), (block.y, _, _, _)));
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in 0..ga.size(5) {
        copy(ga[(_, 0, _, 0, 0, k, 0)] + ga[(_, 0, _, 0, 1, k, 1)], sa);
        copy(gb[(_, 0, _, 0, 0, k, 0)] + gb[(_, 0, _, 0, 1, k, 1)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(m, (32, 32), (block.x, block.y)));
}

#[test]
fn one_of_strassens_products() {
    for (p, q, k) in [(1, 1, 1), (32, 32, 16), (40, 33, 19)] {
        let (a, b) = (drawn(4 * p * k, 1), drawn(4 * q * k, 2));

        let args = [Arg::tensor(&a, [p, 2, k, 2]), Arg::tensor(&b, [q, 2, k, 2]), Arg::output::<f32>([p, q])];
        written(strassen().def(), &args);
    }
}
