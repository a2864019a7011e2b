//! Loops that each thread leaves by itself, against plain Rust.

use tilewright_sim::Arg;
use tilewright_tests::breaks::*;

use crate::run;

#[test]
fn threads_leave_when_their_element_is_done() {
    for n in [128, 300] {
        let x: Vec<f32> = (0..n).map(|n| (n * 37 % 101) as f32 / 40.0 - 2.0).collect();
        let y: Vec<f32> = (0..n).map(|n| (n * 53 % 97) as f32 / 48.0 - 1.0).collect();
        let count = |x: f32, y: f32| {
            let (mut a, mut b, mut count) = (0.0f32, 0.0f32, 0);
            while count < 100 && a.mul_add(a, b * b) <= 4.0 {
                (a, b) = (a.mul_add(a, -(b * b)) + x, (2.0 * a).mul_add(b, y));
                count += 1;
            }
            count
        };
        let expected: Vec<i32> = x.iter().zip(&y).map(|(x, y)| count(*x, *y)).collect();
        let args =
            [Arg::tensor(&x, [n]), Arg::tensor(&y, [n]), Arg::output::<i32>([n]), Arg::in_out(&[0i32], [1])];
        for done in run(escapes().def(), &args) {
            let got = done.get::<i32>("n").unwrap();
            // Rounding differs where a point is near the circle.
            let apart = got.iter().zip(&expected).filter(|(a, b)| a != b).count();
            assert!(apart * 20 < n, "{apart} of {n}");
            assert_eq!(done.get::<i32>("all").unwrap(), [got.iter().sum::<i32>()]);
        }
    }
}

#[test]
fn threads_bisect() {
    for (m, n) in [(1, 64), (100, 200), (1000, 130)] {
        let sorted: Vec<i32> = (0..m).map(|n| 3 * n - 20).collect();
        let keys: Vec<i32> = (0..n).map(|n| n * 97 % (3 * m + 10) - 25).collect();
        let expected: Vec<i32> = keys.iter().map(|key| sorted.partition_point(|x| x < key) as i32).collect();
        let args = [
            Arg::tensor(&sorted, [m as usize]),
            Arg::tensor(&keys, [n as usize]),
            Arg::output::<i32>([n as usize]),
        ];
        for done in run(lower_bound().def(), &args) {
            assert_eq!(done.get::<i32>("index").unwrap(), expected);
        }
    }
}

#[test]
fn threads_probe_a_table() {
    for (v, n) in [(31usize, 100usize), (64, 64)] {
        let mut table = vec![0i32; v];
        for key in (1..v as i32 / 2).map(|n| 3 * n) {
            let mut at = (key * 7) as usize % v;
            while table[at] != 0 {
                at = (at + 1) % v;
            }
            table[at] = key;
        }
        let keys: Vec<i32> = (1..=n as i32).collect();
        let probe = |key: i32| {
            let mut tried = 0;
            for k in 0..v as i32 {
                let at = (key * 7 + k) % v as i32;
                tried += 1;
                match table[at as usize] {
                    present if present == key => return at,
                    0 => return -tried,
                    _ => {}
                }
            }
            -tried
        };
        let args = [Arg::tensor(&table, [v]), Arg::tensor(&keys, [n]), Arg::output::<i32>([n])];
        for done in run(probed().def(), &args) {
            let expected: Vec<i32> = keys.iter().map(|key| probe(*key)).collect();
            assert_eq!(done.get::<i32>("slot").unwrap(), expected);
        }
    }
}

#[test]
fn loops_in_loops_are_left() {
    let n = 200;
    let x: Vec<i32> = (0..n as i32).map(|n| n * 7 % 11 - 2).collect();
    let one = |at: usize| {
        let (x, block) = (x[at], at as i32 / 64);
        let mut sum = 0;
        for i in 0..6 {
            if x > 3 {
                for j in 0..8 {
                    if x + i < j {
                        sum += 100;
                        break;
                    }
                    sum += j;
                }
            } else if i == block + 2 {
                sum += 1000;
                break;
            }
            if sum > 150 + x {
                break;
            }
            sum += 1;
        }
        sum
    };
    for done in run(nested().def(), &[Arg::tensor(&x, [n]), Arg::output::<i32>([n])]) {
        assert_eq!(done.get::<i32>("y").unwrap(), (0..n).map(one).collect::<Vec<_>>());
    }
}
