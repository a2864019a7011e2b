//! The output of the CUDA printer, and its compilation by NVRTC. Snapshots need no tool; compiling needs
//! NVRTC, and checks of machine code need a disassembler. No test needs a GPU.

mod build;
mod drawn;
mod guards;
mod hopper;
mod instrumented;
mod integers;
mod machine_code;
mod overlaps;
mod products;
mod programs;
mod small;
mod tensor_cores;
mod whole;

use std::path::PathBuf;

use tilewright::kernels::{self, PLAIN};
use tilewright_codegen::Generate;
use tilewright_codegen::atom::Effect;
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::{cuda, isa};
use tilewright_runtime::nvrtc::{Error, Nvrtc};

use programs::Program;
use tilewright_tests::{by_all_cores, gallery, rows, sweep};

/// The architectures for which every program without a specific architecture is compiled.
const ARCHITECTURES: [(&str, u32); 7] = [
    ("sm_75", 75),
    ("sm_80", 80),
    ("sm_86", 86),
    ("sm_89", 89),
    ("sm_90a", 90),
    ("sm_100a", 100),
    ("sm_120a", 120),
];

/// The architectures whose machine code is checked.
const DISASSEMBLED: [&str; 3] = ["sm_80", "sm_90a", "sm_120a"];

/// The architectures of a kernel; for variations only the oldest and the newest.
fn architectures(program: &Program) -> Vec<&'static str> {
    let Kernel { arch, arch_specific: only, .. } = program.kernel;
    let claimed = ARCHITECTURES.into_iter().filter(|row| if only { row.1 == arch } else { row.1 >= arch });
    let mut names: Vec<&str> = claimed.map(|row| row.0).collect();
    if !program.for_all && names.len() > 2 {
        names.drain(1..names.len() - 1);
    }
    names
}

/// Are NVRTC and the disassembler required?
fn nothing_may_be_skipped() -> bool {
    std::env::var_os("TILEWRIGHT_REQUIRE_NVRTC").is_some_and(|value| value == "1")
}

/// NVRTC; `None` if it is absent and the tests may be skipped.
fn nvrtc() -> Option<Nvrtc> {
    let installed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/nvrtc/nvidia/cu13/lib");
    let required = nothing_may_be_skipped();
    match Nvrtc::find(&[installed]) {
        Ok(nvrtc) => Some(nvrtc),
        Err(Error::Absent(absent)) if !required => {
            eprintln!("skipped: no NVRTC\n{absent}\n`cargo xtask setup` gets it.");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Programs whose text has a snapshot: what shipped kernels do not show. `tests/snapshots.rs` shows theirs.
const PRINTED: &[&str] = &[
    "arena",
    "atomics",
    "boxes_3d",
    "casts_bf16",
    "casts_e4m3",
    "casts_i8",
    "cluster",
    "copy_bf16",
    "groups_80",
    "groups_90",
    "plain_bulk",
    "template",
    "trigonometry_f32",
    "values_bf16",
    "values_f32",
    "values_i64",
    "wide",
];

#[test]
fn printed() {
    let programs = programs::all();
    for Program { kernel, .. } in &programs {
        let source = cuda::print(kernel);
        assert_eq!(source, cuda::print(kernel), "{}: printed twice, two texts", kernel.name);
    }
    for name in PRINTED {
        let program = programs.iter().find(|program| program.kernel.name == *name).expect(name);
        insta::assert_snapshot!(*name, cuda::print(&program.kernel));
    }
}

#[test]
fn compiled() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut programs = programs::all();
    for (_, kernel) in gallery::all() {
        // The fastest variant and the most general one.
        let last = (kernel.variants.len() > 1).then(|| kernel.variants.last()).flatten();
        let both = kernel.variants.first().into_iter().chain(last);
        programs.extend(both.map(|variant| Program::shown(variant.program.clone())));
    }
    // The fastest variants of models: registers of a variant for any strides may be spilled.
    for model in kernels::models::all() {
        let kernel = model.def.definition().and_then(|definition| definition.generate().kernel);
        let fastest = kernel.and_then(|kernel| kernel.variants.into_iter().next());
        programs.push(Program::shown(fastest.expect(model.name).program));
    }
    none_is_wrong(&programs, |program| faults(&nvrtc, program));
}

/// Products by wgmma of every type: no spills, no serialised wgmma.
#[test]
fn products_by_wgmma() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut programs = Vec::new();
    let drawn = sweep::share(hopper::PRODUCTS, 3);
    for keys in &drawn {
        let outcome = gallery::matmul(&format!("arch=90 {keys}"));
        let messages: Vec<String> = outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
        let kernel = outcome.kernel.unwrap_or_else(|| panic!("{keys}: {}", messages.join("\n")));
        let packs = kernel.packs.into_iter().flat_map(|pack| pack.kernel.variants);
        programs.extend(packs.map(|variant| (format!("{keys}, pack"), Program::shown(variant.program))));
        for (index, variant) in kernel.variants.into_iter().enumerate() {
            if variant.program.arch_specific {
                programs.push((format!("{keys}, variant {}", index + 1), Program::shown(variant.program)));
            }
        }
    }
    assert!(programs.len() > drawn.len());
    none_is_wrong(&programs, |(name, program)| {
        faults(&nvrtc, program).into_iter().map(|fault| format!("{name}: {fault}")).collect()
    });
}

/// Choreographies: no spills, no serialised wgmma, and the expected instructions.
#[test]
fn choreographies() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut programs = Vec::new();
    for of in tilewright_tests::choreography::all() {
        for (index, variant) in of.kernel().variants.into_iter().enumerate() {
            let sass = if index == 0 { of.sass.to_vec() } else { Vec::new() };
            programs.push(Program { sass, ..Program::shown(variant.program) });
        }
    }
    none_is_wrong(&programs, |program| faults(&nvrtc, program));
}

