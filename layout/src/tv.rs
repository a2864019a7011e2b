//! Thread-value layouts: from thread and value number to an element of a tile; and copies and products made
//! of them.

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::tiler::Tiler;
use crate::tuple::{ALL, Tuple};
use crate::value::Value;

/// A tile partitioned over a group of threads: a layout from (thread, value) to the index of an element in
/// the tile.
///
/// ```
/// use tilewright_layout::{TiledCopy, layout};
/// // 32x8 threads, each with four contiguous rows: a 16-byte access of floats
/// let copy = TiledCopy::new(&layout!((32, 8)), &layout!((4, 1)))?;
/// assert_eq!(copy.tile().to_string(), "(128,8)");
/// assert_eq!(copy.tv().to_string(), "(256,4):(4,1)");
/// let (mine, offset) = copy.partition(&layout!((128, 16) : (1, 2048)), 33)?;
/// assert_eq!((mine.to_string(), offset.int()), ("(4,1,2):(1,128,16384)".to_string(), Some(2052)));
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TiledCopy {
    tile: Tuple,
    tv: Layout,
}

impl TiledCopy {
    /// Threads arranged in the tile, each with its values arranged in its part: both are layouts from a
    /// position to the thread or value number.
    ///
    /// ```
    /// use tilewright_layout::{TiledCopy, layout};
    /// let copy = TiledCopy::new(&layout!((4, 4) : (4, 1)), &layout!((1, 2)))?;
    /// assert_eq!(copy.tv().to_string(), "((4,4),2):((8,1),4)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn new(threads: &Layout, values: &Layout) -> Result<TiledCopy> {
        const OP: &str = "tiled copy";
        let within = |e: LayoutError| e.within(OP, [threads.into(), values.into()]);
        let position = threads.raked_product(values).map_err(within)?;
        let sizes: Result<Vec<i64>> = position.modes().map(|mode| mode.size()).collect();
        let back = position.right_inverse().map_err(within)?;
        let (all, reached) = (position.size()?, back.size()?);
        if all != reached {
            let what = "the number of elements that are numbered from 0 without gaps or repeats must be the tile's size";
            return Err(within(LayoutError::new(OP, Condition::BadArgument { what, value: reached })));
        }
        let tv = back.reshape((threads.size()?, values.size()?)).map_err(within)?;
        Ok(TiledCopy { tile: Tuple::flat(&sizes?), tv })
    }

    /// From a thread-value layout into a tile of this shape.
    ///
    /// ```
    /// use tilewright_layout::{TiledCopy, layout};
    /// let copy = TiledCopy::from_tv((16, 8), layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8))))?;
    /// assert_eq!(copy.threads()?, 32);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn from_tv(tile: impl Into<Tuple>, tv: Layout) -> Result<TiledCopy> {
        let tile: Tuple = tile.into();
        if tv.rank() != 2 {
            let condition =
                Condition::DoesNotFit { what: "thread-value layout", rank: tv.rank(), against: 2 };
            return Err(LayoutError::new("tiled copy", condition).with(&tv));
        }
        let room = Layout::compact(&tile).and_then(|tile| tile.size());
        let room = room.map_err(|e| e.within("tiled copy", [(&tv).into(), (&tile).into()]))?;
        inside(&tv, room, "tiled copy").map_err(|e| e.with(&tile))?;
        Ok(TiledCopy { tile, tv })
    }

    /// The shape of the tile. All threads together cover it once, unless the layout passed to
    /// [`from_tv`](TiledCopy::from_tv) does not.
    pub fn tile(&self) -> &Tuple {
        &self.tile
    }

    /// (thread, value) to index in the tile.
    pub fn tv(&self) -> &Layout {
        &self.tv
    }

    /// The number of threads.
    pub fn threads(&self) -> Result<i64> {
        self.tv.mode(0)?.size()
    }

    /// `((thread, value), (rest, …))`: a tensor of the tile's rank, divided into tiles and indexed by thread
    /// and value.
    ///
    /// ```
    /// use tilewright_layout::{TiledCopy, layout};
    /// let copy = TiledCopy::new(&layout!((32, 1)), &layout!((4, 1)))?;
    /// assert_eq!(copy.divide(&layout!((256, 8)))?.to_string(), "((32,4),(2,8)):((4,1),(128,256))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn divide(&self, tensor: &Layout) -> Result<Layout> {
        let within = |e: LayoutError| e.within("partition", [tensor.into(), (&self.tv).into()]);
        let (tile, rest) = tensor.split(&Tiler::from(&self.tile), "partition")?;
        Layout::from_modes([tile.composition(&self.tv).map_err(within)?, rest])
    }

    /// The part of a tensor that one thread copies, `(value, rest, …)`, and its offset.
    ///
    /// ```
    /// use tilewright_layout::{TiledCopy, layout};
    /// let copy = TiledCopy::new(&layout!((32, 1)), &layout!((4, 1)))?;
    /// let (mine, begin) = copy.partition(&layout!((256, 8)), 3)?;
    /// assert_eq!((mine.to_string(), begin.int()), ("(4,2,8):(1,128,256)".to_string(), Some(12)));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn partition(&self, tensor: &Layout, thread: i64) -> Result<(Layout, Value)> {
        let divided = self.divide(tensor)?;
        let (tv, rest) = (divided.mode(0)?, divided.mode(1)?);
        let threads = self.threads()?;
        if !(0..threads).contains(&thread) {
            let condition = Condition::OutOfRange { index: thread, extent: threads };
            return Err(LayoutError::new("partition", condition).with(tensor).with(&self.tv));
        }
        let (value, offset) = tv.slice((thread, ALL))?;
        Ok((Layout::from_modes([value].into_iter().chain(rest.modes()))?, offset))
    }

    /// A fragment of another partition, `(value, rest, …)`, regrouped so that its first mode has this copy's
    /// number of values.
    ///
    /// ```
    /// use tilewright_layout::{TiledCopy, layout};
    /// let copy = TiledCopy::new(&layout!((32, 1)), &layout!((2, 1)))?;
    /// assert_eq!(copy.retile(&layout!((8, 2, 3)))?.to_string(), "(2,(4,2),3):(1,(2,8),16)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn retile(&self, fragment: &Layout) -> Result<Layout> {
        let values = self.tv.mode(1)?.size()?;
        let first = fragment.mode(0)?;
        let have = first.size()?;
        if have % values != 0 {
            let (tile, extent) = (Value::Int(values), Value::Int(have));
            return Err(LayoutError::new("retile", Condition::TileDoesNotDivide { mode: 0, tile, extent })
                .with(fragment));
        }
        let (value, more) = first.split(&Tiler::from(values), "retile")?;
        let mut modes = vec![value.coalesce()];
        let mut rest = fragment.modes().skip(1);
        let next = rest.next();
        if have == values {
            modes.extend(next);
        } else {
            modes.push(Layout::from_modes([more.coalesce()].into_iter().chain(next))?);
        }
        Layout::from_modes(modes.into_iter().chain(rest))
    }
}

