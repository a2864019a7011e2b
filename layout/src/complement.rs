//! Complement: the offsets that a layout leaves out; and the common part of two layouts.

use crate::differences::closest;
use crate::error::{Condition, LayoutError, Result};
use crate::few::Few;
use crate::layout::Layout;
use crate::value::Value;

/// A leaf of nonzero stride: extent, stride, and the stride of its coordinate in the layout's own index.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moving {
    pub(crate) extent: i64,
    pub(crate) stride: i64,
    pub(crate) index: i64,
}

/// Modes that interleave, with the fill of the gaps between their elements.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The first of its modes, sorted by stride.
    first: usize,
    /// The end of the block below it, which must fit between two elements.
    below: i64,
    /// The distance of the closest two elements.
    apart: i64,
    /// The alignment of further copies.
    end: i64,
}

impl Layout {
    /// Leaves with extent over 1 as integers, with the index stride of each.
    pub(crate) fn moving(&self, op: &'static str) -> Result<Few<Moving>> {
        let (mut all, mut index) = (Few::empty(Moving::default()), 1);
        for (extent, stride) in self.leaves() {
            let extent = extent.int().ok_or_else(|| self.symbolic(op, extent))?;
            if extent > 1 {
                let stride = stride.int().ok_or_else(|| self.symbolic(op, stride))?;
                all.push(Moving { extent, stride, index });
            }
            index *= extent;
        }
        Ok(all)
    }

    /// The layout `R` that fills the gaps of this layout in `0..size`. Negative strides count by their
    /// magnitude, zero strides not at all. Smaller strides fill a part below the next stride; the gap after
    /// it gets the largest number of whole copies of this part. Then the whole is repeated until it fills
    /// `size`. So
    ///
    /// - `R` is ordered: each of its strides is at least the extent times the stride before;
    /// - no two sums of an offset of this layout and one of `R` are equal;
    /// - all of them are below `size`, rounded up to whole periods: the period is the largest extent
    ///   times its stride, or, where modes interleave, the largest offset plus the distance of the
    ///   closest two elements;
    /// - where each stride is a multiple of the extent times the stride before it, everything below that is
    ///   covered.
    ///
    /// There is one for every layout that is injective in its modes of nonzero stride, and for no other.
    ///
    /// ```
    /// use tilewright_layout::{Value, layout};
    /// assert_eq!(layout!(4 : 2).complement(24)?.to_string(), "(2,3):(1,8)");
    /// assert_eq!(layout!((8, 5) : (1, 10)).complement(120)?.to_string(), "3:50"); // two of ten stay empty
    /// assert_eq!(layout!((2, 3) : (2, 3)).complement(27)?.to_string(), "3:9"); // 0 2 3 5 6 8, then from 9 on
    /// assert_eq!(layout!(128 : 1).complement(Value::symbol("M"))?.to_string(), "ceil(M/128):128");
    /// assert!(layout!((2, 2) : (1, 1)).complement(8).is_err()); // not injective
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn complement(&self, size: impl Into<Value>) -> Result<Layout> {
        let size = size.into();
        self.complement_in(size, "complement")
    }

    pub(crate) fn complement_in(&self, size: Value, op: &'static str) -> Result<Layout> {
        if let Value::Int(n) = size
            && n < 1
        {
            let condition = Condition::BadArgument { what: "the size to fill must be at least 1", value: n };
            return Err(LayoutError::new(op, condition).with(self));
        }
        let blocks = self.blocks(op)?;
        let mut gaps: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        for block in blocks.iter().filter(|block| block.apart / block.below > 1) {
            gaps.push((Value::Int(block.apart / block.below), Value::Int(block.below)));
        }
        let end = blocks.last().map_or(1, |block| block.end);
        let rest = size.ceil_div(end).ok_or_else(|| self.symbolic(op, size))?;
        gaps.push((rest, Value::Int(end)));
        let full = Layout::flat_of(&gaps).recheck(op)?.coalesce();
        // No gaps: keep the stride at which the next copy would begin.
        let single = full.size() == Ok(1);
        Ok(if single { Layout::leaf(Value::Int(1), Value::Int(end)) } else { full })
    }

