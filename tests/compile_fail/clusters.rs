use tilewright::prelude::*;

#[kernel]
fn too_many(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(32);
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
}

#[kernel]
fn set_too_late(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(2);
    let t = layout!(128);
    let own = map(parallelize(tile(x, 256, block.x), t, thread.x), |x| x);
    let total = cluster_sum(sum(own));
    cluster(4);
    map((own, total), parallelize(tile(y, 256, block.x), t, thread.x), |x, total| x / total);
}

#[kernel]
fn by_one_block(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    let t = layout!(128);
    let own = map(parallelize(tile(x, 256, block.x), t, thread.x), |x| x);
    let mut total = registers::<f32>(1, 0.0);
    if block.x % 4 == 0 {
        total = cluster_sum(sum(own));
    }
    map((own, total), parallelize(tile(y, 256, block.x), t, thread.x), |x, total| x / total);
}

#[kernel]
fn on_whole_tiles(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    let own = map(tile(x, 1024, block.x), |x| x);
    let total = cluster_sum(own);
    map((own, total), tile(y, 1024, block.x), |x, total| x / total);
}

#[kernel]
fn several_rows(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    cluster(2);
    let own = map(tile(x, (64, 64), (block.y, block.x)), |x| x);
    copy(scan(own, 0.0, |a, b| a + b, mode = 1, cluster = true), tile(y, (64, 64), (block.y, block.x)));
}

#[kernel]
fn not_a_truth(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(2);
    let own = map(tile(x, 1024, block.x), |x| x);
    copy(scan(own, 0.0, |a, b| a + b, cluster = 2), tile(y, 1024, block.x));
}

#[kernel]
fn outside(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    let own = shared::<f32>(256);
    copy(tile(x, 256, block.x), own);
    sync_cluster();
    copy(peer(own, block.x % 4 + 1), tile(y, 256, block.x));
}

#[kernel]
fn fewer_later(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    let own = shared::<f32>(256);
    copy(tile(x, 256, block.x), own);
    sync_cluster();
    copy(peer(own, (block.x + 1) % 4), tile(y, 256, block.x));
    cluster(2);
}

#[kernel]
fn of_a_tensor(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    copy(peer(tile(x, 256, block.x), 0), tile(y, 256, block.x));
}

#[kernel]
fn not_a_number(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    let own = shared::<f32>(256);
    copy(peer(own, "next"), tile(y, 256, block.x));
}

#[kernel]
fn met_by_one_block(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    cluster(4);
    if block.x % 4 == 0 {
        sync_cluster();
    }
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
}

fn main() {}
