//! Arithmetic on elements, all of a tile at once.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Unary};
use tilewright_codegen::thread::{Bin, Cmp, Un};

use super::Num;
use super::number::{decides, doubles};
use super::value::{Along, At, Cell, Elements, OutOfBounds, Type};
use super::{Result, undefined};
use crate::number::range;

/// Whether a function of two elements is an out-of-bounds fill.
pub(super) fn either(one: OutOfBounds, other: OutOfBounds) -> OutOfBounds {
    match (one, other) {
        (OutOfBounds::Yes, _) | (_, OutOfBounds::Yes) => OutOfBounds::Yes,
        (OutOfBounds::Perhaps, _) | (_, OutOfBounds::Perhaps) => OutOfBounds::Perhaps,
        _ => OutOfBounds::No,
    }
}

/// The common shape of operands.
pub(super) fn joint(all: &[&Elements]) -> Result<Vec<i64>> {
    let mut sizes: Vec<i64> = Vec::new();
    for of in all.iter().filter(|of| of.cells.len() > 1) {
        if sizes.is_empty() {
            sizes.clone_from(&of.sizes);
        }
        if sizes.len() != of.sizes.len() {
            return undefined("tiles of different ranks");
        }
        for (all, own) in sizes.iter_mut().zip(&of.sizes) {
            match (*all, *own) {
                (1, own) => *all = own,
                (all, own) if own != 1 && own != all => return undefined("tiles of different shapes"),
                _ => {}
            }
        }
    }
    if sizes.is_empty() {
        sizes = all.iter().map(|of| of.sizes.clone()).max_by_key(Vec::len).unwrap_or_default();
    }
    Ok(sizes)
}

/// The coordinates of an element of a function: along each mode, from the first operand that has coordinates there
/// and is not repeated. Unless the function reads coordinates, they are mixed if another operand has others.
pub(super) fn located(all: &[&Elements], given: &[&Cell], sizes: &[i64], reads: bool) -> At {
    let mut known_type: At = None;
    for (of, cell) in all.iter().zip(given) {
        let Some(at) = &cell.at else { continue };
        // One element that all have is a number: its coordinates are not theirs.
        let is_number = of.cells.len() == 1 && sizes.iter().any(|size| *size > 1);
        if is_number || of.sizes.len() != sizes.len() || at.len() != sizes.len() {
            continue;
        }
        if known_type.is_none() && of.sizes == sizes {
            known_type = Some(at.clone());
            continue;
        }
        let one = |mode: usize| {
            let known = known_type.as_ref().map_or(Along::Own, |known_type| known_type[mode]);
            match (known, at[mode]) {
                _ if of.sizes[mode] != sizes[mode] => known,
                (first @ Along::Mixed(..), _) if !reads => first,
                (Along::In(at, is_in), Along::Mixed(..)) if !reads => Along::Mixed(at, is_in),
                (_, other @ Along::Mixed(..)) if !reads => other,
                (Along::In(one, is_in), Along::In(other, _)) if !reads && one != other => {
                    Along::Mixed(one, is_in)
                }
                (at @ Along::In(..), _) | (_, at @ Along::In(..)) => at,
                (Along::Own, Along::Own) => Along::Own,
                _ => Along::Unclear,
            }
        };
        known_type = Some((0..sizes.len()).map(one).collect());
    }
    known_type
}

