//! cp.async: one thread copies 4, 8 or 16 bytes from global to shared memory, not through registers. The
//! variants with `n` read `n` bytes and fill the rest with zeros. Copies of 16 bytes bypass L1 unless a
//! name says `l1`; other suffixes are L2 hints.

use crate::isa::atom::{Atom, Done, Effect, Operand, OperandKind, OperandName};
use crate::isa::cache::{Hint, PREFETCHES};
use crate::isa::family::Family;
use crate::isa::scope::Queue;
use crate::isa::{int, other, written};
use crate::values::elem::Elem;

/// Copies from global to shared memory that do not pass through registers.
pub(in crate::isa) static FAMILY: Family = Family {
    name: "cp.async",
    operations: "copies",
    completes: Done::Queue(Queue::CpAsync),
    commit: Some("cp_async_commit"),
    waits: &[(Queue::CpAsync, "cp_async_wait")],
    ..Family::IN_ORDER
};

pub(in crate::isa) fn rows() -> impl Iterator<Item = Atom> {
    let sizes = [4, 8, 16].into_iter().flat_map(|bytes| [false, true].map(|zero| (bytes, zero)));
    sizes.flat_map(|(bytes, zero)| {
        let plain = [row(bytes, zero, Level::usual(bytes), Hint::None)];
        let l1 = (bytes == 16).then(|| row(bytes, zero, Level::One, Hint::None));
        let hints = Hint::POLICIES.into_iter().chain(PREFETCHES);
        let hinted = hints.map(move |hint| row(bytes, zero, Level::usual(bytes), hint));
        plain.into_iter().chain(l1).chain(hinted)
    })
}

/// The nearest cache that keeps the copied bytes.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    One,
    Two,
}

impl Level {
    /// Only copies of 16 bytes can bypass L1.
    fn usual(bytes: u32) -> Level {
        if bytes == 16 { Level::Two } else { Level::One }
    }
}

fn row(bytes: u32, zero: bool, level: Level, hint: Hint) -> Atom {
    let tv: &'static str = format!("(1,{bytes}):(0,1)").leak();
    let mut operands: Vec<Operand> = vec![
        written(other(OperandName::D, OperandKind::SharedAddress, Elem::U8, tv)),
        other(OperandName::A, OperandKind::GlobalAddress, Elem::U8, tv),
    ];
    operands.extend(zero.then(|| int(OperandName::Bytes)));
    let (or_zero, read) = if zero { ("_or_zero", ", $n") } else { ("", "") };
    let (l1, cache) = match level {
        Level::One if bytes == 16 => ("_l1", "ca"),
        Level::One => ("", "ca"),
        Level::Two => ("", "cg"),
    };
    let start = format!("cp.async.{cache}.shared.global");
    Atom {
        name: format!("cp_async_{bytes}{or_zero}{l1}{}", hint.suffix()).leak(),
        arch: 80,
        arch_specific: false,
        family: &FAMILY,
        ptx: hint.around(&start, &format!(" [$d], [$a], {bytes}{read}")).leak(),
        operands: operands.leak(),
        effect: Effect::Copy,
    }
}
