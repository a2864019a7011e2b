//! XOR swizzles, and swizzled layouts.

use std::fmt;
use std::str::FromStr;

use crate::complement::widest_vector;
use crate::error::{Condition, LayoutError, Operand, Result};
use crate::layout::Layout;
use crate::text::Reader;
use crate::tiler::Tiler;
use crate::tuple::Tuple;
use crate::value::Value;

/// `Sw<bits,base,shift>`: XORs `bits` bits, which are `shift` positions above bit `base`, onto the bits at
/// `base`: `y ^ ((y & mask) >> shift)`. With a negative shift the bits move up instead of down.
///
/// ```
/// use tilewright_layout::Swizzle;
/// let swizzle = Swizzle::new(3, 4, 3)?; // the 128-byte mode of Hopper's copies, on bytes
/// assert_eq!(swizzle.apply(0b1_0000000), 0b1_0010000);
/// assert_eq!(swizzle.to_string(), "Sw<3,4,3>");
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    bits: u32,
    base: u32,
    shift: i32,
}

impl Swizzle {
    /// The identity swizzle.
    pub const IDENTITY: Swizzle = Swizzle { bits: 0, base: 0, shift: 0 };

    /// A swizzle. The source bits and the target bits must not overlap, `|shift| >= bits`, and fit 62 bits.
    pub fn new(bits: u32, base: u32, shift: i32) -> Result<Swizzle> {
        let refuse =
            |why| Err(LayoutError::new("swizzle", Condition::BadSwizzle { parts: (bits, base, shift), why }));
        let far = u64::from(bits) + u64::from(base) + u64::from(shift.unsigned_abs());
        if shift.unsigned_abs() < bits {
            return refuse("the bits read and the bits changed overlap; |shift| must be at least bits");
        }
        if far > 62 {
            return refuse("it reaches past bit 62");
        }
        Ok(Swizzle { bits, base, shift })
    }

    /// How many bits are changed.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The lowest bit of the swizzle: groups of `2^base` elements stay contiguous.
    pub fn base(self) -> u32 {
        self.base
    }

    /// The distance of the bits read above the bits changed.
    pub fn shift(self) -> i32 {
        self.shift
    }

    /// Is it the identity?
    pub fn is_identity(self) -> bool {
        self.bits == 0
    }

    /// The offset after the swizzle; its own inverse. Negative offsets are swizzled as two's complement.
    ///
    /// ```
    /// use tilewright_layout::Swizzle;
    /// let swizzle = Swizzle::new(2, 0, 2)?;
    /// assert_eq!((4..8).map(|i| swizzle.apply(i)).collect::<Vec<_>>(), [5, 4, 7, 6]);
    /// assert_eq!(swizzle.apply(swizzle.apply(6)), 6);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub const fn apply(self, offset: i64) -> i64 {
        let ones = (1i64 << self.bits) - 1;
        if self.bits == 0 {
            offset
        } else if self.shift >= 0 {
            offset ^ ((offset & (ones << (self.base as i32 + self.shift))) >> self.shift)
        } else {
            offset ^ ((offset & (ones << self.base)) << -self.shift)
        }
    }

    /// The swizzle for elements `n` times as wide (`n` a power of two no larger than `2^base`).
    ///
    /// ```
    /// use tilewright_layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 4, 3)?.upcast(4)?, Swizzle::new(3, 2, 3)?); // bytes to floats
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn upcast(self, n: i64) -> Result<Swizzle> {
        self.recast(n, -1, "upcast")
    }

    /// The swizzle for elements `n` times as narrow (`n` a power of two).
    ///
    /// ```
    /// use tilewright_layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 2, 3)?.downcast(4)?, Swizzle::new(3, 4, 3)?); // floats to bytes
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn downcast(self, n: i64) -> Result<Swizzle> {
        self.recast(n, 1, "downcast")
    }

    fn recast(self, n: i64, sign: i64, op: &'static str) -> Result<Swizzle> {
        if self.is_identity() {
            return Ok(self);
        }
        if n < 1 || n.count_ones() != 1 {
            let what = "a swizzle can only be recast by a power of two";
            return Err(LayoutError::new(op, Condition::BadArgument { what, value: n }));
        }
        let base = i64::from(self.base) + sign * i64::from(n.trailing_zeros());
        match u32::try_from(base) {
            Ok(base) => Swizzle::new(self.bits, base, self.shift),
            Err(_) => Err(LayoutError::new(
                op,
                Condition::WidthDoesNotDivide { leaf: 0, value: 1 << self.base, by: n },
            )),
        }
    }
}

