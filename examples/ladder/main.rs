//! A matrix product in ten steps, from naive to fast: the change in each step, its report, the access counts
//! of the simulator, and the measured time if there is a GPU.
//!
//! ```console
//! $ cargo run --release --example ladder            # 2048 x 2048 x 2048 on a GPU
//! $ cargo run --release --example ladder 4096       # another size
//! ```
//!
//! `tilewright-bench ladder` measures the same steps against cuBLASLt.

// The library has the same kernels in `tilewright::kernels::ladder`.
#[allow(unreachable_pub)]
mod steps;

use std::error::Error;
use std::time::Duration;

use steps::{Figures, Step};
use tilewright::sim::Outcome;
use tilewright::{Argument, prelude::*};

/// The size at which the simulator counts accesses: all tiles divide it.
const COUNTED: [usize; 3] = [256, 128, 128];
/// The size at which the result is checked: no tile divides it.
const CHECKED: [usize; 3] = [130, 75, 37];
const ALPHA: f32 = 0.5;
const BETA: f32 = 2.0;

/// A, B and C of a product. The elements are small integers, so every sum is exact and results compare bit
/// for bit.
struct Problem {
    size: [usize; 3],
    row_major: bool,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Problem {
    fn new([m, n, k]: [usize; 3], row_major: bool) -> Problem {
        let integers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|i| ((i * 7 + i / 13 + seed) % 9) as f32 - 4.0).collect()
        };
        let (a, b, c) = (integers(m * k, 1), integers(n * k, 2), integers(m * n, 3));
        Problem { size: [m, n, k], row_major, a, b, c }
    }

    /// Strides of A (M, K), B (N, K) and C (M, N).
    fn strides(&self) -> [[usize; 2]; 3] {
        let [m, n, k] = self.size;
        if self.row_major { [[k, 1], [1, n], [n, 1]] } else { [[1, m], [1, n], [1, m]] }
    }

    /// One element of the reference result.
    fn right(&self, row: usize, column: usize, scaled: bool) -> f32 {
        let [[am, ak], [bn, bk], [cm, cn]] = self.strides();
        let products = (0..self.size[2]).map(|k| self.a[row * am + k * ak] * self.b[column * bn + k * bk]);
        let sum: f32 = products.sum();
        if scaled { ALPHA * sum + BETA * self.c[row * cm + column * cn] } else { sum }
    }

    /// Compares a result bit for bit, or a sample of a large result.
    fn is_right(&self, got: &[f32], scaled: bool) -> bool {
        let [m, n, _] = self.size;
        let [_, _, [down, across]] = self.strides();
        let stride = (m * n).div_ceil(20_000) | 1;
        (0..m * n).step_by(stride).all(|at| {
            let (row, column) = (at % m, at / m);
            got[row * down + column * across] == self.right(row, column, scaled)
        })
    }
}

/// Whether the kernel has alpha and beta.
fn is_scaled(step: &Step) -> bool {
    step.kernel.params().len() == 5
}

/// Runs a step in the simulator; returns its access counts if the result is correct.
fn simulated(step: &Step, size: [usize; 3]) -> Result<Outcome, Box<dyn Error>> {
    let problem = Problem::new(size, step.row_major);
    let ([m, n, k], [a, b, c]) = (size, problem.strides());
    let mut arguments = vec![
        Arg::tensor(&problem.a, [m, k]).strides(a),
        Arg::tensor(&problem.b, [n, k]).strides(b),
        Arg::in_out(&problem.c, [m, n]).strides(c),
    ];
    if is_scaled(step) {
        arguments.extend([Arg::number(ALPHA), Arg::number(BETA)]);
    }
    let done = step.kernel.simulate(&arguments)?;
    match problem.is_right(&done.get::<f32>("c")?, is_scaled(step)) {
        true => Ok(done),
        false => Err(format!("{}: the simulator's result is wrong", step.name).into()),
    }
}

/// Runs a step on a device; returns its time if the result is correct.
fn measured(step: &Step, stream: &Stream, size: [usize; 3]) -> Result<Duration, Box<dyn Error>> {
    let problem = Problem::new(size, step.row_major);
    let ([m, n, k], strides) = (size, problem.strides());
    let a = DeviceTensor::from_host_strided(stream, [m, k], strides[0], &problem.a)?;
    let b = DeviceTensor::from_host_strided(stream, [n, k], strides[1], &problem.b)?;
    let mut c = DeviceTensor::from_host_strided(stream, [m, n], strides[2], &problem.c)?;
    let mut best = Duration::MAX;
    for round in 0..10 {
        let mut arguments: Vec<Argument> = vec![(&a).into(), (&b).into(), (&mut c).into()];
        if is_scaled(step) {
            arguments.extend([Argument::scalar(ALPHA), Argument::scalar(BETA)]);
        }
        let (_, time) = stream.time(|| step.kernel.launch_with(stream, &mut arguments))?;
        drop(arguments);
        // The first launch compiles the kernel.
        if round > 0 {
            best = best.min(time);
        } else if !problem.is_right(&c.to_host_stored()?, is_scaled(step)) {
            return Err(format!("{}: the result is wrong", step.name).into());
        }
    }
    Ok(best)
}

