//! Compile time of a kernel: from its definition to a binary, and from the cache.

use std::time::Instant;

use serde_json::{Value, json};
use tilewright_codegen::definition::Generated;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::cache::{Cache, Request};
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;

/// The compiled kernels: the product family at its defaults, at its largest, and by tensor cores.
const KEYS: &[&str] = &[
    "",
    "schedule=(vec=4) bk=16",
    "schedule=(vec=4) bk=16 stages=3",
    "schedule=(values=(4,4) vec=4) bk=16 stages=3",
    "dtype=f64 bm=64 bn=64",
    "dtype=bf16 bm=64 bn=64",
    "dtype=i8 bm=64 bn=64",
    "dtype=bf16 arch=80 a=k_major b=k_major",
    "dtype=bf16 arch=90 a=k_major b=k_major",
    "dtype=e4m3 out=bf16 arch=90 a=k_major b=k_major",
];

const TIMES: usize = 5;

/// Seconds for one variant of a kernel.
pub(crate) struct Timed {
    name: String,
    variant: usize,
    /// From the definition to the text of all variants.
    generate: f64,
    /// NVRTC: the median of several runs, and the fastest.
    compile: (f64, f64),
    /// From the cache on disk.
    cache: f64,
    registers: u32,
    spilled: u32,
    bytes: usize,
}

fn kernel(keys: &str) -> Result<Generated> {
    Words::read(keys).map_err(|why| why.to_string())?.matmul().map_err(|why| why.to_string())
}

/// Compiles each kernel's first and last variant several times.
pub(crate) fn run(nvrtc: &Nvrtc, architecture: &str) -> Result<Vec<Timed>> {
    // The first compilation of a process starts the compiler.
    let folder = std::env::temp_dir().join(format!("tilewright-bench-{}", std::process::id()));
    let cache = Cache::at(&folder, 64 << 20);
    let warm = kernel("bm=32 bn=32 tc=(8,8)")?;
    compile(nvrtc, &cache, &warm, 0, architecture)?;
    let all = compile_all(nvrtc, &cache, architecture);
    // A private folder; leftovers are harmless.
    let _ = std::fs::remove_dir_all(&folder);
    all
}

fn compile_all(nvrtc: &Nvrtc, cache: &Cache, architecture: &str) -> Result<Vec<Timed>> {
    let mut all = Vec::new();
    let number: String = architecture.chars().filter(char::is_ascii_digit).collect();
    for keys in KEYS {
        let start = Instant::now();
        let kernel = kernel(keys)?;
        let generate = start.elapsed().as_secs_f64();
        let mut variants = vec![0, kernel.variants.len() - 1];
        variants.dedup();
        // An older architecture has no variants by wgmma.
        variants.retain(|variant| {
            number.parse().is_ok_and(|number: u32| kernel.variants[*variant].program.arch <= number)
        });
        for variant in variants {
            let name = if keys.is_empty() { "matmul".into() } else { format!("matmul {keys}") };
            all.push(Timed {
                name,
                variant,
                generate,
                ..compile(nvrtc, cache, &kernel, variant, architecture)?
            });
        }
    }
    Ok(all)
}

fn compile(
    nvrtc: &Nvrtc,
    cache: &Cache,
    kernel: &Generated,
    variant: usize,
    architecture: &str,
) -> Result<Timed> {
    let source = &kernel.variants[variant].source;
    let (mut times, mut last) = (Vec::new(), None);
    for _ in 0..TIMES {
        let compiled =
            nvrtc.compile(source, &kernel.name, architecture, &[]).map_err(|why| why.to_string())?;
        times.push(compiled.time.as_secs_f64());
        last = Some(compiled);
    }
    let request = Request { source, name: &kernel.name, arch: architecture, options: &[] };
    cache.compile(Ok(nvrtc), &request).map_err(|why| why.to_string())?;
    let hits = (0..TIMES).map(|_| {
        let start = Instant::now();
        let cached = cache.compile(Ok(nvrtc), &request).map_err(|why| why.to_string())?;
        let seconds = start.elapsed().as_secs_f64();
        match cached.hit {
            true => Ok(seconds),
            false => Err(format!("`{}` was not kept in the cache", kernel.name)),
        }
    });
    let hits = hits.collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    let usage =
        last.as_ref().and_then(|compiled| compiled.usage_of(&kernel.name)).cloned().unwrap_or_default();
    Ok(Timed {
        name: kernel.name.clone(),
        variant,
        generate: 0.0,
        compile: (times[times.len() / 2], times[0]),
        cache: middle(hits),
        registers: usage.registers,
        spilled: usage.spill_stores,
        bytes: last.map_or(0, |compiled| compiled.cubin.len()),
    })
}

pub(crate) fn middle(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// For people.
pub(crate) fn table(all: &[Timed]) -> String {
    let mut text = format!(
        "{:<48} {:>7} {:>10} {:>10} {:>10} {:>10} {:>9}\n",
        "kernel", "variant", "generate", "NVRTC", "fastest", "cache", "registers"
    );
    for timed in all {
        let spilled =
            if timed.spilled > 0 { format!(", {} bytes spilled", timed.spilled) } else { String::new() };
        let ms = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        text += &format!(
            "{:<48} {:>7} {:>10} {:>10} {:>10} {:>10} {:>9}{spilled}\n",
            timed.name,
            timed.variant + 1,
            ms(timed.generate),
            ms(timed.compile.0),
            ms(timed.compile.1),
            format!("{:.2} ms", timed.cache * 1e3),
            timed.registers
        );
    }
    text
}

/// For programs.
pub(crate) fn json(all: &[Timed]) -> Value {
    let row = |timed: &Timed| {
        json!({
            "kernel": timed.name,
            "variant": timed.variant + 1,
            "generate_seconds": timed.generate,
            "nvrtc_seconds": timed.compile.0,
            "nvrtc_fastest_seconds": timed.compile.1,
            "cache_seconds": timed.cache,
            "registers": timed.registers,
            "spilled_bytes": timed.spilled,
            "binary_bytes": timed.bytes,
        })
    };
    all.iter().map(row).collect()
}
