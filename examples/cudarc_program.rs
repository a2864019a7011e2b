//! A program that already uses cudarc and adds one kernel of tilewright. Its context, buffers and copies do not
//! change.
//!
//! ```console
//! $ cargo run --release --example cudarc_program
//! ```

use std::error::Error;
use tilewright::cudarc::driver::{CudaContext, CudaSlice};
use tilewright::prelude::*;

const SGEMM: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, bk = 16, tc = (8, 8), schedule = (vec = 4));

const M: usize = 300;
const N: usize = 200;
const K: usize = 100;

fn run() -> Result<(), Box<dyn Error>> {
    // The existing program.
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let a: CudaSlice<f32> = stream.clone_htod(&vec![0.5; M * K])?;
    let b: CudaSlice<f32> = stream.clone_htod(&vec![2.0; N * K])?;
    let mut c: CudaSlice<f32> = stream.alloc_zeros(M * N)?;

    // The addition. Slices are borrowed as tensors, column-major unless strides say otherwise. The launch is
    // ordered with the streams of its buffers, and all arguments are checked before any driver call.
    let ours = Device::of(&context)?.stream()?;
    let launched = SGEMM.launch(
        &ours,
        TensorRef::new(&a, [M, K]),
        TensorRef::new(&b, [N, K]),
        TensorMut::new(&mut c, [M, N]),
    )?;
    println!("{launched}");

    // The existing program again: cudarc copies the result.
    ours.synchronize()?;
    let result = stream.clone_dtoh(&c)?;
    assert!(result.iter().all(|&sum| sum == K as f32), "0.5 · 2 summed {K} times is {K}");
    println!("every one of {} elements is {}", result.len(), result[0]);

    // A wrong size is an error that names the argument; no kernel is launched.
    let wrong = SGEMM.launch(
        &ours,
        TensorRef::new(&a, [M, K]),
        TensorRef::new(&b, [N, K - 1]),
        TensorMut::new(&mut c, [M, N]),
    );
    if let Err(why) = wrong {
        println!("refused: {why}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // cudarc panics without a driver; Device::all() returns an error that says what is missing.
    match Device::all() {
        Ok(_) => run(),
        Err(why) => {
            println!("{why}");
            Ok(())
        }
    }
}
