//! Integers and bits, diagonals, butterflies, geometry.

use crate::{below, drawn, every, generated, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::gathers::philox;

/// The largest of each row with their places, in order.
#[kernel]
fn top_k<const W: usize = 512, const K: usize = 5>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    values: &mut Tensor<f32, (M, K), (ldv, _1)>,
    indices: &mut Tensor<i32, (M, K), (ldi, _1)>,
) {
    at_most(N, W);
    let better = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let mut row = map(tile(x, (1, W), (block.x, 0)), |x| x);
    for k in 0..K {
        let (v, i) = reduce(map(row, |x, at| (x, at.1)), (f32::NEG_INFINITY, i32::MAX), better);
        copy(v, tile(values, (1, 1), (block.x, k)));
        copy(i, tile(indices, (1, 1), (block.x, k)));
        row = map(row, |x, at| if at.1 == i { f32::NEG_INFINITY } else { x });
    }
}

#[test]
fn largest_with_places() {
    let (m, n, k) = (3, 300, 5);
    let x = drawn(m * n, 9);
    let args = [rows(&x, m, n), rows_out(m, k), Arg::output::<i32>([m, k]).strides([k, 1])];
    for out in every(generated!(top_k()), &args) {
        let (v, ix) = (out.get::<f32>("values").unwrap(), out.get::<i32>("indices").unwrap());
        for i in 0..m {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|a, b| x[i * n + b].total_cmp(&x[i * n + a]).then(a.cmp(b)));
            for j in 0..k {
                assert_eq!(ix[i * k + j] as usize, order[j]);
                assert_eq!(v[i * k + j], x[i * n + order[j]]);
            }
        }
    }
}

#[test]
fn numbers_of_philox() {
    let n = 1500;
    let x = drawn(n, 3);
    let args = [
        Arg::number(77u32),
        Arg::number(0.75f32),
        Arg::tensor(&x, [n]),
        Arg::output::<f32>([n]),
        Arg::output::<u32>([n]),
    ];
    written(philox().def(), &args);
}

/// Weights of 4 bits, eight in a word, with scales of groups.
#[kernel(allow(uncoalesced))]
fn unpack(
    w: &Tensor<u32, (K, M), (ldw, _1)>,
    scale: &Tensor<f16, { (ceil_div(K, 16), M) }, (lds, _1)>,
    y: &mut Tensor<f16, (_8, K, M), (_1, ldy, l8)>,
) {
    let g = tile(w, (16, 64), (block.x, block.y));
    let s = tile(scale, (1, 64), (block.x, block.y));
    let y = tile(y, (8, 16, 64), (0, block.x, block.y));
    for i in unroll(0..8) {
        copy(map((g, s), |w, s| ((w >> (4 * i)) & 0xF) as f16 * s), y[(i, _, _)]);
    }
}

#[test]
fn unpacked_words() {
    let (k, m) = (20, 70);
    let w: Vec<u32> =
        below(i32::MAX, k * m, 5).into_iter().map(|w| (w as u32).wrapping_mul(2654435761)).collect();
    let scale: Vec<f16> = drawn(2 * m, 6).into_iter().map(f16::from_f32).collect();
    let args = [
        Arg::tensor(&w, [k, m]).strides([m, 1]),
        Arg::tensor(&scale, [2, m]).strides([m, 1]),
        Arg::output::<f16>([8, k, m]).strides([1, 8 * m, 8]),
    ];
    written(unpack().def(), &args);
}

/// The edit distance of two texts, one diagonal after another.
#[kernel(threads = 128)]
fn edit_distance(
    a: &Tensor<u8, (M, B), (_1, lda)>,
    b: &Tensor<u8, (N, B), (_1, ldb)>,
    d: &mut Tensor<i32, B>,
) {
    at_most(M, 127);
    at_most(N, 100000);
    let (two, one, now) =
        (shared::<i32>(layout!((128))), shared::<i32>(layout!((128))), shared::<i32>(layout!((128))));
    let t = layout!(128);
    let (p2, p1, p0) =
        (parallelize(two, t, thread.x), parallelize(one, t, thread.x), parallelize(now, t, thread.x));
    fill(p2, 0);
    fill(p1, 0);
    sync_threads();
    for s in 0..M + N + 1 {
        let i = thread.x;
        let j = s - i;
        let left = parallelize(shift(one, (-1)), t, thread.x);
        let diagonal = parallelize(shift(two, (-1)), t, thread.x);
        let same = a[(i - 1, block.x)] == b[(j - 1, block.x)];
        map((p1, left, diagonal), p0, |up, left, diag| {
            if i == 0 {
                j
            } else if j == 0 {
                i
            } else {
                min(min(up, left) + 1, diag + (!same) as i32)
            }
        });
        sync_threads();
        copy(p1, p2);
        copy(p0, p1);
        sync_threads();
    }
    copy(now[(M)], d[(block.x)]);
}

