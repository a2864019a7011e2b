//! A matrix product from layouts to a checked result: the kernel of the MoYe.jl tutorial (`tutorial.rs`), its
//! CUDA C, a run, and its report. It runs on a GPU if there is one, in the simulator otherwise.
//!
//! ```console
//! $ cargo run --release --example matmul
//! $ cargo run --release --example matmul 300 200 100    # other sizes
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tilewright::prelude::*;

#[allow(dead_code)]
mod tutorial;
use tutorial::matmul_nt;

/// The tutorial's sizes on a GPU, smaller ones in the simulator, which checks every access.
const ON_DEVICE: [usize; 3] = [2048, 2048, 256];
const SIMULATED: [usize; 3] = [256, 256, 64];

/// Small integers, so that every sum is exact and results compare bit for bit.
fn integers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + i / 13 + seed) % 9) as f32 - 4.0).collect()
}

/// Runs the kernel on the first device; returns the result, the launch, and the time.
fn on_device(
    device: &Device,
    [m, n, k]: [usize; 3],
    a: &[f32],
    b: &[f32],
) -> Result<Vec<f32>, Box<dyn Error>> {
    let stream = device.stream()?;
    let a = DeviceTensor::from_host(&stream, [m, k], a)?;
    let b = DeviceTensor::from_host(&stream, [n, k], b)?;
    let mut c = DeviceTensor::poisoned(&stream, [m, n])?;
    let launched = matmul_nt().launch(&stream, &a, &b, &mut c)?;
    println!("{launched}, {:.1?} to get ready", launched.prepared);
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let (_, time) = stream.time(|| matmul_nt().launch(&stream, &a, &b, &mut c))?;
        best = best.min(time);
    }
    let rate = 2.0 * (m * n * k) as f64 / best.as_secs_f64() / 1e12;
    println!("{best:.1?}, {rate:.1} Tflop/s");
    Ok(c.to_host()?)
}

/// Runs the kernel in the simulator; prints the cost of its accesses.
fn simulated([m, n, k]: [usize; 3], a: &[f32], b: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
    let start = Instant::now();
    let done = matmul_nt().simulate(&[
        Arg::tensor(a, [m, k]),
        Arg::tensor(b, [n, k]),
        Arg::output::<f32>([m, n]),
    ])?;
    println!("{:.1?} of simulation\n\n{done}", start.elapsed());
    Ok(done.get::<f32>("c")?)
}

/// The reference C = A·Bᵀ, column by column.
fn by_definition([m, n, k]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut c = vec![0.0; m * n];
    for column in 0..n {
        for step in 0..k {
            let factor = b[column + step * n];
            let (sums, rows) = (&mut c[column * m..][..m], &a[step * m..][..m]);
            sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += row * factor);
        }
    }
    c
}

/// Writes the source into the target folder.
fn save(source: &str) -> std::io::Result<PathBuf> {
    let file = std::env::current_exe()?.with_file_name("matmul_nt.cu");
    std::fs::write(&file, source)?;
    Ok(file)
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<usize> = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<_, _>>()?;
    let device = Device::open(0);
    let sizes = match (&given[..], &device) {
        ([m, n, k], _) => [*m, *n, *k],
        (_, Ok(_)) => ON_DEVICE,
        (_, Err(_)) => SIMULATED,
    };
    let [m, n, k] = sizes;

    // The source is part of the program: the macro generates it at compile time.
    println!("the CUDA C is in {}\n", save(matmul_nt().source())?.display());
    println!("{}", matmul_nt().report());

    let (a, b) = (integers(m * k, 1), integers(n * k, 2));
    let c = match &device {
        Ok(device) => {
            println!("C = A·Bᵀ, {m} x {n} x {k}, on {}", device.properties().name);
            on_device(device, sizes, &a, &b)?
        }
        Err(why) => {
            println!("{why}\n");
            println!("C = A·Bᵀ, {m} x {n} x {k}, in the simulator");
            simulated(sizes, &a, &b)?
        }
    };
    assert!(c == by_definition(sizes, &a, &b), "the result is wrong");
    println!("every one of {} elements is right, to the bit", c.len());
    Ok(())
}
