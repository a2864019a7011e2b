use tilewright::prelude::*;

#[kernel(arch = 90)]
fn warpgroups_of_types_without_wgmma(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let mut acc = tiled_mma::<f64, f64>(warpgroups = 1).accumulators((64, 64), 0.0);
    copy(ga[(_, _, 0)], tile(c, (64, 64), (block.x, block.y)));
}

fn main() {
    println!("{}", warpgroups_of_types_without_wgmma().source());
}
