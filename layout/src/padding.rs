//! [`Padding`]: strides of a shared tile increased, or decreased, until there are no bank conflicts.

use crate::banks::BANK_ROW;
use crate::few::Few;
use crate::layout::Layout;
use crate::synthesis::{SharedTile, TileAccess, sort_out};
use crate::tuple::Tuple;
use crate::value::Value;

/// The padded layout with the fewest conflicts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Padding {
    /// The layout; the plain one if padding does not help.
    pub layout: Layout,
    /// The stride of the plain layout that is changed; all larger strides change with it.
    pub every: i64,
    /// Its increase; negative where less padding than the plain layout has is better, 0 if none helps.
    pub by: i64,
    /// The growth of the tile in elements.
    pub extra: i64,
    /// Wavefronts lost to conflicts, all accesses taken together; `None` if some vector is misaligned.
    pub excess: Option<u32>,
}

/// A tile with other strides, which keep the order of its modes.
pub(crate) struct Spread {
    /// Old and new stride of each level, smallest first. No stride below the smallest changes; leaves
    /// whose strides are multiples of the smallest move with it.
    steps: Few<(i64, i64)>,
    /// The span of the new layout.
    reach: i64,
}

impl Spread {
    /// The new offset of an old one.
    pub(crate) fn moved(&self, at: i64) -> i64 {
        let (mut rest, mut moved) = (at, 0);
        for &(old, new) in self.steps.iter().rev() {
            moved += rest / old * new;
            rest %= old;
        }
        moved + rest
    }

    /// Do the elements of every vector stay contiguous? Offsets keep their order, so first and last decide.
    fn keeps(&self, access: &TileAccess) -> bool {
        let more = access.vector - 1;
        let mut starts = access.warps.iter().flat_map(|(_, starts)| starts);
        more == 0 || starts.all(|&start| self.moved(start + more) == self.moved(start) + more)
    }
}

/// The leaves of nonzero stride, smallest stride first.
fn sorted(layout: &Layout) -> Vec<(i64, i64)> {
    let leaves = layout.leaves().map(|(extent, stride)| (extent.factor(), stride.factor()));
    let mut moving: Vec<(i64, i64)> = leaves.filter(|leaf| leaf.0 > 1 && leaf.1 > 0).collect();
    moving.sort_unstable_by_key(|leaf| leaf.1);
    moving
}

impl SharedTile {
    /// Tries the possible strides of each level of the tile, from the end of the level below.
    pub(crate) fn pad(&self, plain: Option<u32>, tried: &mut u32) -> Padding {
        let mut best =
            Padding { layout: self.plain.clone(), every: self.cosize, by: 0, extra: 0, excess: plain };
        let leaves = sorted(&self.plain);
        let mut levels: Vec<i64> = leaves.iter().map(|leaf| leaf.1).filter(|&stride| stride > 1).collect();
        levels.dedup();
        for every in levels {
            let below: i64 = leaves.iter().filter(|leaf| leaf.1 < every).map(|(n, d)| (n - 1) * d).sum();
            for stride in below + 1..below + 1 + BANK_ROW / self.element_bytes {
                let Some(spread) = self.spread(&leaves, every, stride).filter(|_| stride != every) else {
                    continue;
                };
                let extra = spread.reach + 1 - self.cosize;
                if best.excess == Some(0) && (best.by == 0 || extra >= best.extra) {
                    break;
                }
                *tried += 1;
                // Of equally good layouts the smaller is taken. The count stops once a layout is worse than
                // the best.
                let smaller = best.by != 0 && extra < best.extra;
                let limit = best.excess.map_or(u32::MAX, |e| e.saturating_add(u32::from(smaller)));
                if let Some(excess) = self.excess(&|at| spread.moved(at), limit)
                    && let Some(layout) = self.relaid(&spread)
                {
                    best = Padding { layout, every, by: stride - every, extra, excess: Some(excess) };
                }
            }
        }
        best
    }

    /// The tile with `stride` instead of the stride `every`. Larger strides that are multiples of it change
    /// in proportion. From the first other leaf on, each leaf begins after the end of the levels below, with
    /// its old alignment, up to a row of banks. `None` if modes interleave or a vector would be split.
    fn spread(&self, leaves: &[(i64, i64)], every: i64, stride: i64) -> Option<Spread> {
        let row = BANK_ROW / self.element_bytes;
        let mut steps: Few<(i64, i64)> = Few::from_iter([(every, stride)]);
        // The spans of the leaves so far, old and new.
        let (mut before, mut reach) = (0, 0);
        for &(extent, old) in leaves {
            let new = match old {
                _ if old < every => old,
                _ if old == every && old <= before => return None,
                _ if steps.len() == 1 && old % every == 0 => old / every * stride,
                _ if old <= before => return None,
                _ => {
                    let align = (old & -old).min(row);
                    let new = (reach + align) / align * align;
                    steps.push((old, new));
                    new
                }
            };
            before += (extent - 1) * old;
            reach += (extent - 1) * new;
        }
        let spread = Spread { steps, reach };
        self.accesses.iter().all(|access| spread.keeps(access)).then_some(spread)
    }

    fn relaid(&self, spread: &Spread) -> Option<Layout> {
        let stride = self.plain.stride();
        let moved = stride.leaves().iter().map(|stride| Value::Int(spread.moved(stride.factor())));
        Layout::new(self.plain.shape(), Tuple { leaves: moved.collect(), profile: stride.profile }).ok()
    }

    /// The tile without any padding, if it has some: each mode begins at the end of the one below it.
    pub(crate) fn packed(&self) -> Option<SharedTile> {
        let leaves = sorted(&self.plain);
        let (mut steps, mut before, mut reach) = (Few::empty((0, 0)), 0, 0);
        for &(extent, old) in leaves.iter() {
            if old <= before {
                return None;
            }
            let new = if before == 0 { old } else { reach + 1 };
            steps.push((old, new));
            before += (extent - 1) * old;
            reach += (extent - 1) * new;
        }
        let spread = Spread { steps, reach };
        let plain = self.relaid(&spread).filter(|_| reach < before)?;
        let offsets = plain.offsets().ok()?.collect();
        let mut packed = SharedTile { offsets, cosize: reach + 1, plain, ..self.clone() };
        for access in &mut packed.accesses {
            if !spread.keeps(access) {
                return None;
            }
            for (_, starts) in &mut access.warps {
                *starts = starts.map(|start| spread.moved(start));
            }
            (access.linear, access.curved) = sort_out(&access.warps);
        }
        Some(packed)
    }
}
