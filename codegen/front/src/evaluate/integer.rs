//! Integers of the kernel, known while compiling, at launch, or at run time, under one arithmetic. Their
//! comparisons are conditions of `if`.

use tilewright_layout::Tuple;

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{Binary, Span, Unary};
use crate::source::problem::Problem;
use crate::thread::{Bin, Cmp, Un};
use crate::tile::verify;
use crate::tile::view::View;
use crate::tile::{self, Expr, Purpose};
use crate::values::affine::{Affine, Arith};
use crate::values::condition::Test;
use crate::values::elem::Elem;
use crate::values::number;
use crate::values::typing::{Scalar, Type};

/// Arithmetic on integers that are not all known while compiling. `None` if it overflows 64 bits, or
/// is no operation on integers.
pub(super) fn arithmetic(op: Binary, x: &Affine, y: &Affine) -> Option<Value> {
    let less = |a: &Affine, b: &Affine| match (a.constant(), b.constant()) {
        (Some(a), Some(b)) => Value::Bool(a < b),
        _ => Value::Test(Test::Less(a.clone(), b.clone())),
    };
    let equal = match (x.constant(), y.constant()) {
        (Some(a), Some(b)) => Value::Bool(a == b),
        _ => Value::Test(Test::Equal(x.clone(), y.clone())),
    };
    let with = match op {
        Binary::Add => return x.plus(y, 1).map(Value::Index),
        Binary::Sub => return x.plus(y, -1).map(Value::Index),
        Binary::Lt => return Some(less(x, y)),
        Binary::Gt => return Some(less(y, x)),
        Binary::Ge => return Some(opposite(less(x, y))),
        Binary::Le => return Some(opposite(less(y, x))),
        Binary::Eq => return Some(equal),
        Binary::Ne => return Some(opposite(equal)),
        Binary::Mul => Arith::Mul,
        Binary::Div => Arith::Div,
        Binary::Rem => Arith::Rem,
        Binary::Shl => {
            let by = u32::try_from(y.constant()?).ok().filter(|by| *by < 62)?;
            return x.times(1 << by).map(Value::Index);
        }
        _ => return None,
    };
    // A known divisor must be positive; others are checked once all ranges are known.
    if matches!(with, Arith::Div | Arith::Rem) && y.constant().is_some_and(|n| n < 1) {
        return None;
    }
    Affine::two(with, x, y).map(Value::Index)
}

fn opposite(of: Value) -> Value {
    match of {
        Value::Bool(holds) => Value::Bool(!holds),
        Value::Test(test) => Value::Test(test.negated()),
        other => other,
    }
}

/// Two conditions under `&&` or `||`, or `!` of one.
pub(super) fn logic(op: Binary, x: &Value, y: &Value) -> Option<Value> {
    // Operands known while compiling are folded.
    let known = match (x, y) {
        (Value::Bool(known), other) | (other, Value::Bool(known)) => Some((*known, other)),
        _ => None,
    };
    match (op, known) {
        (Binary::And, Some((false, _))) => return Some(Value::Bool(false)),
        (Binary::Or, Some((true, _))) => return Some(Value::Bool(true)),
        (Binary::And | Binary::Or, Some((_, other))) => return test(other).map(Value::Test),
        _ => {}
    }
    let both = || Some(Box::new([test(x)?, test(y)?]));
    Some(Value::Test(match op {
        Binary::And => Test::Both(both()?),
        Binary::Or => Test::Either(both()?),
        _ => return None,
    }))
}

/// A condition that is decided at run time.
pub(super) fn test(value: &Value) -> Option<Test> {
    match value {
        Value::Test(test) => Some(test.clone()),
        Value::Number(Scalar { expr, ty: Some(Type::Condition) }) if !reads_elements(expr) => {
            Some(Test::IsTrue(expr.clone()))
        }
        _ => None,
    }
}

/// A condition as its author would write it.
pub(super) fn text(test: &Test, program: &tile::Program) -> String {
    let one = |at: &Affine| crate::tile::verify::text(program, at).trim_matches('`').to_owned();
    let two = |sign: &str, both: &[Test; 2]| {
        let [a, b] = both.each_ref().map(|test| text(test, program));
        format!("{a} {sign} {b}")
    };
    match test {
        Test::Less(a, b) => format!("{} < {}", one(a), one(b)),
        Test::Equal(a, b) => format!("{} == {}", one(a), one(b)),
        Test::IsTrue(_) => "a condition on arguments".into(),
        Test::Not(inner) => match &**inner {
            Test::Less(a, b) => format!("{} >= {}", one(a), one(b)),
            Test::Equal(a, b) => format!("{} != {}", one(a), one(b)),
            inner => format!("!({})", text(inner, program)),
        },
        Test::Both(both) => two("&&", both),
        Test::Either(both) => two("||", both),
    }
}

