//! Lists of tensors and of values, and grids that are sums of counts, against plain Rust.

use tilewright_sim::{Arg, Outcome, Simulate};
use tilewright_tests::lists::*;

use crate::{inputs, run};

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| (((n + seed) * 7919 + n / 7) % 201) as f32 / 100.0 - 1.0).collect()
}

#[track_caller]
fn near(outcome: &Outcome, name: &str, expected: impl IntoIterator<Item = f64>) {
    let got = outcome.get::<f32>(name).unwrap();
    let expected: Vec<f64> = expected.into_iter().collect();
    assert_eq!(got.len(), expected.len(), "{name}");
    for (at, (x, y)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(*x) - y).abs() <= 1e-5 * y.abs().max(1.0), "{name} at {at}: {x}, not {y}");
    }
}

#[test]
fn tensors_of_a_list_are_summed() {
    for def in [mean().def(), added().def()] {
        inputs(def).near(1e-6, ["N = 1", "N = 512", "N = 1300"]);
    }
}

/// Optional arguments: a kernel without one has no parameter for it.
#[test]
fn optional_arguments_are_there_or_not() {
    let kernels = [
        (shifted(), [true, true]),
        (shifted!(bias = None), [false, true]),
        (shifted!(before = None), [true, false]),
        (shifted!(bias = None, before = None), [false, false]),
        (shifted().specialize(&[("HAS_BIAS", 0)]).unwrap(), [false, true]),
    ];
    for (kernel, [has_bias, has_before]) in kernels {
        let names: Vec<&str> = kernel.params().iter().map(|param| &*param.name).collect();
        let all = [("x", true), ("bias", has_bias), ("y", true), ("before", has_before)];
        let expected: Vec<&str> = all.iter().filter(|row| row.1).map(|row| row.0).collect();
        assert_eq!(names, expected);
        for (m, n) in [(4, 64), (9, 130)] {
            let (x, bias) = (numbers(m * n, 3), numbers(n, 5));
            let matrix = || Arg::output::<f32>([m, n]).strides([n, 1]);
            let mut args = vec![Arg::tensor(&x, [m, n]).strides([n, 1])];
            args.extend(has_bias.then(|| Arg::tensor(&bias, [n])));
            args.push(matrix());
            args.extend(has_before.then(matrix));
            let sum = |i: usize| f64::from(x[i]) + if has_bias { f64::from(bias[i % n]) } else { 0.0 };
            for done in run(kernel.def(), &args) {
                near(&done, "y", (0..m * n).map(|i| sum(i).max(0.0)));
                if has_before {
                    near(&done, "before", (0..m * n).map(sum));
                }
            }
        }
    }
}

#[test]
fn tensors_of_a_list_have_lengths_of_their_own() {
    for sizes in [vec![1, 700, 256], vec![256, 512, 1024, 3, 255], vec![0, 300, 0], vec![0, 0]] {
        let kernel = adam().specialize(&[("K", sizes.len())]).unwrap();
        let values = |seed: usize| -> Vec<Vec<f32>> {
            sizes.iter().enumerate().map(|(i, n)| numbers(*n, seed + 17 * i)).collect()
        };
        let (g, m, p) = (values(1), values(2), values(3));
        let v: Vec<Vec<f32>> = values(4).iter().map(|v| v.iter().map(|x| x.abs()).collect()).collect();
        let mut args = vec![Arg::number(0.01f32)];
        args.extend(g.iter().map(|x| Arg::tensor(x, [x.len()])));
        for list in [&m, &v, &p] {
            args.extend(list.iter().map(|x| Arg::in_out(x, [x.len()])));
        }
        let blocks: usize = sizes.iter().map(|n| n.div_ceil(256)).sum();
        for done in run(kernel.def(), &args) {
            assert_eq!(done.grid(), [blocks as u32, 1, 1]);
            for i in 0..sizes.len() {
                let one = |at: usize| {
                    let [g, m, v, p] = [&g, &m, &v, &p].map(|list| f64::from(list[i][at]));
                    let (m, v) = (0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g);
                    (m, v, p - 0.01 * m / (v.sqrt() + 1e-8))
                };
                near(&done, &format!("first_{i}"), (0..sizes[i]).map(|at| one(at).0));
                near(&done, &format!("second_{i}"), (0..sizes[i]).map(|at| one(at).1));
                near(&done, &format!("parameters_{i}"), (0..sizes[i]).map(|at| one(at).2));
            }
        }
    }
}

