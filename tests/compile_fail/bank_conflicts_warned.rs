// A lint at level `warn`: the compiler prefixes its own headline and names the lint.
#![deny(deprecated)]
use tilewright::prelude::*;

#[kernel(allow(uncoalesced))]
fn transpose(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (N, M)>) {
    let s = shared::<f32>(layout!((32, 32)));
    let down = layout!((32, 8));
    copy(parallelize(tile(from, (32, 32), (block.x, block.y)), down, thread.x), parallelize(s, down, thread.x));
    cp_async_wait_all();
    sync_threads();
    let turned = permute(s, (1, 0));
    copy(parallelize(turned, down, thread.x), parallelize(tile(to, (32, 32), (block.y, block.x)), down, thread.x));
}

const K: MatmulKernel<f32> = matmul_kernel!(schedule = (sa = layout!((128, 8) : (8, 1))));

fn main() {}
