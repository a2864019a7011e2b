use tilewright::prelude::*;

#[kernel]
fn mixed_element_types(i: &Tensor<i32, N>, x: &Tensor<f32, N>, h: &Tensor<bf16, N>, y: &mut Tensor<f32, N>, alpha: f32, beta: f64) {
    let t = layout!(256);
    let (gi, gx, gh) = (tile(i, 256, block.x), tile(x, 256, block.x), tile(h, 256, block.x));
    let (i, x, h) = (parallelize(gi, t, thread.x), parallelize(gx, t, thread.x), parallelize(gh, t, thread.x));
    let y = parallelize(tile(y, 256, block.x), t, thread.x);
    copy(map((i, x), |i, x| i + x), y);
    copy(map((i, x), |i, x| select(i >= x, x, 0.0)), y);
    copy(map((x, h), |x, h| if x < 0.0 { h } else { x }), y);
    copy(map((x, h), |x, h| max(x, h as f32) * (h * alpha)), y);
    copy(map(x, |x| x * (x > 0.0)), y);
    map(x, y, |x| x > 0.0);
    copy(map(i, |i| exp(i)), y);
    map(h, y, |h| h + 1);
    y += h;
    y = h;
    fill(y, beta);
    let total = sum(h, acc = i32);
}

fn main() {}
