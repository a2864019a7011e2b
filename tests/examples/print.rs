//! Prints a kernel of the gallery, a choreography, or one of `matmul_kernel!`: its report, then its CUDA C.
//!
//! ```console
//! $ cargo run -p tilewright-tests --example print                            # the names
//! $ cargo run -p tilewright-tests --example print wgmma_ring
//! $ cargo run -p tilewright-tests --example print bm=64 bn=64 'tc=(8,8)' dtype=i32
//! ```

use std::process::ExitCode;

use tilewright_tests::{choreography, gallery};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let text = words.join(" ");
    let kernel = if text.contains('=') {
        let outcome = gallery::matmul(&text);
        outcome.diagnostics.iter().for_each(|d| eprintln!("{}", d.text()));
        outcome.kernel
    } else {
        let choreographies = choreography::all();
        if let Some(of) = choreographies.iter().find(|of| of.name == text) {
            println!("{}", of.kernel().source_with_report());
            return ExitCode::SUCCESS;
        }
        let result = gallery::all().iter().find(|(name, _)| *name == text).map(|(_, kernel)| kernel.clone());
        if result.is_none() {
            gallery::all().iter().for_each(|(name, _)| println!("{name}"));
            choreographies.iter().for_each(|of| println!("{}", of.name));
        }
        result
    };
    match kernel {
        Some(kernel) => println!("{}", kernel.source_with_report()),
        None => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}
