//! Diagnostics for the author of a kernel: errors, warnings, and entries of the report.

use crate::source::ast::{Level, Name, Span};
use crate::source::spelling::did_you_mean;

/// A diagnostic with a span.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// The span.
    pub span: Span,
    /// `Deny` stops the kernel.
    pub level: Level,
    /// The lint that it belongs to; `None` for an ordinary error.
    pub lint: Option<&'static str>,
    /// The mistake, with its numbers.
    pub message: String,
    /// The suggested remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { span, level: Level::Deny, lint: None, message: message.into(), help: None }
    }

    /// Adds the suggested remedy.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Message and help as the compiler shows them.
    pub fn text(&self) -> String {
        match &self.help {
            Some(help) => format!("{}\nhelp: {help}", self.message),
            None => self.message.clone(),
        }
    }
}

/// A lint: a name, the default level, and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Lint {
    /// Its name.
    pub name: &'static str,
    /// Its usual level.
    pub level: Level,
    /// The code that it finds, for `--help` and messages.
    pub about: &'static str,
}

impl Lint {
    /// Its level: its own, or the last that was set.
    pub fn level_among(&self, set: &[(Name, Level)]) -> Level {
        set.iter().rev().find(|(name, _)| name.text == self.name).map_or(self.level, |(_, level)| *level)
    }
}

/// All lints.
pub const LINTS: &[Lint] = &[
    Lint {
        name: "bank_conflicts",
        level: Level::Warn,
        about: "a warp's access to shared memory takes more wavefronts than its width needs",
    },
    Lint {
        name: "uncoalesced",
        level: Level::Warn,
        about: "a warp's access to global memory moves more than twice the bytes that it uses",
    },
    Lint {
        name: "possible_race",
        level: Level::Allow,
        about: "accesses that could not be shown to be ordered",
    },
    Lint { name: "covered", level: Level::Warn, about: "a loop over fewer tiles than its tensor has" },
    Lint {
        name: "unbounded",
        level: Level::Warn,
        about: "a tile that is shorter than an extent which nothing bounds",
    },
    Lint {
        name: "contracted",
        level: Level::Warn,
        about: "a product whose operands are summed over two sizes that nothing says are equal",
    },
    Lint {
        name: "rearranged",
        level: Level::Warn,
        about: "elements that are stored to other coordinates than they have in their own tensor",
    },
    Lint {
        name: "elementwise",
        level: Level::Warn,
        about: "`max` or `min` of a tile and what looks like a mode: the elements of a tile are combined by `maximum` and `minimum`",
    },
    Lint {
        name: "cuda_cores",
        level: Level::Warn,
        about: "a product of whole tiles of f16 or bf16 that is computed by multiply-adds, without tensor cores",
    },
    Lint {
        name: "order_matters",
        level: Level::Warn,
        about: "a reduction or scan by a closure whose result depends on the order in which threads combine elements",
    },
    Lint {
        name: "deterministic",
        level: Level::Allow,
        about: "floating-point numbers that are added atomically: their sum differs from run to run",
    },
    Lint {
        name: "unwritten",
        level: Level::Warn,
        about: "an argument that is declared `&mut`, and that no statement writes",
    },
    Lint {
        name: "unread",
        level: Level::Warn,
        about: "an argument, a tile in shared memory or registers, or an assigned value, that no statement reads",
    },
    Lint {
        name: "unused",
        level: Level::Warn,
        about: "a name that `let` gives, or a number that is an argument, and that nothing uses",
    },
];

impl Lint {
    /// The lint of this name.
    pub fn named(name: &str) -> Option<&'static Lint> {
        LINTS.iter().find(|lint| lint.name == name)
    }

    /// The error for a name that no lint has.
    pub fn unknown(name: &Name) -> Option<Diagnostic> {
        let names = || LINTS.iter().map(|lint| lint.name);
        let help = || format!("the lints are {}", names().collect::<Vec<_>>().join(", "));
        Lint::named(&name.text).is_none().then(|| {
            Diagnostic::error(name.span, format!("there is no lint `{}`", name.text))
                .help(did_you_mean(&name.text, names()).unwrap_or_else(help))
        })
    }
}
