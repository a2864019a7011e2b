//! Legal code that is probably not meant, with lints as errors.

use tilewright::prelude::*;

/// The rest of K is left out.
#[kernel(deny(covered))]
fn rounded_down(a: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>) {
    let a = tile(a, (64, 16), (block.x, _));
    let mut total = full::<f32>((64, 1), 0.0);
    for k in 0..K / 16 {
        total += sum(a[(_, _, k)], 1);
    }
    copy(total[(_, 0)], tile(y, 64, block.x));
}

/// The extent of the tile's second mode, for the number of tiles.
#[kernel(deny(covered))]
fn wrong_mode(a: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>) {
    let a = tile(a, (64, 16), (block.x, _));
    let mut total = full::<f32>((64, 1), 0.0);
    for k in 0..a.size(1) {
        total += sum(a[(_, _, k)], 1);
    }
    copy(total[(_, 0)], tile(y, 64, block.x));
}

/// Rows may be longer.
#[kernel(deny(unbounded))]
fn softmax(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let x = map(tile(x, (1, 1024), (block.x, 0)), |x| x);
    let grown = exp(x - maximum(x));
    copy(grown / sum(grown), tile(y, (1, 1024), (block.x, 0)));
}

/// K and L may differ.
#[kernel(deny(contracted))]
fn two_sizes(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, L)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (64, 16), (block.x, _)), tile(b, (64, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 16)), shared::<f32>((64, 16)));
    let mut acc = full::<f32>((64, 64), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// Each element is compared with 1.
#[kernel(deny(elementwise))]
fn greater_of_two(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    at_most(N, 128);
    let x = tile(x, (4, 128), (block.x, 0));
    copy(x - max(x, 1), tile(y, (4, 128), (block.x, 0)));
}

/// Multiply-adds instead of tensor cores.
#[kernel(deny(cuda_cores))]
fn by_multiply_adds(a: &Tensor<bf16, (M, K)>, b: &Tensor<bf16, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (64, 16), (block.x, _)), tile(b, (64, 16), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 16)), shared::<bf16>((64, 16)));
    let mut acc = full::<f32>((64, 64), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

fn main() {}
