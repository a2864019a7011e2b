//! Expressions of the text.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, ExprKind, Pattern, Unary};

use super::Num;
use super::element;
use super::grid::axis;
use super::value::{Elements, OutOfBounds, Type, Value, View};
use super::{Block, MIXED_COORDINATES, Result, undefined};
use crate::number::{self, range};

impl<'k> Block<'k> {
    /// A closure, or the one of a name.
    pub(super) fn closure(&self, of: &'k Expr) -> Option<(&'k [Pattern], &'k Expr)> {
        match &of.kind {
            ExprKind::Closure { params, body } => Some((params, body)),
            ExprKind::Name(name) => match self.lookup(name) {
                Some(Value::Closure(params, body)) => Some((params, body)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Value<'k>> {
        let known = self.scopes[self.thread].iter().rev().find(|(known, _)| known == name);
        known.map(|(_, value)| value.clone()).or_else(|| self.symbols.get(name).map(|n| Value::Integer(*n)))
    }

    pub(super) fn value(&mut self, of: &'k Expr) -> Result<Value<'k>> {
        Ok(match &of.kind {
            ExprKind::Int(n) => Value::Int((*n).into()),
            ExprKind::Long(n) => Value::Int((*n).into()),
            ExprKind::Float(x) => Value::Float(*x),
            ExprKind::Bool(x) => Value::Bool(*x),
            ExprKind::Str(text) => Value::Text(text),
            ExprKind::Hole => Value::Hole,
            ExprKind::Name(name) => match (self.lookup(name), Elem::named(name)) {
                (Some(value), _) => value,
                (None, Some(elem)) => Value::Type(elem),
                (None, None) => return undefined(format!("`{name}` is unknown")),
            },
            ExprKind::Path(path) => self.limit(path)?,
            ExprKind::Tuple(items) => {
                Value::Tuple(items.iter().map(|item| self.value(item)).collect::<Result<_>>()?)
            }
            kind @ ExprKind::Field { base, field } => match axis(kind) {
                Some(axis) => Value::Integer(self.at[axis].into()),
                None if matches!(&base.kind, ExprKind::Name(name) if name == "thread") => {
                    Value::Integer(self.thread as i128)
                }
                None => match (self.value(base)?, field.text.parse::<usize>()) {
                    (Value::Tuple(mut entries), Ok(n)) if n < entries.len() => entries.swap_remove(n),
                    _ => return undefined("no such field"),
                },
            },
            ExprKind::Unary(op, inner) => match (op, self.value(inner)?) {
                (Unary::Neg, Value::Int(n)) => Value::Int(-n),
                (Unary::Neg, Value::Float(x)) => Value::Float(-x),
                (Unary::Neg, Value::Integer(n)) => Value::Integer(-n),
                (Unary::Not, Value::Bool(x)) => Value::Bool(!x),
                (Unary::Neg, Value::View(view)) if self.reads_integer(&view) => {
                    Value::Integer(-self.whole_number(&Value::View(view)).unwrap_or_default())
                }
                (op, other) => Value::Elements(element::unary(*op, &self.elements(&other)?)?),
            },
            ExprKind::Binary(op, x, y) => {
                let (x, y) = (self.value(x)?, self.value(y)?);
                self.binary(*op, x, y)?
            }
            ExprKind::Cast(inner, to) => {
                let to = self.elem(&to.text)?;
                let value = self.value(inner)?;
                self.converted(value, to)?
            }
            ExprKind::Range(from, to) => {
                let (from, to) = (self.integer(from)?, self.integer(to)?);
                Value::Range(from, to)
            }
            ExprKind::Closure { params, body } => Value::Closure(params, body),
            ExprKind::If { condition, then, other } => match self.value(condition)? {
                Value::Bool(truth) => self.value(if truth { then } else { other })?,
                condition => {
                    let condition = self.elements(&condition)?;
                    let (then, other) = (self.value(then)?, self.value(other)?);
                    self.chosen(&condition, then, other)?
                }
            },
            ExprKind::Block { lets, value } => {
                let depth = self.scopes[self.thread].len();
                for (pattern, value) in lets {
                    let value = self.value(value)?;
                    self.bind(pattern, value)?;
                }
                let value = self.value(value)?;
                self.scopes[self.thread].truncate(depth);
                value
            }
            ExprKind::Index { base, index } => self.index(base, index)?,
            ExprKind::Method { method, args, .. } if method.text == "accumulators" => self.sums(args)?,
            ExprKind::Method { receiver, method, args } => self.method(receiver, &method.text, args)?,
            ExprKind::Layout { shape, stride } => self.layout(shape, stride.as_deref())?,
            kind @ ExprKind::Call { function, types, args } => match self.exchanged_value(kind) {
                Some(value) => value,
                None => self.call(&function.text, types, args)?,
            },
        })
    }

    /// `f32::INFINITY`, `i32::MAX`
    fn limit(&self, path: &str) -> Result<Value<'k>> {
        let (ty, limit) = path.split_once("::").unwrap_or_default();
        let elem = self.elem(ty)?;
        let greatest = || tilewright_codegen::number::greatest(elem);
        Ok(match (limit, elem.is_float()) {
            ("INFINITY", true) => Value::Float(f64::INFINITY),
            ("NEG_INFINITY", true) => Value::Float(f64::NEG_INFINITY),
            ("MIN", true) => Value::Float(-greatest()),
            ("MAX", true) => Value::Float(greatest()),
            ("MIN", false) => Value::Int(number::integers(elem).0),
            ("MAX", false) => Value::Int(number::integers(elem).1),
            _ => return undefined(format!("`{path}` is unknown")),
        })
    }

    /// `x as f32`
    fn converted(&mut self, value: Value<'k>, to: Elem) -> Result<Value<'k>> {
        Ok(match value {
            Value::Integer(n) if to == Elem::I32 && (!self.in_closure || i32::try_from(n).is_ok()) => {
                Value::Integer(n)
            }
            Value::Integer(n) if !self.in_closure && to == Elem::U32 => {
                let ty = if (0..1 << 31).contains(&n) { Type::Whole } else { Type::Elem(to) };
                Value::Elements(Elements::argument(ty, Num::integer(n, to)))
            }
            // For any type: it has not been truncated to 32 bits.
            Value::Integer(n) => Value::Elements(Elements::number(Type::Elem(to), Num::integer(n, to))),
            // One element of memory becomes an integer of the kernel; a number with a point has no sign as an element.
            Value::View(view)
                if !self.in_closure
                    && view.is_one()
                    && (to == Elem::I32 || to == Elem::U32 && !view.elem.is_float()) =>
            {
                self.converted_element(&view, to)?
            }
            other => Value::Elements(self.elements(&other)?.cast(to)?),
        })
    }

    /// One element of memory as an integer.
    fn converted_element(&mut self, view: &View, to: Elem) -> Result<Value<'k>> {
        if view.spots()[0].position.is_none() {
            // Among elements its value is unspecified.
            return Ok(match to == Elem::U32 && !self.integers {
                true => Value::Elements(Elements::number(Type::Elem(to), Num::UNKNOWN)),
                false => Value::Integer(0),
            });
        }
        let cast = self.read(view, 0.0)?.cast(to)?;
        let wraps = match to {
            Elem::U32 => range(view.elem).0 < 0.0,
            _ => view.elem == Elem::U32,
        };
        match Value::Elements(cast.clone()).int() {
            // A number of the type as well.
            Some(_) if wraps => Ok(Value::Elements(Elements::argument(cast.ty, cast.cells[0].num))),
            Some(n) => Ok(Value::Integer(n)),
            None => undefined("no integer"),
        }
    }

    /// `t.size(1)`, `v.along(0)`, `list.len()`
    fn method(&mut self, receiver: &'k Expr, method: &str, args: &'k [Arg]) -> Result<Value<'k>> {
        let view = match (self.value(receiver)?, method) {
            (Value::View(view), _) => view,
            (Value::Tuple(list), "len") => return Ok(Value::Int(list.len() as i128)),
            (Value::Tuple(list), "is_some") => return Ok(Value::Bool(!list.is_empty())),
            _ => return undefined("a method of no tile"),
        };
        let Some(mode) = args.first().and_then(|arg| self.value(&arg.value).ok()?.int()) else {
            return undefined("a method without a mode");
        };
        let mode = mode as usize;
        match method {
            "size" => Ok(Value::Integer(view.sizes[mode].into())),
            "along" => {
                let mut sizes = vec![1; 2];
                sizes[mode] = view.sizes[0];
                let from: Vec<_> = (0..2).map(|at| (at == mode).then_some(0)).collect();
                Ok(Value::View(view.reshaped(sizes, &from)))
            }
            other => undefined(format!("the method `{other}`")),
        }
    }

    /// Both arms of a choice between elements, entry by entry of a tuple.
    fn chosen(&mut self, condition: &Elements, then: Value<'k>, other: Value<'k>) -> Result<Value<'k>> {
        Ok(match (then, other) {
            (Value::Tuple(then), Value::Tuple(other)) => {
                let pairs = then.into_iter().zip(other);
                let entries = pairs.map(|(then, other)| self.chosen(condition, then, other));
                Value::Tuple(entries.collect::<Result<_>>()?)
            }
            (then, other) => {
                let (then, other) = (self.elements(&then)?, self.elements(&other)?);
                Value::Elements(element::chosen(condition, &then, &other)?)
            }
        })
    }

    /// A value as elements.
    pub(super) fn elements(&self, of: &Value<'k>) -> Result<Elements> {
        Ok(match of {
            Value::Int(n) => Elements::argument(Type::Literal, Num::whole(*n)),
            Value::Float(x) => Elements::argument(Type::Literal, Num::exact(*x)),
            Value::Integer(n) => Elements::argument(Type::Elem(Elem::I32), Num::integer(*n, Elem::I32)),
            Value::Bool(x) => Elements::number(Type::Condition, Num::exact(f64::from(u8::from(*x)))),
            Value::Elements(of) => of.clone(),
            Value::View(view) => self.read(view, 0.0)?,
            Value::MixedCoordinates => return undefined(MIXED_COORDINATES),
            _ => return undefined("no number and no tile"),
        })
    }

    /// Is it one integer in memory, which becomes one of the kernel where it meets such?
    fn reads_integer(&self, view: &View) -> bool {
        !self.in_closure && view.is_one() && !view.elem.is_float() && wide(view.elem).is_none()
    }

    pub(super) fn is_integer(&self, of: &Value<'k>) -> bool {
        match of {
            Value::Int(_) | Value::Integer(_) => true,
            Value::View(view) => self.reads_integer(view),
            Value::Elements(of) => of.argument && of.ty.elem().is_some_and(|elem| !elem.is_float()),
            _ => false,
        }
    }

    /// Where an integer is needed, one element of memory is one, and so is an argument.
    pub(super) fn whole_number(&self, of: &Value<'k>) -> Option<i128> {
        match of {
            Value::View(view) if view.is_one() && !view.elem.is_float() => {
                Value::Elements(self.read(view, 0.0).ok()?).int()
            }
            Value::Elements(of) if of.ty.elem().is_none_or(|elem| !elem.is_float()) => {
                Value::Elements(of.clone()).int()
            }
            other => other.int(),
        }
    }

    /// An index: an element of memory that is out of bounds itself selects no element.
    pub(super) fn index_number(&self, of: &Value<'k>) -> Option<i128> {
        match of {
            Value::View(view) if view.is_one() && view.spots()[0].position.is_none() => Some(-1),
            other => self.whole_number(other),
        }
    }

    /// An integer of an index, a range or a condition.
    pub(super) fn integer(&mut self, of: &'k Expr) -> Result<i128> {
        let outer = std::mem::replace(&mut self.integers, true);
        let value = self.value(of);
        self.integers = outer;
        match self.whole_number(&value?) {
            Some(n) => Ok(n),
            None => undefined("no integer"),
        }
    }

    /// A condition of the kernel; where such are asked for, also an element that is one.
    fn truth(&self, of: &Value<'k>) -> Option<bool> {
        let known = |of: &Elements| match (of.ty, &of.cells[..]) {
            (Type::Condition, [cell]) if !cell.num.is_unknown() => Some(cell.num.value != 0.0),
            _ => None,
        };
        match of {
            Value::Bool(truth) => Some(*truth),
            Value::View(view) if self.integers && view.is_one() => known(&self.read(view, 0.0).ok()?),
            Value::Elements(of) if self.integers => known(of),
            _ => None,
        }
    }

    fn binary(&mut self, op: Binary, x: Value<'k>, y: Value<'k>) -> Result<Value<'k>> {
        if let (Some(x), Some(y)) = (self.truth(&x), self.truth(&y)) {
            return Ok(Value::Bool(match op {
                Binary::And => x && y,
                Binary::Or => x || y,
                Binary::Xor | Binary::Ne => x != y,
                Binary::Eq => x == y,
                _ => return undefined("arithmetic on conditions"),
            }));
        }
        if !self.in_closure
            && let Some(elem) = wide_operand(&x).or(wide_operand(&y))
        {
            return self.of_wide(op, elem, [x, y]);
        }
        let both = match self.integers {
            true => self.whole_number(&x).zip(self.whole_number(&y)),
            false => match (&x, &y) {
                (Value::Int(x) | Value::Integer(x), Value::Int(y) | Value::Integer(y)) => Some((*x, *y)),
                (Value::View(_), _) | (_, Value::View(_)) if self.is_integer(&x) && self.is_integer(&y) => {
                    self.whole_number(&x).zip(self.whole_number(&y))
                }
                _ => None,
            },
        };
        let Some((a, b)) = both else {
            let (x, y) = (self.elements(&x)?, self.elements(&y)?);
            if let Some(made) = quotient(op, &x, &y)? {
                return Ok(made);
            }
            let mut made = element::binary(op, &x, &y)?;
            // Of bits, it is a number among elements alone.
            made.argument &=
                !matches!(op, Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr);
            return self.decided_elements(made);
        };
        let literal = matches!((&x, &y), (Value::Int(_), Value::Int(_)));
        match op {
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr if !literal => {
                let both =
                    [a, b].map(|n| Elements::number(Type::Elem(Elem::I32), Num::integer(n, Elem::I32)));
                Ok(Value::Elements(element::binary(op, &both[0], &both[1])?))
            }
            _ => integers(op, a, b, literal),
        }
    }

