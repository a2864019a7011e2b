use tilewright::prelude::*;

#[kernel(arch = 90)]
fn without_a_producer(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    persistent(alternate = true);
    copy(map(tile(x, 1024, block.x), |x| x * 2.0), tile(y, 1024, block.x));
}

#[kernel(arch = 90)]
fn by_number(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    persistent(alternate = 2);
    copy(map(tile(x, 1024, block.x), |x| x * 2.0), tile(y, 1024, block.x));
}

#[kernel(arch = 90)]
fn with_sums_of_rows(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, M>,
) {
    persistent(alternate = true);
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(sum(acc, 1)[(_, 0)], tile(c, 64, block.x));
}

fn main() {
    println!("{}", without_a_producer().source());
    println!("{}", by_number().source());
    println!("{}", with_sums_of_rows().source());
}
