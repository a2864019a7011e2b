use tilewright::prelude::*;

#[kernel]
fn no_thread_layout(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
}

fn main() {
    println!("{}", no_thread_layout().source());
}
