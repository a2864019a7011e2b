//! Integer expressions of a thread program: a hash-consed arena, simplified as expressions are made.
//!
//! Each expression knows its range, a divisor, and the largest group of threads in which it is uniform.
//! Ranges decide whether a division cancels, whether 32 bits are enough, whether a guard is needed.

mod choice;
mod division;
mod lanes;

use std::collections::HashMap;

use crate::isa::scope::Scope;
use crate::source::wire::wire;
use crate::values::id::Id;
pub use lanes::{LANES, Lanes, Leaf};

/// An expression: its index in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Ix(u32);

impl Ix {
    /// The expression at an index.
    pub fn at(number: u32) -> Ix {
        Ix(number)
    }

    /// Its index in the arena.
    pub fn number(self) -> u32 {
        self.0
    }
}

wire! { struct Ix(index); }

/// The kinds of expressions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Int {
    Const(i64),
    /// A variable of the kernel.
    Var(Id),
    /// An integer parameter.
    Param(Id),
    /// `threadIdx.x`
    Thread,
    /// `blockIdx` along x, y, z.
    Block(u8),
    /// `gridDim` along x, y, z.
    Grid(u8),
    /// The block's rank in its cluster.
    ClusterRank,
    Add(Ix, Ix),
    Sub(Ix, Ix),
    Mul(Ix, Ix),
    Div(Ix, Ix),
    Rem(Ix, Ix),
    And(Ix, Ix),
    Xor(Ix, Ix),
    Shl(Ix, Ix),
    Min(Ix, Ix),
    Max(Ix, Ix),
    Lt(Ix, Ix),
    /// The first is not negative and less than the second, which is not negative: one unsigned comparison. Of two signed
    /// comparisons an assembler removes one if it takes the first operand for an absolute value, although the least number
    /// has none. So a number that may be the least number is compared without a sign.
    Within(Ix, Ix),
    Eq(Ix, Ix),
    /// Both are true.
    All(Ix, Ix),
    Not(Ix),
    Select(Ix, Ix, Ix),
    /// The first if it is less than the second, the end. Otherwise its distance from the end, at most the third.
    Wrap(Ix, Ix, Ix),
}

impl Int {
    /// Its operands.
    pub fn parts(&self) -> Vec<Ix> {
        match *self {
            Int::Const(_)
            | Int::Var(_)
            | Int::Param(_)
            | Int::Thread
            | Int::Block(_)
            | Int::Grid(_)
            | Int::ClusterRank => Vec::new(),
            Int::Not(a) => vec![a],
            Int::Add(a, b) | Int::Sub(a, b) | Int::Mul(a, b) | Int::Div(a, b) | Int::Rem(a, b) => vec![a, b],
            Int::And(a, b) | Int::Xor(a, b) | Int::Shl(a, b) => vec![a, b],
            Int::Min(a, b) | Int::Max(a, b) | Int::All(a, b) => vec![a, b],
            Int::Lt(a, b) | Int::Within(a, b) | Int::Eq(a, b) => vec![a, b],
            Int::Select(a, b, c) | Int::Wrap(a, b, c) => vec![a, b, c],
        }
    }
}

/// A name of a constant operand, for generated text: the constant is `times * name * bytes / over + plus`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantName {
    /// The name.
    pub name: String,
    /// Its value.
    pub value: i64,
    /// See above.
    pub times: i64,
    /// The size of an element, where an offset counts bytes.
    pub bytes: i64,
    /// See above.
    pub over: i64,
    /// See above.
    pub plus: i64,
    /// The shared array in whose addresses it has this name; everywhere without.
    pub array: Option<Id>,
}

impl ConstantName {
    /// The name of a number.
    pub fn new(name: &str, value: i64) -> ConstantName {
        ConstantName { name: name.to_owned(), value, times: 1, bytes: 1, over: 1, plus: 0, array: None }
    }

    /// The constant operand.
    pub(crate) fn number(&self) -> i64 {
        (self.value.saturating_mul(self.times).saturating_mul(self.bytes) / self.over.max(1))
            .saturating_add(self.plus)
    }
}

/// An expression with its analysis.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its kind.
    pub int: Int,
    /// Least value.
    pub lo: i64,
    /// Greatest value.
    pub hi: i64,
    /// It is a multiple of this; 0 for the constant 0.
    pub multiple: i64,
    /// The largest group of threads in which it is uniform.
    pub same_for: Scope,
    /// Names of its constant operands.
    pub names: Vec<ConstantName>,
}

