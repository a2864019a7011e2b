use tilewright::prelude::*;

#[kernel]
fn registers_regrouped(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let x = regroup(map(tile(x, (2, 1024), (block.x, block.y)), |x| x), (2, 128, 8));
    let shares = x / maximum(abs(x), 1);
    copy(shares, regroup(tile(y, (2, 1024), (block.x, block.y)), (2, 128, 8)));
}

fn main() {
    println!("{}", registers_regrouped().source());
}
