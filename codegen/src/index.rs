//! Integer expressions of a thread program: a hash-consed arena, simplified as expressions are made.
//!
//! Each expression knows its range, a divisor, and the largest group of threads in which it is uniform.
//! Ranges decide whether a division cancels, whether 32 bits are enough, whether a guard is needed.

use std::collections::HashMap;

use crate::thread::{Id, Scope};

/// An expression: its place in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Ix(u32);

impl Ix {
    /// The expression at a place.
    pub(crate) fn at(place: u32) -> Ix {
        Ix(place)
    }

    /// Its place in the arena.
    pub(crate) fn place(self) -> u32 {
        self.0
    }
}

/// What an expression is.
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
    Or(Ix, Ix),
    Xor(Ix, Ix),
    Shl(Ix, Ix),
    Shr(Ix, Ix),
    Min(Ix, Ix),
    Max(Ix, Ix),
    Lt(Ix, Ix),
    Eq(Ix, Ix),
    /// Both hold.
    All(Ix, Ix),
    Not(Ix),
    Select(Ix, Ix, Ix),
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
            Int::And(a, b) | Int::Or(a, b) | Int::Xor(a, b) | Int::Shl(a, b) | Int::Shr(a, b) => vec![a, b],
            Int::Min(a, b) | Int::Max(a, b) | Int::Lt(a, b) | Int::Eq(a, b) | Int::All(a, b) => vec![a, b],
            Int::Select(a, b, c) => vec![a, b, c],
        }
    }
}

/// An expression with its analysis.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub int: Int,
    /// Least value.
    pub lo: i64,
    /// Greatest value.
    pub hi: i64,
    /// It is a multiple of this; 0 for the constant 0.
    pub multiple: i64,
    /// The largest group of threads in which it is uniform.
    pub same_for: Scope,
}

impl Expr {
    /// Do 32 bits hold every value? Generated code computes other expressions in 64 bits.
    pub fn is_narrow(&self) -> bool {
        self.lo >= i64::from(i32::MIN) && self.hi <= i64::from(i32::MAX)
    }
}

/// The arena.
#[derive(Clone, Debug, Default)]
pub struct Exprs {
    all: Vec<Expr>,
    known: HashMap<Int, Ix>,
}

/// A counter that wraps around; see [`Exprs::wrapping`].
struct Wrapping {
    whole: Ix,
    counter: Ix,
    by: i64,
    wraps: Ix,
}

