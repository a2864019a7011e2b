//! Functions that kernels share: inlined where they are called. Functions of numbers are checked once, where they are defined.
//! Functions of tiles, integers, layouts, closures and tuples of these are checked where they are called.

use std::sync::Arc;

use super::changed::Changes;
use super::value::Value;
use super::{Evaluator, Home};
use crate::source::ast::{Arg, Device, DeviceType, Expr, ExprKind, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, count};
use crate::tile;
use crate::values::elem::Elem;
use crate::values::typing::{Scalar, Type};

/// The mistakes of a function, at its own tokens.
pub fn device(device: &Device) -> Vec<Diagnostic> {
    let mut run = Evaluator::new(&device.name.text);
    run.is_name("a function", &device.name.text, device.name.span);
    let names: Vec<_> = device.params.iter().map(|param| (&param.name, "parameter")).collect();
    run.distinct(&names);
    if !device.is_of_numbers() {
        // Its effect depends on the kinds of its arguments.
        let changes = Changes::of(&device.body, Some(&device.value), &device.devices);
        for param in &device.params {
            if let (Some(changing), true) = (param.ty.changing(), changes.changes(&param.name.text)) {
                let message = format!("`{}` is changed here", param.name.text);
                let help = format!("declare it as `{}: {}`", param.name.text, declared(&changing));
                run.complain(param.name.span, Problem::new(message).help(help));
            }
        }
        let calls = device.body.iter().find_map(|stmt| stmt.calls(&device.name.text));
        if calls.or_else(|| device.value.calls(&device.name.text)).is_some() {
            run.complain(device.name.span, recursive(&device.name.text));
        }
        return run.diagnostics;
    }
    for param in &device.params {
        run.is_name("a parameter", &param.name.text, param.name.span);
    }
    // A type parameter stands for any type of numbers. Some operations take integers alone.
    let choices = 1usize << device.types.len().min(4);
    let mut all = (0..choices).map(|integers| of_numbers(device, integers));
    let floats = all.next().unwrap_or_default();
    match floats.is_empty() || all.any(|other| other.is_empty()) {
        true => run.diagnostics,
        false => run.diagnostics.into_iter().chain(floats).collect(),
    }
}

/// The mistakes of a function of numbers; each type parameter is `f32`, or `i32` where its bit is set in `integers`.
fn of_numbers(device: &Device, integers: usize) -> Vec<Diagnostic> {
    let mut run = Evaluator::new(&device.name.text);
    let elem = |at: usize| if integers >> at & 1 == 1 { Elem::I32 } else { Elem::F32 };
    let types = device.types.iter().enumerate().map(|(at, name)| (name.text.clone(), elem(at)));
    run.home = home(device, types.collect());
    for (n, param) in device.params.iter().enumerate() {
        let DeviceType::Number(name) = &param.ty else { continue };
        let elem = run.elem(name);
        let value = |elem| Value::Number(Scalar::new(tile::Expr::In(n as u8), elem));
        run.scope.push((param.name.text.clone(), elem.map_or(Value::Poison, value)));
    }
    let result = match &device.result {
        DeviceType::Number(name) => run.elem(name),
        _ => None,
    };
    if let Some(span) = device.value.calls(&device.name.text)
        && !device.devices.iter().any(|used| used.name.text == device.name.text)
    {
        run.complain(span, recursive(&device.name.text));
        return run.diagnostics;
    }
    // Requirements on the kernel are checked where the kernel calls the function.
    run.is_unsafe = true;
    run.in_closure = true;
    let value = run.expr(&device.value);
    if let Some(elem) = result {
        run.given(&value, elem, last(&device.value));
    }
    run.diagnostics
}

/// A function's text, with these types.
fn home(device: &Device, types: Vec<(String, Elem)>) -> Arc<Home> {
    Arc::new(Home { function: Some(device.name.text.clone()), devices: device.devices.clone(), types })
}

/// A function that calls itself.
pub fn recursive(name: &str) -> Problem {
    Problem::new(format!("`{name}` calls itself, and calls are inlined"))
        .help("write the steps one by one, or a loop of the kernel that calls it for each")
}

