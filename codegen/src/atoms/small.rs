//! cp.async: one thread copies 4, 8 or 16 bytes from global to shared memory without holding them in registers. The
//! variants with `n` read so many bytes and fill the rest with zeros.

use super::{int, other, written};
use crate::atom::{Atom, Done, Effect, Operand, OperandKind};
use crate::elem::Elem;
use crate::thread::{Queue, Scope};

const fn shared(tv: &'static str) -> Operand {
    written(other('d', OperandKind::SharedAddress, Elem::U8, tv))
}

const fn global(tv: &'static str) -> Operand {
    other('a', OperandKind::GlobalAddress, Elem::U8, tv)
}

const fn row(name: &'static str, ptx: &'static str, operands: &'static [Operand]) -> Atom {
    Atom {
        name,
        arch: 80,
        arch_specific: false,
        group: Scope::Thread,
        ptx,
        operands,
        done: Done::Queue(Queue::CpAsync),
        async_proxy: false,
        effect: Effect::Copy,
    }
}

const FOUR: [Operand; 2] = [shared("(1,4):(0,1)"), global("(1,4):(0,1)")];
const EIGHT: [Operand; 2] = [shared("(1,8):(0,1)"), global("(1,8):(0,1)")];
const SIXTEEN: [Operand; 2] = [shared("(1,16):(0,1)"), global("(1,16):(0,1)")];

const FOUR_OR_ZERO: [Operand; 3] = [shared("(1,4):(0,1)"), global("(1,4):(0,1)"), int('n')];
const EIGHT_OR_ZERO: [Operand; 3] = [shared("(1,8):(0,1)"), global("(1,8):(0,1)"), int('n')];
const SIXTEEN_OR_ZERO: [Operand; 3] = [shared("(1,16):(0,1)"), global("(1,16):(0,1)"), int('n')];

pub(super) const ROWS: &[Atom] = &[
    row("cp_async_4", "cp.async.ca.shared.global [$d], [$a], 4;", &FOUR),
    row("cp_async_8", "cp.async.ca.shared.global [$d], [$a], 8;", &EIGHT),
    row("cp_async_16", "cp.async.cg.shared.global [$d], [$a], 16;", &SIXTEEN),
    row("cp_async_4_or_zero", "cp.async.ca.shared.global [$d], [$a], 4, $n;", &FOUR_OR_ZERO),
    row("cp_async_8_or_zero", "cp.async.ca.shared.global [$d], [$a], 8, $n;", &EIGHT_OR_ZERO),
    row("cp_async_16_or_zero", "cp.async.cg.shared.global [$d], [$a], 16, $n;", &SIXTEEN_OR_ZERO),
];
