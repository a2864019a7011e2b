//! Functions of elements.

use crate::{drawn, generated, near, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// y = alpha x + y.
#[kernel]
fn axpy(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (x, y) = (tile(x, 1024, block.x), tile(y, 1024, block.x));
    copy(map((x, y), |x, y| alpha * x + y), y);
}

#[test]
fn axpy_of_any_length() {
    for n in [1, 1024, 1500, 4099] {
        let (x, y) = (drawn(n, 1), drawn(n, 2));

        let args = [Arg::number(1.5f32), Arg::tensor(&x, [n]), Arg::in_out(&y, [n])];
        written(axpy().def(), &args);
    }
}

/// The product of complex numbers, element by element; real parts first.
#[kernel(allow(uncoalesced))]
fn complex_product(a: &Tensor<f32, (_2, N)>, b: &Tensor<f32, (_2, N)>, c: &mut Tensor<f32, (_2, N)>) {
    let a = tile(a, (2, 512), (0, block.x));
    let b = tile(b, (2, 512), (0, block.x));
    let c = tile(c, (2, 512), (0, block.x));
    let (re, im) = map((a[(0, _)], a[(1, _)], b[(0, _)], b[(1, _)]), |ar, ai, br, bi| {
        (ar * br - ai * bi, ar * bi + ai * br)
    });
    copy(re, c[(0, _)]);
    copy(im, c[(1, _)]);
}

#[test]
fn complex_numbers_are_multiplied() {
    for n in [3, 512, 777] {
        let (a, b) = (drawn(2 * n, 3), drawn(2 * n, 4));

        let args = [Arg::tensor(&a, [2, n]), Arg::tensor(&b, [2, n]), Arg::output::<f32>([2, n])];
        written(complex_product().def(), &args);
    }
}

/// Rotary embedding: pairs of neighbours are rotated by an angle that grows with the position.
#[kernel]
fn rope<const D: usize = 64>(x: &Tensor<f32, (D, T)>, y: &mut Tensor<f32, (D, T)>) {
    let pairs = regroup(tile(x, (D, 8), (0, block.x)), (2, D / 2, 8));
    let out = regroup(tile(y, (D, 8), (0, block.x)), (2, D / 2, 8));
    let angle = map(pairs[(0, _, _)], |_, at| at.1 as f32 * exp2(-0.2 * (at.0 as f32)));
    copy(map((pairs[(0, _, _)], pairs[(1, _, _)], angle), |a, b, t| a * cos(t) - b * sin(t)), out[(0, _, _)]);
    copy(map((pairs[(0, _, _)], pairs[(1, _, _)], angle), |a, b, t| a * sin(t) + b * cos(t)), out[(1, _, _)]);
}

#[test]
fn positions_rotate() {
    for t in [1, 8, 13] {
        let x = drawn(64 * t, 5);
        let mut wanted = vec![];
        for at in 0..t {
            for pair in 0..32 {
                let [a, b] = [0, 1].map(|i| f64::from(x[at * 64 + 2 * pair + i]));
                let angle = f64::from(at as f32 * (-0.2f32 * (2 * pair) as f32).exp2());
                wanted.extend([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]);
            }
        }
        let args = [Arg::tensor(&x, [64, t]), Arg::output::<f32>([64, t])];
        right(generated!(rope()), &args, "y", &wanted, 1e-4);
    }
}

/// One step of Adam.
#[kernel]
fn adam(
    rate: f32,
    grad: &Tensor<f32, N>,
    mean: &mut Tensor<f32, N>,
    var: &mut Tensor<f32, N>,
    w: &mut Tensor<f32, N>,
) {
    let (b1, b2, eps) = (0.9, 0.999, 1.0e-8);
    let (grad, w) = (tile(grad, 512, block.x), tile(w, 512, block.x));
    let (mean, var) = (tile(mean, 512, block.x), tile(var, 512, block.x));
    let (m, v) = map((grad, mean, var), |g, m, v| (b1 * m + (1.0 - b1) * g, b2 * v + (1.0 - b2) * g * g));
    copy(map((w, m, v), |w, m, v| w - rate * m / (sqrt(v) + eps)), w);
    copy(m, mean);
    copy(v, var);
}

#[test]
fn adam_steps() {
    let n = 1300;
    let (g, m, w) = (drawn(n, 6), drawn(n, 7), drawn(n, 8));
    let v: Vec<f32> = drawn(n, 9).iter().map(|v| v * v).collect();
    let all = |x: &[f32]| Arg::in_out(x, [n]);
    let args = [Arg::number(0.01f32), Arg::tensor(&g, [n]), all(&m), all(&v), all(&w)];
    near(adam().def(), &args, 1e-5);
}

/// Noise from a counter: a hash of each element's index, as a dropout mask.
#[kernel]
fn dropout(seed: u32, keep: f32, x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let x = tile(x, (8, 128), (block.x, block.y));
    let noise = |i, j| {
        let a = (i as u32 * 2654435761) ^ (j as u32 * 2246822519) ^ seed;
        let b = (a ^ (a / 32768)) * 739982445;
        ((b ^ (b / 4096)) / 256) as f32 / 16777216.0
    };
    copy(
        map(x, |x, at| if noise(at.0, at.1) < keep { x / keep } else { 0.0 }),
        tile(y, (8, 128), (block.x, block.y)),
    );
}

#[test]
fn dropout_keeps_some() {
    let (m, n) = (21, 150);
    let x = drawn(m * n, 10);

    let args = [Arg::number(42u32), Arg::number(0.75f32), rows(&x, m, n), rows_out(m, n)];
    written(dropout().def(), &args);
}

/// The number of iterations until a point of the Mandelbrot set's plane escapes.
#[kernel]
fn mandelbrot(step: f32, out: &mut Tensor<i32, (W, H)>) {
    let out = tile(out, (32, 8), (block.x, block.y));
    let cx = map(out, |_, at| at.0 as f32 * step - 2.0);
    let cy = map(out, |_, at| at.1 as f32 * step - 1.0);
    let mut x = full::<f32>((32, 8), 0.0);
    let mut y = full::<f32>((32, 8), 0.0);
    let mut count = full::<i32>((32, 8), 0);
    for _ in 0..30 {
        let (nx, ny) = map((x, y, cx, cy), |x, y, cx, cy| (x * x - y * y + cx, 2.0 * x * y + cy));
        (x, y) = map((nx, ny, x, y), |nx, ny, x, y| if x * x + y * y <= 4.0 { (nx, ny) } else { (x, y) });
        count = map((count, x, y), |n, x, y| n + (x * x + y * y <= 4.0) as i32);
    }
    copy(count, out);
}

#[test]
fn the_mandelbrot_set() {
    let (w, h) = (47, 29);
    for outcome in
        crate::every(generated!(mandelbrot()), &[Arg::number(0.0625f32), Arg::output::<i32>([w, h])])
    {
        let got = outcome.get::<i32>("out").unwrap();
        assert_eq!(got[32 + 16 * w], 30); // the origin stays
        assert_eq!(got[0], 0); // -2 - i escapes
    }
}

/// Constants that name their types have these where no other number is beside them: the largest with its index, and the second.
#[kernel]
fn two_best(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, _2)>,
    index: &mut Tensor<i32, (M, _2)>,
) {
    at_most(N, 64);
    let better = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let merge = |(a, i, b, j), (c, k, d, l)| {
        let best = better((a, i), (c, k));
        let rest = if best.1 == i { better((b, j), (c, k)) } else { better((a, i), (d, l)) };
        (best.0, best.1, rest.0, rest.1)
    };
    let own = map(tile(x, (8, 64), (block.x, 0)), |x, at| (x, at.1, f32::NEG_INFINITY, i32::MAX));
    let identity = (f32::NEG_INFINITY, i32::MAX, f32::NEG_INFINITY, i32::MAX);
    let (a, i, b, j) = reduce(own, identity, merge, mode = 1);
    let (y, index) = (tile(y, (8, 1), (block.x, _)), tile(index, (8, 1), (block.x, _)));
    copy(a, y[(_, _, 0)]);
    copy(b, y[(_, _, 1)]);
    copy(i, index[(_, _, 0)]);
    copy(j, index[(_, _, 1)]);
}

