//! Rows in order.

use tilewright::prelude::*;

/// Rows in ascending order, and where each element was; equal elements keep their order. N / 32 threads sort a row of at most N
/// elements by bitonic merges. Each thread has 32 elements in registers: neighbours, or elements that are N / 32 apart.
#[kernel(choose(N in [1024, 512, 256, 128, 64]))]
pub fn sort_rows<const N: usize>(
    x: &Tensor<f32, (L, M), (_1, ldx)>,
    y: &mut Tensor<f32, (L, M), (_1, ldy)>,
    order: &mut Tensor<i32, (L, M), (_1, ldo)>,
) {
    assert(L <= N);
    let t = N / 32; // threads of a row
    let rows = 128 / t; // of a block
    let threads = layout!((t, rows));
    let gx = parallelize(tile(x, (N, rows), (0, block.x)), threads, thread.x);
    let gy = parallelize(tile(y, (N, rows), (0, block.x)), threads, thread.x);
    let go = parallelize(tile(order, (N, rows), (0, block.x)), threads, thread.x);
    blocks_per_sm(4);
    let s = shared::<f64>(layout!(((32, t), rows) : ((1, 33), 33 * t)));
    let near = regroup(parallelize(regroup(s, (32, t, rows)), layout!((1, t, rows)), thread.x), (32, 1));
    let apart = parallelize(regroup(s, (N, rows)), threads, thread.x);

    // A key has the order of the number, NaN last, and below it the element's index, in 42 bits. As an f64 it is compared by one
    // instruction, where 64-bit integers take two.
    let ordered = |bits| bits ^ ((bits >> 31) & i32::MAX);
    let sign = 1u32 << 31;
    let keys = registers::<f64>((32, 1), 0.0);
    map(gx, keys, |x, at| {
        let number = if at.0 < L { ordered(bits::<i32>(x)) } else { i32::MAX };
        bits::<f64>(((((number as u32) ^ sign) as u64) << 10) | (at.0 as u64))
    });
    let up = |a, b| (if a < b { a } else { b }, if a < b { b } else { a });
    let down = |a, b| (if a < b { b } else { a }, if a < b { a } else { b });

    // Runs of 2, 4, … 32 keys, every second one downwards except for the last.
    for k in unroll(0..5) {
        for step in unroll(0..k + 1) {
            let distance = 1 << (k - step);
            let turns = if k < 4 { 2 } else { 1 };
            let u = regroup(keys, (distance, 2, (1 << k) / distance, turns, (16 >> k) / turns));
            let (a, b) = (u[(_, 0, _, 0, _)], u[(_, 1, _, 0, _)]);
            map((a, b), (a, b), up);
            if turns == 2 {
                let (a, b) = (u[(_, 0, _, 1, _)], u[(_, 1, _, 1, _)]);
                map((a, b), (a, b), down);
            }
        }
    }
    // Two runs become one.
    for m in unroll(0..5) {
        let run = 32 << m;
        if run < N {
            copy(keys, near);
            sync_threads();
            // The second run backwards.
            map(gx, keys, |_, at| s[(if (at.0 & run) == 0 { at.0 } else { at.0 ^ (run - 1) }, thread.x / t)]);
            for step in unroll(0..m + 6) {
                if step == m + 1 {
                    sync_threads();
                    copy(keys, apart);
                    sync_threads();
                    copy(near, keys);
                }
                let distance = if step <= m { (run / t) >> step } else { 16 >> (step - m - 1) };
                let u = regroup(keys, (distance, 2, 16 / distance));
                let (a, b) = (u[(_, 0, _)], u[(_, 1, _)]);
                map((a, b), (a, b), up);
            }
        }
    }
    copy(keys, near);
    sync_threads();
    map(apart, (gy, go), |key| {
        let key = bits::<u64>(key);
        (bits::<f32>(ordered(((key >> 10) as u32 ^ sign) as i32)), (key & 1023) as i32)
    });
}
