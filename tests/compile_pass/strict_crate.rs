//! A crate with strict lints: kernels cause no warning and need no `allow`.
#![deny(warnings, missing_docs, unused, unreachable_pub, clippy::all)]
#![forbid(unsafe_code)]

use tilewright::prelude::*;

/// A constant.
pub const SGEMM: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16), schedule = (pad = 1));

/// A kernel that is never launched.
#[kernel]
pub fn duplicate<const B: usize = 64>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
    let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
    let threads = layout!((32, 8));
    copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
}

fn main() {
    println!("{} {}", SGEMM.source(), duplicate().source());
}