    /// Arithmetic on one element of 64 bits: of elements also where integers are asked for.
    fn of_wide(&mut self, op: Binary, elem: Elem, both: [Value<'k>; 2]) -> Result<Value<'k>> {
        let mut all = Vec::new();
        for of in &both {
            all.push(match of {
                Value::Integer(n) => Elements::number(Type::Elem(elem), Num::integer(*n, elem)),
                other => self.elements(other)?,
            });
        }
        let made = element::binary(op, &all[0], &all[1])?;
        self.decided_elements(Elements { argument: false, ..made })
    }

    /// Elements; one condition where integers are asked for is known.
    fn decided_elements(&self, of: Elements) -> Result<Value<'k>> {
        if !self.integers || of.ty != Type::Condition || of.cells.len() != 1 {
            return Ok(Value::Elements(of));
        }
        match of.cells[0].num.is_exact() {
            true => Ok(Value::Bool(of.cells[0].num.value != 0.0)),
            false => undefined("a condition is not known"),
        }
    }

    /// `x[(_, 0, k)]`, or in a closure a gather.
    fn index(&mut self, base: &'k Expr, index: &'k Expr) -> Result<Value<'k>> {
        let view = match self.value(base)? {
            Value::View(view) => view,
            Value::Tuple(list) => {
                let tensor =
                    usize::try_from(self.integer(index)?).ok().and_then(|at| list.into_iter().nth(at));
                return tensor.map_or_else(|| undefined("no tensor of a list"), Ok);
            }
            other @ Value::Elements(_) => self.as_view(other)?,
            _ => return undefined("what is indexed is no tile"),
        };
        let items: Vec<&Expr> = match &index.kind {
            ExprKind::Tuple(items) => items.iter().collect(),
            _ => vec![index],
        };
        let mut coordinates = Vec::new();
        for item in items {
            let outer = self.integers;
            let value = self.value(item)?;
            self.integers = outer;
            coordinates.push(match value {
                Value::Hole => None,
                Value::View(one) if one.is_one() => self.index_number(&Value::View(one)).map(Value::Integer),
                other => Some(other),
            });
        }
        if coordinates.len() != view.sizes.len() {
            return undefined("an index of another rank");
        }
        let gathers = |position: &Option<Value<'k>>| matches!(position, Some(Value::Elements(of)) if !of.sizes.is_empty());
        if !coordinates.iter().any(gathers) {
            let coordinates: Vec<Option<i128>> = coordinates
                .iter()
                .map(|position| position.as_ref().and_then(|of| self.whole_number(of)))
                .collect();
            return Ok(Value::View(view.sliced(&coordinates)));
        }
        let coordinates: Vec<Elements> = coordinates
            .iter()
            .map(|position| match position {
                Some(position) => self.elements(position),
                None => undefined("a whole mode of a gather"),
            })
            .collect::<Result<_>>()?;
        Ok(Value::Elements(self.gathered(&view, &coordinates)?))
    }