/// Refuses a layout with offsets outside `0..room`.
fn inside(tv: &Layout, room: i64, op: &'static str) -> Result<()> {
    let reach = tv.cosize()?;
    let back = tv.leaves().find(|(n, d)| n.factor() > 1 && d.factor() < 0);
    let index = match back {
        Some((_, stride)) => stride.factor(),
        None if reach > room => reach - 1,
        None => return Ok(()),
    };
    let condition = Condition::OutOfRange { index, extent: room };
    Err(LayoutError::new(op, condition).with(tv))
}

/// One matrix instruction: its shape, and the thread-value layouts of its operands. `a` maps (thread, value)
/// to the index in an `m×k` tile, `b` into `n×k`, `c` into `m×n`, all column-major.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MmaAtom {
    /// M, N and K of one instruction.
    pub shape: (i64, i64, i64),
    /// Fragments of the left operand.
    pub a: Layout,
    /// Fragments of the right operand, `n×k`.
    pub b: Layout,
    /// Fragments of the accumulator.
    pub c: Layout,
}

fn times(a: i64, b: i64) -> Result<i64> {
    let overflow = || LayoutError::new("tiled mma", Condition::Overflow { leaf: None });
    a.checked_mul(b).ok_or_else(overflow)
}

/// A matrix instruction repeated over a grid of thread groups.
///
/// ```
/// use tilewright_layout::{MmaAtom, TiledMma, layout};
/// // mma.sync.m16n8k8 on two by two warps
/// let atom = MmaAtom {
///     shape: (16, 8, 8),
///     a: layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8))),
///     b: layout!(((4, 8), 2) : ((16, 1), 8)),
///     c: layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8))),
/// };
/// let mma = TiledMma::new(atom, layout!((2, 2, 1)))?;
/// assert_eq!((mma.threads()?, mma.tile()?), (128, (32, 16, 8)));
/// let (mine, offset) = mma.partition_c(&layout!((128, 64)), 37)?;
/// assert_eq!(mine.to_string(), "((2,2),4,4):((128,8),32,2048)");
/// assert_eq!(offset.int(), Some(16 + 1 + 256)); // warp 1 begins 16 rows down; lane 5 is row 1, columns 2 and 3
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TiledMma {
    atom: MmaAtom,
    groups: Layout,
}

