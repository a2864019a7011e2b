//! Calls of functions and methods.

use super::args::{Args, made_for};
use super::functions::{FUNCTIONS, Function, PROBES};
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::source::ast::{Arg, Expr, ExprKind, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::limits;

impl Evaluator {
    pub(super) fn call(&mut self, function: &Name, types: &[Name], args: &[Arg], span: Span) -> Value {
        let (naming, into) = (std::mem::take(&mut self.naming), self.into.take());
        // A closure bound in the kernel shadows a function of its name, as in Rust.
        if let Some(Value::Closure(closure)) = self.lookup(&function.text).cloned() {
            if let Some(entry) = self.scope.iter().rposition(|(known, _)| *known == function.text)
                && self.callers.is_empty()
            {
                self.uses.used(entry);
            }
            self.naming = naming;
            return self.called(&closure, function, args, span);
        }
        if let Some(device) = self.home.devices.iter().find(|device| device.name.text == function.text) {
            return self.device_call(&device.clone(), types, args, span);
        }
        let Some(row) = FUNCTIONS.iter().find(|row| row.name == function.text) else {
            let problem = Problem::new(format!("kernels have no function `{}`", function.text));
            let help = advice::function(&function.text, self.lookup(&function.text));
            return self.complain(function.span, problem.help(help));
        };
        if PROBES.contains(&row.name) && !self.probes {
            return Value::Unit;
        }
        let mut all = Args {
            call: span,
            name: row.name.into(),
            values: Vec::new(),
            named: Vec::new(),
            constants: args
                .iter()
                .filter(|arg| arg.name.is_none())
                .map(|arg| self.named_constants(&arg.value))
                .collect(),
            types: types.into(),
            naming,
            into,
        };
        for (n, arg) in args.iter().enumerate() {
            self.naming = match (row.name, n, args.get(1)) {
                ("copy", 0, Some(to)) => made_for(&to.value, "value"),
                _ => Vec::new(),
            };
            let read = self.builder.program().read_sizes.len();
            let value = match (&arg.name, &arg.value.kind) {
                (Some(name), _) if row.name == "gemm" && name.text == "with" => self.operations(&arg.value),
                (Some(name), ExprKind::Name(elem)) if name.text == "acc" => {
                    let elem = Name { text: elem.clone(), span: arg.value.span };
                    self.elem(&elem).map_or(Value::Poison, Value::Elem)
                }
                (None, _) if row.of_numbers => self.unsettled(&arg.value),
                _ => self.expr(&arg.value),
            };
            // Launches check conditions with sizes as they are, 0 too.
            if matches!(row.name, "assert" | "at_most" | "at_least") {
                self.builder.forget_sizes(read);
            }
            match &arg.name {
                Some(name) => all.named.push((name.clone(), value, arg.value.span)),
                None => all.values.push((value, arg.value.span)),
            }
        }
        self.naming.clear();
        if all.poisoned() {
            return Value::Poison;
        }
        if all.naming.is_empty() {
            all.naming = all.made_of();
        }
        let allowed = row.named;
        if let Some((name, _, _)) = all.named.iter().find(|(name, ..)| !allowed.contains(&name.text.as_str()))
        {
            let problem = Problem::new(format!("`{}` has no argument named `{}`", row.name, name.text));
            let help = match (did_you_mean(&name.text, allowed.iter().copied()), allowed) {
                _ if advice::named(&name.text).is_some() => {
                    advice::named(&name.text).unwrap_or_default().into()
                }
                (Some(near), _) => near,
                (None, []) => all.usage(),
                (None, _) => format!("its named arguments are {}", allowed.join(", ")),
            };
            return self.complain(name.span, problem.help(help));
        }
        if !self.goes_on(limits::CALL, span) {
            return Value::Poison;
        }
        // The statements of a shared function have the span of its call.
        let spans = all.values.iter().map(|(_, span)| self.called_at.unwrap_or(*span)).collect();
        self.builder.at_call(self.called_at.unwrap_or(span), spans);
        if row.of_numbers
            && let Some(made) = self.of_elements_of(row, &mut all)
        {
            return made;
        }
        self.run(row, &all)
    }

    /// The constants of the kernel that an expression names: itself, or the parts of a tuple.
    fn named_constants(&self, of: &Expr) -> Vec<Option<String>> {
        match &of.kind {
            ExprKind::Tuple(parts) => parts.iter().map(|part| self.named_constant(part)).collect(),
            _ => vec![self.named_constant(of)],
        }
    }

    /// The constant of the kernel that an expression is.
    pub(super) fn named_constant(&self, of: &Expr) -> Option<String> {
        match &of.kind {
            ExprKind::Name(name) if self.constants.contains(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn run(&mut self, row: &Function, all: &Args) -> Value {
        match all.at_most(row.most).and_then(|()| (row.run)(self, all)) {
            Ok(value) => value,
            Err(problem) => {
                let at = problem.arg.map_or(all.call, |arg| all.span(arg));
                self.complain(at, problem)
            }
        }
    }

    /// Notes `max(x, 1)` of a tile of fractions, where 1 could be a mode.
    fn of_a_mode(&mut self, name: &str, values: &[&Value], ins: &[View], call: Span) {
        let (all, [_, Value::Int(mode)]) = (matches!(name, "max" | "min"), values) else { return };
        let of = ins.iter().find(|view| !integer::is_one(view));
        let Some(of) = of.filter(|of| all && self.builder.elem(of).is_float()) else { return };
        if usize::try_from(*mode).is_ok_and(|mode| 0 < mode && mode < of.rank()) {
            let every = if name == "max" { "maximum" } else { "minimum" };
            let message = format!("`{name}` compares each element of `{}` with the number {mode}", of.name);
            let reported = Diagnostic::error(call, message).help(format!(
                "the elements along mode {mode} are combined by {every}({}, {mode}); a number is written with a point, {name}({}, {mode}.0)",
                of.name, of.name
            ));
            self.lints.push(("elementwise", reported));
        }
    }

    /// A function of numbers for each element of tiles; `None` if no argument is a tile, or if it is a function of integers.
    fn of_elements_of(&mut self, row: &Function, all: &mut Args) -> Option<Value> {
        if all.values.iter().all(|(value, _)| self.is_integer(value)) {
            match all.values.iter().find_map(|(value, _)| self.wide(value)) {
                // One element of 64 bits makes all of them elements of its type.
                Some(elem) => {
                    for (value, at) in &mut all.values {
                        let own = std::mem::replace(value, Value::Unit);
                        *value = self.widened(own, elem, *at);
                    }
                }
                None if matches!(row.name, "min" | "max" | "ceil_div") => return None,
                None => {}
            }
        }
        let values: Vec<&Value> = all.values.iter().map(|(value, _)| value).collect();
        let (ins, numbers) = self.joined(&values)?;
        self.of_a_mode(row.name, &values, &ins, all.call);
        for ((value, _), number) in all.values.iter_mut().zip(numbers) {
            *value = Value::Number(number);
        }
        let made = self.run(row, all);
        Some(self.unsettled_tile(ins, made))
    }

    pub(super) fn type_argument(&mut self, args: &Args) -> Result<Elem, Problem> {
        let [name] = &args.types[..] else {
            return Err(Problem::new(format!("`{}` needs an element type", args.name)).help(args.usage()));
        };
        self.elem(name).ok_or_else(Problem::reported)
    }

    pub(super) fn method(&mut self, receiver: &Expr, method: &Name, args: &[Arg], span: Span) -> Value {
        let naming = std::mem::take(&mut self.naming);
        self.into = None;
        let of = self.operand(receiver);
        let values: Vec<Value> = args.iter().map(|arg| self.expr(&arg.value)).collect();
        if matches!(of, Value::Poison) || values.iter().any(|v| matches!(v, Value::Poison)) {
            return Value::Poison;
        }
        let layout = match &of {
            Value::View(view) => Some(view.layout.clone()),
            Value::Layout(layout) => Some(layout.layout().clone()),
            _ => None,
        };
        match (method.text.as_str(), layout, &values[..]) {
            ("size", Some(layout), [Value::Int(mode)]) => {
                let rank = layout.rank();
                let mode = usize::try_from(*mode).ok().and_then(|mode| layout.modes().nth(mode));
                match mode {
                    Some(mode) => match (mode.size(), &mode.leaves().collect::<Vec<_>>()[..]) {
                        (Ok(n), _) => Value::Int(n),
                        (_, [(extent, _)]) => {
                            self.builder.reads_size(*extent);
                            Value::Size(*extent)
                        }
                        (Err(error), _) => self.complain(span, error.into()),
                    },
                    None => {
                        let problem = Problem::new(format!("{} has the modes 0..{rank}", of.kind()));
                        let help = "modes are counted from 0";
                        self.complain(args[0].value.span, problem.help(help))
                    }
                }
            }
            ("size", Some(layout), []) => match layout.size() {
                Ok(n) => Value::Int(n),
                Err(error) => self.complain(span, error.into()),
            },
            ("cosize", Some(layout), []) if matches!(of, Value::Layout(_)) => match layout.cosize() {
                Ok(n) => Value::Int(n),
                Err(error) => self.complain(span, error.into()),
            },
            (_, None, _) if matches!(of, Value::Mma(_)) => {
                let names = args.iter().filter_map(|arg| arg.name.as_ref());
                if let Some(name) = names.into_iter().find(|name| name.text != "how") {
                    let problem =
                        Problem::new(format!("`{}` has no argument named `{}`", method.text, name.text));
                    return self.complain(
                        name.span,
                        problem.help("write mma.partition_a(sa, thread.x, how = \"ldmatrix_x4\")"),
                    );
                }
                let spans: Vec<Span> = args.iter().map(|arg| arg.value.span).collect();
                self.of_mma(&of, method, &values, &spans, naming.first().map_or("acc", String::as_str), span)
            }
            ("along", _, [Value::Int(mode)]) if matches!(of, Value::View(_)) => {
                self.along(&of, *mode, span, args[0].value.span)
            }
            ("len", None, []) if matches!(of, Value::Tuple(_)) => match of {
                Value::Tuple(all) => Value::Int(all.len() as i64),
                other => other,
            },
            ("is_some", None, []) if of.is_optional() => Value::Bool(of.items().len() == 1),
            ("rank", Some(layout), []) => Value::Int(layout.rank() as i64),
            ("shape", Some(layout), []) => Value::from(layout.shape()),
            (name, ..) => {
                let problem =
                    Problem::new(format!("{} has no method `{name}` with these arguments", of.kind()));
                self.complain(method.span, problem.help(advice::method(name, &of)))
            }
        }
    }
}