impl Evaluator {
    /// A call, whose arguments are of the parameters' types.
    pub(super) fn device_call(&mut self, device: &Device, types: &[Name], args: &[Arg], span: Span) -> Value {
        if let Some(name) = args.iter().find_map(|arg| arg.name.as_ref()) {
            let problem =
                Problem::new(format!("`{}` has no argument named `{}`", device.name.text, name.text));
            return self
                .complain(name.span, problem.help("write values alone, in the order of its parameters"));
        }
        let mut values: Vec<Value> = args.iter().map(|arg| self.unsettled(&arg.value)).collect();
        if values.len() != device.params.len() {
            let what = if device.is_of_numbers() { "number" } else { "value" };
            let takes = count(device.params.len(), what);
            let problem =
                Problem::new(format!("`{}` takes {takes}, and is given {}", device.name.text, values.len()));
            return self.complain(span, problem.help(format!("it is `{}`", head(device))));
        }
        // With tiles a function of numbers is called for each of their elements.
        let of_numbers = device.is_of_numbers();
        let of_elements = of_numbers || device.is_of_elements();
        let items: Vec<&Value> = values.iter().flat_map(Value::items).collect();
        let tiles = if of_elements { self.joined(&items) } else { None };
        let ins = tiles.map(|(ins, numbers)| {
            let mut numbers = numbers.into_iter().map(Value::Number);
            values = values.iter().map(|value| value.with_items(&mut numbers)).collect();
            ins
        });
        let Some(types) = self.types_of(device, types, &values, span) else { return Value::Poison };
        let mut scope = Vec::new();
        for ((value, arg), param) in values.iter().zip(args).zip(&device.params) {
            let value = self.taken(device, value, &param.ty, &types, arg.value.span);
            scope.push((param.name.text.clone(), value));
        }
        if scope.iter().any(|(_, value)| matches!(value, Value::Poison)) {
            return Value::Poison;
        }
        // It sees its parameters and no names of its caller, and its mistakes are about the call.
        self.callers.push(std::mem::replace(&mut self.scope, scope));
        let fixed = std::mem::take(&mut self.fixed);
        let home = std::mem::replace(&mut self.home, home(device, types.clone()));
        let called = self.called_at;
        self.called_at = called.or(Some(span));
        let in_closure = std::mem::replace(&mut self.in_closure, of_numbers || ins.is_some());
        let changes = Changes::of(&device.body, Some(&device.value), &device.devices);
        let changes = std::mem::replace(&mut self.changes, changes);
        let around = std::mem::take(&mut self.around);
        let captured = self.captured.take();
        for stmt in &device.body {
            self.at(stmt.span);
            self.statement(stmt);
            if !self.goes_on(1, span) {
                break;
            }
        }
        self.at(span);
        let value = match device.value.kind {
            ExprKind::Tuple(ref all) if all.is_empty() => Value::Unit,
            _ => self.expr(&device.value),
        };
        let value = match &device.result {
            DeviceType::Number(name) if of_numbers => self.given(&value, elem_of(name, &types), span),
            DeviceType::Tuple(all) if all.is_empty() => value,
            result => self.returned(device, result, value, &types, span),
        };
        self.around = around;
        self.changes = changes;
        self.captured = captured;
        self.in_closure = in_closure;
        self.called_at = called;
        self.home = home;
        self.scope = self.callers.pop().unwrap_or_default();
        self.fixed = fixed;
        self.naming.clear();
        match ins {
            Some(ins) => self.unsettled_tile(ins, value),
            None => value,
        }
    }

