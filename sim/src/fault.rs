//! What a kernel did wrong: who, where, to which element, and what to do instead.

use std::fmt;

/// What kind of mistake it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside of a tensor, of a shared array or of registers.
    OutOfBounds,
    /// An access that does not begin at a multiple of its width.
    Misaligned,
    /// Memory or registers are read that nobody wrote.
    Unwritten,
    /// An element is read whose bytes hold another array's data since.
    Overwritten,
    /// Two threads touch one element, one of them writes it, and nothing orders them.
    Race,
    /// What an asynchronous copy moves is touched before the copy has been waited for.
    InFlight,
    /// Ordinary and asynchronous accesses are ordered, but no `fence.proxy.async` stands between them.
    MissingFence,
    /// Threads that must arrive together do not.
    Divergence,
    /// All wait, and nothing will happen.
    Deadlock,
    /// An mbarrier is used wrongly: arrivals, bytes or turns do not fit.
    Mbarrier,
    /// Registers of a matrix product in flight are touched.
    Locked,
    /// An element of a result was not written.
    NotWritten,
    /// An element of a result was written twice.
    WrittenTwice,
    /// Schedules end with different results.
    Unstable,
    /// An index lies outside of the range that the program claims for it.
    Claim,
    /// No GPU could run this program.
    Malformed,
}

impl FaultKind {
    fn words(self) -> &'static str {
        match self {
            FaultKind::OutOfBounds => "an access out of bounds",
            FaultKind::Misaligned => "a misaligned access",
            FaultKind::Unwritten => "a read of what nobody wrote",
            FaultKind::Overwritten => "a read of what another array has overwritten",
            FaultKind::Race => "a race",
            FaultKind::InFlight => "an access to what a copy in flight moves",
            FaultKind::MissingFence => "a missing fence between ordinary and asynchronous accesses",
            FaultKind::Divergence => "threads that do not arrive together",
            FaultKind::Deadlock => "a deadlock",
            FaultKind::Mbarrier => "an mbarrier used wrongly",
            FaultKind::Locked => "registers touched while a matrix product is in flight",
            FaultKind::NotWritten => "an element of the result that nobody wrote",
            FaultKind::WrittenTwice => "an element of the result that was written twice",
            FaultKind::Unstable => "results that depend on the schedule",
            FaultKind::Claim => "an index outside of its claimed range",
            FaultKind::Malformed => "a program that cannot run",
        }
    }
}

/// Somebody who takes part in a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Party {
    /// The block.
    pub block: [u32; 3],
    /// Threads of the block.
    pub threads: Vec<u32>,
    /// What they do: ``writes `sa` at (3, 0)``.
    pub doing: String,
    /// The line of the kernel's file, where it is known.
    pub line: Option<String>,
}

/// A mistake that a run of a kernel showed. Printing it tells everything.
#[derive(Clone, PartialEq)]
pub struct Fault {
    pub(crate) kernel: String,
    pub(crate) variant: usize,
    pub(crate) seed: u64,
    pub(crate) kind: FaultKind,
    pub(crate) message: String,
    pub(crate) parties: Vec<Party>,
    pub(crate) help: String,
}

impl Fault {
    /// What kind of mistake it is.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Which of the kernel's variants ran, counted from 0.
    pub fn variant(&self) -> usize {
        self.variant
    }

    /// The schedule that shows it: `Options { seed, ..Options::default() }` repeats it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What is wrong, with numbers.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Who takes part, the one that was caught first.
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// What to do instead.
    pub fn help(&self) -> &str {
        &self.help
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        let s = if self.threads.len() == 1 { "" } else { "s" };
        write!(f, "thread{s} {} of block ({x}, {y}, {z}) {}", ranges(&self.threads), self.doing)?;
        match &self.line {
            Some(line) => write!(f, "\n    at {line}"),
            None => Ok(()),
        }
    }
}

/// `0-31, 40`
pub(crate) fn ranges(all: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < all.len() {
        let first = all[at];
        while at + 1 < all.len() && all[at + 1] == all[at] + 1 {
            at += 1;
        }
        let gap = if text.is_empty() { "" } else { ", " };
        match all[at] - first {
            0 => text += &format!("{gap}{first}"),
            1 => text += &format!("{gap}{first}, {}", all[at]),
            _ => text += &format!("{gap}{first}-{}", all[at]),
        }
        at += 1;
    }
    text
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}\n  {}", self.kernel, self.kind.words(), self.message)?;
        for party in &self.parties {
            write!(f, "\n  {party}")?;
        }
        if !self.help.is_empty() {
            write!(f, "\nhelp: {}", self.help)?;
        }
        write!(f, "\nseen in variant {}, with seed {}", self.variant + 1, self.seed)
    }
}

/// As for people: `unwrap` shows this.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_as_ranges() {
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[3, 4]), "3, 4");
        assert_eq!(ranges(&[0, 1, 2, 3, 9, 11, 12, 13]), "0-3, 9, 11-13");
    }
}
