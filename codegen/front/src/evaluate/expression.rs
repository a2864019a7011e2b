//! Expressions: constants, tuples, layouts, coordinates, elements.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::*;

use tilewright_layout::{Composed, Layout, Value as Size};

use super::changed::names;
use super::functions::FUNCTIONS;
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::source::ast::{Expr, ExprKind, Name, Pattern, Span, Unary};
use crate::source::problem::{Problem, count};
use crate::tile::view::View;
use crate::tile::{self, Purpose};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::limits;
use crate::values::number::{self, Number};
use crate::values::typing::{self, Scalar, Type};

impl Evaluator {
    /// The value of an expression; arithmetic on tiles is a tile.
    pub(super) fn expr(&mut self, expr: &Expr) -> Value {
        let naming = self.naming.clone();
        let value = self.unsettled(expr);
        self.settled(value, &naming, expr.span)
    }

    /// The value of an expression, within the limits on depth, size and total work. Arithmetic on tiles is not
    /// computed yet, since it may be an operand of further arithmetic.
    pub(super) fn unsettled(&mut self, expr: &Expr) -> Value {
        if self.depth >= limits::DEEPEST {
            let problem = Problem::new(format!("this is nested more than {} levels deep", limits::DEEPEST));
            return self.complain(expr.span, problem.help("give parts of it names, with `let`"));
        }
        self.depth += 1;
        let value = self.value(expr);
        self.depth -= 1;
        self.within(value, expr.span)
    }

    /// A value within the limits on size and total work.
    pub(super) fn within(&mut self, value: Value, span: Span) -> Value {
        let within = match &value {
            // Among elements an integer may be a number of any type.
            Value::Int(n) if !self.in_closure => limits::integer(*n).map(|()| 1),
            value => value.parts(),
        };
        match within {
            Ok(parts) if self.goes_on(parts, span) => value,
            Ok(_) => Value::Poison,
            Err(problem) => self.complain(span, problem),
        }
    }

