//! Kernels of one crate used in another; and inputs that must not crash the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::process::Output;
use tilewright_tests::fake::Folder;
use tilewright_tests::{Compiler, UserCrate, sweep};

/// One target folder for all crates: their dependencies are compiled once.
fn folders() -> (PathBuf, PathBuf) {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    (temporary.join("crates"), temporary.join("target"))
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crates/other_crates").join(file)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn kernels_of_another_crate_are_specialised_while_compiling() {
    let out = folders().0.join("kernels_of_another_crate");
    let compiler = Compiler::of_this_build();
    let library = ["--crate-type=rlib", "--crate-name=kernels_of_another_crate"];
    let output = compiler.compile(&source("kernels.rs"), &out, &library);
    assert!(output.status.success(), "{}", text(&output));
    let program = ["--crate-type=bin", "--extern=kernels_of_another_crate"];
    let output = compiler.compile(&source("user.rs"), &out, &program);
    assert!(output.status.success(), "{}", text(&output));
    let output = Command::new(out.join("user")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// A program can have only one cudarc, with the union of all features: those that the program chose are not
/// ours.
#[test]
fn programs_with_a_cudarc_of_their_own() {
    // All of tilewright is compiled again, with other features.
    if !sweep::runs(8) {
        return;
    }
    const DRIVER: &str =
        "cudarc = { version = \"0.19\", default-features = false, features = [\"std\", \"driver\"";
    let (parent, target) = folders();
    // The CUDA version is theirs, so ours is disabled; theirs is linked instead of loaded at run time.
    for (name, settings, features) in [
        ("another_version", ", default-features = false, features = [\"cuda\"]", "\"cuda-12080\""),
        ("dynamic_linking", "", "\"dynamic-linking\""),
    ] {
        let user = UserCrate::with(&parent, name, settings, &format!("{DRIVER}, {features}] }}\n")).unwrap();
        user.write("main.rs", include_str!("other_crates/cudarc.rs")).unwrap();
        let output = user.cargo(&["check", "--quiet", "--offline"], &target).unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
    }
}

/// With the default features a program carries the variants of its kernels. What it would have to generate is refused by the
/// compiler.
#[test]
fn programs_without_the_generator() {
    // All of tilewright is compiled again, with other features.
    if !sweep::runs(8) {
        return;
    }
    let (parent, target) = folders();
    let user = UserCrate::new(&parent, "without_the_generator", &[]).unwrap();
    user.write("main.rs", include_str!("other_crates/carried.rs")).unwrap();
    let output = user.cargo(&["run", "--quiet", "--offline"], &target).unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let late = "use tilewright::prelude::*;
const ONE: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64);
fn main() { ONE.specialize(&[(\"bm\", 32)]).unwrap(); }\n";
    user.write("main.rs", late).unwrap();
    let output = user.cargo(&["check", "--quiet", "--offline"], &target).unwrap();
    let message = text(&output);
    assert!(!output.status.success());
    for part in [
        "this program has no generator, which makes kernels at run time",
        "write `features = [\"generate\"]` for `tilewright` in Cargo.toml",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

/// The program of `bench/gpu` that embeds exported kernels and measures them beside launches from Rust; its build script exports.
#[test]
fn the_program_that_measures_exported_kernels() {
    // All of tilewright is compiled again, and NVRTC compiles a hundred kernels.
    if !sweep::runs(16) {
        return;
    }
    if let Err(why) = tilewright_runtime::nvrtc::Nvrtc::find(&[]) {
        assert!(std::env::var_os("TILEWRIGHT_REQUIRE_NVRTC").is_none(), "{why}");
        return println!("skipped: no NVRTC");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (parent, target) = folders();
    let program = parent.join("exported");
    std::fs::create_dir_all(program.join("src")).unwrap();
    for file in ["Cargo.toml", "build.rs", "src/main.rs", "src/kernels.rs"] {
        let text = std::fs::read_to_string(root.join("bench/gpu/exported").join(file)).unwrap();
        let text = text.replace("../../..", root.to_str().unwrap());
        std::fs::write(program.join(file), text).unwrap();
    }
    std::fs::copy(root.join("Cargo.lock"), program.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&program).args(["check", "--quiet", "--offline", "--target-dir"]).arg(&target);
    let output = cargo.env_remove("RUSTFLAGS").env_remove("RUSTC_BOOTSTRAP").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// A program whose build script makes a bundle launches these kernels without a compiler, without a cache, and without the generator.
#[test]
fn programs_that_embed_a_bundle() {
    // All of tilewright is compiled again, with other features.
    if !sweep::runs(8) {
        return;
    }
    let ((parent, target), folder) = (folders(), Folder::new());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let build = format!("\n[build-dependencies]\ntilewright = {{ path = {root:?} }}\n");
    let user = UserCrate::with(&parent, "bundled", "", &build).unwrap();
    user.write("main.rs", include_str!("other_crates/bundled/main.rs")).unwrap();
    user.write("kernels.rs", include_str!("other_crates/bundled/kernels.rs")).unwrap();
    user.write("../build.rs", include_str!("other_crates/bundled/build.rs")).unwrap();
    let with_stand_ins = |command: &mut Command| {
        command.env("LD_LIBRARY_PATH", folder.path()).env("TILEWRIGHT_NVRTC", folder.path());
        let output = command.env("TILEWRIGHT_CACHE_DIR", folder.path().join("cache")).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    with_stand_ins(&mut user.cargo_command(&["build", "--quiet", "--offline"], &target));
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    std::fs::remove_file(folder.path().join("libnvrtc.so.13")).unwrap();
    for arch in [80, 86, 89, 90, 100, 120] {
        let mut program = Command::new(target.join("debug/bundled"));
        let printed = with_stand_ins(program.env("FAKE_ARCH", arch.to_string()));
        let expected = format!("2 kernels, for sm_{arch}, without a compiler\n");
        assert!(printed.starts_with(&expected) && printed.contains("NVRTC was not found"), "{printed}");
    }
}

/// Errors, not a crash. The compiler parses the function before `#[kernel]` sees it, so that its nesting
/// depth is one that the compiler survives.
#[test]
fn bombs_do_not_crash_the_compiler() {
    let compiler = Compiler::of_this_build();
    let nested = |n: usize, open: &str, close: &str| format!("{}1{}", open.repeat(n), close.repeat(n));
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("((), (", "))"),
        ("-", ""),
        ("!", ""),
        ("&", ""),
        ("|x| ", ""),
        ("x = ", ""),
        ("1 + ", ""),
        ("x.y().", ""),
        ("if x {} else ", ""),
        ("Tensor<", ""),
    ] {
        let levels = 10_000 / close.len().max(1);
        let text = nested(levels, open, close);
        check(&compiler, &format!("const K: MatmulKernel<f32> = matmul_kernel!(bm = {text});"));
    }
    let attribute = nested(10_000, "(", ")");
    check(&compiler, &format!("#[kernel({attribute})] fn k(x: &mut Tensor<f32, N>) {{}}"));
    for (open, close) in [("(", ")"), ("[", "]"), ("-", ""), ("!", ""), ("1 + ", "")] {
        // Chains of up to 500 operators are allowed.
        let text = nested(if open == "1 + " { 600 } else { 500 }, open, close);
        check(&compiler, &format!("#[kernel] fn k(x: &mut Tensor<f32, N>) {{ let y = {text}; }}"));
    }
}

#[track_caller]
fn check(compiler: &Compiler, item: &str) {
    let text = format!("#![allow(dead_code)]\nuse tilewright::prelude::*;\n{item}\nfn main() {{}}\n");
    let out = folders().0.join("bomb");
    let file = out.join("bomb.rs");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(&file, &text).unwrap();
    let output = compiler.compile(&file, &out, &["--crate-type=bin", "--emit=metadata"]);
    let printed = self::text(&output);
    let reported = printed.contains("error: this is nested")
        || printed.contains("error: this expression is longer")
        || printed.contains("operations deep");
    let crashed = printed.contains("SIGSEGV") || printed.contains("overflowed its stack");
    assert!(reported && !crashed && output.status.code() == Some(1), "{item:.80}: {printed:.2000}");
}
