//! mma.sync: a warp multiplies small matrices in registers. `d += a · b`, with `b` given as n×k.

use crate::isa::atom::{Atom, Effect, OperandName};
use crate::isa::family::Family;
use crate::isa::product::{BYTES, FP8, Types, fragment_tv};
use crate::isa::scope::Scope;
use crate::isa::{frag, written};
use crate::values::elem::Elem;
use crate::values::semiring::Semiring;

/// Products of a warp, with operands and accumulators in registers.
pub(in crate::isa) static FAMILY: Family =
    Family { name: "mma.sync", issued_by: Scope::Warp, latency_clocks: 12.0, ..Family::IN_ORDER };

/// Operand types, accumulator types, and shapes: the oldest architecture, and m, n, k.
type Shapes = (&'static [[Elem; 2]], &'static [Elem], &'static [(u32, [u32; 3])]);

const FAMILIES: [Shapes; 6] = [
    (&[[Elem::F16; 2]], &[Elem::F32, Elem::F16], &[(75, [16, 8, 8]), (80, [16, 8, 16])]),
    (&[[Elem::Bf16; 2]], &[Elem::F32], &[(80, [16, 8, 8]), (80, [16, 8, 16])]),
    (&[[Elem::Tf32; 2]], &[Elem::F32], &[(80, [16, 8, 4]), (80, [16, 8, 8])]),
    (BYTES, &[Elem::I32], &[(80, [16, 8, 16]), (80, [16, 8, 32])]),
    (FP8, &[Elem::F32, Elem::F16], &[(89, [16, 8, 16]), (89, [16, 8, 32])]),
    (
        &[[Elem::F64; 2]],
        &[Elem::F64],
        &[(80, [8, 8, 4]), (90, [16, 8, 4]), (90, [16, 8, 8]), (90, [16, 8, 16])],
    ),
];

pub(in crate::isa) fn rows() -> impl Iterator<Item = Atom> {
    FAMILIES.iter().flat_map(|&(operands, sums, shapes)| {
        Types::all(operands, sums).flat_map(move |types| shapes.iter().map(move |&shape| row(types, shape)))
    })
}

fn row(types: Types, (arch, [m, n, k]): (u32, [u32; 3])) -> Atom {
    let per = types.per_register();
    let operand = |name, elem: Elem, rows| frag(name, elem, elem != Elem::F64, fragment_tv(rows, k, per));
    let d = written(frag(OperandName::D, types.d, types.packs_sums(), fragment_tv(m, n, 2)));
    let operands = vec![d, operand(OperandName::A, types.a, m), operand(OperandName::B, types.b, n)];
    let sums = crate::isa::product::ptx(types.d);
    Atom {
        name: format!("mma_m{m}n{n}k{k}_{}", types.suffix()).leak(),
        arch,
        arch_specific: false,
        family: &FAMILY,
        ptx: format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.{}.{sums} $d, $a, $b, $d;", types.ptx()).leak(),
        operands: operands.leak(),
        effect: Effect::Mma { m, n, k, with: Semiring::SUMS },
    }
}
