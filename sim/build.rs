//! Passes the optimisation level to the crate, so that a slow run can print how to make it faster.

fn main() {
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=TILEWRIGHT_SIM_OPT_LEVEL={level}");
    println!("cargo:rerun-if-changed=build.rs");
}
