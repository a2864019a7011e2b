//! Kernels with arithmetic on tiles outside of closures.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("median", median().def().clone()),
        ("lattice", lattice().def().clone()),
        ("widened", widened().def().clone()),
        ("in_range", in_range().def().clone()),
        ("masked_sums", masked_sums().def().clone()),
    ]
}

/// One step of Lion, which moves by the sign of a momentum. Not among [`all`]: where that is nearly 0, rounding decides.
#[kernel]
pub fn lion(lr: f32, decay: f32, g: &Tensor<f32, N>, m: &mut Tensor<f32, N>, p: &mut Tensor<f32, N>) {
    let (g, m, p) = (tile(g, 1024, block.x), tile(m, 1024, block.x), tile(p, 1024, block.x));
    let u = 0.9 * m + 0.1 * g;
    p -= lr
        * (if u > 0.0 {
            1.0
        } else if u < 0.0 {
            -1.0
        } else {
            0.0
        } + decay * p);
    m = 0.99 * m + 0.01 * g;
}

/// The median of the nine pixels around each, by a network of minima and maxima.
#[kernel(allow(bank_conflicts, uncoalesced))]
pub fn median(x: &Tensor<f32, (W, H)>, y: &mut Tensor<f32, (W, H)>) {
    let s = shared::<f32>((34, 10));
    copy(tile(x, (32, 8), (block.x, block.y), halo = 1), s, clamp = true);
    let near = |i, j| shift(tile(s, (32, 8), (0, 0)), (i, j));
    let sort = |a, b| (min(a, b), max(a, b));
    let three = |a, b, c| {
        let (a, b) = sort(a, b);
        let (b, c) = sort(b, c);
        let (a, b) = sort(a, b);
        (a, b, c)
    };
    let (a, b, c) = three(near(0, 0), near(1, 0), near(2, 0));
    let (d, e, f) = three(near(0, 1), near(1, 1), near(2, 1));
    let (g, h, i) = three(near(0, 2), near(1, 2), near(2, 2));
    let middle = three(b, e, h).1;
    let (_, all, _) = three(max(max(a, d), g), middle, min(min(c, f), i));
    copy(all, tile(y, (32, 8), (block.x, block.y)));
}

/// A step of a lattice Boltzmann method on a torus: nine densities move to their neighbours and relax.
#[kernel(allow(uncoalesced))]
pub fn lattice(omega: f32, f: &Tensor<f32, (W, H, _9)>, g: &mut Tensor<f32, (W, H, _9)>) {
    let out = tile(g, (64, 4, 9), (block.x, block.y, 0));
    let pull = |x, y, q| map(out[(_, _, q)], |_, at| f[((at.0 - x + W) % W, (at.1 - y + H) % H, q)]);
    let (f0, f1, f2, f3, f4) = (pull(0, 0, 0), pull(1, 0, 1), pull(0, 1, 2), pull(-1, 0, 3), pull(0, -1, 4));
    let (f5, f6, f7, f8) = (pull(1, 1, 5), pull(-1, 1, 6), pull(-1, -1, 7), pull(1, -1, 8));
    let rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    let u = (f1 + f5 + f8 - f3 - f6 - f7) / rho;
    let v = (f2 + f5 + f6 - f4 - f7 - f8) / rho;
    let relaxed = |f, w, x, y| {
        let along = 3.0 * (x * u + y * v);
        f + omega * (w * rho * (1.0 + along + 0.5 * along * along - 1.5 * (u * u + v * v)) - f)
    };
    copy(relaxed(f0, 4.0 / 9.0, 0.0, 0.0), out[(_, _, 0)]);
    copy(relaxed(f1, 1.0 / 9.0, 1.0, 0.0), out[(_, _, 1)]);
    copy(relaxed(f2, 1.0 / 9.0, 0.0, 1.0), out[(_, _, 2)]);
    copy(relaxed(f3, 1.0 / 9.0, -1.0, 0.0), out[(_, _, 3)]);
    copy(relaxed(f4, 1.0 / 9.0, 0.0, -1.0), out[(_, _, 4)]);
    copy(relaxed(f5, 1.0 / 36.0, 1.0, 1.0), out[(_, _, 5)]);
    copy(relaxed(f6, 1.0 / 36.0, -1.0, 1.0), out[(_, _, 6)]);
    copy(relaxed(f7, 1.0 / 36.0, -1.0, -1.0), out[(_, _, 7)]);
    copy(relaxed(f8, 1.0 / 36.0, 1.0, -1.0), out[(_, _, 8)]);
}

/// A transposed convolution of stride 2 with windows of 4: even and odd results have two terms each.
#[kernel(allow(uncoalesced))]
pub fn widened(x: &Tensor<f32, (L, C)>, w: &Tensor<f32, (_4, C, O)>, y: &mut Tensor<f32, (_2, L, O)>) {
    let x = tile(x, (128, 1), (block.x, _))[(_, 0, _)];
    let y = tile(y, (2, 128, 1), (0, block.x, block.y));
    let (mut even, mut odd) = (full::<f32>(128, 0.0), full::<f32>(128, 0.0));
    for c in 0..x.size(1) {
        let here = x[(_, c)];
        even += here * w[(1, c, block.y)] + shift(here, -1) * w[(3, c, block.y)];
        odd += here * w[(2, c, block.y)] + shift(here, 1) * w[(0, c, block.y)];
    }
    copy(even, y[(0, _, 0)]);
    copy(odd, y[(1, _, 0)]);
}

/// How many numbers are in a range, and their sum: masks have names, survive changes, and are counted.
#[kernel]
pub fn in_range(
    least: i32,
    most: i32,
    x: &Tensor<i32, N>,
    kept: &mut Tensor<i32, N>,
    totals: &mut Tensor<i32, _2>,
) {
    let mut x = map(tile(x, 1024, block.x), |x| x);
    let inside = (x >= least) & (x < most);
    let outside = !inside;
    x = if outside { 0 } else { x };
    copy(x, tile(kept, 1024, block.x));
    copy(sum(inside as i32), tile(totals, 1, 0), how = "atomic_add");
    copy(sum(x), tile(totals, 1, 1), how = "atomic_add");
}

/// Sums of the positive numbers of each row, and of the others, with numbers of half the width.
#[kernel]
pub fn masked_sums(x: &Tensor<bf16, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, _2), (ldy, _1)>) {
    let pieces = tile(x, (4, 256), (block.x, _));
    let (mut above, mut below) = (full::<f32>((4, 1), 0.0), full::<f32>((4, 1), 0.0));
    for k in 0..pieces.size(2) {
        let x = pieces[(_, _, k)] as f32;
        let positive = x > 0.0;
        above += sum(select(positive, x, 0.0), 1);
        below += sum(if positive { 0.0 } else { -x }, 1);
    }
    copy(above, tile(y, (4, 1), (block.x, 0)));
    copy(-below, tile(y, (4, 1), (block.x, 1)));
}