#[test]
fn distances_of_texts() {
    let (m, n, b) = (20, 30, 2);
    let (x, y): (Vec<u8>, Vec<u8>) = (
        below(4, m * b, 1).iter().map(|x| *x as u8).collect(),
        below(4, n * b, 2).iter().map(|x| *x as u8).collect(),
    );
    let args = [
        Arg::tensor(&x, [m, b]).strides([1, m]),
        Arg::tensor(&y, [n, b]).strides([1, n]),
        Arg::output::<i32>([b]),
    ];
    written(edit_distance().def(), &args);
}

/// Paths by way of one more node.
#[kernel]
fn pivot(k: i32, d: &Tensor<f32, (N, N), (ldd, _1)>, e: &mut Tensor<f32, (N, N), (lde, _1)>) {
    let here = tile(d, (8, 128), (block.x, block.y));
    let column = tile(d, (8, 1), (block.x, k));
    let row = tile(d, (1, 128), (k, block.y));
    copy(map((here, column, row), |d, a, b| min(d, a + b)), tile(e, (8, 128), (block.x, block.y)));
}

#[test]
fn paths_by_one_more_node() {
    let n = 150;
    let mut d: Vec<f32> = drawn(n * n, 1).iter().map(|x| x + 5.0).collect();
    for i in 0..n {
        d[i * n + i] = 0.0;
    }
    written(pivot().def(), &[Arg::number(7i32), rows(&d, n, n), rows_out(n, n)]);
}

/// The Hadamard transform of rows.
#[kernel(allow(bank_conflicts))]
fn hadamard<const N: usize = 256>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let s = shared::<f32>((4, N));
    copy(tile(x, (4, N), (block.x, 0)), s);
    for level in unroll(0..8) {
        let h = 1 << level;
        let v = regroup(s, (4, h, 2, N / (2 * h)));
        let (a, b) = map((v[(_, _, 0, _)], v[(_, _, 1, _)]), |a, b| (a + b, a - b));
        copy(a, v[(_, _, 0, _)]);
        copy(b, v[(_, _, 1, _)]);
    }
    copy(map(s, |x| x / 16.0), tile(y, (4, N), (block.x, 0)));
}

#[test]
fn hadamard_transforms() {
    let (m, n) = (5, 256);
    let x = drawn(m * n, 1);
    written(hadamard().def(), &[rows(&x, m, n), rows_out(m, n)]);
}

/// Grey values of interleaved colours.
#[kernel(allow(uncoalesced))]
fn grey(x: &Tensor<u8, (H, W, _3), (ldx, _3, _1)>, y: &mut Tensor<u8, (H, W), (ldy, _1)>) {
    let g = tile(x, (8, 64, 3), (block.x, block.y, 0));
    let out = tile(y, (8, 64), (block.x, block.y));
    map((g[(_, _, 0)], g[(_, _, 1)], g[(_, _, 2)]), out, |r, g, b| {
        round(0.299 * r as f32 + 0.587 * g as f32 + 0.114 * b as f32) as u8
    });
}

#[test]
fn grey_images() {
    let (h, w) = (9, 70);
    let x: Vec<u8> = below(256, h * w * 3, 1).iter().map(|x| *x as u8).collect();
    written(
        grey().def(),
        &[Arg::tensor(&x, [h, w, 3]).strides([w * 3, 3, 1]), Arg::output::<u8>([h, w]).strides([w, 1])],
    );
}

/// How much boxes overlap: intersections over unions.
#[kernel(allow(uncoalesced))]
fn iou(
    a: &Tensor<f32, (M, _4), (_4, _1)>,
    b: &Tensor<f32, (N, _4), (_4, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let (ga, gb) = (tile(a, (32, 4), (block.x, 0)), tile(b, (32, 4), (block.y, 0)));
    let side = |k| (ga[(_, k)].along(0), gb[(_, k)].along(1));
    let (al, bl) = side(0);
    let (at, bt) = side(1);
    let (ar, br) = side(2);
    let (ab, bb) = side(3);
    let out = tile(y, (32, 32), (block.x, block.y));
    map((al, at, ar, ab, bl, bt, br, bb), out, |al, at, ar, ab, bl, bt, br, bb| {
        let w = max(min(ar, br) - max(al, bl), 0.0);
        let h = max(min(ab, bb) - max(at, bt), 0.0);
        let inter = w * h;
        inter / ((ar - al) * (ab - at) + (br - bl) * (bb - bt) - inter)
    });
}

#[test]
fn overlaps_of_boxes() {
    let (m, n) = (40, 35);
    let boxes = |n: usize, s| {
        drawn(n * 4, s)
            .chunks(4)
            .flat_map(|c| [c[0], c[1], c[0] + c[2].abs() + 0.5, c[1] + c[3].abs() + 0.5])
            .collect::<Vec<f32>>()
    };
    let (a, b) = (boxes(m, 1), boxes(n, 2));
    written(iou().def(), &[rows(&a, m, 4), rows(&b, n, 4), rows_out(m, n)]);
}