impl Default for Swizzle {
    fn default() -> Swizzle {
        Swizzle::IDENTITY
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sw<{},{},{}>", self.bits, self.base, self.shift)
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A swizzled layout: `c ↦ swizzle(offset + layout(c))`. Every [`Layout`] is one, with the identity swizzle.
///
/// Rearrangements of coordinates change the inner layout. The offset is separate, because a swizzle does
/// not commute with addition.
///
/// ```
/// use tilewright_layout::{Composed, Swizzle, layout};
/// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
/// assert_eq!(tile.to_string(), "Sw<3,0,3> o 0 o (8,8):(8,1)");
/// assert_eq!(tile.at((3, 5))?, 24 + (3 ^ 5));
/// assert_eq!("Sw<3,0,3> o 0 o (8,8):(8,1)".parse::<Composed>()?, tile);
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Composed {
    swizzle: Swizzle,
    offset: i64,
    layout: Layout,
}

impl From<Layout> for Composed {
    fn from(layout: Layout) -> Composed {
        Composed { swizzle: Swizzle::IDENTITY, offset: 0, layout }
    }
}

impl From<&Layout> for Composed {
    fn from(layout: &Layout) -> Composed {
        layout.clone().into()
    }
}

impl From<&Composed> for Composed {
    fn from(composed: &Composed) -> Composed {
        composed.clone()
    }
}

impl Composed {
    /// `c ↦ swizzle(offset + layout(c))`. All identity swizzles compare equal.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 64, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.at((1, 1))?, 64 + (9 ^ 1));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn new(swizzle: Swizzle, offset: i64, layout: Layout) -> Composed {
        Composed { swizzle: if swizzle.is_identity() { Swizzle::IDENTITY } else { swizzle }, offset, layout }
    }

    /// The swizzle.
    pub fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// The offset that is added before the swizzle.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The layout inside.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The plain layout, if there is no swizzle and no offset.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let plain = Composed::from(layout!((8, 8)));
    /// assert_eq!(plain.as_layout(), Some(&layout!((8, 8))));
    /// assert_eq!(Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8))).as_layout(), None);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn as_layout(&self) -> Option<&Layout> {
        (self.swizzle.is_identity() && self.offset == 0).then_some(&self.layout)
    }

    /// The shape of the coordinates.
    pub fn shape(&self) -> Tuple {
        self.layout.shape()
    }

    /// How many coordinates.
    pub fn size(&self) -> Result<i64> {
        self.layout.size()
    }

