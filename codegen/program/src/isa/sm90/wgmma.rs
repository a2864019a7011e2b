//! wgmma: a warpgroup multiplies matrices in shared memory, or with `a` in registers, asynchronously. One row
//! for each width; `s` is 0 where the product replaces the accumulator instead of being added to it. Operands
//! of 16 bits may be K-major or MN-major; others are K-major.

use crate::isa::atom::{Atom, Done, Effect, Operand, OperandKind, OperandName};
use crate::isa::family::Family;
use crate::isa::product::{BYTES, FP8, Types, fragment_tv};
use crate::isa::scope::{Queue, Scope};
use crate::isa::{frag, int, other, written};
use crate::values::elem::Elem;
use crate::values::semiring::Semiring;

/// Products of a warpgroup, with operands in shared memory and accumulators in registers.
pub(in crate::isa) static FAMILY: Family = Family {
    name: "wgmma",
    issued_by: Scope::Warpgroup,
    operations: "products",
    completes: Done::Queue(Queue::Products),
    async_proxy: true,
    fence: Some("wgmma_fence"),
    commit: Some("wgmma_commit"),
    waits: &[(Queue::Products, "wgmma_wait")],
    latency_clocks: 40.0,
};

/// M: 16 rows for each warp.
const M: u32 = 64;
/// Bytes along K.
const ALONG: u32 = 32;

const FAMILIES: [(&[[Elem; 2]], &[Elem]); 5] = [
    (&[[Elem::F16; 2]], &[Elem::F32, Elem::F16]),
    (&[[Elem::Bf16; 2]], &[Elem::F32]),
    (&[[Elem::Tf32; 2]], &[Elem::F32]),
    (FP8, &[Elem::F32, Elem::F16]),
    (BYTES, &[Elem::I32]),
];

pub(in crate::isa) fn rows() -> impl Iterator<Item = Atom> {
    FAMILIES.iter().flat_map(|&(operands, sums)| {
        Types::all(operands, sums).flat_map(|types| {
            let widths = (8..=256).step_by(8).filter(move |&n| has_width(types, n));
            widths.flat_map(move |n| [row(types, n, false), row(types, n, true)])
        })
    })
}

/// Integers take every eighth width up to 32, then every sixteenth.
fn has_width(types: Types, n: u32) -> bool {
    types.a.is_float() || n <= 32 || n.is_multiple_of(16)
}

/// The row that multiplies operands of a type into its usual accumulators, for a number of columns.
pub(in crate::isa) fn find(elem: Elem, columns: i64, a_in_registers: bool) -> Option<&'static Atom> {
    let sums = elem.accumulator();
    let is_wanted = |row: &&Atom| {
        let Effect::Mma { n, .. } = row.effect else { return false };
        let operands =
            row.has(OperandName::A, elem) && row.has(OperandName::B, elem) && row.has(OperandName::D, sums);
        let fragment = |of: &Operand| matches!(of.kind, OperandKind::Frag { .. });
        std::ptr::eq(row.family, &FAMILY)
            && i64::from(n) == columns
            && operands
            && row.operand(OperandName::A).is_some_and(fragment) == a_in_registers
    };
    crate::isa::all().find(is_wanted)
}

fn row(types: Types, n: u32, a_in_registers: bool) -> Atom {
    let k = types.a.elements_in(ALONG);
    let immediate = |name| other(name, OperandKind::Immediate, Elem::I32, "");
    let matrix = |name, elem, rows| {
        let tv = format!("(128,({rows},{k})):(0,(1,{rows}))").leak();
        other(name, OperandKind::Descriptor, elem, tv)
    };
    let d = written(frag(OperandName::D, types.d, types.packs_sums(), fragment_tv(M, n, 2)));
    let a = match a_in_registers {
        true => frag(OperandName::A, types.a, true, fragment_tv(M, k, types.per_register())),
        false => matrix(OperandName::A, types.a, M),
    };
    let mut operands: Vec<Operand> =
        vec![d, a, matrix(OperandName::B, types.b, n), int(OperandName::Accumulate)];
    // Signs of floating-point operands; K-major or MN-major, for types that allow both.
    let mut flags = String::new();
    if types.a.is_float() {
        flags += ", 1, 1";
    }
    if types.a.bits() == 16 {
        let in_memory = [OperandName::TransposeA, OperandName::TransposeB];
        let in_memory = &in_memory[usize::from(a_in_registers)..];
        operands.extend(in_memory.iter().copied().map(immediate));
        flags.extend(in_memory.iter().map(|name| format!(", ${name}")));
    }
    let source = if a_in_registers { "_ra" } else { "" };
    Atom {
        name: format!("wgmma_m{M}n{n}k{k}{source}_{}", types.suffix()).leak(),
        arch: 90,
        arch_specific: true,
        family: &FAMILY,
        ptx: format!(
            "{{ .reg .pred p; setp.ne.b32 p, $s, 0; \
             wgmma.mma_async.sync.aligned.m{M}n{n}k{k}.{} $d, $a, $b, p{flags}; }}",
            types.ptx()
        )
        .leak(),
        operands: operands.leak(),
        effect: Effect::Mma { m: M, n, k, with: Semiring::SUMS },
    }
}
