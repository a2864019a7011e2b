#![deny(unused)]

mod kernels {
    use tilewright::prelude::{Tensor, bf16, copy, kernel, parallelize, tile};
    use tilewright::layout;

    #[kernel]
    pub fn duplicate(from: &Tensor<bf16, (M, N)>, to: &mut Tensor<bf16, (M, N)>) {
        let (from, to) = (tile(from, (64, 16), (block.x, block.y)), tile(to, (64, 16), (block.x, block.y)));
        let threads = layout!((32, 8));
        copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
    }
}

fn main() {
    use tilewright::prelude::{fill, parallelize, tile};

    #[tilewright::kernel]
    fn clear(x: &mut tilewright::language::Tensor<f32, N>) {
        let x = tile(x, 256, block.x);
        fill(parallelize(x, tilewright::layout!(256), thread.x), 0.0);
    }
    println!("{}", clear().source());
    println!("{}", kernels::duplicate().source());
}
