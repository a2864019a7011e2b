//! Shifted, overlapping, permuted and broadcast tiles, and raster orders: each kernel compared with
//! its text, in every variant, at sizes that tiles do not divide.

use tilewright_sim::Arg;
use tilewright_tests::views::*;

use crate::{check, check_output};

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed * 3) % 11) as f32 - 5.0).collect()
}

#[test]
fn halos_overlap() {
    for (m, n) in [(32, 8), (64, 16), (33, 9), (1, 1), (70, 21)] {
        let x = numbers(m * n, 1);
        check(five_points().def(), &[Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n])]);
    }
}

#[test]
fn edges_are_repeated() {
    for [l, m, n] in [[32, 4, 2], [33, 5, 3], [1, 1, 1], [40, 9, 4]] {
        let x = numbers(l * m * n, 1);
        check(seven_points().def(), &[Arg::tensor(&x, [l, m, n]), Arg::output::<f32>([l, m, n])]);
    }
}

#[test]
fn diagonals_are_shifted_vectors() {
    for n in [1, 64, 67, 200] {
        let (a, x) = (numbers(n * 5, 1), numbers(n, 2));
        check(banded().def(), &[Arg::tensor(&a, [n, 5]), Arg::tensor(&x, [n]), Arg::output::<f32>([n])]);
    }
}

#[test]
fn windows_are_shifted_tiles() {
    for (h, w, c, o) in [(16, 8, 1, 1), (19, 11, 3, 2), (1, 1, 2, 3)] {
        let (x, f) = (numbers(h * w * c, 1), numbers(o * 9 * c, 2));
        let args = [Arg::tensor(&x, [h, w, c]), Arg::tensor(&f, [o, 3, 3, c]), Arg::output::<f32>([h, w, o])];
        check(convolution().def(), &args);
    }
}

#[test]
fn modes_change_their_order() {
    for (m, n) in [(32, 16), (64, 48), (37, 21), (1, 5)] {
        let x = numbers(m * n, 1);
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([n, m]), Arg::output::<f32>([n, m])];
        check(transposed().def(), &args);
    }
}

#[test]
fn walks_come_to_every_tile() {
    for (m, n) in [(16, 8), (48, 80), (117, 43), (1, 1), (20, 100)] {
        let (x, row, column) = (numbers(m * n, 1), numbers(n, 2), numbers(m, 3));
        let args = [
            Arg::tensor(&x, [m, n]),
            Arg::tensor(&row, [n]),
            Arg::tensor(&column, [m]),
            Arg::output::<f32>([m, n]),
        ];
        check(biased().def(), &args);
    }
    // Whole tiles need no bounds checks, in any raster order.
    assert!(!biased().source().contains("if ("), "{}", biased().source());
    for (m, n) in [(70, 50), (16, 8), (33, 24), (128, 1), (64, 48)] {
        let x = numbers(m * n, 1);
        check(clustered().def(), &[Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n])]);
    }
    let x = numbers(64 * 48, 1);
    check(ordered().def(), &[Arg::tensor(&x, [64, 48]), Arg::output::<f32>([64, 48])]);
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
            check_output(
                def,
                &[Arg::tensor(&x, [n]), Arg::in_out(&vec![0.0f32; n], [n])],
                "y",
                &vec![1.0f32; n],
            );
        }
        let sum: f32 = x.iter().take(7).sum();
        check_output(
            along::sums().def(),
            &[Arg::tensor(&x, [n]), Arg::output::<f32>([2])],
            "y",
            &[sum, 30.0 * sum],
        );
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
    let args = [Arg::tensor(&x, [8]), Arg::output::<f32>([8]), Arg::output::<f32>([1])];
    check(indexed::prefixes().def(), &args);
    let x = numbers(16, 2);
    check(indexed::exchanged().def(), &[Arg::in_out(&x, [4, 4])]);
    check(indexed::numbered().def(), &[Arg::output::<f32>([70, 3])]);
}
