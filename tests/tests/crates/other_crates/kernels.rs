//! Kernels in a module, for other crates.
#![deny(warnings, missing_docs)]

pub use tilewright;

/// All of them.
pub mod deep {
    /// In here.
    pub mod inside {
        use tilewright::prelude::*;

        /// The mean of two numbers.
        #[device]
        pub fn mean(x: f32, y: f32) -> f32 {
            (x + y) / 2.0
        }

        /// Copies a matrix.
        #[kernel(T = f32 | f64)]
        pub fn duplicate<T, const B: usize = 64>(from: &Tensor<T, (M, N)>, to: &mut Tensor<T, (M, N)>) {
            let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
            let threads = layout!((32, 8));
            copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
        }
    }
}
