//! A program that allocates its buffers with cudarc, and multiplies them with tilewright.
#![deny(warnings)]
#![forbid(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaView, DriverError};
use tilewright::prelude::*;

const PRODUCT: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, tc = (8, 8));

/// Scales.
#[kernel]
fn twice<const B: usize = 256>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (x, y) = (tile(x, B, block.x), tile(y, B, block.x));
    let threads = layout!(B);
    let value = registers_like(parallelize(x, threads, thread.x), 0.0);
    copy(parallelize(x, threads, thread.x), value);
    copy(map(value, |v| 2.0 * v), parallelize(y, threads, thread.x));
}

fn multiply(
    stream: &Stream,
    a: &CudaSlice<f32>,
    b: &CudaView<'_, f32>,
    c: &mut CudaSlice<f32>,
) -> Result<(), tilewright::LaunchError> {
    let mut view = c.slice_mut(..);
    PRODUCT.launch(
        stream,
        TensorRef::new(a, [64, 8]),
        TensorRef::new(b, [64, 8]),
        TensorMut::new(&mut view, [64, 64]),
    )?;
    twice().launch(stream, a, c)?;
    Ok(())
}

/// There is one cudarc: its types are the same by both paths.
fn buffer(context: &Arc<CudaContext>) -> Result<tilewright::cudarc::driver::CudaSlice<f32>, DriverError> {
    context.default_stream().alloc_zeros::<f32>(512)
}

fn main() {
    if Device::open(0).is_ok_and(|device| buffer(device.context()).is_ok()) {
        let _ = multiply;
    }
}
