use tilewright::prelude::*;

/// Rows are written by threads along columns, and read by threads along rows.
#[kernel(allow(uncoalesced))]
pub fn read_by_others(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, z: &mut Tensor<f32, (M, N)>) {
    let at = (block.x, block.y);
    let (x, y, z) = (tile(x, (32, 32), at), tile(y, (32, 32), at), tile(z, (32, 32), at));
    let (rows, columns) = (layout!((32, 8)), layout!((8, 32)));
    copy(parallelize(x, rows, thread.x), parallelize(y, rows, thread.x));
    copy(parallelize(y, columns, thread.x), parallelize(z, columns, thread.x));
}

/// The same with a barrier, and so right.
#[kernel(allow(uncoalesced))]
pub fn ordered(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, z: &mut Tensor<f32, (M, N)>) {
    let at = (block.x, block.y);
    let (x, y, z) = (tile(x, (32, 32), at), tile(y, (32, 32), at), tile(z, (32, 32), at));
    let (rows, columns) = (layout!((32, 8)), layout!((8, 32)));
    copy(parallelize(x, rows, thread.x), parallelize(y, rows, thread.x));
    sync_threads();
    copy(parallelize(y, columns, thread.x), parallelize(z, columns, thread.x));
}

/// Each iteration overwrites elements that threads of the previous iteration may still read.
#[kernel(allow(uncoalesced))]
pub fn overwritten(y: &mut Tensor<f32, N>, z: &mut Tensor<f32, N>) {
    let (y, z) = (tile(y, 256, block.x), tile(z, 256, block.x));
    let threads = layout!(128);
    for k in 0..4 {
        copy(parallelize(shift(y, 1), threads, thread.x), parallelize(z, threads, thread.x));
        fill(parallelize(y, threads, thread.x), 1.0);
    }
}

/// Threads in pairs write one element.
#[kernel(allow(uncoalesced))]
pub fn in_pairs(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = tile(x, 128, block.x);
    let own = parallelize(x, layout!(128), thread.x);
    copy(own, tile(y, 1, block.x * 64 + thread.x / 2));
}

/// All of the 16 blocks write the same row.
#[kernel(allow(uncoalesced))]
pub fn by_all_blocks(x: &Tensor<f32, (_16, N)>, y: &mut Tensor<f32, N>) {
    let row = tile(x, (1, 256), (block.x, 0));
    copy(map(regroup(row, 256), |x| 2.0 * x), tile(y, 256, 0));
}

fn main() {}
