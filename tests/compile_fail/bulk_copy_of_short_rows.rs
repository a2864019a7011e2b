use tilewright::prelude::*;

#[kernel(arch = 90)]
fn bulk_copy_of_short_rows(x: &Tensor<f16, (M, N), (ld, _1)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (24, 5), (_, 0)), shared::<f16>(layout!((24, 5) : (5, 1))));
    let mut a = full::<f32>((24, 5), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(g[(_, _, k)], s);
        a += s as f32;
    }
    copy(sum(a, 1)[(_, 0)], tile(y, 24, 0));
}

#[kernel(arch = 90)]
fn bulk_copy_across_rows(x: &Tensor<f16, (M, N), (ld, _1)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (24, 8), (block.x, _)), shared::<f16>(layout!((24, 8) : (1, 24))));
    let mut a = full::<f32>((24, 8), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(g[(_, _, k)], s);
        a += s as f32;
    }
    copy(sum(a, 1)[(_, 0)], tile(y, 24, block.x));
}

#[kernel(arch = 90)]
fn bulk_copy_of_many_rows(x: &Tensor<f32, (M, N), (ld, _1)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (301, 4), (block.x, _)), shared::<f32>((301, 4)));
    let mut a = full::<f32>((301, 4), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(g[(_, _, k)], s);
        a += s;
    }
    copy(sum(a, 1)[(_, 0)], tile(y, 301, block.x));
}

#[kernel(arch = 90)]
fn bulk_copy_without_rows(x: &Tensor<f32, (M, N), (ld, ln)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (24, 8), (block.x, _)), shared::<f32>((24, 8)));
    let mut a = full::<f32>((24, 8), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(g[(_, _, k)], s);
        a += s;
    }
    copy(sum(a, 1)[(_, 0)], tile(y, 24, block.x));
}

fn main() {
    println!("{}", bulk_copy_of_short_rows().source());
    println!("{}", bulk_copy_across_rows().source());
    println!("{}", bulk_copy_of_many_rows().source());
    println!("{}", bulk_copy_without_rows().source());
}
