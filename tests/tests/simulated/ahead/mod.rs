//! Copies that run ahead of the loop that uses them, by producers and by the loop's own threads, in every form that a tile
//! can have: rows of any number of bytes, any number of stages, conditions around copies, edges.

mod conditions;
mod products;
mod rows;

use std::path::PathBuf;

use tilewright::KernelDef;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::element::Element;
use tilewright_runtime::nvrtc::{Error, Nvrtc};
use tilewright_sim::{Arg, Options, run_every};

/// Every variant compiles, where NVRTC is installed.
#[track_caller]
fn compiled(def: &KernelDef) -> Generated {
    let kernel = def.generate().expect("a kernel");
    let installed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/nvrtc/nvidia/cu13/lib");
    let required = std::env::var_os("TILEWRIGHT_REQUIRE_NVRTC").is_some_and(|value| value == "1");
    match Nvrtc::find(&[installed]) {
        Ok(nvrtc) => {
            for variant in &kernel.variants {
                let made = nvrtc.compile(&variant.source, &variant.program.name, "sm_90a", &[]);
                made.unwrap_or_else(|error| panic!("{error}\n{}", variant.source));
            }
        }
        Err(Error::Absent(absent)) if !required => eprintln!("skipped: no NVRTC\n{absent}"),
        Err(error) => panic!("{error}"),
    }
    kernel
}

/// A tensor that every variant writes, with several schedules.
#[track_caller]
fn results<T: Element>(kernel: &Generated, args: &[Arg], name: &str) -> Vec<Vec<T>> {
    let options = |seed| Options { seed, ..Options::default() };
    let all = (0..4).flat_map(|seed| {
        run_every(kernel, args, &options(seed)).unwrap_or_else(|fault| panic!("{fault}\n{}", kernel.source()))
    });
    all.map(|outcome| outcome.get::<T>(name).expect("a tensor")).collect()
}

/// Small integers, whose sums and products are exact.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed) % 5) as f32 - 2.0).collect()
}
