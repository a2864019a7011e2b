//! Conversions between all element types: a kernel that converts every element of a tensor to every other
//! type, its inputs, and the expected results.

use tilewright_codegen::atom::{Atom, Effect, OperandName};
use tilewright_codegen::index::Int;
use tilewright_codegen::number::Number;
use tilewright_codegen::thread::*;
use tilewright_codegen::{Elem, isa};
use tilewright_layout::Value;

use crate::hand::Hand;
use crate::number::{Random, value};

/// All types of numbers.
pub fn all() -> impl Iterator<Item = Elem> {
    Elem::all().filter(|elem| *elem != Elem::Bool)
}

/// Threads per block; each converts one element.
pub const THREADS: usize = 128;

/// The types that elements of a type are converted to.
pub fn targets(elem: Elem) -> impl Iterator<Item = Elem> {
    all().filter(move |&target| target != elem)
}

/// The kernel's arguments: `from`, then `to_…` for each other type. Their sizes are multiples of the block.
pub fn kernel(elem: Elem) -> Kernel {
    let mut hand = Hand::new(&format!("casts_{elem}"), 80, THREADS as u32);
    let n = Value::symbol("N");
    hand.k.launch.grid = [n.ceil_div(THREADS as i64).into_iter().collect(), vec![], vec![]];
    let (thread, last) = (hand.thread(), (1 << 23) - 1);
    let block = hand.e().leaf(Int::Block(0), 0, last, 1, Scope::Block);
    let at = hand.sum(&[(block, THREADS as i64), (thread, 1)], 0);
    hand.e().assume(at, 0, (1 << 30) - 1);
    let (zero, one) = (hand.int(0), vec![Value::Int(1)]);
    let from = hand.tensor_of("from", elem, false, vec![n], one.clone());
    let x = hand.reg("x", elem, 1);
    let location = |space| Mem { space, index: at, peer: None };
    let element = |reg| Frag { reg, at: zero, len: 1 };
    let mut ops = vec![Op::Load {
        to: element(x),
        from: location(from),
        guard: None,
        fill: 0.0.into(),
        volatile_at: None,
    }];
    for target in targets(elem) {
        let to = hand.tensor_of(&format!("to_{target}"), target, true, vec![n], one.clone());
        let reg = hand.reg("value", target, 1);
        let value = Val::Cast(target, Box::new(Val::Reg(x, zero)));
        ops.push(Op::Assign { reg, at: zero, value });
        ops.push(Op::Store { to: location(to), from: element(reg), guard: None });
    }
    hand.done(ops.into_iter().map(|op| Stmt { site: 0, op }).collect())
}

/// Instructions of the table that convert several elements at once.
pub fn rows() -> impl Iterator<Item = &'static Atom> {
    isa::all().filter(|row| matches!(row.effect, Effect::Convert | Effect::Unpack(_)))
}

/// The types from which and to which a row converts.
pub fn types(row: &'static Atom) -> [Elem; 2] {
    [OperandName::A, OperandName::D]
        .map(|name| row.operand(name).expect("a conversion has two operands").elem)
}

/// A kernel whose threads convert a fragment each by an instruction of the table, from `from` to `to`.
pub fn by_row(row: &'static Atom) -> Kernel {
    let mut hand = Hand::new(row.name, row.arch, THREADS as u32);
    let n = Value::symbol("N");
    let [from, to] = types(row);
    let count =
        |name: OperandName| row.tv(name).and_then(|tv| tv.mode(1).ok()?.size().ok()).expect("a layout");
    let sizes = [count(OperandName::A), count(OperandName::D)];
    hand.k.launch.grid = [n.ceil_div(THREADS as i64 * sizes[0]).into_iter().collect(), vec![], vec![]];
    let (thread, last) = (hand.thread(), (1 << 20) - 1);
    let block = hand.e().leaf(Int::Block(0), 0, last, 1, Scope::Block);
    let zero = hand.int(0);
    let sides =
        [("from", from, false), ("to", to, true)].into_iter().zip(sizes).map(|((name, elem, write), len)| {
            let extent = if write { Value::symbol("OUT") } else { n };
            let space = hand.tensor_of(name, elem, write, vec![extent], vec![Value::Int(1)]);
            let index = hand.sum(&[(block, THREADS as i64 * len), (thread, len)], 0);
            hand.e().assume(index, 0, (1 << 30) - 1);
            let reg = hand.reg(&format!("{name}_words"), elem, len as u32);
            hand.k.regs[reg as usize].words = true;
            (Frag { reg, at: zero, len: len as u32 }, Mem { space, index, peer: None })
        });
    let sides: Vec<_> = sides.collect();
    let [(given, source), (made, target)] = <[_; 2]>::try_from(sides).expect("two sides");
    let ops = [
        Op::Load { to: given, from: source, guard: None, fill: 0.0.into(), volatile_at: None },
        Op::Atom { row, args: vec![AtomArg::Frag(made), AtomArg::Frag(given)], guard: None },
        Op::Store { to: target, from: made, guard: None },
    ];
    hand.done(ops.map(|op| Stmt { site: 0, op }).into())
}

