//! Dropout. Random words depend on the seed, the offset and the coordinates of an element alone, so the backward pass recomputes the mask:
//! it applies the kernel to gradients, with the same numbers.

use tilewright::prelude::*;

/// One step of Philox 4x32: the next counter, with this key.
#[device]
fn philox_step(a: u32, b: u32, c: u32, d: u32, k: u32, l: u32) -> (u32, u32, u32, u32) {
    (mul_high(c, 3449720151) ^ b ^ k, c * 3449720151, mul_high(a, 3528531795) ^ d ^ l, a * 3528531795)
}

/// Philox 4x32-10: four random words of a counter of four words and a key of two, as tiles.
#[device]
pub fn philox(a: View, b: View, c: View, d: View, key: u64) -> (View, View, View, View) {
    use self::philox_step;
    let mut counter = (a, b, c, d);
    for r in unroll(0..10) {
        counter = map(counter, |a, b, c, d| {
            let (k, l) = (key as u32, (key >> 32) as u32);
            philox_step(a, b, c, d, k + 2654435769u32 * (r as u32), l + 3144134277u32 * (r as u32))
        });
    }
    counter
}

/// y = x / (1 - p), or 0 with probability p, rounded to a multiple of 2^-16. Eight neighbours of a row have the halves of the words of one
/// counter.
#[kernel(T = bf16 | f16 | f32)]
pub fn dropout<T>(
    p: f32,
    seed: u64,
    offset: u64,
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    use self::philox;
    let (n, i) = walk((ceil_div(N, 2048), M), block.x);
    let x = map(regroup(tile(x, (1, 2048), (i, n)), (8, 256)), |x| x as f32);
    let mut dropped = x;
    let column = map(iota(256), |t| (256 * n + t) as u32);
    let (row, scale) = map(column, |_| (i as u32, if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 }));
    let (low, high, least) =
        map(column, |_| (offset as u32, (offset >> 32) as u32, (p * 65536.0 + 0.5) as u32));
    let (a, b, c, d) = philox(column, row, low, high, seed);
    for (k, words) in ((0, a), (1, b), (2, c), (3, d)) {
        for half in unroll(0..2) {
            dropped[(2 * k + half, _)] =
                map((x[(2 * k + half, _)], words, scale, least), |x, word, scale, least| {
                    if (word >> (16 * half as u32)) & 65535 >= least { x * scale } else { 0.0 }
                });
        }
    }
    copy(dropped, regroup(tile(y, (1, 2048), (i, n)), (8, 256)));
}
