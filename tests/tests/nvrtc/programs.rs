//! Kernels for tests of the printer, and of the compiled machine code.

use tilewright_codegen::Elem::*;
use tilewright_codegen::thread::{Kernel, Scope};
use tilewright_tests::{casts, rows};

use super::{hopper, sgemm, small, tensor_cores};

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

/// All programs.
pub(crate) fn all() -> Vec<Program> {
    let mut all = vec![
        program(sgemm::tutorial("sgemm_guarded", sgemm::Copy::Guarded), &["LDG.E", "STS", "LDS", "FFMA"]),
        program(sgemm::tutorial("sgemm_async", sgemm::Copy::Async), &["LDGSTS.E"]),
        program(sgemm::vectors(), &["LDG.E.128", "STS.128", "LDS.128", "STG.E.128"]),
        program(small::softmax(), &["SHFL.BFLY", "MUFU.EX2"]),
        program(small::atomics(), &["ATOMS.POPC.INC"]),
        program(small::wide(), &["LDG.E", "STG.E"]),
        program(small::arena(), &["LDS", "STS"]),
        program(small::small_arena(), &["LDS", "STS"]),
        program(small::names(), &[]),
        program(small::groups(80), &["BAR.SYNC"]),
        program(small::groups(90), &["BAR.SYNC", "ELECT"]),
    ];
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
    all.push(program(
        tensor_cores::product(Bf16),
        &["LDGSTS.E.BYPASS.128", "LDSM.16.M88.4", "HMMA.16816.F32.BF16"],
    ));
    all.push(variation(
        tensor_cores::product(F16),
        &["LDGSTS.E.BYPASS.128", "LDSM.16.M88.4", "HMMA.16816.F32"],
    ));
    for row in tensor_cores::rows("ldmatrix").into_iter().chain(tensor_cores::rows("stmatrix")) {
        all.push(variation(tensor_cores::matrices(row), &[]));
    }
    all.push(program(hopper::product(Bf16, 2, false), &["UTMALDG.2D", "HGMMA.64x128x16.F32.BF16", "SYNCS"]));
    all.push(program(
        hopper::product(Bf16, 4, true),
        &["UTMALDG.2D", "HGMMA.64x128x16.F32.BF16", "USETMAXREG"],
    ));
    all.push(variation(hopper::product(F16, 4, true), &["UTMALDG.2D", "HGMMA.64x128x16.F32"]));
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
