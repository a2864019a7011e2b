//! Modes of a copy whose bounds are not checked.

use tilewright::prelude::*;

#[kernel]
fn no_such_mode(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let own = registers_like(parallelize(tile(y, 256, block.x), layout!(256), thread.x), 0.0);
    copy(parallelize(tile(x, 256, block.x), layout!(256), thread.x), own, boundary_check = 1);
    copy(own, parallelize(tile(y, 256, block.x), layout!(256), thread.x));
}

#[kernel]
fn the_edge_is_repeated(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let own = registers_like(parallelize(tile(y, 256, block.x), layout!(256), thread.x), 0.0);
    copy(parallelize(tile(x, 256, block.x), layout!(256), thread.x), own, clamp = true, boundary_check = 0);
    copy(own, parallelize(tile(y, 256, block.x), layout!(256), thread.x));
}

#[kernel]
fn k_is_not_checked(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (ga, gb) = (tile(a, (64, 8), (block.x, _)), tile(b, (64, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 8)), shared::<f32>((64, 8)));
    let mut acc = full::<f32>((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3) {
        copy(ga[(_, _, k)], sa, boundary_check = 0);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

#[kernel]
fn rows_are_read(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (64, 8), (block.x, _)), tile(c, (64, 8), (block.x, _)));
    let sa = shared::<f32>((64, 8));
    for k in pipelined(0..ga.size(2), stages = 3) {
        copy(ga[(_, _, k)], sa, boundary_check = 1);
        copy(sa, gc[(_, _, k)]);
    }
}

#[kernel]
fn there_is_no_loop(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    at_most(K, 32);
    let (sa, sb) = (shared::<f32>((64, 32)), shared::<f32>((64, 32)));
    copy(tile(a, (64, 32), (block.x, 0)), sa, boundary_check = 0);
    copy(tile(b, (64, 32), (block.y, 0)), sb);
    let mut acc = full::<f32>((64, 64), 0.0);
    gemm(sa, sb, &mut acc);
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

fn main() {}
