use tilewright::prelude::*;

/// Two rows in one vector, and no argument with one row.
#[kernel]
fn rows(x: &Tensor<f32, { 2 * N }>, y: &mut Tensor<f32, { 2 * N }>) {
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
}

fn main() {}
