//! Obligations: conditions on symbols, to be checked at launch.

use std::fmt;

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::tiler::Tiler;
use crate::value::{Symbol, Value};

/// A condition on a symbol, to be checked at launch.
///
/// ```
/// use tilewright_layout::{Layout, Symbol};
/// let a: Layout = "(128,K):(1,lda)".parse()?;
/// let (_, needs) = a.upcast(4)?;
/// assert_eq!(needs.iter().map(|n| n.to_string()).collect::<Vec<_>>(), ["4 divides lda"]);
/// assert_eq!(needs[0].is_met(&|_| Some(130)), Some(false));
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Obligation {
    /// The divisor.
    pub divisor: i64,
    /// The value that it must divide.
    pub of: Value,
}

impl Obligation {
    /// Whether it is true for these values; `None` when one is missing.
    pub fn is_met(&self, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Option<bool> {
        Some(self.of.evaluate(lookup)? % self.divisor == 0)
    }
}

impl fmt::Display for Obligation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} divides {}", self.divisor, self.of)
    }
}

/// The condition for every tile along one mode to be whole, to be checked at launch; see
/// [`Layout::tile_obligations`].
///
/// ```
/// use tilewright_layout::{Layout, layout};
/// let needs = "M:1".parse::<Layout>()?.tile_obligations(layout!(4 : 2))?; // 0 2 4 6, and 1 3 5 7
/// assert_eq!(needs[0].to_string(), "8 divides M");
/// assert_eq!(needs[0].is_met(&|_| Some(12)), Some(false));
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TileObligation {
    /// The period of the tiles.
    pub period: i64,
    /// The span of a tile: the period, unless there is a gap at the end.
    pub reach: i64,
    /// The extent that they tile.
    pub of: Value,
}

impl TileObligation {
    /// Whether it is true for these values; `None` when one is missing.
    pub fn is_met(&self, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Option<bool> {
        Some(self.is_met_for(self.of.evaluate(lookup)?))
    }

    fn is_met_for(&self, extent: i64) -> bool {
        let rest = extent % self.period;
        rest == 0 || rest >= self.reach
    }

    /// Is it true for every value of the symbol?
    fn is_settled(&self) -> bool {
        match self.of {
            Value::Int(extent) => self.is_met_for(extent),
            other => self.reach == 1 || other.factor() % self.period == 0,
        }
    }

    /// Is it implied by the other?
    fn is_implied_by(&self, other: &TileObligation) -> bool {
        let divides = other.reach == other.period && other.period % self.period == 0;
        self.of == other.of && (divides || self.period == other.period && self.reach <= other.reach)
    }
}

impl fmt::Display for TileObligation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TileObligation { period, reach, of } = self;
        if reach == period {
            return write!(f, "{period} divides {of}");
        }
        write!(f, "{of} leaves a remainder of 0 or at least {reach} when divided by {period}")
    }
}

/// Each obligation once, without implied ones.
pub(crate) fn distinct(needs: Vec<Obligation>) -> Vec<Obligation> {
    without_implied(needs, |one, other| one.of == other.of && other.divisor % one.divisor == 0)
}

fn without_implied<T: Copy>(needs: Vec<T>, implied: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for need in needs {
        if !kept.iter().any(|other| implied(&need, other)) {
            kept.retain(|other| !implied(other, &need));
            kept.push(need);
        }
    }
    kept
}

impl Layout {
    /// The conditions at launch for every tile to be whole: no coordinate of a tile is out of bounds. They
    /// are exact: tiles are whole for the sizes that satisfy all of them, and for no others. A tile that is
    /// never whole is an error instead: [`Condition::TileDoesNotDivide`] or [`Condition::TilesOutOfBounds`].
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// let needs = "(M,256):(1,lda)".parse::<Layout>()?.tile_obligations((128, 8))?;
    /// assert_eq!(needs.iter().map(|need| need.to_string()).collect::<Vec<_>>(), ["128 divides M"]);
    /// assert!(layout!((100, 256)).tile_obligations((128, 8)).is_err()); // never whole
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tile_obligations(&self, tiler: impl Into<Tiler>) -> Result<Vec<TileObligation>> {
        const OP: &str = "tile_obligations";
        let tiler = tiler.into();
        let mut needs = Vec::new();
        tiler
            .check(OP)
            .and_then(|()| self.gather(&tiler, 0, &mut needs))
            .map_err(|e| e.within(OP, [self.into(), (&tiler).into()]))?;
        Ok(without_implied(needs, TileObligation::is_implied_by))
    }

    fn gather(&self, tiler: &Tiler, mode: usize, needs: &mut Vec<TileObligation>) -> Result<()> {
        match tiler {
            Tiler::Layout(tile) => needs.extend(self.whole(tile, mode)?),
            Tiler::Modes(tilers) => {
                let (rank, against) = (tilers.len(), self.rank());
                if rank > against {
                    return Err(LayoutError::new("", Condition::DoesNotFit { what: "tiler", rank, against }));
                }
                for (index, (mode, tiler)) in self.modes().zip(tilers).enumerate() {
                    mode.gather(tiler, index, needs)?;
                }
            }
            Tiler::Keep => {}
        }
        Ok(())
    }

    /// By the definition of a division: the tile, and its copies in its complement.
    fn whole(&self, tile: &Layout, mode: usize) -> Result<Option<TileObligation>> {
        let refuse = |condition| Err(LayoutError::new("", condition));
        let of = match (self.size(), &*self.shape) {
            (Ok(size), _) => Value::Int(size),
            (_, [extent]) => *extent,
            (Err(e), _) => return Err(e),
        };
        for (extent, stride) in tile.leaves() {
            if let (true, Value::Int(stride @ ..0)) = (extent != Value::Int(1), stride) {
                return refuse(Condition::NegativeIndex { stride });
            }
        }
        let period = tile.period("")?;
        let gaps = tile.complement_in(Value::Int(1), "")?;
        let reach = (tile.cosize()? - 1).checked_add(gaps.cosize()?);
        let reach = reach.ok_or_else(|| LayoutError::new("", Condition::Overflow { leaf: None }))?;
        let need = TileObligation { period, reach, of };
        match of {
            _ if need.is_settled() => Ok(None),
            Value::Int(_) if tile.size()? == period => {
                refuse(Condition::TileDoesNotDivide { mode, tile: Value::Int(period), extent: of })
            }
            Value::Int(extent) => refuse(Condition::TilesOutOfBounds { mode, period, reach, extent }),
            _ => Ok(Some(need)),
        }
    }
}
