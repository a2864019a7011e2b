//! The kernels of `examples/pages`, compared with double precision, on sizes that tiles do not divide.

use std::f64::consts::PI;

use tilewright::kernels::pages::{convolution, fourier, selection, sorting, steps};
use tilewright::prelude::*;
use tilewright_tests::number::Random;

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (random.word() % 2001) as f32 / 1000.0 - 1.0).collect()
}

/// The transform of pairs, by its definition.
fn transformed(x: &[f32], sign: f64) -> Vec<f64> {
    let n = x.len() / 2;
    let one = |k: usize| {
        (0..n).fold([0.0, 0.0], |[re, im], j| {
            let (s, c) = (sign * 2.0 * PI * (j * k % n) as f64 / n as f64).sin_cos();
            let (u, v) = (f64::from(x[2 * j]), f64::from(x[2 * j + 1]));
            [re + u * c - v * s, im + v * c + u * s]
        })
    };
    (0..n).flat_map(one).collect()
}

#[test]
fn fourier_transforms() {
    for (n, rows, inverse) in
        [(32, 33, 0), (64, 3, 1), (256, 3, 0), (512, 9, 1), (1024, 1, 0), (2048, 2, 0), (4096, 1, 1)]
    {
        let x = numbers(2 * n * rows, n as u64);
        let kernel = match inverse {
            0 => fourier::fft_rows(),
            _ => fourier::fft_rows!(INVERSE = 1),
        };
        let args = [Arg::tensor(&x, [2, n, rows]), Arg::output::<f32>([2, n, rows])];
        let done = kernel.simulate(&args).unwrap_or_else(|why| panic!("{n}: {why}"));
        let y = done.get::<f32>("y").unwrap();
        for (x, y) in x.chunks(2 * n).zip(y.chunks(2 * n)) {
            let wanted = transformed(x, if inverse == 1 { 1.0 } else { -1.0 });
            let off: f64 = y.iter().zip(&wanted).map(|(y, wanted)| (f64::from(*y) - wanted).powi(2)).sum();
            let size: f64 = wanted.iter().map(|wanted| wanted * wanted).sum();
            assert!((off / size).sqrt() < 1e-6, "{n}: {}", (off / size).sqrt());
        }
    }
    let args = [Arg::tensor(&[0.0f32; 200], [2, 100, 1]), Arg::output::<f32>([2, 100, 1])];
    let why = fourier::fft_rows().simulate(&args).unwrap_err().to_string();
    assert!(why.contains("`L` is 100, and the kernel is made for at least 256"), "{why}");
}

#[test]
fn sorted_rows() {
    for (n, rows) in [(1024, 1), (700, 3), (300, 2), (256, 5), (128, 7), (33, 4), (1, 2)] {
        let mut x = numbers(n * rows, n as u64);
        if n > 40 {
            x[3..9].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, -f32::NAN]);
        }
        let args = [Arg::tensor(&x, [n, rows]), Arg::output::<f32>([n, rows]), Arg::output::<i32>([n, rows])];
        let done = sorting::sort_rows().simulate(&args).unwrap_or_else(|why| panic!("{n}: {why}"));
        let (y, order) = (done.get::<f32>("y").unwrap(), done.get::<i32>("order").unwrap());
        for (row, x) in x.chunks(n).enumerate() {
            let mut wanted: Vec<usize> = (0..n).collect();
            wanted.sort_by(|a, b| x[*a].total_cmp(&x[*b])); // stable
            for (at, from) in wanted.into_iter().enumerate() {
                let at = row * n + at;
                assert_eq!(
                    (order[at] as usize, y[at].to_bits()),
                    (from, x[from].to_bits()),
                    "{n}, row {row}"
                );
            }
        }
    }
}

