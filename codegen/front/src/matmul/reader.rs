//! Reads keys: one function for each kind of value. Does not know their meaning for a product.

use tilewright_layout::{Composed, Layout};

use super::{Texts, blame, keys};
use crate::evaluate::{Keys, element};
use crate::source::ast::{Arg, Expr, ExprKind, Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::spelling::did_you_mean;
use crate::tile::Split;
use crate::values::elem::Elem;
use crate::values::limits::MOST_SHARING;

/// Reads the values of keys, and collects errors at the author's tokens.
pub(super) struct Reader<'a> {
    pub(super) args: &'a [Arg],
    pub(super) texts: &'static Texts,
    pub(super) keys: Keys,
    pub(super) errors: Vec<Diagnostic>,
}

impl Reader<'_> {
    pub(super) fn new<'a>(args: &'a [Arg], texts: &'static Texts) -> Reader<'a> {
        Reader { args, texts, keys: Keys::new(), errors: Vec::new() }
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

    /// An error at a key.
    pub(super) fn refuse(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.error(self.span(key), message, help);
    }

    pub(super) fn levels(&self) -> Vec<(Name, Level)> {
        let lints = self.args.iter().filter_map(|Arg { name, value }| match &value.kind {
            ExprKind::Name(lint) => {
                Some((Name { text: lint.clone(), span: value.span }, Level::named(&name.as_ref()?.text)?))
            }
            _ => None,
        });
        lints.collect()
    }

    pub(super) fn find(&self, key: &str) -> Option<&Expr> {
        self.args.iter().find(|arg| arg.is(key)).map(|arg| &arg.value)
    }

    /// Where the value of a key is, if it is given.
    pub(super) fn span(&self, key: &str) -> Span {
        self.find(key).map_or(Span::default(), |value| value.span)
    }

    /// Is one of these keys given?
    pub(super) fn has<'k>(&self, keys: impl IntoIterator<Item = &'k &'k str>) -> bool {
        keys.into_iter().any(|key| self.find(key).is_some())
    }

    /// Unknown keys, repeated keys, values without a key.
    pub(super) fn names(&mut self) {
        let mut seen: Vec<&str> = Vec::new();
        for arg in self.args {
            let Some(Name { text, span }) = &arg.name else {
                self.error(arg.value.span, "every value needs its key", "write bm = 128");
                continue;
            };
            if Level::named(text).is_some() {
                continue;
            }
            if keys::key(text).is_none() {
                self.error(*span, format!("there is no key `{text}`"), blame::instead_of(text));
            }
            if seen.contains(&text.as_str()) {
                self.error(*span, format!("`{text}` is given twice"), "remove one of them");
            }
            seen.push(text);
        }
    }

    pub(super) fn whole(&mut self, key: &str, default: i64) -> i64 {
        let expr = self.find(key).cloned();
        expr.and_then(|expr| self.keys.integer(&expr)).unwrap_or(default)
    }

    pub(super) fn positive(&mut self, key: &str, default: i64) -> i64 {
        let n = self.whole(key, default);
        if (1..=1 << 20).contains(&n) {
            return n;
        }
        let help = format!("leave it out for {key} = {default}, or write another number");
        self.refuse(key, format!("`{key}` must be between 1 and 1048576, and it is {n}"), help);
        default
    }

    /// `4`, blocks of a cluster; or `blocks(4)`, of the whole grid.
    pub(super) fn split(&mut self) -> Split {
        const KEY: &str = "split_k";
        let of_grid = match self.find(KEY).map(|expr| &expr.kind) {
            Some(ExprKind::Call { function, args, .. }) if function.text == "blocks" && args.len() == 1 => {
                Some(args[0].value.clone())
            }
            _ => None,
        };
        let Some(of_grid) = of_grid else { return Split::Cluster(self.positive(KEY, 1) as u32) };
        match of_grid.kind {
            ExprKind::Int(n) if (1..=i64::from(MOST_SHARING)).contains(&n) => Split::Grid(n as u32),
            _ => {
                let message = format!("K is divided among 1 to {MOST_SHARING} blocks");
                self.refuse(KEY, message, "write split_k = blocks(4)");
                Split::Whole
            }
        }
    }

    pub(super) fn elem(&mut self, key: &str, default: Elem) -> Elem {
        let expr = self.find(key).cloned();
        expr.map_or(default, |expr| self.elem_of(key, &expr, default))
    }

    /// An element type in the value of a key.
    pub(super) fn elem_of(&mut self, key: &str, expr: &Expr, default: Elem) -> Elem {
        let name = match &expr.kind {
            ExprKind::Name(name) | ExprKind::Path(name) => {
                name.rsplit("::").next().unwrap_or_default().trim()
            }
            _ => "",
        };
        let (message, help) = match (Elem::named(name), &expr.kind) {
            (Some(elem), _) if elem.is_float() || elem.is_integer() && matches!(elem.bytes(), 1 | 4) => {
                return elem;
            }
            (Some(elem), _) => {
                let help = "write a kernel with `gemm`, which multiplies integers of every type, or name another type";
                (format!("`{key}` cannot be {elem}"), help.to_owned())
            }
            (None, kind) => {
                let help = match kind {
                    ExprKind::Str(name) if Elem::named(name).is_some() => {
                        format!("write {key} = {name}, without quotes")
                    }
                    _ if key == "b_dtype" => "write i8, u8, i4, u4, e4m3 or e5m2".to_owned(),
                    ExprKind::Str(name) => element(name),
                    _ => element(name),
                };
                (format!("`{key}` must be an element type"), help)
            }
        };
        self.error(expr.span, message, help);
        default
    }

    /// The value that a name stands for; the first by default.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> T {
        let expr = self.find(key).cloned();
        expr.map_or(choices[0].1, |expr| self.choice_of(key, &expr, choices))
    }

    /// The same of a name in the value of a key.
    pub(super) fn choice_of<T: Copy>(&mut self, key: &str, expr: &Expr, choices: &[(&str, T)]) -> T {
        let written = match &expr.kind {
            ExprKind::Name(name) | ExprKind::Str(name) => name,
            _ => "",
        };
        if let Some((_, value)) = choices.iter().find(|choice| choice.0 == written) {
            return *value;
        }
        let names = || choices.iter().map(|choice| choice.0);
        let help = did_you_mean(written, names()).unwrap_or_else(|| {
            let known = format!("write {key} = {}", names().collect::<Vec<_>>().join(" or "));
            // For operands the help explains the choices.
            let explained = ["a", "b", "c", "bias", "residual"].contains(&key);
            let about = keys::key(key).filter(|_| explained);
            about.map_or(known.clone(), |(_, _, about)| format!("{known}\nhelp: {about}"))
        });
        self.error(expr.span, format!("`{key}` has no such choice"), help);
        choices[0].1
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        match self.find(key).map(|expr| &expr.kind) {
            None => false,
            Some(ExprKind::Bool(flag)) => *flag,
            Some(_) => {
                self.refuse(key, format!("`{key}` is true or false"), format!("write {key} = true"));
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
