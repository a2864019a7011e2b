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

/// The default vector width of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    /// The width of the widest access.
    Widest,
    /// One, so that accesses are coalesced where no alignment can be assumed.
    One,
}

/// The same kernel as another program, among which a launch chooses.
pub(crate) struct Alternative {
    pub(crate) program: Program,
    /// The widths of its accesses to whole tiles.
    pub(crate) width: Width,
    /// The assumptions of its variants, one after the other.
    pub(crate) policies: Vec<Policy>,
    /// The constants that distinguish it, `BM = 64`, if the author lists their values. It is left out if it
    /// cannot be made.
    pub(crate) label: Option<String>,
}

impl Alternative {
    /// A program that must be possible, with scalar accesses to whole tiles.
    pub(crate) fn new(program: Program, policies: Vec<Policy>) -> Alternative {
        Alternative { program, width: Width::One, policies, label: None }
    }

    /// The alternatives with ever shorter vectors, for launches with less alignment. The last takes every
    /// launch.
    pub(crate) fn narrower(mut programs: Vec<Program>) -> Vec<Alternative> {
        let last = programs.pop().map(Alternative::last);
        let between = programs.into_iter().map(|program| Alternative::new(program, vec![Policy::Aligned]));
        between.chain(last).collect()
    }

    /// The fallback for every launch.
    pub(crate) fn last(program: Program) -> Alternative {
        Alternative::new(program, vec![Policy::Small, Policy::General])
    }
}