/// Random elements, ascending ones, equal ones, few different ones.
fn rows_to_select_from(n: usize, rows: usize, kind: usize) -> Vec<f32> {
    let mut x: Vec<f32> = match kind {
        0 => numbers(n * rows, n as u64),
        1 => (0..n * rows).map(|at| (at % n) as f32).collect(),
        2 => vec![1.0; n * rows],
        _ => numbers(n * rows, 3).into_iter().map(|x| (x * 4.0).trunc()).collect(),
    };
    if n > 40 && kind == 0 {
        x[3..8].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0]);
    }
    x
}

#[test]
fn largest_of_rows() {
    use selection::top_k;
    for (n, rows, kernel, k) in [
        (1000, 3, top_k(), 8),
        (16, 5, top_k(), 8),
        (8, 1, top_k(), 8),
        (5000, 1, top_k!(K = 64), 64),
        (9000, 1, top_k!(K = 200), 200),
        (256, 9, top_k!(K = 2), 2),
    ] {
        for kind in 0..4 {
            let x = rows_to_select_from(n, rows, kind);
            let args =
                [Arg::tensor(&x, [n, rows]), Arg::output::<f32>([k, rows]), Arg::output::<i32>([k, rows])];
            let done = kernel.simulate(&args).unwrap_or_else(|why| panic!("{n}, {kind}: {why}"));
            let (y, order) = (done.get::<f32>("y").unwrap(), done.get::<i32>("order").unwrap());
            for (row, x) in x.chunks(n).enumerate() {
                let mut wanted: Vec<usize> = (0..n).collect();
                wanted.sort_by(|a, b| x[*b].total_cmp(&x[*a])); // stable
                for (at, from) in wanted.into_iter().take(k).enumerate() {
                    let is = (order[row * k + at] as usize, y[row * k + at].to_bits());
                    assert_eq!(is, (from, x[from].to_bits()), "{n}, {kind}, row {row}");
                }
            }
        }
    }
    let args = [Arg::tensor(&[0.0f32; 7], [7, 1]), Arg::output::<f32>([8, 1]), Arg::output::<i32>([8, 1])];
    assert!(top_k().simulate(&args).is_err());
}

#[test]
fn steps_of_heat() {
    for (m, n, kernel, count) in [
        (70, 130, steps::heat_2d(), 8),
        (5, 3, steps::heat_2d(), 8),
        (49, 113, steps::heat_2d!(T = 3, H = 32), 3),
    ] {
        let x = numbers(m * n, 5);
        let rows = |of: Arg| of.strides([n, 1]);
        let (centre, side) = (0.6f32, 0.1f32);
        let args = [
            rows(Arg::tensor(&x, [m, n])),
            rows(Arg::output::<f32>([m, n])),
            Arg::number(centre),
            Arg::number(side),
        ];
        let done = kernel.simulate(&args).unwrap();
        let mut now: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        for _ in 0..count {
            let at = |i: usize, j: usize| if i < m && j < n { now[i * n + j] } else { 0.0 };
            let next = |e: usize| {
                let (i, j) = (e / n, e % n);
                let around =
                    at(i.wrapping_sub(1), j) + at(i + 1, j) + at(i, j.wrapping_sub(1)) + at(i, j + 1);
                f64::from(centre) * at(i, j) + f64::from(side) * around
            };
            now = (0..m * n).map(next).collect();
        }
        let y = done.get::<f32>("y").unwrap();
        assert!(y.iter().zip(&now).all(|(y, wanted)| (f64::from(*y) - wanted).abs() < 1e-6));
    }
}

/// Numbers that products of few terms leave exact.
fn eighths(count: usize, seed: u64) -> Vec<bf16> {
    numbers(count, seed).into_iter().map(|x| bf16::from_f32((x * 8.0).trunc() / 8.0)).collect()
}

/// A convolution: channels, columns, rows, images, channels of the result; the extent of its weights, and the stride.
struct Convolved {
    sizes: [usize; 5],
    r: usize,
    d: usize,
}

