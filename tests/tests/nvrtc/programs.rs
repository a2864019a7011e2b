//! Kernels for tests of the printer, and of the compiled machine code.

use tilewright_codegen::Elem::*;
use tilewright_codegen::Generated;
use tilewright_codegen::thread::{Kernel, Scope};
use tilewright_tests::{casts, gallery, rows};

use super::{hopper, small, tensor_cores};

/// A program, and its required instructions.
pub(crate) struct Program {
    pub(crate) kernel: Kernel,
    /// Opcode prefixes, such as `LDS.128`.
    pub(crate) sass: Vec<&'static str>,
    /// Allowed stack in bytes; the program says why.
    pub(crate) stack: u32,
    /// Whether it is compiled for all its architectures; variations of a program are for the oldest and the newest.
    pub(crate) for_all: bool,
}

impl Program {
    /// A kernel that users see; its machine code is checked elsewhere.
    pub(crate) fn shown(kernel: Kernel) -> Program {
        program(kernel, &[])
    }
}

fn program(kernel: Kernel, sass: &[&'static str]) -> Program {
    Program { kernel, sass: sass.to_vec(), stack: 0, for_all: true }
}

fn variation(kernel: Kernel, sass: &[&'static str]) -> Program {
    Program { for_all: false, ..program(kernel, sass) }
}

/// Shipped kernels, and the instructions of their fastest variant.
const SHIPPED: &[(&str, &[&str])] = &[
    ("tutorial", &["LDGSTS.E", "LDS", "FFMA"]),
    ("softmax", &["SHFL.BFLY", "MUFU.EX2", "LDG.E.128", "STG.E.128"]),
];

/// GEMMs by their keys, and the instructions of their fastest variant.
const GEMMS: &[(&str, &[&str])] = &[
    ("bm=128 bn=128 schedule=(vec=4 staged=both)", &["LDG.E.128", "STS.128", "LDS.128", "STG.E.128"]),
    ("dtype=bf16 arch=80 bm=128 bn=128", &["LDGSTS.E.BYPASS.128", "LDSM.16.M", "HMMA.16816.F32.BF16"]),
    ("dtype=f16 arch=80 bm=128 bn=128", &["LDGSTS.E.BYPASS.128", "LDSM.16.M", "HMMA.16816.F32"]),
    ("dtype=bf16 arch=90 bm=128 bn=128", &["UTMALDG.2D", "HGMMA.64x128x16.F32.BF16", "SYNCS", "USETMAXREG"]),
    ("dtype=f16 arch=90 bm=128 bn=128", &["UTMALDG.2D", "HGMMA.64x128x16.F32"]),
];

/// All programs.
pub(crate) fn all() -> Vec<Program> {
    let mut all = vec![
        program(small::atomics(), &["ATOMS.POPC.INC"]),
        program(small::wide(), &["LDG.E", "STG.E"]),
        program(small::arena(), &["LDS", "STS"]),
        program(small::small_arena(), &["LDS", "STS"]),
        program(small::names(), &[]),
        program(small::groups(80), &["BAR.SYNC"]),
        program(small::groups(90), &["BAR.SYNC", "ELECT"]),
    ];
    let fastest = |kernel: &Generated| kernel.variants[0].program.clone();
    all.extend(SHIPPED.iter().map(|(name, sass)| program(fastest(gallery::named(name)), sass)));
    let gemm = |keys| gallery::matmul(keys).kernel.unwrap_or_else(|| panic!("{keys}"));
    all.extend(GEMMS.iter().map(|(keys, sass)| variation(fastest(&gemm(keys)), sass)));
    for elem in casts::all() {
        let keep = matches!(elem, F32 | Bf16);
        all.push(Program { for_all: keep, ..program(small::copy(elem), &["LDG.E.128", "STG.E.128"]) });
        all.push(Program {
            for_all: keep,
            ..program(small::narrow_copies(elem), &["LDS.64", "LDS.128", "STS.64"])
        });
        all.push(program(small::values(elem), &[]));
        all.push(program(casts::kernel(elem), &[]));
    }
    for elem in [F64, F32, F16] {
        all.push(Program { stack: 40, ..program(small::trigonometry(elem), &[]) });
    }
    for row in tensor_cores::rows("ldmatrix").into_iter().chain(tensor_cores::rows("stmatrix")) {
        all.push(variation(tensor_cores::matrices(row), &[]));
    }
    all.push(program(hopper::cluster(), &["UTMALDG.2D.MULTICAST"]));
    all.push(program(hopper::plain_bulk(), &["UBLKCP"]));
    for rank in 1..=5 {
        all.push(Program { for_all: rank == 3, ..program(hopper::boxes(rank), &["UTMALDG", "UTMASTG"]) });
    }
    all
}

/// A product of the table, and its machine instruction.
pub(crate) fn product(trial: rows::Trial) -> Program {
    let sass: &[&str] = match (trial.row.family.issued_by, trial.elems()[1]) {
        (Scope::Warpgroup, I8 | U8) => &["IGMMA"],
        (Scope::Warpgroup, E4m3 | E5m2) => &["QGMMA"],
        (Scope::Warpgroup, _) => &["HGMMA"],
        _ => &[],
    };
    variation(trial.kernel, sass)
}
