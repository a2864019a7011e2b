//! [`SharedTile`]: a tile in shared memory and all accesses to it. Finds the padding or the XOR swizzle
//! without bank conflicts, or reports that there is none.

use std::fmt;

use crate::access::{LANES, Transfer, WarpAccess, first_lanes, not_a_vector, vector_bytes};
use crate::banks::BankReport;
use crate::error::{Condition, LayoutError, Operand, Result};
use crate::layout::Layout;
use crate::padding::Padding;
use crate::swizzle::Composed;
use crate::swizzling::Swizzling;
use crate::value::Value;

/// A tile in shared memory with its plain layout, and the accesses of threads to it.
///
/// ```
/// use tilewright_layout::{SharedTile, Transfer, layout};
/// // The transpose: 32x32 floats, written by columns and read by rows, a warp at a time.
/// let tile = SharedTile::new(&layout!((32, 32)), 4)?
///     .access(&layout!((32, 32) : (1, 32)), 1, Transfer::Store)?
///     .access(&layout!((32, 32) : (32, 1)), 1, Transfer::Load)?;
/// let result = tile.synthesize();
/// assert_eq!(result.padding.layout.to_string(), "(32,32):(1,33)");
/// assert_eq!(result.swizzle.layout.to_string(), "Sw<5,0,5> o 0 o (32,32):(1,32)");
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedTile {
    pub(crate) plain: Layout,
    /// The offsets of the plain layout, as a table.
    pub(crate) offsets: Vec<i64>,
    pub(crate) cosize: i64,
    pub(crate) element_bytes: i64,
    pub(crate) accesses: Vec<TileAccess>,
}

#[derive(Clone, Debug)]
pub(crate) struct TileAccess {
    pub(crate) transfer: Transfer,
    /// The vector width of a lane, in elements.
    pub(crate) vector: i64,
    /// For each instruction of each warp: the active lanes, and their offsets in the plain layout.
    pub(crate) warps: Vec<(u32, [i64; LANES])>,
    /// The warps for the fast path: linear warps by their columns, with their number; other warps by
    /// their index in `warps`.
    pub(crate) linear: Vec<([u64; 5], u32)>,
    pub(crate) curved: Vec<usize>,
}

/// The result of a search for a [`SharedTile`], and its size.
///
/// `Display` summarises it in a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Synthesis {
    /// Wavefronts lost to conflicts in the plain layout; `None` if some vector is misaligned.
    pub plain: Option<u32>,
    /// The best padding.
    pub padding: Padding,
    /// The best XOR swizzle.
    pub swizzle: Swizzling,
    /// The number of tried paddings.
    pub paddings_tried: u32,
    /// The number of tried swizzles.
    pub swizzles_tried: u32,
}

impl SharedTile {
    /// A tile with this layout, in elements of this width. Strides must be positive or 0, and it must fit a
    /// mebibyte.
    pub fn new(plain: &Layout, element_bytes: i64) -> Result<SharedTile> {
        let within = |e: LayoutError| e.within("shared tile", [plain.into()]);
        vector_bytes(1, element_bytes, Transfer::Load).map_err(within)?;
        for (_, stride) in plain.leaves() {
            if stride.int().is_some_and(|d| d < 0) {
                let (what, value) = ("the strides of a shared tile must not be negative", stride.factor());
                return Err(within(LayoutError::new("", Condition::BadArgument { what, value })));
            }
        }
        let (size, cosize) = (plain.size().map_err(within)?, plain.cosize().map_err(within)?);
        const MOST: i64 = 1 << 20;
        let bytes = size.max(cosize).saturating_mul(element_bytes);
        if bytes > MOST {
            let what = "a shared tile has at most 1048576 bytes";
            return Err(within(LayoutError::new("", Condition::BadArgument { what, value: bytes })));
        }
        Ok(SharedTile {
            offsets: plain.offsets().map_err(within)?.collect(),
            cosize,
            plain: plain.clone(),
            element_bytes,
            accesses: Vec::new(),
        })
    }

    /// Adds an access: `tv` maps (thread, value) to the index of an element in the tile, as
    /// [`TiledCopy::tv`](crate::TiledCopy::tv) does. Each thread accesses vectors of `vector` values, and 32
    /// threads with consecutive numbers are a warp.
    pub fn access(mut self, tv: &Layout, vector: i64, transfer: Transfer) -> Result<SharedTile> {
        let access = self
            .read(tv, vector, transfer)
            .map_err(|e| e.within("access to a shared tile", [Operand::from(&self.plain), tv.into()]))?;
        self.accesses.push(access);
        Ok(self)
    }

