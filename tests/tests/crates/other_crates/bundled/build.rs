//! Makes a bundle of the program's kernels.

#[path = "src/kernels.rs"]
mod kernels;

use tilewright::runtime::bundle;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=src/kernels.rs");
    let path = std::path::Path::new(&std::env::var("OUT_DIR")?).join("kernels.bundle");
    let kernels = [kernels::twice().def().clone(), kernels::PRODUCT.def().clone()];
    let architectures = ["80", "86", "89", "90a", "100a", "120a"];
    bundle::write(&kernels.iter().collect::<Vec<_>>(), &architectures, path)?;
    Ok(())
}
