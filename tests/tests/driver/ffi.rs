//! Exported kernels as functions of TVM's FFI: called from C with values that are written there, and from Python by the package
//! apache-tvm-ffi.

use std::env;
use std::path::Path;
use std::process::Command;

use tilewright_codegen::Generated;
use tilewright_tests::fake::Folder;

use crate::exported::{driver, exported, product};

/// The folder of the package apache-tvm-ffi; tests fail without it where `REQUIRED` is set.
const PACKAGE: &str = "TILEWRIGHT_TVM_FFI";
const REQUIRED: &str = "TILEWRIGHT_REQUIRE_TVM_FFI";

fn kernel() -> Generated {
    product("name=product dtype=bf16 alpha_beta=true arch=90 bm=128 bn=128 a=k_major b=k_major c=n_major")
}

fn write(folder: &Path, kernel: &Generated) {
    let files = exported(kernel);
    for (name, text) in [
        ("product.h", files.header.as_str()),
        ("product.c", &files.source),
        ("ffi.c", include_str!("ffi.c")),
        ("ffi.py", include_str!("ffi.py")),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

fn compile(folder: &Path, compiler: &str, options: &[&str]) {
    let mut command = Command::new(compiler);
    match command.current_dir(folder).arg("-DTILEWRIGHT_TVM_FFI").args(options).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => println!("skipped: no {compiler}"),
    }
}

#[test]
fn a_function_called_from_c() {
    let (folder, kernel) = (Folder::new(), kernel());
    let path = folder.path();
    write(path, &kernel);
    let warnings =
        ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror"];
    std::fs::copy(path.join("product.c"), path.join("product.cpp")).unwrap();
    for (compiler, file, standard) in [
        ("clang", "product.c", "-std=c11"),
        ("clang++", "product.cpp", "-std=c++11"),
        ("g++", "product.cpp", "-std=c++11"),
        ("gcc", "ffi.c", "-std=gnu11"),
    ] {
        compile(path, compiler, &[&warnings[..], &[standard, "-fsyntax-only", file]].concat());
    }
    compile(path, "gcc", &["-O1", "-fsanitize=undefined", "product.c", "ffi.c", "-o", "calls", "-ldl"]);
    compile(path, "gcc", &["-O2", "product.c", "ffi.c", "-o", "timed", "-ldl"]);
    let printed = |program: &str, words: &[&str]| {
        let output =
            Command::new(path.join(program)).args(words).env("LD_LIBRARY_PATH", path).output().unwrap();
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && wrong.is_empty(), "{wrong}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    driver(&folder, &kernel, path, &[]);
    insta::assert_snapshot!("called_from_c", printed("calls", &[]));
    driver(&folder, &kernel, path, &["-O2", "-DWITHOUT_PRINT"]);
    println!("{}", printed("timed", &["time"]));
}

#[test]
fn a_function_called_from_python() {
    let (folder, kernel) = (Folder::new(), kernel());
    let path = folder.path();
    let mut command = Command::new("python3");
    if let Some(package) = env::var_os(PACKAGE) {
        command.env("PYTHONPATH", package);
    }
    let has_package =
        command.args(["-c", "import tvm_ffi"]).output().is_ok_and(|output| output.status.success());
    if !has_package {
        assert!(env::var_os(REQUIRED).is_none(), "no apache-tvm-ffi");
        return println!("skipped: no apache-tvm-ffi");
    }
    write(path, &kernel);
    driver(&folder, &kernel, path, &[]);
    compile(path, "gcc", &["-O1", "-fPIC", "-shared", "product.c", "-o", "libproduct.so", "-ldl"]);
    let mut command = Command::new("python3");
    if let Some(package) = env::var_os(PACKAGE) {
        command.env("PYTHONPATH", package);
    }
    let library = path.join("libproduct.so");
    let output =
        command.current_dir(path).env("LD_LIBRARY_PATH", path).arg("ffi.py").arg(library).output().unwrap();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wrong}");
    insta::assert_snapshot!("called_from_python", String::from_utf8_lossy(&output.stdout));
}
