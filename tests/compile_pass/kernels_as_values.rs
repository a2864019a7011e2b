use tilewright::prelude::*;

const SGEMM: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16));
static DGEMM: MatmulKernel<f64> = matmul_kernel!(bm = 64, bn = 64, dtype = f64);

struct Engine {
    kernels: Vec<MatmulKernel<f32>>,
}

fn send<T: Send + Sync + Clone + std::fmt::Debug + 'static>(_: &T) {}

fn main() {
    let kernel = matmul_kernel!(bm = 64);
    send(&kernel);
    send(&DGEMM);
    let engine = Engine { kernels: vec![SGEMM, kernel, matmul_kernel!()] };
    for kernel in &engine.kernels {
        assert!(kernel.source().contains("__global__"));
        assert_eq!(kernel.params().len(), 3);
        assert!(kernel.definition().is_some());
    }
    let small = SGEMM.specialize(&[("bm", 64)]).unwrap();
    assert_eq!(small.source(), engine.kernels[1].source());
    let message = SGEMM.specialize(&[("bmm", 64)]).unwrap_err().to_string();
    assert!(message.contains("no key `bmm`"), "{message}");
    assert!(DGEMM.source().contains("double"));
}
