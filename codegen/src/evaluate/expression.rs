//! Expressions: constants, tuples, layouts, coordinates, elements.

use tilewright_layout::{Composed, Layout, Value as Size};

use super::elementwise::Elements;
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::affine::Coord;
use crate::ast::{Binary, Expr, ExprKind, Name, Pattern, Span, Unary};
use crate::elem::Elem;
use crate::limits;
use crate::number;
use crate::problem::Problem;
use crate::thread::{Bin, Cmp, Un};
use crate::tile;
use crate::typing::{self, Scalar, Type};

impl Evaluator {
    /// The value of an expression; arithmetic on tiles is a tile.
    pub(super) fn expr(&mut self, expr: &Expr) -> Value {
        let naming = self.naming.clone();
        let value = self.unsettled(expr);
        self.settled(value, &naming, expr.span)
    }

    /// The value of an expression, within the limits on depth, size and total work. Arithmetic on tiles is not
    /// computed yet: it is an operand of more.
    pub(super) fn unsettled(&mut self, expr: &Expr) -> Value {
        if self.depth >= limits::DEEPEST {
            let problem = Problem::new(format!("this is nested more than {} levels deep", limits::DEEPEST));
            return self.complain(expr.span, problem.help("give parts of it names, with `let`"));
        }
        self.depth += 1;
        let value = self.value(expr);
        self.depth -= 1;
        match value.parts() {
            Ok(parts) if self.goes_on(parts, expr.span) => value,
            Ok(_) => Value::Poison,
            Err(problem) => self.complain(expr.span, problem),
        }
    }