    /// An argument as a value of its parameter's type.
    fn taken(
        &mut self,
        device: &Device,
        value: &Value,
        ty: &DeviceType,
        types: &[(String, Elem)],
        at: Span,
    ) -> Value {
        let name = &device.name.text;
        let takes_tiles = !device.is_of_numbers();
        let value = match (ty, value) {
            (_, Value::Poison) => return Value::Poison,
            (DeviceType::Number(elem), value) => {
                let elem = elem_of(elem, types);
                return self.of_type(value, elem, at, |other| {
                    let problem =
                        Problem::new(format!("`{name}` takes numbers, and this is {}", other.kind()));
                    problem.help(match (other, &device.params[..]) {
                        (Value::View(view), [_]) => {
                            format!("call it for each element: map({}, |x| {name}(x))", view.name)
                        }
                        (Value::View(_), _) if takes_tiles => {
                            format!("it is `{}`; a parameter that may be a tile is a `View`", head(device))
                        }
                        _ => format!("it is `{}`", head(device)),
                    })
                });
            }
            (DeviceType::Tile { .. }, value) => match self.settled(value.clone(), &[], at) {
                value @ (Value::View(_) | Value::Poison) => return value,
                other => other,
            },
            (DeviceType::Integer, value) => match self.coordinates(value.clone(), at) {
                value @ (Value::Int(_) | Value::Size(_) | Value::Index(_) | Value::Poison) => return value,
                other => other,
            },
            (DeviceType::Layout, Value::Layout(_)) | (DeviceType::Closure, Value::Closure(_)) => {
                return value.clone();
            }
            (DeviceType::Tuple(all), Value::Tuple(values)) if all.len() == values.len() => {
                let one = |(ty, value)| self.taken(device, value, ty, types, at);
                let values: Vec<Value> = all.iter().zip(values).map(one).collect();
                return match values.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(values),
                };
            }
            (_, value) => value.clone(),
        };
        let wanted = wanted(ty);
        let problem = format!("`{name}` takes {wanted} here, and this is {}", value.kind());
        self.complain(at, Problem::new(problem).help(format!("it is `{}`", head(device))))
    }

    /// The types of a function's type parameters: from the call, otherwise from the first numbers with a type.
    /// `None` if an error has been reported.
    fn types_of(
        &mut self,
        device: &Device,
        given: &[Name],
        values: &[Value],
        span: Span,
    ) -> Option<Vec<(String, Elem)>> {
        let mut all: Vec<(String, Elem)> = Vec::new();
        if !given.is_empty() && given.len() != device.types.len() {
            let (has, given) = (count(device.types.len(), "type"), given.len());
            let problem = format!("`{}` is generic in {has}, and {given} are given", device.name.text);
            self.complain(span, Problem::new(problem).help(format!("it is `{}`", head(device))));
            return None;
        }
        for (own, name) in device.types.iter().zip(given) {
            all.push((own.text.clone(), self.elem(name)?));
        }
        let numbers = device.params.iter().zip(values).flat_map(|(param, value)| {
            let (names, items) = (param.ty.numbers(), value.items());
            names.into_iter().zip(items).filter(|_| param.ty.is_of_numbers())
        });
        for (Name { text: name, .. }, value) in numbers {
            let known = all.iter().any(|(known, _)| known == name);
            let ty = value.as_number().and_then(|number| number.ty);
            let is_generic = device.types.iter().any(|of| of.text == *name);
            if let (true, Some(Type::Elem(elem))) = (is_generic && !known, ty) {
                all.push((name.clone(), elem));
            }
        }
        let is_param = |own: &Name| {
            device
                .params
                .iter()
                .any(|param| matches!(&param.ty, DeviceType::Number(of) if of.text == own.text))
        };
        let is_known = |own: &Name| all.iter().any(|(known, _)| *known == own.text);
        // Literals alone are of `f32`.
        let open =
            device.types.iter().find(|own| !(is_known(own) || device.is_of_numbers() && is_param(own)));
        if let Some(open) = open {
            let name = &device.name.text;
            let problem = format!("this call does not determine the type `{}` of `{name}`", open.text);
            let types: Vec<_> = device.types.iter().map(|_| "f32").collect();
            let help = format!("write it: {name}::<{}>(…)", types.join(", "));
            self.complain(span, Problem::new(problem).help(help));
            return None;
        }
        Some(all)
    }

    /// The value of a function, which is of its result's type.
    fn given(&mut self, value: &Value, elem: Elem, at: Span) -> Value {
        self.of_type(value, elem, at, |other| {
            Problem::new(format!("a `#[device]` function returns a number, and this is {}", other.kind()))
                .help("end it with arithmetic on its parameters")
        })
    }

    /// A result as a value of its declared type. A tile of one element is a number too.
    fn returned(
        &mut self,
        device: &Device,
        ty: &DeviceType,
        value: Value,
        types: &[(String, Elem)],
        at: Span,
    ) -> Value {
        let value = match (ty, value) {
            (_, Value::Poison) => return Value::Poison,
            (DeviceType::Number(name), value) => {
                let elem = elem_of(name, types);
                let is_integer = matches!(value, Value::Index(_) | Value::Size(_)) && elem.is_integer();
                let is_condition = matches!(value, Value::Test(_)) && elem == Elem::Bool;
                if is_integer || is_condition || self.is_one_of(&value, elem) {
                    return value;
                }
                if value.as_number().is_some() {
                    return self.given(&value, elem, at);
                }
                value
            }
            (DeviceType::Tile { .. }, value @ (Value::View(_) | Value::Elements(_) | Value::Index(_)))
            | (DeviceType::Layout, value @ Value::Layout(_))
            | (DeviceType::Closure, value @ Value::Closure(_)) => return value,
            (DeviceType::Integer, value) => match self.coordinates(value, at) {
                value @ (Value::Int(_) | Value::Size(_) | Value::Index(_) | Value::Poison) => return value,
                other => other,
            },
            (DeviceType::Tuple(all), Value::Tuple(values)) if all.len() == values.len() => {
                let one = |(ty, value)| self.returned(device, ty, value, types, at);
                return Value::Tuple(all.iter().zip(values).map(one).collect());
            }
            (_, value) => value,
        };
        let name = &device.name.text;
        let returns = match ty {
            DeviceType::Number(name) => elem_of(name, types).to_string(),
            ty => wanted(ty).into(),
        };
        let kind = match &value {
            Value::View(view) => format!("{} of {}", value.kind(), self.builder.elem(view)),
            value => value.kind(),
        };
        let problem = Problem::new(format!("`{name}` returns {returns} here, and this is {kind}"));
        let help = match (ty, &value) {
            (DeviceType::Number(_) | DeviceType::Integer, Value::View(_) | Value::Elements(_)) => {
                format!("it is `{}`; a result that is a tile is a `View`", head(device))
            }
            _ => format!("it is `{}`", head(device)),
        };
        self.complain(at, problem.help(help))
    }

    /// Is it a tile of one element of this type?
    fn is_one_of(&self, value: &Value, elem: Elem) -> bool {
        match value {
            Value::View(view) => super::integer::is_one(view) && self.builder.elem(view) == elem,
            Value::Elements(of) => {
                let ty = if elem == Elem::Bool { Type::Condition } else { Type::Elem(elem) };
                of.ins.iter().all(super::integer::is_one) && of.number.ty == Some(ty)
            }
            _ => false,
        }
    }

    /// A value as a number of a type.
    fn of_type(
        &mut self,
        value: &Value,
        elem: Elem,
        at: Span,
        other: impl FnOnce(&Value) -> Problem,
    ) -> Value {
        match (value, value.as_number()) {
            (Value::Poison, _) => Value::Poison,
            (_, Some(number)) => match number.into_elem(elem) {
                Ok(expr) => Value::Number(Scalar::new(expr, elem)),
                Err(problem) => self.complain(at, problem),
            },
            (value, None) => self.complain(at, other(value)),
        }
    }
}