impl Convolved {
    /// Extents of the images, the weights and the results.
    fn extents(&self) -> [[usize; 4]; 3] {
        let [c, w, h, b, n] = self.sizes;
        [[c, w, h, b], [c, self.r, self.r, n], [n, w.div_ceil(self.d), h.div_ceil(self.d), b]]
    }

    /// Calls for each product of an element of the images with one of the weights: places of these and of the result.
    fn each(&self, mut product: impl FnMut(usize, usize, usize)) {
        let ([c, w, h, _, n], [.., [_, columns, rows, b]]) = (self.sizes, self.extents());
        let (r, d) = (self.r, self.d);
        for at in 0..n * columns * rows * b {
            let (o, i, j, image) =
                (at % n, at / n % columns, at / n / columns % rows, at / n / columns / rows);
            for (s, t) in (0..r * r).map(|at| (at % r, at / r)) {
                let (u, v) = ((d * i + s).wrapping_sub(r / 2), (d * j + t).wrapping_sub(r / 2));
                for q in (0..c).filter(|_| u < w && v < h) {
                    product(q + c * (u + w * (v + h * image)), q + c * (s + r * (t + r * o)), at);
                }
            }
        }
    }
}

#[track_caller]
fn near(done: &[f64], wanted: &[f64], rounding: f64) {
    assert_eq!(done.len(), wanted.len());
    for (at, (is, wanted)) in done.iter().zip(wanted).enumerate() {
        assert!((is - wanted).abs() <= rounding * wanted.abs().max(1.0), "{at}: {is}, and it is {wanted}");
    }
}

fn doubles(of: &[bf16]) -> Vec<f64> {
    of.iter().map(|x| x.to_f32().into()).collect()
}

fn convolved(of: Convolved, forward: impl Simulate, by_x: impl Simulate, by_w: impl Simulate) {
    let [images, weights, results] = of.extents();
    let all = |extents: [usize; 4], seed| eighths(extents.iter().product(), seed);
    let (x, f, dy) = (all(images, 1), all(weights, 2), all(results, 3));
    let (mut y, mut dx, mut df) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; f.len()]);
    of.each(|at_x, at_f, at_y| {
        let [x, f, dy] = [x[at_x], f[at_f], dy[at_y]].map(|value| f64::from(value.to_f32()));
        y[at_y] += x * f;
        dx[at_x] += dy * f;
        df[at_f] += dy * x;
    });
    let (of_x, of_f, of_y) = (Arg::tensor(&x, images), Arg::tensor(&f, weights), Arg::tensor(&dy, results));
    let done = forward.simulate(&[of_x.clone(), of_f.clone(), Arg::output::<bf16>(results)]).unwrap();
    near(&doubles(&done.get::<bf16>("y").unwrap()), &y, 1.0 / 256.0);
    let done = by_x.simulate(&[of_y.clone(), of_f, Arg::output::<bf16>(images)]).unwrap();
    near(&doubles(&done.get::<bf16>("dx").unwrap()), &dx, 1.0 / 256.0);
    let done = by_w.simulate(&[of_x, of_y, Arg::in_out(&vec![0.0f32; f.len()], weights)]).unwrap();
    let dw: Vec<f64> = done.get::<f32>("dw").unwrap().iter().map(|x| f64::from(*x)).collect();
    near(&dw, &df, 1e-5);
}

#[test]
fn convolutions_and_their_gradients() {
    use self::convolution::{convolution, convolution_by_w, convolution_by_x};
    let of = |sizes, r, d| Convolved { sizes, r, d };
    for sizes in [[72, 9, 7, 3, 40], [8, 3, 5, 1, 8]] {
        convolved(of(sizes, 3, 1), convolution(), convolution_by_x(), convolution_by_w());
    }
    for sizes in [[72, 19, 34, 1, 40], [8, 3, 6, 3, 8], [16, 1, 2, 1, 8]] {
        convolved(of(sizes, 3, 2), convolution!(D = 2), convolution_by_x!(D = 2), convolution_by_w!(D = 2));
    }
    let (by_x, by_w) = (convolution_by_x!(R = 5, D = 3), convolution_by_w!(R = 5, D = 3));
    convolved(of([8, 13, 10, 2, 16], 5, 3), convolution!(R = 5, D = 3), by_x, by_w);
}