    fn value(&mut self, expr: &Expr) -> Value {
        match &expr.kind {
            ExprKind::Int(n) => Value::Int(*n),
            ExprKind::Float(x) => Value::Float(*x),
            ExprKind::Bool(b) => Value::Bool(*b),
            ExprKind::Str(text) => Value::Text(text.clone()),
            ExprKind::Hole => Value::Hole,
            ExprKind::Name(name) => {
                let value = self.name(name, expr.span);
                self.as_element(value)
            }
            ExprKind::Path(path) => self.path(path, expr.span),
            ExprKind::Tuple(items) => {
                self.naming.clear();
                let values: Vec<Value> = items.iter().map(|item| self.unsettled(item)).collect();
                match values.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(values),
                }
            }
            ExprKind::Call { function, types, args } => self.call(function, types, args, expr.span),
            ExprKind::Method { receiver, method, args } => {
                let value = self.method(receiver, method, args, expr.span);
                self.as_element(value)
            }
            ExprKind::Field { base, field } => {
                let value = self.field(base, field);
                self.as_element(value)
            }
            ExprKind::Index { base, index } => {
                let value = self.index(base, index);
                self.as_element(value)
            }
            ExprKind::Unary(op, inner) => {
                self.naming.clear();
                let value = self.unsettled(inner);
                self.unary(*op, value, expr.span, inner.span)
            }
            ExprKind::Binary(..) => self.chain(expr),
            ExprKind::Range(from, to) => Value::Range(Box::new(self.expr(from)), Box::new(self.expr(to))),
            ExprKind::Cast(inner, to) => self.cast(inner, to),
            ExprKind::Layout { shape, stride } => self.layout_literal(shape, stride.as_deref(), expr.span),
            ExprKind::Closure { params, body } => self.closure(params, body),
            ExprKind::Block { lets, value } => self.block(lets, value),
            ExprKind::If { condition, then, other } => self.choice(condition, then, other, expr.span),
        }
    }

    fn path(&mut self, path: &str, span: Span) -> Value {
        if let Some(number) = special(path) {
            return number;
        }
        let last = path.rsplit("::").next().unwrap_or(path).to_owned();
        let problem =
            Problem::new(format!("the value of `{path}` cannot be read while the kernel is compiled"));
        let help = match self.in_kernel {
            true => format!(
                "write the number, add a parameter `const {last}: usize = …` to the kernel, or build it at run time"
            ),
            false => advice::NAMES_IN_KEYS.to_owned(),
        };
        self.complain(span, problem.help(help))
    }

    /// A value behind bindings.
    fn block(&mut self, lets: &[(Pattern, Expr)], value: &Expr) -> Value {
        let depth = self.scope.len();
        for (pattern, value) in lets {
            self.bind_let(pattern, value);
        }
        let value = self.unsettled(value);
        self.scope.truncate(depth);
        value
    }

    /// A chain of operators, from left to right.
    fn chain(&mut self, expr: &Expr) -> Value {
        let (first, links) = expr.chain();
        if links.len() > limits::LONGEST_CHAIN as usize {
            return self.complain(expr.span, limits::too_long(links.len()));
        }
        self.naming.clear();
        let (mut value, mut left) = (self.unsettled(first), first.span);
        for (span, op, right) in links.into_iter().rev() {
            let by = self.unsettled(right);
            value = self.binary(op, value, by, span, [left, right.span]);
            left = span;
        }
        value
    }

    fn choice(&mut self, condition: &Expr, then: &Expr, other: &Expr, span: Span) -> Value {
        match self.unsettled(condition) {
            Value::Bool(true) => self.unsettled(then),
            Value::Bool(false) => self.unsettled(other),
            Value::Poison => Value::Poison,
            Value::Test(test) => self.choice_of(integer::as_number(&test), then, other, span),
            Value::Number(test) => self.choice_of(test, then, other, span),
            Value::Elements(test) if !self.in_closure => self.choice_of_tiles(*test, then, other, span),
            found => self.complain(condition.span, advice::condition(&found)),
        }
    }

    /// A choice at run time.
    fn choice_of(&mut self, test: Scalar, then: &Expr, other: &Expr, span: Span) -> Value {
        let (x, y) = (self.unsettled(then), self.unsettled(other));
        if matches!(x, Value::Poison) || matches!(y, Value::Poison) {
            return Value::Poison;
        }
        self.chosen(test, (x, then.span), (y, other.span), span)
    }

    /// A choice for each element of tiles.
    fn choice_of_tiles(&mut self, test: Elements, then: &Expr, other: &Expr, span: Span) -> Value {
        let (x, y) = (self.unsettled(then), self.unsettled(other));
        if matches!(x, Value::Poison) || matches!(y, Value::Poison) {
            return Value::Poison;
        }
        self.chosen_of_tiles(&Value::Elements(Box::new(test)), (x, then.span), (y, other.span), span)
    }

    /// One of two tiles or numbers, or entry by entry of two tuples.
    fn chosen_of_tiles(
        &mut self,
        test: &Value,
        (x, then): (Value, Span),
        (y, other): (Value, Span),
        span: Span,
    ) -> Value {
        let (x, y) = match (x, y) {
            (Value::Tuple(x), Value::Tuple(y)) if x.len() == y.len() => {
                let pairs = x.into_iter().zip(y);
                let made: Vec<Value> =
                    pairs.map(|(x, y)| self.chosen_of_tiles(test, (x, then), (y, other), span)).collect();
                return match made.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(made),
                };
            }
            both => both,
        };
        let made = self.of_tiles(&[test, &x, &y], |run, [test, x, y]| {
            run.chosen(test, (Value::Number(x), then), (Value::Number(y), other), span)
        });
        made.unwrap_or_else(|| {
            let problem = Problem::new("both branches must be tiles or numbers");
            self.complain(span, problem.help("end each with arithmetic: if x > 0.0 { x } else { 0.0 }"))
        })
    }

    /// One of two numbers, or entry by entry of two tuples.
    fn chosen(
        &mut self,
        test: Scalar,
        (x, then): (Value, Span),
        (y, other): (Value, Span),
        span: Span,
    ) -> Value {
        match (x, y) {
            (Value::Tuple(x), Value::Tuple(y)) if x.len() == y.len() => {
                let pairs = x.into_iter().zip(y);
                let made: Vec<Value> =
                    pairs.map(|(x, y)| self.chosen(test.clone(), (x, then), (y, other), span)).collect();
                match made.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(made),
                }
            }
            (x, y) => match (x.as_number(), y.as_number()) {
                (Some(x), Some(y)) => {
                    let made = typing::agree("if", [x, y]);
                    let made = made.and_then(|([x, y], _)| typing::pick(test, x, y));
                    self.scalar(made, span, &[then, other])
                }
                _ => {
                    let problem = Problem::new("both branches must be numbers");
                    let help = "end each with arithmetic: if x > 0.0 { x } else { 0.0 }";
                    self.complain(span, problem.help(help))
                }
            },
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Value {
        if let Some(place) = self.scope.iter().rposition(|(known, _)| known == name) {
            if self.callers.is_empty() {
                self.uses.used(place);
            }
            return self.scope[place].1.clone();
        }
        match name {
            "block" => Value::Special("block"),
            "thread" => Value::Special("thread"),
            _ => {
                let symbol = tilewright_layout::Symbol::new(name);
                if self.builder.knows(symbol) || (self.in_type && limits::is_name(name)) {
                    return Value::Size(Size::symbol(name));
                }
                if let Some(Size::Int(n)) = super::heads::static_stride(name) {
                    return Value::Int(n);
                }
                let mut names: Vec<&str> = Vec::new();
                for (known, _) in self.callers.iter().flatten().chain(&self.scope) {
                    if !names.contains(&known.as_str()) {
                        names.push(known);
                    }
                }
                let at = if self.in_kernel { "in this kernel" } else { "here" };
                let problem = Problem::new(format!("`{name}` is not known {at}"));
                let help = advice::variable(name, &names, self.in_kernel);
                self.complain(span, problem.help(help))
            }
        }
    }

    fn field(&mut self, base: &Expr, field: &Name) -> Value {
        let axis = match field.text.as_str() {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        match (self.operand(base), axis) {
            (Value::Special("block"), Some(axis)) => Value::Index(Coord::Block(axis).into()),
            (Value::Special("thread"), Some(0)) => Value::Index(Coord::Thread(0).into()),
            (Value::Special("thread"), Some(_)) => {
                let problem = Problem::new("threads of a block have one number, `thread.x`");
                self.complain(
                    field.span,
                    problem
                        .help("let a thread layout give it two: parallelize(t, layout!((16, 16)), thread.x)"),
                )
            }
            (Value::Tuple(items), _) => match field.text.parse::<usize>().ok().and_then(|n| items.get(n)) {
                Some(item) => item.clone(),
                None => {
                    let problem =
                        Problem::new(format!("a tuple of {} has no `.{}`", items.len(), field.text));
                    self.complain(field.span, problem.help("its entries are counted from 0: `.0`, `.1`"))
                }
            },
            (Value::Poison, _) => Value::Poison,
            (other, _) => {
                let problem = Problem::new(format!("{} has no field `{}`", other.kind(), field.text));
                let help = match &other {
                    Value::Special("block") => "a block has `block.x`, `block.y` and `block.z`".to_owned(),
                    Value::View(view) => format!(
                        "{name}.size(0) is the extent of its first mode, {name}.rank() the number of its modes",
                        name = view.name
                    ),
                    _ => "tuples have fields: `.0`, `.1`".to_owned(),
                };
                self.complain(field.span, problem.help(help))
            }
        }
    }

    fn index(&mut self, base: &Expr, index: &Expr) -> Value {
        match (self.operand(base), self.operand(index)) {
            (Value::Poison, _) | (_, Value::Poison) => Value::Poison,
            (Value::View(view), at) if self.names_elements(&at) => self
                .gathered(&view, at, index.span)
                .unwrap_or_else(|problem| self.complain(index.span, problem)),
            (Value::View(view), at) => {
                let at = self.coordinates(at, index.span);
                match at.ats() {
                    Some(at) => match self.builder.slice(&view, &at) {
                        Ok(slice) => Value::View(slice),
                        Err(problem) => self.complain(index.span, problem),
                    },
                    None => {
                        let usage = "write coordinates and `_`, such as [(_, _, k)]";
                        let problem = self.no_coordinate(&at, usage);
                        self.complain(index.span, problem)
                    }
                }
            }
            (Value::Tuple(items), Value::Int(n)) if n >= 0 && (n as usize) < items.len() => {
                items[n as usize].clone()
            }
            (other, _) => {
                let problem = Problem::new(format!("{} cannot be indexed like this", other.kind()));
                let help = "entries of a tuple are counted from 0: `.0`, `.1`; tensors are indexed by one entry for each mode";
                self.complain(base.span, problem.help(help))
            }
        }
    }

    fn cast(&mut self, inner: &Expr, to: &Name) -> Value {
        self.naming.clear();
        let value = self.unsettled(inner);
        let integers = ["usize", "i64", "i32", "u32"].contains(&to.text.as_str());
        if integers
            && matches!(value, Value::Int(_) | Value::Size(_) | Value::Index(_))
            && !(matches!(value, Value::Size(_)) && to.text == "u32")
            && !self.in_closure
        {
            return value;
        }
        if let (Value::View(view), true, false) = (&value, integers, self.in_closure)
            && integer::is_one(view)
        {
            return self.take(&view.clone(), inner.span);
        }
        let Some(elem) = self.elem(to) else {
            return Value::Poison;
        };
        let value = self.met(value);
        let of_tile =
            self.of_tiles(&[&value], |run, [number]| run.scalar(typing::cast(elem, number), inner.span, &[]));
        match (of_tile, value) {
            (Some(made), _) => made,
            (_, Value::Poison) => Value::Poison,
            (_, value) => match value.as_number() {
                Some(number) => self.scalar(typing::cast(elem, number), inner.span, &[]),
                None => {
                    let problem = Problem::new(format!("{} cannot be cast", value.kind()));
                    self.complain(
                        inner.span,
                        problem.help("elements are cast inside `map`: map(x, |x| x as f32)"),
                    )
                }
            },
        }
    }

    fn layout_literal(&mut self, shape: &Expr, stride: Option<&Expr>, span: Span) -> Value {
        let extents = self.expr(shape);
        let strides = stride.map(|stride| self.expr(stride));
        if matches!(extents, Value::Poison) || matches!(strides, Some(Value::Poison)) {
            return Value::Poison;
        }
        let Some(extents) = extents.tuple() else {
            let problem = Problem::new(format!("a shape is needed here, and this is {}", extents.kind()));
            return self.complain(shape.span, problem.help("write numbers, such as layout!((32, 8))"));
        };
        let made = match strides.map(|s| s.tuple()) {
            None => Layout::compact(extents),
            Some(Some(strides)) => Layout::new(extents, strides),
            Some(None) => {
                let problem = Problem::new("a stride is a number or a tuple of numbers");
                let at = stride.map_or(span, |s| s.span);
                return self
                    .complain(at, problem.help("write one for each extent: layout!((32, 8) : (8, 1))"));
            }
        };
        match made {
            Ok(layout) => Value::Layout(layout.into()),
            Err(error) => self.complain(span, error.into()),
        }
    }

    fn unary(&mut self, op: Unary, value: Value, span: Span, operand: Span) -> Value {
        let value = match value {
            Value::View(_) if !self.in_closure && self.is_integer(&value) => self.coordinates(value, operand),
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

    fn binary(&mut self, op: Binary, left: Value, right: Value, span: Span, operands: [Span; 2]) -> Value {
        let (left, right) = match (&left, &right) {
            (Value::View(_), Value::Number(_) | Value::Float(_) | Value::Int(_))
            | (Value::Number(_) | Value::Float(_) | Value::Int(_), Value::View(_))
                if self.in_closure =>
            {
                (self.met(left), self.met(right))
            }
            _ => (left, right),
        };
        // An element that meets an integer is loaded.
        let (left, right) = match (&left, &right) {
            (
                Value::View(_),
                Value::Int(_) | Value::Index(_) | Value::Size(_) | Value::Number(_) | Value::View(_),
            )
            | (Value::Int(_) | Value::Index(_) | Value::Size(_) | Value::Number(_), Value::View(_))
                if !self.in_closure && [&left, &right].into_iter().all(|side| self.is_integer(side)) =>
            {
                (self.coordinates(left, operands[0]), self.coordinates(right, operands[1]))
            }
            _ => (left, right),
        };
        if matches!(left, Value::Poison) || matches!(right, Value::Poison) {
            return Value::Poison;
        }
        let of_tiles =
            self.of_tiles(&[&left, &right], |run, [x, y]| run.scalar(arithmetic(op, x, y), span, &operands));
        if let Some(made) = of_tiles {
            return made;
        }
        let made = match (&left, &right) {
            (Value::Int(x), Value::Int(y)) => match integers(op, *x, *y) {
                Some(value) => Some(value),
                None => {
                    let problem =
                        Problem::new(format!("this arithmetic on {x} and {y} has no result in 64 bits"));
                    return self
                        .complain(span, problem.help("divide by a positive number, or write smaller ones"));
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
            _ => match self.whole(op, &left, &right) {
                Some(made) => Some(made),
                None => match (left.number(), right.number()) {
                    (Some(x), Some(y)) => return self.scalar(arithmetic(op, x, y), span, &operands),
                    _ => None,
                },
            },
        };
        made.unwrap_or_else(|| {
            let problem = advice::operator(op, &left, &right);
            self.complain(span, problem)
        })
    }

    /// A number of the kernel, or an error at the operand to blame, or at the whole expression.
    pub(super) fn scalar(&mut self, made: Result<Scalar, Problem>, span: Span, operands: &[Span]) -> Value {
        match made {
            Ok(scalar) => Value::Number(scalar),
            Err(problem) => {
                let at = problem.arg.and_then(|arg| operands.get(arg)).copied().unwrap_or(span);
                self.complain(at, problem)
            }
        }
    }

    /// A composed layout with another inner layout.
    pub(super) fn relayout(&mut self, span: Span, made: tilewright_layout::Result<Layout>) -> Value {
        match made {
            Ok(layout) => Value::Layout(Composed::from(layout)),
            Err(error) => self.complain(span, error.into()),
        }
    }
}

/// `f32::INFINITY`, `i32::MAX` and their like.
fn special(path: &str) -> Option<Value> {
    let mut parts = path.rsplit("::").map(str::trim);
    let (name, of) = (parts.next()?, parts.next()?);
    let elem = Elem::named(of)?;
    if !elem.is_float() {
        let (least, most) = number::range(elem);
        return match name {
            "MIN" => i64::try_from(least).ok().map(Value::Int),
            "MAX" => i64::try_from(most).ok().map(Value::Int),
            _ => None,
        };
    }
    Some(Value::Float(match name {
        "INFINITY" => f64::INFINITY,
        "NEG_INFINITY" => f64::NEG_INFINITY,
        "NAN" => f64::NAN,
        "MAX" => number::greatest(elem),
        "MIN" => -number::greatest(elem),
        _ => return None,
    }))
}

/// Literals with a point, and integers among them.
fn floats(op: Binary, x: f64, y: f64) -> Option<Value> {
    Some(match op {
        Binary::Add => Value::Float(x + y),
        Binary::Sub => Value::Float(x - y),
        Binary::Mul => Value::Float(x * y),
        Binary::Div => Value::Float(x / y),
        Binary::Rem => Value::Float(x % y),
        Binary::Lt => Value::Bool(x < y),
        Binary::Le => Value::Bool(x <= y),
        Binary::Gt => Value::Bool(x > y),
        Binary::Ge => Value::Bool(x >= y),
        Binary::Eq => Value::Bool(x == y),
        Binary::Ne => Value::Bool(x != y),
        _ => return None,
    })
}

fn integers(op: Binary, x: i64, y: i64) -> Option<Value> {
    Some(match op {
        Binary::Add => Value::Int(x.checked_add(y)?),
        Binary::Sub => Value::Int(x.checked_sub(y)?),
        Binary::Mul => Value::Int(x.checked_mul(y)?),
        Binary::Div => Value::Int(x.checked_div(y)?),
        Binary::Rem => Value::Int(x.checked_rem(y)?),
        Binary::And => Value::Int(x & y),
        Binary::Or => Value::Int(x | y),
        Binary::Xor => Value::Int(x ^ y),
        Binary::Shl => Value::Int(x.checked_mul(1i64.checked_shl(u32::try_from(y).ok()?)?)?),
        Binary::Shr => Value::Int(x.checked_shr(u32::try_from(y).ok()?)?),
        Binary::Lt => Value::Bool(x < y),
        Binary::Le => Value::Bool(x <= y),
        Binary::Gt => Value::Bool(x > y),
        Binary::Ge => Value::Bool(x >= y),
        Binary::Eq => Value::Bool(x == y),
        Binary::Ne => Value::Bool(x != y),
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
    // As in Rust, the distance of a shift is any integer.
    let y = match (op, x.ty, y.ty) {
        (Binary::Shl | Binary::Shr, Some(Type::Elem(of)), Some(Type::Elem(by)))
            if of != by && !of.is_float() && !by.is_float() =>
        {
            typing::cast(of, y)?
        }
        _ => y,
    };
    let ([x, y], _) = typing::agree(sign(op), [x, y])?;
    match op {
        Binary::Add => typing::bin(Bin::Add, x, y).map(contracted),
        Binary::Sub => typing::bin(Bin::Sub, x, y),
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

/// A multiply-add: one rounding, as `fmaf` in the generated text.
fn contracted(sum: Scalar) -> Scalar {
    let expr = match sum.expr {
        tile::Expr::Bin(Bin::Add, x, y) => match (*x, *y) {
            (tile::Expr::Bin(Bin::Mul, a, b), c) | (c, tile::Expr::Bin(Bin::Mul, a, b)) => {
                tile::Expr::Fma(Box::new([*a, *b, c]))
            }
            (x, y) => tile::Expr::Bin(Bin::Add, Box::new(x), Box::new(y)),
        },
        other => other,
    };
    Scalar { expr, ty: sum.ty }
}

/// An operator as it is written.
fn sign(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::Rem => "%",
        Binary::Lt => "<",
        Binary::Le => "<=",
        Binary::Gt => ">",
        Binary::Ge => ">=",
        Binary::Eq => "==",
        Binary::Ne => "!=",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::Shl => "<<",
        Binary::Shr => ">>",
    }
}
