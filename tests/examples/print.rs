//! Prints a program of the tests as CUDA C.
fn main() {
    let program = match std::env::args().nth(1).as_deref() {
        Some("wgmma_ring") => tilewright_tests::programs::wgmma_ring(),
        _ => tilewright_tests::programs::mma_sync(),
    };
    let outcome = match program {
        Ok(program) => tilewright_codegen::generate(program),
        Err(problem) => return eprintln!("{problem:?}"),
    };
    outcome.diagnostics.iter().for_each(|d| eprintln!("{}", d.text()));
    if let Some(kernel) = outcome.kernel {
        println!("{}", kernel.source());
    }
}
