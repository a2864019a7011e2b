//! Rows in order.

use tilewright::prelude::*;

/// Puts neighbours of t threads in order: each even item and the next one, each odd item and the next one, and the first ones again.
#[device]
fn exchange_neighbours(items: &mut View, lane: usize, t: usize) {
    let both = |a, b| (if a < b { a } else { b }, if a < b { b } else { a });
    let pairs = regroup(items, (2, 16));
    map((pairs[(0, _)], pairs[(1, _)]), (pairs[(0, _)], pairs[(1, _)]), both);
    let (before, after) =
        (warp_shuffle(items[(31, 0)], |lane| lane - 1), warp_shuffle(items[(0, 0)], |lane| lane + 1));
    for i in unroll(1..16) {
        let (a, b) = (2 * i - 1, 2 * i);
        map((items[(a, 0)], items[(b, 0)]), (items[(a, 0)], items[(b, 0)]), both);
    }
    map((before, items[(0, 0)]), items[(0, 0)], |a, b| if lane > 0 && a > b { a } else { b });
    map((after, items[(31, 0)]), items[(31, 0)], |a, b| if lane < t - 1 && a < b { a } else { b });
    map((pairs[(0, _)], pairs[(1, _)]), (pairs[(0, _)], pairs[(1, _)]), both);
}

/// Rows in ascending order, NaN last, and where each element was; equal elements keep their order. N / 32 threads sort a row of at most N
/// elements. They put words of 32 bits in order: the upper bits of an element's key, and below them its position. After that the few
/// elements whose upper bits are equal may be out of order. Most of them are neighbours, and exchanged; otherwise the row is ordered by the
/// lower bits, and then by the upper bits again.
#[kernel(choose(N in [1024, 512, 256, 128, 64]))]
pub fn sort_rows<const N: usize>(
    x: &Tensor<f32, (L, M), (_1, ldx)>,
    y: &mut Tensor<f32, (L, M), (_1, ldy)>,
    order: &mut Tensor<i32, (L, M), (_1, ldo)>,
) {
    use self::exchange_neighbours;
    use super::merges::order_words;
    assert(L <= N);
    blocks_per_sm(4);
    let t = N / 32; // threads of a row
    let (lane, row, rows) = (thread.x % t, thread.x / t, 128 / t);
    let threads = layout!((t, rows));
    let part = |of| parallelize(tile(of, (N, rows), (0, block.x)), threads, thread.x);
    let (gx, gy, go) = (part(x), part(y), part(order));
    let s = shared::<f64>(layout!(((32, t), rows) : ((1, 33), 33 * t)));
    let near = regroup(parallelize(regroup(s, (32, t, rows)), layout!((1, t, rows)), thread.x), (32, 1));
    let apart = parallelize(regroup(s, (N, rows)), threads, thread.x);

    // A key has the order of the number, NaN last, also NaN with a sign: keys begin at -∞. An item is a key and below it the element's index, in 42 bits. As an f64 it is
    // compared by one instruction, where 64-bit integers take two.
    let ordered = |bits| bits ^ ((bits >> 31) & i32::MAX);
    let least = 0x807f_ffffu32; // `ordered` of -∞
    let keys = map(gx, |x, at| if at.0 < L { ordered(bits::<i32>(x)) as u32 - least } else { u32::MAX });
    map((keys, gx), apart, |key, _, at| bits::<f64>(((key as u64) << 10) | (at.0 as u64)));
    let key = |item| (bits::<u64>(item) >> 10) as u32;
    // Words have the keys less the least one, without the lowest bits where these do not fit above positions.
    let low = warp_reduce(minimum(keys), u32::MAX, |a, b| min(a, b), lanes = t);
    let high = warp_reduce(maximum(keys), 0, |a, b| max(a, b), lanes = t);
    let lost = map((low, high), |low, high| {
        let most = if L < N { u32::MAX } else { high };
        max(count_ones((N - 1) as u32) as i32 - leading_zeros(most - low) as i32, 0) as u32
    });

    for pass in 0..3 {
        sync_threads();
        let mut words = map((apart, gx, low, lost), |item, _, low, lost, at| {
            let off = key(item) - low;
            let part = if pass == 1 { off & ((1u32 << lost) - 1) } else { off >> lost };
            part * N as u32 + at.0 as u32
        });
        order_words(&mut words, N, lane);
        let mut items = map(words, |word| s[((word & (N as u32 - 1)) as i32, row)]);
        sync_threads();
        if pass == 0 {
            exchange_neighbours(&mut items, lane, t);
        }
        copy(items, near);
        let after = warp_shuffle(items[(0, 0)], |lane| lane + 1);
        // After the pass over the lower bits one more pass must follow.
        let is_wrong = |a, b| pass == 1 || lane < t - 1 && a > b;
        let mut wrong = map((items[(31, 0)], after), |a, b| is_wrong(a, b) as i32);
        for i in unroll(1..16) {
            wrong = map((wrong, items[(2 * i - 1, 0)], items[(2 * i, 0)]), |n, a, b| n + (a > b) as i32);
        }
        if block_sum(wrong, out_of_bounds = 0) == 0 {
            break;
        }
    }
    sync_threads();
    let number = |item| bits::<f32>(ordered((key(item) + least) as i32));
    map(apart, (gy, go), |item| (number(item), (bits::<u64>(item) & 1023) as i32));
}
