//! How long a kernel takes from its definition to a binary.

use std::time::Instant;

use serde_json::{Value, json};
use tilewright_codegen::definition::Generated;
use tilewright_codegen::words::Words;
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;

/// What is compiled: the product family as it stands and at its largest.
const KEYS: &[&str] = &[
    "",
    "vec=4 bk=16",
    "vec=4 bk=16 stages=3",
    "values=(4,4) vec=4 bk=16 stages=3",
    "dtype=f64 bm=64 bn=64",
    "dtype=bf16 bm=64 bn=64",
    "dtype=i8 bm=64 bn=64",
];

const TIMES: usize = 5;

/// Seconds for one variant of a kernel.
pub(super) struct Timed {
    name: String,
    variant: usize,
    /// From the definition to the text of all variants.
    generate: f64,
    /// NVRTC: the middle of several, and the fastest.
    compile: (f64, f64),
    registers: u32,
    spilled: u32,
    bytes: usize,
}

fn kernel(keys: &str) -> Result<Generated> {
    Words::read(keys).map_err(|why| why.to_string())?.matmul().map_err(|why| why.to_string())
}

/// Compiles each kernel's first and last variant several times.
pub(super) fn run(nvrtc: &Nvrtc, architecture: &str) -> Result<Vec<Timed>> {
    // The first compilation of a process starts the compiler.
    let warm = kernel("bm=32 bn=32 tc=(8,8)")?;
    compile(nvrtc, &warm, 0, architecture)?;
    let mut all = Vec::new();
    for keys in KEYS {
        let start = Instant::now();
        let kernel = kernel(keys)?;
        let generate = start.elapsed().as_secs_f64();
        let mut variants = vec![0, kernel.variants.len() - 1];
        variants.dedup();
        for variant in variants {
            let name = if keys.is_empty() { "matmul".into() } else { format!("matmul {keys}") };
            all.push(Timed { name, variant, generate, ..compile(nvrtc, &kernel, variant, architecture)? });
        }
    }
    Ok(all)
}

fn compile(nvrtc: &Nvrtc, kernel: &Generated, variant: usize, architecture: &str) -> Result<Timed> {
    let (mut times, mut last) = (Vec::new(), None);
    for _ in 0..TIMES {
        let source = &kernel.variants[variant].source;
        let compiled =
            nvrtc.compile(source, &kernel.name, architecture, &[]).map_err(|why| why.to_string())?;
        times.push(compiled.time.as_secs_f64());
        last = Some(compiled);
    }
    times.sort_by(f64::total_cmp);
    let usage =
        last.as_ref().and_then(|compiled| compiled.usage_of(&kernel.name)).cloned().unwrap_or_default();
    Ok(Timed {
        name: kernel.name.clone(),
        variant,
        generate: 0.0,
        compile: (times[times.len() / 2], times[0]),
        registers: usage.registers,
        spilled: usage.spill_stores,
        bytes: last.map_or(0, |compiled| compiled.cubin.len()),
    })
}

/// For people.
pub(super) fn table(all: &[Timed]) -> String {
    let mut text = format!(
        "{:<48} {:>7} {:>10} {:>10} {:>10} {:>9}\n",
        "kernel", "variant", "generate", "NVRTC", "fastest", "registers"
    );
    for timed in all {
        let spilled =
            if timed.spilled > 0 { format!(", {} bytes spilled", timed.spilled) } else { String::new() };
        let ms = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        text += &format!(
            "{:<48} {:>7} {:>10} {:>10} {:>10} {:>9}{spilled}\n",
            timed.name,
            timed.variant + 1,
            ms(timed.generate),
            ms(timed.compile.0),
            ms(timed.compile.1),
            timed.registers
        );
    }
    text
}

/// For programs.
pub(super) fn json(all: &[Timed]) -> Value {
    let row = |timed: &Timed| {
        json!({
            "kernel": timed.name,
            "variant": timed.variant + 1,
            "generate_seconds": timed.generate,
            "nvrtc_seconds": timed.compile.0,
            "nvrtc_fastest_seconds": timed.compile.1,
            "registers": timed.registers,
            "spilled_bytes": timed.spilled,
            "binary_bytes": timed.bytes,
        })
    };
    all.iter().map(row).collect()
}