/// Does a function depend on elements?
fn reads_elements(of: &Expr) -> bool {
    of.any(&|part| matches!(part, Expr::In(_) | Expr::Coord(..) | Expr::At(_)))
}

/// A condition on integers as one between elements.
pub(super) fn as_number(test: &Test) -> Scalar {
    fn expr(test: &Test) -> Expr {
        let index = |at: &Affine| match at.constant().map(i32::try_from) {
            Some(Ok(n)) => Expr::lit(n).cast(Elem::I32),
            Some(Err(_)) | None => Expr::Index(Box::new(at.clone())),
        };
        let compare = |how, a: &Affine, b: &Affine| Expr::Cmp(how, Box::new(index(a)), Box::new(index(b)));
        let two = |f, both: &[Test; 2]| Expr::Bin(f, Box::new(expr(&both[0])), Box::new(expr(&both[1])));
        match test {
            Test::Less(a, b) => compare(Cmp::Lt, a, b),
            Test::Equal(a, b) => compare(Cmp::Eq, a, b),
            Test::IsTrue(expr) => expr.clone(),
            Test::Not(inner) => Expr::Un(Un::Not, Box::new(expr(inner))),
            Test::Both(both) => two(Bin::And, both),
            Test::Either(both) => two(Bin::Or, both),
        }
    }
    Scalar { expr: expr(test), ty: Some(Type::Condition) }
}

/// An integer argument, or arithmetic on integer arguments, as an integer of the kernel: sums do not wrap.
/// Quotients among them are unsigned; signed quotients have been computed as integers.
fn of_scalars(of: &Expr, program: &tile::Program) -> Option<Affine> {
    let wide = |id: &u32| program.scalars.get(*id as usize).is_some_and(|of| of.elem.bits() > 32);
    // A 64-bit integer is clamped where it is a coordinate, so arithmetic on it keeps its own type.
    match of {
        Expr::Scalar(_) => {}
        _ if !program.scalars.iter().any(|of| of.elem.bits() > 32) => {}
        of if of.any(&|part| matches!(part, Expr::Scalar(id) if wide(id))) => return None,
        _ => {}
    }
    affine(of, program)
}

fn affine(of: &Expr, program: &tile::Program) -> Option<Affine> {
    let inner = |x: &Expr| affine(x, program);
    match of {
        Expr::Scalar(id) if program.scalars.get(*id as usize)?.elem.is_integer() => {
            Some(crate::values::affine::Coord::Scalar(*id).into())
        }
        Expr::Index(at) => Some((**at).clone()),
        Expr::Size(size) => Some((*size).into()),
        Expr::Lit(number) => number.int().and_then(|n| i64::try_from(n).ok()).map(Affine::from),
        Expr::Cast(to, x) if !to.is_float() => {
            let (at, (least, most)) = (inner(x)?, number::range(*to));
            let own = program.range(&at);
            if own.lo >= least && own.hi <= most {
                return Some(at);
            }
            // Others wrap around.
            let least = match to {
                Elem::U32 => 0,
                Elem::I32 => i64::from(i32::MIN),
                _ => return None,
            };
            let above = at.plus(&least.into(), -1)?;
            Affine::two(Arith::Rem, &above, &(1i64 << 32).into())?.plus(&least.into(), 1)
        }
        Expr::Un(Un::Neg, x) => inner(x)?.times(-1),
        Expr::Bin(Bin::Add, x, y) => inner(x)?.plus(&inner(y)?, 1),
        Expr::Bin(Bin::Sub, x, y) => inner(x)?.plus(&inner(y)?, -1),
        Expr::Bin(Bin::Mul, x, y) => Affine::two(Arith::Mul, &inner(x)?, &inner(y)?),
        Expr::Bin(Bin::Min, x, y) => Affine::two(Arith::Min, &inner(x)?, &inner(y)?),
        Expr::Bin(Bin::Max, x, y) => Affine::two(Arith::Max, &inner(x)?, &inner(y)?),
        Expr::Bin(how @ (Bin::Div | Bin::Rem), x, y) => {
            let (x, y) = (inner(x)?, inner(y)?);
            let with = if *how == Bin::Div { Arith::Div } else { Arith::Rem };
            if y.constant().is_some_and(|n| n < 1) { None } else { Affine::two(with, &x, &y) }
        }
        Expr::Fma(of) => Affine::two(Arith::Mul, &inner(&of[0])?, &inner(&of[1])?)?.plus(&inner(&of[2])?, 1),
        Expr::Pick(of) => {
            let (x, y) = (inner(&of[1])?, inner(&of[2])?);
            Affine::two(Arith::Mul, &x.plus(&y, -1)?, &truth(&of[0], program)?)?.plus(&y, 1)
        }
        _ => None,
    }
}

