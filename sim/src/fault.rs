//! A fault of a kernel: the threads, the line, the element, and how to fix it.

use std::fmt;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside of a tensor, of a shared array or of registers.
    OutOfBounds,
    /// An access that does not begin at a multiple of its width.
    Misaligned,
    /// Uninitialised memory or registers are read.
    Unwritten,
    /// An element is read after another array has overwritten its bytes.
    Overwritten,
    /// Two threads access one element without an order, and one of them writes it.
    Race,
    /// The source or target of an asynchronous copy is accessed before the copy has been waited for.
    InFlight,
    /// Accesses are ordered, but without the fence that is needed between them: `fence.proxy.async`,
    /// `wgmma.fence`, `fence.mbarrier_init`.
    MissingFence,
    /// Threads that must arrive together do not.
    Divergence,
    /// All warps wait, and no operation is in flight.
    Deadlock,
    /// An mbarrier is misused: arrivals, bytes or phases do not match.
    Mbarrier,
    /// Registers of a matrix product in flight are accessed.
    Locked,
    /// An element of a result was not written.
    NotWritten,
    /// An element of a result was written twice.
    WrittenTwice,
    /// Schedules give different results.
    Unstable,
    /// An index is outside of the range that the program claims for it.
    Claim,
    /// An out-of-bounds element differs from its claimed value.
    FalseClaim,
    /// An `assert_device` is false.
    Assertion,
    /// In a strict run, the index of a gather or scatter is out of bounds.
    Strict,
    /// No GPU could run this program.
    Malformed,
}

impl FaultKind {
    fn words(self) -> &'static str {
        match self {
            FaultKind::OutOfBounds => "an access out of bounds",
            FaultKind::Misaligned => "a misaligned access",
            FaultKind::Unwritten => "an uninitialised read",
            FaultKind::Overwritten => "a read of an array that another one has overwritten",
            FaultKind::Race => "a race",
            FaultKind::InFlight => "an access that conflicts with an operation in flight",
            FaultKind::MissingFence => "a missing fence",
            FaultKind::Divergence => "divergent threads where all must arrive",
            FaultKind::Deadlock => "a deadlock",
            FaultKind::Mbarrier => "a misused mbarrier",
            FaultKind::Locked => "registers accessed while a matrix product is in flight",
            FaultKind::NotWritten => "an unwritten element of the result",
            FaultKind::WrittenTwice => "an element of the result written twice",
            FaultKind::Unstable => "results that depend on the schedule",
            FaultKind::Claim => "an index outside of its claimed range",
            FaultKind::Strict => "a gather or scatter out of bounds, in a strict run",
            FaultKind::FalseClaim => "a false claim about out-of-bounds elements",
            FaultKind::Assertion => "a failed assertion",
            FaultKind::Malformed => "a program that cannot run",
        }
    }
}

/// How many there are, in words: `1 byte`, `16 bytes`.
pub(crate) fn count(n: i64, of: &str) -> String {
    format!("{n} {of}{}", if n == 1 { "" } else { "s" })
}

/// Threads that take part in a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Party {
    /// The block.
    pub block: [u32; 3],
    /// Threads of the block.
    pub threads: Vec<u32>,
    /// Their action: ``writes `sa` at (3, 0)``.
    pub doing: String,
    /// The line of the kernel's file, if it is known.
    pub line: Option<String>,
}

/// A fault in a run of a kernel. `Display` prints all of it.
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
    /// The kind of the fault.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The index of the variant that ran, from 0.
    pub fn variant(&self) -> usize {
        self.variant
    }

    /// The seed of the schedule: `Options { seed, ..Options::default() }` reproduces it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The fault, with numbers.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The accesses that take part; the one that was detected comes first.
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// How to fix it.
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

/// `unwrap` prints the `Display` form.
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
