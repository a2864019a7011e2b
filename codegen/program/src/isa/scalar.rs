//! Multiply-adds of one thread on CUDA cores: `d += a · b` of single elements (FFMA, DFMA, IMAD), and the same with other
//! operations. Operands have the type of the accumulator: others are converted before.

use super::{frag, written};
use crate::isa::THREAD;
use crate::isa::atom::{Atom, Effect, OperandName};
use crate::values::elem::Elem;
use crate::values::operation::Bin;
use crate::values::semiring::Semiring;

/// One thread has one element.
const ELEMENT: &str = "(1,1):(0,0)";

/// A row for each type and each pair of operations that it has.
pub(super) fn rows() -> impl Iterator<Item = Atom> {
    let pairs =
        || Semiring::OPERATIONS.into_iter().flat_map(|add| Semiring::OPERATIONS.map(|mul| (add, mul)));
    Elem::all().flat_map(move |elem| pairs().filter_map(move |(add, mul)| row(add, mul, elem)))
}

fn row((add_name, add): (&str, Bin), (mul_name, mul): (&str, Bin), elem: Elem) -> Option<Atom> {
    let with = Semiring { add, mul };
    with.check(elem).ok()?;
    let name = match (with, elem.is_float()) {
        (Semiring::SUMS, true) => "fma".into(),
        (Semiring::SUMS, false) => "mad".into(),
        _ => format!("{add_name}_{mul_name}"),
    };
    let operand = |name| frag(name, elem, false, ELEMENT);
    Some(Atom {
        name: format!("{name}_{elem}").leak(),
        arch: 50,
        arch_specific: false,
        family: &THREAD,
        ptx: "",
        operands: vec![written(operand(OperandName::D)), operand(OperandName::A), operand(OperandName::B)]
            .leak(),
        effect: Effect::Mma { m: 1, n: 1, k: 1, with },
    })
}