    /// The period at which a copy of this layout, with its gaps filled, may follow.
    pub(crate) fn period(&self, op: &'static str) -> Result<i64> {
        Ok(self.blocks(op)?.last().map_or(1, |block| block.end))
    }

    /// The modes of nonzero stride, by magnitude, in blocks: a block is a mode, or several that interleave.
    fn blocks(&self, op: &'static str) -> Result<Few<Block>> {
        let mut moving: Few<Moving> = self.moving(op)?.iter().copied().filter(|m| m.stride != 0).collect();
        moving.sort_unstable_by_key(|m| (m.stride.abs(), m.extent));
        let mut blocks: Few<Block> = Few::empty(Block::default());
        for (mode, m) in moving.iter().enumerate() {
            let mut first = mode;
            let mut apart = m.stride.abs();
            let mut below = blocks.last().map_or(1, |block| block.end);
            // The block below does not fit between its elements: they interleave.
            while apart < below {
                let Some(block) = blocks.pop() else { break };
                (first, below) = (block.first, block.below);
                apart = self.closest(&moving[first..=mode], op)?;
            }
            let end = moving[first..=mode].iter().try_fold(apart, |end, m| {
                (m.extent - 1).checked_mul(m.stride.abs()).and_then(|reach| end.checked_add(reach))
            });
            blocks.push(Block { first, below, apart, end: end.unwrap_or(i64::MAX) });
        }
        Ok(blocks)
    }

    /// The distance of the closest two elements of these modes, sorted by magnitude of their strides. An
    /// error if they share an offset.
    pub(crate) fn closest(&self, modes: &[Moving], op: &'static str) -> Result<i64> {
        let refuse = |condition| Err(LayoutError::new(op, condition).with(self));
        let plain: Vec<(i64, i64)> = modes.iter().map(|m| (m.extent, m.stride.abs())).collect();
        let Some(result) = closest(&plain) else {
            return refuse(Condition::Undecided {
                whether: "whether two of its coordinates share an offset",
            });
        };
        if result.distance > 0 {
            return Ok(result.distance);
        }
        let (mut one, mut other, mut offset) = (0, 0, 0);
        for (m, steps) in modes.iter().zip(result.steps) {
            let steps = steps * m.stride.signum();
            one += steps.max(0) * m.index;
            other += (-steps).max(0) * m.index;
            offset += steps.max(0) * m.stride;
        }
        refuse(Condition::NotInjective { coords: (one.min(other), one.max(other)), offset })
    }

    /// Is the layout injective? `None` when symbols or size keep it from being decided.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 8) : (1, 5)).is_injective(), Some(true));
    /// assert_eq!(layout!((4, 8) : (1, 3)).is_injective(), Some(false));
    /// ```
    pub fn is_injective(&self) -> Option<bool> {
        let mut moving = self.moving("is_injective").ok()?;
        moving.sort_unstable_by_key(|m| m.stride.abs());
        let mut reach = 0i64;
        let mut apart = true;
        for m in moving.iter() {
            if m.stride == 0 {
                return Some(false);
            }
            apart &= m.stride.abs() > reach;
            reach += (m.extent - 1) * m.stride.abs();
        }
        if apart {
            return Some(true);
        }
        // More coordinates than offsets between the smallest and the largest.
        let size = self.size().ok()?;
        if size - 1 > reach {
            return Some(false);
        }
        let plain: Vec<(i64, i64)> = moving.iter().map(|m| (m.extent, m.stride.abs())).collect();
        if let Some(result) = closest(&plain) {
            return Some(result.distance > 0);
        }
        const MOST: i64 = 1 << 22;
        if size > MOST {
            return None;
        }
        let lowest: i64 = moving.iter().map(|m| (m.extent - 1) * m.stride.min(0)).sum();
        if reach <= 8 * size {
            let mut seen = vec![false; reach as usize + 1];
            return Some(
                self.offsets().ok()?.all(|at| !std::mem::replace(&mut seen[(at - lowest) as usize], true)),
            );
        }
        let mut seen = std::collections::HashSet::new();
        Some(self.offsets().ok()?.all(|at| seen.insert(at)))
    }

