//! Operators: on constants, sizes, integers of the kernel, numbers, and elements.

use tilewright_layout::Value as Size;

use super::value::Value;
use super::{Evaluator, advice};
use crate::source::ast::{Binary, Span, Unary};
use crate::source::problem::Problem;
use crate::thread::{Bin, Cmp, Un};
use crate::tile;
use crate::values::elem::Elem;
use crate::values::typing::{self, Scalar, Type};

impl Evaluator {
    pub(super) fn unary(&mut self, op: Unary, value: Value, span: Span, operand: Span) -> Value {
        let value = match value {
            // An integer has a sign; the bits of `!` belong to the type of the element.
            Value::View(_)
                if (op == Unary::Neg || self.is_flag(&value))
                    && !self.in_closure
                    && self.is_integer(&value)
                    && self.wide(&value).is_none() =>
            {
                self.coordinates(value, operand)
            }
            value => value,
        };
        let of_tile = self.of_tiles(&[&value], |run, [x]| run.unary(op, Value::Number(x), span, operand));
        if let Some(made) = of_tile {
            return made;
        }
        match (op, value) {
            (_, Value::Poison) => Value::Poison,
            (Unary::Neg, Value::Int(n)) if n != i64::MIN => Value::Int(-n),
            (Unary::Neg, Value::Float(x)) => Value::Float(-x),
            (op, Value::Number(x)) => {
                let f = if op == Unary::Neg { Un::Neg } else { Un::Not };
                self.scalar(typing::un(f, x), span, &[operand])
            }
            (Unary::Not, Value::Bool(b)) => Value::Bool(!b),
            (op, other) => {
                if let Some(made) = self.unary_integer(op, &other) {
                    return made;
                }
                let problem = Problem::new(format!("this operator does not work on {}", other.kind()));
                self.complain(span, problem.help("`-` is for numbers, and `!` for `true` and `false`"))
            }
        }
    }

    pub(super) fn binary(
        &mut self,
        op: Binary,
        left: Value,
        right: Value,
        span: Span,
        operands: [Span; 2],
    ) -> Value {
        let (left, right) = self.convert_operands(left, right, operands);
        if matches!(left, Value::Poison) || matches!(right, Value::Poison) {
            return Value::Poison;
        }
        let of_tiles =
            self.of_tiles(&[&left, &right], |run, [x, y]| run.scalar(arithmetic(op, x, y), span, &operands));
        if let Some(made) = of_tiles {
            return made;
        }
        if let (Binary::Div | Binary::Rem, Some(_), Some(by)) =
            (op, self.integer(&left), self.integer(&right).and_then(|by| by.constant()))
            && by < 1
        {
            return self.complain(operands[1], advice::divisor(op, by));
        }
        let made = match (&left, &right) {
            (Value::Int(x), Value::Int(y)) => match op.on_integers(*x, *y, Value::Int, Value::Bool) {
                Some(value) => Some(value),
                None => {
                    let problem =
                        Problem::new(format!("this arithmetic on {x} and {y} has no result in 64 bits"));
                    return self.complain(span, problem.help("write smaller numbers"));
                }
            },
            (Value::Bool(x), Value::Bool(y)) => match op {
                Binary::And => Some(Value::Bool(*x && *y)),
                Binary::Or => Some(Value::Bool(*x || *y)),
                Binary::Eq => Some(Value::Bool(x == y)),
                Binary::Ne => Some(Value::Bool(x != y)),
                _ => None,
            },
            (Value::Size(size), Value::Int(n)) if sizes(op, *size, *n).is_some() => sizes(op, *size, *n),
            (Value::Int(n), Value::Size(size)) if op == Binary::Mul => sizes(op, *size, *n),
            (Value::Float(x), Value::Float(y)) => floats(op, *x, *y),
            (Value::Float(x), Value::Int(n)) => floats(op, *x, *n as f64),
            (Value::Int(n), Value::Float(x)) => floats(op, *n as f64, *x),
            _ => match self.whole(op, &left, &right).filter(|_| self.wide(&left).is_none()) {
                Some(made) => {
                    if matches!(op, Binary::Div | Binary::Rem) {
                        self.divided(op, &right, span);
                    }
                    Some(made)
                }
                None => match (left.number(), right.number()) {
                    (Some(x), Some(y)) => {
                        let of = arithmetic(op, x, y);
                        match of.is_ok().then(|| self.exactly(op, &left, &right)).flatten() {
                            Some(made) => Some(made),
                            None => return self.scalar(of, span, &operands),
                        }
                    }
                    _ => None,
                },
            },
        };
        made.unwrap_or_else(|| {
            let problem = advice::operator(op, &left, &right);
            self.complain(span, problem)
        })
    }
}

