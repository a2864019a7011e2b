//! Snapshot tests of generated CUDA C, in a test file for a crate with kernels. A change of a layout is
//! visible as a text diff before the kernel runs.
//!
//! ```console
//! $ cargo test --example snapshot_test     # INSTA_UPDATE=always accepts changes
//! ```

use tilewright::prelude::*;

/// y = a·x, elementwise.
#[kernel]
fn scale<const B: usize = 1024>(x: &Tensor<f32, (N)>, y: &mut Tensor<f32, (N)>, a: f32) {
    let threads = layout!((256));
    let from = parallelize(tile(x, (B), (block.x)), threads, thread.x, values = (4));
    let to = parallelize(tile(y, (B), (block.x)), threads, thread.x, values = (4));
    copy(map(from, |x| a * x), to);
}

/// Asserts the vector width: each thread loads four elements at once.
#[test]
fn loads_are_wide() {
    assert!(scale().source().contains("float4"), "{}", scale().source());
}

/// The source and its cost.
#[test]
fn source_and_report() {
    insta::assert_snapshot!("source", scale().source());
    insta::assert_snapshot!("report", scale().report());
}

/// The loops, with other constants.
#[test]
fn loops() -> Result<(), tilewright::KernelErrors> {
    insta::assert_snapshot!("loops", scale!(B = 2048).explain()?);
    Ok(())
}

fn main() {
    println!("{}", scale().source());
}
