//! mma.sync: a warp multiplies small matrices from registers. `d += a · b`, with `b` given as n×k.

use super::{frag, written};
use crate::atom::{Atom, Done, Effect, Operand};
use crate::elem::Elem;
use crate::thread::Scope;

/// Accumulators of 16 rows: of every shape m16n8.
const D16: &str = "((4,8),(2,2)):((32,1),(16,8))";

const fn operands((ab, words): (Elem, bool), acc: Elem, [a, b, d]: [&'static str; 3]) -> [Operand; 3] {
    [written(frag('d', acc, false, d)), frag('a', ab, words, a), frag('b', ab, words, b)]
}

const fn row(
    arch: u32,
    name: &'static str,
    [m, n, k]: [u32; 3],
    ptx: &'static str,
    operands: &'static [Operand],
) -> Atom {
    Atom {
        name,
        arch,
        arch_specific: false,
        group: Scope::Warp,
        ptx,
        operands,
        done: Done::Now,
        async_proxy: false,
        effect: Effect::Mma { m, n, k },
    }
}

const HALF: [&str; 3] = ["((4,8),(2,2,2)):((32,1),(16,8,128))", "((4,8),(2,2)):((16,1),(8,64))", D16];
const TF32: [&str; 3] = ["((4,8),(2,2)):((16,1),(8,64))", "((4,8),2):((8,1),32)", D16];
const BYTES: [&str; 3] = ["((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", D16];
const F64_K4: [&str; 3] = ["((4,8),1):((8,1),0)", "((4,8),1):((8,1),0)", "((4,8),2):((16,1),8)"];
const F64_M16K4: [&str; 3] = ["((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", D16];
const F64_M16K8: [&str; 3] = ["((4,8),(2,2)):((16,1),(8,64))", "((4,8),2):((8,1),32)", D16];
const F64_M16K16: [&str; 3] = ["((4,8),(2,4)):((16,1),(8,64))", "((4,8),4):((8,1),32)", D16];

pub(super) const ROWS: &[Atom] = &[
    row(
        80,
        "mma_m16n8k16_f16",
        [16, 8, 16],
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 $d, $a, $b, $d;",
        &{ operands((Elem::F16, true), Elem::F32, HALF) },
    ),
    row(
        80,
        "mma_m16n8k16_bf16",
        [16, 8, 16],
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 $d, $a, $b, $d;",
        &{ operands((Elem::Bf16, true), Elem::F32, HALF) },
    ),
    row(
        80,
        "mma_m16n8k8_tf32",
        [16, 8, 8],
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 $d, $a, $b, $d;",
        &{ operands((Elem::Tf32, true), Elem::F32, TF32) },
    ),
    row(
        80,
        "mma_m16n8k32_i8",
        [16, 8, 32],
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 $d, $a, $b, $d;",
        &{ operands((Elem::I8, true), Elem::I32, BYTES) },
    ),
    row(
        80,
        "mma_m16n8k32_u8",
        [16, 8, 32],
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 $d, $a, $b, $d;",
        &{ operands((Elem::U8, true), Elem::I32, BYTES) },
    ),
    row(
        80,
        "mma_m8n8k4_f64",
        [8, 8, 4],
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 $d, $a, $b, $d;",
        &{ operands((Elem::F64, false), Elem::F64, F64_K4) },
    ),
    row(
        90,
        "mma_m16n8k4_f64",
        [16, 8, 4],
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 $d, $a, $b, $d;",
        &{ operands((Elem::F64, false), Elem::F64, F64_M16K4) },
    ),
    row(
        90,
        "mma_m16n8k8_f64",
        [16, 8, 8],
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 $d, $a, $b, $d;",
        &{ operands((Elem::F64, false), Elem::F64, F64_M16K8) },
    ),
    row(
        90,
        "mma_m16n8k16_f64",
        [16, 8, 16],
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 $d, $a, $b, $d;",
        &{ operands((Elem::F64, false), Elem::F64, F64_M16K16) },
    ),
];
