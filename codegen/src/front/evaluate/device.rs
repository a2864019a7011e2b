//! Functions that kernels share, of numbers and of tiles: inlined where they are called. Functions of numbers are checked once
//! where they are defined.

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{Arg, Device, Expr, ExprKind, Span};
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
    if device.is_of_tiles() {
        // Its effect depends on the kinds of its arguments.
        if device.body.calls(&device.name.text).is_some() {
            run.complain(device.name.span, recursive(&device.name.text));
        }
        return run.diagnostics;
    }
    run.types = device.types.iter().map(|name| (name.text.clone(), Elem::F32)).collect();
    for (n, param) in device.params.iter().enumerate() {
        run.is_name("a parameter", &param.name.text, param.name.span);
        let elem = run.elem(&param.elem);
        let value = |elem| Value::Number(Scalar::new(tile::Expr::In(n as u8), elem));
        run.scope.push((param.name.text.clone(), elem.map_or(Value::Poison, value)));
    }
    let result = run.elem(&device.result);
    if let Some(span) = device.body.calls(&device.name.text)
        && !device.devices.iter().any(|used| used.name.text == device.name.text)
    {
        run.complain(span, recursive(&device.name.text));
        return run.diagnostics;
    }
    run.in_closure = true;
    let value = run.expr(&device.body);
    if let Some(elem) = result {
        run.given(&value, elem, last(&device.body));
    }
    run.diagnostics
}

/// A function that calls itself.
pub fn recursive(name: &str) -> Problem {
    Problem::new(format!("`{name}` calls itself, and calls are inlined"))
        .help("write the steps one by one, or a loop of the kernel that calls it for each")
}

impl Evaluator {
    /// A call, whose arguments are numbers of the parameters' types, or tiles.
    pub(super) fn device_call(&mut self, device: &Device, args: &[Arg], span: Span) -> Value {
        if let Some(name) = args.iter().find_map(|arg| arg.name.as_ref()) {
            let problem =
                Problem::new(format!("`{}` has no argument named `{}`", device.name.text, name.text));
            return self
                .complain(name.span, problem.help("write values alone, in the order of its parameters"));
        }
        let mut values: Vec<Value> = args.iter().map(|arg| self.unsettled(&arg.value)).collect();
        if values.len() != device.params.len() {
            let takes = count(device.params.len(), "number");
            let problem =
                Problem::new(format!("`{}` takes {takes}, and is given {}", device.name.text, values.len()));
            return self.complain(span, problem.help(format!("it is `{}`", head(device))));
        }
        // With tiles a function of numbers is called for each of their elements.
        let of_tiles = device.is_of_tiles();
        let tiles = if of_tiles { None } else { self.joined(&values.iter().collect::<Vec<_>>()) };
        let ins = tiles.map(|(ins, numbers)| {
            values = numbers.into_iter().map(Value::Number).collect();
            ins
        });
        let types = device.types_of(&values);
        let elem = |name: &str| {
            let own = types.iter().find(|(known, _)| known == name).map(|(_, elem)| *elem);
            own.or_else(|| Elem::named(name)).unwrap_or(Elem::F32)
        };
        let result = elem(&device.result.text);
        let mut scope = Vec::new();
        for ((value, arg), param) in values.iter().zip(args).zip(&device.params) {
            let at = arg.value.span;
            let value = match param.elem.text == TILE {
                true => match self.settled(value.clone(), &[], at) {
                    value @ (Value::View(_) | Value::Poison) => value,
                    other => {
                        let problem =
                            format!("`{}` takes a tile here, and this is {}", device.name.text, other.kind());
                        self.complain(at, Problem::new(problem).help(format!("it is `{}`", head(device))))
                    }
                },
                false => self.taken(device, value, elem(&param.elem.text), at),
            };
            scope.push((param.name.text.clone(), value));
        }
        if scope.iter().any(|(_, value)| matches!(value, Value::Poison)) {
            return Value::Poison;
        }
        // It sees its parameters and no names of its caller, and its mistakes are about the call.
        self.callers.push(std::mem::replace(&mut self.scope, scope));
        let devices = std::mem::replace(&mut self.devices, device.devices.clone());
        let called = self.called_at;
        self.called_at = called.or(Some(span));
        let in_closure = std::mem::replace(&mut self.in_closure, !of_tiles);
        let captured = self.captured.take();
        let types = std::mem::replace(&mut self.types, types);
        let value = self.expr(&device.body);
        let value = if device.result.text == TILE { value } else { self.given(&value, result, span) };
        self.types = types;
        self.captured = captured;
        self.in_closure = in_closure;
        self.called_at = called;
        self.devices = devices;
        self.scope = self.callers.pop().unwrap_or_default();
        self.naming.clear();
        match ins {
            Some(ins) => self.unsettled_tile(ins, value),
            None => value,
        }
    }

    /// An argument as a number of its parameter's type.
    fn taken(&mut self, device: &Device, value: &Value, elem: Elem, at: Span) -> Value {
        let name = &device.name.text;
        self.of_type(value, elem, at, |other| {
            let problem = Problem::new(format!("`{name}` takes numbers, and this is {}", other.kind()));
            problem.help(match other {
                Value::View(view) => format!("call it for each element: map({}, |x| {name}(x))", view.name),
                _ => format!("it is `{}`", head(device)),
            })
        })
    }

    /// The value of a function, which is of its result's type.
    fn given(&mut self, value: &Value, elem: Elem, at: Span) -> Value {
        self.of_type(value, elem, at, |other| {
            Problem::new(format!("a function for kernels gives a number, and this is {}", other.kind()))
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

/// The type of a parameter that is a tile, and of a result that is one.
const TILE: &str = "View";

impl Device {
    /// Has it tiles as parameters, or as its result?
    fn is_of_tiles(&self) -> bool {
        self.result.text == TILE || self.params.iter().any(|param| param.elem.text == TILE)
    }

    /// What its type parameters are in a call: the types of the first numbers that have one.
    fn types_of(&self, values: &[Value]) -> Vec<(String, Elem)> {
        let mut all: Vec<(String, Elem)> = Vec::new();
        for (param, value) in self.params.iter().zip(values) {
            let name = &param.elem.text;
            let known = all.iter().any(|(known, _)| known == name);
            let ty = value.as_number().and_then(|number| number.ty);
            let is_generic = self.types.iter().any(|of| of.text == *name);
            if let (true, Some(Type::Elem(elem))) = (is_generic && !known, ty) {
                all.push((name.clone(), elem));
            }
        }
        all
    }
}

/// How it is declared.
fn head(device: &Device) -> String {
    let params: Vec<_> =
        device.params.iter().map(|param| format!("{}: {}", param.name.text, param.elem.text)).collect();
    format!("fn {}({}) -> {}", device.name.text, params.join(", "), device.result.text)
}

/// Where the value of a body stands.
fn last(body: &Expr) -> Span {
    match &body.kind {
        ExprKind::Block { value, .. } => last(value),
        _ => body.span,
    }
}
