//! [`Distribution`]: the thread-value layout of a tile. A layout from (thread, value) to a coordinate of the
//! tile, so its strides are steps along modes; a stride of 0 replicates. It knows neither element type nor
//! memory.

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::tuple::Tuple;
use crate::value::{Path, Value};

/// How a tile is distributed over the threads of a group.
///
/// Threads and values may cover more than the tile: coordinates outside of its extents are out of bounds.
///
/// ```
/// use tilewright_layout::{Distribution, layout};
/// // 8x4 threads, each with two neighbours of a column and every fourth column
/// let d = Distribution::of_threads(&[16, 8], &layout!((8, 4)), &[2, 1])?;
/// assert_eq!((d.threads(), d.values()), (32, 4));
/// assert_eq!(d.coordinate(9, 1), [3, 1]); // thread 9 is (1, 1): rows 2 and 3, columns 1 and 5
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Distribution {
    tile: Vec<i64>,
    threads: Vec<Submode>,
    values: Vec<Submode>,
}

/// A submode of a thread or value number, leftmost fastest: its extent, and its step along one mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Submode {
    /// Its extent.
    pub extent: i64,
    /// Along which mode of the tile.
    pub mode: usize,
    /// Its step; 0 replicates.
    pub step: i64,
}

/// Elements of a row that neighbouring threads have at least, where fewer threads than elements divide it.
const ROW: i64 = 32;

/// The data movement between two distributions of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// Within each thread: at most a renumbering of registers, the same for all threads.
    Registers,
    /// Within each warp: shuffles.
    Warp,
    /// Through shared memory.
    Shared,
}

const OP: &str = "distribution";

impl Distribution {
    /// From submodes of the thread number and of the value number.
    pub fn new(tile: &[i64], threads: Vec<Submode>, values: Vec<Submode>) -> Distribution {
        let trim = |submodes: Vec<Submode>| submodes.into_iter().filter(|submode| submode.extent != 1);
        // Submodes of stride 0 have no mode; adjacent ones are merged.
        let mut apart: Vec<Submode> = Vec::new();
        for submode in trim(threads) {
            match apart.last_mut() {
                Some(last) if last.step == 0 && submode.step == 0 => last.extent *= submode.extent,
                _ if submode.step == 0 => apart.push(Submode { mode: 0, ..submode }),
                _ => apart.push(submode),
            }
        }
        Distribution { tile: tile.to_vec(), threads: apart, values: trim(values).collect() }
    }

