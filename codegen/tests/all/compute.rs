//! Integer expressions as CUDA C computes them.

use tilewright_codegen::index::{Int, Ix};

/// The result of an operation on these operands; the caller handles leaves.
pub(crate) fn compute(int: &Int, value: &dyn Fn(Ix) -> i64) -> i64 {
    match *int {
        Int::Const(n) => n,
        Int::Add(a, b) => value(a) + value(b),
        Int::Sub(a, b) => value(a) - value(b),
        Int::Mul(a, b) => value(a) * value(b),
        Int::Div(a, b) => value(a) / value(b),
        Int::Rem(a, b) => value(a) % value(b),
        Int::And(a, b) => value(a) & value(b),
        Int::Xor(a, b) => value(a) ^ value(b),
        Int::Shl(a, b) => value(a) << value(b),
        Int::Min(a, b) => value(a).min(value(b)),
        Int::Max(a, b) => value(a).max(value(b)),
        Int::Lt(a, b) => i64::from(value(a) < value(b)),
        Int::Within(a, b) => i64::from((0..value(b)).contains(&value(a))),
        Int::Eq(a, b) => i64::from(value(a) == value(b)),
        Int::All(a, b) => i64::from(value(a) != 0 && value(b) != 0),
        Int::Not(a) => i64::from(value(a) == 0),
        Int::Select(c, a, b) => value(if value(c) != 0 { a } else { b }),
        Int::Wrap(at, end, _) if value(at) < value(end) => value(at),
        Int::Wrap(at, end, last) => (value(at) - value(end)).min(value(last)),
        Int::Var(_) | Int::Param(_) | Int::Thread | Int::Block(_) | Int::Grid(_) | Int::ClusterRank => {
            unreachable!("{int:?} is a leaf")
        }
    }
}
