//! Coordinates that depend on the block, the thread and loop variables: an integer plus multiples of those.

use tilewright_layout::{Swizzle, Symbol};

use crate::thread::Id;

/// What a coordinate can depend on.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Coord {
    /// The block's index along x, y, z.
    Block(u8),
    /// A loop variable.
    Var(Id),
    /// The thread's number in its group; of a family, in its member.
    Thread(Id),
    /// The number of the family's member that the thread belongs to.
    Member(Id),
    /// The same with a swizzle, given by its bits, base and shift, over it.
    Swizzled(Id, (u32, u32, i32)),
    /// The block's rank in its cluster.
    ClusterRank,
    /// Where a turn's tile begins, if the last ends with an extent and the first is the one that is not whole: at 0, at
    /// what the others leave over, and from there in steps of a tile.
    Begin {
        /// The turn.
        turn: Box<Affine>,
        /// The extent.
        of: Symbol,
        /// Elements of a whole tile.
        tile: i64,
    },
    /// How many slots of a ring the group has been through; it outlives loops.
    Turn(Id),
    /// `of / over`, and its remainder by `extent` where there is one.
    Digit {
        /// Of what.
        of: Box<Affine>,
        /// Divided by.
        over: i64,
        /// Taken modulo.
        extent: Option<i64>,
    },
}

/// `constant + Σ factor · coordinate`
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Affine {
    /// The integer.
    pub constant: i64,
    /// The multiples, each coordinate once, in order.
    pub terms: Vec<(Coord, i64)>,
}

impl From<i64> for Affine {
    fn from(constant: i64) -> Affine {
        Affine { constant, terms: Vec::new() }
    }
}

impl From<Coord> for Affine {
    fn from(coord: Coord) -> Affine {
        Affine { constant: 0, terms: vec![(coord, 1)] }
    }
}

impl Affine {
    /// Its value, if it is an integer.
    pub fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// `self + other * times`; `None` past 64 bits.
    pub fn plus(&self, other: &Affine, times: i64) -> Option<Affine> {
        let mut sum = self.clone();
        sum.constant = sum.constant.checked_add(other.constant.checked_mul(times)?)?;
        for (coord, factor) in &other.terms {
            let factor = factor.checked_mul(times)?;
            match sum.terms.iter_mut().find(|(known, _)| known == coord) {
                Some((_, known)) => *known = known.checked_add(factor)?,
                None => sum.terms.push((coord.clone(), factor)),
            }
        }
        sum.terms.retain(|(_, factor)| *factor != 0);
        sum.terms.sort();
        Some(sum)
    }

    /// `self * times`.
    pub fn times(&self, times: i64) -> Option<Affine> {
        Affine::default().plus(self, times)
    }

    /// The digit of this number in a mixed radix: `self / over % extent`.
    pub fn digit(&self, over: i64, extent: Option<i64>) -> Affine {
        match (self.constant(), extent) {
            (_, Some(1)) => 0.into(),
            (Some(n), Some(extent)) => (n / over % extent).into(),
            (Some(n), None) => (n / over).into(),
            (None, None) if over == 1 => self.clone(),
            _ => Coord::Digit { of: Box::new(self.clone()), over, extent }.into(),
        }
    }

    /// How many terms it has, those inside of digits included, and how deep digits are in one another.
    pub(crate) fn parts(&self) -> (usize, usize) {
        let (mut count, mut deepest) = (1, 0);
        let mut left: Vec<(&Affine, usize)> = vec![(self, 0)];
        while let Some((affine, depth)) = left.pop() {
            deepest = deepest.max(depth);
            for (coord, _) in &affine.terms {
                count += 1;
                if let Coord::Digit { of, .. } | Coord::Begin { turn: of, .. } = coord {
                    left.push((of, depth + 1));
                }
            }
        }
        (count, deepest)
    }

    /// The same with an expression in place of a coordinate; `None` past 64 bits.
    ///
    /// ```
    /// use tilewright_codegen::affine::{Affine, Coord};
    /// let slot = Affine::from(Coord::Var(0)).digit(1, Some(2));
    /// assert_eq!(slot.with(&Coord::Var(0), &3.into()).unwrap().constant(), Some(1));
    /// ```
    pub fn with(&self, this: &Coord, by: &Affine) -> Option<Affine> {
        let mut sum = Affine::from(self.constant);
        for (coord, factor) in &self.terms {
            let term = match coord {
                coord if coord == this => by.clone(),
                Coord::Digit { of, over, extent } => of.with(this, by)?.digit(*over, *extent),
                Coord::Begin { turn, of, tile } => {
                    Coord::Begin { turn: Box::new(turn.with(this, by)?), of: *of, tile: *tile }.into()
                }
                coord => coord.clone().into(),
            };
            sum = sum.plus(&term, *factor)?;
        }
        Some(sum)
    }

    /// The same with another coordinate in place of one.
    pub fn replaced(&self, this: &Coord, by: &Coord) -> Affine {
        let swap = |coord: &Coord| match coord {
            coord if coord == this => by.clone(),
            Coord::Digit { of, over, extent } => {
                Coord::Digit { of: Box::new(of.replaced(this, by)), over: *over, extent: *extent }
            }
            Coord::Begin { turn, of, tile } => {
                Coord::Begin { turn: Box::new(turn.replaced(this, by)), of: *of, tile: *tile }
            }
            coord => coord.clone(),
        };
        let mut terms: Vec<(Coord, i64)> = self.terms.iter().map(|(c, n)| (swap(c), *n)).collect();
        terms.sort();
        Affine { constant: self.constant, terms }
    }

    /// Does any part of it satisfy this?
    pub fn any(&self, test: &dyn Fn(&Coord) -> bool) -> bool {
        self.terms.iter().any(|(coord, _)| match coord {
            Coord::Digit { of, .. } | Coord::Begin { turn: of, .. } => test(coord) || of.any(test),
            Coord::Swizzled(group, _) => test(coord) || test(&Coord::Thread(*group)),
            _ => test(coord),
        })
    }

    /// Does it depend on the thread?
    pub fn per_thread(&self) -> bool {
        self.any(&|coord| matches!(coord, Coord::Thread(_)))
    }

    /// Its value for these coordinates; what passes 64 bits stays at their end, which is outside of every tensor.
    pub fn eval(&self, lookup: &dyn Fn(&Coord) -> i64) -> i64 {
        self.terms.iter().fold(self.constant, |sum, (coord, factor)| {
            let value = match coord {
                Coord::Digit { of, over, extent } => {
                    let digit = of.eval(lookup).div_euclid(*over);
                    extent.map_or(digit, |n| digit.rem_euclid(n))
                }
                Coord::Swizzled(group, parts) => swizzle(*parts).apply(lookup(&Coord::Thread(*group))),
                _ => lookup(coord),
            };
            sum.saturating_add(factor.saturating_mul(value))
        })
    }
}

impl Coord {
    /// A thread's number in its group, with a swizzle over it.
    pub fn thread(group: Id, swizzle: Swizzle) -> Coord {
        match swizzle.is_identity() {
            true => Coord::Thread(group),
            false => Coord::Swizzled(group, (swizzle.bits(), swizzle.base(), swizzle.shift())),
        }
    }
}

/// The swizzle of a [`Coord::Swizzled`].
pub(crate) fn swizzle((bits, base, shift): (u32, u32, i32)) -> Swizzle {
    Swizzle::new(bits, base, shift).unwrap_or(Swizzle::IDENTITY)
}
