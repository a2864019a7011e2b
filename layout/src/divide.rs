//! Division by a tiler, and products: layouts of tiles.

use crate::compose::by_mode;
use crate::error::{Condition, LayoutError, Operand, Result};
use crate::layout::Layout;
use crate::tiler::Tiler;
use crate::tuple::Tuple;
use crate::value::Value;

impl Layout {
    /// Each mode becomes `(tile, rest)`: the elements that the tiler selects, and its repetitions. A tile
    /// that does not divide rounds the rest up.
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// assert_eq!(layout!(24 : 1).logical_divide(layout!(4 : 2))?.to_string(), "(4,(2,3)):(2,(1,8))");
    /// let a: Layout = "(M,K):(1,lda)".parse()?;
    /// let tiled = a.logical_divide((128, 8))?;
    /// assert_eq!(tiled.to_string(), "((128,ceil(M/128)),(8,ceil(K/8))):((1,128),(lda,8*lda))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn logical_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        self.divide(&tiler.into(), "logical_divide")
    }

    fn divide(&self, tiler: &Tiler, op: &'static str) -> Result<Layout> {
        let right = match tiler {
            Tiler::Layout(right) => right,
            Tiler::Keep => return Ok(self.clone()),
            Tiler::Modes(_) => return by_mode(self, tiler, op, &|mode, tiler| mode.divide(tiler, op)),
        };
        let within =
            |e: LayoutError| e.within(op, [Operand::Layout(self.clone()), Operand::Tiler(tiler.clone())]);
        right.check(op).map_err(within)?;
        let size = match (&*self.shape, self.size()) {
            (_, Ok(size)) => Value::Int(size),
            ([extent], _) => *extent,
            (_, Err(e)) => return Err(within(e)),
        };
        let rest = right.complement_in(size, op).map_err(within)?;
        let both = Layout::from_modes([right.clone(), rest]).map_err(within)?;
        self.composition(&both).map_err(|e| match e.is_a_bend() {
            true => e.within(op, [Operand::Layout(self.clone()), Operand::Layout(right.clone())]),
            false => within(e),
        })
    }

    /// `((tiles), (rests))`: the first mode is one tile, the second enumerates the tiles.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let tiles = layout!((8, 8) : (1, 8)).zipped_divide(layout!((4, 4) : (1, 4)))?;
    /// assert_eq!(tiles.to_string(), "((4,4),4):((1,4),16)");
    /// assert_eq!(layout!((8, 8)).zipped_divide((4, 4))?.to_string(), "((4,4),(2,2)):((1,8),(4,32))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn zipped_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        let (tile, rest) = self.split(&tiler, "zipped_divide")?;
        Layout::from_modes([tile, rest])
    }

    /// `((tiles), rest, rest, …)`: like [`zipped_divide`](Layout::zipped_divide), with the rests as separate
    /// modes.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((8, 8)).tiled_divide((4, 4))?.to_string(), "((4,4),2,2):((1,8),4,32)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tiled_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        let (tile, rest) = self.split(&tiler, "tiled_divide")?;
        Layout::from_modes([tile].into_iter().chain(rest.modes()))
    }

    /// `(tile, tile, …, rest, rest, …)`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((8, 8)).flat_divide((4, 4))?.to_string(), "(4,4,2,2):(1,8,4,32)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn flat_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        let (tile, rest) = self.split(&tiler, "flat_divide")?;
        Layout::from_modes(tile.modes().chain(rest.modes()))
    }

    /// Tile and rest of a division, each gathered over the modes of the tiler.
    pub(crate) fn split(&self, tiler: &Tiler, op: &'static str) -> Result<(Layout, Layout)> {
        unzip(&self.divide(tiler, op)?, tiler)
    }

    /// `(self, copies)`: this layout, repeated as the tiler says.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!(4 : 1).logical_product(layout!(3 : 1))?.to_string(), "(4,3):(1,4)");
    /// assert_eq!(layout!((2, 2) : (4, 1)).logical_product(6)?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn logical_product(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        self.product(&tiler.into(), "logical_product")
    }

    fn product(&self, tiler: &Tiler, op: &'static str) -> Result<Layout> {
        let right = match tiler {
            Tiler::Layout(right) => right,
            Tiler::Keep => return Ok(self.clone()),
            Tiler::Modes(_) => return by_mode(self, tiler, op, &|mode, tiler| mode.product(tiler, op)),
        };
        let within =
            |e: LayoutError| e.within(op, [Operand::Layout(self.clone()), Operand::Tiler(tiler.clone())]);
        right.check(op).map_err(within)?;
        let room = self.size().and_then(|size| {
            size.checked_mul(right.cosize()?)
                .ok_or_else(|| LayoutError::new(op, Condition::Overflow { leaf: None }))
        });
        let room = room.map_err(within)?;
        let count = right.cosize().map_err(within)?;
        let mut rest = self.complement_in(Value::Int(room), op).map_err(within)?;
        if rest.size().map_err(within)? < count {
            // Gaps that do not fit a whole copy have too few: the others need room after the block.
            let behind = self.cosize().ok().and_then(|reach| reach.checked_mul(2)?.checked_mul(count));
            let behind =
                behind.ok_or_else(|| within(LayoutError::new(op, Condition::Overflow { leaf: None })))?;
            rest = self.complement_in(Value::Int(behind), op).map_err(within)?;
        }
        let copies = rest.composition(right).map_err(within)?;
        Layout::from_modes([self.clone(), copies]).map_err(within)
    }

    /// [`logical_product`](Layout::logical_product) by mode, gathered: `((tiles), (copies))`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((2, 4) : (1, 2)).zipped_product(layout!(3 : 1))?.to_string(), "((2,4),3):((1,2),8)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn zipped_product(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        let (tile, copies) = unzip(&self.product(&tiler, "zipped_product")?, &tiler)?;
        Layout::from_modes([tile, copies])
    }

    /// `((tiles), copies, copies, …)`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!((2, 4) : (1, 2));
    /// assert_eq!(a.tiled_product(layout!((3, 2)))?.to_string(), "((2,4),3,2):((1,2),8,24)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tiled_product(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        let (tile, copies) = unzip(&self.product(&tiler, "tiled_product")?, &tiler)?;
        Layout::from_modes([tile].into_iter().chain(copies.modes()))
    }

    /// `(tile, tile, …, copies, copies, …)`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!((2, 4) : (1, 2));
    /// assert_eq!(a.flat_product(layout!((3, 2)))?.to_string(), "(2,4,3,2):(1,2,8,24)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn flat_product(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        let (tile, copies) = unzip(&self.product(&tiler, "flat_product")?, &tiler)?;
        Layout::from_modes(tile.modes().chain(copies.modes()))
    }

    /// A grid of blocks, mode by mode: each mode is (within the block, which block).
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let grid = layout!((2, 2) : (1, 2)).blocked_product(&layout!((4, 2) : (2, 1)))?;
    /// assert_eq!(grid.to_string(), "((2,4),(2,2)):((1,8),(2,4))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn blocked_product(&self, copies: &Layout) -> Result<Layout> {
        self.interleave(copies, "blocked_product", |tile, copy| [tile, copy])
    }

    /// The blocks interleaved: each mode is (which block, within the block).
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let raked = layout!((4, 2) : (1, 4)).raked_product(&layout!((3, 2) : (2, 1)))?;
    /// assert_eq!(raked.to_string(), "((3,4),(2,2)):((16,1),(8,4))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn raked_product(&self, copies: &Layout) -> Result<Layout> {
        self.interleave(copies, "raked_product", |tile, copy| [copy, tile])
    }

    fn interleave(
        &self,
        copies: &Layout,
        op: &'static str,
        order: impl Fn(Layout, Layout) -> [Layout; 2],
    ) -> Result<Layout> {
        let rank = self.rank().max(copies.rank());
        let both = self.pad_rank(rank).product(&Tiler::Layout(copies.pad_rank(rank)), op)?;
        let (tile, copy) = (both.mode(0)?, both.mode(1)?);
        let modes: Result<Vec<_>> =
            tile.modes().zip(copy.modes()).map(|(t, c)| Layout::from_modes(order(t, c))).collect();
        Layout::from_modes(modes?)
    }

    /// A tuple, with extents of 1 at the end until the rank is reached.
    fn pad_rank(&self, rank: usize) -> Layout {
        let mut padded = Layout::empty();
        self.modes().for_each(|mode| padded.append(&mode));
        for _ in self.rank()..rank {
            padded.append(&Layout::leaf(Value::Int(1), Value::Int(0)));
        }
        padded.profile.wrap();
        padded
    }

    /// This block, repeated to fill `shape`, with the blocks in `order` (leftmost first by default). The
    /// block must divide the shape, and be injective in its modes of nonzero stride.
    ///
    /// If the block has gaps and a layout can express it, blocks interleave, as in a
    /// [`logical_product`](Layout::logical_product). Otherwise they are one after another.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let atom = layout!((8, 4) : (4, 1));
    /// assert_eq!(atom.tile_to_shape((16, 8), None)?.to_string(), "(16,(4,2)):(4,(1,64))");
    /// assert!(atom.tile_to_shape((16, 6), None).is_err());
    /// let every_other = layout!((2, 2) : (2, 8));
    /// assert_eq!(every_other.tile_to_shape((4, 2), None)?.to_string(), "((2,2),2):((2,1),8)");
    /// assert_eq!(every_other.tile_to_shape((6, 2), None)?.to_string(), "((2,3),2):((2,16),8)"); // three do not fit
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tile_to_shape(&self, shape: impl Into<Tuple>, order: Option<Tuple>) -> Result<Layout> {
        const OP: &str = "tile_to_shape";
        let shape: Tuple = shape.into();
        let within =
            |e: LayoutError| e.within(OP, [Operand::Layout(self.clone()), Operand::Tuple(shape.clone())]);
        let rank = shape.rank();
        if self.rank() > rank {
            let condition = Condition::DoesNotFit { what: "block", rank: self.rank(), against: rank };
            return Err(within(LayoutError::new(OP, condition)));
        }
        let block = self.pad_rank(rank);
        let mut counts = Vec::new();
        for (mode, (tile, whole)) in block.modes().zip(shape.modes()).enumerate() {
            let tile = tile.size().map_err(within)?;
            let whole = whole.product().ok_or_else(|| {
                let symbol = whole.leaves().iter().find(|leaf| leaf.int().is_none());
                within(match symbol {
                    Some(symbol) => self.symbolic(OP, *symbol),
                    None => LayoutError::new(OP, Condition::Overflow { leaf: None }),
                })
            })?;
            if whole % tile != 0 {
                let (tile, extent) = (Value::Int(tile), Value::Int(whole));
                return Err(within(LayoutError::new(
                    OP,
                    Condition::TileDoesNotDivide { mode, tile, extent },
                )));
            }
            counts.push(whole / tile);
        }
        let counts = Tuple::flat(&counts);
        let copies = match order {
            None => Layout::compact(counts),
            Some(order) => Layout::ordered(counts, order),
        };
        let copies = copies.map_err(within)?;
        let copies = match block.product(&Tiler::Layout(copies.clone()), OP) {
            Ok(both) => both.mode(1)?,
            Err(e) if e.is_a_bend() => {
                let apart = block.period(OP).map_err(within)?;
                Layout::leaf(Value::Int(1), Value::Int(apart)).composition(&copies).map_err(within)?
            }
            Err(e) => return Err(within(e)),
        };
        let (tile, copy) = (block, copies);
        let modes: Result<Vec<_>> =
            tile.modes().zip(copy.modes()).map(|(t, c)| Ok(Layout::from_modes([t, c])?.coalesce())).collect();
        Layout::from_modes(modes?)
    }
}

/// Gathers the first halves and the second halves of a layout divided or multiplied by mode.
fn unzip(divided: &Layout, tiler: &Tiler) -> Result<(Layout, Layout)> {
    let Tiler::Modes(tilers) = tiler else {
        return match tiler {
            Tiler::Keep => Ok((divided.clone(), Layout::leaf(Value::Int(1), Value::Int(0)))),
            _ => Ok((divided.mode(0)?, divided.mode(1)?)),
        };
    };
    let (mut tiles, mut rests) = (Vec::new(), Vec::new());
    for (index, mode) in divided.modes().enumerate() {
        match tilers.get(index) {
            Some(tiler) => {
                let (tile, rest) = unzip(&mode, tiler)?;
                tiles.push(tile);
                rests.push(rest);
            }
            None => rests.push(mode),
        }
    }
    Ok((Layout::from_modes(tiles)?, Layout::from_modes(rests)?))
}
