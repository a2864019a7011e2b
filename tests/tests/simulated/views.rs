//! Shifted, overlapping, permuted and broadcast tiles, and raster orders: each kernel compared with plain
//! Rust, in every variant, at sizes that tiles do not divide.

use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::views::*;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed * 3) % 11) as f32 - 5.0).collect()
}

#[track_caller]
fn check(kernel: &tilewright::KernelDef, args: &[Arg], output: &str, wanted: &[f32]) {
    let kernel = kernel.generate().unwrap_or_else(|error| panic!("{error:?}"));
    let options = Options { schedules: 3, ..Options::default() };
    for outcome in run_every(&kernel, args, &options).unwrap_or_else(|error| panic!("{error}")) {
        let got = outcome.get::<f32>(output).unwrap();
        assert!(got == wanted, "variant {}: {got:?}\nwanted {wanted:?}", outcome.variant() + 1);
    }
}

#[test]
fn halos_overlap() {
    for (m, n) in [(32, 8), (64, 16), (33, 9), (1, 1), (70, 21)] {
        let x = numbers(m * n, 1);
        let at = |i: i64, j: i64| match (0..m as i64).contains(&i) && (0..n as i64).contains(&j) {
            true => x[i as usize + j as usize * m],
            false => 0.0,
        };
        let one = |index: usize| {
            let (i, j) = ((index % m) as i64, (index / m) as i64);
            at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) - 4.0 * at(i, j)
        };
        let wanted: Vec<f32> = (0..m * n).map(one).collect();
        check(five_points().def(), &[Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n])], "y", &wanted);
    }
}

#[test]
fn edges_are_repeated() {
    for [l, m, n] in [[32, 4, 2], [33, 5, 3], [1, 1, 1], [40, 9, 4]] {
        let x = numbers(l * m * n, 1);
        let at = |i: i64, j: i64, k: i64| {
            let clamp = |at: i64, n: usize| at.clamp(0, n as i64 - 1) as usize;
            x[clamp(i, l) + clamp(j, m) * l + clamp(k, n) * l * m]
        };
        let one = |index: usize| {
            let (i, j, k) = ((index % l) as i64, (index / l % m) as i64, (index / l / m) as i64);
            (-1..2).map(|d| at(i + d, j, k) + at(i, j + d, k) + at(i, j, k + d)).sum::<f32>()
        };
        let wanted: Vec<f32> = (0..l * m * n).map(one).collect();
        check(
            seven_points().def(),
            &[Arg::tensor(&x, [l, m, n]), Arg::output::<f32>([l, m, n])],
            "y",
            &wanted,
        );
    }
}

#[test]
fn diagonals_are_shifted_vectors() {
    for n in [1, 64, 67, 200] {
        let (a, x) = (numbers(n * 5, 1), numbers(n, 2));
        let one = |i: usize| {
            (0..5).filter_map(|d| Some(a[i + d * n] * x.get((i + d).checked_sub(2)?)?)).sum::<f32>()
        };
        let wanted: Vec<f32> = (0..n).map(one).collect();
        check(
            banded().def(),
            &[Arg::tensor(&a, [n, 5]), Arg::tensor(&x, [n]), Arg::output::<f32>([n])],
            "y",
            &wanted,
        );
    }
}

#[test]
fn windows_are_shifted_tiles() {
    for (h, w, c, o) in [(16, 8, 1, 1), (19, 11, 3, 2), (1, 1, 2, 3)] {
        let (x, f) = (numbers(h * w * c, 1), numbers(o * 9 * c, 2));
        let at = |i: i64, j: i64, k: usize| match (0..h as i64).contains(&i) && (0..w as i64).contains(&j) {
            true => x[i as usize + j as usize * h + k * h * w],
            false => 0.0,
        };
        let one = |index: usize| {
            let (i, j, to) = ((index % h) as i64, (index / h % w) as i64, index / h / w);
            let mut sum = 0.0;
            for k in 0..c {
                for r in 0..3 {
                    for s in 0..3 {
                        sum +=
                            at(i + r as i64 - 1, j + s as i64 - 1, k) * f[to + r * o + s * o * 3 + k * o * 9];
                    }
                }
            }
            sum
        };
        let wanted: Vec<f32> = (0..h * w * o).map(one).collect();
        let args = [Arg::tensor(&x, [h, w, c]), Arg::tensor(&f, [o, 3, 3, c]), Arg::output::<f32>([h, w, o])];
        check(convolution().def(), &args, "y", &wanted);
    }
}

#[test]
fn modes_change_their_order() {
    for (m, n) in [(32, 16), (64, 48), (37, 21), (1, 5)] {
        let x = numbers(m * n, 1);
        let wanted: Vec<f32> = (0..m * n).map(|index| x[index / n + index % n * m]).collect();
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([n, m]), Arg::output::<f32>([n, m])];
        check(transposed().def(), &args, "y", &wanted);
        check(transposed().def(), &args, "z", &wanted);
    }
}

#[test]
fn walks_come_to_every_tile() {
    for (m, n) in [(16, 8), (48, 80), (117, 43), (1, 1), (20, 100)] {
        let (x, row, column) = (numbers(m * n, 1), numbers(n, 2), numbers(m, 3));
        let wanted: Vec<f32> =
            (0..m * n).map(|index| x[index] + row[index / m] * 2.0 - column[index % m]).collect();
        let args = [
            Arg::tensor(&x, [m, n]),
            Arg::tensor(&row, [n]),
            Arg::tensor(&column, [m]),
            Arg::output::<f32>([m, n]),
        ];
        check(biased().def(), &args, "y", &wanted);
    }
    // Whole tiles need no bounds checks, in any raster order.
    assert!(!biased().source().contains("if ("), "{}", biased().source());
    for (m, n) in [(70, 50), (16, 8), (33, 24), (128, 1), (64, 48)] {
        let x = numbers(m * n, 1);
        check(clustered().def(), &[Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n])], "y", &x);
    }
    let x = numbers(64 * 48, 1);
    check(ordered().def(), &[Arg::tensor(&x, [64, 48]), Arg::output::<f32>([64, 48])], "y", &x);
}