impl TiledMma {
    /// `groups` arranges groups of the atom's threads over (M, N, K): a layout from position to the group's
    /// number.
    pub fn new(atom: MmaAtom, groups: Layout) -> Result<TiledMma> {
        const OP: &str = "tiled mma";
        let (m, n, k) = atom.shape;
        let lanes = atom.c.mode(0)?.size()?;
        for (tv, what, shape) in [(&atom.a, "a", (m, k)), (&atom.b, "b", (n, k)), (&atom.c, "c", (m, n))] {
            if tv.rank() != 2 {
                let (rank, against) = (tv.rank(), 2);
                let condition = Condition::DoesNotFit { what, rank, against };
                return Err(LayoutError::new(OP, condition).with(tv));
            }
            inside(tv, Layout::compact(shape)?.size()?, OP)?;
            let value = tv.mode(0)?.size()?;
            if value != lanes {
                let what = "the number of threads that hold an operand must be that of the accumulator";
                return Err(LayoutError::new(OP, Condition::BadArgument { what, value }).with(tv));
            }
        }
        if groups.rank() != 3 {
            let condition =
                Condition::DoesNotFit { what: "arrangement of groups", rank: groups.rank(), against: 3 };
            return Err(LayoutError::new(OP, condition).with(&groups));
        }
        let value = groups.right_inverse()?.size()?;
        if value != groups.size()? {
            let what = "the number of groups that are numbered from 0 without gaps or repeats must be the layout's size";
            return Err(LayoutError::new(OP, Condition::BadArgument { what, value }).with(&groups));
        }
        let mma = TiledMma { atom, groups };
        mma.threads()?;
        mma.tile()?;
        Ok(mma)
    }

    /// The instruction.
    pub fn atom(&self) -> &MmaAtom {
        &self.atom
    }

    /// The number of threads.
    pub fn threads(&self) -> Result<i64> {
        times(self.atom.c.mode(0)?.size()?, self.groups.size()?)
    }

    /// The tile of all groups with one instruction each.
    pub fn tile(&self) -> Result<(i64, i64, i64)> {
        let (m, n, k) = self.atom.shape;
        let of = |mode: usize| self.groups.mode(mode)?.size();
        Ok((times(m, of(0)?)?, times(n, of(1)?)?, times(k, of(2)?)?))
    }

