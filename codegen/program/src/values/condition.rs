//! Conditions on integers of a kernel: in a user's `if`, and as bounds of loops.

use crate::values::affine::{Affine, Coord};
use crate::values::expr::Expr;
use tilewright_layout::{Symbol, Value};

/// A condition.
///
/// ```
/// use tilewright_program::affine::Coord;
/// use tilewright_program::condition::Test;
/// let first = Test::Equal(Coord::Block(0).into(), 0.into());
/// assert!(first.eval(&|_| 0, &|_| false) && !first.eval(&|_| 1, &|_| false));
/// assert!(!first.per_thread());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// The first is smaller.
    Less(Affine, Affine),
    /// Both are the same number.
    Equal(Affine, Affine),
    /// A condition between numbers: of scalar arguments, and of integers.
    IsTrue(Expr),
    /// The test is false.
    Not(Box<Test>),
    /// Both are true.
    Both(Box<[Test; 2]>),
    /// At least one is true.
    Either(Box<[Test; 2]>),
}

impl Test {
    /// `a < b`
    pub fn less(a: impl Into<Affine>, b: impl Into<Affine>) -> Test {
        Test::Less(a.into(), b.into())
    }

    /// The sizes that it compares with constants, each with the least and the greatest value for which it may be true.
    ///
    /// ```
    /// # use tilewright_program::{affine::Affine, condition::Test};
    /// # use tilewright_layout::Value;
    /// let n = Value::symbol("N");
    /// assert_eq!(Test::less(n, 100).limits(), [(n, None, Some(99))]);
    /// assert_eq!(Test::less(n, 100).negated().limits(), [(n, Some(100), None)]);
    /// assert_eq!(Test::Equal(n.into(), 64.into()).limits(), [(n, None, Some(64)), (n, Some(64), None)]);
    /// ```
    pub fn limits(&self) -> Vec<(Value, Option<i64>, Option<i64>)> {
        let none_above = |less: &Affine, more: &Affine, slack: i64| {
            let difference = less.plus(more, -1)?;
            let [(coord, times)] = &difference.terms[..] else { return None };
            let size = Affine::from(coord.clone()).size()?;
            match times {
                1 => Some((size, None, Some(slack.checked_sub(difference.constant)?))),
                -1 => Some((size, Some(difference.constant.checked_sub(slack)?), None)),
                _ => None,
            }
        };
        match self {
            Test::Less(a, b) => none_above(a, b, -1).into_iter().collect(),
            Test::Not(test) => match &**test {
                Test::Less(a, b) => none_above(b, a, 0).into_iter().collect(),
                _ => Vec::new(),
            },
            Test::Equal(a, b) => none_above(a, b, 0).into_iter().chain(none_above(b, a, 0)).collect(),
            Test::Both(tests) => tests.iter().flat_map(Test::limits).collect(),
            _ => Vec::new(),
        }
    }

    /// Is it true where all sizes are within its limits, and only there? Each size is at least 1.
    pub fn is_limit(&self) -> bool {
        let limits = self.limits();
        let counted = match self {
            Test::Both(tests) => tests.iter().all(Test::is_limit),
            Test::Equal(..) => limits.len() == 2,
            _ => limits.len() == 1,
        };
        counted
            && limits.iter().all(|(_, least, most)| {
                least.is_none_or(|least| least > 0) && most.is_none_or(|most| most > 0)
            })
    }

    /// The negation; of a negation its operand.
    pub fn negated(self) -> Test {
        match self {
            Test::Not(inner) => *inner,
            test => Test::Not(Box::new(test)),
        }
    }

    /// The direct subtests.
    pub fn inside(&self) -> &[Test] {
        match self {
            Test::Not(inner) => std::slice::from_ref(inner),
            Test::Both(both) | Test::Either(both) => &both[..],
            Test::Less(..) | Test::Equal(..) | Test::IsTrue(_) => &[],
        }
    }

    /// The integers in it, also in its subtests and in scalar conditions.
    pub fn integers(&self) -> Vec<&Affine> {
        let own = match self {
            Test::Less(a, b) | Test::Equal(a, b) => vec![a, b],
            Test::IsTrue(expr) => expr.integers(),
            _ => Vec::new(),
        };
        own.into_iter().chain(self.inside().iter().flat_map(Test::integers)).collect()
    }

    /// All integers in it, also in scalar conditions, mutably.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut Affine)) {
        match self {
            Test::Less(a, b) | Test::Equal(a, b) => {
                f(a);
                f(b);
            }
            Test::IsTrue(expr) => expr.each_integer_mut(f),
            Test::Not(inner) => inner.each_mut(f),
            Test::Both(both) | Test::Either(both) => both.iter_mut().for_each(|test| test.each_mut(f)),
        }
    }

    /// The scalar conditions in it.
    pub fn scalars(&self) -> Vec<&Expr> {
        let own = if let Test::IsTrue(expr) = self { Some(expr) } else { None };
        own.into_iter().chain(self.inside().iter().flat_map(Test::scalars)).collect()
    }

    /// The condition, if it is one of scalar arguments alone: the same for the whole launch.
    pub fn on_arguments(&self) -> Option<&Expr> {
        match self {
            Test::IsTrue(expr) if expr.integers().is_empty() => Some(expr),
            _ => None,
        }
    }

    /// Does any part of its integers satisfy this predicate?
    pub fn any(&self, test: &dyn Fn(&Coord) -> bool) -> bool {
        self.integers().iter().any(|at| at.any(test))
    }

    /// Can it diverge from thread to thread?
    pub fn per_thread(&self) -> bool {
        self.integers().iter().any(|at| at.per_thread())
    }

    /// Is it true for these coordinates and scalar arguments?
    pub fn eval(&self, lookup: &dyn Fn(&Coord) -> i64, condition: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            Test::Less(a, b) => a.eval(lookup) < b.eval(lookup),
            Test::Equal(a, b) => a.eval(lookup) == b.eval(lookup),
            Test::IsTrue(expr) => condition(expr),
            Test::Not(inner) => !inner.eval(lookup, condition),
            Test::Both(both) => both.iter().all(|test| test.eval(lookup, condition)),
            Test::Either(both) => both.iter().any(|test| test.eval(lookup, condition)),
        }
    }
}

/// A requirement on the sizes of a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Require {
    /// The condition, on sizes alone.
    pub test: Test,
    /// The condition in words; of a computed extent how it is computed.
    pub text: String,
    /// The extent that it is about, where it says how one is computed.
    pub of: Option<Symbol>,
}

impl Require {
    /// The size that a number must divide, and the number, if it is such a condition.
    pub fn divides(&self) -> Option<(Value, i64)> {
        let Test::Equal(rest, right) = &self.test else { return None };
        if right.constant() != Some(0) {
            return None;
        }
        match (&rest.terms[..], rest.constant) {
            ([(Coord::Submode { of, over: 1, extent: Some(n) }, 1)], 0) => Some((of.size()?, *n)),
            _ => None,
        }
    }
}