    fn read(&self, tv: &Layout, vector: i64, transfer: Transfer) -> Result<TileAccess> {
        let refuse = |condition| Err(LayoutError::new("", condition));
        if tv.rank() > 2 {
            let (what, rank) = ("thread-value layout", tv.rank());
            return refuse(Condition::DoesNotFit { what, rank, against: 2 });
        }
        vector_bytes(vector, self.element_bytes, transfer)?;
        let threads = tv.mode(0)?.size()?;
        let values = tv.size()? / threads;
        if values % vector != 0 {
            let (tile, extent) = (Value::Int(vector), Value::Int(values));
            return refuse(Condition::TileDoesNotDivide { mode: 1, tile, extent });
        }
        let mut warps = vec![(0u32, [0i64; LANES]); ((threads + 31) / 32 * (values / vector)) as usize];
        let warps_per_value = warps.len() / (values / vector) as usize;
        let mut indices = tv.offsets()?;
        for value in 0..values {
            for thread in 0..threads {
                let index = indices.next().unwrap_or(0);
                let Some(&at) = usize::try_from(index).ok().and_then(|index| self.offsets.get(index)) else {
                    let extent = self.offsets.len() as i64;
                    return refuse(Condition::OutOfRange { index, extent });
                };
                let (warp, lane) = ((thread / 32) as usize, (thread % 32) as usize);
                let (active, starts) = &mut warps[(value / vector) as usize * warps_per_value + warp];
                let element = value % vector;
                if element == 0 {
                    *active |= 1 << lane;
                    starts[lane] = at;
                } else if at != starts[lane] + element {
                    let expected = starts[lane] + element;
                    return Err(not_a_vector(thread as usize, element as usize, expected, at));
                }
            }
        }
        let (linear, curved) = sort_out(&warps);
        Ok(TileAccess { transfer, vector, warps, linear, curved })
    }