/// A function of elements, one by one.
pub(super) fn each(all: &[&Elements], ty: Type, of: &dyn Fn(&[Num]) -> Num) -> Result<Elements> {
    let sizes = joint(all)?;
    let mut cells = Vec::new();
    for n in 0..sizes.iter().product::<i64>() as usize {
        let given: Vec<&Cell> = all
            .iter()
            .map(|elements| Ok(&elements.cells[elements.broadcast(&sizes, n)?]))
            .collect::<Result<_>>()?;
        let nums: Vec<Num> = given.iter().map(|cell| cell.num).collect();
        let num = of(&nums);
        let mut out_of_bounds = given
            .iter()
            .fold(OutOfBounds::No, |out_of_bounds, cell| either(out_of_bounds, cell.out_of_bounds));
        // It may equal an element in bounds: whether it counts as out of bounds is unspecified.
        let is_tile = |of: &Elements| !decides() || !of.argument && of.ty != Type::Condition;
        let may_be = |(cell, of): (&&Cell, &&Elements)| {
            cell.out_of_bounds != OutOfBounds::Yes && cell.num.may_equal(num) && is_tile(of)
        };
        if out_of_bounds == OutOfBounds::Yes && given.iter().zip(all).any(may_be) {
            out_of_bounds = OutOfBounds::Perhaps;
        }
        let at = located(all, &given, &sizes, false);
        let outside = given.iter().find_map(|cell| cell.outside.clone());
        cells.push(Cell { out_of_bounds, at, outside, ..Cell::of(num) });
    }
    let argument = all.iter().all(|of| of.argument);
    Ok(Elements { sizes, ty, cells, argument })
}

impl Elements {
    /// As elements of a type: literals take it.
    pub(super) fn as_type(&self, elem: Elem) -> Result<Elements> {
        match self.ty {
            Type::Elem(own) if own == elem => Ok(self.clone()),
            Type::Condition if elem == Elem::Bool => Ok(Elements { ty: Type::Elem(elem), ..self.clone() }),
            Type::Literal => each(&[self], Type::Elem(elem), &|x| match x[0].is_unknown() {
                true => Num::UNKNOWN,
                false => x[0].as_literal(elem),
            }),
            Type::Whole if matches!(elem, Elem::I32 | Elem::U32) => {
                Ok(Elements { ty: Type::Elem(elem), ..self.clone() })
            }
            other => undefined(format!("{other:?} is used as {elem}")),
        }
    }

    /// `x as f32`
    pub(super) fn cast(&self, to: Elem) -> Result<Elements> {
        match self.ty {
            Type::Elem(own) => {
                let cast = each(&[self], Type::Elem(to), &|x| x[0].cast(own, to))?;
                // An integer that its type might not hold is an element, as is one made of another number.
                let ((least, most), (own_least, own_most)) = (range(to), range(own));
                let whole = !own.is_float() && !to.is_float();
                Ok(Elements {
                    argument: cast.argument && whole && least <= own_least && own_most <= most,
                    ..cast
                })
            }
            Type::Literal => self.as_type(to),
            Type::Whole => self.as_type(Elem::I32)?.cast(to),
            Type::Condition => Ok(Elements { ty: Type::Elem(to), ..self.clone() }),
        }
    }
}

/// The type that operands have in common.
pub(super) fn common(all: &[&Elements]) -> Result<Option<Elem>> {
    let mut known_type = None;
    for of in all {
        match (of.ty, known_type) {
            (Type::Elem(own), None) => known_type = Some(own),
            (Type::Elem(own), Some(known)) if own != known => {
                return undefined(format!("{own} meets {known}"));
            }
            (Type::Condition, _) => return undefined("a condition is no number"),
            _ => {}
        }
    }
    Ok(known_type)
}

/// The type that numbers without one have in common.
pub(super) fn untyped(all: &[&Elements]) -> Type {
    if all.iter().any(|of| of.ty == Type::Whole) { Type::Whole } else { Type::Literal }
}

/// A function of operands of one type.
pub(super) fn alike(all: &[&Elements], of: &dyn Fn(&[Num], Elem) -> Num) -> Result<Elements> {
    let Some(elem) = common(all)? else {
        if untyped(all) == Type::Whole {
            // The numbers that both types have.
            let both = |x: &Num| x.is_exact() && (0.0..=f64::from(i32::MAX)).contains(&x.value);
            return each(all, Type::Whole, &|x| Some(of(x, Elem::I32)).filter(both).unwrap_or(Num::UNKNOWN));
        }
        // Literals alone get their type from the rest of the expression, which is not known here: all have small integers.
        let is_small =
            |x: &Num| doubles() || x.is_exact() && x.value.fract() == 0.0 && x.value.abs() <= 256.0;
        return each(all, Type::Literal, &|x| match x.iter().all(is_small) {
            true => Some(of(x, Elem::F64)).filter(is_small).unwrap_or(Num::UNKNOWN),
            false => Num::UNKNOWN,
        });
    };
    let all: Vec<Elements> = all.iter().map(|of| of.as_type(elem)).collect::<Result<_>>()?;
    each(&all.iter().collect::<Vec<_>>(), Type::Elem(elem), &|x| of(x, elem))
}