/// The operands of a row: the numbers in some elements, and their type.
pub fn numbers(row: &'static Atom, given: &[u64]) -> (Elem, Vec<u64>) {
    let [from, _] = types(row);
    let Effect::Unpack(of) = row.effect else { return (from, given.to_vec()) };
    let pair = |byte: &u64| [0, 1].map(|which| u64::from(of.value(*byte as u8, which).cast_unsigned()));
    (Elem::I8, given.iter().flat_map(pair).collect())
}

/// Elements to convert: all of narrow types; of others those around which the result changes, and random
/// ones.
pub fn given(elem: Elem) -> Vec<u64> {
    let mut all: Vec<u64> = match elem.bytes() {
        1 => (0..1 << 8).collect(),
        2 => (0..1 << 16).collect(),
        _ => chosen(elem),
    };
    all.resize(all.len().next_multiple_of(4 * THREADS), 0);
    all
}

fn chosen(elem: Elem) -> Vec<u64> {
    let mut random = Random::new(u64::from(elem.bytes()) + 40);
    let mut word = || u64::from(random.word()) << 32 | u64::from(random.word());
    let mask = u64::MAX >> (64 - 8 * elem.bytes());
    let mut all: Vec<u64> = (0..4096).map(|_| word() & mask).collect();
    if !elem.is_float() {
        all.extend((0..8 * elem.bytes()).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, (1 << bit) + 1]));
        all.extend((0..1024).chain(mask - 1024..=mask));
        return all.into_iter().map(|bits| bits & mask).collect();
    }
    let mut beside = |x: f64| {
        let bits = Number::Float(x).bits(elem);
        // The least significant bit that tensor cores read of TF32 is bit 13.
        let step = if elem == Elem::Tf32 { 1 << 13 } else { 1 };
        all.extend([bits.saturating_sub(step), bits, bits + step, ((mask >> 1) + 1) | bits]);
    };
    for narrow in [Elem::E4m3, Elem::E5m2, Elem::F16] {
        let codes = 1u64 << (8 * narrow.bytes() - 1);
        for code in (0..codes).step_by(if narrow == Elem::F16 { 7 } else { 1 }) {
            let (low, high) = (value(narrow, code), value(narrow, code + 1));
            beside(low);
            beside((low + high) / 2.0);
        }
    }
    for exponent in -150..130 {
        beside(2f64.powi(exponent));
        beside(2f64.powi(exponent) * (1.0 + 2f64.powi(-11)));
        beside(2f64.powi(exponent) * (1.0 + 2f64.powi(-8)));
    }
    [0.0, f64::INFINITY, f64::NAN, f64::MAX, 480.0, 464.0, 61440.0].into_iter().for_each(beside);
    if elem == Elem::Tf32 {
        all.iter_mut().for_each(|bits| *bits &= 0xffff_e000);
    }
    all
}

/// The bits of a converted element; `None` for NaN, which has several encodings.
pub fn wanted(bits: u64, from: Elem, to: Elem) -> Option<u64> {
    let exact = match from {
        Elem::I64 => i128::from(bits as i64),
        Elem::U64 => i128::from(bits),
        _ => value(from, bits) as i128,
    };
    if !from.is_float() && !to.is_float() {
        return Some(exact as u64 & (u64::MAX >> (64 - 8 * to.bytes())));
    }
    if !from.is_float() {
        return Some(Number::Int(exact).bits(to));
    }
    let x = value(from, bits);
    if to.is_float() {
        return (!x.is_nan()).then(|| Number::Float(x).bits(to));
    }
    Some(match to {
        Elem::I64 => x as i64 as u64,
        Elem::U64 => x as u64,
        Elem::I32 => u64::from(x as i32 as u32),
        Elem::U32 => u64::from(x as u32),
        Elem::I16 => u64::from(x as i16 as u16),
        Elem::U16 => u64::from(x as u16),
        Elem::I8 => u64::from(x as i8 as u8),
        _ => u64::from(x as u8),
    })
}

/// The first mismatch, if there is one.
pub fn wrong(given: &[u64], got: &[u64], from: Elem, to: Elem) -> Option<String> {
    given.iter().zip(got).find_map(|(&bits, &got)| {
        let right = match wanted(bits, from, to) {
            Some(wanted) => got == wanted,
            None => value(to, got).is_nan(),
        };
        let (x, y) = (value(from, bits), value(to, got));
        let wanted = wanted(bits, from, to);
        (!right)
            .then(|| format!("{x:e} ({bits:#x} of {from}) became {y:e} ({got:#x} of {to}), not {wanted:x?}"))
    })
}
