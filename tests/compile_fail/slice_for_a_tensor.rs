use tilewright::prelude::*;

#[kernel]
fn k(x: &mut [f32]) {}

fn main() {}
