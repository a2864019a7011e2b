//! Each thread has all elements of a tile along a short mode, in every variant, against plain Rust.

use tilewright::KernelDef;
use tilewright_sim::Arg;
use tilewright_tests::pairs::*;

use crate::run;

#[track_caller]
fn check(def: &KernelDef, args: &[Arg], name: &str, expected: &[f32]) {
    for outcome in run(def, args) {
        let got = outcome.get::<f32>(name).unwrap();
        let is_near = |(x, y): (&f32, &f32)| (x - y).abs() <= 1e-5 * y.abs().max(1.0);
        let wrong = got.iter().zip(expected).position(|pair| !is_near(pair));
        assert!(
            wrong.is_none() && got.len() == expected.len(),
            "variant {}: {wrong:?}",
            outcome.variant() + 1
        );
    }
}

/// Numbers from -2 to 2.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 37 + n / 7) % 17) as f32 / 4.0 - 2.0).collect()
}

fn square((a, b): (f32, f32)) -> (f32, f32) {
    (a * a - b * b, 2.0 * a * b)
}

fn pairs(x: &[f32]) -> impl Iterator<Item = (f32, f32)> {
    x.chunks(2).map(|pair| (pair[0], pair[1]))
}

#[test]
fn squares_of_pairs() {
    for n in [512, 777] {
        let x = numbers(2 * n);
        let expected: Vec<f32> = pairs(&x).map(square).flat_map(|(a, b)| [a, b]).collect();
        let args = [Arg::tensor(&x, [2, n]).strides([1, 2]), Arg::output::<f32>([2, n]).strides([1, 2])];
        check(squares().def(), &args, "z", &expected);
    }
    for (text, kernel) in [
        ("*(const float2*)&x[", squares().source().to_owned()),
        ("*(float2*)&z[", squares().source().to_owned()),
        ("*(const double2*)&x[", squares!(T = f64).source().to_owned()),
        ("*(double2*)&z[", squares!(T = f64).source().to_owned()),
        ("*(const float2*)&x[", squares_of_rows().source().to_owned()),
        ("*(const float4*)&x[", squares_of_planes().source().to_owned()),
        ("*(const float2*)&x[", few().source().to_owned()),
    ] {
        assert!(kernel.contains(text), "{text}\n{kernel}");
    }
}

#[test]
fn squares_of_rows_of_pairs() {
    for (m, n) in [(8, 256), (5, 131)] {
        let x = numbers(2 * m * n);
        let expected: Vec<f32> = pairs(&x).map(square).flat_map(|(a, b)| [a, b]).collect();
        let strides = [2 * n, 2, 1];
        let args =
            [Arg::tensor(&x, [m, n, 2]).strides(strides), Arg::output::<f32>([m, n, 2]).strides(strides)];
        check(squares_of_rows().def(), &args, "z", &expected);
    }
    // Neighbouring threads have neighbouring pairs.
    let kernel = squares_of_rows();
    assert!(kernel.source().contains("tid % 128"), "{}", kernel.source());
}

#[test]
fn squares_of_parts_apart() {
    for n in [2048, 1030] {
        let x = numbers(2 * n);
        let all: Vec<(f32, f32)> = (0..n).map(|i| square((x[i], x[n + i]))).collect();
        let expected: Vec<f32> = all.iter().map(|z| z.0).chain(all.iter().map(|z| z.1)).collect();
        check(
            squares_of_planes().def(),
            &[Arg::tensor(&x, [n, 2]), Arg::output::<f32>([n, 2])],
            "z",
            &expected,
        );
    }
}

#[test]
fn fewer_pairs_than_threads() {
    for n in [64, 77] {
        let x = numbers(2 * n);
        let expected: Vec<f32> = pairs(&x).map(|(a, b)| (a * a + b * b).sqrt()).collect();
        let args = [Arg::tensor(&x, [2, n]).strides([1, 2]), Arg::output::<f32>([n])];
        check(few().def(), &args, "z", &expected);
    }
}

#[test]
fn parts_of_pairs_are_tiles() {
    for n in [1024, 1500] {
        let x = numbers(2 * n);
        let one = |(a, b): (f32, f32)| {
            let size = (a * a + b * b).sqrt();
            let (c, d) = if size > 1.0 { (a / size, b / size) } else { (a, b) };
            [c, d + a]
        };
        let expected: Vec<f32> = pairs(&x).flat_map(one).collect();
        let args = [Arg::tensor(&x, [2, n]).strides([1, 2]), Arg::output::<f32>([2, n]).strides([1, 2])];
        check(chained().def(), &args, "z", &expected);

        let tiles = n.div_ceil(512);
        let sum = |of: fn(&(f32, f32)) -> f32, tile: usize| -> f32 {
            pairs(&x).skip(tile * 512).take(512).map(|pair| of(&pair)).sum()
        };
        let expected: Vec<f32> =
            (0..tiles).flat_map(|tile| [sum(|z| z.0, tile), sum(|z| z.1, tile)]).collect();
        let args = [
            Arg::tensor(&x, [2, n]).strides([1, 2]),
            Arg::output::<f32>([2, tiles]),
            Arg::output::<i32>([tiles]),
        ];
        check(summed().def(), &args, "z", &expected);
        let positive: Vec<i32> = (0..tiles)
            .map(|tile| pairs(&x).skip(tile * 512).take(512).filter(|z| z.0 > 0.0).count() as i32)
            .collect();
        for outcome in run(summed().def(), &args) {
            assert_eq!(outcome.get::<i32>("n").unwrap(), positive);
        }
    }
}

#[test]
fn every_second_element() {
    for n in [1024, 1025, 7] {
        let x = numbers(n);
        let expected: Vec<f32> = x.chunks(2).map(|pair| pair.get(1).unwrap_or(&0.0) - pair[0]).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([n.div_ceil(2)])];
        check(apart().def(), &args, "y", &expected);
        check(loaded().def(), &args, "y", &expected);
    }
    let kernel = loaded();
    assert!(kernel.source().contains("*(const float2*)&x["), "{}", kernel.source());
}
