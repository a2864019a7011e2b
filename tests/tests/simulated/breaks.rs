//! Loops that each thread leaves by itself.

use tilewright_sim::Arg;
use tilewright_tests::breaks::*;

use crate::{inputs, run};

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
    inputs(lower_bound().def())
        .indexed("sorted", |at, _| 3.0 * at as f64 - 20.0)
        .with("keys", |x| x - 25.0)
        .written(["M = 1, N = 64", "M = 100, N = 200", "M = 300, N = 130"]);
}

#[test]
fn threads_probe_a_table() {
    inputs(probed().def())
        .indexed("table", |at, x| if at % 3 == 0 { x.rem_euclid(100.0) } else { 0.0 })
        .indexed("keys", |at, _| at as f64 + 1.0)
        .written(["V = 31, N = 100", "V = 64, N = 64"]);
}

#[test]
fn loops_in_loops_are_left() {
    inputs(nested().def()).with("x", |x| x % 11.0 - 2.0).written(["N = 200"]);
}
