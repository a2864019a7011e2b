//! Errors of statements, before they have a span.

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;

/// An error: a message, the suggested remedy, and which argument is to blame.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// The violated condition, with its numbers.
    pub message: String,
    /// The suggested remedy.
    pub help: Option<String>,
    /// The argument of the call that caused it, from 0; the whole call otherwise.
    pub arg: Option<usize>,
    /// The cause, if it is elsewhere in the author's text.
    pub cause: Option<Span>,
}

/// A result whose error is a [`Problem`].
pub type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    /// An error.
    pub fn new(message: impl Into<String>) -> Problem {
        Problem { message: message.into(), help: None, arg: None, cause: None }
    }

    /// An error that has been reported already.
    pub fn reported() -> Problem {
        Problem::new("")
    }

    /// A fault of the generator: a pass before should have refused the program, with a better message.
    pub fn internal(what: impl std::fmt::Display) -> Problem {
        Problem::new(format!("internal error: {what}"))
            .help("this is a fault of tilewright: please report the kernel")
    }

    /// Adds the suggested remedy.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Blames an argument.
    pub fn arg(mut self, arg: usize) -> Problem {
        self.arg = Some(arg);
        self
    }

    /// The error at its cause, or else at a span.
    pub fn at(self, span: Span) -> Diagnostic {
        Diagnostic { help: self.help, ..Diagnostic::error(self.cause.unwrap_or(span), self.message) }
    }
}

impl From<Diagnostic> for Problem {
    fn from(Diagnostic { message, help, .. }: Diagnostic) -> Problem {
        Problem { message, help, arg: None, cause: None }
    }
}

/// An error of no token.
impl From<Problem> for Diagnostic {
    fn from(problem: Problem) -> Diagnostic {
        problem.at(Span::default())
    }
}

impl From<tilewright_layout::LayoutError> for Problem {
    fn from(error: tilewright_layout::LayoutError) -> Problem {
        Problem::new(error.to_string())
    }
}

/// How many there are, in words: `one mode`, `3 modes`.
pub fn count(n: impl TryInto<u64>, of: &str) -> String {
    match n.try_into() {
        Ok(1) => format!("one {of}"),
        Ok(n) => format!("{n} {of}s"),
        Err(_) => format!("too many {of}s"),
    }
}