    /// How many top-level modes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// One more than the largest offset, which the swizzle may raise to the end of its block; at least one.
    /// For a plain layout it is the [`cosize`](Layout::cosize).
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(2, 0, 2)?, 0, layout!((4, 3) : (4, 1)));
    /// assert_eq!(tile.cosize()?, 16); // (3,0) lands on 15
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn cosize(&self) -> Result<i64> {
        if let Some(layout) = self.as_layout() {
            return layout.cosize();
        }
        let overflow = || LayoutError::new("cosize", Condition::Overflow { leaf: None });
        let (_, most) = self.range("cosize")?;
        let most = match self.swizzle.is_identity() {
            true => most,
            false => self.largest(most)?,
        };
        Ok(most.checked_add(1).ok_or_else(overflow)?.max(1))
    }

    /// The largest offset after the swizzle, where `most` is the largest before it. A swizzle permutes the offsets
    /// of each of its blocks, so the largest one comes from the last block.
    fn largest(&self, most: i64) -> Result<i64> {
        /// Offsets that are looked at. Where there are more, the result is rounded up to the block.
        const LIMIT: i64 = 1 << 16;
        let block = 1i64 << (self.swizzle.base + self.swizzle.bits + self.swizzle.shift.unsigned_abs());
        let in_block = (most & (block - 1)) + 1;
        if in_block > LIMIT {
            return match self.size()? <= LIMIT {
                true => Ok(self.offsets()?.max().unwrap_or(0)),
                false => Ok(most | (block - 1)),
            };
        }
        // Distances from `most`, down to the start of the block, at which there is an element: each mode adds a
        // multiple of its stride.
        let mut reached = vec![false; in_block as usize];
        reached[0] = true;
        for (extent, stride) in self.layout.leaves() {
            let (extent, stride) = (extent.factor(), stride.factor().unsigned_abs());
            if stride == 0 || stride >= in_block as u64 {
                continue;
            }
            for first in 0..stride as usize {
                // How many strides back the last element is that the modes so far reach.
                let mut back = extent;
                for at in (first..reached.len()).step_by(stride as usize) {
                    back = if reached[at] { 0 } else { (back + 1).min(extent) };
                    reached[at] = back < extent;
                }
            }
        }
        let offsets = reached.iter().zip((0..=most).rev()).filter_map(|(&reached, at)| reached.then_some(at));
        Ok(offsets.map(|at| self.swizzle.apply(at)).max().unwrap_or(0))
    }

    /// The smallest and the largest offset before the swizzle.
    fn range(&self, op: &'static str) -> Result<(i64, i64)> {
        let span = self.layout.cosize()? - 1;
        let down: i64 = self.layout.leaves().map(|(n, d)| (n.factor() - 1) * d.factor().min(0)).sum();
        let least = self.offset.checked_add(down);
        least
            .and_then(|least| Some((least, least.checked_add(span)?)))
            .ok_or_else(|| LayoutError::new(op, Condition::Overflow { leaf: None }).with(&self.layout))
    }

    /// The offset of an integer coordinate; `None` as for [`Layout::eval`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.eval(9), Some(8)); // (1,1): 9 ^ 1
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub const fn eval(&self, index: i64) -> Option<i64> {
        match self.layout.eval(index) {
            Some(at) => match at.checked_add(self.offset) {
                Some(at) => Some(self.swizzle.apply(at)),
                None => None,
            },
            None => None,
        }
    }

    /// The offset of a coordinate. Integers only.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.at((1, 1))?, 9 ^ 1);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn at(&self, coord: impl Into<Tuple>) -> Result<i64> {
        let at = self.layout.at(coord)?;
        let at = at.int().ok_or_else(|| self.layout.symbolic("at", at))?;
        let sum = at.checked_add(self.offset);
        let sum = sum.ok_or_else(|| LayoutError::new("at", Condition::Overflow { leaf: None }))?;
        Ok(self.swizzle.apply(sum))
    }

    /// All offsets, in the order of integer coordinates.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(1, 0, 1)?, 0, layout!((2, 2) : (2, 1)));
    /// assert_eq!(tile.offsets()?.collect::<Vec<_>>(), [0, 3, 1, 2]);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn offsets(&self) -> Result<impl Iterator<Item = i64> + '_> {
        let offsets = self.layout.offsets()?;
        self.range("offsets")?;
        Ok(offsets.map(|at| self.swizzle.apply(at + self.offset)))
    }

    /// The same swizzle over a rearranged layout: for every operation that only rearranges coordinates.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.map(|inner| inner.select(&[1, 0]))?.to_string(), "Sw<3,0,3> o 0 o (8,8):(1,8)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn map(&self, rearrange: impl FnOnce(&Layout) -> Result<Layout>) -> Result<Composed> {
        Ok(Composed { swizzle: self.swizzle, offset: self.offset, layout: rearrange(&self.layout)? })
    }

    /// Fixes the modes that have a number: they move into the offset.
    ///
    /// ```
    /// use tilewright_layout::{ALL, Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.slice((3, ALL))?.to_string(), "Sw<3,0,3> o 24 o 8:1");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn slice(&self, coord: impl Into<Tuple>) -> Result<Composed> {
        let (kept, offset) = self.layout.slice(coord)?;
        self.moved(kept, offset, "slice")
    }

    /// See [`Layout::tile`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.tile((4, 8), (1, 0))?.to_string(), "Sw<3,0,3> o 32 o (4,8):(8,1)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tile(&self, tiler: impl Into<Tiler>, coord: impl Into<Tuple>) -> Result<Composed> {
        let (kept, offset) = self.layout.tile(tiler, coord)?;
        self.moved(kept, offset, "tile")
    }

    /// See [`Layout::parallelize`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.parallelize(&layout!((4, 2)), 5, None)?.to_string(), "Sw<3,0,3> o 9 o (2,4):(32,2)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn parallelize(&self, threads: &Layout, thread: i64, projection: Option<Tuple>) -> Result<Composed> {
        let (kept, offset) = self.layout.parallelize(threads, thread, projection)?;
        self.moved(kept, offset, "parallelize")
    }

    fn moved(&self, layout: Layout, by: Value, op: &'static str) -> Result<Composed> {
        let by = by.int().ok_or_else(|| self.layout.symbolic(op, by))?;
        let offset = self.offset.checked_add(by);
        let offset = offset.ok_or_else(|| LayoutError::new(op, Condition::Overflow { leaf: None }))?;
        Ok(Composed { swizzle: self.swizzle, offset, layout })
    }

    /// See [`Layout::composition`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.composition((4, 4))?.to_string(), "Sw<3,0,3> o 0 o (4,4):(8,1)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn composition(&self, tiler: impl Into<Tiler>) -> Result<Composed> {
        self.map(|layout| layout.composition(tiler))
    }

    /// See [`Layout::logical_divide`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.logical_divide((4, 8))?.to_string(), "Sw<3,0,3> o 0 o ((4,2),(8,1)):((8,32),(1,8))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn logical_divide(&self, tiler: impl Into<Tiler>) -> Result<Composed> {
        self.map(|layout| layout.logical_divide(tiler))
    }

    /// See [`Layout::zipped_divide`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.zipped_divide((4, 8))?.to_string(), "Sw<3,0,3> o 0 o ((4,8),(2,1)):((8,1),(32,8))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn zipped_divide(&self, tiler: impl Into<Tiler>) -> Result<Composed> {
        self.map(|layout| layout.zipped_divide(tiler))
    }

    /// See [`Layout::tile_to_shape`]. Copies of a block that fills whole blocks of the swizzle all
    /// have the same swizzle; otherwise the swizzle of a copy depends on its position.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let atom = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(atom.tile_to_shape((16, 8), None)?.to_string(), "Sw<3,0,3> o 0 o (16,8):(8,1)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tile_to_shape(&self, shape: impl Into<Tuple>, order: Option<Tuple>) -> Result<Composed> {
        self.map(|layout| layout.tile_to_shape(shape, order))
    }

    /// In units of `n` elements; see [`Layout::upcast`] and [`Swizzle::upcast`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let bytes = Composed::new(Swizzle::new(3, 4, 3)?, 0, layout!((8, 128) : (128, 1)));
    /// assert_eq!(bytes.upcast(4)?.to_string(), "Sw<3,2,3> o 0 o (8,32):(32,1)"); // floats
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn upcast(&self, n: i64) -> Result<Composed> {
        let within = |e: LayoutError| e.within("upcast", [Operand::Text(self.to_string())]);
        let (layout, needs) = self.layout.upcast(n)?;
        if let Some(need) = needs.first() {
            return Err(self.layout.symbolic("upcast", need.of));
        }
        if self.offset % n != 0 {
            let condition = Condition::WidthDoesNotDivide { leaf: 0, value: self.offset, by: n };
            return Err(within(LayoutError::new("upcast", condition)));
        }
        Ok(Composed { swizzle: self.swizzle.upcast(n).map_err(within)?, offset: self.offset / n, layout })
    }

    /// In units of one `n`-th of an element; see [`Layout::downcast`].
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let floats = Composed::new(Swizzle::new(3, 2, 3)?, 0, layout!((8, 32) : (32, 1)));
    /// assert_eq!(floats.downcast(4)?.to_string(), "Sw<3,4,3> o 0 o (8,128):(128,1)"); // bytes
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn downcast(&self, n: i64) -> Result<Composed> {
        let offset = self.offset.checked_mul(n);
        let offset =
            offset.ok_or_else(|| LayoutError::new("downcast", Condition::Overflow { leaf: None }))?;
        Ok(Composed { swizzle: self.swizzle.downcast(n)?, offset, layout: self.layout.downcast(n)? })
    }

    /// The widest vector copy between this and another layout, in elements; see
    /// [`Layout::max_common_vector`]. A swizzle keeps groups of `2^base` elements contiguous, so each
    /// aligned vector must be within a group.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 2, 3)?, 0, layout!((32, 8)));
    /// assert_eq!(tile.max_common_vector(&layout!((32, 8) : (1, 2048)).into())?, 4);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn max_common_vector(&self, other: &Composed) -> Result<i64> {
        self.layout.max_common_vector(&other.layout)?; // refuses symbols
        let common = self.layout.max_common_layout(&other.layout)?;
        widest_vector(&common, |width| {
            [self, other].iter().all(|side| {
                let Some(starts) = side.layout.vector_starts(&common, width) else {
                    return false;
                };
                let steps = starts.leaves().filter(|(n, _)| *n != Value::Int(1));
                let mut steps = steps.map(|(_, d)| d.factor()).chain([side.offset, 1 << side.swizzle.base]);
                side.swizzle.is_identity() || steps.all(|step| step % width == 0)
            })
        })
    }

    /// Is it injective? A swizzle does not change that.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.is_injective(), Some(true));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn is_injective(&self) -> Option<bool> {
        self.layout.is_injective()
    }

    /// The function from an offset to its coordinate: `R(i)` with `self(R(i)) = i`. A swizzle is its own
    /// inverse, so `R` is `i ↦ inner.right_inverse()(swizzle(i))`; it is a layout only without a swizzle.
    ///
    /// ```
    /// use tilewright_layout::{Composed, Swizzle, layout};
    /// let tile = Composed::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8) : (8, 1)));
    /// assert_eq!(tile.coordinate_of(8)?, Some(9)); // coordinate (1,1) lies at 9 ^ 1
    /// assert_eq!(tile.coordinate_of(64)?, None);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn coordinate_of(&self, offset: i64) -> Result<Option<i64>> {
        let back = self.layout.left_inverse()?;
        let plain = self.swizzle.apply(offset).checked_sub(self.offset);
        Ok(plain
            .and_then(|plain| back.eval(plain))
            .filter(|&index| self.eval(index) == Some(offset))
            .filter(|index| self.size().is_ok_and(|size| (0..size).contains(index))))
    }
}

