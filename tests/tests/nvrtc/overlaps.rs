//! Programmatic dependent launch in machine code: such a kernel accesses no memory before
//! griddepcontrol.wait, however the compiler reorders instructions.

use tilewright::kernels::{self, FASTEST};
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::tile::Program;
use tilewright_codegen::{Definition, Generate, Generated, Outcome, ast, cuda};
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_tests::{gallery, programs};

use crate::{ARCHITECTURES, DISASSEMBLED, machine_code, none_is_wrong, nvrtc};

/// The opcodes of griddepcontrol.launch_dependents and griddepcontrol.wait.
const BEGIN: &str = "PREEXIT";
const WAIT: &str = "ACQBULK";

/// Kernels that do not use programmatic dependent launch by default, made to: roles, bulk copies and reductions wait like any
/// other.
fn made_to() -> Vec<(String, Generated)> {
    let built = [("wgmma_ring", programs::wgmma_ring()), ("mma_sync", programs::mma_sync())];
    let built = built.map(|(name, program)| {
        let program = program.unwrap_or_else(|problem| panic!("{}", problem.message));
        (name, tilewright_codegen::generate(Program { overlaps: true, ..program }))
    });
    let written = ["softmax", "tutorial"].map(|name| {
        let shipped = kernels::named(name).unwrap_or_else(|| panic!("{name} is shipped"));
        let Some(Definition::Function(kernel, settings)) = shipped.def.definition() else { panic!("{name}") };
        (name, Definition::Function(ast::Kernel { overlaps: true, ..kernel }, settings).generate())
    });
    let kernel = |(name, outcome): (&str, Outcome)| {
        (name.to_owned(), outcome.kernel.unwrap_or_else(|| panic!("{name}: {:?}", outcome.diagnostics)))
    };
    built.into_iter().chain(written).map(kernel).collect()
}

/// A product in clusters, whose blocks let the next kernel start before they end.
const CLUSTER: &str = "dtype=bf16 arch=90 a=k_major b=k_major bm=128 bn=128 schedule=(cluster=2)";

/// Does an instruction access memory? Its address is in brackets; constants, `c[0x0][0x28]`, are launch
/// parameters.
fn touches(line: &str) -> bool {
    let line = line.replace("desc[", " [");
    line.match_indices('[').any(|(at, _)| !line[..at].ends_with(['c', ']']))
}

/// The fault of a kernel on an architecture that has griddepcontrol, if there is one.
fn faults(nvrtc: &Nvrtc, kernel: &Kernel, arch: &str) -> Option<String> {
    let (source, entry) = (cuda::print(kernel), cuda::entry(kernel));
    let compiled = nvrtc.compile(&source, &kernel.name, arch, &[]).expect("it compiles");
    let code = machine_code::of(&compiled.cubin)?;
    // Blocks of clusters, and blocks with less than 4 KB of shared memory, let the next kernel start before they end.
    let launch = &kernel.launch;
    let begins = usize::from(launch.cluster.iter().any(|&blocks| blocks > 1) || launch.shared_bytes < 4096);
    if [BEGIN, WAIT].map(|opcode| code.count(opcode)) != [begins, 1] {
        return Some(format!(
            "{entry} for {arch} should wait once, and let the next kernel start {begins} times: {}",
            code.opcodes()
        ));
    }
    // In program order: a branch before the wait skips only instructions that are before the wait too.
    // Mbarriers belong to the block.
    let before: Vec<&String> = code.lines().iter().take_while(|line| !line.starts_with(WAIT)).collect();
    let jumps = |(at, line): (usize, &str)| match line.strip_prefix("BRA `(") {
        Some(to) => {
            let label = format!("{}:", to.split(')').next().unwrap_or_default());
            !before[at..].iter().any(|line| **line == label)
        }
        None => ["BRA", "BRX", "CALL", "RET", "EXIT"].iter().any(|opcode| line.starts_with(opcode)),
    };
    let own = |line: &str| line.starts_with("SYNCS") || line.starts_with('.');
    let wrong = (0..before.len()).map(|at| (at, before[at].as_str()));
    let (_, wrong) =
        wrong.into_iter().find(|&(at, line)| jumps((at, line)) || (touches(line) && !own(line)))?;
    Some(format!("{entry} for {arch}, before the wait: {wrong}"))
}

#[test]
fn nothing_is_touched_before_the_wait() {
    let Some(nvrtc) = nvrtc() else { return };
    let others = FASTEST.iter().chain([&CLUSTER]).filter(|keys| !gallery::MATMULS.contains(keys));
    let others = others.filter_map(|keys| Some((keys.to_string(), gallery::matmul(keys).kernel?)));
    let others: Vec<_> = others.chain(made_to()).collect();
    let mut kernels = Vec::new();
    for (_, kernel) in gallery::all().iter().chain(&others) {
        // The fastest variant and the most general one.
        let last = (kernel.variants.len() > 1).then(|| kernel.variants.last()).flatten();
        for variant in kernel.variants.first().into_iter().chain(last) {
            let program = &variant.program;
            let specific = program.arch_specific;
            let runs = |number: u32| if specific { program.arch == number } else { program.arch <= number };
            let archs = ARCHITECTURES
                .iter()
                .filter(|row| row.1 >= 90 && DISASSEMBLED.contains(&row.0) && runs(row.1));
            if program.launch.overlaps {
                kernels.extend(archs.map(|row| (program.clone(), row.0)));
            }
        }
    }
    assert!(kernels.len() > 30, "{} kernels overlap", kernels.len());
    none_is_wrong(&kernels, |(kernel, arch)| faults(&nvrtc, kernel, arch).into_iter().collect());
}

#[test]
fn addresses_are_seen() {
    for line in
        ["LDG.E R2, desc[UR4][R2.64] ;", "STS [R5], R2 ;", "UTMALDG.2D [UR8], [UR6] ;", "LDS R1, [UR4+0x8] ;"]
    {
        assert!(touches(line), "{line}");
    }
    for line in
        ["LDC R1, c[0x0][0x28] ;", "ULDC.64 UR4, c[0x0][0x208] ;", "IMAD R1, R2, 0x4, -c[0x0][0x210] ;"]
    {
        assert!(!touches(line), "{line}");
    }
}
