//! Quotients and remainders, by sizes, of numbers that grow by 1 in each iteration of a loop, such as the column, the row and the
//! image of the next tile. A division by a size takes as long as some thirty additions, so they are counted: they are computed before
//! the loop, and the next ones at the end of each iteration.

use super::Lower;
use super::dead_variables::reads;
use super::strength_reduction::Loop;
use crate::thread::index::{Int, Ix};
use crate::thread::{Id, Op, Stmt};

/// A loop whose body is being lowered, and the divisions in the body.
#[derive(Default)]
pub(super) struct CountedLoop {
    induction: Loop,
    divisions: Vec<Division>,
}

/// A number that is divided by a size.
#[derive(Clone, Copy)]
struct Division {
    /// The number, and its value in the first iteration.
    dividend: Ix,
    start: Ix,
    divisor: Ix,
    remainder: Counter,
    quotient: Counter,
    /// Does the body read the quotient, or only divide it?
    reads_quotient: bool,
}

/// A variable that is counted.
#[derive(Clone, Copy)]
struct Counter {
    id: Id,
    at: Ix,
    /// Its value in the first iteration.
    first: Ix,
}

impl Lower<'_> {
    /// Lowers the body of a loop, which begins at `start`. Returns the statements before the loop, and the body.
    pub(super) fn counting<E>(
        &mut self,
        var: Id,
        start: Ix,
        body: impl FnOnce(&mut Self) -> Result<Vec<Stmt>, E>,
    ) -> Result<(Vec<Stmt>, Vec<Stmt>), E> {
        let induction = self.looped(var, start);
        self.counted.push(CountedLoop { induction, divisions: Vec::new() });
        let made = body(self);
        let mut divisions = self.counted.pop().map_or_else(Vec::new, |counted| counted.divisions);
        let mut body = made?;
        for division in &mut divisions {
            division.reads_quotient =
                body.iter().any(|stmt| reads(&self.kernel.exprs, stmt, division.quotient.id));
        }
        let name = self.kernel.vars[var as usize].name.clone();
        let (mut before, mut after, mut names) = (Vec::new(), Vec::new(), 0..);
        for division in &divisions {
            let counters = [Some(division.remainder), division.reads_quotient.then_some(division.quotient)];
            for (counter, number) in counters.into_iter().flatten().zip(&mut names) {
                self.kernel.vars[counter.id as usize].name = format!("{name}_{number}");
                before.push(self.stmt(Op::Let(counter.id, counter.first)));
            }
            if !division.reads_quotient {
                // No statement sets it.
                self.kernel.vars[division.quotient.id as usize].wide = false;
            }
            if !divisions.iter().any(|lower| lower.quotient.at == division.dividend) {
                after.push(self.next_division(&divisions, division));
            }
        }
        if !divisions.is_empty() {
            before.insert(0, self.stmt(Op::Comment(format!("quotients and remainders of {name}"))));
            after.insert(0, self.stmt(Op::Comment("the next ones".to_owned())));
        }
        body.extend(after);
        Ok((before, body))
    }

    /// Adds 1 to a dividend: to its remainder, which is 0 again where it would be the divisor, and then to its quotient.
    fn next_division(&mut self, divisions: &[Division], division: &Division) -> Stmt {
        let (zero, one) = (self.int(0), self.int(1));
        let next = self.exprs().add(division.remainder.at, one);
        let cond = self.exprs().eq(next, division.divisor);
        let mut then = vec![self.stmt(Op::Set(division.remainder.id, zero))];
        if division.reads_quotient {
            let next = self.exprs().add(division.quotient.at, one);
            then.push(self.stmt(Op::Set(division.quotient.id, next)));
        }
        for higher in divisions.iter().filter(|higher| higher.dividend == division.quotient.at) {
            then.push(self.next_division(divisions, higher));
        }
        let other = vec![self.stmt(Op::Set(division.remainder.id, next))];
        self.stmt(Op::If { cond: cond.into(), then, other })
    }

    /// A quotient by a size, which is counted where the number grows by 1 with the iterations of a loop.
    pub(super) fn quotient(&mut self, of: Ix, by: Ix) -> Ix {
        // x / (m * n) = x / m / n
        if let Int::Mul(m, n) = self.kernel.exprs.get(by).int {
            let mut known = self.counted.iter().rev().flat_map(|counted| &counted.divisions);
            let known = known.find(|known| known.dividend == of && [m, n].contains(&known.divisor)).copied();
            if let Some(lower) = known {
                return self.quotient(lower.quotient.at, if lower.divisor == m { n } else { m });
            }
        }
        let division = self.division(of, by);
        division.map_or_else(|| self.exprs().quotient(of, by), |division| division.quotient.at)
    }

    /// A remainder by a size; see [`Lower::quotient`].
    pub(super) fn remainder(&mut self, of: Ix, by: Ix) -> Ix {
        let division = self.division(of, by);
        division.map_or_else(|| self.exprs().remainder(of, by), |division| division.remainder.at)
    }

    /// A variable of the innermost loop is `of` in each iteration.
    pub(super) fn counts(&mut self, var: Id, of: Ix) {
        let Some(mut counted) = self.counted.pop() else { return };
        if let Some(grows) = self.induction(&counted.induction, of) {
            counted.induction.inductions.push((var, grows));
        }
        self.counted.push(counted);
    }

    /// The counters of a division.
    fn division(&mut self, of: Ix, by: Ix) -> Option<Division> {
        if self.kernel.exprs.constant(by).is_some() {
            return None;
        }
        for at in (0..self.counted.len()).rev() {
            let mut counted = std::mem::take(&mut self.counted[at]);
            let division = self.division_in(&mut counted, of, by);
            self.counted[at] = counted;
            if division.is_some() {
                return division;
            }
        }
        None
    }

    fn division_in(
        &mut self,
        CountedLoop { induction, divisions }: &mut CountedLoop,
        of: Ix,
        by: Ix,
    ) -> Option<Division> {
        if let Some(known) = divisions.iter().find(|known| (known.dividend, known.divisor) == (of, by)) {
            return Some(*known);
        }
        let size = self.induction(induction, by)?;
        if self.kernel.exprs.constant(size.step) != Some(0) {
            return None;
        }
        let start = match divisions.iter().find(|lower| lower.quotient.at == of).copied() {
            Some(lower) => self.exprs().quotient(lower.start, lower.divisor),
            None => {
                let number = self.induction(induction, of)?;
                if self.kernel.exprs.constant(number.step) != Some(1) {
                    return None;
                }
                number.start
            }
        };
        let remainders = [of, start].map(|of| self.exprs().remainder(of, by));
        let quotients = [of, start].map(|of| self.exprs().quotient(of, by));
        let [remainder, quotient] =
            [remainders, quotients].map(|[value, first]| self.division_counter(value, first));
        let division =
            Division { dividend: of, start, divisor: by, remainder, quotient, reads_quotient: false };
        divisions.push(division);
        Some(division)
    }

    /// A variable with the range of `value`, which is `first` in the first iteration, and one more after the last.
    fn division_counter(&mut self, value: Ix, first: Ix) -> Counter {
        let next = self.exprs().add(value, 1);
        let is_wide = [value, first, next].into_iter().any(|at| !self.kernel.exprs.get(at).is_narrow());
        let id = self.var("division", is_wide);
        self.kernel.vars[id as usize].mutable = true;
        let known = self.kernel.exprs.get(value).clone();
        let at = self.exprs().leaf(Int::Var(id), known.lo, known.hi, 1, known.same_for);
        Counter { id, at, first }
    }
}
