//! An element of a tile that threads share in registers is no integer of all threads.
use tilewright::prelude::*;

#[kernel]
fn picked(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let v = tile(x, 64, block.x) + 1;
    let first = v[(0)] as i32;
    copy(tile(x, 64, first), tile(y, 64, block.x));
}

fn main() {}