/// A condition on integers as an integer: 1 if it is true, else 0.
fn truth(of: &Expr, program: &tile::Program) -> Option<Affine> {
    let opposite = |x: Affine| Affine::from(1).plus(&x, -1);
    let is_positive =
        |x: Affine| Affine::two(Arith::Min, &Affine::two(Arith::Max, &x, &0.into())?, &1.into());
    match of {
        Expr::Cmp(how, x, y) => {
            let (x, y) = (affine(x, program)?, affine(y, program)?);
            let (more, less) = (x.plus(&y, -1)?, y.plus(&x, -1)?);
            let apart = Affine::two(Arith::Max, &more, &less)?;
            match how {
                Cmp::Lt => is_positive(less),
                Cmp::Le => opposite(is_positive(more)?),
                Cmp::Ne => is_positive(apart),
                Cmp::Eq => opposite(is_positive(apart)?),
            }
        }
        Expr::Un(Un::Not, x) => opposite(truth(x, program)?),
        Expr::Bin(Bin::And, x, y) => Affine::two(Arith::Min, &truth(x, program)?, &truth(y, program)?),
        Expr::Bin(Bin::Or, x, y) => Affine::two(Arith::Max, &truth(x, program)?, &truth(y, program)?),
        _ => None,
    }
}

impl Evaluator {
    /// A value as an integer of the kernel, if it is one.
    pub(super) fn integer(&self, value: &Value) -> Option<Affine> {
        match value {
            Value::Int(n) => Some((*n).into()),
            Value::Index(at) => Some(at.clone()),
            Value::Size(size) => Some((*size).into()),
            Value::Number(number) => of_scalars(&number.expr, self.builder.program()),
            _ => None,
        }
    }

    /// The value with single elements of integer type loaded: loop bounds and operands of integer comparisons must be
    /// integers.
    pub(super) fn read(&mut self, value: Value, span: Span) -> Value {
        match value {
            Value::View(view) if self.is_index(&view) => self.take(&view, Purpose::Value, span),
            // Arithmetic on elements of 64 bits.
            Value::Elements(_) if self.wide(&value).is_some() => {
                let made = self.settled(value, &[], span);
                if matches!(&made, Value::View(view) if self.is_index(view)) {
                    self.read(made, span)
                } else {
                    made
                }
            }
            Value::Tuple(items) => {
                Value::Tuple(items.into_iter().map(|item| self.read(item, span)).collect())
            }
            value => value,
        }
    }

    /// An index, or several: an element that is an index itself selects no element where it is out of bounds.
    pub(super) fn indices(&mut self, value: Value, span: Span) -> Value {
        match value {
            Value::Tuple(items) => {
                Value::Tuple(items.into_iter().map(|item| self.indices(item, span)).collect())
            }
            Value::View(view) if self.is_index(&view) => self.take(&view, Purpose::Index, span),
            value => self.coordinates(value, span),
        }
    }

    /// An integer, or several, with elements read and integer arguments as integers of the kernel.
    pub(super) fn coordinates(&mut self, value: Value, span: Span) -> Value {
        match value {
            Value::Tuple(items) => {
                Value::Tuple(items.into_iter().map(|item| self.coordinates(item, span)).collect())
            }
            Value::Number(ref number) => match self.integer(&value) {
                Some(at) => Value::Index(at),
                None if !self.in_closure
                    && number.ty.and_then(Type::elem).is_some_and(Elem::is_integer)
                    && !reads_elements(&number.expr) =>
                {
                    self.computed_integer(number.clone(), span)
                }
                None => value,
            },
            value => self.read(value, span),
        }
    }

