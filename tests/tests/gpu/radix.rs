//! Keys in order by their bytes: results, and times of kernels with other constants.

use std::time::Instant;

use tilewright::kernels::pages::{radix, radix_counts};
use tilewright::prelude::*;

use super::stream;

/// Sorts keys, and values where V is 1; the time of a sort after the first.
macro_rules! sorted {
    ($stream:expr, $keys:expr, $times:expr, K = $k:literal, V = $v:literal) => {{
        let (stream, keys): (&Stream, &[u32]) = ($stream, $keys);
        let (n, p) = (keys.len(), if $v > 0 { keys.len() } else { 1 });
        let from = DeviceTensor::from_host(stream, [n], keys).unwrap();
        let order = DeviceTensor::from_host(stream, [p], &(0..p as u32).collect::<Vec<_>>()).unwrap();
        let [mut k0, mut k1] = [0; 2].map(|_| DeviceTensor::<u32, 1>::zeros(stream, [n]).unwrap());
        let [mut v0, mut v1] = [0; 2].map(|_| DeviceTensor::<u32, 1>::zeros(stream, [p]).unwrap());
        let mut bins = DeviceTensor::<i32, 2>::zeros(stream, [256, 4]).unwrap();
        let mut words = DeviceTensor::<u32, 3>::zeros(stream, [256, n.div_ceil(256 * $k), 4]).unwrap();
        let mut arrived = DeviceTensor::<i32, 1>::zeros(stream, [1]).unwrap();
        let (counts, pass) = (radix_counts::radix_counts!(K = $k), radix::radix_pass!(K = $k, V = $v));
        let mut begun = Instant::now();
        for time in 0..$times + 1 {
            if time == 1 {
                stream.synchronize().unwrap();
                begun = Instant::now();
            }
            counts.launch(stream, &from, &mut bins, &mut words).unwrap();
            pass.launch(stream, 0, &from, &order, &mut k0, &mut v0, &mut bins, &mut words, &mut arrived)
                .unwrap();
            pass.launch(stream, 1, &k0, &v0, &mut k1, &mut v1, &mut bins, &mut words, &mut arrived).unwrap();
            pass.launch(stream, 2, &k1, &v1, &mut k0, &mut v0, &mut bins, &mut words, &mut arrived).unwrap();
            pass.launch(stream, 3, &k0, &v0, &mut k1, &mut v1, &mut bins, &mut words, &mut arrived).unwrap();
        }
        stream.synchronize().unwrap();
        let time = begun.elapsed() / ($times as u32).max(1);
        (k1.to_host().unwrap(), v1.to_host().unwrap(), time)
    }};
}

fn check(what: &str, keys: &[u32], made: &[u32], order: Option<&[u32]>) {
    let mut wanted: Vec<u32> = (0..keys.len() as u32).collect();
    wanted.sort_by_key(|at| keys[*at as usize]); // stable
    for (at, from) in wanted.into_iter().enumerate() {
        assert_eq!(made[at], keys[from as usize], "{what}: {at} of {}", keys.len());
        assert!(order.is_none_or(|order| order[at] == from), "{what}: the order at {at} of {}", keys.len());
    }
}

/// Any keys, by the middle bits of products.
fn keys(n: usize) -> Vec<u32> {
    (0..n as u64).map(|at| ((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u32).collect()
}

#[test]
fn keys_are_sorted() {
    let Some(stream) = stream() else { return };
    let cases = [1usize, 31, 4096, 4097, 100_003, 1 << 20, (1 << 22) + 5];
    let mut all: Vec<(String, Vec<u32>)> = cases.map(|n| (format!("{n} keys"), keys(n))).into();
    all.push(("equal keys".into(), vec![7; 300_000]));
    all.push(("few different keys".into(), (0..300_000u32).map(|at| at * 7 % 5 * 0x0101_0101).collect()));
    all.push(("the opposite order".into(), (0..300_000u32).map(|at| !at).collect()));
    for (what, keys) in &all {
        let (made, order, _) = sorted!(&stream, keys, 1, K = 24, V = 1);
        check(what, keys, &made, Some(&order));
        let (made, _, _) = sorted!(&stream, keys, 0, K = 24, V = 0);
        check(what, keys, &made, None);
        let (made, order, _) = sorted!(&stream, keys, 1, K = 32, V = 1);
        check(what, keys, &made, Some(&order));
        let (made, _, _) = sorted!(&stream, keys, 0, K = 32, V = 0);
        check(what, keys, &made, None);
    }
}

#[test]
#[ignore = "a measurement"]
fn times_of_sorts() {
    let Some(stream) = stream() else { return };
    for (what, keys) in [("any keys", keys(1 << 24)), ("equal keys", vec![5; 1 << 24])] {
        macro_rules! row {
            ($($key:ident = $value:literal)+) => {{
                let (made, order, time) = sorted!(&stream, &keys, 50, $($key = $value),+);
                let order = (order.len() == keys.len()).then_some(&order[..]);
                check(what, &keys, &made, order);
                println!("2^24 {what}, {}: {time:?}", stringify!($($key = $value)+));
            }};
        }
        row!(K = 32 V = 1);
        row!(K = 24 V = 1);
        row!(K = 32 V = 0);
    }
}