    /// The cost of each access in a layout of this tile: the plain one, or a synthesized one. One report for
    /// every access in the order in which they were added, for its worst warp.
    ///
    /// ```
    /// use tilewright_layout::{SharedTile, Transfer, layout};
    /// let tile = SharedTile::new(&layout!((32, 32)), 4)?.access(&layout!(32 : 32), 1, Transfer::Load)?;
    /// assert_eq!(tile.report(layout!((32, 32)))?[0].wavefronts, 32);
    /// assert_eq!(tile.report(layout!((32, 32) : (1, 36)))?[0].wavefronts, 4);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn report(&self, layout: impl Into<Composed>) -> Result<Vec<BankReport>> {
        let layout: Composed = layout.into();
        let within = |e: LayoutError| e.within("shared tile", [Operand::from(&layout)]);
        // the element at each offset of the plain layout
        let mut moved = vec![0i64; self.cosize as usize];
        for (at, to) in self.offsets.iter().zip(layout.offsets().map_err(within)?) {
            moved[*at as usize] = to;
        }
        let mut reports = Vec::new();
        for access in &self.accesses {
            let mut worst: Option<BankReport> = None;
            for &(active, starts) in &access.warps {
                let to = |at: i64| moved[at as usize];
                for lane in (0..LANES).filter(|lane| active >> lane & 1 == 1) {
                    let start = starts[lane];
                    let split = (1..access.vector).find(|v| to(start + v) != to(start) + v);
                    if let Some(v) = split {
                        return Err(within(not_a_vector(lane, v as usize, to(start) + v, to(start + v))));
                    }
                }
                let report = self.warp(access, active, &starts, &to).banks().map_err(within)?;
                if worst.is_none_or(|w| report.excess() > w.excess()) {
                    worst = Some(report);
                }
            }
            reports.extend(worst);
        }
        Ok(reports)
    }

    pub(crate) fn warp(
        &self,
        access: &TileAccess,
        active: u32,
        starts: &[i64; LANES],
        to: &dyn Fn(i64) -> i64,
    ) -> WarpAccess {
        let mut addresses = *starts;
        let mut lane = 0;
        while lane < LANES {
            if active >> lane & 1 == 1 {
                addresses[lane] = to(addresses[lane]) * self.element_bytes;
            }
            lane += 1;
        }
        WarpAccess { addresses, active, bytes: access.vector * self.element_bytes, transfer: access.transfer }
    }

    /// Looks for the smallest padding and the smallest XOR swizzle without bank conflicts.
    ///
    /// **Padding** changes one stride of the plain layout, and larger strides with it: `(32,32):(1,32)`
    /// becomes `(32,32):(1,33)`. The smallest candidate is the end of the modes below, which may remove
    /// existing padding. The largest is a row of banks (128 bytes) more, since another whole row leaves every
    /// address in its bank. So for a tile of two modes, one of them contiguous, the result "no padding" is a
    /// proof. Several strides are not changed independently. Of two paddings without conflicts, the smaller
    /// tile is taken.
    ///
    /// **Swizzles** `Sw<b,m,s>` are tried by growing `b`, then `m`, then `s`, first downwards, then upwards. Only
    /// swizzles that can change conflicts are tried: those that XOR bits above the banks onto bank bits, and, for
    /// elements of one or two bytes, bits inside a word onto word bits. Every other swizzle has the conflicts of a
    /// smaller swizzle, or splits vectors. They are tried on the layout without its padding, then on the plain layout.
    /// The result "no swizzle" means that no XOR of one group of bits onto another is free of conflicts on either
    /// layout.
    ///
    /// If no layout is free of conflicts, the result has the fewest; see [`Synthesis::conflict_free`].
    pub fn synthesize(&self) -> Synthesis {
        let plain = self.excess(&|at| at, u32::MAX);
        let mut paddings_tried = 0;
        let padding = self.pad(plain, &mut paddings_tried);
        let mut swizzles_tried = 0;
        let swizzle = self.swizzle(plain, &mut swizzles_tried);
        Synthesis { plain, padding, swizzle, paddings_tried, swizzles_tried }
    }

    /// The layout without conflicts of [`SharedTile::synthesize`], or, if there is none, the layout with the fewest. Paddings
    /// are not tried if no padding can be better than the swizzle.
    ///
    /// ```
    /// use tilewright_layout::{SharedTile, Transfer, layout};
    /// let tile = SharedTile::new(&layout!((64, 64)), 2)?.access(&layout!((32, 8) : (64, 1)), 8, Transfer::Matrix)?;
    /// assert_eq!(tile.best().to_string(), "Sw<3,3,3> o 0 o (64,64):(1,64)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn best(&self) -> Composed {
        let plain = self.excess(&|at| at, u32::MAX);
        let (mut paddings_tried, mut swizzles_tried) = (0, 0);
        let swizzle = self.swizzle(plain, &mut swizzles_tried);
        let is_packed = self.offsets.len() as i64 == self.cosize;
        if plain != Some(0) && swizzle.excess == Some(0) && swizzle.extra <= 0 && is_packed {
            return swizzle.layout;
        }
        let padding = self.pad(plain, &mut paddings_tried);
        let synthesis = Synthesis { plain, padding, swizzle, paddings_tried, swizzles_tried };
        if let Some(layout) = synthesis.conflict_free() {
            return layout;
        }
        let (padded, swizzled) = (synthesis.padding.excess, synthesis.swizzle.excess);
        match (swizzled, padded) {
            (Some(swizzled), Some(padded)) if padded < swizzled => synthesis.padding.layout.into(),
            (None, Some(_)) => synthesis.padding.layout.into(),
            _ => synthesis.swizzle.layout,
        }
    }

    /// Wavefronts lost, unless a vector is misaligned or there are `limit` or more.
    pub(crate) fn excess(&self, to: &dyn Fn(i64) -> i64, limit: u32) -> Option<u32> {
        let mut excess = 0;
        for access in &self.accesses {
            for (active, starts) in &access.warps {
                let report = self.warp(access, *active, starts, to).banks().ok()?;
                excess += report.excess();
                if excess >= limit {
                    return None;
                }
            }
        }
        Some(excess)
    }
}