/// Products in flight across stages of a loop: no spills, no serialised wgmma.
#[test]
fn stages_of_attention() {
    let Some(nvrtc) = nvrtc() else { return };
    let shipped = kernels::named("attention_hopper").expect("a shipped kernel");
    let programs = [(64, 1), (64, 2), (128, 1), (128, 2)].map(|(d, overlap)| {
        let def = shipped.def.specialize(&[("D", d), ("OVERLAP", overlap)], &[]).expect("constants");
        Program::shown(def.generate().expect("a kernel").variants.swap_remove(0).program)
    });
    none_is_wrong(&programs, |program| faults(&nvrtc, program));
}

#[test]
fn moves_of_the_table() {
    let Some(nvrtc) = nvrtc() else { return };
    // Of the boxes, two ranks.
    let chosen = |name: &str| !["_1d", "_3d", "_4d"].iter().any(|rank| name.contains(rank));
    let rows = isa::all().filter(|row| !matches!(row.effect, Effect::Mma { .. }) && chosen(row.name));
    let kernels: Vec<Kernel> = rows.map(tensor_cores::moves).collect();
    none_is_wrong(&kernels, |kernel| {
        let newest = if kernel.arch < 90 { "sm_120a" } else { "sm_100a" };
        let oldest = format!("sm_{}", kernel.arch);
        let source = cuda::print(kernel);
        let compiled = [oldest.as_str(), newest].map(|arch| nvrtc.compile(&source, &kernel.name, arch, &[]));
        compiled.into_iter().filter_map(|compiled| compiled.err().map(|error| error.to_string())).collect()
    });
}

#[test]
fn products_of_the_table() {
    let Some(nvrtc) = nvrtc() else { return };
    // Of wgmma, a shape that all types have, and the widest.
    let chosen = |name: &str| !name.starts_with("wgmma") || name.contains("n48k") || name.contains("n256k");
    let programs: Vec<Program> =
        rows::all().filter(|trial| chosen(trial.row.name)).map(programs::product).collect();
    none_is_wrong(&programs, |program| faults(&nvrtc, program));
}

#[test]
#[ignore = "long: a thousand compilations"]
fn fuzz_every_product_of_the_table() {
    let Some(nvrtc) = nvrtc() else { return };
    let programs: Vec<Program> = rows::all().map(programs::product).collect();
    none_is_wrong(&programs, |program| faults(&nvrtc, program));
}

