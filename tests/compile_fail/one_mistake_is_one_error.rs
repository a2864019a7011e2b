use tilewright::prelude::*;

/// The mistake is in here, and nowhere else.
#[kernel(T = f32 | f64)]
pub fn broken<T, const B: usize = 4>(x: &mut Tensor<T, N>) {
    fill(x, nothing);
}

const SGEMM: MatmulKernel<f64> = matmul_kernel!(bmm = 4);

mod elsewhere {
    use super::{SGEMM, broken};

    pub fn uses() {
        let wide = broken!(B = 8, T = f64);
        println!("{} {}", wide.source(), broken().report());
        let _ = broken().specialize(&[("B", 16)]).map(|other| other.params().len());
        println!("{}", SGEMM.source());
    }
}

fn main() {}
