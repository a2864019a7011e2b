//! The kernels of `examples/pages`, compared with double precision, on sizes that tiles do not divide.

use std::f64::consts::PI;

use tilewright::kernels::memory::stencils;
use tilewright::kernels::pages::{
    convolution, convolution_by_w, convolution_of_few, fourier, fourier_columns, fourier_real, heat, life,
    selection, selection_long, selection_short, sorting, steps,
};
use tilewright::prelude::*;
use tilewright_tests::number::Random;
use tilewright_tests::sweep;

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (random.word() % 2001) as f32 / 1000.0 - 1.0).collect()
}

/// The transform of pairs: of a long row from the transforms of its even and its odd numbers, of a short row by the definition.
fn transformed(x: &[f64], sign: f64) -> Vec<f64> {
    let n = x.len() / 2;
    let root = |at: usize| (sign * 2.0 * PI * (at % n) as f64 / n as f64).sin_cos();
    if n > 32 {
        let part =
            |from: usize| -> Vec<f64> { x[from..].chunks(4).flat_map(|x| [x[0], x[1]]).collect::<Vec<_>>() };
        let (even, odd) = (transformed(&part(0), sign), transformed(&part(2), sign));
        let one = |k: usize| {
            let ((s, c), at) = (root(k), 2 * (k % (n / 2)));
            [even[at] + odd[at] * c - odd[at + 1] * s, even[at + 1] + odd[at + 1] * c + odd[at] * s]
        };
        return (0..n).flat_map(one).collect();
    }
    let one = |k: usize| {
        x.chunks(2).enumerate().fold([0.0, 0.0], |[re, im], (j, x)| {
            let (s, c) = root(j * k);
            [re + x[0] * c - x[1] * s, im + x[1] * c + x[0] * s]
        })
    };
    (0..n).flat_map(one).collect()
}

/// The error of a transform, relative to its size: root of mean squares.
#[track_caller]
fn nearly(done: &[f64], wanted: &[f64], within: f64, of: &str) {
    assert_eq!(done.len(), wanted.len(), "{of}");
    let off: f64 = done.iter().zip(wanted).map(|(y, wanted)| (y - wanted).powi(2)).sum();
    let size: f64 = wanted.iter().map(|wanted| wanted * wanted).sum();
    assert!((off / size).sqrt() < within, "{of}: {}", (off / size).sqrt());
}

fn wide(of: &[f32]) -> Vec<f64> {
    of.iter().map(|x| f64::from(*x)).collect()
}

#[test]
fn fourier_transforms() {
    for (n, p, rows, inverse) in [
        (32, 16, 33, 0),
        (64, 16, 3, 1),
        (256, 16, 3, 0),
        (512, 16, 9, 1),
        (1024, 16, 1, 0),
        (2048, 16, 2, 0),
        (4096, 16, 1, 1),
        (8192, 32, 1, 0),
        (16384, 32, 1, 1),
    ] {
        let x = numbers(2 * n * rows, n as u64);
        let kernel = fourier::fft_rows().specialize(&[("N", n), ("P", p), ("INVERSE", inverse)]).unwrap();
        let args = [Arg::tensor(&x, [2, n, rows]), Arg::output::<f32>([2, n, rows])];
        let done = kernel.simulate(&args).unwrap_or_else(|why| panic!("{n}: {why}"));
        let (x, y) = (wide(&x), wide(&done.get::<f32>("y").unwrap()));
        for (x, y) in x.chunks(2 * n).zip(y.chunks(2 * n)) {
            nearly(y, &transformed(x, if inverse == 1 { 1.0 } else { -1.0 }), 1e-6, &n.to_string());
        }
    }
    let args = [Arg::tensor(&[1.0f32; 512], [2, 256, 1]), Arg::output::<f32>([2, 256, 1])];
    assert_eq!(
        fourier::fft_rows().simulate(&args).unwrap().get::<f32>("y").unwrap()[..3],
        [256.0, 256.0, 0.0]
    );
    let args = [Arg::tensor(&[0.0f32; 200], [2, 100, 1]), Arg::output::<f32>([2, 100, 1])];
    let why = fourier::fft_rows().simulate(&args).unwrap_err().to_string();
    assert!(why.contains("`L` is 100, and the kernel is made for at least 256"), "{why}");
}

