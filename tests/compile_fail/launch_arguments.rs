use tilewright::cudarc::driver::CudaSlice;
use tilewright::prelude::*;
use tilewright::{DeviceTensor, LaunchError, Stream};

#[kernel]
fn duplicate(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
    let (from, to) = (tile(from, (32, 16), (block.x, block.y)), tile(to, (32, 16), (block.x, block.y)));
    let threads = layout!((32, 8));
    copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
}

const PRODUCT: MatmulKernel<f32> = matmul_kernel!();

fn of_another_type(stream: &Stream, from: &DeviceTensor<f64, 2>, to: &mut DeviceTensor<f32, 2>) {
    let _ = duplicate().launch(stream, from, to);
}

fn of_another_rank(stream: &Stream, from: &DeviceTensor<f32, 2>, to: &mut DeviceTensor<f32, 1>) {
    let _ = duplicate().launch(stream, from, to);
}

fn not_for_writing(stream: &Stream, from: &DeviceTensor<f32, 2>, to: &DeviceTensor<f32, 2>) {
    let _ = duplicate().launch(stream, from, to);
}

fn moved(stream: &Stream, from: DeviceTensor<f32, 2>, to: &mut DeviceTensor<f32, 2>) {
    let _ = duplicate().launch(stream, from, to);
}

fn on_the_host(stream: &Stream, from: Vec<f32>, to: &mut CudaSlice<f32>) -> Result<(), LaunchError> {
    duplicate().launch(stream, &from, to)?;
    Ok(())
}

fn product(stream: &Stream, a: &DeviceTensor<f64, 2>, b: &[f32], c: &mut DeviceTensor<f32, 2>) {
    let _ = PRODUCT.launch(stream, a, b, c);
}

fn no_element(stream: &Stream) -> Result<DeviceTensor<f32, 1>, LaunchError> {
    DeviceTensor::from_host(stream, [2], &[1u128, 2])
}

fn main() {}
