//! Exchanges between the lanes of a warp, in every variant.

use tilewright_sim::Arg;
use tilewright_tests::lanes::*;
use tilewright_tests::number::Random;

use crate::inputs;
use crate::run;

fn numbers(count: usize, below: u64) -> Vec<i32> {
    let mut random = Random::new(count as u64);
    (0..count).map(|_| (u64::from(random.word()) % below) as i32).collect()
}

#[test]
fn elements_of_other_lanes() {
    for def in [
        moved!(T = f32).def(),
        moved!(T = f32, LANES = 8).def(),
        moved!(T = f64, LANES = 16).def(),
        moved!(T = i64, LANES = 2).def(),
        moved!(T = u8, LANES = 4).def(),
        moved!(T = bf16, LANES = 8).def(),
    ] {
        inputs(def).written(["N = 512"]);
    }
    let kernel = moved!(T = f32, LANES = 8);
    let source = kernel.source();
    for text in ["__shfl_xor_sync(0xffffffff, own[i], 1)", "own[i], tid % 8 + 1, 8)"] {
        assert!(source.contains(text), "{text}\n{source}");
    }
}

#[test]
fn warps_are_sorted() {
    inputs(sorted().def()).below("x", 50).written(["N = 256"]);
    assert!(!sorted().source().contains("__shfl_sync"), "{}", sorted().source());
}

#[test]
fn elements_are_compacted() {
    for count in [1000, 1024, 7] {
        let x: Vec<i32> = (0..count).map(|at| at * 37 % 100 - 50).collect();
        let size = x.len();
        let args =
            [Arg::tensor(&x, [size]), Arg::in_out(&[0i32], [1]), Arg::in_out(&vec![-1i32; size], [size])];
        let mut expected: Vec<i32> = x.into_iter().filter(|x| *x >= 0).collect();
        expected.sort_unstable();
        for outcome in run(compacted().def(), &args) {
            assert_eq!(outcome.get::<i32>("taken").unwrap(), [expected.len() as i32]);
            let mut y = outcome.get::<i32>("y").unwrap();
            assert!(y[expected.len()..].iter().all(|y| *y == -1));
            y.truncate(expected.len());
            y.sort_unstable();
            assert_eq!(y, expected);
        }
    }
}

#[test]
fn equal_numbers_are_counted_once() {
    for count in [1024usize, 777] {
        let x = numbers(count, 10);
        let mut expected = vec![0; 10];
        x.iter().for_each(|x| expected[*x as usize] += 1);
        let long: Vec<u64> = x.iter().map(|x| *x as u64).collect();
        let short: Vec<i8> = x.iter().map(|x| *x as i8).collect();
        for (def, x) in [
            (counted!(T = i32).def().clone(), Arg::tensor(&x, [count])),
            (counted!(T = u64, LANES = 8).def().clone(), Arg::tensor(&long, [count])),
            (counted!(T = i8, LANES = 16).def().clone(), Arg::tensor(&short, [count])),
        ] {
            for outcome in run(&def, &[x, Arg::in_out(&[0i32; 10], [10])]) {
                assert_eq!(outcome.get::<i32>("bins").unwrap(), expected);
            }
        }
    }
}

#[test]
fn lanes_vote() {
    for kernel in [voted!(LANES = 4), voted!(LANES = 32), voted!(LANES = 1)] {
        inputs(kernel.def()).below("x", 4).written(["N = 300"]);
    }
}