#[test]
fn fourier_transforms_of_columns() {
    for (n, p, w, columns, images, inverse) in [
        (32, 16, 128, 130, 1, 0),
        (128, 16, 32, 33, 1, 0),
        (256, 16, 16, 17, 2, 0),
        (512, 32, 16, 1, 1, 1),
        (1024, 32, 8, 9, 1, 0),
        (4096, 32, 4, 5, 1, 0),
    ] {
        let (ld, x) = (columns + 1, numbers(2 * (columns + 1) * n * images, n as u64));
        let shape = |of: Arg| of.strides([1, 2, 2 * ld, 2 * ld * n]);
        let y = shape(Arg::output::<f32>([2, columns, n, images]));
        let constants = [("N", n), ("P", p), ("W", w), ("INVERSE", inverse)];
        let kernel = fourier_columns::fft_columns().specialize(&constants).unwrap();
        let done = kernel
            .simulate(&[shape(Arg::tensor(&x, [2, columns, n, images])), y])
            .unwrap_or_else(|why| panic!("{n}: {why}"));
        let (x, y) = (wide(&x), wide(&done.get::<f32>("y").unwrap()));
        for (column, image) in (0..columns * images).map(|at| (at % columns, at / columns)) {
            let pair = |of: &[f64], i| [0, 1].map(|part| of[part + 2 * (column + ld * (i + n * image))]);
            let pairs = |of: &[f64]| -> Vec<f64> { (0..n).flat_map(|i| pair(of, i)).collect() };
            let wanted = transformed(&pairs(&x), if inverse == 1 { 1.0 } else { -1.0 });
            nearly(&pairs(&y), &wanted, 1e-6, &format!("{n}, column {column}"));
        }
    }
}

#[test]
fn fourier_transforms_of_real_rows() {
    for (n, p, rows) in [(64, 16, 17), (512, 16, 3), (1024, 16, 5), (4096, 16, 2), (16384, 32, 1)] {
        let x = numbers(n * rows, n as u64);
        let there = fourier_real::rfft_rows().specialize(&[("N", n / 2), ("P", p)]).unwrap();
        let back = fourier_real::irfft_rows().specialize(&[("N", n / 2), ("P", p)]).unwrap();
        let args = [Arg::tensor(&x, [n, rows]), Arg::output::<f32>([2, n / 2 + 1, rows])];
        let done = there.simulate(&args).unwrap_or_else(|why| panic!("{n}: {why}"));
        let mut y = done.get::<f32>("y").unwrap();
        for (x, y) in x.chunks(n).zip(y.chunks(n + 2)) {
            let pairs: Vec<f64> = x.iter().flat_map(|x| [f64::from(*x), 0.0]).collect();
            nearly(&wide(y), &transformed(&pairs, -1.0)[..n + 2], 1e-6, &n.to_string());
        }
        for row in y.chunks_mut(n + 2) {
            (row[1], row[n + 1]) = (9.0, f32::NAN); // count as 0
        }
        let args = [Arg::tensor(&y, [2, n / 2 + 1, rows]), Arg::output::<f32>([n, rows])];
        let done = back.simulate(&args).unwrap_or_else(|why| panic!("{n}: {why}"));
        let wanted: Vec<f64> = x.iter().map(|x| f64::from(*x) * n as f64).collect();
        nearly(&wide(&done.get::<f32>("y").unwrap()), &wanted, 1e-6, &n.to_string());
    }
    let args = [Arg::tensor(&[0.0f32; 65], [65, 1]), Arg::output::<f32>([2, 33, 1])];
    let why = fourier_real::rfft_rows().simulate(&args).unwrap_err().to_string();
    assert!(why.contains("`L` is 65, and the kernel is made for at least 512"), "{why}");
}

