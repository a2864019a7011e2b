//! A recursive descent parser from text to keys and values. Every part of keys gets a number and a range of the text. The generator's own
//! pages are texts of the same expressions, without spans (`page`).

use std::ops::Range;

use crate::source::ast::{Arg, Binary, Expr, ExprKind, Name, Pattern, Span, Unary};
use crate::source::diagnostic::Diagnostic;
use crate::values::limits::{DEEPEST, LONGEST_CHAIN};

/// A mistake and its range; the diagnostic's own span is not set.
pub(super) type Wrong = (Range<usize>, Diagnostic);
pub(super) type Result<T> = std::result::Result<T, Wrong>;

/// Operators by Rust's precedence, loosest first; longer ones before their prefixes.
const OPERATORS: [&[(&str, Binary)]; 9] = [
    &[("||", Binary::Or)],
    &[("&&", Binary::And)],
    &[
        ("<=", Binary::Le),
        (">=", Binary::Ge),
        ("==", Binary::Eq),
        ("!=", Binary::Ne),
        ("<", Binary::Lt),
        (">", Binary::Gt),
    ],
    &[("|", Binary::Or)],
    &[("^", Binary::Xor)],
    &[("&", Binary::And)],
    &[("<<", Binary::Shl), (">>", Binary::Shr)],
    &[("+", Binary::Add), ("-", Binary::Sub)],
    &[("*", Binary::Mul), ("/", Binary::Div), ("%", Binary::Rem)],
];

/// How a name is bound.
pub(super) const LET: &str = "write `let y = x * x;`";

/// All keys of a text, and the ranges of their spans. The first span is `base`.
pub(super) fn args(text: &str, base: u32) -> Result<(Vec<Arg>, Vec<Range<usize>>)> {
    let mut reader = Reader { text, at: 0, base, locations: Vec::new(), depth: 0, in_page: false };
    let mut args = Vec::new();
    while !reader.rest().is_empty() {
        args.push(reader.pair()?);
        reader.take(",");
    }
    Ok((args, reader.locations))
}

pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) base: u32,
    pub(super) locations: Vec<Range<usize>>,
    pub(super) depth: u32,
    /// Is the text a page, whose parts have no spans?
    pub(super) in_page: bool,
}

