//! Keys as text, `bm=64 tc=(8,8) schedule=(vec=4)`: the form of a macro's tokens on a command line, in a test or in
//! a tuning record. Mistakes are pointed at in the text itself. The generator's own pages are texts of the same expressions.

mod page;
mod read;

use std::ops::Range;

use crate::compiled::kernel_def::Locations;
use crate::launch::definition::{Definition, Settings};
use crate::source::ast::{self, Arg, Binary, Expr, ExprKind, Kernel, Level, Span, Unary};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{self, Problem};
use crate::source::spelling::did_you_mean;
use crate::values::elem::Elem;

/// The function of one of the generator's own pages.
pub(crate) fn page(text: &str) -> problem::Result<Kernel> {
    page::kernel(text).map_err(|(at, wrong)| {
        let line = text[..at.start].lines().count();
        Problem::internal(format!("line {line} of a page: {}: {}", wrong.message, &text[at]))
    })
}

/// Keys with their values, and the range of each part in the text.
#[derive(Clone, Debug)]
pub struct Words {
    text: String,
    args: Vec<Arg>,
    /// Spans below this belong to a definition elsewhere.
    base: u32,
    locations: Vec<Range<usize>>,
}

/// Mistakes in keys, pointed at in their text. Printing it shows everything.
#[derive(Clone, PartialEq, Eq)]
pub struct Mistakes(String);

impl Mistakes {
    /// Mistakes that have this text.
    pub fn new(text: impl Into<String>) -> Mistakes {
        Mistakes(text.into())
    }
}

impl Words {
    /// Reads keys. `bm=64`, `bm = 64` and `bm = 64,` are the same; a layout is `(128,8):(1,129)` or `layout!(…)`, and
    /// keys of a key are in parentheses, with or without commas.
    ///
    /// ```
    /// use tilewright_codegen::words::{Kernels as _, Words};
    /// let kernel = Words::read("bm=64 bn=64 tc=(8,8) schedule=(vec=4) epilogue=|x| max(x, 0.0)")?.matmul()?;
    /// assert!(kernel.source().contains("__launch_bounds__(64, "));
    ///
    /// let message = Words::read("bm=64 bnn=64")?.matmul().unwrap_err().to_string();
    /// assert_eq!(message, "\
    /// there is no key `bnn`
    ///   bm=64 bnn=64
    ///         ^^^
    /// help: did you mean `bn`?");
    /// # Ok::<(), tilewright_codegen::words::Mistakes>(())
    /// ```
    pub fn read(text: &str) -> Result<Words, Mistakes> {
        Words::read_after(text, 1)
    }

    /// The same for a kernel that is defined elsewhere and uses spans below `base`.
    pub fn read_after(text: &str, base: u32) -> Result<Words, Mistakes> {
        let mut words = Words { text: text.to_owned(), args: Vec::new(), base, locations: Vec::new() };
        match read::args(text, base) {
            Ok((args, locations)) => {
                (words.args, words.locations) = (args, locations);
                Ok(words)
            }
            Err((at, diagnostic)) => {
                words.locations.push(at);
                Err(words.mistakes(&[Diagnostic { span: Span(base), ..diagnostic }], &Locations::default()))
            }
        }
    }