    /// A number of scalar arguments as an integer, by a tile of one element.
    fn computed_integer(&mut self, number: Scalar, span: Span) -> Value {
        let Some(elem) = number.ty.and_then(Type::elem) else { return Value::Poison };
        match self.full("number", elem, &Tuple::flat(&[1]), number) {
            Ok(made) => self.read(made, span),
            Err(problem) => self.complain(span, problem),
        }
    }

    /// Is it an integer, or one in memory or registers?
    pub(super) fn is_integer(&self, value: &Value) -> bool {
        match value {
            Value::View(view) => self.is_index(view),
            value => self.integer(value).is_some(),
        }
    }

    /// Is it one integer in memory or registers, or one `bool` in memory?
    fn is_index(&self, view: &View) -> bool {
        let elem = self.builder.elem(view);
        !elem.is_float() && is_one(view) && !(elem == Elem::Bool && self.is_register(view))
    }

    fn is_register(&self, view: &View) -> bool {
        matches!(self.builder.space(view), tile::Space::Registers { .. })
    }

    /// Is it one `bool` in memory, outside of a closure? In registers it is a mask of one element, which keeps its bounds.
    pub(super) fn is_flag(&self, value: &Value) -> bool {
        !self.in_closure
            && self.is_condition(value)
            && matches!(value, Value::View(view) if !self.is_register(view))
    }

    /// Is it one `bool`?
    pub(super) fn is_condition(&self, value: &Value) -> bool {
        matches!(value, Value::View(view) if self.builder.elem(view) == Elem::Bool && is_one(view))
    }

    /// Loads an element as an integer, a `bool` as a condition. An element of an input that has been loaded in this block
    /// is not loaded again.
    pub(super) fn take(&mut self, view: &View, purpose: Purpose, span: Span) -> Value {
        let known = self.loaded.iter().find(|(known, of, _)| known == view && *of == purpose);
        let known = known.map(|(.., at)| at.clone());
        let at = match known.map_or_else(|| self.builder.take(&view.name, view, purpose), Ok) {
            Ok(at) => at,
            Err(problem) => return self.complain(span, problem),
        };
        if matches!(self.builder.space(view), tile::Space::Global { mutable: false }) {
            self.loaded.push((view.clone(), purpose, at.clone()));
        }
        match self.builder.elem(view) {
            Elem::Bool => Value::Test(Test::Equal(at, 0.into()).negated()),
            _ => Value::Index(at),
        }
    }

    /// Arithmetic where both sides are integers of the kernel, or conditions on such; `None` if they are not.
    pub(super) fn whole(&mut self, op: Binary, left: &Value, right: &Value) -> Option<Value> {
        if !self.in_closure
            && let Some(made) = logic(op, left, right)
        {
            return Some(made);
        }
        if let Some(made) = self.quotient(op, left, right) {
            return Some(made);
        }
        let of_kernel = |value: &Value| matches!(value, Value::Index(_) | Value::Size(_));
        if !of_kernel(left) && !of_kernel(right) {
            return None;
        }
        // An integer argument is a number as well, and among elements it remains one.
        if self.in_closure && [left, right].iter().any(|value| matches!(value, Value::Number(_))) {
            return None;
        }
        let (x, y) = (self.integer(left)?, self.integer(right)?);
        arithmetic(op, &x, &y)
    }

    /// A comparison of sums of integer arguments, which do not wrap around in it.
    pub(super) fn exactly(&self, op: Binary, left: &Value, right: &Value) -> Option<Value> {
        use Binary::{Eq, Ge, Gt, Le, Lt, Ne};
        let both = [left, right];
        let computes = |value: &&Value| {
            matches!(value, Value::Number(Scalar { expr: Expr::Bin(..) | Expr::Un(..), .. }))
        };
        let compares = matches!(op, Lt | Le | Gt | Ge | Eq | Ne) && both.iter().any(computes);
        if self.in_closure || !compares || both.into_iter().any(|value| self.wide(value).is_some()) {
            return None;
        }
        arithmetic(op, &self.integer(left)?, &self.integer(right)?)
    }

