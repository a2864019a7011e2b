//! Kernels of simulations: waves, spins, small matrices, an iteration.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

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
    inputs(wave().def()).with("next", |x| x).written([
        "X = 3, Y = 2, Z = 1",
        "X = 32, Y = 8, Z = 2",
        "X = 37, Y = 11, Z = 6",
    ]);
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
    inputs(ising().def())
        .set("beta = 0.4, seed = 7")
        .with("s", |x| if x < 0.0 { -1.0 } else { 1.0 })
        .written(["colour = 0, W = 2, H = 2", "colour = 1, W = 64, H = 8", "colour = 0, W = 70, H = 14"]);
}

/// Products of small matrices, one for each thread.
#[kernel]
fn small_products(
    a: &Tensor<f32, (_4, _4, N)>,
    b: &Tensor<f32, (_4, _4, N)>,
    c: &mut Tensor<f32, (_4, _4, N)>,
) {
    let t = layout!((1, 1, 128));
    let own = |x| parallelize(tile(x, (4, 4, 128), (0, 0, block.x)), t, thread.x)[(_, _, 0)];
    let (a, b, c) = (map(own(a), |x| x), map(own(b), |x| x), own(c));
    let mut acc = registers_like(c, 0.0);
    gemm(a, permute(b, (1, 0)), &mut acc);
    copy(acc, c);
}

#[test]
fn small_matrices() {
    inputs(small_products().def()).written(["N = 0", "N = 1", "N = 128", "N = 200"]);
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
    inputs(jacobi().def()).with("f", f64::trunc).with("x", f64::trunc).zero("most").written([
        "W = 1, H = 1",
        "W = 64, H = 8",
        "W = 70, H = 13",
    ]);
}