impl Evaluator {
    /// Reads or converts tiles of one element, flags and integers that meet an operand of another kind.
    fn convert_operands(&mut self, left: Value, right: Value, operands: [Span; 2]) -> (Value, Value) {
        let (left, right) = match (&left, &right) {
            (Value::View(_), Value::Number(_) | Value::Float(_) | Value::Int(_))
            | (Value::Number(_) | Value::Float(_) | Value::Int(_), Value::View(_))
                if self.in_closure =>
            {
                (self.met(left), self.met(right))
            }
            _ => (left, right),
        };
        // Integers of the kernel take the type of elements of 64 bits, which are no integers of the kernel as they are.
        let (left, right) = match (self.wide(&left), self.wide(&right)) {
            (Some(elem), None) => (left, self.widened(right, elem, operands[1])),
            (None, Some(elem)) => (self.widened(left, elem, operands[0]), right),
            _ => (left, right),
        };
        // A flag is loaded that meets a condition, and an element that meets an integer.
        let (left, right) = match [&left, &right].map(|side| self.is_flag(side)) {
            [true, other] if other || matches!(right, Value::Test(_) | Value::Bool(_) | Value::Number(_)) => {
                (self.coordinates(left, operands[0]), self.read(right, operands[1]))
            }
            [false, true] if matches!(left, Value::Test(_) | Value::Bool(_) | Value::Number(_)) => {
                (left, self.read(right, operands[1]))
            }
            _ => (left, right),
        };
        match (&left, &right) {
            (
                Value::View(_),
                Value::Int(_) | Value::Index(_) | Value::Size(_) | Value::Number(_) | Value::View(_),
            )
            | (Value::Int(_) | Value::Index(_) | Value::Size(_) | Value::Number(_), Value::View(_))
                if !self.in_closure
                    && [&left, &right]
                        .into_iter()
                        .all(|side| self.is_integer(side) && self.wide(side).is_none()) =>
            {
                (self.coordinates(left, operands[0]), self.coordinates(right, operands[1]))
            }
            _ => (left, right),
        }
    }

    /// The type of an integer of 64 bits outside of closures: an element, or arithmetic on such.
    pub(super) fn wide(&self, value: &Value) -> Option<Elem> {
        let elem = match value {
            Value::View(view) if super::integer::is_one(view) => self.builder.elem(view),
            Value::Elements(of) => of.number.ty?.elem()?,
            Value::Number(number) => number.ty?.elem()?,
            _ => return None,
        };
        (!self.in_closure && elem.is_integer() && elem.bits() > 32).then_some(elem)
    }

    /// An integer of the kernel as an element of a type.
    pub(super) fn widened(&mut self, value: Value, elem: Elem, span: Span) -> Value {
        match value {
            Value::Index(_) | Value::Size(_) => {}
            _ => return value,
        }
        let number = value.as_number().map(|number| typing::cast(elem, number));
        number.map_or(value, |made| self.scalar(made, span, &[]))
    }
}

/// Literals with a point, and integers among them.
fn floats(op: Binary, x: f64, y: f64) -> Option<Value> {
    Some(match op {
        Binary::Add => Value::Float(x + y),
        Binary::Sub => Value::Float(x - y),
        Binary::Mul => Value::Float(x * y),
        Binary::Div => Value::Float(x / y),
        Binary::Rem => Value::Float(x % y),
        _ => Value::Bool(op.compare(x, y)?),
    })
}

