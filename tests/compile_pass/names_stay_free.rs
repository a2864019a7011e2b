//! `let duplicate = …` beside a glob import is a variable, not a pattern that is a constant.
#![deny(warnings)]

mod kernels {
    use tilewright::prelude::*;

    #[kernel]
    pub fn duplicate<const B: usize = 64>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
        let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
        let threads = layout!((32, 8));
        copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
    }
}

use kernels::*;

fn main() {
    let duplicate = duplicate();
    let (tile, copy) = (duplicate.source(), duplicate.params());
    match copy.len() {
        duplicate => println!("{duplicate} {tile}"),
    }
}
