//! Checks that 32-bit integers fit their values, at any size: by ranges, without running the program.

use std::fmt;

use super::visit::Use;
use super::{Id, Interval, Kernel, Op, Param, Stmt, Val};
use crate::thread::index::{Int, Ix};
use crate::values::elem::Elem;

/// An integer of 32 bits whose range is wider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooNarrow {
    /// The statement's site.
    pub site: Id,
    what: String,
    range: Interval,
}

impl fmt::Display for TooNarrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { lo, hi } = self.range;
        write!(f, "{} has 32 bits, and its value can be {lo} to {hi}", self.what)
    }
}

impl Kernel {
    /// Checks that the values of every 32-bit variable, parameter and operand fit.
    pub fn check_widths(&self) -> Result<(), TooNarrow> {
        let refuse = |what: String, range| Err(TooNarrow { site: 0, what, range });
        for known in self.exprs.iter() {
            let range = Interval { lo: known.lo.into(), hi: known.hi.into() };
            match known.int {
                Int::Param(id) => match &self.params[id as usize] {
                    Param::Int { wide: false, name, .. } if !fits(range) => {
                        return refuse(format!("the parameter `{name}`"), range);
                    }
                    _ => {}
                },
                Int::Thread | Int::Block(_) | Int::Grid(_) | Int::ClusterRank if !fits(range) => {
                    return refuse("an index of threads or blocks".to_owned(), range);
                }
                _ => {}
            }
        }
        self.check_statements(&self.body)
    }

    fn check_statements(&self, body: &[Stmt]) -> Result<(), TooNarrow> {
        for stmt in body {
            let refuse = |(what, range)| Err(TooNarrow { site: stmt.site, what, range });
            self.narrow_variable(&stmt.op).map_or(Ok(()), refuse)?;
            let mut wrong = None;
            stmt.op.each_use(&mut |used| {
                if let Use::Operand(at) = used
                    && !fits(self.range(at))
                {
                    wrong.get_or_insert(("an operand".to_owned(), self.range(at)));
                }
            });
            wrong.map_or(Ok(()), refuse)?;
            for inner in stmt.op.blocks() {
                self.check_statements(inner)?;
            }
        }
        Ok(())
    }

    /// A variable of 32 bits that a statement sets to more.
    fn narrow_variable(&self, op: &Op) -> Option<(String, Interval)> {
        let (var, range) = match op {
            Op::Let(var, value) | Op::Set(var, value) => (*var, self.range(*value)),
            Op::Take(var, value) => (*var, self.taken(value)),
            Op::For { var, from, to, step, .. } => {
                let (from, to) = (self.range(*from), self.range(*to));
                // The first value that is not below the end is computed too.
                let last = to.hi.saturating_add(i128::from(*step) - 1);
                (*var, Interval { lo: from.lo, hi: from.hi.max(last) })
            }
            _ => return None,
        };
        let known = &self.vars[var as usize];
        (!known.wide && !fits(range)).then(|| (format!("the variable `{}`", known.name), range))
    }

    /// The range of a value that becomes an integer: a fraction is truncated to an `i32`.
    fn taken(&self, value: &Val) -> Interval {
        let elem = self.type_of(value);
        if elem.is_float() { Interval::of(Elem::I32) } else { self.interval_of(value) }
    }

    fn range(&self, at: Ix) -> Interval {
        let known = self.exprs.get(at);
        Interval { lo: known.lo.into(), hi: known.hi.into() }
    }
}

fn fits(range: Interval) -> bool {
    range.is_within(Interval::of(Elem::I32))
}
