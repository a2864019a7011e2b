//! Products with quantised weights, which have a scale for each group along K.

use crate::{below, drawn, generated, right};
use tilewright::prelude::*;
use tilewright_sim::Arg;

fn halves(count: usize, seed: u64) -> Vec<bf16> {
    drawn(count, seed).into_iter().map(bf16::from_f32).collect()
}

/// Yᵀ = W·Xᵀ on tensor cores: weights of 4 bits, two in a byte, less 8, and a scale for each 128 of K. X has even and odd columns.
#[kernel(allow(uncoalesced))]
fn of_4_bits(
    w: &Tensor<u8, (N, H), (ldw, _1)>,
    scale: &Tensor<bf16, (N, G)>,
    x: &Tensor<bf16, (M, _2, H), (ldx, _1, _2)>,
    y: &mut Tensor<f32, (N, M)>,
) {
    let (w, x) = (tile(w, (64, 64), (block.x, _)), tile(x, (32, 1, 64), (block.y, _, _)));
    let scale = tile(scale, (64, 1), (block.x, _));
    let sw = shared::<u8>((64, 64));
    let (even, odd) = (shared::<bf16>((32, 64)), shared::<bf16>((32, 64)));
    let mut acc = tiled_mma("mma_m16n8k16_bf16", layout!((4, 1))).accumulators((64, 32), 0.0);
    for k in pipelined(0..w.size(2), stages = 2) {
        copy(w[(_, _, k)], sw);
        copy(x[(_, 0, _, 0, k)], even, how = "staged");
        copy(x[(_, 0, _, 1, k)], odd, how = "staged");
        let (low, high) =
            map((sw, scale[(_, _, k)]), |w, s| (((w % 16) as bf16 - 8.0) * s, ((w / 16) as bf16 - 8.0) * s));
        gemm(low, even, &mut acc);
        gemm(high, odd, &mut acc);
    }
    copy(acc, tile(y, (64, 32), (block.x, block.y)));
}

/// W·Xᵀ in double precision, contiguous columns; weights are rounded once they are scaled.
fn product(w: &[f32], scale: &[bf16], x: &[bf16], [n, m, k]: [usize; 3]) -> Vec<f64> {
    let weight = |row: usize, at: usize| {
        f64::from(bf16::from_f32(w[row * k + at] * scale[at / 128 * n + row].to_f32()).to_f32())
    };
    let dot = |row: usize, column: usize| {
        (0..k).map(|at| weight(row, at) * f64::from(x[column * k + at].to_f32())).sum()
    };
    (0..n * m).map(|at| dot(at % n, at / n)).collect()
}

#[test]
fn weights_of_four_bits_in_groups() {
    for [n, m, k] in [[64usize, 32, 256], [70, 33, 200], [3, 5, 24]] {
        let groups = k.div_ceil(128);
        let (scale, x) = (halves(n * groups, 1), halves(m * k, 2));
        let bytes: Vec<u8> = below(256, n * k / 2, 3).into_iter().map(|w| w as u8).collect();
        let wide: Vec<f32> =
            bytes.iter().flat_map(|&w| [w % 16, w / 16]).map(|w| f32::from(w) - 8.0).collect();
        let args = [
            Arg::tensor(&bytes, [n, k / 2]).strides([k / 2, 1]),
            Arg::tensor(&scale, [n, groups]),
            Arg::tensor(&x, [m, 2, k / 2]).strides([k, 1, 2]),
            Arg::output::<f32>([n, m]),
        ];
        right(generated!(of_4_bits()), &args, "y", &product(&wide, &scale, &x, [n, m, k]), 1e-3);
    }
}
