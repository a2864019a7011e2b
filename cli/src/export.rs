//! `tilewright export`: a kernel for programs in C, and in Python.

use std::process::ExitCode;

use clap::{ArgAction, ArgMatches, Command};
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_runtime::{bundle, export};

use crate::kernel;
use crate::output::{self, Failure, Result, finish, flag, option, print, text, texts};

const EXAMPLES: &str = "\
Examples:
  tilewright export softmax --arch sm_90
  tilewright export matmul dtype=bf16 name=product --arch sm_90,sm_80,compute_80 --out src/kernels
  tilewright export softmax --with 'matmul dtype=bf16' --arch sm_90 --bundle kernels.bundle";

const FILES: &str = "\
NAME.h and NAME.c contain the binaries, and everything that a launch in Rust decides: the checks of arguments, the choice among
alternatives, tensor maps, copies of arguments. Alternatives with split = blocks(n) are left out: a note and NAME.c list them. They need a C compiler, or one for C++, `cc -c NAME.c`, and where they run the
driver, which is loaded when a kernel is opened. NAME.h says how a launch is planned and made. With -DTILEWRIGHT_TVM_FFI, NAME.c also
has the kernel as a function of TVM's FFI, for frameworks in Python.";

pub(crate) fn command() -> Command {
    Command::new("export")
        .about("Compile a kernel and write C files that launch it, without anything but the driver")
        .args(kernel::args())
        .arg(
            option(
                "arch",
                "ARCHS",
                "Architectures, separated by commas; compute_80 is PTX, for newer devices",
            )
            .value_delimiter(',')
            .required(true),
        )
        .arg(option("bundle", "FILE", "Write a bundle instead, for programs in Rust that then need no NVRTC"))
        .arg(
            option("with", "'KERNEL KEYS'", "Another kernel of the bundle; may be repeated")
                .action(ArgAction::Append)
                .requires("bundle"),
        )
        .arg(option("out", "FOLDER", "Where the files are written").default_value("."))
        .arg(flag(
            "python",
            "Write NAME.py too, which launches on tensors of PyTorch by the package apache-tvm-ffi",
        ))
        .arg(flag("rust", "Write NAME.rs too, for a program in Rust that links neither tilewright nor NVRTC"))
        .after_help(format!(
            "{}\n\n{FILES}\n\n{}\n\n{}",
            kernel::examples(EXAMPLES),
            output::EXIT_CODES,
            kernel::help()
        ))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(write(matches))
}

fn write(matches: &ArgMatches) -> Result {
    let chosen = kernel::chosen(matches)?;
    let (architectures, folder) = (texts(matches, "arch"), text(matches, "out").unwrap_or("."));
    if let Some(path) = text(matches, "bundle") {
        return bundle(chosen.def, &texts(matches, "with"), &architectures, path);
    }
    let mut paths = export::write(&chosen.def, &architectures, folder).map_err(Failure::of)?.to_vec();
    if matches.get_flag("python") {
        paths.push(export::write_python(&chosen.def, folder).map_err(Failure::of)?);
    }
    if matches.get_flag("rust") {
        paths.push(export::write_rust(&chosen.def, folder).map_err(Failure::of)?);
    }
    let size = |path: &std::path::PathBuf| std::fs::metadata(path).map_or(0, |of| of.len());
    let line = |path: &std::path::PathBuf| format!("{} ({})\n", path.display(), output::bytes(size(path)));
    print(&paths.iter().map(line).collect::<String>())
}

fn bundle(first: KernelDef, others: &[&str], architectures: &[&str], path: &str) -> Result {
    let others = others.iter().map(|words| Ok(kernel::in_words(words)?.def));
    let all = [Ok(first)].into_iter().chain(others).collect::<Result<Vec<_>>>()?;
    let bytes = bundle::write(&all.iter().collect::<Vec<_>>(), architectures, path).map_err(Failure::of)?;
    print(&format!("{path} ({}, kernels: {})\n", output::bytes(bytes), all.len()))
}