impl Synthesis {
    /// The layout without bank conflicts: the plain layout if it has none, otherwise the smaller of the
    /// swizzled and the padded layout.
    ///
    /// ```
    /// use tilewright_layout::{SharedTile, Transfer, layout};
    /// // 16-byte rows for ldmatrix, from a tile of 64 halves a row
    /// let tile = SharedTile::new(&layout!((64, 64)), 2)?.access(&layout!((32, 8) : (64, 1)), 8, Transfer::Matrix)?;
    /// let result = tile.synthesize();
    /// assert_eq!(result.conflict_free().unwrap().to_string(), "Sw<3,3,3> o 0 o (64,64):(1,64)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn conflict_free(&self) -> Option<Composed> {
        if self.plain == Some(0) {
            Some(self.padding.layout.clone().into())
        } else if self.swizzle.excess == Some(0) && !self.is_padding_smaller() {
            Some(self.swizzle.layout.clone())
        } else if self.padding.excess == Some(0) {
            Some(self.padding.layout.clone().into())
        } else {
            None
        }
    }

    /// Is there a padding without conflicts that is smaller than the swizzle?
    fn is_padding_smaller(&self) -> bool {
        self.padding.excess == Some(0) && self.padding.extra < self.swizzle.extra
    }
}

impl fmt::Display for Synthesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plain {
            Some(0) => return f.write_str("no bank conflict as it is"),
            Some(lost) => {
                write!(f, "{lost} wavefront{} lost to bank conflicts; ", if lost == 1 { "" } else { "s" })?
            }
            None => f.write_str("a vector is misaligned; ")?,
        }
        let Padding { layout, extra, excess, by, .. } = &self.padding;
        match excess {
            Some(0) => write!(f, "none with {layout}, {}", larger(*extra))?,
            Some(lost) if *by != 0 => write!(
                f,
                "no padding of {} avoids them all, the best is {layout} with {lost}",
                self.paddings_tried
            )?,
            _ => write!(f, "no padding of {} helps", self.paddings_tried)?,
        }
        f.write_str("; ")?;
        let Swizzling { layout, extra, excess } = &self.swizzle;
        match excess {
            Some(0) if *extra == 0 => write!(f, "none with {layout}"),
            Some(0) => write!(f, "none with {layout}, {}", larger(*extra)),
            Some(lost) if *excess < self.plain => write!(
                f,
                "no XOR swizzle of {} avoids them all, the best is {layout} with {lost}",
                self.swizzles_tried
            ),
            _ => write!(f, "no XOR swizzle of {} helps", self.swizzles_tried),
        }
    }
}

fn larger(extra: i64) -> String {
    match extra {
        0 => "no larger".to_owned(),
        1 | -1 => format!("one element {}", if extra > 0 { "larger" } else { "smaller" }),
        _ => format!("{} elements {}", extra.abs(), if extra > 0 { "larger" } else { "smaller" }),
    }
}

