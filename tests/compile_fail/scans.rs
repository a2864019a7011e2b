use tilewright::prelude::*;

#[kernel]
fn whole_tile_by_threads(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(block_scan(tile(x, 256, block.x), 0.0, |a, b| a + b), tile(y, 256, block.x));
}

#[kernel]
fn carry_of_another_shape(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let mut total = full::<f32>((64, 1), 0.0);
    let at = (block.x, block.y);
    copy(scan(tile(x, (64, 64), at), 0.0, |a, b| a + b, mode = 0, carry = &mut total), tile(y, (64, 64), at));
}

#[kernel]
fn carry_of_no_tensor(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(scan(tile(x, 256, block.x), 0.0, |a, b| a + b, carry = 1.0), tile(y, 256, block.x));
}

#[kernel]
fn mode_that_is_none(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(scan(tile(x, 256, block.x), 0.0, |a, b| a + b, mode = 1), tile(y, 256, block.x));
}

#[kernel]
fn closure_of_one(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(scan(tile(x, 256, block.x), 0.0, |a| a), tile(y, 256, block.x));
}

#[kernel]
fn exclusive_number(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(scan(tile(x, 256, block.x), 0.0, |a, b| a + b, exclusive = 1), tile(y, 256, block.x));
}

#[kernel]
fn in_a_thread_of_its_own(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(32);
    let own = map(parallelize(tile(x, 32, block.x), t, thread.x), |x| x);
    let to = parallelize(tile(y, 32, block.x), t, thread.x);
    if thread.x < 5 {
        copy(warp_scan(own, 0.0, |a, b| a + b), to);
    }
}

fn main() {}
