//! Alternatives: programs that compute the same, and the assumptions of their variants.

use crate::tile::Program;

/// The assumptions of a variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// All assumptions that make it faster: full tiles, alignment, 32-bit offsets. Each becomes a fact that launch
    /// checks.
    Best,
    /// The same without full tiles: edges are guarded, accesses stay vectorized.
    Aligned,
    /// Only that offsets fit 32 bits.
    Small,
    /// No assumptions.
    General,
}

/// The default widths of accesses to whole tiles in bytes, by statements that write global memory and by others. An access has at
/// least one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width {
    /// By statements that do not write global memory.
    pub reads: i64,
    /// By statements that write global memory.
    pub writes: i64,
}

impl Width {
    /// The widest access.
    pub const WIDEST: Width = Width { reads: 16, writes: 16 };
    /// Single elements, so that accesses are coalesced where no alignment can be assumed.
    pub const ONE: Width = Width { reads: 1, writes: 1 };
    /// The widest reads, and results of any alignment.
    pub const READS: Width = Width { reads: 16, writes: 1 };
}

/// The same kernel as another program, among which a launch chooses.
pub struct Alternative {
    /// The program.
    pub program: Program,
    /// The widths of its accesses to whole tiles.
    pub width: Width,
    /// The assumptions of its variants, one after the other.
    pub policies: Vec<Policy>,
    /// The constants that distinguish it, `BM = 64`, if the author lists their values. It is left out if it
    /// cannot be made.
    pub label: Option<String>,
}

impl Alternative {
    /// A program that must be possible, with scalar accesses to whole tiles.
    pub fn new(program: Program, policies: Vec<Policy>) -> Alternative {
        Alternative { program, width: Width::ONE, policies, label: None }
    }

    /// A program with the widest accesses, for arguments that are aligned for them.
    pub fn aligned(program: Program) -> Alternative {
        Alternative::new(program, vec![Policy::Aligned]).wide(Width::WIDEST)
    }

    /// The same with other accesses.
    pub fn wide(self, width: Width) -> Alternative {
        Alternative { width, ..self }
    }

    /// The alternatives with ever shorter vectors, for launches with less alignment. The last takes every
    /// launch.
    pub fn narrower(mut programs: Vec<(Program, Width)>) -> Vec<Alternative> {
        let last = programs.pop().map(|(program, width)| Alternative::last(program).wide(width));
        let between = programs
            .into_iter()
            .map(|(program, width)| Alternative::new(program, vec![Policy::Aligned]).wide(width));
        between.chain(last).collect()
    }

    /// The fallback for every launch.
    pub fn last(program: Program) -> Alternative {
        Alternative::new(program, vec![Policy::Small, Policy::General])
    }
}
