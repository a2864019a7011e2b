//! Integers and bits: random numbers, packed words, diagonals.

use tilewright::prelude::*;
use tilewright_tests::gathers::philox;
use tilewright_tests::inputs::inputs;

#[test]
fn numbers_of_philox() {
    inputs(philox().def()).set("key = 77, keep = 0.75").written(["N = 1500"]);
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
    inputs(unpack().def()).written(["K = 20, M = 70, ldy = 560, l8 = 8"]);
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
    inputs(edit_distance().def()).below("a", 4).below("b", 4).written(["M = 20, N = 30, B = 2"]);
}