impl fmt::Display for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_layout() {
            Some(layout) => layout.fmt(f),
            None => write!(f, "{} o {} o {}", self.swizzle, self.offset, self.layout),
        }
    }
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Composed {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Composed> {
        let mut reader = Reader::new("layout", text);
        let composed = reader.composed()?;
        reader.end("the end of the layout")?;
        Ok(composed)
    }
}

impl Reader<'_> {
    /// `Sw<b,m,s> o offset o layout`, or a plain layout.
    pub fn composed(&mut self) -> Result<Composed> {
        let mut composed = Composed::from(Layout::empty());
        self.composed_into(&mut composed)?;
        Ok(composed)
    }

    /// The same, into a value that is reused: moving layouts is most of the cost of parsing them. After an
    /// error the value is unspecified.
    pub fn composed_into(&mut self, composed: &mut Composed) -> Result<()> {
        (composed.swizzle, composed.offset) = (Swizzle::IDENTITY, 0);
        if !self.rest().starts_with("Sw<") {
            return self.layout_into(&mut composed.layout);
        }
        self.word();
        self.need(b'<', "`<`")?;
        let mut parts = [0i64; 3];
        for (i, part) in parts.iter_mut().enumerate() {
            if i > 0 {
                self.need(b',', "`,`")?;
            }
            let negative = self.take(b'-');
            *part = self.number(negative)?;
        }
        let [bits, base, shift] = parts;
        let small = |n: i64| u32::try_from(n).ok().filter(|n| *n < 64);
        let (Some(bits), Some(base), Some(_)) = (small(bits), small(base), small(shift.saturating_abs()))
        else {
            return Err(self.expected("bits and base in 0..64 and |shift| < 64 before this"));
        };
        composed.swizzle = Swizzle::new(bits, base, shift as i32)?;
        self.need(b'>', "`>`")?;
        self.need(b'o', "`o` and the offset")?;
        let negative = self.take(b'-');
        composed.offset = self.number(negative)?;
        self.need(b'o', "`o` and the layout")?;
        self.layout_into(&mut composed.layout)
    }
}
