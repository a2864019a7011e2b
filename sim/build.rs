//! Tells the crate how it is optimised, so that a slow run can say what would make it fast.

fn main() {
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=TILEWRIGHT_SIM_OPT_LEVEL={level}");
    println!("cargo:rerun-if-changed=build.rs");
}
