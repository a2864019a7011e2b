//! Faults of integers: their arithmetic, ranges and induction variables.

use super::{Fault, fault};
use crate::draw::Kind;

const INDEX: &str = "codegen/program/src/thread/index.rs";
const DIVISION: &str = "codegen/program/src/thread/index/division.rs";
const CHOICE: &str = "codegen/program/src/thread/index/choice.rs";
const LOWER: &str = "codegen/passes/src/lower/mod.rs";
const STRENGTH_REDUCTION: &str = "codegen/passes/src/lower/strength_reduction.rs";
const NUMBERING: &str = "codegen/passes/src/lower/numbering.rs";

pub(super) const FAULTS: &[Fault] = &[
    fault(DIVISION, "a negative quotient is rounded up", "self.int(-(up / n)));", "self.int(1 - up / n));")
        .by(Kind::Whole, 0),
    fault(
        DIVISION,
        "a remainder may be as large as the divisor",
        "(known.lo >= 0 && known.hi < n).then_some",
        "(known.lo >= 0 && known.hi <= n).then_some",
    ),
    fault(
        INDEX,
        "a product is distributed over one summand only",
        "let (x, y) = (self.mul(x, b), self.mul(y, b));",
        "let x = self.mul(x, b);",
    ),
    fault(
        DIVISION,
        "divisors of nested divisions are added",
        "return self.div(x, m.saturating_mul(n));",
        "return self.div(x, m.saturating_add(n));",
    ),
    fault(CHOICE, "a minimum is a maximum", "self.intern(Int::Min(a, b), ", "self.intern(Int::Max(a, b), "),
    fault(
        DIVISION,
        "a remainder drops even terms",
        "terms.retain(|&term| self.get(term).multiple % n != 0);",
        "terms.retain(|&term| self.get(term).multiple % 2 != 0);",
    ),
    fault(
        CHOICE,
        "a comparison is folded although both can be equal",
        "if x.hi < y.lo {",
        "if x.hi <= y.lo {",
    ),
    fault(NUMBERING, "digits of a nested mode are not divided off", "rest = self.exprs().div(rest, n);", ""),
    fault(
        LOWER,
        "extents are rounded down to tiles",
        "self.exprs().add(symbol, i64::from(over) - 1)",
        "self.exprs().add(symbol, 0)",
    ),
    fault(
        LOWER,
        "a digit has a modulus one too large",
        "Some(n) => self.exprs().rem(submode, *n),",
        "Some(n) => self.exprs().rem(submode, *n + 1),",
    ),
    fault(
        STRENGTH_REDUCTION,
        "a strength-reduced address is not incremented",
        "after.push(Stmt { site: stmt.site, op: Op::Set(id, next) });",
        "let _ = next;",
    ),
    fault(
        STRENGTH_REDUCTION,
        "an address is incremented by the first of two steps",
        "step: e.add(a.step, b.step), multiplies }",
        "step: a.step, multiplies }",
    ),
];