/// A comparison.
fn compared(x: &Elements, y: &Elements, of: &dyn Fn(Num, Num) -> Num) -> Result<Elements> {
    let both = alike(&[x, y], &|x, _| of(x[0], x[1]))?;
    Ok(Elements { ty: Type::Condition, ..both })
}

fn not(x: Num) -> Num {
    if x.is_unknown() { x } else { Num::exact(1.0 - x.value) }
}

/// `x + y` and its like.
pub(super) fn binary(op: Binary, x: &Elements, y: &Elements) -> Result<Elements> {
    let arithmetic = |f: Bin| alike(&[x, y], &|x, elem| Num::bin(f, x[0], x[1], elem));
    if x.ty == Type::Condition && y.ty == Type::Condition {
        let of: fn(f64, f64) -> bool = match op {
            Binary::And => |x, y| x * y != 0.0,
            Binary::Or => |x, y| x + y != 0.0,
            Binary::Xor | Binary::Ne => |x, y| x != y,
            Binary::Eq => |x, y| x == y,
            _ => return undefined("arithmetic on conditions"),
        };
        return each(&[x, y], Type::Condition, &|x| match x.iter().any(|x| x.is_unknown()) {
            true => Num::UNKNOWN,
            false => Num::exact(f64::from(u8::from(of(x[0].value, x[1].value)))),
        });
    }
    match op {
        Binary::Add => arithmetic(Bin::Add),
        Binary::Sub => arithmetic(Bin::Sub),
        Binary::Mul => arithmetic(Bin::Mul),
        Binary::Div => arithmetic(Bin::Div),
        Binary::Rem => arithmetic(Bin::Rem),
        Binary::And => arithmetic(Bin::And),
        Binary::Or => arithmetic(Bin::Or),
        Binary::Xor => arithmetic(Bin::Xor),
        Binary::Shl => shifted(Bin::Shl, x, y),
        Binary::Shr => shifted(Bin::Shr, x, y),
        Binary::Lt => compared(x, y, &|x, y| Num::cmp(Cmp::Lt, x, y)),
        Binary::Le => compared(x, y, &|x, y| Num::cmp(Cmp::Le, x, y)),
        Binary::Gt => compared(x, y, &|x, y| Num::cmp(Cmp::Lt, y, x)),
        Binary::Ge => compared(x, y, &|x, y| Num::cmp(Cmp::Le, y, x)),
        Binary::Eq => compared(x, y, &|x, y| Num::cmp(Cmp::Eq, x, y)),
        Binary::Ne => compared(x, y, &|x, y| Num::cmp(Cmp::Ne, x, y)),
    }
}

/// A shift, whose distance may have another type.
fn shifted(f: Bin, x: &Elements, y: &Elements) -> Result<Elements> {
    match (x.ty, y.ty) {
        (Type::Elem(elem), Type::Elem(other)) if elem != other && !other.is_float() => {
            each(&[x, y], x.ty, &|x| Num::bin(f, x[0], x[1], elem))
        }
        _ => alike(&[x, y], &|x, elem| Num::bin(f, x[0], x[1], elem)),
    }
}

/// `-x`, `!x`
pub(super) fn unary(op: Unary, x: &Elements) -> Result<Elements> {
    match (op, x.ty) {
        (Unary::Neg, _) => alike(&[x], &|x, elem| Num::un(Un::Neg, x[0], elem)),
        (Unary::Not, Type::Condition) => each(&[x], Type::Condition, &|x| not(x[0])),
        (Unary::Not, _) => alike(&[x], &|x, elem| Num::un(Un::Not, x[0], elem)),
    }
}

