use tilewright::prelude::*;

#[kernel]
fn fragments_of_two_products(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (sa, sb) = (shared::<f32>(padded((64, 8), 1)), shared::<f32>(padded((64, 8), 1)));
    let (ga, gb) = (tile(a, (64, 8), (block.x, _)), tile(b, (64, 8), (block.y, _)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let threads = layout!((16, 8));
    let (from_a, to_a) = (parallelize(ga, threads, thread.x), parallelize(sa, threads, thread.x));
    let (from_b, to_b) = (parallelize(gb, threads, thread.x), parallelize(sb, threads, thread.x));
    let (rows, columns) = (parallelize(sa, threads, thread.x, (1, _)), parallelize(sb, threads, thread.x, (_, 1)));
    let out = parallelize(gc, threads, thread.x);
    let mut acc = registers_like(out, 0.0);
    for k in pipelined(0..from_a.size(2), stages = 2, fragments = 2) {
        copy(from_a[(_, _, k)], to_a);
        copy(from_b[(_, _, k)], to_b);
        gemm(rows, columns, &mut acc);
        gemm(rows, columns, &mut acc);
    }
    copy(acc, out);
}

fn main() {
    println!("{}", fragments_of_two_products().source());
}