#[test]
fn fourier_transforms_of_doubles() {
    let (n, rows) = (512, 3);
    let x = wide(&numbers(2 * n * rows, 7));
    let args = [Arg::tensor(&x, [2, n, rows]), Arg::output::<f64>([2, n, rows])];
    let done = fourier::fft_rows!(T = f64, N = 512, P = 16).simulate(&args).unwrap();
    for (x, y) in x.chunks(2 * n).zip(done.get::<f64>("y").unwrap().chunks(2 * n)) {
        nearly(y, &transformed(x, -1.0), 1e-14, "rows");
    }
    let args = [Arg::tensor(&x[..2 * n], [2, 1, n, 1]), Arg::output::<f64>([2, 1, n, 1])];
    let done = fourier_columns::fft_columns!(T = f64, N = 512, P = 32, W = 16).simulate(&args).unwrap();
    nearly(&done.get::<f64>("y").unwrap(), &transformed(&x[..2 * n], -1.0), 1e-14, "a column");
    let args = [Arg::tensor(&x, [2 * n, rows]), Arg::output::<f64>([2, n + 1, rows])];
    let y =
        fourier_real::rfft_rows!(T = f64, N = 512, P = 16).simulate(&args).unwrap().get::<f64>("y").unwrap();
    for (x, y) in x.chunks(2 * n).zip(y.chunks(2 * n + 2)) {
        let pairs: Vec<f64> = x.iter().flat_map(|x| [*x, 0.0]).collect();
        nearly(y, &transformed(&pairs, -1.0)[..2 * n + 2], 1e-14, "real rows");
    }
    let args = [Arg::tensor(&y, [2, n + 1, rows]), Arg::output::<f64>([2 * n, rows])];
    let done = fourier_real::irfft_rows!(T = f64, N = 512, P = 16).simulate(&args).unwrap();
    let wanted: Vec<f64> = x.iter().map(|x| x * 2.0 * n as f64).collect();
    nearly(&done.get::<f64>("y").unwrap(), &wanted, 1e-14, "real rows, back");
}

/// Checks that rows of n elements are sorted.
#[track_caller]
fn in_order(x: &[f32], n: usize) {
    let rows = x.len() / n;
    let args = [Arg::tensor(x, [n, rows]), Arg::output::<f32>([n, rows]), Arg::output::<i32>([n, rows])];
    let done = sorting::sort_rows().simulate(&args).unwrap_or_else(|why| panic!("{n}: {why}"));
    let (y, order) = (done.get::<f32>("y").unwrap(), done.get::<i32>("order").unwrap());
    for (row, x) in x.chunks(n).enumerate() {
        let mut wanted: Vec<usize> = (0..n).collect();
        // The total order, but NaN with a sign is not first.
        let key = |at: &usize| (x[*at].is_nan(), x[*at].is_sign_negative() && x[*at].is_nan());
        wanted.sort_by(|a, b| key(a).cmp(&key(b)).then(x[*a].total_cmp(&x[*b]))); // stable
        for (at, from) in wanted.into_iter().enumerate() {
            let at = row * n + at;
            assert_eq!((order[at] as usize, y[at].to_bits()), (from, x[from].to_bits()), "{n}, row {row}");
        }
    }
}

#[test]
fn sorted_rows() {
    // Random numbers, equal ones, and numbers that differ in their last bits only, beside infinities.
    let kinds: [fn(f32) -> f32; 3] =
        [|x| x, |x| (3.0 * x).trunc(), |x| f32::from_bits(1.0f32.to_bits() + (x.abs() * 500.0) as u32)];
    let sizes = [(1024, 1), (700, 3), (300, 2), (256, 5), (128, 7), (33, 4), (1, 2)];
    for ((n, rows), kind) in sizes.into_iter().flat_map(|size| kinds.map(|kind| (size, kind))) {
        let mut x: Vec<f32> = numbers(n * rows, n as u64).into_iter().map(kind).collect();
        if n > 40 {
            x[3..9].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, -f32::NAN]);
        }
        in_order(&x, n);
    }
}

/// NaN of both signs are last.
#[test]
fn rows_of_any_bits_are_sorted() {
    let mut random = Random::new(11);
    for (n, rows) in [(1024, 2), (700, 3), (128, 5), (50, 9)] {
        let any: Vec<f32> = (0..n * rows).map(|_| f32::from_bits(random.word())).collect();
        in_order(&any, n);
        let hostile = [f32::NAN, -f32::NAN, f32::from_bits(0xff80_0001), f32::from_bits(u32::MAX), 0.0, -0.0];
        let few =
            [f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(i32::MAX as u32), f32::MIN, f32::MAX, 1e-45];
        let all = [hostile, few].concat();
        let some: Vec<f32> = (0..n * rows).map(|_| all[random.word() as usize % all.len()]).collect();
        in_order(&some, n);
    }
}