    fn value(&mut self, expr: &Expr) -> Value {
        match &expr.kind {
            ExprKind::Int(n) => Value::Int(*n),
            ExprKind::Long(n) => Value::Number(Scalar::named(*n, Elem::U64)),
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
        let named = |of: &str| self.home.types.iter().find(|(name, _)| name == of).map(|(_, elem)| *elem);
        if let Some((elem, number)) = special(path, named) {
            return match number {
                Value::Int(n) if self.in_closure || elem.bits() > 32 => Value::Number(Scalar::named(n, elem)),
                Value::Float(x) if self.in_closure => Value::Number(Scalar::named(x, elem)),
                number => number,
            };
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

    /// A value after bindings.
    fn block(&mut self, lets: &[(Pattern, Expr)], value: &Expr) -> Value {
        let depth = self.scope.len();
        // How often each binding is used, until the name is bound again.
        let (mut later, mut uses) = (value.names(), Vec::new());
        for (pattern, of) in lets.iter().rev() {
            let bound = names(pattern).into_iter();
            uses.push(bound.filter_map(|name| later.remove_entry(name)).collect::<BTreeMap<_, _>>());
            of.names().into_iter().for_each(|(name, count)| *later.entry(name).or_default() += count);
        }
        for ((pattern, of), uses) in lets.iter().zip(uses.iter().rev()) {
            let bound = self.scope.len();
            self.bind_let(pattern, of);
            self.share(bound, uses);
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

    fn name(&mut self, name: &str, span: Span) -> Value {
        if let Some(entry) = self.entry_of(name) {
            if self.callers.is_empty() {
                self.uses.used(entry);
            }
            return self.scope[entry].1.clone();
        }
        match name {
            "block" => Value::Special("block"),
            "thread" => Value::Special("thread"),
            _ => {
                let symbol = tilewright_layout::Symbol::new(name);
                let is_size =
                    self.home.function.is_none() && self.builder.program().symbols().contains(&symbol);
                if is_size && !self.in_type {
                    self.builder.reads_size(Size::symbol(name));
                }
                if is_size || (self.in_type && limits::is_name(name)) {
                    return Value::Size(Size::symbol(name));
                }
                if let Some(Size::Int(n)) = super::heads::static_stride(name) {
                    return Value::Int(n);
                }
                if let Some(help) = self.calling(name) {
                    let problem = Problem::new(format!("`{name}` is a function, and a value is needed here"));
                    return self.complain(span, problem.help(help));
                }
                let callers = self.callers.iter().flatten().filter(|_| self.home.function.is_none());
                let all = callers.chain(&self.scope);
                let mut known = BTreeSet::new();
                let names: Vec<&str> =
                    all.map(|(name, _)| name.as_str()).filter(|name| known.insert(*name)).collect();
                if let Some(function) = &self.home.function {
                    let problem = Problem::new(format!("`{name}` is not defined in `{function}`"));
                    let help = advice::variable_of_device(name, &names);
                    return self.complain(span, problem.help(help));
                }
                let at = if self.in_kernel { "in this kernel" } else { "here" };
                let problem = Problem::new(format!("`{name}` is not defined {at}"));
                let help = advice::variable(name, &names, self.in_kernel);
                self.complain(span, problem.help(help))
            }
        }
    }

    /// A closure that calls the function of this name.
    fn calling(&self, name: &str) -> Option<String> {
        let device = self.home.devices.iter().find(|device| device.name.text == name);
        let params: Vec<&str> = match device {
            Some(device) => device.params.iter().map(|param| param.name.text.as_str()).collect(),
            None => {
                let row =
                    FUNCTIONS.iter().find(|row| row.of_numbers && row.name == name && self.in_kernel)?;
                ["x", "y", "z"].into_iter().take(row.most).collect()
            }
        };
        let params = params.join(", ");
        Some(format!("call it, or write a closure that does: |{params}| {name}({params})"))
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
                let problem = Problem::new("the threads of a block have one index, `thread.x`");
                self.complain(
                    field.span,
                    problem
                        .help("a thread layout makes two of it: parallelize(t, layout!((16, 16)), thread.x)"),
                )
            }
            (Value::Tuple(items), _) => match field.text.parse::<usize>().ok().and_then(|n| items.get(n)) {
                Some(item) => item.clone(),
                None => {
                    let problem =
                        Problem::new(format!("a tuple of {} has no `.{}`", items.len(), field.text));
                    let help = match items.len() {
                        0 => "it is empty".to_owned(),
                        1 => "its only entry is `.0`; a mode that an index has dropped has no coordinate: of `x[(0, _)]` there is `at.0`".to_owned(),
                        2 => "its entries are counted from 0: `.0`, `.1`".to_owned(),
                        n => format!("its entries are counted from 0: `.0` to `.{}`", n - 1),
                    };
                    self.complain(field.span, problem.help(help))
                }
            },
            (Value::Poison, _) => Value::Poison,
            (other, _) => {
                let problem = Problem::new(format!("{} has no field `{}`", other.kind(), field.text));
                let help = match &other {
                    Value::View(_) if advice::elsewhere(&field.text).is_some() => {
                        advice::elsewhere(&field.text).unwrap_or_default()
                    }
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
            (Value::View(view), _) if self.is_outside(&view, index) => Value::Poison,
            (Value::View(view), at) => {
                let at = self.indices(at, index.span);
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
            (Value::Tuple(items), Value::Int(n)) => {
                let has = count(items.len(), "value");
                let problem = Problem::new(format!("a list of {has}, counted from 0, has no number {n}"));
                self.complain(index.span, problem.help(format!("the last is {}", items.len() as i64 - 1)))
            }
            (Value::Tuple(_), at) if self.is_integer(&at) => {
                let problem = Problem::new("which value of a list this is must be known while compiling");
                let help = "write a loop over all of them, `for x in xs { … }`, or `for i in unroll(0..xs.len())` with xs[i] in it; an `if` in it may choose at run time";
                self.complain(index.span, problem.help(help))
            }
            (other, _) => {
                let problem = Problem::new(format!("{} cannot be indexed like this", other.kind()));
                let help = "entries of a tuple are counted from 0: `.0`, `.1`; tensors are indexed by one entry for each mode";
                self.complain(base.span, problem.help(help))
            }
        }
    }

    /// Reports a literal index that is out of the tile in every launch. Computed numbers, as in an unrolled loop, may be
    /// out of it: such elements are 0.
    fn is_outside(&mut self, view: &View, index: &Expr) -> bool {
        let entries = match &index.kind {
            ExprKind::Tuple(entries) => &entries[..],
            _ => std::slice::from_ref(index),
        };
        if entries.len() != view.rank() {
            return false;
        }
        for (mode, entry) in entries.iter().enumerate() {
            let (sign, of) = match &entry.kind {
                ExprKind::Unary(Unary::Neg, of) => (-1, &of.kind),
                of => (1, of),
            };
            let &ExprKind::Int(number) = of else { continue };
            let (name, number) = (&view.name, sign * number);
            let extent = view.layout.mode(mode).ok().and_then(|mode| mode.size().ok());
            if number >= 0 && extent.is_none_or(|extent| number < extent) {
                continue;
            }
            let (has, last) = match extent {
                Some(extent) => (
                    format!(
                        "`{name}` has {} along mode {mode}, numbered from 0",
                        count(extent as usize, "element")
                    ),
                    (extent - 1).to_string(),
                ),
                None => (
                    format!("elements of `{name}` along mode {mode} are numbered from 0"),
                    format!("{name}.size({mode}) - 1"),
                ),
            };
            let problem = Problem::new(format!("{has}, and this is {number}"));
            let help = format!(
                "the last is {last}; elements beside a tile are those of shift(…), or of another tile"
            );
            self.complain(entry.span, problem.help(help));
            return true;
        }
        false
    }

    fn cast(&mut self, inner: &Expr, to: &Name) -> Value {
        self.naming.clear();
        let value = match inner.kind {
            // A number of elements, which may be larger than the kernel's own.
            ExprKind::Int(n) if matches!(&*to.text, "i64" | "u64") => {
                Value::Number(Scalar::named(n, Elem::I64))
            }
            _ => self.unsettled(inner),
        };
        let integers = ["usize", "i64", "u64", "i32", "u32"].contains(&to.text.as_str());
        let is_size = matches!(value, Value::Size(_)) && to.text == "u32";
        if integers
            && !self.in_closure
            && !is_size
            && let Some(value) = self.cast_integer(&value, &to.text, inner.span)
        {
            return value;
        }
        let Some(elem) = self.elem(to) else {
            return Value::Poison;
        };
        let value = self.met(value);
        if elem == Elem::Bool {
            return self.cast_condition(value, inner.span);
        }
        let of_tile =
            self.of_tiles(&[&value], |run, [number]| run.scalar(typing::cast(elem, number), inner.span, &[]));
        match (of_tile, value) {
            (Some(made), _) => made,
            (_, Value::Poison) => Value::Poison,
            (_, value) => match value.as_number() {
                Some(number) => self.scalar(typing::cast(elem, number), inner.span, &[]),
                None => {
                    let problem = Problem::new(format!("{} cannot be cast", value.kind()));
                    let help = match value.is_coordinates() {
                        true => advice::PLACE,
                        false => "elements are cast inside `map`: map(x, |x| x as f32)",
                    };
                    self.complain(inner.span, problem.help(help))
                }
            },
        }
    }

    /// A condition is a `bool`; of a number Rust makes none either.
    fn cast_condition(&mut self, value: Value, span: Span) -> Value {
        let is_condition = match &value {
            Value::Test(_) | Value::Bool(_) | Value::Poison => true,
            Value::Number(number) => number.ty == Some(Type::Condition),
            Value::Elements(of) => of.number.ty == Some(Type::Condition),
            Value::View(view) => self.builder.elem(view) == Elem::Bool,
            _ => false,
        };
        if is_condition {
            return value;
        }
        let problem = Problem::new(format!("{} is not a condition", value.kind()));
        self.complain(span, problem.help("compare it, as in Rust: `x != 0`"))
    }

    /// An integer as another type of integers is itself, with three exceptions: unsigned types have no negative numbers,
    /// an element of `u32` may not be an `i32`, and a 64-bit integer among elements keeps its type.
    fn cast_integer(&mut self, value: &Value, to: &str, span: Span) -> Option<Value> {
        let (value, of) = match value {
            Value::Int(_) | Value::Size(_) | Value::Index(_) => (value.clone(), None),
            Value::View(view) if integer::is_one(view) => {
                let elem = self.builder.elem(view);
                if to == "u32" && elem.is_float() || to == "u64" || elem.bits() > 32 || elem == Elem::Bool {
                    return None;
                }
                (self.take(&view.clone(), Purpose::Value, span), Some(elem))
            }
            _ => return None,
        };
        let wraps = |at: &Affine| match to {
            "u32" => (of.is_some() || self.builder.program().range(at).lo < 0).then_some(Elem::U32),
            "i32" => (of == Some(Elem::U32)).then_some(Elem::I32),
            "i64" => Some(Elem::I64),
            "u64" => Some(Elem::U64),
            _ => None,
        };
        Some(match value {
            Value::Index(at) => match wraps(&at) {
                Some(elem) => {
                    let expr = tile::Expr::Index(Box::new(at)).cast(elem);
                    Value::Number(Scalar::new(expr, elem))
                }
                None => Value::Index(at),
            },
            value => value,
        })
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

/// The constants of `f32::consts`.
const CONSTANTS: &[(&str, f64)] = &[
    ("PI", PI),
    ("TAU", TAU),
    ("E", E),
    ("SQRT_2", SQRT_2),
    ("FRAC_1_SQRT_2", FRAC_1_SQRT_2),
    ("FRAC_PI_2", FRAC_PI_2),
    ("FRAC_PI_4", FRAC_PI_4),
    ("FRAC_1_PI", FRAC_1_PI),
    ("FRAC_2_PI", FRAC_2_PI),
    ("LN_2", LN_2),
    ("LN_10", LN_10),
    ("LOG2_E", LOG2_E),
    ("LOG10_E", LOG10_E),
];

/// `f32::INFINITY`, `i32::MAX`, `T::MIN` of a type parameter, `f32::consts::PI` and their like, with the types that they name.
fn special(path: &str, parameter: impl Fn(&str) -> Option<Elem>) -> Option<(Elem, Value)> {
    let mut parts = path.rsplit("::").map(str::trim);
    let (name, mut of) = (parts.next()?, parts.next()?);
    let is_constant = of == "consts";
    if is_constant {
        of = parts.next().unwrap_or("f64");
    }
    let elem = Elem::named(of).or_else(|| parameter(of))?;
    if is_constant {
        let (_, value) = CONSTANTS.iter().find(|(known, _)| *known == name)?;
        return elem.is_float().then_some((elem, Value::Float(*value)));
    }
    if !elem.is_float() {
        let (least, most) = number::range(elem);
        let limit = match name {
            "MIN" => least,
            "MAX" => most,
            _ => return None,
        };
        return Some((
            elem,
            match i64::try_from(limit) {
                Ok(limit) => Value::Int(limit),
                Err(_) => Value::Number(Scalar::named(Number::Int(limit), elem)),
            },
        ));
    }
    let number = match name {
        "INFINITY" => f64::INFINITY,
        "NEG_INFINITY" => f64::NEG_INFINITY,
        "NAN" => f64::NAN,
        "MAX" => number::greatest(elem),
        "MIN" => -number::greatest(elem),
        _ => return None,
    };
    Some((elem, Value::Float(number)))
}
