//! Embeds a bundle, and launches its kernels, and one that it does not have.

mod kernels;

use tilewright::prelude::*;

static KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.bundle"));

/// A kernel that the bundle does not have.
const OTHER: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, tc = (8, 8));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: the build script made it.
    let count = unsafe { tilewright::runtime::bundle::add(KERNELS) }?;
    let device = Device::open(0)?;
    let compiled = [kernels::twice().compile_for(&device)?, kernels::PRODUCT.compile_for(&device)?].concat();
    assert!(compiled.iter().all(|of| of.from_cache && of.arch == compiled[0].arch));
    println!("{count} kernels, for {}, without a compiler", compiled[0].arch);
    let stream = device.stream()?;
    let (x, mut y) = (DeviceTensor::zeros(&stream, [70, 45])?, DeviceTensor::zeros(&stream, [70, 45])?);
    kernels::twice().launch(&stream, &x, &mut y)?;
    println!("{}", OTHER.compile_for(&device).expect_err("there is no compiler"));
    Ok(())
}