/// Limits of types, in closures over another type.
#[kernel]
fn limits(
    x: &Tensor<f32, N>,
    large: &mut Tensor<i32, N>,
    small: &mut Tensor<i32, N>,
    far: &mut Tensor<f32, N>,
) {
    let x = tile(x, 256, block.x);
    let (all, chosen, most) = map(x, |x| {
        let most = -i32::MAX;
        (i32::MAX - 1, if x > 0.0 { most } else { i32::MIN }, u32::MAX as f32)
    });
    copy(all, tile(large, 256, block.x));
    copy(chosen, tile(small, 256, block.x));
    copy(most, tile(far, 256, block.x));
}

#[test]
fn constants_have_the_types_that_they_name() {
    let (m, n) = (11, 60);
    let x = drawn(m * n, 8);
    let mut order: Vec<Vec<usize>> = Vec::new();
    for row in x.chunks(n) {
        let mut all: Vec<usize> = (0..n).collect();
        all.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        order.push(all);
    }
    let pairs = || (0..2).flat_map(|k| (0..m).map(move |i| (i, k)));
    let wanted: Vec<f64> = pairs().map(|(i, k)| f64::from(x[i * n + order[i][k]])).collect();
    let places: Vec<i32> = pairs().map(|(i, k)| order[i][k] as i32).collect();
    let args = [rows(&x, m, n), Arg::output::<f32>([m, 2]), Arg::output::<i32>([m, 2])];
    for outcome in crate::every(generated!(two_best()), &args) {
        crate::close(&outcome.get::<f32>("y").unwrap(), &wanted, 0.0);
        assert_eq!(outcome.get::<i32>("index").unwrap(), places);
    }
    let results = [Arg::output::<i32>([2]), Arg::output::<i32>([2]), Arg::output::<f32>([2])];
    let args = [vec![Arg::tensor(&[1.0f32, -1.0], [2])], results.to_vec()].concat();
    for outcome in crate::every(generated!(limits()), &args) {
        assert_eq!(outcome.get::<i32>("large").unwrap(), [i32::MAX - 1; 2]);
        assert_eq!(outcome.get::<i32>("small").unwrap(), [-i32::MAX, i32::MIN]);
        assert_eq!(outcome.get::<f32>("far").unwrap(), [u32::MAX as f32; 2]);
    }
}

