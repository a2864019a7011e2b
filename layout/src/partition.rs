//! Slices, tiles and partitions: a kernel's part of a tensor.

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::tiler::Tiler;
use crate::tuple::Tuple;
use crate::value::Value;

impl Layout {
    /// Fixes the modes that have a number and keeps those with `_`. Returns the kept modes and the offset of
    /// the fixed ones.
    ///
    /// ```
    /// use tilewright_layout::{ALL, layout};
    /// let a = layout!((4, (2, 3)) : (1, (4, 8)));
    /// let (row, offset) = a.slice((2, ALL))?;
    /// assert_eq!((row.to_string(), offset.int()), ("(2,3):(4,8)".to_string(), Some(2)));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn slice(&self, coord: impl Into<Tuple>) -> Result<(Layout, Value)> {
        let coord: Tuple = coord.into();
        let mut kept = Layout::empty();
        let mut offset = Value::Int(0);
        self.slice_into(&coord, &mut kept, &mut offset)
            .map_err(|e| e.within("slice", [self.into(), coord.clone().into()]))?;
        if kept.rank_unwrapped() > 1 {
            kept.profile.wrap();
        }
        if kept.shape.is_empty() {
            kept = Layout::leaf(Value::Int(1), Value::Int(0));
        }
        Ok((kept, offset))
    }

    /// The modes appended so far, before they are wrapped.
    fn rank_unwrapped(&self) -> usize {
        let mut wrapped = self.profile.clone();
        wrapped.wrap();
        wrapped.rank()
    }

    fn slice_into(&self, coord: &Tuple, kept: &mut Layout, offset: &mut Value) -> Result<()> {
        match coord.as_leaf() {
            Some(Value::Any) => {
                kept.append(self);
                return Ok(());
            }
            Some(index) => {
                let at = self.at_number(index)?;
                *offset = add(*offset, at)?;
                return Ok(());
            }
            None => {}
        }
        let (rank, against) = (coord.rank(), self.rank());
        if rank != against || self.depth() == 0 {
            return Err(LayoutError::new(
                "slice",
                Condition::DoesNotFit { what: "coordinate", rank, against },
            ));
        }
        for (mode, coord) in self.modes().zip(coord.modes()) {
            mode.slice_into(&coord, kept, offset)?;
        }
        Ok(())
    }

    /// The offset of a number as coordinate of the whole layout, as one term.
    fn at_number(&self, index: Value) -> Result<Value> {
        if index.is_zero() {
            return Ok(Value::Int(0));
        }
        let last = self.shape.len() - 1;
        let (mut rest, mut sum) = (index, Value::Int(0));
        for (leaf, (extent, stride)) in self.leaves().enumerate() {
            let coordinate = match (rest, extent) {
                _ if leaf == last => rest,
                (Value::Int(n), Value::Int(extent)) => {
                    rest = Value::Int(n / extent);
                    Value::Int(n % extent)
                }
                _ => return Err(LayoutError::new("slice", Condition::Symbolic { value: extent })),
            };
            let step = stride.times(coordinate).ok_or_else(|| one_term(stride, coordinate, '*'))?;
            sum = add(sum, step)?;
        }
        Ok(sum)
    }

    /// The modes that `coord` fixes, without the others: the counterpart of [`slice`](Layout::slice).
    ///
    /// ```
    /// use tilewright_layout::{ALL, layout};
    /// let a = layout!((4, 2, 3) : (1, 4, 8));
    /// assert_eq!(a.dice((0, ALL, 1))?.to_string(), "(4,3):(1,8)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn dice(&self, coord: impl Into<Tuple>) -> Result<Layout> {
        let coord: Tuple = coord.into();
        let flipped = Tuple {
            leaves: coord
                .leaves
                .iter()
                .map(|v| if *v == Value::Any { Value::Int(0) } else { Value::Any })
                .collect(),
            profile: coord.profile.clone(),
        };
        let (kept, _) =
            self.slice(&flipped).map_err(|e| e.within("dice", [self.into(), coord.clone().into()]))?;
        Ok(kept)
    }

    /// The coordinate of an index in this layout's shape, nested like the shape. The last mode is not
    /// wrapped.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, (2, 3))).coordinate(21)?.to_string(), "(1,(1,2))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn coordinate(&self, index: i64) -> Result<Tuple> {
        let mut rest = index;
        let last = self.shape.len() - 1;
        let mut leaves = self.shape.clone();
        for (leaf, extent) in self.shape.iter().enumerate() {
            let coordinate = if leaf == last {
                rest
            } else {
                let n = extent.int().ok_or_else(|| self.symbolic("coordinate", *extent))?;
                let coordinate = rest % n;
                rest /= n;
                coordinate
            };
            leaves[leaf] = Value::Int(coordinate);
        }
        Ok(Tuple { leaves, profile: self.profile.clone() })
    }

    /// The coordinate at an offset: each leaf's `offset / stride % extent`, and 0 where the stride is 0. It
    /// is the inverse of the layout where the strides are ordered and compact.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 8) : (8, 1)).coordinate_at(19)?.to_string(), "(2,3)");
    /// assert_eq!(layout!((4, 8) : (0, 1)).coordinate_at(3)?.to_string(), "(0,3)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn coordinate_at(&self, offset: i64) -> Result<Tuple> {
        const OP: &str = "coordinate_at";
        let mut leaves = self.shape.clone();
        for (leaf, (extent, stride)) in self.leaves().enumerate() {
            let n = extent.int().ok_or_else(|| self.symbolic(OP, extent))?;
            let d = stride.int().ok_or_else(|| self.symbolic(OP, stride))?;
            let steps = if d == 0 { 0 } else { i128::from(offset) / i128::from(d) };
            leaves[leaf] = Value::Int(steps.rem_euclid(i128::from(n)) as i64);
        }
        Ok(Tuple { leaves, profile: self.profile.clone() })
    }

    /// One tile of a tensor, or all tiles along the modes where `coord` has `_`. Returns the tile's layout
    /// and its offset.
    ///
    /// ```
    /// use tilewright_layout::{ALL, Layout};
    /// let a: Layout = "(M,K):(1,lda)".parse()?;
    /// let (tiles, offset) = a.tile((128, 8), (3, ALL))?;
    /// assert_eq!(tiles.to_string(), "(128,8,ceil(K/8)):(1,lda,8*lda)");
    /// assert_eq!(offset.int(), Some(384));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn tile(&self, tiler: impl Into<Tiler>, coord: impl Into<Tuple>) -> Result<(Layout, Value)> {
        let (tiler, coord) = (tiler.into(), coord.into());
        let (tile, rest) = self.split(&tiler, "tile")?;
        let within = |e: LayoutError| e.within("tile", [self.into(), (&tiler).into(), coord.clone().into()]);
        let (left, offset) = rest.slice(&coord).map_err(within)?;
        let mut tiles: Vec<Layout> = tile.modes().collect();
        if coord.is_leaf() {
            tiles.extend(left.modes().filter(|_| coord.leaves().contains(&Value::Any)));
        } else {
            // each mode with a `_` remains one mode, however it is nested
            for (mode, coord) in rest.modes().zip(coord.modes()) {
                if coord.leaves().contains(&Value::Any) {
                    tiles.push(mode.slice(coord).map_err(within)?.0);
                }
            }
        }
        Ok((Layout::from_modes(tiles)?, offset))
    }

    /// The part of this tensor that one thread of `threads` has: mode by mode, every thread takes each
    /// `extent`-th element. A projection drops modes of the thread layout: `(1, _)` means that threads which
    /// differ only in the second mode have the same part.
    ///
    /// ```
    /// use tilewright_layout::{ALL, layout};
    /// let (tile, threads) = (layout!((128, 8) : (1, 129)), layout!((32, 8)));
    /// let (mine, offset) = tile.parallelize(&threads, 33, None)?;
    /// assert_eq!((mine.to_string(), offset.int()), ("(4,1):(32,1032)".to_string(), Some(130)));
    ///
    /// let (rows, offset) = tile.parallelize(&layout!((16, 16)), 33, Some((1, ALL).into()))?;
    /// assert_eq!((rows.to_string(), offset.int()), ("(8,8):(16,129)".to_string(), Some(1)));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn parallelize(
        &self,
        threads: &Layout,
        thread: i64,
        projection: Option<Tuple>,
    ) -> Result<(Layout, Value)> {
        const OP: &str = "parallelize";
        let within = |e: LayoutError| e.within(OP, [self.into(), threads.into()]);
        let size = threads.size().map_err(within)?;
        let numbering = threads.right_inverse().map_err(within)?;
        let value = numbering.size()?;
        if value != size {
            let what = "the number of threads that are numbered from 0 without gaps or repeats must be the layout's size";
            return Err(within(LayoutError::new(OP, Condition::BadArgument { what, value })));
        }
        if !(0..size).contains(&thread) {
            return Err(within(LayoutError::new(OP, Condition::OutOfRange { index: thread, extent: size })));
        }
        let mut rest = numbering.eval(thread).unwrap_or(0);
        let mut shares = Vec::new();
        for mode in threads.modes() {
            let extent = mode.size()?;
            shares.push((extent, rest % extent));
            rest /= extent;
        }
        if let Some(projection) = projection {
            if projection.rank() != shares.len() {
                let (rank, against) = (projection.rank(), shares.len());
                return Err(within(LayoutError::new(
                    OP,
                    Condition::DoesNotFit { what: "projection", rank, against },
                )));
            }
            let mut kept = projection.modes().map(|p| p.as_leaf() != Some(Value::Any));
            shares.retain(|_| kept.next() == Some(true));
        }
        if shares.is_empty() {
            return Ok((self.clone(), Value::Int(0)));
        }
        let tiler = Tiler::Modes(shares.iter().map(|&(extent, _)| extent.into()).collect());
        let (tile, rest) = self.split(&tiler, OP)?;
        let (_, offset) = tile.slice(Tuple::of(shares.iter().map(|&(_, at)| at.into()))).map_err(within)?;
        Ok((rest, offset))
    }
}

fn one_term(left: Value, right: Value, sign: char) -> LayoutError {
    let condition = match (left, right) {
        (Value::Int(_), _) | (_, Value::Int(_)) if sign == '*' => Condition::Overflow { leaf: None },
        (Value::Int(_), Value::Int(_)) => Condition::Overflow { leaf: None },
        _ => Condition::NotOneTerm { left, right, sign },
    };
    LayoutError::new("slice", condition)
}

fn add(left: Value, right: Value) -> Result<Value> {
    left.plus(right).ok_or_else(|| one_term(left, right, '+'))
}