    /// The elements at these indices; elements out of bounds are 0.
    fn gathered(&self, view: &View, coordinates: &[Elements]) -> Result<Elements> {
        let all: Vec<&Elements> = coordinates.iter().collect();
        let sizes = element::joint(&all)?;
        let mut made = element::each(&all, Type::of(view.elem), &|_| Num::UNKNOWN)?;
        for (n, cell) in made.cells.iter_mut().enumerate() {
            let mut at = Vec::new();
            for position in coordinates {
                let num = position.cells[position.broadcast(&sizes, n)?].num;
                if let Some(n) = num.int() {
                    at.push(Some(n));
                }
            }
            // A result whose index is itself out of bounds is not needed.
            cell.out_of_bounds =
                if cell.out_of_bounds == OutOfBounds::No { OutOfBounds::No } else { OutOfBounds::Perhaps };
            if at.len() < coordinates.len() {
                continue;
            }
            let one = view.sliced(&at);
            if one.spots()[0].position.is_none() {
                cell.out_of_bounds = OutOfBounds::Perhaps;
            }
            cell.num = self.read(&one, 0.0)?.cells[0].num;
        }
        Ok(made)
    }

    /// Binds names.
    pub(super) fn bind(&mut self, pattern: &Pattern, value: Value<'k>) -> Result<()> {
        match (pattern, value) {
            (Pattern::Name(name), value) => self.scopes[self.thread].push((name.text.clone(), value)),
            (Pattern::Hole(_), _) => {}
            (Pattern::Tuple(_, inner), Value::Tuple(entries)) if inner.len() == entries.len() => {
                for (pattern, entry) in inner.iter().zip(entries) {
                    self.bind(pattern, entry)?;
                }
            }
            _ => return undefined("a pattern that does not fit"),
        }
        Ok(())
    }
}