impl Expr {
    /// Does every value fit 32 bits? Generated code computes other expressions in 64 bits.
    pub fn is_narrow(&self) -> bool {
        self.lo >= i64::from(i32::MIN) && self.hi <= i64::from(i32::MAX)
    }
}

/// The second operand of an operation: an expression, or a constant.
pub trait Operand {
    /// The expression.
    fn within(self, exprs: &mut Exprs) -> Ix;
}

impl Operand for Ix {
    fn within(self, _: &mut Exprs) -> Ix {
        self
    }
}

impl Operand for i64 {
    fn within(self, exprs: &mut Exprs) -> Ix {
        exprs.int(self)
    }
}

/// The arena.
#[derive(Clone, Debug, Default)]
pub struct Exprs {
    all: Vec<Expr>,
    known: HashMap<Int, Ix>,
}

impl From<Vec<Expr>> for Exprs {
    /// These expressions, each made of earlier expressions, without simplification.
    fn from(all: Vec<Expr>) -> Exprs {
        let known = all.iter().enumerate().map(|(at, expr)| (expr.int.clone(), Ix(at as u32))).collect();
        Exprs { all, known }
    }
}

/// The greatest common divisor, not negative.
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// The least common multiple; the first where it overflows 64 bits.
pub fn lcm(a: i64, b: i64) -> i64 {
    (a / gcd(a, b).max(1)).checked_mul(b).unwrap_or(a)
}

impl Exprs {
    /// The expression at an index.
    pub fn get(&self, at: Ix) -> &Expr {
        &self.all[at.0 as usize]
    }

    /// All of them, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Expr> {
        self.all.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The greatest value of a leaf, if there is such a leaf.
    pub(crate) fn greatest_of_leaf(&self, leaf: &Int) -> Option<i64> {
        Some(self.get(*self.known.get(leaf)?).hi)
    }

    /// Replaces a leaf in all expressions by another of the same range. Is there such a leaf?
    pub(crate) fn replace_leaf(&mut self, leaf: &Int, with: Int) -> bool {
        let Some(at) = self.known.remove(leaf) else { return false };
        self.all[at.0 as usize].int = with.clone();
        self.known.insert(with, at);
        true
    }

    /// The value, if it is a constant.
    pub fn constant(&self, at: Ix) -> Option<i64> {
        match self.get(at).int {
            Int::Const(n) => Some(n),
            _ => None,
        }
    }

    /// Bounds a value, because a fact of the variant says so. Terms of a sum and factors of a product of
    /// nonnegative numbers are bounded by their total, too.
    pub fn assume(&mut self, at: Ix, lo: i64, hi: i64) {
        let known = &mut self.all[at.0 as usize];
        (known.lo, known.hi) = (known.lo.max(lo), known.hi.min(hi).max(known.lo.max(lo)));
        if let Int::Add(x, y) = known.int
            && self.get(x).lo >= 0
            && self.get(y).lo >= 0
        {
            self.assume(x, 0, hi);
            self.assume(y, 0, hi);
        }
    }

    /// States that a value is a multiple, because a fact of the variant says so.
    pub fn assume_multiple(&mut self, at: Ix, of: i64) {
        let known = &mut self.all[at.0 as usize];
        known.multiple = known.multiple / gcd(known.multiple, of).max(1) * of;
    }

    /// Names a constant where it is a factor of a term, a divisor, a limit or a choice.
    pub fn name_constant(&mut self, at: Ix, name: &ConstantName) {
        let int = self.get(at).int.clone();
        match int {
            Int::Add(x, y) => {
                self.name_constant(x, name);
                self.name_constant(y, name);
            }
            Int::Not(x) => self.name_constant(x, name),
            Int::Mul(..)
            | Int::Div(..)
            | Int::Rem(..)
            | Int::Eq(..)
            | Int::Lt(..)
            | Int::Min(..)
            | Int::Select(..) => {
                if let Int::Select(cond, ..) = int {
                    self.name_constant(cond, name);
                }
                let is_it = |part: &Ix| self.constant(*part) == Some(name.number());
                if int.parts().iter().any(is_it) && !self.get(at).names.contains(name) {
                    self.all[at.0 as usize].names.push(name.clone());
                }
            }
            _ => {}
        }
    }

    /// Names a constant where it is the factor of a term.
    pub fn name_factor(&mut self, at: Ix, name: &ConstantName) {
        match self.get(at).int {
            Int::Add(x, y) => {
                self.name_factor(x, name);
                self.name_factor(y, name);
            }
            Int::Mul(..) => self.name_constant(at, name),
            _ => {}
        }
    }

