//! Blocks of one launch that cooperate: results, and times beside the times of two launches.

use std::time::{Duration, Instant};

use tilewright::prelude::*;
use tilewright_tests::between::{queued, running_sum, split_k, total};

use super::stream;

fn zeros<T: tilewright::Element>(stream: &Stream, n: usize) -> DeviceTensor<T, 1> {
    DeviceTensor::zeros(stream, [n]).unwrap()
}

#[test]
fn blocks_of_one_launch_work_together() {
    let Some(stream) = stream() else { return };
    for n in [1usize, 1024, 5000, 1 << 20, (1 << 23) + 3] {
        let values: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
        let x = DeviceTensor::from_host(&stream, [n], &values).unwrap();
        let (mut parts, mut arrived, mut y) =
            (zeros::<f32>(&stream, n.div_ceil(1024)), zeros::<i32>(&stream, 1), zeros::<f32>(&stream, 1));
        total().launch(&stream, &x, &mut parts, &mut arrived, &mut y).unwrap();
        // Whole numbers up to 2^24 are exact.
        assert_eq!(y.to_host().unwrap(), [values.iter().map(|x| f64::from(*x)).sum::<f64>() as f32], "{n}");
        let tiles = n.div_ceil(512);
        let (mut ticket, mut flags) = (zeros::<i32>(&stream, 1), zeros::<i32>(&stream, tiles));
        let (mut ends, mut y) = (zeros::<f32>(&stream, tiles), zeros::<f32>(&stream, n));
        running_sum().launch(&stream, &x, &mut ticket, &mut flags, &mut ends, &mut y).unwrap();
        let mut sum = 0.0;
        for (at, (y, x)) in y.to_host().unwrap().iter().zip(&values).enumerate() {
            sum += f64::from(*x);
            assert_eq!(*y, sum as f32, "{at} of {n}");
        }
        let (mut next, mut y) = (zeros::<i32>(&stream, 1), zeros::<f32>(&stream, n));
        queued!(BLOCKS = 264).launch(&stream, &x, &mut next, &mut y).unwrap();
        assert!(y.to_host().unwrap().iter().zip(&values).all(|(y, x)| *y == 2.0 * x), "{n}");
    }
}

/// Sums of tiles, and the sum of these: the same in two launches.
#[kernel]
fn sums_of_tiles(x: &Tensor<f32, N>, parts: &mut Tensor<f32, { ceil_div(N, 1024) }>) {
    copy(sum(tile(x, 1024, block.x)), tile(parts, 1, block.x));
}

#[kernel]
fn sum_of_all(parts: &Tensor<f32, N>, y: &mut Tensor<f32, _1>) {
    let mut all = full::<f32>(1, 0.0);
    for k in 0..ceil_div(N, 256) {
        all += sum(tile(parts, 256, k));
    }
    copy(all, tile(y, 1, 0));
}

/// The time of one of many launches.
fn time(stream: &Stream, mut launch: impl FnMut()) -> Duration {
    const TIMES: u32 = 200;
    (0..20).for_each(|_| launch());
    stream.synchronize().unwrap();
    let begun = Instant::now();
    (0..TIMES).for_each(|_| launch());
    stream.synchronize().unwrap();
    begun.elapsed() / TIMES
}

#[test]
#[ignore = "a measurement"]
fn one_launch_beside_two() {
    let Some(stream) = stream() else { return };
    for n in [1usize << 14, 1 << 18, 1 << 22, 1 << 26] {
        let x = DeviceTensor::from_host(&stream, [n], &vec![1.0f32; n]).unwrap();
        let (mut parts, mut arrived, mut y) =
            (zeros::<f32>(&stream, n.div_ceil(1024)), zeros::<i32>(&stream, 1), zeros::<f32>(&stream, 1));
        let one = time(&stream, || {
            total().launch(&stream, &x, &mut parts, &mut arrived, &mut y).unwrap();
        });
        let two = time(&stream, || {
            sums_of_tiles().launch(&stream, &x, &mut parts).unwrap();
            sum_of_all().launch(&stream, &parts, &mut y).unwrap();
        });
        println!("a sum of {n}: one launch {one:?}, two {two:?}");
    }
    let (m, k) = (256, 8192);
    let bits = vec![bf16::from_f32(1.0); m * k];
    let a = DeviceTensor::from_host_strided(&stream, [m, k], [k, 1], &bits).unwrap();
    let (mut parts, mut arrived) =
        (DeviceTensor::zeros(&stream, [m, m, 3]).unwrap(), DeviceTensor::zeros(&stream, [4, 4]).unwrap());
    let mut c = DeviceTensor::zeros(&stream, [m, m]).unwrap();
    let split = time(&stream, || {
        split_k().launch(&stream, &a, &a, &mut parts, &mut arrived, &mut c).unwrap();
    });
    assert!(c.to_host().unwrap().iter().all(|sum: &f32| *sum == k as f32));
    println!("{m}x{m}x{k} with K in three parts: {split:?}");
}
