//! Exchanges between the lanes of a warp, in every variant.

use tilewright::prelude::*;
use tilewright::{Element, KernelDef};
use tilewright_sim::Arg;
use tilewright_tests::lanes::*;
use tilewright_tests::number::Random;

use crate::{check, run};

fn numbers(count: usize, below: u64) -> Vec<i32> {
    let mut random = Random::new(count as u64);
    (0..count).map(|_| (u64::from(random.word()) % below) as i32).collect()
}

fn check_moved<T: Element>(def: &KernelDef, make: fn(i32) -> T) {
    let elements: Vec<T> = numbers(512, 100).into_iter().map(make).collect();
    let output = || Arg::output::<T>([512]);
    let by = numbers(512, 1 << 20);
    check(
        def,
        &[Arg::tensor(&elements, [512]), Arg::tensor(&by, [512]), output(), output(), output(), output()],
    );
}

#[test]
fn elements_of_other_lanes() {
    check_moved::<f32>(moved!(T = f32).def(), |x| x as f32);
    check_moved::<f32>(moved!(T = f32, LANES = 8).def(), |x| x as f32);
    check_moved::<f64>(moved!(T = f64, LANES = 16).def(), f64::from);
    check_moved::<i64>(moved!(T = i64, LANES = 2).def(), i64::from);
    check_moved::<u8>(moved!(T = u8, LANES = 4).def(), |x| x as u8);
    check_moved::<bf16>(moved!(T = bf16, LANES = 8).def(), |x| bf16::from_f32(x as f32));
    let kernel = moved!(T = f32, LANES = 8);
    let source = kernel.source();
    for text in ["__shfl_xor_sync(0xffffffff, own[i], 1)", "own[i], tid % 8 + 1, 8)"] {
        assert!(source.contains(text), "{text}\n{source}");
    }
}

#[test]
fn warps_are_sorted() {
    let x = numbers(256, 50);
    check(sorted().def(), &[Arg::tensor(&x, [256]), Arg::output::<i32>([256])]);
    assert!(!sorted().source().contains("__shfl_sync"), "{}", sorted().source());
}

#[test]
fn elements_are_compacted() {
    for count in [1000usize, 1024, 7] {
        let x: Vec<i32> = numbers(count, 100).iter().map(|x| x - 50).collect();
        let args =
            [Arg::tensor(&x, [count]), Arg::in_out(&[0i32], [1]), Arg::in_out(&vec![-1i32; count], [count])];
        let mut expected: Vec<i32> = x.iter().copied().filter(|x| *x >= 0).collect();
        for outcome in run(compacted().def(), &args) {
            assert_eq!(outcome.get::<i32>("taken").unwrap(), [expected.len() as i32]);
            let mut y = outcome.get::<i32>("y").unwrap();
            assert!(y[expected.len()..].iter().all(|y| *y == -1));
            y.truncate(expected.len());
            y.sort_unstable();
            expected.sort_unstable();
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
    let x: Vec<f32> = numbers(300, 4).iter().map(|x| *x as f32).collect();
    for def in [voted!(LANES = 4), voted!(LANES = 32), voted!(LANES = 1)] {
        check(def.def(), &[Arg::tensor(&x, [300]), Arg::output::<i32>([300]), Arg::output::<i32>([300])]);
    }
}