    /// Coordinates that both layouts map, in the same order, to consecutive offsets from 0: up to whole
    /// modes and a part of one more.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let (global, shared) = (layout!((128, 8) : (1, 2048)), layout!((128, 8) : (1, 132)));
    /// assert_eq!(global.max_common_layout(&shared)?.to_string(), "128:1");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout> {
        const OP: &str = "max_common_layout";
        let within = |e: LayoutError| e.within(OP, [self.into(), other.into()]);
        let back = other.right_inverse().map_err(within)?;
        let room = self.size().unwrap_or(i64::MAX);
        let mut modes: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        let (mut count, mut last) = (1i64, 0i64); // elements so far, and the coordinate of the last one
        for (extent, step) in back.leaves().map(|(n, d)| (n.factor(), d.factor())) {
            let fits = if step > 0 { (room - 1 - last) / step + 1 } else { 1 };
            let run = self.straight_for(extent, step).map_err(within)?.min(fits);
            if run < 2 {
                break;
            }
            modes.push((run.into(), step.into()));
            let all = Layout::leaf(Value::Int(count * run), Value::Int(1));
            if !self.composition(Layout::flat_of(&modes)).is_ok_and(|result| result.coalesce() == all) {
                let kept = modes.len() - 1;
                modes = modes[..kept].iter().copied().collect();
                break;
            }
            (count, last) = (count * run, last + (run - 1) * step);
            if run < extent {
                break;
            }
        }
        Ok(Layout::flat_of(&modes).coalesce())
    }

    /// The layout of the start of each group of `width` coordinates, if the first `width` coordinates of
    /// `common` and their copies cover this layout and each copy has consecutive offsets.
    pub(crate) fn vector_starts(&self, common: &Layout, width: i64) -> Option<Layout> {
        let group = common.composition(Layout::leaf(width.into(), 1.into())).ok()?;
        let rest = group.complement(self.size().ok()?).ok()?;
        if width.checked_mul(rest.size().ok()?)? != self.size().ok()? {
            return None;
        }
        let copies = Layout::from_modes([group, rest]).ok()?;
        if copies.cosize() != self.size() {
            return None;
        }
        self.composition(copies).ok()?.mode(1).ok()
    }

    /// The number of elements that are contiguous in both layouts, everywhere: the longest vector of a copy
    /// between them, in elements. Alignment of the vectors is a separate question.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((128, 8) : (1, 2048)).max_common_vector(&layout!((128, 8) : (1, 132)))?, 128);
    /// assert_eq!(layout!((128, 8) : (1, 2048)).max_common_vector(&layout!((128, 8) : (8, 1)))?, 1);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn max_common_vector(&self, other: &Layout) -> Result<i64> {
        let common = self.max_common_layout(other)?;
        if let Some(symbol) = self.shape.iter().chain(other.shape.iter()).find(|n| n.int().is_none()) {
            return Err(self.symbolic("max_common_vector", *symbol).with(other));
        }
        widest_vector(&common, |width| {
            [self, other].iter().all(|l| l.vector_starts(&common, width).is_some())
        })
    }
}

/// The largest number of elements of `common` that fits; 1 if none does.
pub(crate) fn widest_vector(common: &Layout, fits: impl Fn(i64) -> bool) -> Result<i64> {
    /// The search finds a width if it, or its cofactor in `common`, is at most this.
    const MOST: i64 = 1 << 12;
    let all = common.size()?;
    let most = MOST.min(all);
    let wide = (1..=most).filter(|n| all % n == 0).map(|n| all / n);
    let narrow = (1..=most).rev().filter(|n| all % n == 0);
    Ok(wide.chain(narrow).find(|&width| fits(width)).unwrap_or(1))
}