    /// Names the constant summand of a sum.
    pub fn name_summand(&mut self, at: Ix, name: &ConstantName) {
        if let Int::Add(_, y) = self.get(at).int
            && self.constant(y) == Some(name.number())
            && !self.get(at).names.contains(name)
        {
            self.all[at.0 as usize].names.push(name.clone());
        }
    }

    /// The constant summand of a sum, 0 without.
    pub fn summand(&self, at: Ix) -> i64 {
        match self.get(at).int {
            Int::Add(_, y) => self.constant(y).unwrap_or(0),
            _ => 0,
        }
    }

    /// Names the stride of an array in a term of an offset, a coordinate times the stride.
    pub fn name_stride(&mut self, term: Ix, name: &ConstantName) {
        match self.get(term).int {
            Int::Add(x, y) => {
                self.name_stride(x, name);
                self.name_stride(y, name);
            }
            Int::Mul(_, by) => {
                if let Some(by) = self.constant(by).filter(|by| by % name.value == 0) {
                    self.name_constant(term, &ConstantName { times: by / name.value, ..name.clone() });
                }
            }
            _ => {}
        }
    }

    /// Names the factor of a product, which is `bytes / over` times the factor of a term, as in that term.
    pub(crate) fn name_product(&mut self, product: Ix, of: Ix, bytes: i64, over: i64) {
        let Int::Mul(_, factor) = self.get(of).int else { return };
        let Some(factor) = self.constant(factor) else { return };
        for name in self.get(of).names.clone() {
            if name.plus == 0 && name.number() == factor {
                let common = gcd(name.times, over).max(1);
                let (times, over) = (name.times / common, name.over * (over / common));
                self.name_constant(product, &ConstantName { times, bytes: name.bytes * bytes, over, ..name });
            }
        }
    }

    fn intern(&mut self, int: Int, range: (i64, i64), multiple: i64, same_for: Scope) -> Ix {
        if let Some(&at) = self.known.get(&int) {
            return at;
        }
        let at = Ix(self.all.len() as u32);
        self.known.insert(int.clone(), at);
        let (lo, hi) = range;
        self.all.push(Expr { int, lo, hi, multiple, same_for, names: Vec::new() });
        at
    }

    /// A constant.
    pub fn int(&mut self, n: i64) -> Ix {
        self.intern(Int::Const(n), (n, n), n, Scope::Grid)
    }

    /// A variable or another leaf, with its analysis.
    pub fn leaf(&mut self, int: Int, lo: i64, hi: i64, multiple: i64, same_for: Scope) -> Ix {
        if lo == hi && !matches!(int, Int::Var(_)) {
            return self.int(lo);
        }
        self.intern(int, (lo, hi), multiple.max(1), same_for)
    }

    fn both(&self, a: Ix, b: Ix) -> Scope {
        self.get(a).same_for.min(self.get(b).same_for)
    }

    /// `a + b`
    pub fn add(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
        match (self.constant(a), self.constant(b)) {
            (Some(x), Some(y)) => return self.int(x.saturating_add(y)),
            (Some(0), _) => return b,
            (_, Some(0)) => return a,
            // constants to the right
            (Some(_), None) => return self.add(b, a),
            _ => {}
        }
        if let (Int::Add(x, y), Some(n)) = (self.get(a).int.clone(), self.constant(b))
            && let Some(m) = self.constant(y)
        {
            let sum = self.int(m.saturating_add(n));
            return self.add(x, sum);
        }
        // (x + 4) + y = (x + y) + 4
        if let Int::Add(x, y) = self.get(a).int.clone()
            && self.constant(y).is_some()
            && self.constant(b).is_none()
        {
            let sum = self.add(x, b);
            return self.add(sum, y);
        }
        if let Int::Add(x, y) = self.get(b).int.clone()
            && self.constant(y).is_some()
        {
            let sum = self.add(a, x);
            return self.add(sum, y);
        }
        let (x, y) = (self.get(a), self.get(b));
        let range = (x.lo.saturating_add(y.lo), x.hi.saturating_add(y.hi));
        let multiple = gcd(x.multiple, y.multiple);
        let same = self.both(a, b);
        self.intern(Int::Add(a, b), range, multiple, same)
    }

    /// `a - b`
    pub fn sub(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
        match (self.constant(a), self.constant(b)) {
            (Some(x), Some(y)) => return self.int(x.saturating_sub(y)),
            (_, Some(n)) => {
                let minus = self.int(n.saturating_neg());
                return self.add(a, minus);
            }
            _ if a == b => return self.int(0),
            _ => {}
        }
        let (x, y) = (self.get(a), self.get(b));
        let range = (x.lo.saturating_sub(y.hi), x.hi.saturating_sub(y.lo));
        let multiple = gcd(x.multiple, y.multiple);
        let same = self.both(a, b);
        self.intern(Int::Sub(a, b), range, multiple, same)
    }