    /// A quotient or remainder with a signed argument: it remains a number of that type, and is rounded as all
    /// quotients of integers.
    fn quotient(&self, op: Binary, left: &Value, right: &Value) -> Option<Value> {
        let with = match op {
            Binary::Div => Arith::Div,
            Binary::Rem => Arith::Rem,
            _ => return None,
        };
        let signed = |value: &Value| match value {
            Value::Number(Scalar { ty: Some(Type::Elem(elem)), .. }) => elem.is_signed().then_some(*elem),
            _ => None,
        };
        let elem = signed(left).or_else(|| signed(right))?;
        let (x, y) = (self.integer(left)?, self.integer(right)?);
        if y.constant().is_some_and(|n| n < 1) {
            return None;
        }
        let made = Affine::two(with, &x, &y)?;
        let is_narrow = self.builder.program().range(&made).is_narrow();
        let made = Expr::Index(Box::new(made));
        // A number of its type, also where it is compared with another.
        Some(Value::Number(Scalar {
            expr: if elem == Elem::I32 && is_narrow { made } else { made.cast(elem) },
            ty: Some(Type::Elem(elem)),
        }))
    }

    /// Remembers a divisor that may not be positive: assertions may still follow.
    pub(super) fn divided(&mut self, op: Binary, by: &Value, span: Span) {
        if let Some(by) = self.integer(by)
            && self.builder.program().range(&by).lo < 1
        {
            self.divisors.push((by, op, span));
        }
    }

    /// Complains of divisors that may not be positive, where they are written.
    pub(super) fn check_divisors(&mut self) {
        for (by, op, span) in std::mem::take(&mut self.divisors) {
            if let Err(problem) = verify::divisor(self.builder.program(), op.sign(), &by) {
                self.complain(span, problem);
            }
        }
    }

    /// `min(a, b)`, `max(a, b)` of integers of the kernel.
    pub(super) fn extreme(&self, with: Arith, left: &Value, right: &Value) -> Option<Value> {
        let of_kernel = |value: &Value| matches!(value, Value::Index(_) | Value::Size(_));
        if !of_kernel(left) && !of_kernel(right) {
            return None;
        }
        let (x, y) = (self.integer(left)?, self.integer(right)?);
        Affine::two(with, &x, &y).map(Value::Index)
    }

    /// `ceil_div(a, b)`; `None` if `b` is known and not positive.
    pub(super) fn quotient_up(&self, a: &Value, b: &Value) -> Option<Value> {
        let (a, b) = (self.integer(a)?, self.integer(b)?);
        if b.constant().is_some_and(|n| n < 1) {
            return None;
        }
        // Where the dividend is positive, the sum of both is not needed, which could overflow.
        let up = match self.builder.program().range(&a).lo {
            1.. => Affine::two(Arith::Div, &a.plus(&1.into(), -1)?, &b)?.plus(&1.into(), 1)?,
            _ => Affine::two(Arith::Div, &a.plus(&b, 1)?.plus(&1.into(), -1)?, &b)?,
        };
        Some(Value::Index(up))
    }

    /// `-a` of an integer, `!a` of a condition.
    pub(super) fn unary_integer(&self, op: Unary, value: &Value) -> Option<Value> {
        match (op, value) {
            (Unary::Neg, Value::Index(_) | Value::Size(_)) => {
                self.integer(value)?.times(-1).map(Value::Index)
            }
            (Unary::Not, Value::Test(test)) => Some(Value::Test(test.clone().negated())),
            _ => None,
        }
    }

    /// Why something is not a coordinate.
    pub(super) fn no_coordinate(&self, at: &Value, usage: &str) -> Problem {
        let items = match at {
            Value::Tuple(items) => &items[..],
            one => std::slice::from_ref(one),
        };
        let view = items.iter().find_map(|item| if let Value::View(view) = item { Some(view) } else { None });
        match view {
            Some(view) if is_one(view) => {
                let elem = self.builder.elem(view);
                Problem::new(format!("`{}` is of type {elem}, and a coordinate is an integer", view.name))
                    .help(format!("convert it: `{} as i32`", view.name))
            }
            Some(view) => Problem::new(format!(
                "`{}` has the shape {}, and a coordinate is one integer",
                view.name,
                view.shape()
            ))
            .help(format!("index one element of it: {}[(i)]", view.name)),
            None => super::advice::coordinate(at, usage),
        }
    }
}

/// Has it one element?
pub(super) fn is_one(view: &View) -> bool {
    view.extents().map(|all| all.iter().product()) == Some(1i64)
}
