#[tilewright::kernel]
fn k(x: &mut tilewright::language::Tensor<f32, (M, N)>) {
    let x = tile(x, (32, 8), (block.x, block.y));
    fill(parallelize(x, tilewright::layout!((32, 8)), thread.x), 0.0);
}

fn main() {}