#[test]
fn convolutions_of_few_channels() {
    for (sizes, r, d) in [([3, 35, 18, 2, 72], 7, 2), ([3, 5, 4, 1, 8], 7, 2), ([4, 20, 3, 1, 24], 3, 1)] {
        let of = Convolved { sizes, r, d };
        let [images, weights, results] = of.extents();
        let (mut x, f) = (eighths(images.iter().product(), 1), eighths(weights.iter().product(), 2));
        let last = x.len() - 1;
        x[last] = bf16::from_f32(f32::INFINITY); // is multiplied where its weight is
        let mut y = vec![0.0; results.iter().product()];
        of.each(|at_x, at_f, at_y| y[at_y] += f64::from(x[at_x].to_f32()) * f64::from(f[at_f].to_f32()));
        let kernel = match r {
            7 => convolution::convolution_of_few(),
            _ => convolution::convolution_of_few!(C = 4, R = 3, D = 1),
        };
        let of_f = Arg::tensor(&f, [images[0] * r * r, sizes[4]]);
        let done = kernel.simulate(&[Arg::tensor(&x, images), of_f, Arg::output::<bf16>(results)]).unwrap();
        for (at, (is, wanted)) in doubles(&done.get::<bf16>("y").unwrap()).iter().zip(&y).enumerate() {
            let off = (is - wanted).abs() <= wanted.abs().max(1.0) / 256.0;
            assert!(off || !wanted.is_finite() && !is.is_finite(), "{at}: {is}, and it is {wanted}");
        }
    }
}

/// An element of registers that `let` names keeps its value when the tile changes; a slice that is changed by its name is a part
/// of the tile.
#[kernel]
fn exchanged(x: &Tensor<f32, _4>, y: &mut Tensor<f32, _4>) {
    let z = registers::<f32>((2, 2), 0.0);
    copy(parallelize(regroup(tile(x, 4, 0), (2, 2)), layout!((1, 1)), thread.x), z);
    let (a, b) = (z[(0, 0)], z[(1, 0)]);
    z[(0, 0)] = b;
    z[(1, 0)] = a;
    let column = z[(_, 1)];
    column *= 10.0;
    copy(z, parallelize(regroup(tile(y, 4, 0), (2, 2)), layout!((1, 1)), thread.x));
}

#[test]
fn named_elements_keep_their_values() {
    let done =
        exchanged().simulate(&[Arg::tensor(&[1.0f32, 2.0, 3.0, 4.0], [4]), Arg::output::<f32>([4])]).unwrap();
    assert_eq!(done.get::<f32>("y").unwrap(), [2.0, 1.0, 30.0, 40.0]);
}

/// Alternatives that assert other limits of a size.
#[kernel(choose(W in [64, 256, 1024]))]
fn sum_of_row<const W: usize>(x: &Tensor<f32, (N, M)>, y: &mut Tensor<f32, M>) {
    assert(N <= W);
    copy(sum(tile(x, (W, 1), (0, block.x)), 0), regroup(tile(y, 1, block.x), (1, 1)));
}

#[test]
fn alternatives_assert_limits() {
    for n in [1, 64, 65, 256, 1000] {
        let done =
            sum_of_row().simulate(&[Arg::tensor(&vec![1.0f32; 3 * n], [n, 3]), Arg::output::<f32>([3])]);
        assert_eq!(done.unwrap().get::<f32>("y").unwrap(), [n as f32; 3]);
    }
    let args = [Arg::tensor(&[1.0f32; 1025], [1025, 1]), Arg::output::<f32>([1])];
    let why = sum_of_row().simulate(&args).unwrap_err().to_string();
    assert!(why.contains("`N` is 1025, and the kernel is made for at most 1024"), "{why}");
}
