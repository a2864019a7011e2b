//! Each thread has all elements of a tile along a short mode, in every variant, against its text.

use tilewright_fuzz::near;
use tilewright_sim::Arg;
use tilewright_tests::pairs::*;

use crate::check;

/// Numbers from -2 to 2.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 37 + n / 7) % 17) as f32 / 4.0 - 2.0).collect()
}

#[test]
fn squares_of_pairs() {
    for n in [512, 777] {
        let x = numbers(2 * n);
        let args = [Arg::tensor(&x, [2, n]).strides([1, 2]), Arg::output::<f32>([2, n]).strides([1, 2])];
        check(squares().def(), &args);
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
        let strides = [2 * n, 2, 1];
        let args =
            [Arg::tensor(&x, [m, n, 2]).strides(strides), Arg::output::<f32>([m, n, 2]).strides(strides)];
        check(squares_of_rows().def(), &args);
    }
    // Neighbouring threads have neighbouring pairs.
    let kernel = squares_of_rows();
    assert!(kernel.source().contains("tid % 128"), "{}", kernel.source());
}

#[test]
fn squares_of_parts_apart() {
    for n in [2048, 1030] {
        let x = numbers(2 * n);
        check(squares_of_planes().def(), &[Arg::tensor(&x, [n, 2]), Arg::output::<f32>([n, 2])]);
    }
}

#[test]
fn fewer_pairs_than_threads() {
    for n in [64, 77] {
        let x = numbers(2 * n);
        let args = [Arg::tensor(&x, [2, n]).strides([1, 2]), Arg::output::<f32>([n])];
        check(few().def(), &args);
    }
}

#[test]
fn parts_of_pairs_are_tiles() {
    for n in [1024, 1500] {
        let x = numbers(2 * n);
        let args = [Arg::tensor(&x, [2, n]).strides([1, 2]), Arg::output::<f32>([2, n]).strides([1, 2])];
        near(chained().def(), &args, 1e-5);
        let tiles = n.div_ceil(512);
        let args = [
            Arg::tensor(&x, [2, n]).strides([1, 2]),
            Arg::output::<f32>([2, tiles]),
            Arg::output::<i32>([tiles]),
        ];
        check(summed().def(), &args);
    }
}

#[test]
fn every_second_element() {
    for n in [1024, 1025, 7] {
        let x = numbers(n);
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([n.div_ceil(2)])];
        check(apart().def(), &args);
        check(loaded().def(), &args);
    }
    let kernel = loaded();
    assert!(kernel.source().contains("*(const float2*)&x["), "{}", kernel.source());
}
