//! Keys that a bit divides, in their order: a step of a radix sort, by one block and by many.

use crate::{every, generated, words};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// All keys by one block: keys without the bit come first, and their number is a result.
#[kernel]
fn partition(bit: i32, keys: &Tensor<u32, N>, out: &mut Tensor<u32, N>, zeros: &mut Tensor<i32, _1>) {
    let parts = tile(keys, 1024, _);
    let mut count = full::<i32>(1, 0);
    for k in 0..parts.size(1) {
        count += sum(map(parts[(_, k)], |x| 1 - ((x >> bit) & 1) as i32));
    }
    let mut before = full::<i32>(1, 0);
    for k in 0..parts.size(1) {
        let key = map(parts[(_, k)], |x| x);
        let zero = map(key, |x| 1 - ((x >> bit) & 1) as i32);
        let rank = scan(zero, 0, |a, b| a + b, exclusive = true, carry = &mut before);
        scatter((key, zero, rank, count), out, |x, z, r, c, at| (if z == 1 { r } else { c + at.0 - r }, x));
    }
    copy(count, tile(zeros, 1, 0));
}

/// The number of keys without the bit in each block's part.
#[kernel]
fn counts(bit: i32, keys: &Tensor<u32, N>, count: &mut Tensor<i32, { ceil_div(N, 1024) }>) {
    let zeros = map(tile(keys, 1024, block.x), |x| 1 - ((x >> bit) & 1) as i32);
    copy(sum(zeros), tile(count, 1, block.x));
}

/// Where each block's keys without the bit begin, and their number at the end.
#[kernel]
fn starts(count: &Tensor<i32, B>, start: &mut Tensor<i32, { B + 1 }>) {
    let from = tile(count, 1024, _);
    let mut total = full::<i32>(1, 0);
    for k in 0..from.size(1) {
        let before = scan(from[(_, k)], 0, |a, b| a + b, exclusive = true, carry = &mut total);
        scatter(before, start, |before, at| (at.0, before));
    }
    copy(total, tile(start, 1, B));
}

/// Keys at their places.
#[kernel]
fn places(
    bit: i32,
    keys: &Tensor<u32, N>,
    start: &Tensor<i32, { ceil_div(N, 1024) + 1 }>,
    out: &mut Tensor<u32, N>,
) {
    let key = map(tile(keys, 1024, block.x), |x| x);
    let zero = map(key, |x| 1 - ((x >> bit) & 1) as i32);
    let rank = scan(zero, 0, |a, b| a + b, exclusive = true) + start[(block.x)];
    let all = start[(ceil_div(N, 1024))];
    scatter((key, zero, rank), out, |x, z, r, at| (if z == 1 { r } else { all + at.0 - r }, x));
}

#[test]
fn keys_are_divided_by_a_bit() {
    for n in [2500usize, 1024, 1, 0] {
        let keys: Vec<u32> = words(n, 3).iter().map(|word| (*word as u32).wrapping_mul(2654435761)).collect();
        let bit = 31;
        let (without, with): (Vec<u32>, Vec<u32>) = keys.iter().partition(|key| (*key >> bit) & 1 == 0);
        let (zeros, wanted) = (without.len() as i32, [without, with].concat());
        let given = || vec![Arg::number(bit), Arg::tensor(&keys, [n])];
        let out = || Arg::output::<u32>([n]);
        let args = [given(), vec![out(), Arg::output::<i32>([1])]].concat();
        for outcome in every(generated!(partition()), &args) {
            assert_eq!(outcome.get::<u32>("out").unwrap(), wanted);
            assert_eq!(outcome.get::<i32>("zeros").unwrap(), [zeros]);
        }
        let blocks = n.div_ceil(1024);
        if blocks == 0 {
            continue;
        }
        let made = every(generated!(counts()), &[given(), vec![Arg::output::<i32>([blocks])]].concat());
        let count = made[0].get::<i32>("count").unwrap();
        let args = [Arg::tensor(&count, [blocks]), Arg::output::<i32>([blocks + 1])];
        let start = every(generated!(starts()), &args)[0].get::<i32>("start").unwrap();
        assert_eq!(start[blocks], zeros);
        let args = [given(), vec![Arg::tensor(&start, [blocks + 1]), out()]].concat();
        for outcome in every(generated!(places()), &args) {
            assert_eq!(outcome.get::<u32>("out").unwrap(), wanted);
        }
    }
}
