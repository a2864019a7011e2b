//! Messages about launches, in any numbers: a launch in Rust writes them, and [`super::export`] records the calls that write them in C.

use std::fmt::Write;

use super::number::{Natural, Number};
use super::refusal::Refusal;

/// A part of a message.
#[derive(Clone)]
pub(super) enum Piece<N: Number> {
    Text(String),
    /// The first text whose condition is true.
    First(Vec<(N::Truth, String)>),
    Count(N),
    /// A number that may be negative, by its bits.
    Signed(N),
    /// `0x1f`
    Address(N),
}

/// A text with numbers in it.
#[derive(Clone)]
pub(super) struct Message<N: Number>(pub(super) Vec<Piece<N>>);

/// A message of these pieces: texts, and parts.
macro_rules! message {
    ($($piece:expr),+ $(,)?) => {
        $crate::launch::message::Message(vec![$($crate::launch::message::Piece::from($piece)),+])
    };
}
pub(super) use message;

impl<N: Number> From<&str> for Piece<N> {
    fn from(text: &str) -> Piece<N> {
        Piece::Text(text.to_owned())
    }
}

impl<N: Number> From<String> for Piece<N> {
    fn from(text: String) -> Piece<N> {
        Piece::Text(text)
    }
}

impl Message<Natural> {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            let _ = match piece {
                Piece::Text(piece) => write!(text, "{piece}"),
                Piece::First(all) => match all.iter().find(|(is_true, _)| *is_true) {
                    Some((_, piece)) => write!(text, "{piece}"),
                    None => Ok(()),
                },
                Piece::Count(number) => write!(text, "{}", number.0),
                Piece::Signed(number) => write!(text, "{}", number.0.cast_signed()),
                Piece::Address(number) => write!(text, "{:#x}", number.0),
            };
        }
        text
    }
}

/// Where a message ends and its remedy begins.
pub(super) const HELP: &str = "\nhelp: ";

/// Why a launch is refused: the argument to blame, if it is one, the reason, and the remedy.
pub(super) struct Problem<N: Number> {
    argument: Option<Piece<N>>,
    message: Message<N>,
    help: Option<Message<N>>,
}

impl<N: Number> Problem<N> {
    pub(super) fn new(message: Message<N>) -> Problem<N> {
        Problem { argument: None, message, help: None }
    }

    /// Blames an argument.
    pub(super) fn of(argument: impl Into<Piece<N>>, message: Message<N>) -> Problem<N> {
        Problem { argument: Some(argument.into()), ..Problem::new(message) }
    }

    pub(super) fn help(self, help: Message<N>) -> Problem<N> {
        Problem { help: Some(help), ..self }
    }

    /// All of it.
    pub(super) fn message(self) -> Message<N> {
        let mut all = Vec::new();
        if let Some(argument) = self.argument {
            all.extend(["argument `".into(), argument, "`: ".into()]);
        }
        all.extend(self.message.0);
        if let Some(help) = self.help {
            all.push(HELP.into());
            all.extend(help.0);
        }
        Message(all)
    }
}

impl From<Problem<Natural>> for Refusal {
    fn from(problem: Problem<Natural>) -> Refusal {
        let message = problem.message.text();
        let refusal = match &problem.argument {
            Some(argument) => Refusal::of(&Message(vec![argument.clone()]).text(), message),
            None => Refusal::new(message),
        };
        match problem.help {
            Some(help) => refusal.help(help.text()),
            None => refusal,
        }
    }
}

/// What checks launches: a plan, which stops at the first check that fails, or a recording of all checks.
pub(super) trait Checks {
    type Number: Number;
    /// What a check that fails returns.
    type Failed<R>;

    fn check<R: Reason<Self::Number>>(
        &self,
        is_true: <Self::Number as Number>::Truth,
        reason: impl FnOnce() -> R,
    ) -> Result<(), Self::Failed<R>>;
}

/// Why a check fails.
pub(super) trait Reason<N: Number> {
    fn message(self) -> Message<N>;
}

impl<N: Number> Reason<N> for Problem<N> {
    fn message(self) -> Message<N> {
        Problem::message(self)
    }
}

/// The checks of a plan.
pub(super) struct PlanChecks;

impl Checks for PlanChecks {
    type Number = Natural;
    type Failed<R> = R;

    fn check<R: Reason<Natural>>(&self, is_true: bool, reason: impl FnOnce() -> R) -> Result<(), R> {
        if is_true { Ok(()) } else { Err(reason()) }
    }
}
