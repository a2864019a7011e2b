//! Exchanges between lanes that not all lanes reach, of whole tiles, of other elements.

use tilewright::prelude::*;

#[kernel]
fn some_lanes(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    if thread.x < 16 {
        copy(warp_shuffle(x, |lane| lane ^ 1), y);
    }
}

#[kernel]
fn whole_tiles(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(warp_shuffle(tile(x, 256, block.x), |lane| lane ^ 1), tile(y, 256, block.x));
}

#[kernel]
fn groups_of_six(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    copy(warp_shuffle(x, |lane| lane ^ 1, lanes = 6), y);
}

#[kernel]
fn two_lanes(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    copy(warp_shuffle(x, |lane, other| lane ^ other), y);
}

#[kernel]
fn fractions(x: &Tensor<f32, N>, y: &mut Tensor<u32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    copy(warp_match(x), y);
    copy(warp_ballot(x), y);
    copy(warp_shuffle(x, 0.5), x);
    copy(warp_shuffle(x, x), x);
}

#[kernel]
fn integers_alone(x: &Tensor<i32, N>, y: &mut Tensor<u32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    copy(warp_ballot(x >= 0), y);
}

#[kernel]
fn unknown_edges(x: &Tensor<f32, N>, y: &mut Tensor<u32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    let other = warp_shuffle(x, |lane| lane ^ 1);
    copy(warp_ballot(other >= 0.0), y);
}

#[kernel]
fn true_out_of_bounds(x: &Tensor<f32, N>, y: &mut Tensor<u32, N>) {
    let t = layout!(256);
    let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
    copy(warp_ballot(x >= 0.0, out_of_bounds = true), y);
}

#[kernel]
fn words_of_cuda(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let a = __shfl_xor_sync(0xffffffff, x, 1);
    let b = __ballot_sync(0xffffffff, x);
    let c = __match_any_sync(0xffffffff, x);
    let d = lane_id();
}

fn main() {}
