//! A program in Rust that embeds an exported kernel: it links neither the generator nor NVRTC.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use tilewright::kernels;
use tilewright_runtime::export;
use tilewright_tests::fake::Folder;

use crate::exported;

/// Bytes that a kernel may add to a release build.
const MOST: u64 = 1_000_000;

fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{message}", String::from_utf8_lossy(&output.stdout));
    output
}

#[test]
fn a_program_that_embeds_a_kernel() {
    let folder = Folder::new();
    let crate_ = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedded");
    let exported = crate_.join("exported");
    fs::create_dir_all(crate_.join("src/bin")).unwrap();
    let softmax = kernels::named("softmax").expect("a shipped kernel").def;
    match export::write(&softmax, &["sm_90"], &exported) {
        Ok(_) => {}
        Err(export::Error::Compile(why)) if env::var_os("TILEWRIGHT_REQUIRE_NVRTC").is_none() => {
            return println!("skipped: {why}");
        }
        Err(why) => panic!("{why}"),
    }
    export::write_rust(&softmax, &exported).unwrap();
    let manifest = "[package]\nname = \"embedded\"\nedition = \"2024\"\n\n[workspace]\n";
    for (file, text) in [
        ("Cargo.toml", manifest),
        ("build.rs", &include_str!("embedded/build.rs").replace("NAME", "softmax")),
        ("src/bin/launches.rs", include_str!("embedded/launches.rs")),
        ("src/bin/without.rs", include_str!("embedded/without.rs")),
    ] {
        fs::write(crate_.join(file), text).unwrap();
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&crate_).env("EXPORTED", &exported).env_remove("RUSTFLAGS");
    succeeded(cargo.args(["build", "--release", "--quiet", "--offline", "--target-dir", "target"]));
    let built = crate_.join("target/release");
    let bytes = |name: &str| fs::metadata(built.join(name)).unwrap().len();
    let [with, without] = [bytes("launches"), bytes("without")];
    println!("{with} bytes with the kernel, {without} without");
    assert!(with < without + MOST, "{with} bytes with the kernel, {without} without");
    // It needs nothing that a program without it does not need; the driver is loaded.
    let libraries = |name: &str| {
        let output = succeeded(Command::new("ldd").arg(built.join(name)));
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        lines.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(libraries("launches"), libraries("without"));
    let generated = softmax.generate().unwrap();
    let driver = exported::driver(&folder, &generated, &exported, &[]);
    let output = succeeded(Command::new(built.join("launches")).env("LD_LIBRARY_PATH", driver));
    insta::assert_snapshot!("embedded", String::from_utf8_lossy(&output.stdout));
    let output = Command::new(built.join("launches")).env("LD_LIBRARY_PATH", "").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || message.contains("there is no NVIDIA driver here"), "{message}");
}
