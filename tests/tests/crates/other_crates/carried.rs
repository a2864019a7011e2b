#![deny(warnings)]
#![forbid(unsafe_code)]

use tilewright::prelude::*;

const SMALL: MatmulKernel<f32> = matmul_kernel!(bm = 32, bn = 32, tc = (8, 8));

/// Rows that the tiles do not divide, a constant of the kernel, and another value of it.
#[kernel(T = f32 | f64)]
pub fn twice<T, const B: usize = 64>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    let (x, y) = (tile(x, (B, 16), (block.x, block.y)), tile(y, (B, 16), (block.x, block.y)));
    map(x, y, |x| x + x);
}

fn main() {
    for k in [20, 32, 0] {
        let (m, n) = (70, 45);
        let (a, b) = (vec![0.5f32; m * k], vec![2.0f32; n * k]);
        let arguments = [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])];
        let done = SMALL.simulate(&arguments).unwrap();
        assert_eq!(done.get::<f32>("c").unwrap(), vec![k as f32; m * n]);
    }
    for kernel in [twice(), twice!(B = 32)] {
        let x: Vec<f32> = (0..70 * 45).map(|at| at as f32).collect();
        let done = kernel.simulate(&[Arg::tensor(&x, [70, 45]), Arg::output::<f32>([70, 45])]).unwrap();
        assert_eq!(done.get::<f32>("y").unwrap()[99], 198.0);
        assert!(kernel.explain().unwrap().contains("grid"));
    }
    assert_ne!(twice().source(), twice!(B = 32).source());
}
