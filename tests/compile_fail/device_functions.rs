use tilewright::prelude::*;

#[device]
fn no_result(x: f32) {}

#[device]
fn of_tensors(x: &Tensor<f32, N>) -> f32 {
    1.0
}

#[device]
fn another_type(x: f32, n: i32) -> f32 {
    let y = x * 2.0;
    n
}

#[device]
fn two_types(x: f32, n: i32) -> f32 {
    x * n
}

#[device(inline)]
fn generic<T>(x: T) -> f32 {
    x
}

#[device]
fn unknown(x: f32, x: f32) -> f32 {
    let y = sotf(x, 1.0);
    x + z
}

#[device]
fn soft(x: f32, by: f32) -> f32 {
    max(abs(x) - by, 0.0)
}

#[kernel]
fn not_imported(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| soft(x, 1.0));
}

#[kernel]
fn called_wrongly(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, n: i32) {
    use self::soft;
    let (x, y) = (tile(x, 256, block.x), tile(y, 256, block.x));
    map(x, y, |x| soft(x));
    map(x, y, |x| soft(x, n));
    map(x, y, |x| soft(x, by = 1.0));
    copy(soft((x, x), 1.0), y);
}

#[kernel]
fn constants(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use std::f32::consts::{E, PI};
    use tilewright::prelude::*;
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| x * PI);
}

#[kernel]
fn late(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    for k in 0..2 {
        use self::soft;
    }
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
}

#[kernel]
fn twice(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, soft: f32) {
    use self::soft;
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| soft(x, 1.0));
}

#[kernel]
fn of_a_broken_one(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::two_types;
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| two_types(x, 1));
}

#[kernel]
fn nowhere(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::softer;
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| softer(x));
}

#[device]
fn doubled(x: View) -> View {
    2.0 * x
}

#[device]
fn bounded<T: Copy>(x: T) -> T {
    x
}

#[kernel]
fn tiles(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::doubled;
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| doubled(x));
}

fn main() {
    let _ = of_a_broken_one();
}

#[device]
fn adds(acc: View, x: View) {
    acc += x;
}

#[device]
fn pairs(pair: (View, usize), f: fn(f32) -> f32) -> View {
    let (x, n) = pair;
    map(x, f) + n as f32
}

#[device]
fn without_value(x: View) -> View {
    let y = 2.0 * x;
}

#[device]
fn of_one<T>(x: View) -> View {
    map(x, |x| x as T)
}

#[device]
fn lists(x: &[View]) -> View {
    x
}

#[kernel]
fn of_other_kinds(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::{of_one, pairs};
    let x = tile(x, 256, block.x);
    copy(pairs(x, |x| x), tile(y, 256, block.x));
    copy(pairs((x, 2.0), |x| x), tile(y, 256, block.x));
    copy(pairs((x, 2), 1.0), tile(y, 256, block.x));
    copy(pairs((x, 2)), tile(y, 256, block.x));
    copy(of_one::<f32, f16>(x), tile(y, 256, block.x));
}

#[device]
fn of_its_caller(x: View) -> View {
    x + (N + y) as f32
}

#[device]
fn changed_pair(pair: (View, View)) {
    pair.0 += 1.0;
}

#[device]
fn early(x: f32) -> f32 {
    return x;
}

#[device]
fn earlier(x: View, n: usize) -> View {
    if n == 0 {
        return x;
    }
    x + 1.0
}

#[device]
fn scaled(x: View, by: f32) -> View {
    x * by
}

#[kernel]
fn of_values(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::{of_its_caller, of_one, scaled, soft};
    let (x, y) = (tile(x, 256, block.x), tile(y, 256, block.x));
    copy(of_its_caller(x), y);
    copy(of_one(x), y);
    copy(map(x, exp), y);
    copy(reduce(x, 0.0, soft), y);
    copy(scaled(x, sum(x)), y);
    map(x, y, |x| ((x as i8) + 200) as f32);
}
