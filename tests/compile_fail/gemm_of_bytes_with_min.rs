use tilewright::prelude::*;

#[kernel(allow(uncoalesced))]
fn gemm_of_bytes_with_min(a: &Tensor<u8, (M, K)>, b: &Tensor<u8, (N, K)>, c: &mut Tensor<i32, (M, N)>) {
    let t = layout!((8, 4));
    let (a, b) = (tile(a, (16, 4), (block.x, _)), tile(b, (8, 4), (block.y, _)));
    let (a, b) = (parallelize(a, t, thread.x, (1, _)), parallelize(b, t, thread.x, (_, 1)));
    let c = parallelize(tile(c, (16, 8), (block.x, block.y)), t, thread.x);
    let mut sums = registers_like(c, 1000);
    for k in 0..a.size(2) {
        gemm(a[(_, _, k)], b[(_, _, k)], &mut sums, with = (min, add));
    }
    copy(sums, c);
}

fn main() {
    println!("{}", gemm_of_bytes_with_min().source());
}
