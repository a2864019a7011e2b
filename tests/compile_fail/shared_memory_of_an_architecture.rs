use tilewright::prelude::*;

/// The tile fits on sm_90 only, and the kernel names an older architecture.
#[kernel(arch = 80)]
fn shared_memory_of_an_architecture(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
    let s = shared::<f32>((256, 180));
    copy(tile(x, (256, 180), (block.x, block.y)), s);
    copy(permute(s, (1, 0)), tile(y, (180, 256), (block.y, block.x)));
}

fn main() {
    println!("{}", shared_memory_of_an_architecture().source());
}
