use tilewright::prelude::*;

#[kernel]
fn no_thread_layout(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let r = registers::<f32>((4, 1), 0.0);
    map(r, r, |v| v + 1.0);
}

fn main() {
    println!("{}", no_thread_layout().source());
}
