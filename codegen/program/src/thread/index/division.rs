//! Quotients and remainders by positive numbers: their simplification, and counters that wrap around.

use super::{Exprs, Int, Ix, gcd};

/// A counter that wraps around; see [`Exprs::wrapping`].
struct Wrapping {
    whole: Ix,
    counter: Ix,
    by: i64,
    wraps: Ix,
}

impl Exprs {
    /// Splits `at = whole + rest` with `n` dividing `whole` and `0 <= rest < n`, if that can be proven.
    pub fn split(&mut self, at: Ix, n: i64) -> Option<(Ix, Ix)> {
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
            Int::Rem(x, m) => {
                let m = self.constant(m).filter(|m| m % n == 0)?;
                let x = self.exact(x, n)?;
                Some(self.rem(x, m / n))
            }
            _ => None,
        }
    }

    /// `a` plus a multiple of `n` that makes it nonnegative, and that multiple; `None` if it already is.
    /// Hardware division truncates, layouts need floor division.
    fn lifted(&mut self, a: Ix, n: i64) -> Option<(Ix, i64)> {
        /// Coordinates and strides have 32 bits: no value is below this.
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
        if self.constant(a) == Some(0) {
            return a;
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
        if self.constant(a) == Some(0) {
            return a;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::scope::Scope;

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
        let phase_number = e.leaf(Int::Var(1), 0, 1 << 20, 1, Scope::Warp);
        let slots = e.int(13);
        let passed = e.mul(phase_number, slots);
        let phase = e.add(passed, slot);
        assert_eq!((e.rem(phase, 13), e.div(phase, 13)), (slot, phase_number));
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
}
