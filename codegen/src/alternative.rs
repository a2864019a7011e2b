//! Alternatives: programs that compute the same, and what their variants assume.

use crate::tile::Program;

/// What a variant may assume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Whatever makes it faster: full tiles, alignment, 32-bit offsets. Each becomes a fact that launch
    /// checks.
    Best,
    /// The same without full tiles: edges are guarded, accesses stay vectorized.
    Aligned,
    /// Only that offsets fit 32 bits.
    Small,
    /// No assumptions.
    General,
}

/// The same kernel as another program, for launches whose facts exclude the earlier ones.
pub(crate) struct Alternative {
    pub(crate) program: Program,
    /// The assumptions of its variants, one after the other.
    pub(crate) policies: Vec<Policy>,
}

impl Alternative {
    /// The same with ever narrower vector accesses, for launches with less alignment; the last serves every
    /// one.
    pub(crate) fn narrower(mut programs: Vec<Program>) -> Vec<Alternative> {
        let last = programs.pop().map(Alternative::last);
        let between =
            programs.into_iter().map(|program| Alternative { program, policies: vec![Policy::Aligned] });
        between.chain(last).collect()
    }

    /// The fallback for every launch.
    pub(crate) fn last(program: Program) -> Alternative {
        Alternative { program, policies: vec![Policy::Small, Policy::General] }
    }
}
