use tilewright::prelude::*;

#[kernel]
fn literal_out_of_range(i: &Tensor<i32, N>, u: &Tensor<u32, N>, h: &Tensor<bf16, N>, y: &mut Tensor<i32, N>) {
    let t = layout!(256);
    let (gi, gu, gh) = (tile(i, 256, block.x), tile(u, 256, block.x), tile(h, 256, block.x));
    let (i, u, h) = (parallelize(gi, t, thread.x), parallelize(gu, t, thread.x), parallelize(gh, t, thread.x));
    let y = parallelize(tile(y, 256, block.x), t, thread.x);
    copy(map(i, |i| i + 3000000000), y);
    copy(map(i, |i| 1.5 * i), y);
    let positive = map(u, |u| max(u, -1));
    let large = map(h, |h| h + 1e39);
    let chosen = map(i, |i| if i > 0 { i } else { f32::NEG_INFINITY });
    let byte = registers::<i8>(1, 200);
    let halves = registers_like(y, 0.5);
    fill(y, 4294967295);
    let filled = registers_like(u, 0.0);
    copy(u, filled, fill = -1);
    y = 1e10;
    copy(map(i, |i| i << 32), y);
    copy(map(i, |i| i / 0), y);
}

fn main() {}