impl From<Vec<Expr>> for Exprs {
    /// These expressions, each made of earlier ones, as they are.
    fn from(all: Vec<Expr>) -> Exprs {
        let known = all.iter().enumerate().map(|(at, expr)| (expr.int.clone(), Ix(at as u32))).collect();
        Exprs { all, known }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

impl Exprs {
    /// The expression at a place.
    pub fn get(&self, at: Ix) -> &Expr {
        &self.all[at.0 as usize]
    }

    /// All of them, in the order in which they were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Expr> {
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

    fn intern(&mut self, int: Int, range: (i64, i64), multiple: i64, same_for: Scope) -> Ix {
        if let Some(&at) = self.known.get(&int) {
            return at;
        }
        let at = Ix(self.all.len() as u32);
        self.known.insert(int.clone(), at);
        let (lo, hi) = range;
        self.all.push(Expr { int, lo, hi, multiple, same_for });
        at
    }

    /// A constant.
    pub fn int(&mut self, n: i64) -> Ix {
        self.intern(Int::Const(n), (n, n), n, Scope::Grid)
    }

    /// A variable or another leaf, with what is known about it.
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
    pub fn add(&mut self, a: Ix, b: Ix) -> Ix {
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
    pub fn sub(&mut self, a: Ix, b: Ix) -> Ix {
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
    pub fn mul(&mut self, a: Ix, b: Ix) -> Ix {
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
    pub(crate) fn terms(&self, at: Ix, to: &mut Vec<Ix>) {
        match self.get(at).int {
            Int::Add(x, y) => {
                self.terms(x, to);
                self.terms(y, to);
            }
            _ => to.push(at),
        }
    }

    fn sum(&mut self, terms: &[Ix]) -> Ix {
        let zero = self.int(0);
        terms.iter().fold(zero, |sum, &term| self.add(sum, term))
    }

    /// Splits `at = whole + rest` with `n` dividing `whole` and `0 <= rest < n`, if that can be proven.
    fn split(&mut self, at: Ix, n: i64) -> Option<(Ix, Ix)> {
        let mut terms = Vec::new();
        self.terms(at, &mut terms);
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for term in terms {
            match self.constant(term) {
                Some(c) => {
                    let (q, r) = (self.int(c - c.rem_euclid(n)), self.int(c.rem_euclid(n)));
                    whole.push(q);
                    rest.push(r);
                }
                None if self.get(term).multiple % n == 0 => whole.push(term),
                None => rest.push(term),
            }
        }
        let (whole, rest) = (self.sum(&whole), self.sum(&rest));
        let known = self.get(rest);
        (known.lo >= 0 && known.hi < n).then_some((whole, rest))
    }

    /// Splits `at = whole + x + c` with `n` dividing `whole`, a variable `0 <= x < n` and a constant `0 < c < n`: a
    /// counter that wraps around at `n`, which a comparison finds faster than a division. Whether `x + c >= n`.
    fn wrapping(&mut self, at: Ix, n: i64) -> Option<Wrapping> {
        let mut terms = Vec::new();
        self.terms(at, &mut terms);
        let (mut whole, mut counter, mut by) = (Vec::new(), None, 0);
        for term in terms {
            match (self.constant(term), &self.get(term).int) {
                (Some(c), _) => {
                    by = c.rem_euclid(n);
                    whole.push(self.int(c - by));
                }
                (None, _) if self.get(term).multiple % n == 0 => whole.push(term),
                (None, Int::Var(_)) if counter.is_none() => counter = Some(term),
                (None, _) => return None,
            }
        }
        let counter = counter.filter(|&x| by > 0 && self.get(x).lo >= 0 && self.get(x).hi < n)?;
        let (first, last) = (self.int(n - by), self.int(n - 1));
        let wraps = match by {
            1 => self.eq(counter, last),
            _ => {
                let below = self.lt(counter, first);
                self.not(below)
            }
        };
        Some(Wrapping { whole: self.sum(&whole), counter, by, wraps })
    }

    /// `at / n` where `n` divides it.
    pub(crate) fn exact(&mut self, at: Ix, n: i64) -> Option<Ix> {
        match self.get(at).int.clone() {
            Int::Const(c) => (c % n == 0).then(|| self.int(c / n)),
            Int::Add(x, y) => {
                let (x, y) = (self.exact(x, n)?, self.exact(y, n)?);
                Some(self.add(x, y))
            }
            Int::Mul(x, y) => {
                let c = self.constant(y)?;
                if c % n == 0 {
                    let c = self.int(c / n);
                    return Some(self.mul(x, c));
                }
                let common = gcd(c, n);
                let x = self.exact(x, n / common)?;
                let c = self.int(c / common);
                Some(self.mul(x, c))
            }
            _ if n == 1 => Some(at),
            _ => None,
        }
    }

    /// `a` plus a multiple of `n` that makes it nonnegative, and that multiple; nothing where it already is.
    /// Hardware division truncates, layouts need floor division.
    fn lifted(&mut self, a: Ix, n: i64) -> Option<(Ix, i64)> {
        /// Coordinates and strides have 32 bits: no value lies below this.
        const LOWEST: i64 = -(1 << 62);
        let (lo, hi) = (self.get(a).lo, self.get(a).hi);
        if lo >= 0 {
            return None;
        }
        let up = lo.max(LOWEST).div_euclid(n) * -n;
        let by = self.int(up);
        let sum = self.add(a, by);
        self.assume(sum, lo.saturating_add(up).max(0), hi.saturating_add(up));
        Some((sum, up))
    }

    /// `a / n`, rounded down; `n` positive.
    pub fn div(&mut self, a: Ix, n: i64) -> Ix {
        if n == 1 {
            return a;
        }
        if let Some(x) = self.constant(a) {
            return self.int(x.div_euclid(n));
        }
        if let Some((whole, _)) = self.split(a, n)
            && let Some(exact) = self.exact(whole, n)
        {
            return exact;
        }
        if let Some(Wrapping { whole, wraps, .. }) = self.wrapping(a, n)
            && let Some(exact) = self.exact(whole, n)
        {
            return self.add(exact, wraps);
        }
        // (x / m) / n = x / (m * n)
        if let Int::Div(x, m) = self.get(a).int.clone()
            && let Some(m) = self.constant(m)
        {
            return self.div(x, m.saturating_mul(n));
        }
        let (range, same) =
            ((self.get(a).lo.div_euclid(n), self.get(a).hi.div_euclid(n)), self.get(a).same_for);
        if range.0 == range.1 {
            return self.int(range.0);
        }
        if let Some((sum, up)) = self.lifted(a, n) {
            let (above, more) = (self.div(sum, n), self.int(-(up / n)));
            return self.add(above, more);
        }
        let n = self.int(n);
        self.intern(Int::Div(a, n), range, 1, same)
    }

    /// `a / b` of numbers that launch knows: `a` is not negative, and `b` is positive.
    pub fn quotient(&mut self, a: Ix, b: Ix) -> Ix {
        if let Some(n) = self.constant(b) {
            return self.div(a, n.max(1));
        }
        let (x, y) = (self.get(a), self.get(b));
        let range = (x.lo.max(0) / y.hi.max(1), x.hi.max(0) / y.lo.max(1));
        let same = self.both(a, b);
        self.intern(Int::Div(a, b), range, 1, same)
    }

    /// `a % b` of numbers that launch knows: `a` is not negative, and `b` is positive.
    pub fn remainder(&mut self, a: Ix, b: Ix) -> Ix {
        if let Some(n) = self.constant(b) {
            return self.rem(a, n.max(1));
        }
        let hi = self.get(a).hi.min(self.get(b).hi - 1).max(0);
        let same = self.both(a, b);
        self.intern(Int::Rem(a, b), (0, hi), 1, same)
    }

    /// `a % n`, never negative; `n` positive.
    pub fn rem(&mut self, a: Ix, n: i64) -> Ix {
        if n == 1 {
            return self.int(0);
        }
        if let Some(x) = self.constant(a) {
            return self.int(x.rem_euclid(n));
        }
        if let Some((_, rest)) = self.split(a, n) {
            return rest;
        }
        // For a power of two, bits are as fast as a comparison.
        if n & (n - 1) != 0
            && let Some(wrapping) = self.wrapping(a, n)
        {
            return self.wrapped(wrapping, n);
        }
        // Terms that `n` divides drop out.
        let (mut a, mut terms) = (a, Vec::new());
        self.terms(a, &mut terms);
        let count = terms.len();
        terms.retain(|&term| self.get(term).multiple % n != 0);
        if terms.len() < count {
            a = self.sum(&terms);
            if self.get(a).lo >= 0 {
                return self.rem(a, n);
            }
        }
        // (x % m) % n = x % n where n divides m
        if let Int::Rem(x, m) = self.get(a).int.clone()
            && self.constant(m).is_some_and(|m| m % n == 0)
        {
            return self.rem(x, n);
        }
        let a = self.lifted(a, n).map_or(a, |(sum, _)| sum);
        let (multiple, same) = (gcd(self.get(a).multiple, n), self.get(a).same_for);
        let n_at = self.int(n);
        self.intern(Int::Rem(a, n_at), (0, n - multiple.max(1)), multiple, same)
    }

    /// The remainder of a counter that wraps around at `n`.
    fn wrapped(&mut self, Wrapping { counter, by, wraps, .. }: Wrapping, n: i64) -> Ix {
        let (zero, last) = (self.int(0), self.int(n - 1));
        let (on, around) = (self.int(by), self.int(by - n));
        let (on, around) = (self.add(counter, on), self.add(counter, around));
        let rest = match by {
            1 => self.select(wraps, zero, on),
            // One back.
            _ if by == n - 1 => {
                let first = self.eq(counter, zero);
                self.select(first, last, around)
            }
            _ => self.select(wraps, around, on),
        };
        self.assume(rest, 0, n - 1);
        rest
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

    /// `a < b`: 1 or 0.
    pub fn lt(&mut self, a: Ix, b: Ix) -> Ix {
        let (x, y) = (self.get(a), self.get(b));
        if x.hi < y.lo {
            return self.int(1);
        }
        if x.lo >= y.hi {
            return self.int(0);
        }
        // x * -4 < 0 where 0 < x
        if let Int::Mul(x, by) = x.int
            && self.constant(by).is_some_and(|by| by < 0)
            && self.constant(b) == Some(0)
        {
            return self.lt(b, x);
        }
        let same = self.both(a, b);
        self.intern(Int::Lt(a, b), (0, 1), 1, same)
    }

    /// `a == b`: 1 or 0.
    pub fn eq(&mut self, a: Ix, b: Ix) -> Ix {
        let (x, y) = (self.get(a), self.get(b));
        if a == b {
            return self.int(1);
        }
        if x.hi < y.lo || y.hi < x.lo {
            return self.int(0);
        }
        let same = self.both(a, b);
        self.intern(Int::Eq(a, b), (0, 1), 1, same)
    }

    /// Both hold.
    pub fn all(&mut self, a: Ix, b: Ix) -> Ix {
        match (self.constant(a), self.constant(b)) {
            (Some(0), _) | (_, Some(0)) => return self.int(0),
            (Some(_), _) => return b,
            (_, Some(_)) => return a,
            _ if a == b => return a,
            _ => {}
        }
        let same = self.both(a, b);
        self.intern(Int::All(a, b), (0, 1), 1, same)
    }

    /// It does not hold.
    pub fn not(&mut self, a: Ix) -> Ix {
        match (self.constant(a), self.get(a).int.clone()) {
            (Some(n), _) => self.int(i64::from(n == 0)),
            // A double negation cancels for 0 or 1.
            (_, Int::Not(x)) if self.get(x).lo >= 0 && self.get(x).hi <= 1 => x,
            _ => {
                let same = self.get(a).same_for;
                self.intern(Int::Not(a), (0, 1), 1, same)
            }
        }
    }

    /// The smaller.
    pub fn min(&mut self, a: Ix, b: Ix) -> Ix {
        let (x, y) = (self.get(a).clone(), self.get(b).clone());
        if x.hi <= y.lo {
            return a;
        }
        if y.hi <= x.lo {
            return b;
        }
        let same = self.both(a, b);
        self.intern(Int::Min(a, b), (x.lo.min(y.lo), x.hi.min(y.hi)), gcd(x.multiple, y.multiple), same)
    }

    /// The greater.
    pub fn max(&mut self, a: Ix, b: Ix) -> Ix {
        let (x, y) = (self.get(a).clone(), self.get(b).clone());
        if x.lo >= y.hi {
            return a;
        }
        if y.lo >= x.hi {
            return b;
        }
        let same = self.both(a, b);
        self.intern(Int::Max(a, b), (x.lo.max(y.lo), x.hi.max(y.hi)), gcd(x.multiple, y.multiple), same)
    }

    /// `a` where `cond` holds, `b` elsewhere.
    pub fn select(&mut self, cond: Ix, a: Ix, b: Ix) -> Ix {
        match self.constant(cond) {
            Some(0) => return b,
            Some(_) => return a,
            None if a == b => return a,
            None => {}
        }
        let (x, y) = (self.get(a).clone(), self.get(b).clone());
        let same = self.both(a, b).min(self.get(cond).same_for);
        let range = (x.lo.min(y.lo), x.hi.max(y.hi));
        self.intern(Int::Select(cond, a, b), range, gcd(x.multiple, y.multiple), same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_cancel() {
        let mut e = Exprs::default();
        let thread = e.leaf(Int::Thread, 0, 255, 1, Scope::Thread);
        let block = e.leaf(Int::Block(0), 0, 1 << 20, 1, Scope::Block);
        let (low, high) = (e.rem(thread, 32), e.div(thread, 32));
        let n = e.int(32);
        let scaled = e.mul(high, n);
        let back = e.add(scaled, low);
        assert_eq!(e.div(back, 32), high);
        assert_eq!(e.rem(back, 32), low);
        let tile = e.int(128);
        let start = e.mul(block, tile);
        let row = e.add(start, low);
        assert_eq!(e.get(start).multiple, 128);
        assert_eq!(e.rem(row, 128), low);
        assert_eq!(e.div(row, 128), block);
        let limit = e.int(32);
        let inside = e.lt(low, limit);
        assert_eq!(e.constant(inside), Some(1));
    }

    #[test]
    fn counters_wrap_around() {
        let mut e = Exprs::default();
        let slot = e.leaf(Int::Var(0), 0, 12, 1, Scope::Warp);
        let round = e.leaf(Int::Var(1), 0, 1 << 20, 1, Scope::Warp);
        let slots = e.int(13);
        let passed = e.mul(round, slots);
        let phase = e.add(passed, slot);
        assert_eq!((e.rem(phase, 13), e.div(phase, 13)), (slot, round));
        for by in -13..=13 {
            let more = e.int(by);
            let at = e.add(phase, more);
            let (rest, whole) = (e.rem(at, 13), e.div(at, 13));
            assert!(!matches!(e.get(rest).int, Int::Rem(..)) && !matches!(e.get(whole).int, Int::Div(..)));
            assert!(e.get(rest).lo == 0 && e.get(rest).hi == 12, "{by}");
            for (s, r) in [(0, 0), (1, 4), (5, 1), (11, 7), (12, 2)] {
                let value = |at| value(&e, at, &[s, r]);
                let wanted = s + 13 * r + by;
                assert_eq!((value(rest), value(whole)), (wanted.rem_euclid(13), wanted.div_euclid(13)));
            }
        }
        // Bits of a power of two.
        let (four, one) = (e.leaf(Int::Var(2), 0, 3, 1, Scope::Warp), e.int(1));
        let next = e.add(four, one);
        let next = e.rem(next, 4);
        assert!(matches!(e.get(next).int, Int::Rem(..)));
    }

    /// The value of an expression of these variables.
    fn value(e: &Exprs, at: Ix, vars: &[i64]) -> i64 {
        let of = |at| value(e, at, vars);
        match e.get(at).int {
            Int::Const(n) => n,
            Int::Var(id) => vars[id as usize],
            Int::Add(a, b) => of(a) + of(b),
            Int::Mul(a, b) => of(a) * of(b),
            Int::Lt(a, b) => i64::from(of(a) < of(b)),
            Int::Eq(a, b) => i64::from(of(a) == of(b)),
            Int::Not(a) => i64::from(of(a) == 0),
            Int::Select(cond, a, b) => of(if of(cond) != 0 { a } else { b }),
            ref other => panic!("{other:?}"),
        }
    }

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