    /// `a * b`
    pub fn mul(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
        match (self.constant(a), self.constant(b)) {
            (Some(x), Some(y)) => return self.int(x.saturating_mul(y)),
            (Some(_), None) => return self.mul(b, a),
            (_, Some(0)) => return b,
            (_, Some(1)) => return a,
            _ => {}
        }
        if let Some(n) = self.constant(b) {
            match self.get(a).int.clone() {
                // Distribute over sums, so that divisions can cancel later.
                Int::Add(x, y) => {
                    let (x, y) = (self.mul(x, b), self.mul(y, b));
                    return self.add(x, y);
                }
                Int::Mul(x, y) if self.constant(y).is_some() => {
                    let product = self.int(self.constant(y).unwrap_or(1).saturating_mul(n));
                    return self.mul(x, product);
                }
                _ => {}
            }
        }
        let (x, y) = (self.get(a), self.get(b));
        let corners =
            [(x.lo, y.lo), (x.lo, y.hi), (x.hi, y.lo), (x.hi, y.hi)].map(|(x, y)| x.saturating_mul(y));
        let range = (*corners.iter().min().unwrap_or(&0), *corners.iter().max().unwrap_or(&0));
        let multiple = x.multiple.checked_mul(y.multiple).unwrap_or(x.multiple);
        let same = self.both(a, b);
        self.intern(Int::Mul(a, b), range, multiple, same)
    }

    /// The summands of an expression.
    pub fn terms(&self, at: Ix, to: &mut Vec<Ix>) {
        match self.get(at).int {
            Int::Add(x, y) => {
                self.terms(x, to);
                self.terms(y, to);
            }
            _ => to.push(at),
        }
    }

    /// Is the condition true of an expression or of a part of it?
    pub fn any(&self, at: Ix, is: &impl Fn(&Int) -> bool) -> bool {
        let int = &self.get(at).int;
        is(int) || int.parts().into_iter().any(|part| self.any(part, is))
    }

    fn sum(&mut self, terms: &[Ix]) -> Ix {
        let zero = self.int(0);
        terms.iter().fold(zero, |sum, &term| self.add(sum, term))
    }

    /// `a ^ b`
    pub fn xor(&mut self, a: Ix, b: Ix) -> Ix {
        match (self.constant(a), self.constant(b)) {
            (Some(x), Some(y)) => return self.int(x ^ y),
            (_, Some(0)) => return a,
            (Some(0), _) => return b,
            _ => {}
        }
        let (x, y) = (self.get(a), self.get(b));
        // All bits up to the highest of either range; the sign of either side can become the result's.
        let top = [x.lo, x.hi, y.lo, y.hi].into_iter().fold(0, |top, end| top | (end ^ (end >> 63)) as u64);
        let most = ((1u128 << (64 - top.leading_zeros())) - 1) as i64;
        let least = if x.lo < 0 || y.lo < 0 { -most - 1 } else { 0 };
        let multiple = 1i64 << x.multiple.trailing_zeros().min(y.multiple.trailing_zeros()).min(62);
        let same = self.both(a, b);
        self.intern(Int::Xor(a, b), (least, most), multiple, same)
    }

    /// `number << by`, for a number and a distance that are not negative.
    pub fn shl(&mut self, number: i64, by: Ix) -> Ix {
        let Expr { lo, hi, same_for, .. } = *self.get(by);
        if lo == hi {
            return self.int(number << lo);
        }
        let at = self.int(number);
        self.intern(Int::Shl(at, by), (number << lo, number << hi), 1, same_for)
    }

    /// `a & mask`, for a mask that is not negative.
    pub fn and(&mut self, a: Ix, mask: i64) -> Ix {
        if let Some(x) = self.constant(a) {
            return self.int(x & mask);
        }
        let same = self.get(a).same_for;
        let hi = mask.min(self.get(a).hi.max(0));
        let hi = if self.get(a).lo < 0 { mask } else { hi };
        let mask_at = self.int(mask);
        self.intern(Int::And(a, mask_at), (0, hi), (1 << mask.trailing_zeros().min(62)).max(1), same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_gather_at_the_right() {
        let mut e = Exprs::default();
        let thread = e.leaf(Int::Thread, 0, 255, 1, Scope::Thread);
        let (four, five) = (e.int(4), e.int(5));
        let a = e.add(thread, four);
        let b = e.add(five, a);
        let nine = e.int(9);
        assert_eq!(b, e.add(thread, nine));
    }
}
