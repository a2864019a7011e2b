//! Instrumented kernels: their text, their compilation, and the lines of their machine code.

use tilewright::KernelDef;
use tilewright::kernels;
use tilewright::prelude::*;
use tilewright_codegen::cuda::{self, Instrument};
use tilewright_codegen::thread::Kernel;

use crate::{machine_code, nvrtc};

const ALL: Instrument = Instrument { lines: true, asserts: true, prints: true, timeline: true };

#[kernel]
fn checked(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let x = tile(x, (16, 8), (block.x, _));
    for k in 0..x.size(2) {
        let x = map(x[(_, _, k)], |x| x);
        assert_device(x >= 0.0, "weights are positive");
        assert_device(k < 100, "few columns");
        print(x, block = (1, 0));
        copy(sqrt(x), tile(y, (16, 8), (block.x, k)));
    }
}

/// The fastest variant of an instrumented kernel, and its source, in which the author's first line is line 1.
fn instrumented(def: &KernelDef, instrument: Instrument) -> (Kernel, String) {
    let kernel = def.generate().expect("a kernel").into_probed();
    let program = kernel.variants[0].program.clone();
    let lines = def.locations().lines;
    let first = lines.iter().min().copied().unwrap_or(1);
    let lines: Vec<u32> = lines.iter().map(|line| line - first + 1).collect();
    let (source, marks) = cuda::print_instrumented(&program, instrument, "src/author.rs", &lines);
    assert_eq!(marks.is_empty(), !instrument.timeline);
    (program, source)
}

#[test]
fn text_of_an_instrumented_kernel() {
    insta::assert_snapshot!("instrumented", instrumented(checked().def(), ALL).1);
}

#[test]
fn instrumented_kernels_compile() {
    let Some(nvrtc) = nvrtc() else { return };
    let shipped = |name| kernels::named(name).expect("a shipped kernel").def;
    let own = checked().def().clone();
    let cases = [
        (own.clone(), "sm_80"),
        (own, "sm_90a"),
        (shipped("linear_hopper"), "sm_90a"),
        (shipped("attention_hopper"), "sm_90a"),
        (shipped("softmax"), "sm_80"),
    ];
    for (def, arch) in cases {
        let (program, source) = instrumented(&def, ALL);
        let compiled = nvrtc.compile(&source, &program.name, arch, ALL.options());
        let compiled = compiled.unwrap_or_else(|why| panic!("{}: {why}\n{source}", def.name()));
        let Some(lines) = machine_code::lines_of(&compiled.cubin, "src/author.rs") else { return };
        assert!(lines.len() > 2, "{}: {lines:?}", def.name());
        // Without the instrument there are none.
        let (_, plain) = instrumented(&def, Instrument::default());
        let plain = nvrtc.compile(&plain, &program.name, arch, &[]).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(machine_code::lines_of(&plain.cubin, "src/author.rs"), Some(Default::default()));
    }
}
