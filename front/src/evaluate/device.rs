//! Functions that kernels share: inlined where they are called. Functions of numbers are checked once, where they are defined.
//! Functions of tiles, integers, layouts, closures and tuples of these are checked where they are called.

use super::Evaluator;
use super::changed::Changes;
use super::value::Value;
use crate::source::ast::{Arg, Device, DeviceType, Expr, ExprKind, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, count};
use crate::tile;
use crate::values::elem::Elem;
use crate::values::typing::{Scalar, Type};

/// The mistakes of a function, at its own tokens.
pub fn device(device: &Device) -> Vec<Diagnostic> {
    let mut run = Evaluator::new(&device.name.text);
    run.devices.clone_from(&device.devices);
    run.is_name("a function", &device.name.text, device.name.span);
    let names: Vec<_> = device.params.iter().map(|param| (&param.name, "parameter")).collect();
    run.distinct(&names);
    if !device.is_of_numbers() {
        // Its effect depends on the kinds of its arguments.
        let changes = Changes::of(&device.body, Some(&device.value), &device.devices);
        for param in &device.params {
            if param.ty == (DeviceType::Tile { mutable: false }) && changes.changes(&param.name.text) {
                let message = format!("`{}` is changed here", param.name.text);
                let help = format!("declare it as `{}: &mut View`", param.name.text);
                run.complain(param.name.span, Problem::new(message).help(help));
            }
        }
        let calls = device.body.iter().find_map(|stmt| stmt.calls(&device.name.text));
        if calls.or_else(|| device.value.calls(&device.name.text)).is_some() {
            run.complain(device.name.span, recursive(&device.name.text));
        }
        return run.diagnostics;
    }
    run.types = device.types.iter().map(|name| (name.text.clone(), Elem::F32)).collect();
    for (n, param) in device.params.iter().enumerate() {
        run.is_name("a parameter", &param.name.text, param.name.span);
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
        let tiles = if of_elements { self.joined(&values.iter().collect::<Vec<_>>()) } else { None };
        let ins = tiles.map(|(ins, numbers)| {
            values = numbers.into_iter().map(Value::Number).collect();
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
        let devices = std::mem::replace(&mut self.devices, device.devices.clone());
        let called = self.called_at;
        self.called_at = called.or(Some(span));
        let in_closure = std::mem::replace(&mut self.in_closure, of_numbers || ins.is_some());
        let changes = Changes::of(&device.body, Some(&device.value), &device.devices);
        let changes = std::mem::replace(&mut self.changes, changes);
        let around = std::mem::take(&mut self.around);
        let captured = self.captured.take();
        let outer = std::mem::replace(&mut self.types, types.clone());
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
        let takes_numbers = device.params.iter().all(|param| matches!(param.ty, DeviceType::Number(_)));
        let value = match (&device.result, value) {
            (DeviceType::Number(name), value) if of_numbers => {
                let elem = elem_of(name, &types);
                self.given(&value, elem, span)
            }
            (DeviceType::Tuple(all), Value::Tuple(values)) if takes_numbers && all.len() == values.len() => {
                let typed = all.iter().zip(values).map(|(ty, value)| match ty {
                    DeviceType::Number(name) if value.as_number().is_some() => {
                        let elem = elem_of(name, &types);
                        self.given(&value, elem, span)
                    }
                    _ => value,
                });
                Value::Tuple(typed.collect())
            }
            (_, value) => value,
        };
        let types = outer;
        self.around = around;
        self.changes = changes;
        self.types = types;
        self.captured = captured;
        self.in_closure = in_closure;
        self.called_at = called;
        self.devices = devices;
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
        let value = match (ty, value) {
            (_, Value::Poison) => return Value::Poison,
            (DeviceType::Number(elem), value) => {
                let elem = elem_of(elem, types);
                return self.of_type(value, elem, at, |other| {
                    let problem =
                        Problem::new(format!("`{name}` takes numbers, and this is {}", other.kind()));
                    problem.help(match other {
                        Value::View(view) => {
                            format!("call it for each element: map({}, |x| {name}(x))", view.name)
                        }
                        _ => format!("it is `{}`", head(device)),
                    })
                });
            }
            (DeviceType::Tile { .. }, value) => match self.settled(value.clone(), &[], at) {
                value @ (Value::View(_) | Value::Poison) => return value,
                other => other,
            },
            (DeviceType::Integer, Value::Int(_) | Value::Size(_) | Value::Index(_))
            | (DeviceType::Layout, Value::Layout(_))
            | (DeviceType::Closure, Value::Closure(_)) => return value.clone(),
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
        let wanted = match ty {
            DeviceType::Number(_) => "a number",
            DeviceType::Tile { .. } => "a tile",
            DeviceType::Integer => "an integer",
            DeviceType::Layout => "a layout",
            DeviceType::Closure => "a closure",
            DeviceType::Tuple(_) => "a tuple",
        };
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
        for (param, value) in device.params.iter().zip(values) {
            let DeviceType::Number(Name { text: name, .. }) = &param.ty else { continue };
            let known = all.iter().any(|(known, _)| known == name);
            let ty = value.as_number().and_then(|number| number.ty);
            let is_generic = device.types.iter().any(|of| of.text == *name);
            if let (true, Some(Type::Elem(elem))) = (is_generic && !known, ty) {
                all.push((name.clone(), elem));
            }
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