/// In the order of their lower bits, every second pair of neighbours is in order, but the row is not.
#[test]
fn rows_whose_lower_bits_are_in_order() {
    let key = |at: u32| match at {
        1023 => 0x9000_03ff,
        at if at > 1 && at % 2 == 0 => 0x1000_0400 | at,
        at => 0x1000_0000 | at,
    };
    let number = |key: u32| f32::from_bits(if key >> 31 == 1 { key ^ (1 << 31) } else { !key });
    in_order(&(0..1024).rev().map(|at| number(key(at))).collect::<Vec<_>>(), 1024);
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
        x[3..9].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, -f32::NAN]);
    }
    x
}

#[test]
fn largest_of_rows() {
    use selection::top_k;
    use selection_long::top_k_of_long;
    use selection_short::top_k_of_short;
    let cases = [
        (3000, 2, top_k_of_long!(K = 100).def().clone(), 100),
        (20001, 1, top_k_of_long().def().clone(), 512),
        (512, 1, top_k_of_long().def().clone(), 512),
        (1000, 3, top_k().def().clone(), 8),
        (16, 5, top_k().def().clone(), 8),
        (8, 1, top_k().def().clone(), 8),
        (5000, 1, top_k!(K = 64).def().clone(), 64),
        (9000, 1, top_k!(K = 200).def().clone(), 200),
        (256, 9, top_k!(K = 2).def().clone(), 2),
        (20000, 1, top_k!(K = 64).def().clone(), 64),
        (70001, 1, top_k_of_long!(T = 256, C = 4, B = 4).def().clone(), 512),
        (256, 9, top_k_of_short().def().clone(), 2),
        (101, 17, top_k_of_short!(K = 7).def().clone(), 7),
    ];
    let cases = cases.into_iter().flat_map(|case| (0..4).map(move |kind| (case.clone(), kind)));
    for ((n, rows, kernel, k), kind) in sweep::share(cases, 3) {
        let x = rows_to_select_from(n, rows, kind);
        let args = [Arg::tensor(&x, [n, rows]), Arg::output::<f32>([k, rows]), Arg::output::<i32>([k, rows])];
        let done = kernel.simulate(&args).unwrap_or_else(|why| panic!("{n}, {kind}: {why}"));
        let (y, order) = (done.get::<f32>("y").unwrap(), done.get::<i32>("order").unwrap());
        for (row, x) in x.chunks(n).enumerate() {
            let mut wanted: Vec<usize> = (0..n).collect();
            // The total order, but NaN with a sign is not last. Equal elements keep their order.
            let is_signed_nan = |x: f32| x.is_nan() && x.is_sign_negative();
            let order_of = |a: f32, b: f32| is_signed_nan(a).cmp(&is_signed_nan(b)).then(a.total_cmp(&b));
            wanted.sort_by(|a, b| order_of(x[*b], x[*a]));
            for (at, from) in wanted.into_iter().take(k).enumerate() {
                let is = (order[row * k + at] as usize, y[row * k + at].to_bits());
                assert_eq!(is, (from, x[from].to_bits()), "{n}, {kind}, row {row}");
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

/// The sum of an element's neighbours along the modes: those in bounds.
fn around(of: &[f64], extents: [usize; 3], at: usize) -> f64 {
    let [_, m, n] = extents;
    let own = [at / (m * n), at / n % m, at % n];
    let mut total = 0.0;
    for mode in 0..3 {
        for next in [own[mode].wrapping_sub(1), own[mode] + 1] {
            let mut near = own;
            near[mode] = next;
            if next < extents[mode] {
                total += of[(near[0] * m + near[1]) * n + near[2]];
            }
        }
    }
    total
}

#[test]
fn steps_of_heat_in_three_dimensions() {
    let (centre, side) = (0.4f32, 0.1f32);
    let pinned = |h, z| heat::heat_3d().specialize(&[("H", h), ("Z", z)]).unwrap();
    for (extents, kernel) in [
        ([21, 30, 130], pinned(32, 8)),
        ([5, 61, 66], pinned(32, 8)),
        ([1, 2, 3], pinned(48, 16)),
        ([9, 50, 57], heat::heat_3d()),
    ] {
        let [l, m, n] = extents;
        let x = numbers(l * m * n, 5);
        let of = |of: Arg| of.strides([m * n, n, 1]);
        let (from, to) = (of(Arg::tensor(&x, extents)), of(Arg::output::<f32>(extents)));
        let args = [from, to, Arg::number(centre), Arg::number(side)];
        let mut now = wide(&x);
        for step in 1..5 {
            let next = |at: usize| f64::from(centre) * now[at] + f64::from(side) * around(&now, extents, at);
            now = (0..l * m * n).map(next).collect();
            let done = match step {
                1 => heat::heat_3d_step().simulate(&args).unwrap(),
                4 => kernel.simulate(&args).unwrap(),
                _ => continue,
            };
            for (at, (y, wanted)) in done.get::<f32>("y").unwrap().iter().zip(&now).enumerate() {
                assert!((f64::from(*y) - wanted).abs() < 1e-6, "{extents:?}, {step}, {at}: {y}, {wanted}");
            }
        }
    }
}

/// Blocks write whole parts of threads: other numbers of steps are refused, and those that divide are right.
#[test]
fn steps_of_heat_that_the_parts_of_threads_do_not_divide_are_refused() {
    let extents @ [l, m, n] = [5, 61, 66];
    let x = numbers(l * m * n, 5);
    let of = |of: Arg| of.strides([m * n, n, 1]);
    for (t, r, h) in [(1, 4, 32), (2, 4, 32), (3, 4, 32), (3, 3, 48), (2, 2, 32), (4, 2, 32), (8, 4, 32)] {
        let constants = [("T", t), ("R", r), ("H", h), ("Z", 8)];
        let args = [
            of(Arg::tensor(&x, extents)),
            of(Arg::output::<f32>(extents)),
            Arg::number(0.4f32),
            Arg::number(0.1f32),
        ];
        let done = match heat::heat_3d().specialize(&constants) {
            Ok(kernel) => kernel.simulate(&args).map_err(|why| why.to_string()),
            Err(why) => Err(why.to_string()),
        };
        if t % r != 0 || t % 2 != 0 {
            let why = done.map(|_| ()).expect_err(&format!("T = {t}, R = {r}"));
            assert!(
                why.contains("this is false for the constants of this kernel"),
                "T = {t}, R = {r}: {why}"
            );
            continue;
        }
        let mut now = wide(&x);
        for _ in 0..t {
            let next =
                |at: usize| f64::from(0.4f32) * now[at] + f64::from(0.1f32) * around(&now, extents, at);
            now = (0..l * m * n).map(next).collect();
        }
        let y = done.unwrap_or_else(|why| panic!("T = {t}, R = {r}: {why}")).get::<f32>("y").unwrap();
        for (at, (y, wanted)) in y.iter().zip(&now).enumerate() {
            assert!((f64::from(*y) - wanted).abs() < 1e-6, "T = {t}, R = {r}, {at}: {y}, {wanted}");
        }
    }
}

/// A grid with more blocks along y than hardware has.
#[test]
fn long_grids_are_folded() {
    let extents @ [m, n] = [65_600, 3];
    let x = numbers(m * n, 9);
    let args = [
        Arg::tensor(&x, extents).strides([n, 1]),
        Arg::output::<f32>(extents).strides([n, 1]),
        Arg::number(0.5f32),
        Arg::number(0.125f32),
    ];
    let kernel = stencils::stencil_5().specialize(&[("R", 1), ("L", 32)]).unwrap();
    let done = kernel.simulate(&args).unwrap();
    assert_eq!(done.grid(), [65_600, 1, 1]);
    let at = |row: usize, column: usize| if row < m && column < n { x[row * n + column] } else { 0.0 };
    let y = done.get::<f32>("y").unwrap();
    for (row, column) in (0..m * n).map(|at| (at / n, at % n)) {
        let near = at(row.wrapping_sub(1), column)
            + at(row + 1, column)
            + (at(row, column.wrapping_sub(1)) + at(row, column + 1));
        assert_eq!(y[row * n + column], 0.125f32.mul_add(near, 0.5 * at(row, column)), "{row}, {column}");
    }
}

#[test]
fn generations_of_life() {
    let pinned = |z, t| life::life().specialize(&[("Z", z), ("T", t)]).unwrap();
    for (m, n, kernel, count) in [
        (90, 1100, pinned(64, 16), 16),
        (40, 64, pinned(16, 5), 5),
        (33, 961, pinned(8, 32), 32),
        (3, 1, pinned(8, 1), 1),
        (70, 77, life::life(), 16),
    ] {
        let mut random = Random::new(m as u64);
        let x: Vec<u8> = (0..m * n).map(|_| (random.word() % 5 < 2) as u8).collect();
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<u8>([m, n]).strides([n, 1])];
        let mut now = x.clone();
        for generation in 1..count + 1 {
            let alive = |i: usize, j: usize| if i < m && j < n { now[i * n + j] } else { 0 };
            let next = |at: usize| {
                let (i, j) = (at / n, at % n);
                let lines = [i.wrapping_sub(1), i, i + 1];
                let all = lines.map(|i| [j.wrapping_sub(1), j, j + 1].map(|j| alive(i, j)));
                let around = all.iter().flatten().sum::<u8>() - now[at];
                (around == 3 || around == 2 && now[at] == 1) as u8
            };
            now = (0..m * n).map(next).collect();
            if generation == 1 {
                assert!(life::life_step().simulate(&args).unwrap().get::<u8>("y").unwrap() == now, "{m}x{n}");
            }
        }
        let y = kernel.simulate(&args).unwrap().get::<u8>("y").unwrap();
        assert!(y == now, "{m}x{n}, {:?}", (0..m * n).find(|at| y[*at] != now[*at]));
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
    use self::convolution::{convolution, convolution_by_x};
    use self::convolution_by_w::convolution_by_w;
    let of = |sizes, r, d| Convolved { sizes, r, d };
    for sizes in [[72, 9, 7, 3, 40], [8, 3, 5, 1, 8]] {
        convolved(of(sizes, 3, 1), convolution(), convolution_by_x(), convolution_by_w());
    }
    for sizes in [[72, 19, 34, 1, 40], [8, 3, 6, 3, 8], [16, 1, 2, 1, 8]] {
        convolved(of(sizes, 3, 2), convolution!(D = 2), convolution_by_x!(D = 2), convolution_by_w!(D = 2));
    }
    // Tiles of four images, and a cluster of three shifts.
    let forward = convolution!(BW = 8, BH = 8, BB = 4, BN = 64, STAGES = 4);
    let by_x = convolution_by_x!(BW = 8, BH = 8, BB = 4, BC = 64, STAGES = 4);
    let by_w = convolution_by_w!(
        BC = 64,
        BN = 64,
        WARPGROUPS = 1,
        STAGES = 8,
        P = 3,
        BW = 8,
        BH = 4,
        BB = 3,
        CLUSTER = 3
    );
    convolved(of([72, 9, 11, 5, 40], 3, 1), forward, by_x, by_w);
    // Shortcuts: each pixel of y is of one pixel of x, and the gradient of the others is 0.
    for (r, d) in [(1, 2), (1, 3), (1, 1), (3, 4)] {
        let constants = [("R", r), ("D", d)];
        let forward = convolution().specialize(&constants).unwrap();
        let by_x = convolution_by_x().specialize(&constants).unwrap_or_else(|why| panic!("{r}, {d}: {why}"));
        let by_w = convolution_by_w().specialize(&constants).unwrap();
        convolved(of([16, 9, 6, 2, 8], r, d), forward, by_x, by_w);
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
            7 => convolution_of_few::convolution_of_few(),
            _ => convolution_of_few::convolution_of_few!(C = 4, R = 3, D = 1),
        };
        let of_f = Arg::tensor(&f, [images[0] * r * r, sizes[4]]);
        let done = kernel.simulate(&[Arg::tensor(&x, images), of_f, Arg::output::<bf16>(results)]).unwrap();
        for (at, (is, wanted)) in doubles(&done.get::<bf16>("y").unwrap()).iter().zip(&y).enumerate() {
            let off = (is - wanted).abs() <= wanted.abs().max(1.0) / 256.0;
            assert!(off || !wanted.is_finite() && !is.is_finite(), "{at}: {is}, and it is {wanted}");
        }
    }
}

#[test]
fn gradients_of_convolutions_of_few_channels() {
    for (sizes, r, d, p) in
        [([3, 35, 18, 2, 72], 7, 2, 4), ([3, 5, 4, 1, 8], 7, 2, 4), ([4, 20, 3, 3, 24], 3, 1, 32)]
    {
        let of = Convolved { sizes, r, d };
        let [images, weights, results] = of.extents();
        let (x, dy) = (eighths(images.iter().product(), 1), eighths(results.iter().product(), 3));
        let mut f = vec![0.5; weights.iter().product()];
        // The sum of all products of results with dy, whose gradient it is.
        let loss = |f: &[f64]| {
            let mut total = 0.0;
            of.each(|at_x, at_f, at_y| {
                total += f64::from(x[at_x].to_f32()) * f[at_f] * f64::from(dy[at_y].to_f32());
            });
            total
        };
        let constants: &[_] = if r == 7 { &[("P", p)] } else { &[("P", p), ("C", 4), ("R", 3), ("D", 1)] };
        let kernel = convolution_of_few::convolution_of_few_by_w().specialize(constants).unwrap();
        let products = [images[0] * r * r, sizes[4]];
        let dw = Arg::in_out(&vec![1.0f32; f.len()], products);
        let done = kernel.simulate(&[Arg::tensor(&x, images), Arg::tensor(&dy, results), dw]).unwrap();
        let dw = wide(&done.get::<f32>("dw").unwrap());
        let mut wanted = vec![1.0; f.len()];
        of.each(|at_x, at_f, at_y| {
            wanted[at_f] += f64::from(x[at_x].to_f32()) * f64::from(dy[at_y].to_f32());
        });
        near(&dw, &wanted, 1e-5);
        for at in (0..f.len()).step_by(f.len() / 5) {
            let [more, less] = [1.0, -1.0].map(|by| {
                f[at] += by;
                let loss = loss(&f);
                f[at] -= by;
                loss
            });
            near(&[dw[at] - 1.0], &[(more - less) / 2.0], 1e-5);
        }
    }
}

/// An element of registers that `let` names keeps its value when the tile changes; a slice that is changed by its name is a part
/// of the tile.
#[kernel(allow(rearranged))]
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

/// Sums and differences of elements at distances that halve, as often as N can be halved.
#[kernel]
fn sums_and_differences<const N: usize = 8>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let part = |of| parallelize(tile(of, N, block.x), layout!(1), thread.x);
    let mut z = map(part(x), |x| x);
    let last = registers::<f32>(2, 0.0);
    for step in unroll(0..count_ones(N - 1)) {
        let apart = 1 << (31 - leading_zeros(N) - 1 - step);
        let pairs = regroup(z, (apart, 2, N / 2 / apart));
        let (a, b) = (pairs[(_, 0, _)], pairs[(_, 1, _)]);
        (a, b) = (a + b, a - b);
        (last[(0)], last[(1)]) = (z[(0)], -z[(1)]);
    }
    (z[(0)], z[(1)]) = (last[(1)], last[(0)]);
    (z[(2)], z[(3)]) = (z[(3)], z[(2)]);
    copy(z, part(y));
}

/// Values of a tuple are computed before any of its targets changes, in their targets where none reads another target.
#[test]
fn tuples_are_assigned_after_their_values() {
    let args = [Arg::tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [8]), Arg::output::<f32>([8])];
    let kernel = sums_and_differences();
    let done = kernel.simulate(&args).unwrap();
    assert_eq!(done.get::<f32>("y").unwrap(), [4.0, 36.0, 0.0, -8.0, -16.0, 0.0, 0.0, 0.0]);
    let source = kernel.source();
    assert!(source.contains("last[1] = -z[1];") && !source.contains("last_next"), "{source}");
}
