//! What is wrong with a statement, before it has a place in the user's text.

use crate::ast::Span;
use crate::diagnostic::Diagnostic;

/// A refusal: a message, what to write instead, and which argument is to blame.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// What is wrong, with its numbers.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
    /// The argument of the call that caused it, from 0; the whole call otherwise.
    pub arg: Option<usize>,
    /// What it is about, where somebody puts it into other words.
    pub cause: Option<Box<Cause>>,
}

/// The condition that was broken, with its numbers: for callers whose users know the same thing by another name.
#[derive(Clone, PartialEq, Debug)]
pub enum Cause {
    /// Threads along a mode do not divide its extent.
    Indivisible {
        /// How many.
        threads: i64,
        /// Elements that each takes at once.
        each: i64,
        /// The mode.
        mode: usize,
        /// Numbers of threads that do, in words; `None` where the elements of one do not.
        near: Option<String>,
    },
    /// A partition has other threads than the first.
    Threads {
        /// This one.
        here: i64,
        /// The first.
        first: i64,
    },
    /// More threads than a block can have.
    TooMany {
        /// How many.
        threads: i64,
        /// The limit.
        most: i64,
    },
    /// A thread has not so many registers.
    Registers,
    /// Products cannot be summed in this type.
    Sum,
}

/// A result whose error is a [`Problem`].
pub type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    /// A refusal.
    pub fn new(message: impl Into<String>) -> Problem {
        Problem { message: message.into(), help: None, arg: None, cause: None }
    }

    /// Nothing more to say: whoever found it has complained already.
    pub(crate) fn said() -> Problem {
        Problem::new("")
    }

    /// Adds what to write instead.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Blames an argument.
    pub fn arg(mut self, arg: usize) -> Problem {
        self.arg = Some(arg);
        self
    }

    /// Says what it is about.
    pub fn because(mut self, cause: Cause) -> Problem {
        self.cause = Some(Box::new(cause));
        self
    }

    /// At a place.
    pub fn at(self, span: Span) -> Diagnostic {
        Diagnostic { help: self.help, ..Diagnostic::error(span, self.message) }
    }
}

impl From<tilewright_layout::LayoutError> for Problem {
    fn from(error: tilewright_layout::LayoutError) -> Problem {
        Problem::new(error.to_string())
    }
}