/// A vector along one mode of a matrix, over more threads than it has elements along the other.
mod along {
    use tilewright::prelude::*;

    #[kernel(allow(unread))]
    pub(super) fn columns(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let t = layout!((8, 32) : (32, 1));
        let one = registers::<f32>((1, 1), 1.0);
        copy(one, parallelize(tile(y, 8, block.x).along(0), t, thread.x, ragged = true), how = "atomic_add");
    }

    #[kernel(allow(unread))]
    pub(super) fn rows(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let t = layout!((4, 8) : (8, 1));
        let one = registers::<f32>((1, 1), 1.0);
        copy(one, parallelize(tile(y, 7, block.x).along(1), t, thread.x, ragged = true), how = "atomic_add");
    }

    /// Stored without atomics: each element by one thread.
    #[kernel(allow(unread))]
    pub(super) fn stored(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let t = layout!((8, 32) : (32, 1));
        let one = registers::<f32>((1, 1), 1.0);
        copy(one, parallelize(tile(y, 8, block.x).along(0), t, thread.x, ragged = true));
    }

    #[kernel(allow(unread))]
    pub(super) fn element(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let one = registers::<f32>((1), 1.0);
        copy(one, parallelize(y[(block.x)], layout!(32), thread.x, ragged = true), how = "atomic_add");
    }

    /// Elements that threads do not have count in no sum: of 8, and of 8 repeated 30 times.
    #[kernel(allow(unbounded))]
    pub(super) fn sums(x: &Tensor<f32, N>, y: &mut Tensor<f32, _2>) {
        let t = layout!((8, 32) : (32, 1));
        let v = tile(x, 7, 0);
        let one = block_sum(map(parallelize(v.along(0), t, thread.x, ragged = true), |x| x));
        let wide = block_sum(map(parallelize(broadcast(v, (_, 30)), t, thread.x, ragged = true), |x| x));
        copy(one, parallelize(tile(y, 1, 0).along(0), layout!((1, 256)), thread.x, ragged = true));
        copy(wide, parallelize(tile(y, 1, 1).along(0), layout!((1, 256)), thread.x, ragged = true));
    }
}

#[test]
fn ragged_partitions_of_added_modes_have_each_element_once() {
    let (columns, rows, stored, element) =
        (along::columns(), along::rows(), along::stored(), along::element());
    let defs = [columns.def(), rows.def(), stored.def(), element.def()];
    for n in [1, 2, 7, 8, 11, 64] {
        let x = numbers(n, 1);
        for def in defs {
            check(def, &[Arg::tensor(&x, [n]), Arg::in_out(&vec![0.0f32; n], [n])], "y", &vec![1.0; n]);
        }
        let sum: f32 = x.iter().take(7).sum();
        check(along::sums().def(), &[Arg::tensor(&x, [n]), Arg::output::<f32>([2])], "y", &[sum, 30.0 * sum]);
    }
}

mod indexed {
    use tilewright::prelude::*;

    /// A short tile in registers that is indexed: each thread has all of it, and one of them stores it.
    #[kernel]
    pub(super) fn prefixes(x: &Tensor<f32, _8>, y: &mut Tensor<f32, _8>, last: &mut Tensor<f32, _1>) {
        let mut sums = map(tile(x, 8, 0), |x| x);
        for i in unroll(1..8) {
            sums[(i)] += sums[(i - 1)];
        }
        copy(sums, tile(y, 8, 0));
        sums -= sums[(0)];
        copy(sums[(7)], last);
    }

    /// A row and a column of a square, whose extents are the same number.
    #[kernel(allow(uncoalesced))]
    pub(super) fn exchanged(x: &mut Tensor<f32, (_4, _4)>) {
        let t = tile(x, (4, 4), (0, 0));
        copy(t[(_, 1)], t[(_, 0)]);
        copy(t[(_, 2)], t[(3, _)]);
    }

    /// Columns of a result, which are written without having been read.
    #[kernel]
    pub(super) fn numbered(x: &mut Tensor<f32, (M, N)>) {
        let t = tile(x, (64, 1), (block.x, block.y))[(_, 0)];
        map(t, t, |_, at| at.0 as f32);
    }
}

#[test]
fn short_modes_are_indexed() {
    let x = numbers(8, 1);
    let sums: Vec<f32> = (1..=8).map(|n| x[..n].iter().sum()).collect();
    let args = [Arg::tensor(&x, [8]), Arg::output::<f32>([8]), Arg::output::<f32>([1])];
    check(indexed::prefixes().def(), &args, "y", &sums);
    check(indexed::prefixes().def(), &args, "last", &[sums[7] - x[0]]);
    let x = numbers(16, 2);
    let mut wanted = x.clone();
    wanted.copy_within(4..8, 0);
    (0..4).for_each(|i| wanted[3 + 4 * i] = x[8 + i]);
    check(indexed::exchanged().def(), &[Arg::in_out(&x, [4, 4])], "x", &wanted);
    let wanted: Vec<f32> = (0..70 * 3).map(|at| (at % 70) as f32).collect();
    check(indexed::numbered().def(), &[Arg::output::<f32>([70, 3])], "x", &wanted);
}