#[test]
fn vectors_are_concatenated() {
    for sizes in [[1, 128, 300, 5], [128, 256, 128, 384], [0, 128, 300, 0], [3, 0, 0, 200]] {
        let xs: Vec<Vec<i32>> = sizes.iter().map(|n| (0..*n).map(|i| i * 37 + n).collect()).collect();
        let expected = xs.concat();
        let n = expected.len();
        let mut args: Vec<Arg> = xs.iter().map(|x| Arg::tensor(x, [x.len()])).collect();
        args.push(Arg::output::<i32>([n]));
        for done in run(concatenated().def(), &args) {
            assert_eq!(done.get::<i32>("y").unwrap(), expected);
        }
        args[4] = Arg::output::<i32>([n + 1]);
        let refused = concatenated().simulate(&args).unwrap_err().to_string();
        assert!(refused.contains("asserts") && refused.contains("the extent 0 of `xs_2`"), "{refused}");
    }
}

#[test]
fn rows_of_several_tables() {
    let (n, d) = (7, 70);
    let rows = [5, 40, 3];
    let ids: Vec<i32> = (0..3 * n).map(|i| (i * 11 % rows[i % 3]) as i32).collect();
    let tables: Vec<Vec<f32>> = rows.iter().enumerate().map(|(i, rows)| numbers(rows * d, i)).collect();
    let mut args = vec![Arg::tensor(&ids, [n, 3]).strides([3, 1])];
    args.extend(tables.iter().zip(rows).map(|(t, rows)| Arg::tensor(t, [rows, d]).strides([d, 1])));
    args.extend((0..3).map(|_| Arg::output::<f32>([n, d]).strides([d, 1])));
    for done in run(looked_up().def(), &args) {
        for i in 0..3 {
            let row = |at: usize| &tables[i][ids[3 * at + i] as usize * d..][..d];
            near(&done, &format!("outs_{i}"), (0..n).flat_map(|at| row(at).iter().map(|x| f64::from(*x))));
        }
    }
}

#[test]
fn lists_of_values_are_unrolled() {
    inputs(stencil().def()).written(["N = 256", "N = 1000"]);
}

#[test]
fn a_walk_over_a_sum_of_counts() {
    for (rows, n) in [([64, 96], 64), ([33, 1], 50), ([1, 200], 31)] {
        let xs: Vec<Vec<f32>> = rows.iter().map(|rows| numbers(rows * n, *rows)).collect();
        let mut args: Vec<Arg> =
            xs.iter().zip(rows).map(|(x, rows)| Arg::tensor(x, [rows, n]).strides([n, 1])).collect();
        args.extend(rows.map(|rows| Arg::output::<f32>([n, rows]).strides([rows, 1])));
        let blocks = (rows[0].div_ceil(32) + rows[1].div_ceil(32)) * n.div_ceil(32);
        for done in run(transposed_pair().def(), &args) {
            assert_eq!(done.grid(), [blocks as u32, 1, 1]);
            for i in 0..2 {
                let expected = (0..n).flat_map(|c| (0..rows[i]).map(move |r| (r, c)));
                near(&done, &format!("ys_{i}"), expected.map(|(r, c)| f64::from(xs[i][r * n + c])));
            }
        }
    }
}

#[test]
fn as_many_blocks_as_the_greater_count() {
    for n in [2, 511, 512, 513, 1537] {
        let x = numbers(n, 3);
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([n.div_ceil(2)]), Arg::output::<f32>([n / 2])];
        for done in run(halves().def(), &args) {
            near(&done, "even", x.iter().step_by(2).map(|x| f64::from(*x)));
            near(&done, "odd", x.iter().skip(1).step_by(2).map(|x| f64::from(*x)));
        }
    }
}