    /// The keys.
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// Constants and element types of a `#[kernel]`, in addition to those that it has.
    pub fn settings(
        &self,
        kernel: &ast::Kernel,
        mut settings: Settings,
    ) -> Result<Settings, Vec<Diagnostic>> {
        let (mut set, mut wrong) = (Settings::default(), Vec::new());
        let constants = || kernel.consts.iter().map(|constant| constant.name.text.as_str());
        let types = || kernel.types.iter().map(|ty| ty.name.text.as_str());
        for arg in &self.args {
            let Some(name) = &arg.name else { continue };
            if types().any(|ty| ty == name.text) {
                match &arg.value.kind {
                    ExprKind::Name(elem) if Elem::named(elem).is_some() => {
                        set.types.extend(Elem::named(elem).map(|elem| (name.clone(), elem)));
                    }
                    _ => wrong.push(
                        Diagnostic::error(
                            arg.value.span,
                            format!("`{}` stands for an element type", name.text),
                        )
                        .help(format!("use one of {}", Elem::names())),
                    ),
                }
            } else if !constants().any(|constant| constant == name.text) {
                let what = format!("`{}` has no constant `{}`", kernel.name.text, name.text);
                let known: Vec<&str> = constants().chain(types()).collect();
                let help = match did_you_mean(&name.text, known.iter().copied()) {
                    Some(near) => near,
                    None if known.is_empty() => format!("`{}` has no constants", kernel.name.text),
                    None => format!("it has {}", known.join(", ")),
                };
                wrong.push(Diagnostic::error(name.span, what).help(help));
            } else {
                match number(&arg.value) {
                    Ok(value) => set.consts.push((name.clone(), value)),
                    Err(span) => wrong.push(
                        Diagnostic::error(span, "this is not a size").help("write an integer such as `64`"),
                    ),
                }
            }
        }
        wrong.extend(set.repeated());
        if !wrong.is_empty() {
            return Err(wrong);
        }
        settings.consts.retain(|(old, _)| !set.consts.iter().any(|(new, _)| new.text == old.text));
        settings.types.retain(|(old, _)| !set.types.iter().any(|(new, _)| new.text == old.text));
        settings.consts.append(&mut set.consts);
        settings.types.append(&mut set.types);
        Ok(settings)
    }

    /// The diagnostics, each with its line and caret marks.
    pub fn mistakes(&self, reported: &[Diagnostic], elsewhere: &Locations) -> Mistakes {
        let errors = reported.iter().filter(|one| one.level == Level::Deny);
        let shown: Vec<String> = errors.map(|one| self.mistake(one, elsewhere)).collect();
        Mistakes(shown.join("\n"))
    }

    fn mistake(&self, reported: &Diagnostic, elsewhere: &Locations) -> String {
        let mut text = reported.message.clone();
        let range = reported.span.0.checked_sub(self.base).and_then(|at| self.locations.get(at as usize));
        if let Some(range) = range {
            text += &format!("\n{}", marked(&self.text, range));
        } else if reported.span != Definition::NOWHERE
            && let Some(line) = elsewhere.of(reported.span)
        {
            text += &format!("\n  at {line}");
        }
        if let Some(help) = &reported.help {
            text += &format!("\nhelp: {help}");
        }
        text
    }
}

impl std::fmt::Display for Mistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// As for people: `unwrap` shows this.
impl std::fmt::Debug for Mistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistakes {}

/// The line, with carets under a part of it. Long lines are truncated on both sides.
fn marked(text: &str, range: &Range<usize>) -> String {
    const BEFORE: usize = 60;
    const LONGEST: usize = 100;
    let flat = |c: char| if c.is_control() { ' ' } else { c };
    let count = |range: &str| range.chars().count();
    let (before, inside) = (count(&text[..range.start]), count(&text[range.clone()]));
    let skipped = if before > BEFORE + 10 { before - BEFORE } else { 0 };
    let mut line: String = text.chars().skip(skipped).take(LONGEST).map(flat).collect();
    if count(text) > skipped + LONGEST {
        line.push('…');
    }
    let dots = if skipped > 0 { "…" } else { "" };
    let indent = " ".repeat(before - skipped + count(dots));
    let carets = "^".repeat(inside.clamp(1, LONGEST));
    format!("  {dots}{}\n  {indent}{carets}", line.trim_end())
}

/// Arithmetic over literals; otherwise the span of the offending part.
fn number(from: &Expr) -> Result<i64, Span> {
    let (first, links) = from.chain();
    let first = match &first.kind {
        ExprKind::Int(value) => *value,
        ExprKind::Unary(Unary::Neg, inner) => number(inner)?.checked_neg().ok_or(first.span)?,
        _ => return Err(first.span),
    };
    links.into_iter().rev().try_fold(first, |left, (span, op, right)| {
        let right = number(right)?;
        let value = match op {
            Binary::Add => left.checked_add(right),
            Binary::Sub => left.checked_sub(right),
            Binary::Mul => left.checked_mul(right),
            Binary::Div => left.checked_div(right),
            Binary::Rem => left.checked_rem(right),
            _ => None,
        };
        value.ok_or(span)
    })
}
