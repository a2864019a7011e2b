//! Mistakes with integers of 64 and 16 bits and with conditions.

use tilewright::prelude::*;
use tilewright::runtime::{DeviceTensor, Stream, TensorRef};

#[kernel]
fn conditions(
    x: &Tensor<f32, N>,
    n: &Tensor<i32, N>,
    m: &Tensor<bool, N>,
    y: &mut Tensor<f32, N>,
    z: &mut Tensor<bool, N>,
) {
    let (x, n, m) = (tile(x, 256, block.x), tile(n, 256, block.x), tile(m, 256, block.x));
    let (y, z) = (tile(y, 256, block.x), tile(z, 256, block.x));
    copy(x, z);
    copy(m, y);
    map(n, z, |n| n);
    map(n, z, |n| n as bool);
    map(m, y, |m| m * 2.0);
    z = 3;
    copy(x[(m[(0)])], y[(0)]);
}

#[kernel]
fn products(a: &Tensor<bool, (_32, _32)>, c: &mut Tensor<i32, (_32, _32)>) {
    let s = shared::<bool>((32, 32));
    copy(tile(a, (32, 32), (0, 0)), s);
    let mut acc = full::<i32>((32, 32), 0);
    gemm(s, s, &mut acc);
    copy(acc, tile(c, (32, 32), (0, 0)));
}

#[kernel]
fn wide(x: &Tensor<i64, N>, n: &Tensor<i32, N>, s: &Tensor<i16, N>, y: &mut Tensor<i64, N>, z: &mut Tensor<i16, _1>) {
    let (x, n) = (tile(x, 256, block.x), tile(n, 256, block.x));
    map((x, n), tile(y, 256, block.x), |x, n| x + n);
    map(x, tile(y, 256, block.x), |x| sqrt(x));
    scatter(tile(s, 256, block.x), z, |s| (0, s), how = "atomic_add");
}

const PRODUCT: MatmulKernel<i64> = matmul_kernel!(dtype = i64, mma = none);

fn shared_flags(stream: &Stream, flags: &tilewright::runtime::cudarc::driver::CudaSlice<bool>) {
    let _ = DeviceTensor::from_host(stream, [2], &[true, false]);
    let _ = TensorRef::new(flags, [2]);
}

#[kernel]
fn bounded_elements(offsets: &Tensor<i32, N>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = offsets[(block.x)];
    at_most(i, 1000);
    at_least(i, 1);
    copy(x[(0..8)], tile(y, 256, block.x));
}

fn main() {}
