//! Compiles CUDA C files and prints the result: `cargo run --release --example compile -- sm_90a kernel.cu …`
//!
//! Each file is compiled five times; the median time is shown. A snapshot header at the start of a file, up
//! to its second `---`, is skipped.

use std::path::PathBuf;
use std::process::ExitCode;

use tilewright_runtime::nvrtc::Nvrtc;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(arch) = args.next().filter(|arch| arch.starts_with("sm_")) else {
        eprintln!("usage: compile sm_90a kernel.cu …");
        return ExitCode::FAILURE;
    };
    let installed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/nvrtc/nvidia/cu13/lib");
    let nvrtc = match Nvrtc::find(&[installed]) {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (major, minor) = nvrtc.version();
    println!("NVRTC {major}.{minor}, {}", nvrtc.path().display());
    for path in args {
        if let Err(error) = compile(&nvrtc, &path, &arch) {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn compile(nvrtc: &Nvrtc, path: &str, arch: &str) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let source = text
        .strip_prefix("---\n")
        .and_then(|text| text.split_once("\n---\n"))
        .map_or(&*text, |parts| parts.1);
    let mut all =
        (0..5).map(|_| nvrtc.compile(source, "kernel", arch, &[])).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|compiled| compiled.time);
    let middle = &all[all.len() / 2];
    println!("{path}: {} ms, {} bytes", middle.time.as_millis(), middle.cubin.len());
    for usage in &middle.usage {
        let (stores, loads) = (usage.spill_stores, usage.spill_loads);
        println!(
            "  {}: {} registers, {} bytes of stack, {stores} and {loads} bytes spilled and read back",
            usage.kernel, usage.registers, usage.stack
        );
    }
    middle.notes.iter().for_each(|note| println!("  {note}"));
    Ok(())
}
