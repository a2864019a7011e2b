//! Kernels limited by memory bandwidth: each reads its data once and writes its result once. A softmax runs
//! in the simulator, with a size that no tile divides. For the other kernels the program prints the cost of a
//! warp's accesses.
//!
//! ```console
//! $ cargo run --release --example memory
//! ```

mod bodies;
mod gather;
#[allow(dead_code)]
mod long_rows;
mod products;
#[allow(dead_code)]
mod reductions;
mod rows;
mod scans;
mod stencils;
mod sums;
mod transpose;

use tilewright::prelude::*;

fn main() -> Result<(), tilewright::sim::Error> {
    let (m, n) = (3, 101);
    let x: Vec<f32> = (0..m * n).map(|at| (at % 17) as f32).collect();
    let arguments = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])];
    let done = rows::softmax_rows().simulate(&arguments)?;
    for row in done.get::<f32>("y")?.chunks(n) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
    }
    println!("{m} rows of {n}: each adds up to 1\n\n{done}");

    for (name, report) in [
        ("softmax_row", rows::softmax_row().report()),
        ("layernorm_row", rows::layernorm_row().report()),
        ("transpose", transpose::transpose().report()),
        ("row_sums", sums::row_sums().report()),
        ("column_sums", sums::column_sums().report()),
        ("cumulative_sums", scans::cumulative_sums().report()),
        ("gather_rows", gather::gather_rows().report()),
        ("histogram", gather::histogram().report()),
        ("stencil_5", stencils::stencil_5().report()),
        ("stencil_7", stencils::stencil_7().report()),
        ("gemv", products::gemv().report()),
        ("gravity", bodies::gravity().report()),
    ] {
        println!("{name}\n{report}");
    }
    Ok(())
}
