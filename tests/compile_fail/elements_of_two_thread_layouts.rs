use tilewright::prelude::*;

#[kernel(allow(uncoalesced))]
fn elements_of_two_thread_layouts(
    x: &Tensor<f32, (M, N)>,
    y: &Tensor<f32, (M, N)>,
    z: &mut Tensor<f32, (M, N)>,
) {
    let (gx, gy) = (tile(x, (64, 64), (block.x, block.y)), tile(y, (64, 64), (block.x, block.y)));
    let gz = tile(z, (64, 64), (block.x, block.y));
    let tx = parallelize(gx, layout!((16, 16)), thread.x);
    let ty = parallelize(gy, layout!((16, 16) : (16, 1)), thread.x);
    let tz = parallelize(gz, layout!((16, 16)), thread.x);
    copy(map((tx, ty), |x, y| x + y), tz);
}

fn main() {
    println!("{}", elements_of_two_thread_layouts().source());
}
