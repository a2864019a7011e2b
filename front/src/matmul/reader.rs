//! Reads keys: one function for each kind of value. Does not know their meaning for a product.

use tilewright_layout::{Composed, Layout};

use super::{blame, keys};
use crate::evaluate::{Keys, element};
use crate::source::ast::{Arg, Expr, ExprKind, Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::spelling::did_you_mean;
use crate::values::elem::Elem;

/// Reads the values of keys, and collects errors at the author's tokens.
pub(super) struct Reader<'a> {
    pub(super) args: &'a [Arg],
    pub(super) keys: Keys,
    pub(super) errors: Vec<Diagnostic>,
}

impl Reader<'_> {
    pub(super) fn new(args: &[Arg]) -> Reader<'_> {
        Reader { args, keys: Keys::new(), errors: Vec::new() }
    }

    /// The errors so far; those that have been reported have no message.
    pub(super) fn diagnostics(&mut self) -> Vec<Diagnostic> {
        let mut all = std::mem::take(&mut self.errors);
        all.append(&mut self.keys.diagnostics());
        all.retain(|error| !error.message.is_empty());
        all
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.errors.push(Diagnostic::error(span, message).help(help));
    }

    pub(super) fn levels(&self) -> Vec<(Name, Level)> {
        let level = |name: &str| match name {
            "allow" => Some(Level::Allow),
            "warn" => Some(Level::Warn),
            "deny" => Some(Level::Deny),
            _ => None,
        };
        let lints = self.args.iter().filter_map(|arg| {
            let level = level(&arg.name.as_ref()?.text)?;
            match &arg.value.kind {
                ExprKind::Name(lint) => Some((Name { text: lint.clone(), span: arg.value.span }, level)),
                _ => None,
            }
        });
        lints.collect()
    }

    pub(super) fn find(&self, key: &str) -> Option<&Expr> {
        self.args
            .iter()
            .find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key))
            .map(|arg| &arg.value)
    }

    /// Is one of these keys given?
    pub(super) fn has<'k>(&self, keys: impl IntoIterator<Item = &'k &'k str>) -> bool {
        keys.into_iter().any(|key| self.find(key).is_some())
    }

    /// Unknown keys, repeated keys, values without a key.
    pub(super) fn names(&mut self) {
        const LEVELS: [&str; 3] = ["allow", "warn", "deny"];
        let mut seen: Vec<&str> = Vec::new();
        for arg in self.args {
            let Some(name) = &arg.name else {
                self.error(arg.value.span, "every value needs its key", "write bm = 128");
                continue;
            };
            if LEVELS.contains(&name.text.as_str()) {
                continue;
            }
            if keys::key(&name.text).is_none() {
                let help = blame::instead_of(&name.text);
                self.error(name.span, format!("there is no key `{}`", name.text), help);
            }
            if seen.contains(&name.text.as_str()) {
                self.error(name.span, format!("`{}` is given twice", name.text), "remove one of them");
            }
            seen.push(&name.text);
        }
    }

    pub(super) fn whole(&mut self, key: &str, default: i64) -> i64 {
        let Some(expr) = self.find(key).cloned() else {
            return default;
        };
        self.keys.integer(&expr).unwrap_or(default)
    }

    pub(super) fn positive(&mut self, key: &str, default: i64) -> i64 {
        let n = self.whole(key, default);
        if !(1..=1 << 20).contains(&n) {
            let span = self.find(key).map_or(Span::default(), |e| e.span);
            self.error(
                span,
                format!("`{key}` must be between 1 and 1048576, and it is {n}"),
                format!("leave it out for {key} = {default}, or write another number"),
            );
            return default;
        }
        n
    }

    pub(super) fn elem(&mut self, key: &str, default: Elem) -> Elem {
        match self.find(key).cloned() {
            Some(expr) => self.elem_of(key, &expr, default),
            None => default,
        }
    }

    /// An element type in the value of a key.
    pub(super) fn elem_of(&mut self, key: &str, expr: &Expr, default: Elem) -> Elem {
        let (span, name) = (
            expr.span,
            if let ExprKind::Name(name) | ExprKind::Path(name) = &expr.kind {
                name.clone()
            } else {
                String::new()
            },
        );
        let name = name.rsplit("::").next().unwrap_or_default().trim();
        match Elem::named(name) {
            Some(elem) if !(elem.is_float() || elem.is_integer() && matches!(elem.bytes(), 1 | 4)) => {
                let help = "write a kernel with `gemm`, which multiplies integers of every type, or name another type";
                self.error(span, format!("`{key}` cannot be {elem}"), help);
                default
            }
            Some(elem) => elem,
            None => {
                let help = match &expr.kind {
                    ExprKind::Str(name) if Elem::named(name).is_some() => {
                        format!("write {key} = {name}, without quotes")
                    }
                    _ if key == "b_dtype" => "write i8, u8, i4, u4, e4m3 or e5m2".to_owned(),
                    ExprKind::Str(name) => element(name),
                    _ => element(name),
                };
                self.error(span, format!("`{key}` must be an element type"), help);
                default
            }
        }
    }

    /// The value that a name stands for; the first by default.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> T {
        match self.find(key).cloned() {
            Some(expr) => self.choice_of(key, &expr, choices),
            None => choices[0].1,
        }
    }

    /// The same of a name in the value of a key.
    pub(super) fn choice_of<T: Copy>(&mut self, key: &str, expr: &Expr, choices: &[(&str, T)]) -> T {
        let span = expr.span;
        let written = match &expr.kind {
            ExprKind::Name(name) | ExprKind::Str(name) => name.clone(),
            _ => String::new(),
        };
        let chosen = choices.iter().find(|choice| choice.0 == written).map(|choice| choice.1);
        chosen.unwrap_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
            // For operands the help explains the choices.
            let about = match key {
                "a" | "b" | "c" | "bias" | "residual" => keys::key(key).map(|(_, _, about)| about.to_owned()),
                _ => None,
            };
            let help = did_you_mean(&written, names.iter().copied()).unwrap_or_else(|| {
                let known = format!("write {key} = {}", names.join(" or "));
                about.map_or(known.clone(), |about| format!("{known}\nhelp: {about}"))
            });
            self.error(span, format!("`{key}` has no such choice"), help);
            choices[0].1
        })
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        let Some(expr) = self.find(key) else { return false };
        let span = expr.span;
        match expr.kind {
            ExprKind::Bool(flag) => flag,
            _ => {
                self.error(span, format!("`{key}` is true or false"), format!("write {key} = true"));
                false
            }
        }
    }

    pub(super) fn layout(
        &mut self,
        key: &str,
        default: impl FnOnce() -> tilewright_layout::Result<Layout>,
    ) -> Option<Composed> {
        match self.find(key).cloned() {
            Some(expr) => self.keys.layout(&expr),
            None => default().ok().map(Composed::from),
        }
    }
}
