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

/// A number that is divided by a size.
#[derive(Clone, Copy)]
struct Digit {
    /// The number, and its value in the first iteration.
    of: Ix,
    start: Ix,
    by: Ix,
    rest: Counter,
    quotient: Counter,
    /// Does the body read the quotient, or only digits of it?
    has_quotient: bool,
}

/// A variable that is counted.
#[derive(Clone, Copy)]
struct Counter {
    id: Id,
    at: Ix,
}

impl Lower<'_> {
    /// Lowers the body of a loop, which begins at `start`. Returns the statements before the loop, and the body.
    pub(super) fn counting<E>(
        &mut self,
        var: Id,
        start: Ix,
        body: impl FnOnce(&mut Self) -> Result<Vec<Stmt>, E>,
    ) -> Result<(Vec<Stmt>, Vec<Stmt>), E> {
        let looped = self.looped(var, start);
        self.counted.push(Counted { looped, digits: Vec::new() });
        let made = body(self);
        let mut digits = self.counted.pop().map_or_else(Vec::new, |counted| counted.digits);
        let mut body = made?;
        for digit in &mut digits {
            digit.has_quotient = body.iter().any(|stmt| reads(&self.kernel.exprs, stmt, digit.quotient.id));
        }
        let name = self.kernel.vars[var as usize].name.clone();
        let (mut before, mut after, mut names) = (Vec::new(), Vec::new(), 0..);
        for digit in &digits {
            let rest = self.exprs().remainder(digit.start, digit.by);
            let quotient = self.exprs().quotient(digit.start, digit.by);
            let first = [Some((digit.rest, rest)), digit.has_quotient.then_some((digit.quotient, quotient))];
            for ((counter, first), number) in first.into_iter().flatten().zip(&mut names) {
                self.kernel.vars[counter.id as usize].name = format!("{name}_{number}");
                before.push(self.stmt(Op::Let(counter.id, first)));
            }
            if !digit.has_quotient {
                // It is given no value.
                self.kernel.vars[digit.quotient.id as usize].wide = false;
            }
            if !digits.iter().any(|lower| lower.quotient.at == digit.of) {
                after.push(self.next_digit(&digits, digit));
            }
        }
        if !digits.is_empty() {
            before.insert(0, self.stmt(Op::Comment(format!("digits of {name}"))));
            after.insert(0, self.stmt(Op::Comment("the next digits".to_owned())));
        }
        body.extend(after);
        Ok((before, body))
    }

    /// Adds 1 to a digit. After the last one it is 0 again, and 1 is added to the quotient.
    fn next_digit(&mut self, digits: &[Digit], digit: &Digit) -> Stmt {
        let (zero, one) = (self.int(0), self.int(1));
        let next = self.exprs().add(digit.rest.at, one);
        let cond = self.exprs().eq(next, digit.by);
        let mut then = vec![self.stmt(Op::Set(digit.rest.id, zero))];
        if digit.has_quotient {
            let next = self.exprs().add(digit.quotient.at, one);
            then.push(self.stmt(Op::Set(digit.quotient.id, next)));
        }
        for higher in digits.iter().filter(|higher| higher.of == digit.quotient.at) {
            then.push(self.next_digit(digits, higher));
        }
        let other = vec![self.stmt(Op::Set(digit.rest.id, next))];
        self.stmt(Op::If { cond, then, other })
    }

    /// A quotient by a size, or a digit of it.
    pub(super) fn quotient(&mut self, of: Ix, by: Ix) -> Ix {
        // x / (m * n) = x / m / n
        if let Int::Mul(m, n) = self.kernel.exprs.get(by).int {
            let mut known = self.counted.iter().rev().flat_map(|counted| &counted.digits);
            let known = known.find(|known| known.of == of && [m, n].contains(&known.by)).copied();
            if let Some(lower) = known {
                return self.quotient(lower.quotient.at, if lower.by == m { n } else { m });
            }
        }
        let digit = self.digit(of, by);
        digit.map_or_else(|| self.exprs().quotient(of, by), |digit| digit.quotient.at)
    }

    /// A remainder by a size.
    pub(super) fn remainder(&mut self, of: Ix, by: Ix) -> Ix {
        let digit = self.digit(of, by);
        digit.map_or_else(|| self.exprs().remainder(of, by), |digit| digit.rest.at)
    }

    /// A variable of the innermost loop is `of` in each iteration.
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

    fn digit_in(&mut self, Counted { looped, digits }: &mut Counted, of: Ix, by: Ix) -> Option<Digit> {
        if let Some(known) = digits.iter().find(|known| (known.of, known.by) == (of, by)) {
            return Some(*known);
        }
        let size = self.induction(looped, by)?;
        if self.kernel.exprs.constant(size.step) != Some(0) {
            return None;
        }
        let start = match digits.iter().find(|lower| lower.quotient.at == of).copied() {
            Some(lower) => self.exprs().quotient(lower.start, lower.by),
            None => {
                let number = self.induction(looped, of)?;
                if self.kernel.exprs.constant(number.step) != Some(1) {
                    return None;
                }
                number.start
            }
        };
        let divided = [self.exprs().remainder(of, by), self.exprs().quotient(of, by)];
        let [rest, quotient] = divided.map(|divided| {
            let known = self.kernel.exprs.get(divided).clone();
            let id = self.var("digit", !known.is_narrow());
            self.kernel.vars[id as usize].mutable = true;
            let at = self.exprs().leaf(Int::Var(id), known.lo, known.hi, 1, known.same_for);
            Counter { id, at }
        });
        let digit = Digit { of, start, by, rest, quotient, has_quotient: false };
        digits.push(digit);
        Some(digit)
    }
}
