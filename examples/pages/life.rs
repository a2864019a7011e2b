//! Conway's game of life: one generation in a launch, and several.

use tilewright::prelude::*;

/// The next generation. A cell is 1 or 0, and cells outside are 0. One with three neighbours lives on or is born, one with two lives on.
#[kernel]
pub fn life_step(x: &Tensor<u8, (M, N), (ldx, _1)>, y: &mut Tensor<u8, (M, N), (ldy, _1)>) {
    let (t, at) = (layout!((1, 128)), (block.y, block.x));
    let from = tile(x, (16, 128), at);
    let near = |i, j| parallelize(shift(from, (i, j)), t, thread.x);
    let around = near(-1, -1)
        + near(-1, 0)
        + near(-1, 1)
        + near(0, -1)
        + near(0, 1)
        + near(1, -1)
        + near(1, 0)
        + near(1, 1);
    let next = |x, n| if (n == 3) | ((n == 2) & (x == 1)) { 1 } else { 0 };
    map((near(0, 0), around), parallelize(tile(y, (16, 128), at), t, thread.x), next);
}

/// T generations, at most 32. A warp goes through Z rows of 1024 cells, with T rows around them and 32 cells at both sides: a lane has
/// 32 cells as the bits of a word. When it reads row k, it makes row k - t of each generation t from the numbers of living cells among
/// three neighbours in rows k - t - 1 to k - t + 1. These numbers have two bits, `one` and `two`, which are words too.
#[kernel(choose(Z in [1024, 256, 64]))]
pub fn life<const Z: usize, const T: usize = 16>(
    x: &Tensor<u8, (M, N), (ldx, _1)>,
    y: &mut Tensor<u8, (M, N), (ldy, _1)>,
) {
    let (lane, threads) = (thread.x, layout!((1, 32)));
    let first = walk(ceil_div(M, Z), block.y) * Z;
    let cells = registers::<u8>(32, 0);
    let (mut now, mut inside) = (registers::<u32>(1, 0), registers::<u32>(1, 0));
    let (own, one, two) =
        (registers::<u32>((1, T), 0), registers::<u32>((1, 2, T), 0), registers::<u32>((1, 2, T), 0));
    let column = block.x * 960 + (lane - 1) * 32;
    if column >= 0 {
        inside[(0)] = ((1u32 << min(max(N - column, 0), 32)) - 1) as u32;
    }
    for n in 0..Z + 2 * T + 1 {
        fill(now, 0);
        for i in unroll(0..32) {
            now |= (cells[(i)] as u32) << i;
        }
        let from = tile(x, (1, 960), (first + n - T, block.x), halo = (0, 32));
        copy(regroup(parallelize(from, threads, thread.x, values = (1, 32)), 32), cells);
        let k = first + n - T - 1; // the row in `now`
        for t in unroll(0..T) {
            let (left, right) = (warp_shuffle(now, |lane| lane - 1), warp_shuffle(now, |lane| lane + 1));
            let (s, d) = map((left, now, right), |a, b, c| {
                let (l, r) = ((b << 1) | (a >> 31), (b >> 1) | (c << 31));
                (l ^ b ^ r, (l & b) | (r & (l ^ b)))
            });
            let (p, q, u, v) = (one[(_, 0, t)], one[(_, 1, t)], two[(_, 0, t)], two[(_, 1, t)]);
            let next = map((p, q, s, u, v, d, own[(_, t)], inside), |p, q, s, u, v, d, own, inside| {
                // Of all nine: ones, and twos from them; twos, and fours from them.
                let (ones, carried) = (p ^ q ^ s, (p & q) | (s & (p ^ q)));
                let (twos, fours) = (u ^ v ^ d, (u & v) | (d & (u ^ v)));
                let three = ones & (twos ^ carried) & !fours;
                let four = !ones & !(twos ^ carried) & (fours ^ (twos & carried));
                (three | (own & four)) & inside
            });
            one[(_, 0, t)] = q;
            two[(_, 0, t)] = v;
            one[(_, 1, t)] = s;
            two[(_, 1, t)] = d;
            own[(_, t)] = now;
            if (k - t - 1 >= 0) && (k - t - 1 < M) {
                copy(next, now);
            } else {
                fill(now, 0);
            }
        }
        if (n > 2 * T) && (lane > 0) && (lane < 31) {
            let done = registers::<u8>(32, 0);
            for i in unroll(0..32) {
                done[(i)] = ((now[(0)] >> i) & 1) as u8;
            }
            let to = tile(y, (1, 960), (k - T, block.x), halo = (0, 32));
            copy(done, regroup(parallelize(to, threads, thread.x, values = (1, 32)), 32));
        }
    }
}
