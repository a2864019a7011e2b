//! Arithmetic on whole tiles, as users of Triton and of arrays write it.

use tilewright::prelude::*;
use tilewright_tests::arithmetic::{in_range, lattice, lion, median, widened};
use tilewright_tests::inputs::inputs;

#[test]
fn a_step_by_the_sign() {
    inputs(lion().def())
        .set("lr = 0.01, decay = 0.1")
        .with("m", |x| x)
        .with("p", |x| x)
        .written(["N = 0", "N = 1", "N = 1500", "N = 2048"]);
}

/// The cosines of the angles between the rows of two matrices.
#[kernel(allow(bank_conflicts))]
fn cosines(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let mut dots = full::<f32>((32, 32), 0.0);
    let (mut aa, mut bb) = (full::<f32>((32, 1), 0.0), full::<f32>((32, 1), 0.0));
    for k in pipelined(0..ga.size(2), stages = 2) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut dots);
        aa += sum(sa * sa, 1);
        bb += sum(sb * sb, 1);
    }
    copy(dots * rsqrt(aa) * rsqrt(permute(bb, (1, 0))), tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn angles_between_rows() {
    inputs(cosines().def()).written([
        "M = 33, N = 40, K = 17",
        "M = 1, N = 1, K = 1",
        "M = 32, N = 32, K = 16",
        "M = 5, N = 3, K = 100",
    ]);
}

#[test]
fn densities_move_and_relax() {
    inputs(lattice().def())
        .set("omega = 1.2")
        .with("f", |x| 1.0 + 0.1 * x)
        .near(1e-5, ["W = 65, H = 5", "W = 1, H = 1", "W = 7, H = 9"]);
}

#[test]
fn medians_of_nine() {
    inputs(median().def()).written(["W = 40, H = 9", "W = 1, H = 1", "W = 32, H = 8", "W = 3, H = 1"]);
}

#[test]
fn signals_are_widened() {
    inputs(widened().def()).written([
        "L = 130, C = 3, O = 2",
        "L = 1, C = 1, O = 1",
        "L = 128, C = 2, O = 3",
    ]);
}

#[test]
fn masks_have_names() {
    inputs(in_range().def())
        .set("least = 20, most = 60")
        .below("x", 100)
        .zero("totals")
        .written(["N = 1", "N = 1024", "N = 3000"]);
}

/// Elements of a tile that an integer chooses, times one of two numbers.
#[kernel]
fn chosen(n: i32, w: &Tensor<f32, _2>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = tile(x, 64, block.x);
    let factor = if block.x < n { w[(0)] } else { w[(1)] };
    let (short, all) = if N < 100 { (x + 1.0, factor) } else { (x, 2.0 * factor) };
    copy(short * all, tile(y, 64, block.x));
}

#[test]
fn integers_choose_tiles() {
    inputs(chosen().def()).set("n = 1").written(["N = 1", "N = 64", "N = 99", "N = 200"]);
}
