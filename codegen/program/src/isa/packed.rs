//! Arithmetic on pairs of 16-bit floating-point numbers in a register, element by element, each rounded once.

use super::{frag, written};
use crate::isa::THREAD;
use crate::isa::atom::{Atom, Effect, OperandName};
use crate::values::elem::Elem;

/// The type, and the instruction for `a · b`. bf16 has no multiplication before sm_90, and adding -0 changes no product.
const PRODUCTS: [(Elem, &str); 2] = [
    (Elem::Bf16, "{ .reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 #d, #a, #b, z; }"),
    (Elem::F16, "mul.rn.f16x2 #d, #a, #b;"),
];

/// The type, and the instruction for `a · b + c`.
const SUMS: [(Elem, &str); 2] =
    [(Elem::Bf16, "fma.rn.bf16x2 #d, #a, #b, #c;"), (Elem::F16, "fma.rn.f16x2 #d, #a, #b, #c;")];

/// The type, and the instruction for `a - b`. bf16 has no subtraction before sm_90, and -1 · b is exact.
const DIFFERENCES: [(Elem, &str); 2] = [
    (Elem::Bf16, "{ .reg .b32 m; mov.b32 m, 0xbf80bf80; fma.rn.bf16x2 #d, #b, m, #a; }"),
    (Elem::F16, "sub.rn.f16x2 #d, #a, #b;"),
];

/// The values of one thread.
const PAIR: &str = "(1,2):(0,1)";

fn row(name: &str, effect: Effect, sources: &[OperandName], elem: Elem, ptx: &'static str) -> Atom {
    let sources = sources.iter().map(|&name| frag(name, elem, true, PAIR));
    Atom {
        name: format!("{name}_{elem}x2").leak(),
        arch: 80,
        arch_specific: false,
        family: &THREAD,
        ptx,
        operands: Vec::leak(
            [written(frag(OperandName::D, elem, true, PAIR))].into_iter().chain(sources).collect(),
        ),
        effect,
    }
}

pub(super) fn rows() -> impl Iterator<Item = Atom> {
    const TWO: &[OperandName] = &[OperandName::A, OperandName::B];
    const THREE: &[OperandName] = &[OperandName::A, OperandName::B, OperandName::C];
    let products = PRODUCTS.into_iter().map(|(elem, ptx)| row("mul", Effect::Multiply, TWO, elem, ptx));
    let sums = SUMS.into_iter().map(|(elem, ptx)| row("fma", Effect::Multiply, THREE, elem, ptx));
    let differences = DIFFERENCES.into_iter().map(|(elem, ptx)| row("sub", Effect::Subtract, TWO, elem, ptx));
    products.chain(sums).chain(differences)
}
