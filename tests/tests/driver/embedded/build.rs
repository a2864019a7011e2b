//! Compiles an exported kernel, as the crate `cc` does.

use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    let exported = std::env::var("EXPORTED").unwrap();
    let run = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).current_dir(&out).args(arguments).status().unwrap().success());
    };
    run("cc", &["-O2", "-ffunction-sections", "-fdata-sections", "-c", &format!("{exported}/NAME.c")]);
    run("ar", &["crs", "libNAME.a", "NAME.o"]);
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=NAME");
    println!("cargo::rerun-if-env-changed=EXPORTED");
    println!("cargo::rerun-if-changed={exported}");
}
