//! Exports the kernels, and compiles the C files that launch them.

include!("src/kernels.rs");

use tilewright::runtime::export;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=src/kernels.rs");
    let out = std::env::var("OUT_DIR")?;
    for kernel in all() {
        let [_, source] = export::write(&kernel, &["sm_90"], &out)?;
        export::write_rust(&kernel, &out)?;
        cc::Build::new().file(source).compile(kernel.name());
    }
    Ok(())
}