impl<'t> Reader<'t> {
    /// The rest, without leading blanks.
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let is_blank = |byte: &u8| !byte.is_ascii_graphic();
        let mut trimmed =
            if rest.as_bytes().first().is_some_and(is_blank) { rest.trim_start() } else { rest };
        while self.in_page && trimmed.starts_with("//") {
            trimmed = trimmed.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
        }
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let matched = self.rest().starts_with(sign);
        if matched {
            self.at += sign.len();
        }
        matched
    }

    /// An operator that is no part of a longer one.
    fn take_operator(&mut self, sign: &str) -> bool {
        let rest = self.rest();
        let longer = ["||", "&&", "<<", ">>"].into_iter().any(|long| long != sign && rest.starts_with(long));
        !longer && self.take(sign)
    }

    /// A word, if it comes next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let start = self.at;
        let matched = self.rest().starts_with(word) && self.word().is_some_and(|(next, _)| next == word);
        if !matched {
            self.at = start;
        }
        matched
    }

    /// A letter or `_`, then letters, digits and `_`.
    fn word(&mut self) -> Option<(&'t str, Range<usize>)> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let starts = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        (starts && &rest[..end] != "_").then(|| {
            let range = self.at..self.at + end;
            self.at += end;
            (&rest[..end], range)
        })
    }

    fn span(&mut self, range: Range<usize>) -> Span {
        if self.in_page {
            return Span::default();
        }
        self.locations.push(range);
        Span(self.base + self.locations.len() as u32 - 1)
    }

    fn made(&mut self, from: usize, kind: ExprKind) -> Expr {
        let range = from..self.text[..self.at].trim_end().len().max(from);
        Expr { span: self.span(range), kind }
    }

    /// A parse error: something else is expected here.
    fn wrong<T>(&mut self, what: &str, help: &str) -> Result<T> {
        let rest = self.rest();
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let message = match rest.chars().next() {
            None => format!("{what} is missing at the end"),
            Some(_) => format!("{what} is expected here"),
        };
        let at = self.at..self.at + word.max(first);
        Err((at, Diagnostic::error(Span::default(), message).help(help)))
    }

    /// A parse error: this is too much.
    fn refused<T>(&self, what: String, help: &str) -> Result<T> {
        let first = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        Err((self.at..self.at + first, Diagnostic::error(Span::default(), what).help(help)))
    }

    fn pair(&mut self) -> Result<Arg> {
        let Some((name, range)) = self.word() else {
            return self.wrong("a key", "write `key=value`, such as `bm=128`");
        };
        if self.rest().starts_with("==") || !self.take("=") {
            let reported = Diagnostic::error(Span::default(), format!("`{name}` has no value"));
            return Err((range, reported.help(format!("write `{name}=…`"))));
        }
        if self.rest().is_empty() {
            let reported = Diagnostic::error(Span::default(), format!("`{name}` has no value"));
            return Err((range, reported.help(format!("write `{name}=…`"))));
        }
        let name = Name { text: name.to_owned(), span: self.span(range) };
        let value = if self.begins_keys() { self.keys(&name)? } else { self.value()? };
        Ok(Arg { name: Some(name), value })
    }

    /// Do keys in parentheses come next: `(values=(4,4) vec=4)`?
    fn begins_keys(&mut self) -> bool {
        let start = self.at;
        let begins = self.take("(") && self.word().is_some() && {
            let rest = self.rest();
            rest.starts_with('=') && !rest.starts_with("==")
        };
        self.at = start;
        begins
    }

    /// Keys in parentheses, as a call of the key that has them.
    fn keys(&mut self, of: &Name) -> Result<Expr> {
        self.deeper(|reader| {
            reader.rest();
            let (from, mut args) = (reader.at, Vec::new());
            reader.take("(");
            while !reader.take(")") {
                if reader.rest().is_empty() {
                    return reader.wrong("`)`", "close the parenthesis");
                }
                args.push(reader.pair()?);
                reader.take(",");
            }
            Ok(reader.made(from, ExprKind::Call { function: of.clone(), types: Vec::new(), args }))
        })
    }

    /// An expression, a closure, or a layout: a shape and a stride.
    pub(super) fn value(&mut self) -> Result<Expr> {
        self.deeper(|reader| {
            reader.rest();
            let from = reader.at;
            if reader.take("|") {
                return reader.closure(from);
            }
            let shape = reader.operators(0)?;
            if reader.take("..") {
                let end = reader.operators(0)?;
                return Ok(reader.made(from, ExprKind::Range(Box::new(shape), Box::new(end))));
            }
            if !reader.take(":") {
                return Ok(shape);
            }
            let stride = Some(Box::new(reader.operators(0)?));
            Ok(reader.made(from, ExprKind::Layout { shape: Box::new(shape), stride }))
        })
    }

    /// One level of nesting more.
    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<Expr>) -> Result<Expr> {
        if self.depth == DEEPEST {
            return self.wrong(&format!("at most {DEEPEST} levels of parentheses"), "give it fewer");
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn closure(&mut self, from: usize) -> Result<Expr> {
        let mut params = Vec::new();
        while !self.take("|") {
            let Some((name, range)) = self.word() else {
                return self.wrong("the name of an argument, or `|`,", "write `|x| max(x, 0.0)`");
            };
            params.push(Pattern::Name(Name { text: name.to_owned(), span: self.span(range) }));
            self.take(",");
        }
        let body = Box::new(self.value()?);
        Ok(self.made(from, ExprKind::Closure { params, body }))
    }

    fn operators(&mut self, level: usize) -> Result<Expr> {
        self.rest();
        let from = self.at;
        let first = self.unary()?;
        if self.begins_operator() { self.chain(level, from, first) } else { Ok(first) }
    }

    fn begins_operator(&mut self) -> bool {
        self.rest().starts_with(['|', '&', '<', '>', '=', '!', '^', '+', '-', '*', '/', '%'])
    }

    /// The operators of a row, and of the rows below it, after a first value.
    fn chain(&mut self, level: usize, from: usize, first: Expr) -> Result<Expr> {
        let Some(row) = OPERATORS.get(level) else { return Ok(first) };
        let mut left = self.chain(level + 1, from, first)?;
        let mut links = 0;
        while self.begins_operator()
            && let Some((_, op)) = row.iter().find(|(sign, _)| self.take_operator(sign))
        {
            links += 1;
            if links > LONGEST_CHAIN {
                let what = format!("this chain has more than {LONGEST_CHAIN} operators");
                return self.refused(what, "write a kernel of your own for it: one epilogue is one function");
            }
            let right = self.operators(level + 1)?;
            left = self.made(from, ExprKind::Binary(*op, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    /// Operators before a value, and types after it: `-x as f32` converts `-x`.
    fn unary(&mut self) -> Result<Expr> {
        self.rest();
        let from = self.at;
        let sign = match () {
            () if self.take("-") => Some(Unary::Neg),
            () if self.take("!") => Some(Unary::Not),
            () => None,
        };
        if self.in_page && self.take("&") {
            self.take_word("mut");
        }
        let mut made = self.primary()?;
        while self.in_page {
            if !self.rest().starts_with("..") && self.take(".") {
                made = self.member(from, made)?;
            } else if self.take("[") {
                let index = Box::new(self.value()?);
                self.expect("]", "close the bracket")?;
                made = self.made(from, ExprKind::Index { base: Box::new(made), index });
            } else {
                break;
            }
        }
        if let Some(sign) = sign {
            made = self.made(from, ExprKind::Unary(sign, Box::new(made)));
        }
        while self.take_word("as") {
            let Some((elem, range)) = self.word() else {
                return self.wrong("a type", "write `x as f32`");
            };
            let elem = Name { text: elem.to_owned(), span: self.span(range) };
            made = self.made(from, ExprKind::Cast(Box::new(made), elem));
        }
        Ok(made)
    }

    /// A field or a method, after its point.
    fn member(&mut self, from: usize, of: Expr) -> Result<Expr> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_numeric()).unwrap_or(rest.len());
        let name = match end {
            0 => self.name()?,
            _ => Name { text: rest[..end].to_owned(), span: self.span(self.at..self.at + end) },
        };
        self.at += end;
        let of = Box::new(of);
        let kind = match self.take("(") {
            true => ExprKind::Method { receiver: of, method: name, args: self.arguments()? },
            false => ExprKind::Field { base: of, field: name },
        };
        Ok(self.made(from, kind))
    }

    /// The arguments of a call, after its parenthesis; `stages = 3` has a name.
    pub(super) fn arguments(&mut self) -> Result<Vec<Arg>> {
        let mut args: Vec<Arg> = Vec::new();
        let mut comma = true;
        while !self.take(")") {
            if !comma {
                return self.wrong("`,` or `)`", "close the parenthesis");
            }
            let start = self.at;
            let name = self.word().filter(|_| {
                let rest = self.rest();
                rest.starts_with('=') && !rest.starts_with("==")
            });
            let name = match name {
                Some((name, range)) if self.take("=") => {
                    Some(Name { text: name.to_owned(), span: self.span(range) })
                }
                _ => {
                    self.at = start;
                    None
                }
            };
            args.push(Arg { name, value: self.value()? });
            comma = self.take(",");
        }
        Ok(args)
    }

    pub(super) fn name(&mut self) -> Result<Name> {
        match self.word() {
            Some((name, range)) => Ok(Name { text: name.to_owned(), span: self.span(range) }),
            None => self.wrong("a name", LET),
        }
    }

    pub(super) fn expect(&mut self, sign: &str, help: &str) -> Result<()> {
        if self.take(sign) { Ok(()) } else { self.wrong(&format!("`{sign}`"), help) }
    }

    /// The rest of an `if`: a condition and two blocks.
    fn choice(&mut self, from: usize) -> Result<Expr> {
        let help = "write `if x > 0.0 { x } else { 0.0 }`";
        let (condition, bound) = self.condition()?;
        let mut then = self.block(help)?;
        if let Some(bound) = bound {
            then = self.made(from, ExprKind::Block { lets: vec![bound], value: Box::new(then) });
        }
        if !self.take_word("else") {
            return self.wrong("`else`", help);
        }
        self.rest();
        let start = self.at;
        let other = Box::new(match self.take_word("if") {
            true => self.deeper(|reader| reader.choice(start))?,
            false => self.block(help)?,
        });
        Ok(self.made(from, ExprKind::If { condition: Box::new(condition), then: Box::new(then), other }))
    }

    /// `{ let y = x * x; y + 1.0 }`
    fn block(&mut self, help: &str) -> Result<Expr> {
        self.rest();
        let from = self.at;
        self.expect("{", help)?;
        let mut lets = Vec::new();
        while self.take_word("let") {
            let pattern = if self.in_page { self.pattern()? } else { Pattern::Name(self.name()?) };
            self.expect("=", LET)?;
            lets.push((pattern, self.value()?));
            self.expect(";", LET)?;
        }
        let value = self.value()?;
        self.expect("}", "close the block")?;
        match lets.is_empty() {
            true => Ok(value),
            false => Ok(self.made(from, ExprKind::Block { lets, value: Box::new(value) })),
        }
    }

    pub(super) fn primary(&mut self) -> Result<Expr> {
        let rest = self.rest();
        let from = self.at;
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(from);
        }
        if self.take("(") {
            return self.tuple(from);
        }
        if self.in_page && self.take("[") {
            let (items, _) = self.list("]")?;
            return Ok(self.made(from, ExprKind::Tuple(items)));
        }
        if rest.starts_with('{') {
            return self.block("");
        }
        if let Some(text) = rest.strip_prefix('"')
            && let Some(end) = text.find('"')
        {
            self.at += end + 2;
            return Ok(self.made(from, ExprKind::Str(text[..end].to_owned())));
        }
        let Some((name, range)) = self.word() else {
            if self.in_page && self.take("_") {
                return Ok(self.made(from, ExprKind::Hole));
            }
            return self
                .wrong("a value", "write a number, a word, a layout `(8,8):(8,1)` or a closure `|x| …`");
        };
        if name == "layout" && self.take("!") {
            self.expect("(", "write `layout!((8,8) : (8,1))`")?;
            let inner = self.value()?;
            self.expect(")", "close the parenthesis")?;
            return Ok(match inner.kind {
                ExprKind::Layout { .. } => inner,
                _ => self.made(from, ExprKind::Layout { shape: Box::new(inner), stride: None }),
            });
        }
        if name == "if" {
            return self.choice(from);
        }
        let mut types = Vec::new();
        if self.take("::<") {
            while !self.take(">") {
                let Some((name, range)) = self.word() else {
                    return self.wrong("a type", "write `full::<f32>`");
                };
                types.push(Name { text: name.to_owned(), span: self.span(range) });
                self.take(",");
            }
        }
        if self.rest().starts_with("::") {
            let mut path = name.to_owned();
            while self.take("::") {
                let Some((name, _)) = self.word() else {
                    return self.wrong("a name", "write a constant such as `f32::INFINITY`");
                };
                path = format!("{path}::{name}");
            }
            return Ok(self.made(from, ExprKind::Path(path)));
        }
        if self.take("(") {
            let function = Name { text: name.to_owned(), span: self.span(range) };
            let args = self.arguments()?;
            return Ok(self.made(from, ExprKind::Call { function, types, args }));
        }
        let kind = match name {
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            _ => ExprKind::Name(name.to_owned()),
        };
        Ok(self.made(from, kind))
    }

    fn number(&mut self, from: usize) -> Result<Expr> {
        let rest = self.rest();
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut end = digits(rest);
        let whole = end;
        if rest[end..].starts_with('.') && !rest[end..].starts_with("..") {
            end += 1 + digits(&rest[end + 1..]);
        }
        if let Some(power) = rest[end..].strip_prefix(['e', 'E']) {
            let signed = power.trim_start_matches(['+', '-']);
            if signed.starts_with(|c: char| c.is_ascii_digit()) {
                end += 1 + (power.len() - signed.len()) + digits(signed);
            }
        }
        let text = &rest[..end];
        let kind = match end == whole {
            true => text.parse().map(ExprKind::Int).ok(),
            false => text.parse().map(ExprKind::Float).ok(),
        };
        let Some(kind) = kind else {
            return self.wrong("a number of at most 63 bits", "write a smaller one");
        };
        self.at += end;
        if self.text[self.at..].starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return self.wrong("a blank between a number and a word", "write `bm=64 bn=64`");
        }
        Ok(self.made(from, kind))
    }

    fn tuple(&mut self, from: usize) -> Result<Expr> {
        let (mut items, comma) = self.list(")")?;
        match (items.len(), comma) {
            (1, false) => Ok(items.remove(0)),
            _ => Ok(self.made(from, ExprKind::Tuple(items))),
        }
    }

    /// Values up to a sign, and whether there was a comma after the last.
    fn list(&mut self, end: &str) -> Result<(Vec<Expr>, bool)> {
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.take(end) {
            if !items.is_empty() && !comma {
                return self.wrong("`,` or `)`", "close the parenthesis");
            }
            items.push(self.value()?);
            comma = self.take(",");
        }
        Ok((items, comma))
    }
}
