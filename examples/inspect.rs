//! What you can inspect before a kernel runs: source, report, loop nest, variants, errors.
//!
//! ```console
//! $ cargo run --example inspect
//! ```

use tilewright::prelude::*;

const SMALL: MatmulKernel<f32> =
    matmul_kernel!(bm = 64, bn = 64, bk = 16, tc = (16, 16), schedule = (vec = 4));

fn main() -> Result<(), tilewright::KernelErrors> {
    // The source and the report are compiled into the program: the macro generates them at compile time.
    println!("{}", SMALL.report());
    println!("{}", SMALL.explain()?);

    // The loop nest and the variants are generated at run time, from the definition in the kernel.
    let generated = SMALL.def().generate()?;
    for (place, variant) in generated.variants.iter().enumerate() {
        let lines = variant.source.lines().count();
        println!("variant {}: {lines} lines, needs {:?}", place + 1, variant.program.needs.len());
    }

    // Other constants at run time; an invalid combination is an error that says what to write instead.
    let larger = SMALL.specialize(&[("bm", 128), ("bn", 128)])?;
    println!("\n{}", larger.report());
    if let Err(why) = SMALL.specialize(&[("bm", 72)]) {
        println!("{why}");
    }
    Ok(())
}
