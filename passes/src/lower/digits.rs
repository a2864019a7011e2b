//! Digits of numbers that grow by 1 in each iteration of a loop: their remainders and quotients by sizes, such as the column, the
//! row and the image of the next tile. A division by a size takes as long as some thirty additions, so digits are counted: they are
//! computed before the loop, and the next ones at the end of each iteration.

use super::Lower;
use super::dead_variables::reads;
use super::strength_reduction::Loop;
use crate::thread::index::{Int, Ix};
use crate::thread::{Id, Op, Stmt};

/// A loop whose body is being lowered, and the digits that the body reads.
#[derive(Default)]
pub(super) struct Counted {
    looped: Loop,
    digits: Vec<Digit>,
}

/// A number is divided by a size.
#[derive(Clone, Copy)]
struct Digit {
    /// The number, and its value in the first iteration.
    of: Ix,
    start: Ix,
    by: Ix,
    /// The variables of the remainder and of the quotient.
    rest: Ix,
    quotient: Ix,
}

impl Lower<'_> {
    /// The body of a loop, which begins at `start`. Returns the statements before it.
    pub(super) fn counting<E>(
        &mut self,
        var: Id,
        start: Ix,
        body: impl FnOnce(&mut Self) -> Result<Vec<Stmt>, E>,
    ) -> Result<(Vec<Stmt>, Vec<Stmt>), E> {
        let looped = self.looped(var, start);
        self.counted.push(Counted { looped, digits: Vec::new() });
        let made = body(self);
        let digits = self.counted.pop().map_or_else(Vec::new, |counted| counted.digits);
        let mut body = made?;
        let is_read = |lower: &Self, at: Ix| match lower.kernel.exprs.get(at).int {
            Int::Var(id) => body.iter().any(|stmt| reads(&lower.kernel.exprs, stmt, id)),
            _ => false,
        };
        let quotients: Vec<bool> = digits.iter().map(|digit| is_read(self, digit.quotient)).collect();
        let (mut before, mut after, mut names) = (Vec::new(), Vec::new(), 0..);
        for (digit, quotient) in digits.iter().zip(&quotients) {
            let rest = self.exprs().remainder(digit.start, digit.by);
            let carried = self.exprs().quotient(digit.start, digit.by);
            for (of, first) in
                [(digit.rest, rest)].into_iter().chain(quotient.then_some((digit.quotient, carried)))
            {
                let (Int::Var(id), Some(number)) = (self.kernel.exprs.get(of).int.clone(), names.next())
                else {
                    continue;
                };
                self.kernel.vars[id as usize].name =
                    format!("{}_{number}", self.kernel.vars[var as usize].name);
                before.push(self.stmt(Op::Let(id, first)));
            }
            if !digits.iter().any(|known| known.quotient == digit.of) {
                after.push(self.next_digit(&digits, &quotients, digit));
            }
        }
        if !before.is_empty() {
            before.insert(
                0,
                self.stmt(Op::Comment(format!("digits of {}", self.kernel.vars[var as usize].name))),
            );
            after.insert(0, self.stmt(Op::Comment("the next digits".to_owned())));
        }
        body.extend(after);
        Ok((before, body))
    }

    /// Adds 1 to a digit, and where it is the last one, to the quotient.
    fn next_digit(&mut self, digits: &[Digit], quotients: &[bool], digit: &Digit) -> Stmt {
        let (zero, one) = (self.int(0), self.int(1));
        let next = self.exprs().add(digit.rest, one);
        let cond = self.exprs().eq(next, digit.by);
        let set = |lower: &Self, of: Ix, to: Ix| match lower.kernel.exprs.get(of).int {
            Int::Var(id) => vec![lower.stmt(Op::Set(id, to))],
            _ => Vec::new(),
        };
        let mut then = set(self, digit.rest, zero);
        let is_read =
            digits.iter().zip(quotients).any(|(of, is_read)| *is_read && of.quotient == digit.quotient);
        if is_read {
            let next = self.exprs().add(digit.quotient, one);
            then.extend(set(self, digit.quotient, next));
        }
        for higher in digits.iter().filter(|higher| higher.of == digit.quotient) {
            then.push(self.next_digit(digits, quotients, higher));
        }
        let other = set(self, digit.rest, next);
        self.stmt(Op::If { cond, then, other })
    }

    /// A quotient by a size, or a digit of it.
    pub(super) fn quotient(&mut self, of: Ix, by: Ix) -> Ix {
        // x / (m * n) = x / m / n
        if let Int::Mul(m, n) = self.kernel.exprs.get(by).int {
            let known = self.counted.iter().rev().flat_map(|counted| &counted.digits);
            let known = known.copied().find(|known| known.of == of && [m, n].contains(&known.by));
            if let Some(lower) = known {
                return self.quotient(lower.quotient, if lower.by == m { n } else { m });
            }
        }
        let digit = self.digit(of, by);
        digit.map_or_else(|| self.exprs().quotient(of, by), |digit| digit.quotient)
    }

    /// A remainder by a size.
    pub(super) fn remainder(&mut self, of: Ix, by: Ix) -> Ix {
        let digit = self.digit(of, by);
        digit.map_or_else(|| self.exprs().remainder(of, by), |digit| digit.rest)
    }

    /// A variable that is `of` in an iteration.
    pub(super) fn counts(&mut self, var: Id, of: Ix) {
        let Some(mut counted) = self.counted.pop() else { return };
        if let Some(induction) = self.induction(&counted.looped, of) {
            counted.looped.inductions.push((var, induction));
        }
        self.counted.push(counted);
    }

    /// The digit of a number that grows by 1 with the iterations of a loop around.
    fn digit(&mut self, of: Ix, by: Ix) -> Option<Digit> {
        if self.kernel.exprs.constant(by).is_some() {
            return None;
        }
        for at in (0..self.counted.len()).rev() {
            let mut counted = std::mem::take(&mut self.counted[at]);
            let digit = self.digit_in(&mut counted, of, by);
            self.counted[at] = counted;
            if digit.is_some() {
                return digit;
            }
        }
        None
    }

    fn digit_in(&mut self, counted: &mut Counted, of: Ix, by: Ix) -> Option<Digit> {
        if let Some(known) = counted.digits.iter().find(|known| (known.of, known.by) == (of, by)) {
            return Some(*known);
        }
        let fixed = self.induction(&counted.looped, by)?;
        if self.kernel.exprs.constant(fixed.step) != Some(0) {
            return None;
        }
        let lower = counted.digits.iter().find(|lower| lower.quotient == of).copied();
        let start = match lower {
            Some(lower) => self.exprs().quotient(lower.start, lower.by),
            None => {
                let induction = self.induction(&counted.looped, of)?;
                if self.kernel.exprs.constant(induction.step) != Some(1) {
                    return None;
                }
                induction.start
            }
        };
        let whole = [self.exprs().remainder(of, by), self.exprs().quotient(of, by)];
        let [rest, quotient] = whole.map(|of| {
            let known = self.kernel.exprs.get(of).clone();
            let id = self.var("digit", !known.is_narrow());
            self.kernel.vars[id as usize].mutable = true;
            self.exprs().leaf(Int::Var(id), known.lo, known.hi, 1, known.same_for)
        });
        let digit = Digit { of, start, by, rest, quotient };
        counted.digits.push(digit);
        Some(digit)
    }
}