/// A type of 64-bit integers, which are no integers of the kernel.
fn wide(elem: Elem) -> Option<Elem> {
    Some(elem).filter(|elem| elem.bytes() == 8 && !elem.is_float())
}

/// The type of one element of 64 bits.
fn wide_operand(of: &Value<'_>) -> Option<Elem> {
    match of {
        Value::View(view) if view.is_one() => wide(view.elem),
        Value::Elements(of) if of.cells.len() == 1 => of.ty.elem().and_then(wide),
        _ => None,
    }
}

/// A quotient or remainder of integers that depend on no element: rounded down, of the type of its operands.
fn quotient<'k>(op: Binary, x: &Elements, y: &Elements) -> Result<Option<Value<'k>>> {
    if !matches!(op, Binary::Div | Binary::Rem) || !x.argument || !y.argument {
        return Ok(None);
    }
    let ty = match element::common(&[x, y])? {
        Some(elem) => Type::Elem(elem),
        None => element::untyped(&[x, y]),
    };
    let Some(elem) = ty.elem().filter(|elem| !elem.is_float()) else { return Ok(None) };
    let numbers = Value::Elements(x.clone()).int().zip(Value::Elements(y.clone()).int());
    let Some((a, b)) = numbers else { return Ok(None) };
    let made = integers(op, a, b, false)?.int().map(|n| Num::integer(n, elem));
    Ok(made.map(|num| Value::Elements(Elements::argument(ty, num))))
}

