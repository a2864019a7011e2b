//! The kernels of `examples/pages`, compared with double precision, on sizes that tiles do not divide.

use std::f64::consts::PI;

use tilewright::kernels::pages::{convolution, fourier, sorting, steps};
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

/// Channels, columns, rows, images, channels of the result.
fn convolved([c, w, h, b, n]: [usize; 5]) {
    let halves = |count, seed| -> Vec<bf16> {
        numbers(count, seed).into_iter().map(|x| bf16::from_f32((x * 8.0).trunc() / 8.0)).collect()
    };
    let (x, f, dy) = (halves(c * w * h * b, 1), halves(c * 9 * n, 2), halves(n * w * h * b, 3));
    let (mut y, mut dx, mut df) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; f.len()]);
    for (at, y) in y.iter_mut().enumerate() {
        let (o, i, j, image) = (at % n, at / n % w, at / n / w % h, at / n / w / h);
        for (s, r) in (0..9).map(|at| (at % 3, at / 3)) {
            let (u, v) = ((i + s).wrapping_sub(1), (j + r).wrapping_sub(1));
            for q in (0..c).filter(|_| u < w && v < h) {
                let (of_x, of_f) = (q + c * (u + w * (v + h * image)), q + c * (s + 3 * (r + 3 * o)));
                let [x, f, dy] = [x[of_x], f[of_f], dy[at]].map(|value| f64::from(value.to_f32()));
                *y += x * f;
                dx[of_x] += dy * f;
                df[of_f] += dy * x;
            }
        }
    }
    let of_x = |x| Arg::tensor(x, [c, w, h, b]);
    let of_y = |y| Arg::tensor(y, [n, w, h, b]);
    let of_f = || Arg::tensor(&f, [c, 3, 3, n]);
    let near = |is: f64, wanted: f64, rounding: f64| (is - wanted).abs() <= rounding * wanted.abs().max(1.0);
    let check = |name, done: &[bf16], wanted: &[f64]| {
        assert!(
            done.iter().zip(wanted).all(|(is, wanted)| near(is.to_f32().into(), *wanted, 1.0 / 256.0)),
            "{name}"
        );
    };
    let out = Arg::output::<bf16>([n, w, h, b]);
    let done = convolution::convolution().simulate(&[of_x(&x), of_f(), out]).unwrap();
    check("y", &done.get::<bf16>("y").unwrap(), &y);
    let out = Arg::output::<bf16>([c, w, h, b]);
    let done = convolution::convolution_by_x().simulate(&[of_y(&dy), of_f(), out]).unwrap();
    check("dx", &done.get::<bf16>("dx").unwrap(), &dx);
    let out = Arg::in_out(&vec![0.0f32; f.len()], [c, 3, 3, n]);
    let done = convolution::convolution_by_w().simulate(&[of_x(&x), of_y(&dy), out]).unwrap();
    assert!(done.get::<f32>("dw").unwrap().iter().zip(&df).all(|(is, wanted)| near(
        (*is).into(),
        *wanted,
        1e-5
    )));
}

#[test]
fn convolutions_and_their_gradients() {
    convolved([72, 9, 7, 3, 40]);
    convolved([8, 3, 5, 1, 8]);
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
