//! Shifted, overlapping, permuted and broadcast tiles, and raster orders: each kernel compared with
//! its text, in every variant, at sizes that tiles do not divide.

use tilewright_sim::Arg;
use tilewright_tests::views::*;

use crate::check_output;
use crate::inputs;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed * 3) % 11) as f32 - 5.0).collect()
}

#[test]
fn halos_overlap() {
    inputs(five_points().def()).written([
        "M = 32, N = 8",
        "M = 64, N = 16",
        "M = 33, N = 9",
        "M = 1, N = 1",
        "M = 70, N = 21",
    ]);
}

#[test]
fn edges_are_repeated() {
    inputs(seven_points().def()).written([
        "L = 32, M = 4, N = 2",
        "L = 33, M = 5, N = 3",
        "L = 1, M = 1, N = 1",
        "L = 40, M = 9, N = 4",
    ]);
}

#[test]
fn diagonals_are_shifted_vectors() {
    inputs(banded().def()).written(["N = 1", "N = 64", "N = 67", "N = 200"]);
}

#[test]
fn windows_are_shifted_tiles() {
    inputs(convolution().def()).written([
        "H = 16, W = 8, C = 1, O = 1",
        "H = 19, W = 11, C = 3, O = 2",
        "H = 1, W = 1, C = 2, O = 3",
    ]);
}

#[test]
fn modes_change_their_order() {
    inputs(transposed().def()).written([
        "M = 32, N = 16",
        "M = 64, N = 48",
        "M = 37, N = 21",
        "M = 1, N = 5",
    ]);
}

#[test]
fn walks_come_to_every_tile() {
    inputs(biased().def()).written([
        "M = 16, N = 8",
        "M = 48, N = 80",
        "M = 117, N = 43",
        "M = 1, N = 1",
        "M = 20, N = 100",
    ]);
    // Whole tiles need no bounds checks, in any raster order.
    assert!(!biased().source().contains("if ("), "{}", biased().source());
    inputs(clustered().def()).written([
        "M = 70, N = 50",
        "M = 16, N = 8",
        "M = 33, N = 24",
        "M = 128, N = 1",
        "M = 64, N = 48",
    ]);
    inputs(ordered().def()).written([""]);
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
    inputs(indexed::prefixes().def()).written([""]);
    inputs(indexed::exchanged().def()).with("x", |x| x).written([""]);
    inputs(indexed::numbered().def()).written(["M = 70, N = 3"]);
}
