//! Kernels on buffers of cudarc, through the public methods.

use tilewright::cudarc::driver::{CudaContext, CudaSlice};
use tilewright::prelude::*;
use tilewright_tests::gallery;

use super::stream;

#[kernel]
fn scale<const B: usize = 32>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>, by: f32) {
    let (from, to) = (tile(from, (B, 8), (block.x, block.y)), tile(to, (B, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let (from, to) = (parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
    copy(map(from, |x| by * x), to);
}

const PRODUCT: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, tc = (8, 8));
const SCALED: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, tc = (8, 8), alpha_beta = true);

fn counted(count: usize) -> Vec<f32> {
    (0..count).map(|n| n as f32).collect()
}

#[test]
fn a_kernel_of_ones_own() {
    let Some(stream) = stream() else { return };
    let from = DeviceTensor::from_host(&stream, [5, 7], &counted(35)).unwrap();
    let mut to = DeviceTensor::poisoned(&stream, [5, 7]).unwrap();
    let launched = scale().launch(&stream, &from, &mut to, 2.0).unwrap();
    assert_eq!((launched.grid, launched.waited), ([1, 1, 1], false));
    let doubled: Vec<f32> = counted(35).iter().map(|x| 2.0 * x).collect();
    assert_eq!(to.to_host().unwrap(), doubled);
    let (_, time) = stream.time(|| scale().launch(&stream, &from, &mut to, 3.0)).unwrap();
    assert!(time.as_secs_f64() > 0.0 && time.as_secs_f64() < 1.0, "{time:?}");
    assert_eq!(to.to_host().unwrap()[34], 102.0);
}

#[test]
fn products_with_and_without_numbers() {
    let Some(stream) = stream() else { return };
    let a = DeviceTensor::from_host(&stream, [2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let b = DeviceTensor::from_host(&stream, [1, 2], &[10.0f32, 1.0]).unwrap();
    let mut c = DeviceTensor::<f32, 2>::poisoned(&stream, [2, 1]).unwrap();
    PRODUCT.launch(&stream, &a, &b, &mut c).unwrap();
    assert_eq!(c.to_host().unwrap(), [13.0, 24.0]);
    SCALED.launch_scaled(&stream, 2.0, &a, &b, -1.0, &mut c).unwrap();
    assert_eq!(c.to_host().unwrap(), [13.0, 24.0]);
    // C is not read where beta is 0: it may contain NaN.
    let mut c = DeviceTensor::<f32, 2>::poisoned(&stream, [2, 1]).unwrap();
    SCALED.launch_scaled(&stream, 0.5, &a, &b, 0.0, &mut c).unwrap();
    assert_eq!(c.to_host().unwrap(), [6.5, 12.0]);
}

#[test]
fn every_variant_has_registers() {
    let Some(stream) = stream() else { return };
    for compiled in PRODUCT.compile_for(stream.device()).unwrap() {
        assert!(compiled.usage.registers > 0, "{compiled}");
        assert!(compiled.slow.is_empty(), "{compiled}");
    }
    assert!(!gallery::all().is_empty());
}

/// Slices, views and mutable views; whole, in part, and strided; on the default stream and on another.
#[test]
fn buffers_of_cudarc() {
    let Some(stream) = stream() else { return };
    let context = CudaContext::new(0).unwrap();
    for theirs in [context.default_stream(), context.new_stream().unwrap()] {
        let is_default = theirs.cu_stream().is_null();
        let from: CudaSlice<f32> = theirs.clone_htod(&counted(64)).unwrap();
        let mut to: CudaSlice<f32> = theirs.clone_htod(&[-1.0f32; 64]).unwrap();
        // Rows of eight; their inner 4x4.
        let read = TensorRef::new(&from, [4, 4]).strides([1, 8]).offset(18);
        let write = TensorMut::new(&mut to, [4, 4]).strides([1, 8]).offset(18);
        let launched = scale().launch(&stream, read, write, 2.0).unwrap();
        assert_eq!(launched.waited, is_default, "a buffer that is lent on the default stream is waited for");
        let inside = |n: usize| (2..6).contains(&(n / 8)) && (2..6).contains(&(n % 8));
        let wanted: Vec<f32> = (0..64).map(|n| if inside(n) { 2.0 * n as f32 } else { -1.0 }).collect();
        assert_eq!(theirs.clone_dtoh(&to).unwrap(), wanted);

        let (left, mut right) = to.split_at_mut(32);
        let launched = scale()
            .launch(&stream, TensorRef::new(&left, [8, 4]), TensorMut::new(&mut right, [8, 4]), -1.0)
            .unwrap();
        assert_eq!(launched.waited, is_default);
        let negative: Vec<f32> = wanted[..32].iter().map(|x| -x).collect();
        assert_eq!(theirs.clone_dtoh(&to).unwrap()[32..], negative);

        let tensor = DeviceTensor::from_slice(from, [8, 8]).unwrap();
        let mut other = DeviceTensor::poisoned(&stream, [8, 8]).unwrap();
        let launched = scale().launch(&stream, &tensor, &mut other, 1.0).unwrap();
        assert!(!launched.waited);
        assert_eq!(other.to_host().unwrap(), counted(64));
        let slice: CudaSlice<f32> = tensor.into_slice().unwrap();
        assert_eq!(theirs.clone_dtoh(&slice).unwrap(), counted(64));
    }
}

#[test]
fn rows_and_columns() {
    let Some(stream) = stream() else { return };
    let tensor = DeviceTensor::from_host_strided(&stream, [2, 3], [3, 1], &counted(6)).unwrap();
    assert_eq!(tensor.to_host().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(tensor.to_host_stored().unwrap(), counted(6));
    let mut to = DeviceTensor::poisoned(&stream, [3, 2]).unwrap();
    // Rows of one are columns of the other.
    scale().launch(&stream, tensor.view().transposed(), &mut to, 1.0).unwrap();
    assert_eq!(to.to_host().unwrap(), counted(6));
    let refused = scale().launch(&stream, &tensor, to.view_mut().transposed(), 1.0).unwrap_err().to_string();
    assert!(refused.contains("its stride 0 is 3, and the kernel is made for 1"), "{refused}");
}