/// `if condition { then } else { other }`
pub(super) fn chosen(condition: &Elements, then: &Elements, other: &Elements) -> Result<Elements> {
    if condition.ty != Type::Condition {
        return undefined("no condition");
    }
    if then.ty == Type::Condition {
        return each(&[condition, then, other], Type::Condition, &|x| Num::pick(x[0], x[1], x[2]));
    }
    let (then, other, ty) = match common(&[then, other])? {
        Some(elem) => (then.as_type(elem)?, other.as_type(elem)?, Type::Elem(elem)),
        None => (then.clone(), other.clone(), untyped(&[then, other])),
    };
    each(&[condition, &then, &other], ty, &|x| Num::pick(x[0], x[1], x[2]))
}

/// A function of numbers by its name.
pub(super) fn function(name: &str, all: &[&Elements]) -> Result<Elements> {
    let one = |f: Un| alike(all, &|x, elem| Num::un(f, x[0], elem));
    let two = |f: Bin| alike(all, &|x, elem| Num::bin(f, x[0], x[1], elem));
    match (name, all.len()) {
        ("abs", 1) => one(Un::Abs),
        ("floor", 1) => one(Un::Floor),
        ("ceil", 1) => one(Un::Ceil),
        ("trunc", 1) => one(Un::Trunc),
        ("round", 1) => one(Un::Round),
        ("round_ties_even", 1) => one(Un::RoundEven),
        ("exp" | "fast_exp", 1) => one(Un::Exp),
        ("exp2", 1) => one(Un::Exp2),
        ("log" | "fast_log", 1) => one(Un::Log),
        ("log2" | "fast_log2", 1) => one(Un::Log2),
        ("sqrt" | "fast_sqrt", 1) => one(Un::Sqrt),
        ("rsqrt" | "fast_rsqrt", 1) => one(Un::Rsqrt),
        ("tanh" | "fast_tanh", 1) => one(Un::Tanh),
        ("sin" | "fast_sin", 1) => one(Un::Sin),
        ("cos" | "fast_cos", 1) => one(Un::Cos),
        ("fast_div", 2) => two(Bin::Div),
        ("erf", 1) => one(Un::Erf),
        ("gelu", 1) => one(Un::Gelu),
        // The bits of a literal depend on the type that the rest of the expression gives it.
        ("count_ones" | "leading_zeros" | "mul_high", _) if common(all)?.is_none() => {
            each(all, Type::Literal, &|_| Num::UNKNOWN)
        }
        ("count_ones", 1) => one(Un::CountOnes),
        ("leading_zeros", 1) => one(Un::LeadingZeros),
        ("min", 2) => two(Bin::Min),
        ("max", 2) => two(Bin::Max),
        ("copysign", 2) => two(Bin::CopySign),
        ("pow", 2) => two(Bin::Pow),
        ("mul_high", 2) => two(Bin::MulHigh),
        ("fma", 3) => alike(all, &|x, elem| Num::fma(x[0], x[1], x[2], elem)),
        ("select", 3) => chosen(all[0], all[1], all[2]),
        // Compositions, each of whose steps is rounded.
        ("sigmoid", 1) => alike(all, &sigmoid),
        ("silu", 1) => alike(all, &|x, elem| loose(Num::bin(Bin::Mul, x[0], sigmoid(x, elem), elem), elem)),
        ("gelu_tanh", 1) => each(all, all[0].ty, &|_| Num::UNKNOWN),
        _ => undefined(format!("the function `{name}`")),
    }
}

fn sigmoid(x: &[Num], elem: Elem) -> Num {
    let exp = Num::un(Un::Exp, Num::un(Un::Neg, x[0], elem), elem);
    loose(Num::bin(Bin::Div, Num::exact(1.0), Num::bin(Bin::Add, Num::exact(1.0), exp, elem), elem), elem)
}

/// With a wider bound: it may be computed in other steps.
fn loose(x: Num, elem: Elem) -> Num {
    if doubles() {
        return x;
    }
    Num::near(x.value, x.error * 4.0 + 8.0 * elem.roundoff() * x.value.abs())
}