    /// Threads arranged over the modes of the tile: a layout from a position to the thread number. Each
    /// thread takes `values[m]` contiguous elements along mode `m` at once.
    ///
    /// ```
    /// use tilewright_layout::{Distribution, layout};
    /// let d = Distribution::of_threads(&[4, 64], &layout!((4, 8) : (8, 1)), &[1, 4])?;
    /// assert_eq!(d.coordinate(1, 0), [0, 4]);
    /// assert_eq!(d.coordinate(8, 5), [1, 33]);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn of_threads(tile: &[i64], threads: &Layout, values: &[i64]) -> Result<Distribution> {
        let size = threads.size()?;
        if threads.right_inverse()?.size()? != size || threads.rank() > tile.len() {
            let what = "how many positions of the thread layout are numbered from 0 without gaps must be all of them";
            return Err(LayoutError::new(OP, Condition::BadArgument { what, value: size }).with(threads));
        }
        let each = |mode: usize| values.get(mode).copied().unwrap_or(1).max(1);
        // Sorted by stride, submodes of positions are submodes of the thread number.
        let mut submodes: Vec<(i64, Submode)> = Vec::new();
        let mut own = Vec::new();
        for (mode, along) in threads.modes().enumerate() {
            let mut step = each(mode);
            for (extent, stride) in along.leaves() {
                let (extent, stride) = (extent.factor(), stride.factor());
                submodes.push((stride, Submode { extent, mode, step }));
                step *= extent;
            }
        }
        submodes.retain(|(_, submode)| submode.extent != 1);
        submodes.sort_by_key(|(stride, _)| *stride);
        for (mode, &extent) in tile.iter().enumerate() {
            own.push(Submode { extent: each(mode), mode, step: 1 });
            let count = threads.modes().nth(mode).map_or(Ok(1), |along| along.size())?;
            let step = each(mode) * count;
            own.push(Submode { extent: (extent + step - 1) / step, mode, step });
        }
        // The vectors first, then the rest of each mode.
        own.sort_by_key(|submode| submode.step != 1 || submode.extent == 1);
        let (vectors, rest): (Vec<Submode>, Vec<Submode>) =
            own.into_iter().partition(|submode| submode.step == 1 && each(submode.mode) > 1);
        let threads = submodes.into_iter().map(|(_, submode)| submode).collect();
        Ok(Distribution::new(tile, threads, [vectors, rest].concat()))
    }

    /// An instruction's thread-value layout, tiled over groups of its threads. `tv` maps (thread, value) to
    /// the index in `atom`, leftmost mode fastest; `groups` has a mode for each mode of the tile, a layout
    /// from a position to the group number.
    ///
    /// ```
    /// use tilewright_layout::{Distribution, layout};
    /// // the sums of mma.m16n8 by two by two warps
    /// let tv = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    /// let d = Distribution::of_atom(&[64, 32], &[16, 8], &tv, &layout!((2, 2)))?;
    /// assert_eq!((d.threads(), d.values()), (128, 16));
    /// assert_eq!(d.coordinate(37, 1), [17, 3]); // warp 1 begins 16 rows down; lane 5 is row 1, columns 2 and 3
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn of_atom(tile: &[i64], atom: &[i64], tv: &Layout, groups: &Layout) -> Result<Distribution> {
        let plain: Vec<Value> = (0..atom.len()).filter_map(Value::basis).collect();
        let steps = Tuple::of(plain.into_iter().map(Tuple::from));
        let inside = Layout::new(Tuple::flat(atom), steps)?.composition(tv)?;
        let (mut threads, mut values) = (submodes(&inside.mode(0)?), submodes(&inside.mode(1)?));
        let mut numbered: Vec<(i64, Submode)> = Vec::new();
        for (mode, along) in groups.modes().enumerate().take(tile.len()) {
            let mut step = atom[mode];
            for (extent, stride) in along.leaves() {
                numbered.push((stride.factor(), Submode { extent: extent.factor(), mode, step }));
                step *= extent.factor();
            }
            if tile[mode] % step != 0 {
                let (step, extent) = (Value::Int(step), Value::Int(tile[mode]));
                let condition = Condition::TileDoesNotDivide { mode, tile: step, extent };
                return Err(LayoutError::new(OP, condition).with(tv));
            }
            values.push(Submode { extent: tile[mode] / step, mode, step });
        }
        numbered.sort_by_key(|(stride, _)| *stride);
        threads.extend(numbered.into_iter().map(|(_, submode)| submode));
        Ok(Distribution::new(tile, threads, values))
    }

    /// Groups of these threads, each with its own tile, side by side: a mode of `groups` for each mode of the
    /// tile, a layout from a position to the group number.
    ///
    /// ```
    /// use tilewright_layout::{Distribution, layout};
    /// let warp = Distribution::spread(&[32, 16], &[0, 1], 1, 32);
    /// let all = warp.repeated(&layout!((2, 4) : (1, 2)))?;
    /// assert_eq!((all.tile(), all.threads()), (&[64, 64][..], 256));
    /// assert_eq!(all.coordinate(32 * 3 + 1, 2), [33, 18]); // warp 3 is (1, 1)
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn repeated(&self, groups: &Layout) -> Result<Distribution> {
        let size = groups.size()?;
        if groups.right_inverse()?.size()? != size || groups.rank() > self.tile.len() {
            let what = "the number of groups that are numbered from 0 without gaps or repeats must be the layout's size";
            return Err(LayoutError::new(OP, Condition::BadArgument { what, value: size }).with(groups));
        }
        if let Some(mode) = (0..self.tile.len()).find(|&mode| self.reach(mode) > self.tile[mode]) {
            // Out-of-bounds elements would fall into a neighbouring tile.
            let (tile, extent) = (Value::Int(self.reach(mode)), Value::Int(self.tile[mode]));
            return Err(
                LayoutError::new(OP, Condition::TileDoesNotDivide { mode, tile, extent }).with(groups)
            );
        }
        let (mut tile, mut numbered) = (self.tile.clone(), Vec::new());
        for (mode, along) in groups.modes().enumerate() {
            for (extent, stride) in along.leaves() {
                let (extent, stride) = (extent.factor(), stride.factor());
                if extent > 1 {
                    numbered.push((stride, Submode { extent, mode, step: tile[mode] }));
                    tile[mode] *= extent;
                }
            }
        }
        numbered.sort_by_key(|(stride, _)| *stride);
        let threads = self.threads.iter().copied().chain(numbered.into_iter().map(|(_, submode)| submode));
        Ok(Distribution::new(&tile, threads.collect(), self.values.clone()))
    }

    /// Distributes a tile over this number of threads: vectors of `vector` elements along `order[0]`, then
    /// threads along the modes in order, so that accesses of a warp are coalesced along the first. If fewer
    /// threads along a mode divide its extent, these are taken; otherwise the extent is rounded up, out of
    /// bounds.
    ///
    /// ```
    /// use tilewright_layout::Distribution;
    /// let d = Distribution::spread(&[128, 64], &[1, 0], 8, 256);
    /// assert_eq!(d.coordinate(1, 0), [0, 8]);
    /// assert_eq!(d.coordinate(8, 0), [1, 0]);
    /// assert_eq!((d.threads(), d.values()), (256, 32));
    /// // 24 vectors of a row by 8 threads, three each
    /// let d = Distribution::spread(&[32, 192], &[1, 0], 8, 128);
    /// assert_eq!((d.coordinate(8, 0), d.values()), (vec![1, 0], 48));
    /// ```
    pub fn spread(tile: &[i64], order: &[usize], vector: i64, threads: i64) -> Distribution {
        let (mut over, mut own, mut vectors) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = threads;
        // Threads along a mode of one element would all but one be out of bounds.
        let long: Vec<usize> = order.iter().copied().filter(|mode| tile[*mode] > 1).collect();
        let order = if long.is_empty() { order } else { &long };
        for (slot, &mode) in order.iter().enumerate() {
            let width = if slot == 0 { vector } else { 1 };
            let pieces = (tile[mode] + width - 1) / width;
            let last = slot + 1 == order.len();
            let count = match last {
                true => left,
                // The fewest threads that cover the mode at once and divide the remaining threads, unless fewer threads
                // divide the mode: then none is out of bounds.
                false => {
                    let all = (pieces..=left).find(|n| left % n == 0).unwrap_or(left);
                    let rest: i64 = order[slot + 1..].iter().map(|mode| tile[*mode]).product();
                    let divides = |n: &i64| {
                        left % n == 0 && pieces % n == 0 && rest % (left / n) == 0 && n * width >= ROW
                    };
                    let even = (1..=all).rev().find(divides).filter(|_| pieces % all != 0);
                    even.unwrap_or(all)
                }
            };
            left /= count;
            vectors.push(Submode { extent: width, mode, step: 1 });
            over.push(Submode { extent: count, mode, step: width });
            own.push(Submode { extent: (pieces + count - 1) / count, mode, step: width * count });
        }
        Distribution::new(tile, over, [vectors, own].concat())
    }

    /// The extents of the tile.
    pub fn tile(&self) -> &[i64] {
        &self.tile
    }

    /// Submodes of the thread number, leftmost fastest.
    pub fn thread_submodes(&self) -> &[Submode] {
        &self.threads
    }

    /// Submodes of the value number, leftmost fastest.
    pub fn value_submodes(&self) -> &[Submode] {
        &self.values
    }

    /// The number of threads.
    pub fn threads(&self) -> i64 {
        self.threads.iter().map(|submode| submode.extent).product()
    }

    /// The number of values of each thread.
    pub fn values(&self) -> i64 {
        self.values.iter().map(|submode| submode.extent).product()
    }

    /// The coordinate of a value of a thread; it may be out of the tile's bounds.
    pub fn coordinate(&self, thread: i64, value: i64) -> Vec<i64> {
        let mut at = vec![0; self.tile.len()];
        for (submodes, mut rest) in [(&self.threads, thread), (&self.values, value)] {
            for submode in submodes {
                at[submode.mode] += rest % submode.extent * submode.step;
                rest /= submode.extent;
            }
        }
        at
    }

    /// The bound of coordinates along a mode: its extent, or more.
    pub fn reach(&self, mode: usize) -> i64 {
        let along = self.threads.iter().chain(&self.values).filter(|submode| submode.mode == mode);
        1 + along.map(|submode| (submode.extent - 1) * submode.step).sum::<i64>()
    }

    /// The threads over a tile without some modes: these modes have extent 1, and threads along them
    /// have replicas.
    ///
    /// ```
    /// use tilewright_layout::{Distribution, layout};
    /// let d = Distribution::of_threads(&[16, 8], &layout!((8, 4)), &[2, 1])?;
    /// let rows = d.projected(&[true, false]);
    /// assert_eq!((rows.tile(), rows.values()), (&[16, 1][..], 2));
    /// assert_eq!(rows.coordinate(9, 1), [3, 0]);
    /// assert_eq!(d.combined(&[true, false]), [(4, 8)]); // threads 8 apart share a row
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn projected(&self, keep: &[bool]) -> Distribution {
        let kept = |mode: usize| keep.get(mode).copied().unwrap_or(true);
        let tile = self.tile.iter().enumerate().map(|(mode, &n)| if kept(mode) { n } else { 1 });
        let step = |submode: &Submode| if kept(submode.mode) { submode.step } else { 0 };
        let threads = self.threads.iter().map(|submode| Submode { step: step(submode), ..*submode });
        let values = self.values.iter().filter(|submode| kept(submode.mode)).copied();
        let tile: Vec<i64> = tile.collect();
        Distribution::new(&tile, threads.collect(), values.collect())
    }

    /// Submodes of the thread number along the projected modes, as (extent, stride): threads that differ only
    /// in them have replicas of the projection.
    pub fn combined(&self, keep: &[bool]) -> Vec<(i64, i64)> {
        let (mut all, mut stride) = (Vec::new(), 1);
        for submode in &self.threads {
            if !keep.get(submode.mode).copied().unwrap_or(true) && submode.step != 0 {
                all.push((submode.extent, stride));
            }
            stride *= submode.extent;
        }
        all
    }

    /// Replicating submodes of the thread number, as (extent, stride).
    pub fn replicated(&self) -> Vec<(i64, i64)> {
        let (mut all, mut stride) = (Vec::new(), 1);
        for submode in &self.threads {
            if submode.step == 0 {
                all.push((submode.extent, stride));
            }
            stride *= submode.extent;
        }
        all
    }

    /// (thread, value) to the index in the tile, leftmost mode fastest, for analyses of accesses; `None`
    /// where it is out of bounds.
    ///
    /// ```
    /// use tilewright_layout::Distribution;
    /// let d = Distribution::spread(&[4, 64], &[1, 0], 4, 32);
    /// assert_eq!(d.indices()?.unwrap().to_string(), "((16,2),(4,2)):((16,1),(4,2))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn indices(&self) -> Result<Option<Layout>> {
        if (0..self.tile.len()).any(|mode| self.reach(mode) > self.tile[mode]) {
            return Ok(None);
        }
        let below = |mode: usize| self.tile[..mode].iter().product::<i64>();
        let of = |submodes: &[Submode]| -> Result<Layout> {
            if submodes.is_empty() {
                return Layout::new(1i64, 0i64);
            }
            let leaves = submodes.iter().map(|d| Layout::new(d.extent, d.step * below(d.mode)));
            Layout::from_modes(leaves.collect::<Result<Vec<_>>>()?)
        };
        Ok(Some(Layout::from_modes([of(&self.threads)?, of(&self.values)?])?))
    }

    /// The data movement from this distribution to another.
    ///
    /// ```
    /// use tilewright_layout::{Distribution, Exchange};
    /// let rows = Distribution::spread(&[64, 64], &[1, 0], 1, 64);
    /// let columns = Distribution::spread(&[64, 64], &[0, 1], 1, 64);
    /// assert_eq!(rows.exchange(&rows), Exchange::Registers);
    /// assert_eq!(rows.exchange(&columns), Exchange::Shared);
    /// ```
    pub fn exchange(&self, to: &Distribution) -> Exchange {
        if self == to {
            return Exchange::Registers;
        }
        if self.tile != to.tile || self.threads() != to.threads() {
            return Exchange::Shared;
        }
        let mut holders: std::collections::HashMap<Vec<i64>, Vec<(i64, i64)>> = Default::default();
        for thread in 0..self.threads() {
            for value in 0..self.values() {
                holders.entry(self.coordinate(thread, value)).or_default().push((thread, value));
            }
        }
        let inside = |at: &[i64]| at.iter().zip(&self.tile).all(|(at, extent)| at < extent);
        let (mut worst, mut from) = (Exchange::Registers, vec![None; to.values() as usize]);
        for thread in 0..to.threads() {
            for value in 0..to.values() {
                let at = to.coordinate(thread, value);
                if !inside(&at) {
                    continue;
                }
                let Some(all) = holders.get(&at) else { return Exchange::Shared };
                let own = all.iter().find(|(holder, _)| *holder == thread).map(|(_, value)| *value);
                let known = &mut from[value as usize];
                if own.is_some() && (known.is_none() || *known == own) {
                    *known = own;
                } else if all.iter().any(|(holder, _)| holder / 32 == thread / 32) {
                    worst = Exchange::Warp;
                } else {
                    return Exchange::Shared;
                }
            }
        }
        worst
    }
}

/// The submodes of a layout whose strides are steps along modes.
fn submodes(of: &Layout) -> Vec<Submode> {
    of.leaves()
        .map(|(extent, stride)| match stride {
            Value::Basis { times, path } => {
                Submode { extent: extent.factor(), mode: mode_of(path), step: times }
            }
            _ => Submode { extent: extent.factor(), mode: 0, step: 0 },
        })
        .collect()
}

fn mode_of(path: Path) -> usize {
    path.steps().first().map_or(0, |&mode| usize::from(mode))
}
