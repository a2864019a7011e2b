//! Exchanges between the lanes of a warp.

use crate::values::affine::{Affine, Coord};
use crate::values::expr::Expr;

/// The sizes of groups of lanes.
pub const GROUPS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The number of a lane in its group of `lanes` neighbours.
pub fn own(lanes: u32) -> Affine {
    Affine::from(Coord::Thread(0)).submode(1, Some(lanes.into()))
}

/// The result that each lane gets from the other lanes of its group.
#[derive(Clone, PartialEq, Debug)]
pub enum Lanes {
    /// The first input of the lane with this number in the group, modulo the size of the group. It is a function of
    /// the inputs, an `i32`.
    Shuffle(Expr),
    /// A bit for each lane: is its condition true?
    Ballot,
    /// A bit for each lane that has the same integer.
    Match,
}

impl Lanes {
    /// Its name in the language.
    pub fn name(&self) -> &'static str {
        match self {
            Lanes::Shuffle(_) => "warp_shuffle",
            Lanes::Ballot => "warp_ballot",
            Lanes::Match => "warp_match",
        }
    }

    /// The function of elements in it.
    pub fn function(&self) -> Option<&Expr> {
        match self {
            Lanes::Shuffle(lane) => Some(lane),
            Lanes::Ballot | Lanes::Match => None,
        }
    }

    /// The same, mutably.
    pub fn function_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Lanes::Shuffle(lane) => Some(lane),
            Lanes::Ballot | Lanes::Match => None,
        }
    }
}
