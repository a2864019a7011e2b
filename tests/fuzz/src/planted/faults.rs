//! The faults. A text must occur exactly once in its file; if the generator has changed,
//! `cargo test -p tilewright-fuzz` reports which row to adapt.

mod integers;
mod rings;
mod statements;
mod whole;

use super::Fault;
use crate::draw::Kind;

/// All of them.
pub fn faults() -> impl Iterator<Item = &'static Fault> {
    [integers::FAULTS, rings::FAULTS, statements::FAULTS, whole::FAULTS].into_iter().flatten()
}

const fn fault(file: &'static str, breaks: &'static str, text: &'static str, with: &'static str) -> Fault {
    Fault { file, text, with, breaks, kind: Kind::Parts, first: 0, is_rare: false }
}

impl Fault {
    /// Kernels from this seed on find it.
    const fn first(self, first: u64) -> Fault {
        Fault { first, ..self }
    }

    /// Kernels of another kind find it, from this seed.
    const fn by(self, kind: Kind, first: u64) -> Fault {
        Fault { kind, ..self.first(first) }
    }
}

/// A fault that few kernels find.
const fn rare(fault: Fault) -> Fault {
    Fault { is_rare: true, ..fault }
}
