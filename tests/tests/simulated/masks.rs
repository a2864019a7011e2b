//! Tiles of conditions, against plain Rust.

use tilewright_sim::Arg;
use tilewright_tests::masks::*;

use crate::run;

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 7919 + n / 7) % 201) as f32 / 100.0 - 1.0).collect()
}

#[test]
fn masks_are_summed_reduced_and_mapped() {
    for (m, n) in [(8, 512), (5, 300), (1, 1)] {
        let x = numbers(m * n);
        let (low, high) = (-0.25f32, 0.5f32);
        let inside = |x: &f32| *x > low && *x < high;
        let args = [
            Arg::number(low),
            Arg::number(high),
            Arg::tensor(&x, [m, n]).strides([n, 1]),
            Arg::output::<i32>([m]),
            Arg::output::<bool>([m]),
            Arg::output::<i32>([m]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        for done in run(within().def(), &args) {
            let counts: Vec<i32> =
                x.chunks(n).map(|row| row.iter().filter(|x| inside(x)).count() as i32).collect();
            assert_eq!(done.get::<i32>("count").unwrap(), counts);
            let any: Vec<bool> = counts.iter().map(|count| *count > 0).collect();
            assert_eq!(done.get::<bool>("any").unwrap(), any);
            let last: Vec<i32> =
                x.chunks(n).map(|row| row.iter().rposition(inside).map_or(-1, |at| at as i32)).collect();
            assert_eq!(done.get::<i32>("last").unwrap(), last);
            let y: Vec<f32> = x.iter().map(|x| if inside(x) { *x } else { -1.0 }).collect();
            assert_eq!(done.get::<f32>("y").unwrap(), y);
        }
    }
}

#[test]
fn masks_of_lanes() {
    for n in [256, 200] {
        let x: Vec<i32> = (0..n as i32).map(|n| n * 37 % 23 - 5).collect();
        let odd: Vec<bool> = x.iter().map(|x| x % 2 != 0).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<u32>([n]), Arg::in_out(&vec![0i32; n], [n])];
        for done in run(neighbours().def(), &args) {
            let votes = done.get::<u32>("votes").unwrap();
            let y = done.get::<i32>("y").unwrap();
            for i in 0..n {
                let warp = i / 32 * 32;
                let set = |lane: usize| warp + lane < n && odd[warp + lane];
                let expected = (0..32).filter(|lane| set(*lane)).fold(0, |all, lane| all | 1u32 << lane);
                assert_eq!(votes[i], expected, "{i} of {n}");
                let next = odd.get(i ^ 1).copied().unwrap_or(false);
                assert_eq!(y[i], if odd[i] && !next { x[i] } else { 0 }, "{i} of {n}");
            }
        }
    }
}

#[test]
fn masks_change_and_end_loops() {
    for n in [256, 300] {
        let x: Vec<i32> = (0..n).collect();
        let steps = |mut n: i32| {
            let mut count = 0;
            while n > 1 {
                n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
                count += 1;
            }
            count
        };
        let args = [Arg::tensor(&x, [n as usize]), Arg::output::<i32>([n as usize])];
        for done in run(collatz().def(), &args) {
            assert_eq!(done.get::<i32>("steps").unwrap(), x.iter().map(|n| steps(*n)).collect::<Vec<_>>());
        }
    }
}