/// Minors of rows of 2x2 matrices, where a tile that is loaded whole is combined with a tile whose elements are set one by one.
#[kernel]
fn adjugates(x: &Tensor<f32, (_4, N)>, y: &mut Tensor<f32, (_4, N)>) {
    let x = map(tile(x, (4, 256), (0, block.x)), |x| x);
    let mut turned = full::<f32>((4, 256), 0.0);
    turned += x;
    turned[(0, _)] = x[(3, _)];
    turned[(3, _)] = x[(0, _)];
    turned[(1, _)] *= -1.0;
    turned[(2, _)] *= -1.0;
    copy(turned + 0.5 * x, tile(y, (4, 256), (0, block.x)));
}

#[test]
fn elements_of_a_tile_that_is_combined_with_another() {
    for n in [1, 256, 300] {
        let x = drawn(4 * n, 1);

        let args = [Arg::tensor(&x, [4, n]), Arg::output::<f32>([4, n])];
        written(adjugates().def(), &args);
    }
}

/// Each element less the mean of its week. The threads divide neither a week nor the number of weeks.
#[kernel(allow(uncoalesced))]
fn weekly<const D: usize = 7, const W: usize = 30>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = map(regroup(tile(x, D * W, block.x), (D, W)), |x| x);
    copy(x - sum(x, 0) / D as f32, regroup(tile(y, D * W, block.x), (D, W)));
}

#[test]
fn tiles_with_another_shape_whose_extents_threads_do_not_divide() {
    for (kernel, days) in
        [(weekly(), 7), (weekly!(W = 300), 7), (weekly!(D = 3, W = 5), 3), (weekly!(D = 33, W = 31), 33)]
    {
        for weeks in [1, 40] {
            let x = drawn(weeks * days, 1);
            let args = [Arg::tensor(&x, [x.len()]), Arg::output::<f32>([x.len()])];
            written(kernel.def(), &args);
        }
    }
}