    /// The part of an `M×K` tensor that a thread reads: `(value, rest of M, rest of K)`, and its offset.
    ///
    /// ```
    /// use tilewright_layout::{MmaAtom, TiledMma, layout};
    /// let c = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    /// let atom = MmaAtom { shape: (16, 8, 8), a: c.clone(), b: layout!(((4, 8), 2) : ((16, 1), 8)), c };
    /// let mma = TiledMma::new(atom, layout!((2, 2, 1)))?;
    /// let (mine, begin) = mma.partition_a(&layout!((64, 32)), 37)?;
    /// assert_eq!((mine.to_string(), begin.int()), ("((2,2),2,4):((64,8),32,512)".to_string(), Some(145)));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn partition_a(&self, tensor: &Layout, thread: i64) -> Result<(Layout, Value)> {
        self.partition(tensor, thread, &self.atom.a, (self.atom.shape.0, self.atom.shape.2), (0, 2))
    }

    /// The part of an `N×K` tensor that a thread reads.
    ///
    /// ```
    /// use tilewright_layout::{MmaAtom, TiledMma, layout};
    /// let c = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    /// let atom = MmaAtom { shape: (16, 8, 8), a: c.clone(), b: layout!(((4, 8), 2) : ((16, 1), 8)), c };
    /// let mma = TiledMma::new(atom, layout!((2, 2, 1)))?;
    /// let (mine, begin) = mma.partition_b(&layout!((64, 32)), 37)?;
    /// assert_eq!((mine.to_string(), begin.int()), ("(2,4,4):(64,16,512)".to_string(), Some(129)));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn partition_b(&self, tensor: &Layout, thread: i64) -> Result<(Layout, Value)> {
        self.partition(tensor, thread, &self.atom.b, (self.atom.shape.1, self.atom.shape.2), (1, 2))
    }

    /// The part of an `M×N` tensor that a thread accumulates.
    ///
    /// ```
    /// use tilewright_layout::{MmaAtom, TiledMma, layout};
    /// let c = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    /// let atom = MmaAtom { shape: (16, 8, 8), a: c.clone(), b: layout!(((4, 8), 2) : ((16, 1), 8)), c };
    /// let mma = TiledMma::new(atom, layout!((2, 2, 1)))?;
    /// let (mine, begin) = mma.partition_c(&layout!((64, 32)), 37)?;
    /// assert_eq!((mine.to_string(), begin.int()), ("((2,2),2,2):((64,8),32,1024)".to_string(), Some(145)));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn partition_c(&self, tensor: &Layout, thread: i64) -> Result<(Layout, Value)> {
        self.partition(tensor, thread, &self.atom.c, (self.atom.shape.0, self.atom.shape.1), (0, 1))
    }

    fn partition(
        &self,
        tensor: &Layout,
        thread: i64,
        tv: &Layout,
        tile: (i64, i64),
        modes: (usize, usize),
    ) -> Result<(Layout, Value)> {
        const OP: &str = "partition";
        let within = |e: LayoutError| e.within(OP, [tensor.into(), tv.into()]);
        let lanes = tv.mode(0)?.size()?;
        let threads = self.threads()?;
        if !(0..threads).contains(&thread) {
            let condition = Condition::OutOfRange { index: thread, extent: threads };
            return Err(within(LayoutError::new(OP, condition)));
        }
        let (lane, group) = (thread % lanes, thread / lanes);
        let slot = self.groups.right_inverse()?.eval(group).unwrap_or(0);
        let extents: Vec<i64> = self.groups.modes().map(|m| m.size()).collect::<Result<_>>()?;
        let at = [slot % extents[0], slot / extents[0] % extents[1], slot / extents[0] / extents[1]];

        let (atom, rest) = tensor.split(&Tiler::from((tile.0, tile.1)), OP)?;
        let (value, lane_at) = atom.composition(tv).map_err(within)?.slice((lane, ALL))?;
        let over = Tiler::from((extents[modes.0], extents[modes.1]));
        let (groups, rest) = rest.split(&over, OP)?;
        let (_, group_at) = groups.slice((at[modes.0], at[modes.1])).map_err(within)?;
        let offset = lane_at.plus(group_at).ok_or_else(|| {
            within(LayoutError::new(OP, Condition::NotOneTerm { left: lane_at, right: group_at, sign: '+' }))
        })?;
        Ok((Layout::from_modes([value].into_iter().chain(rest.modes()))?, offset))
    }
}
