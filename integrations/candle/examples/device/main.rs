//! Operators of this crate beside candle's own: results, a training run, and times.
//!
//! ```console
//! $ cargo run --release --example device                    # on the CPU
//! $ cargo run --release --features cuda --example device    # on the first GPU
//! $ cargo run --release --features cuda --example device -- train
//! ```

mod bench;
#[cfg(feature = "cuda")]
mod check;
mod train;

use candle_core::{Device, Result};

/// The first GPU; the CPU without the feature `cuda`.
#[cfg(feature = "cuda")]
fn device() -> Result<Device> {
    Device::new_cuda(0)
}

#[cfg(not(feature = "cuda"))]
fn device() -> Result<Device> {
    Ok(Device::Cpu)
}

fn main() -> Result<()> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let runs = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    #[cfg(feature = "cuda")]
    if runs("check") {
        check::run(&device()?)?;
        check::run(&Device::new_cuda_with_stream(0)?)?;
        check::graph()?;
    }
    if runs("train") {
        train::run(&device()?)?;
    }
    if runs("bench") {
        bench::run(&device()?)?;
    }
    #[cfg(feature = "cuda")]
    check::finish()?;
    Ok(())
}