/// The type of this name, also of a type parameter.
fn elem_of(name: &Name, types: &[(String, Elem)]) -> Elem {
    let own = types.iter().find(|(known, _)| *known == name.text).map(|(_, elem)| *elem);
    own.or_else(|| Elem::named(&name.text)).unwrap_or(Elem::F32)
}

/// How it is declared.
fn head(device: &Device) -> String {
    let params: Vec<_> =
        device.params.iter().map(|param| format!("{}: {}", param.name.text, declared(&param.ty))).collect();
    let types: Vec<_> = device.types.iter().map(|name| name.text.as_str()).collect();
    let types = if types.is_empty() { String::new() } else { format!("<{}>", types.join(", ")) };
    let head = format!("fn {}{types}({})", device.name.text, params.join(", "));
    match &device.result {
        DeviceType::Tuple(all) if all.is_empty() => head,
        result => format!("{head} -> {}", declared(result)),
    }
}

/// A type in the words of a message.
fn wanted(ty: &DeviceType) -> &'static str {
    match ty {
        DeviceType::Number(_) => "a number",
        DeviceType::Tile { .. } => "a tile",
        DeviceType::Integer => "an integer",
        DeviceType::Layout => "a layout",
        DeviceType::Closure => "a closure",
        DeviceType::Tuple(_) => "a tuple",
    }
}

/// A type as it is written.
fn declared(ty: &DeviceType) -> String {
    match ty {
        DeviceType::Number(name) => name.text.clone(),
        DeviceType::Tile { mutable: false } => "View".into(),
        DeviceType::Tile { mutable: true } => "&mut View".into(),
        DeviceType::Integer => "usize".into(),
        DeviceType::Layout => "Arrangement".into(),
        DeviceType::Closure => "fn(…)".into(),
        DeviceType::Tuple(all) => format!("({})", all.iter().map(declared).collect::<Vec<_>>().join(", ")),
    }
}

/// The span of a body's value.
fn last(body: &Expr) -> Span {
    match &body.kind {
        ExprKind::Block { value, .. } => last(value),
        _ => body.span,
    }
}
