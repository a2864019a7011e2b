//! Arithmetic on whole tiles, as users of Triton and of arrays write it.

use crate::{below, drawn, near, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::arithmetic::{in_range, lattice, lion, median, widened};

#[test]
fn a_step_by_the_sign() {
    for n in [0, 1, 1500, 2048] {
        let (g, m, p) = (drawn(n, 1), drawn(n, 2), drawn(n, 3));

        let args = [
            Arg::number(0.01f32),
            Arg::number(0.1f32),
            Arg::tensor(&g, [n]),
            Arg::in_out(&m, [n]),
            Arg::in_out(&p, [n]),
        ];
        written(lion().def(), &args);
    }
}

/// Each channel of each image with mean 0 and variance 1, by the moments of pieces of any number.
#[kernel]
fn instance_norm<const B: usize = 512>(
    eps: f32,
    x: &Tensor<f32, (P, C, N)>,
    gamma: &Tensor<f32, C>,
    beta: &Tensor<f32, C>,
    y: &mut Tensor<f32, (P, C, N)>,
) {
    let x = tile(x, (B, 1, 1), (_, block.x, block.y))[(_, 0, 0, _)];
    let y = tile(y, (B, 1, 1), (_, block.x, block.y))[(_, 0, 0, _)];
    let merge = |(n, mean, m2), (k, other, o2)| {
        let (all, d) = (n + k, other - mean);
        if all == 0.0 { (0.0, 0.0, 0.0) } else { (all, mean + d * k / all, m2 + o2 + d * d * n * k / all) }
    };
    let mut moments = (full::<f32>(1, 0.0), full::<f32>(1, 0.0), full::<f32>(1, 0.0));
    for j in 0..x.size(1) {
        let here = reduce(map(x[(_, j)], |x| (1.0, x, 0.0)), (0.0, 0.0, 0.0), merge);
        moments = merge(moments, here);
    }
    let scale = rsqrt(moments.2 / P as f32 + eps) * gamma[(block.x)];
    for j in 0..x.size(1) {
        copy((x[(_, j)] - moments.1) * scale + beta[(block.x)], y[(_, j)]);
    }
}

#[test]
fn instances_are_normal() {
    for (p, c, n) in [(700, 3, 2), (1, 1, 1), (512, 2, 1), (3, 0, 2)] {
        let (x, gamma, beta) = (drawn(p * c * n, 1), drawn(c, 2), drawn(c, 3));
        let args = [
            Arg::number(1e-3f32),
            Arg::tensor(&x, [p, c, n]),
            Arg::tensor(&gamma, [c]),
            Arg::tensor(&beta, [c]),
            Arg::output::<f32>([p, c, n]),
        ];
        near(instance_norm().def(), &args, 1e-4);
    }
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
    for (m, n, k) in [(33, 40, 17), (1, 1, 1), (32, 32, 16), (5, 3, 100)] {
        let (a, b) = (drawn(m * k, 1), drawn(n * k, 2));
        written(cosines().def(), &[rows(&a, m, k), rows(&b, n, k), rows_out(m, n)]);
    }
}

#[test]
fn densities_move_and_relax() {
    for (w, h) in [(65, 5), (1, 1), (7, 9)] {
        let f: Vec<f32> = drawn(w * h * 9, 1).iter().map(|x| 1.0 + 0.1 * x).collect();
        let args = [Arg::number(1.2f32), Arg::tensor(&f, [w, h, 9]), Arg::output::<f32>([w, h, 9])];
        near(lattice().def(), &args, 1e-5);
    }
}

#[test]
fn medians_of_nine() {
    for (w, h) in [(40, 9), (1, 1), (32, 8), (3, 1)] {
        let x = drawn(w * h, 1);
        written(median().def(), &[Arg::tensor(&x, [w, h]), Arg::output::<f32>([w, h])]);
    }
}

#[test]
fn signals_are_widened() {
    for (l, c, o) in [(130, 3, 2), (1, 1, 1), (128, 2, 3)] {
        let (x, k) = (drawn(l * c, 1), drawn(4 * c * o, 2));

        let args = [Arg::tensor(&x, [l, c]), Arg::tensor(&k, [4, c, o]), Arg::output::<f32>([2, l, o])];
        written(widened().def(), &args);
    }
}

#[test]
fn masks_have_names() {
    for n in [1, 1024, 3000] {
        let x = below(100, n, 1);

        let args = [
            Arg::number(20i32),
            Arg::number(60i32),
            Arg::tensor(&x, [n]),
            Arg::output::<i32>([n]),
            Arg::in_out(&[0i32; 2], [2]),
        ];
        written(in_range().def(), &args);
    }
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
    for n in [1, 64, 99, 200] {
        let x = drawn(n, 2);

        let args = [
            Arg::number(1i32),
            Arg::tensor(&[3.0f32, 5.0], [2]),
            Arg::tensor(&x, [n]),
            Arg::output::<f32>([n]),
        ];
        written(chosen().def(), &args);
    }
}
