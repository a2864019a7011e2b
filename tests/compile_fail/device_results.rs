use tilewright::prelude::*;

#[device]
fn half(x: View) -> f32 {
    x * 0.5
}

#[device]
fn total(x: View) -> usize {
    sum(x)
}

#[device]
fn count(x: View) -> i32 {
    sum(x)
}

#[device]
fn ends(x: View) -> (View, usize) {
    x
}

#[device]
fn one(x: View) -> View {
    1.0
}

#[device]
fn norm(x: View) -> f32 {
    sqrt(sum(x * x))
}

#[kernel]
fn of_their_types(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::{count, ends, half, norm, one, total};
    let x = tile(x, 256, block.x);
    let a = half(x);
    let b = total(x);
    let c = count(x);
    let d = ends(x);
    let e = one(x);
    copy(x / norm(x), tile(y, 256, block.x));
}

fn main() {}
