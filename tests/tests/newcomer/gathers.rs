//! Gathers and scatters: elements that are loaded and stored by indices.

use crate::{below, drawn, every, generated, near, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::gathers::*;

/// A mixture of experts: rows of each are gathered, multiplied by its weights, and stored where its part ends.
#[kernel(allow(bank_conflicts))]
fn grouped_product<const BM: usize = 32, const BN: usize = 32, const BK: usize = 16>(
    offsets: &Tensor<i32, { E + 1 }>,
    rows: &Tensor<i32, R>,
    x: &Tensor<f32, (T, K), (ldx, _1)>,
    w: &Tensor<f32, (N, K, E), (ldw, _1, we)>,
    y: &mut Tensor<f32, (R, N), (ldy, _1)>,
) {
    let e = block.z;
    let start = offsets[(e)];
    let end = offsets[(e + 1)];
    let gw = tile(w, (BN, BK, 1), (block.y, _, e));
    let (sx, sw) = (shared::<f32>((BM, BK)), shared::<f32>((BN, BK)));
    for first in 0..ceil_div(end - start, BM) {
        let m = start + first * BM;
        let mut acc = full::<f32>((BM, BN), 0.0);
        for k in 0..gw.size(3) {
            for i in 0..BM {
                copy(tile(x, (1, BK), (rows[(m + i)], k)), sx[(i, _)].along(1));
            }
            copy(gw[(_, _, 0, k)], sw);
            gemm(sx, sw, &mut acc);
        }
        let out = shift(tile(y, (BM, BN), (0, block.y)), (m, 0));
        scatter(
            (acc, out),
            y,
            |a, _, at| ((if at.0 < end { at.0 } else { -1 }, at.1), a),
            out_of_bounds = -1,
        );
    }
}

#[test]
fn experts_multiply_their_rows() {
    let (e, t, k, n) = (3, 20, 40, 45);
    let offsets = [0i32, 35, 35, 50];
    let r = 50;
    let ids = below(t as i32, r, 3);
    let (x, w) = (drawn(t * k, 1), drawn(e * n * k, 2));
    let args = [
        Arg::tensor(&offsets, [e + 1]),
        Arg::tensor(&ids, [r]),
        rows(&x, t, k),
        Arg::tensor(&w, [n, k, e]).strides([k, 1, n * k]),
        rows_out(r, n),
    ];
    written(grouped_product().def(), &args);
}
#[test]
fn strided_pooling() {
    let (h, w, c) = (17, 70, 1);
    let (oh, ow) = (9, 35);
    let x: Vec<f32> = drawn(h * w * c, 1).iter().map(|x| x - 10.0).collect();
    let args = [
        Arg::tensor(&x, [h, w, c]).strides([w, 1, h * w]),
        Arg::output::<f32>([oh, ow, c]).strides([ow, 1, oh * ow]),
    ];
    written(max_pool().def(), &args);
}

#[test]
fn interpolated_images() {
    let (h, w, p, q) = (7, 9, 13, 40);
    let x = drawn(h * w, 1);
    near(bilinear().def(), &[rows(&x, h, w), rows_out(p, q)], 1e-4);
}

#[test]
fn packed_to_the_front() {
    let n = 700;
    let x = drawn(n, 1);
    let args = [Arg::tensor(&x, [n]), Arg::in_out(&[0i32], [1]), Arg::in_out(&vec![0f32; n], [n])];
    for out in every(generated!(compact()), &args) {
        let mut got: Vec<f32> = out.get::<f32>("y").unwrap().into_iter().filter(|x| *x > 0.0).collect();
        let c = out.get::<i32>("count").unwrap()[0] as usize;
        let mut want: Vec<f32> = x.iter().copied().filter(|x| *x > 0.0).collect();
        assert_eq!(c, want.len());
        got.truncate(c);
        got.sort_by(f32::total_cmp);
        want.sort_by(f32::total_cmp);
        assert_eq!(got, want);
    }
}

#[test]
fn counted_bytes() {
    let n = 3000;
    let x: Vec<u8> = below(256, n, 2).iter().map(|x| *x as u8).collect();
    written(histogram().def(), &[Arg::tensor(&x, [n]), Arg::in_out(&vec![0i32; 256], [256])]);
}

#[test]
fn a_generation_of_life() {
    let (h, w) = (13, 70);
    let x: Vec<u8> = below(2, h * w, 2).iter().map(|x| *x as u8).collect();
    written(
        life().def(),
        &[Arg::tensor(&x, [h, w]).strides([w, 1]), Arg::output::<u8>([h, w]).strides([w, 1])],
    );
}

#[test]
fn sparse_triples() {
    let (m, n, z) = (9, 7, 300);
    let (r, c, v, x) = (below(m as i32, z, 1), below(n as i32, z, 2), drawn(z, 3), drawn(n, 4));
    written(
        coo().def(),
        &[
            Arg::tensor(&r, [z]),
            Arg::tensor(&c, [z]),
            Arg::tensor(&v, [z]),
            Arg::tensor(&x, [n]),
            Arg::in_out(&vec![0f32; m], [m]),
        ],
    );
}
