//! `let b = a` of registers: as in Rust, a change of one is none of the other. Tiles that are swapped.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Tiles that change after they have a second name, or under that name, parts of tuples, and a loop.
#[kernel]
fn second_names(x: &Tensor<f32, N>, y: &mut Tensor<f32, (N, _4)>) {
    let to = |n| tile(y, (256, 1), (block.x, n))[(_, 0)];
    let mut own = map(tile(x, 256, block.x), |x| x);
    let before = own;
    own += 1.0;
    copy(own - before, to(0));

    let mut twice = before;
    twice *= 2.0;
    copy(twice - before, to(1));

    let mut both = (own, twice);
    let (one, two) = both;
    both = map((own, twice), |x, y| (y, x));
    copy(both.1 - one + both.0 - two, to(2));

    let (mut a, mut b) = (full::<f32>((256), 0.0), full::<f32>((256), 1.0));
    for i in 0..10 {
        let old = b;
        b += a;
        a = old;
    }
    copy(a, to(3));
}

#[test]
fn second_names_are_copies() {
    inputs(second_names().def()).written(["N = 300"]);
}

/// Two whole tiles are swapped.
#[kernel]
fn fibonacci(n: i32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (mut a, mut b) = (full::<f32>(256, 0.0), map(tile(x, 256, block.x), |x| x));
    for k in 0..n {
        (a, b) = (b, a + b);
    }
    (a, b) = (b, a);
    copy(b, tile(y, 256, block.x));
}

#[test]
fn tiles_are_swapped() {
    inputs(fibonacci().def()).written(["n = 7, N = 300"]);
}