/// The third step with other element types; no other line changes.
fn other_types() -> Result<(), Box<dyn Error>> {
    const TILE_WIDTH: usize = 16;
    let (size, ones) = ([50, 40, 30], vec![1i32; 50 * 40]);
    let [m, n, k] = size;
    let integers = steps::shared_tile!(T = i32, W = 16).simulate(&[
        Arg::tensor(&ones[..m * k], [m, k]).strides([k, 1]),
        Arg::tensor(&ones[..n * k], [n, k]),
        Arg::output::<i32>([m, n]).strides([n, 1]),
    ])?;
    let ones = vec![1.0f64; 50 * 40];
    let doubles = steps::shared_tile!(T = f64).specialize(&[("W", TILE_WIDTH)])?;
    let doubles = doubles.simulate(&[
        Arg::tensor(&ones[..m * k], [m, k]).strides([k, 1]),
        Arg::tensor(&ones[..n * k], [n, k]),
        Arg::output::<f64>([m, n]).strides([n, 1]),
    ])?;
    let all = |right: bool| if right { "right" } else { "wrong" };
    println!("shared_tile!(T = i32, W = 16) is {}", all(integers.get::<i32>("c")? == [30; 2000]));
    println!("shared_tile!(T = f64, W = TILE_WIDTH) is {}", all(doubles.get::<f64>("c")? == [30.0; 2000]));
    Ok(())
}

/// A count of the simulator, divided by the multiply-adds of a warp.
fn for_each_product(done: &Outcome, count: impl Fn(&tilewright::sim::AccessCount) -> u64) -> f64 {
    let products: usize = COUNTED.iter().product();
    done.accesses().iter().map(count).sum::<u64>() as f64 / (products / 32) as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1).map(|size| size.parse::<usize>()).transpose()?;
    let size = [given.unwrap_or(2048); 3];
    let device = Device::open(0);
    let stream = match &device {
        Ok(device) => Some(device.stream()?),
        Err(why) => {
            println!("{why}\n\nwithout a GPU: what reports say, and what the simulator counts\n");
            None
        }
    };
    println!("{:<27} {:^20} {:^33}", "", "a warp's accesses", "for each multiply-add of a warp");
    println!(
        "   {:<16} {:>7} {:>8} {:>11} {:>12} {:>8} {:>11} {:>8}",
        "step", "op/byte", "sectors", "wavefronts", "instructions", "sectors", "wavefronts", "Tflop/s"
    );
    let mut last: Option<f64> = None;
    for (place, step) in steps::steps().iter().enumerate() {
        let figures = Figures::of(&step.kernel.generate()?.report);
        simulated(step, CHECKED)?;
        let done = simulated(step, COUNTED)?;
        let cost = |(all, least): (u32, u32)| if all == 0 { "".into() } else { format!("{all}/{least}") };
        print!(
            "{:>2} {:<16} {:>7.1} {:>8} {:>11} {:>12.3} {:>8.3} {:>11.3}",
            place + 1,
            step.name,
            figures.intensity,
            cost(figures.sectors),
            cost(figures.wavefronts),
            for_each_product(&done, |access| access.executed),
            for_each_product(&done, |access| access.sectors),
            for_each_product(&done, |access| access.wavefronts),
        );
        if let Some(stream) = &stream {
            let time = measured(step, stream, size)?;
            let rate = 2.0 * size.iter().product::<usize>() as f64 / time.as_secs_f64() / 1e12;
            print!(" {rate:>8.2}");
            last.inspect(|last| print!("  x{:.2}", rate / last));
            last = Some(rate);
        }
        println!("\n   {}\n   {}", step.change, step.why);
    }
    println!("\na warp's accesses: from the report, one of each kind, and the minimum");
    println!(
        "for each multiply-add of a warp: all accesses counted by the simulator in a product of {COUNTED:?}"
    );
    println!("all ten are right in the simulator, also at {CHECKED:?}");
    other_types()
}
