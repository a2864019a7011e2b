use tilewright::prelude::*;

#[kernel]
fn ones(x: &Tensor<f32, N>, y: &mut Tensor<f32, { ceil_div(N, 256) }>) {
    copy(sum(map(tile(x, 256, block.x), |x| 1.0), out_of_bounds = 0.0), tile(y, 1, block.x));
}

#[kernel]
fn exponentials(x: &Tensor<f32, N>, y: &mut Tensor<f32, { ceil_div(N, 256) }>) {
    copy(sum(exp(tile(x, 256, block.x)), out_of_bounds = 0.0), tile(y, 1, block.x));
}

#[kernel]
fn scanned(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(scan(tile(x, 256, block.x) + 1.0, 0.0, |a, b| a + b, out_of_bounds = 0.0), tile(y, 256, block.x));
}

#[kernel]
fn scanned_with_ones(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(scan(tile(x, 256, block.x) + 1.0, 0.0, |a, b| a + b, out_of_bounds = 1.0), tile(y, 256, block.x));
}

#[kernel]
fn numbers_of_its_own(x: &Tensor<i32, (M, N)>, y: &mut Tensor<i32, M>) {
    let gx = tile(x, (32, 64), (block.x, _));
    let mut acc = full::<i32>((32, 64), 0);
    for k in 0..gx.size(2) {
        acc += map(gx[(_, _, k)], |v| v * v + 1);
    }
    copy(sum(acc, 1), tile(y, 32, block.x).along(0));
}

#[kernel]
fn numbers_that_are_scanned(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    at_most(N, 64);
    let gx = tile(x, (32, 64), (block.x, _));
    let mut acc = full::<f32>((32, 64), 0.0);
    for k in 0..gx.size(2) {
        acc += map(gx[(_, _, k)], |v| v + 1.0);
    }
    copy(scan(acc, 0.0, |a, b| a + b, mode = 1), tile(y, (32, 64), (block.x, 0)));
}

#[kernel]
fn written_by_one_thread(x: &Tensor<f32, N>, y: &mut Tensor<f32, { ceil_div(N, 256) }>) {
    let t = layout!(256);
    let own = map(parallelize(tile(x, 256, block.x), t, thread.x), |x| x);
    if thread.x == 0 {
        copy(block_sum(own), tile(y, 1, block.x));
    }
}

#[kernel]
fn submodes_of_a_mode(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let s = shared::<f32>(layout!(((8, 4), 8) : ((1, 64), 8)));
    copy(x[(0)], s[((1, 2), 3)]);
}
