use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(schedule = (order = diagonal));

#[kernel]
fn order_unknown(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (ga, gb) = (tile(a, (64, 8), (block.x, 0)), tile(b, (64, 8), (block.y, 0)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let threads = layout!((16, 16));
    let rows = parallelize(ga, threads, thread.x, (1, _));
    let columns = parallelize(gb, threads, thread.x, (_, 1));
    let out = parallelize(gc, threads, thread.x);
    let mut acc = registers_like(out, 0.0);
    gemm(rows, columns, &mut acc, order = "diagonal");
    gemm(rows, columns, &mut acc, orders = "plain");
    copy(acc, out);
}

fn main() {
    println!("{}{}", K.source(), order_unknown().source());
}
