use tilewright::prelude::*;

#[kernel(threads = 2048)]
fn threads_of_the_attribute(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

#[kernel(threads = 128, arch = 80, threads = 256)]
fn twice(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

#[kernel(threads = 128)]
fn not_those_of_a_partition(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(256);
    copy(parallelize(tile(x, 1024, block.x), t, thread.x), parallelize(tile(y, 1024, block.x), t, thread.x));
}

#[kernel(threads = 128)]
fn not_those_of_a_call(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    threads(256);
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

#[kernel(threads = (32, 4))]
fn no_number(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

fn main() {
    println!("{}", threads_of_the_attribute().source());
}
