//! Conditions, 1 or 0, and choices: minima, maxima, one of two.

use super::{Exprs, Int, Ix, Operand, gcd};

impl Exprs {
    /// `a < b`: 1 or 0.
    pub fn lt(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
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

    /// `0 <= at < end`: 1 or 0.
    pub fn within(&mut self, at: Ix, end: Ix) -> Ix {
        let (x, y) = (self.get(at), self.get(end));
        if x.hi < 0 || x.lo >= y.hi {
            return self.int(0);
        }
        let (is_signed, has_signed_end) = (x.lo < 0, y.lo < 0);
        if !is_signed {
            return self.lt(at, end);
        }
        // An expression with a magnitude keeps both comparisons.
        if has_signed_end || x.lo > i64::from(i32::MIN) {
            let (below, zero) = (self.lt(at, end), self.int(0));
            let negative = self.lt(at, zero);
            let inside = self.not(negative);
            return self.all(below, inside);
        }
        let same = self.both(at, end);
        self.intern(Int::Within(at, end), (0, 1), 1, same)
    }

    /// `a == b`: 1 or 0.
    pub fn eq(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
        let (x, y) = (self.get(a), self.get(b));
        if a == b {
            return self.int(1);
        }
        if x.hi < y.lo || y.hi < x.lo {
            return self.int(0);
        }
        // A constant summand goes to the other side: `warp == 8`, not `warp - 8 == 0`.
        if let (&Int::Add(of, more), Some(wanted)) = (&x.int, self.constant(b))
            && let Some(wanted) = self.constant(more).and_then(|more| wanted.checked_sub(more))
        {
            let wanted = self.int(wanted);
            return self.eq(of, wanted);
        }
        let same = self.both(a, b);
        self.intern(Int::Eq(a, b), (0, 1), 1, same)
    }

    /// Both are true.
    pub fn all(&mut self, a: Ix, b: Ix) -> Ix {
        match (self.constant(a), self.constant(b)) {
            (Some(0), _) | (_, Some(0)) => return self.int(0),
            (Some(_), _) => return b,
            (_, Some(_)) => return a,
            _ => {}
        }
        // Conditions that `a` requires already are not tested twice.
        let mut known = Vec::new();
        self.conjuncts(a, &mut known);
        let mut required = Vec::new();
        self.conjuncts(b, &mut required);
        if required.iter().any(|term| known.contains(term)) {
            required.retain(|term| !known.contains(term));
            return required.into_iter().fold(a, |all, term| self.all(all, term));
        }
        let same = self.both(a, b);
        self.intern(Int::All(a, b), (0, 1), 1, same)
    }

    /// The conditions that `of` requires, all of them.
    fn conjuncts(&self, of: Ix, into: &mut Vec<Ix>) {
        match self.get(of).int {
            Int::All(a, b) => {
                self.conjuncts(a, into);
                self.conjuncts(b, into);
            }
            _ => into.push(of),
        }
    }

    /// At least one is true.
    pub fn either(&mut self, a: Ix, b: Ix) -> Ix {
        let (neither, b) = (self.not(a), self.not(b));
        let neither = self.all(neither, b);
        self.not(neither)
    }

    /// The two conditions that it states to be false.
    pub(crate) fn neither(&self, of: &Int) -> Option<(Ix, Ix)> {
        let Int::All(a, b) = *of else { return None };
        match (&self.get(a).int, &self.get(b).int) {
            (Int::Not(a), Int::Not(b)) => Some((*a, *b)),
            _ => None,
        }
    }

    /// It is false.
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
    pub fn min(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
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
    pub fn max(&mut self, a: Ix, b: impl Operand) -> Ix {
        let b = b.within(self);
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

    /// `at`, from 0 on, where it is less than `end`; else as far from the beginning as it is from the end, and at most `last`.
    pub fn wrap(&mut self, at: Ix, end: Ix, last: Ix) -> Ix {
        let (x, y) = (self.get(at).clone(), self.get(end).clone());
        if y.lo > x.hi {
            return at;
        }
        let multiple = gcd(x.multiple, gcd(y.multiple, self.get(last).multiple));
        let same = self.both(at, end).min(self.get(last).same_for);
        self.intern(Int::Wrap(at, end, last), (x.lo.min(0), x.hi), multiple, same)
    }

    /// `a` where `cond` is true, `b` elsewhere.
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
