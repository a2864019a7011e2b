use tilewright::prelude::*;

#[kernel]
fn how_unknown(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let threads = layout!((128,));
    let from = parallelize(tile(x, (512,), (block.x)), threads, thread.x);
    let to = parallelize(tile(y, (512,), (block.x)), threads, thread.x);
    copy(from, to, how = "quickly");
    copy(from, to, how = "plain", fill = 1.0);
    copy(from, to, how = "realigned");
}

fn main() {
    println!("{}", how_unknown().source());
}