/// Asserts that no item of this run's share has faults.
#[track_caller]
fn none_is_wrong<T: Sync>(items: &[T], faults: impl Fn(&T) -> Vec<String> + Sync) {
    let wrong = by_all_cores(&sweep::share(items, 8), |item| faults(item)).concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Registers and spills are part of the report.
#[test]
fn reported() {
    let Some(nvrtc) = nvrtc() else { return };
    let kernel = gallery::matmul(PLAIN).kernel.expect("a kernel");
    let report = tilewright_runtime::report::compiled(&nvrtc, &kernel, &["sm_90a"]).expect("it compiles");
    let text = report.to_string();
    assert!(text.contains("sm_90a") && text.contains("registers, nothing spilled"), "{text}");
    // An iteration of this product is 8x8x8.
    let inner = report.compiled[0].inner.expect("it has a loop");
    assert_eq!(inner.multiply_adds, 512, "{text}");
    assert!(text.contains(" instructions of its inner loop multiply and add, "), "{text}");
    // The disassembler counts as many: outside of loops there are none.
    for (dtype, opcode, most) in [("f32", "FFMA", 512), ("f64", "DFMA", 128)] {
        let keys = if dtype == "f64" { "dtype=f64 bm=64 bn=64 mma=none" } else { PLAIN };
        let kernel = gallery::matmul(keys).kernel.expect("a kernel");
        for arch in ["sm_80", "sm_90a"] {
            let compiled = nvrtc.compile(kernel.source(), "matmul", arch, &[]).expect("it compiles");
            let inner = compiled.main_loop("matmul", arch).expect("it has a loop");
            // Integer multiply-adds also compute addresses.
            assert!((most..most + 16).contains(&inner.multiply_adds), "{keys} {arch}: {inner:?}");
            if let Some(code) = machine_code::of(&compiled.cubin) {
                assert_eq!(code.count(opcode), most as usize, "{keys} {arch}");
            }
        }
    }
}

/// A sample of random keys, compiled by NVRTC without errors.
#[test]
#[ignore = "long: see cargo xtask fuzz"]
fn fuzz_compiled() {
    use proptest::prelude::*;
    let Some(nvrtc) = nvrtc() else { return };
    let pick = |values: &'static [&'static str]| prop::sample::select(values);
    let keys = (
        (pick(&["32", "64", "96", "128"]), pick(&["32", "64", "128", "160"]), pick(&["4", "8", "16", "24"])),
        (
            pick(&["(8,8)", "(16,16)", "(16,8)", "(32,4)"]),
            pick(&["1", "2", "4", "8"]),
            pick(&["1", "2", "3"]),
        ),
        (pick(&["m_major", "k_major"]), pick(&["n_major", "k_major"]), pick(&["m_major", "n_major"])),
        (pick(&["f64", "f32", "f16", "bf16", "i32", "u32", "i8", "u8"]), any::<bool>(), any::<bool>()),
    );
    proptest!(|(((bm, bn, bk), (tc, vec, stages), (a, b, c), (dtype, serpentine, scaled)) in keys)| {
        let order = if serpentine { "serpentine" } else { "plain" };
        let text = format!(
            "bm={bm} bn={bn} bk={bk} tc={tc} schedule=(vec={vec} order={order}) stages={stages} a={a} b={b} c={c} dtype={dtype} \
             alpha_beta={scaled} mma=none"
        );
        if let Some(kernel) = gallery::matmul(&text).kernel {
            for variant in &kernel.variants {
                if let Err(error) = nvrtc.compile(&variant.source, &kernel.name, "sm_90a", &[]) {
                    prop_assert!(false, "{}: {}", text, error);
                }
            }
        }
    });
}

/// The faults of a program on any of its architectures: messages, spills, stack, missing instructions.
fn faults(nvrtc: &Nvrtc, program: &Program) -> Vec<String> {
    let mut wrong = Vec::new();
    let kernel = &program.kernel;
    let source = cuda::print(kernel);
    for arch in architectures(program) {
        let compiled = match nvrtc.compile(&source, &kernel.name, arch, &[]) {
            Ok(compiled) => compiled,
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        let mut complain = |what: String| wrong.push(format!("{} for {arch}: {what}", kernel.name));
        compiled.notes.iter().for_each(|note| complain(note.clone()));
        match compiled.usage.as_slice() {
            [usage] if usage.is_clean() || (usage.stack <= program.stack && usage.spill_stores == 0) => {}
            other => complain(format!("not everything stays in registers: {other:?}")),
        }
        if program.sass.is_empty() || !DISASSEMBLED.contains(&arch) {
            continue;
        }
        if let Some(code) = machine_code::of(&compiled.cubin) {
            for opcode in program.sass.iter().filter(|opcode| !code.contains(opcode)) {
                complain(format!("no {opcode} in the machine code; it has {}", code.opcodes()));
            }
        }
    }
    wrong
}