fn sizes(op: Binary, size: Size, n: i64) -> Option<Value> {
    let made = match op {
        Binary::Mul => size.times(Size::Int(n))?,
        Binary::Div if n > 0 && size.factor() % n == 0 => size.ceil_div(n)?,
        _ => return None,
    };
    Some(Value::Size(made))
}

/// Arithmetic on elements.
pub(super) fn arithmetic(op: Binary, x: Scalar, y: Scalar) -> Result<Scalar, Problem> {
    let y = match (op, x.ty, y.ty) {
        (Binary::Shl | Binary::Shr, Some(Type::Elem(of)), Some(Type::Elem(by)))
            if of != by && !of.is_float() && !by.is_float() =>
        {
            distance(of, y, by)?
        }
        _ => y,
    };
    let ([x, y], _) = typing::agree(op.sign(), [x, y])?;
    match op {
        Binary::Add => typing::bin(Bin::Add, x, y).map(contracted),
        Binary::Sub => typing::bin(Bin::Sub, x, y).map(contracted),
        Binary::Mul => typing::bin(Bin::Mul, x, y),
        Binary::Div => typing::bin(Bin::Div, x, y),
        Binary::Rem => typing::bin(Bin::Rem, x, y),
        Binary::And => typing::bin(Bin::And, x, y),
        Binary::Or => typing::bin(Bin::Or, x, y),
        Binary::Xor => typing::bin(Bin::Xor, x, y),
        Binary::Shl => typing::bin(Bin::Shl, x, y),
        Binary::Shr => typing::bin(Bin::Shr, x, y),
        Binary::Lt => typing::cmp(Cmp::Lt, x, y),
        Binary::Le => typing::cmp(Cmp::Le, x, y),
        Binary::Gt => typing::cmp(Cmp::Lt, y, x),
        Binary::Ge => typing::cmp(Cmp::Le, y, x),
        Binary::Eq => typing::cmp(Cmp::Eq, x, y),
        Binary::Ne => typing::cmp(Cmp::Ne, x, y),
    }
}

/// The distance of a shift, which is any integer as in Rust, in the type of the shifted number. Distances that this type does not
/// have remove all bits; so does the number of bits.
fn distance(of: Elem, y: Scalar, by: Elem) -> Result<Scalar, Problem> {
    if let Some(n) = y.literal_number() {
        return Ok(Scalar::literal(n));
    }
    let unsigned = match by.bytes() {
        bytes if bytes <= of.bytes() => return typing::cast(of, y),
        8 => Elem::U64,
        4 => Elem::U32,
        _ => Elem::U16,
    };
    let y = typing::cast(unsigned, y)?;
    typing::cast(of, typing::bin(Bin::Min, y, Scalar::literal(i64::from(of.working_bits())))?)
}

/// A multiply-add: one rounding, as `fmaf` in the generated text. A difference of floating-point numbers is one too.
fn contracted(sum: Scalar) -> Scalar {
    use tile::Expr::{Bin as Of, Fma};
    let is_float = matches!(sum.ty, Some(Type::Elem(of)) if of.is_float());
    let minus = |x: tile::Expr| tile::Expr::Un(Un::Neg, Box::new(x));
    let expr = match sum.expr {
        Of(Bin::Add, x, y) => match (*x, *y) {
            (Of(Bin::Mul, a, b), c) | (c, Of(Bin::Mul, a, b)) => Fma(Box::new([*a, *b, c])),
            (x, y) => Of(Bin::Add, Box::new(x), Box::new(y)),
        },
        Of(Bin::Sub, x, y) if is_float => match (*x, *y) {
            (Of(Bin::Mul, a, b), c) => Fma(Box::new([*a, *b, minus(c)])),
            (c, Of(Bin::Mul, a, b)) => Fma(Box::new([minus(*a), *b, c])),
            (x, y) => Of(Bin::Sub, Box::new(x), Box::new(y)),
        },
        other => other,
    };
    Scalar { expr, ty: sum.ty }
}
