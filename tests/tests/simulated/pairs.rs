//! Each thread has all elements of a tile along a short mode, in every variant, against its text.

use crate::inputs;
use tilewright_tests::pairs::*;

#[test]
fn squares_of_pairs() {
    inputs(squares().def()).written(["N = 512", "N = 777"]);
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
    inputs(squares_of_rows().def()).written(["M = 8, N = 256", "M = 5, N = 131"]);
    // Neighbouring threads have neighbouring pairs.
    let kernel = squares_of_rows();
    assert!(kernel.source().contains("tid % 128"), "{}", kernel.source());
}

#[test]
fn squares_of_parts_apart() {
    inputs(squares_of_planes().def()).written(["N = 2048", "N = 1030"]);
}

#[test]
fn fewer_pairs_than_threads() {
    inputs(few().def()).written(["N = 64", "N = 77"]);
}

#[test]
fn parts_of_pairs_are_tiles() {
    inputs(chained().def()).with("x", |x| x / 2.0).near(1e-5, ["N = 1024", "N = 1500"]);
    inputs(summed().def()).written(["N = 1024", "N = 1500"]);
}

#[test]
fn every_second_element() {
    for def in [apart().def(), loaded().def()] {
        inputs(def).written(["N = 1024", "N = 1025", "N = 7"]);
    }
    let kernel = loaded();
    assert!(kernel.source().contains("*(const float2*)&x["), "{}", kernel.source());
}