/// Warps whose offsets are linear in the bits of the lane, by their columns; and the others.
pub(crate) fn sort_out(warps: &[(u32, [i64; LANES])]) -> (Vec<([u64; 5], u32)>, Vec<usize>) {
    let (mut linear, mut curved): (Vec<([u64; 5], u32)>, Vec<usize>) = Default::default();
    for (warp, (active, starts)) in warps.iter().enumerate() {
        let mut columns = [0u64; 5];
        for (bit, column) in columns.iter_mut().enumerate() {
            *column = (starts[0] ^ starts[1 << bit]) as u64;
        }
        let mut straight = *active == first_lanes(LANES);
        for lane in 1..LANES {
            let low = lane & (lane - 1); // the lane without its lowest bit
            let bit = lane.trailing_zeros() as usize;
            straight &= (starts[lane] ^ starts[low]) as u64 == columns[bit];
        }
        if !straight {
            curved.push(warp);
        } else if let Some((_, count)) = linear.iter_mut().find(|(known, _)| *known == columns) {
            *count += 1;
        } else {
            linear.push((columns, 1));
        }
    }
    (linear, curved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Transfer::{Load, Matrix, Store};

    /// A tile, its element bytes, its accesses, and the summary.
    #[track_caller]
    fn check(tile: &str, element_bytes: i64, accesses: &[(&str, i64, Transfer)], expected: &str) {
        let plain: Layout = tile.parse().unwrap();
        let mut tile = SharedTile::new(&plain, element_bytes).unwrap();
        for (tv, vector, transfer) in accesses {
            tile = tile.access(&tv.parse().unwrap(), *vector, *transfer).unwrap();
        }
        let synthesis = tile.synthesize();
        assert_eq!(synthesis.to_string(), expected);
        let lost =
            |layout: &Composed| -> u32 { tile.report(layout).unwrap().iter().map(|r| r.excess()).sum() };
        if synthesis.padding.excess == Some(0) {
            assert_eq!(lost(&synthesis.padding.layout.clone().into()), 0);
            assert_eq!(
                synthesis.padding.layout.cosize().unwrap(),
                plain.cosize().unwrap() + synthesis.padding.extra
            );
        }
        if synthesis.swizzle.excess == Some(0) {
            assert_eq!(lost(&synthesis.swizzle.layout), 0);
        }
    }

    /// Each form of the summary; tests of random tiles check what it says.
    #[test]
    fn summaries() {
        // Written by (32,8) threads from a column-major matrix, read by (16,16) threads by rows and by columns.
        let write = ("(256,4):(1,256)", 1, Store);
        let rows = ("((16,16),(8,8)):((1,0),(16,128))", 1, Load);
        let columns = ("((16,16),(8,8)):((0,1),(16,128))", 1, Load);
        check("(128,8):(1,128)", 4, &[write, rows, columns], "no bank conflict as it is");
        // Written from a row-major matrix, eight lanes along k.
        let across = ("((8,32),4):((128,1),32)", 1, Store);
        check(
            "(128,8):(1,129)",
            4,
            &[across, rows, columns],
            "96 wavefronts lost to bank conflicts; none with (128,8):(1,132), 21 elements larger; \
             none with Sw<3,2,5> o 0 o (128,8):(1,128), 7 elements smaller",
        );
        check(
            "(128,32):(32,1)", // rows of 64 bytes: the 64-byte swizzle mode of TMA. No padding suits both accesses
            2,
            &[("((4,64),8):((1024,1),128)", 8, Store), ("(128,(8,4)):(1,(128,1024))", 8, Matrix)],
            "192 wavefronts lost to bank conflicts; no padding of 63 avoids them all, the best is (128,32):(40,1) with \
             32; none with Sw<2,3,3> o 0 o (128,32):(32,1)",
        );
        check(
            "(8,8):(1,9)",
            4,
            &[("(8,4):(8,1)", 4, Load)],
            "a vector is misaligned; none with (8,8):(1,12), 21 elements larger; \
             none with Sw<1,2,3> o 0 o (8,8):(1,8), 7 elements smaller",
        );
    }

    #[test]
    fn nothing_helps() {
        // Any two of 64 elements are read together: two of them share a bank in any layout.
        let pairs: Vec<String> = (1..64).map(|apart| format!("(2,{}):({apart},1)", 64 - apart)).collect();
        let pairs: Vec<_> = pairs.iter().map(|tv| (tv.as_str(), 1, Load)).collect();
        check(
            "64:1",
            4,
            &pairs,
            "32 wavefronts lost to bank conflicts; no padding of 0 helps; no XOR swizzle of 5 helps",
        );
    }

    #[track_caller]
    fn refuse(tile: &str, tv: &str, vector: i64, expected: &str) {
        let synthesis = SharedTile::new(&tile.parse().unwrap(), 4)
            .and_then(|tile| tile.access(&tv.parse().unwrap(), vector, Load));
        assert_eq!(synthesis.unwrap_err().line(), expected);
    }

    #[test]
    fn refusals() {
        const AT: &str = "access to a shared tile";
        refuse(
            "(8,8):(1,-8)",
            "8:1",
            1,
            "shared tile: the strides of a shared tile must not be negative, and it is -8",
        );
        refuse(
            "(M,8):(1,M)",
            "8:1",
            1,
            "shared tile: `M` is not known until launch, and the result depends on it",
        );
        refuse(
            "(8,8):(1,1000000)",
            "8:1",
            1,
            "shared tile: a shared tile has at most 1048576 bytes, and it is 28000032",
        );
        refuse("(8,8):(1,8)", "128:1", 1, &format!("{AT}: the coordinate 64 is outside 0..64"));
        refuse(
            "(8,8):(8,1)",
            "(16,4):(4,1)",
            4,
            &format!("{AT}: lane 0's element 1 is at offset 8 instead of 1, so they are not contiguous"),
        );
        refuse(
            "(8,8):(1,8)",
            "(8,6):(8,1)",
            4,
            &format!("{AT}: the tile's extent 4 does not divide 6 in mode 1"),
        );
    }
}
