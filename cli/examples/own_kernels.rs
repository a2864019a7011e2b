//! The commands for kernels of one's own: `cargo run -p tilewright-cli --example own_kernels -- run scaled`.

use std::process::ExitCode;

use tilewright::prelude::*;

/// Each row of `x` times a number.
#[kernel]
pub fn scaled<const W: usize = 256>(
    by: &Tensor<f32, M>,
    x: &Tensor<f32, (M, N), (N, _1)>,
    y: &mut Tensor<f32, (M, N), (N, _1)>,
) {
    let (x, y) = (tile(x, (4, W), (block.x, block.y)), tile(y, (4, W), (block.x, block.y)));
    copy(map((x, tile(by, 4, block.x).along(0)), |x, by| x * by), y);
}

/// The program.
#[allow(unreachable_pub)]
pub fn main() -> ExitCode {
    tilewright_cli::Commands::of(&[&scaled()])
        .about("scaled", "each row times a number")
        .reference("scaled", |inputs, results| {
            results.fill("y", |at| inputs.at("x", at) * inputs.at("by", &at[..1]));
        })
        .main()
}
