use tilewright::prelude::*;

#[kernel]
fn k<const B: usize = 4>(x: &mut Tensor<f32, (M, N)>) {
    let rows = 32 / (B - 4);
    let t = tile(x, (rows, 8), (block.x, block.y));
}

fn main() {}
