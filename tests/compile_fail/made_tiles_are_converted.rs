//! Types of tiles that an expression makes, identities of integers, shared tiles of three modes, and edges at places that
//! are read from memory.

use tilewright::prelude::*;

#[kernel]
fn counted(x: &Tensor<f32, N>, y: &mut Tensor<i32, N>) {
    let mut count = full::<i32>(256, 0);
    count += map(tile(x, 256, block.x), |x| if x > 0.0 { 1 } else { 0 });
    copy(count, tile(y, 256, block.x));
}

#[kernel]
fn longest(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let x = map(tile(x, 256, block.x), |x| 2 * x);
    copy(x - maximum(x, out_of_bounds = 0), tile(y, 256, block.x));
}

#[kernel]
fn shortest(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = map(tile(x, 256, block.x), |x| 2.0 * x);
    copy(x - minimum(x, out_of_bounds = 0.0), tile(y, 256, block.x));
}

#[kernel(deny(bank_conflicts))]
fn halves(
    a: &Tensor<f16, (M, _32), (_32, _1)>,
    x: &Tensor<u8, (N, _16), (_16, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let (sa, s) = (shared::<f16>((64, 32)), shared::<f16>((64, 2, 16)));
    let x = tile(x, (64, 16), (block.y, 0));
    copy(tile(a, (64, 32), (block.x, 0)), sa);
    copy(map(x, |x| (x & 15) as f16), s[(_, 0, _)]);
    copy(map(x, |x| (x >> 4) as f16), s[(_, 1, _)]);
    let mut acc = tiled_mma::<f16, f32>(warps = 4).accumulators((64, 64), 0.0);
    gemm(sa, regroup(s, (64, 32)), &mut acc);
    copy(acc, tile(y, (64, 64), (block.x, block.y)));
}

/// Edges at a position that the next iteration has read again.
#[kernel]
fn later(table: &Tensor<i32, P>, x: &Tensor<f32, (N, _32), (_32, _1)>, y: &mut Tensor<f32, (_1, _32), (ldy, _1)>) {
    let s = shared::<f32>((64, 32));
    let mut most = full::<f32>((1, 32), f32::NEG_INFINITY);
    for p in pipelined(0..P, stages = 3) {
        copy(tile(x, (64, 32), (table[(p)], 0)), s);
        let near = map(s, |x| -1.0 - abs(x));
        stage(1);
        most = max(most, maximum(near, 0));
    }
    copy(most, tile(y, (1, 32), (0, 0)));
}

/// So are those that the tile of the previous iteration had.
#[kernel]
fn carried(table: &Tensor<i32, P>, x: &Tensor<f32, (N, _32), (_32, _1)>, y: &mut Tensor<f32, (_1, _32), (ldy, _1)>) {
    let mut most = full::<f32>((1, 32), f32::NEG_INFINITY);
    let mut before = full::<f32>((64, 32), f32::NEG_INFINITY);
    for p in 0..P {
        let now = map(tile(x, (64, 32), (table[(p)], 0)), |x| -1.0 - abs(x));
        most = max(most, maximum(before, 0));
        before = now;
    }
    copy(most, tile(y, (1, 32), (0, 0)));
}

fn main() {}