/// Integers of the kernel: quotients are rounded down, remainders are never negative.
pub(super) fn integers<'k>(op: Binary, a: i128, b: i128, literal: bool) -> Result<Value<'k>> {
    let number = |n: i128| Ok(if literal { Value::Int(n) } else { Value::Integer(n) });
    match op {
        Binary::Add => number(a + b),
        Binary::Sub => number(a - b),
        Binary::Mul => number(a * b),
        Binary::Div | Binary::Rem if b <= 0 => undefined("a division by what is not positive"),
        Binary::Div => number(a.div_euclid(b)),
        Binary::Rem => number(a.rem_euclid(b)),
        Binary::Lt => Ok(Value::Bool(a < b)),
        Binary::Le => Ok(Value::Bool(a <= b)),
        Binary::Gt => Ok(Value::Bool(a > b)),
        Binary::Ge => Ok(Value::Bool(a >= b)),
        Binary::Eq => Ok(Value::Bool(a == b)),
        Binary::Ne => Ok(Value::Bool(a != b)),
        Binary::And => number(a & b),
        Binary::Or => number(a | b),
        Binary::Xor => number(a ^ b),
        Binary::Shl if (0..32).contains(&b) => number(a << b),
        Binary::Shr if (0..32).contains(&b) => number(a >> b),
        Binary::Shl | Binary::Shr => undefined("a shift by too much"),
    }
}
