//! Complement and inverses: what a layout leaves out, and how to get back from offsets to coordinates.

use crate::error::{Condition, LayoutError, Result};
use crate::few::Few;
use crate::layout::Layout;
use crate::value::Value;

/// A leaf that moves: extent, stride, and the stride of its coordinate in the layout's own index.
#[derive(Clone, Copy, Default)]
struct Moving {
    extent: i64,
    stride: i64,
    index: i64,
}

impl Layout {
    /// Leaves with extent over 1 as integers, with the index at which each starts.
    fn moving(&self, op: &'static str) -> Result<Few<Moving>> {
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

    /// The layout that fills what this one leaves out of `0..size`: ordered, disjoint from it, as large as fits into the
    /// gaps, and together they reach at least `size`. Padding that is smaller than a copy stays empty. Negative strides
    /// count by their magnitude, zero strides not at all.
    ///
    /// ```
    /// use tilewright_layout::{Value, layout};
    /// assert_eq!(layout!(4 : 2).complement(24)?.to_string(), "(2,3):(1,8)");
    /// assert_eq!(layout!((8, 5) : (1, 10)).complement(120)?.to_string(), "3:50"); // two of ten stay empty
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
        let mut moving = self.moving(op)?;
        for m in moving.iter_mut() {
            m.stride = m.stride.abs();
        }
        moving.sort_unstable_by_key(|m| (m.stride, m.extent));
        let mut gaps: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        let mut filled = Moving { extent: 1, stride: 1, index: 1 };
        for m in moving.iter().filter(|m| m.stride != 0) {
            let end = filled.extent * filled.stride;
            if m.stride < end {
                return Err(self.no_chain(op, filled, m.stride, end));
            }
            if m.stride / end > 1 {
                gaps.push((Value::Int(m.stride / end), Value::Int(end)));
            }
            filled = *m;
        }
        let end = filled.extent.checked_mul(filled.stride).unwrap_or(i64::MAX);
        let rest = size.ceil_div(end).ok_or_else(|| self.symbolic(op, size))?;
        gaps.push((rest, Value::Int(end)));
        let full = Layout::flat_of(&gaps).recheck(op)?.coalesce();
        // Nothing left out: keep the stride at which the next copy would begin.
        let nothing = full.size() == Ok(1);
        Ok(if nothing { Layout::leaf(Value::Int(1), Value::Int(end)) } else { full })
    }

    fn no_chain(&self, op: &'static str, before: Moving, stride: i64, multiple_of: i64) -> LayoutError {
        let condition = self.shared_offset().unwrap_or(Condition::NoChain {
            before: (before.extent, before.stride),
            stride,
            multiple_of,
        });
        LayoutError::new(op, condition).with(self)
    }

    /// Two coordinates with the same offset, if they are easily found.
    fn shared_offset(&self) -> Option<Condition> {
        /// Larger layouts are judged by their strides alone.
        const MOST: i64 = 1 << 14;
        let size = self.size().ok()?;
        let mut seen = std::collections::HashMap::new();
        for (index, offset) in (0..size.min(MOST)).zip(self.offsets().ok()?) {
            if let Some(&first) = seen.get(&offset) {
                return Some(Condition::NotInjective { coords: (first, index), offset });
            }
            seen.insert(offset, index);
        }
        None
    }

    /// Does every coordinate have an offset of its own? `None` when symbols or size keep it from being decided.
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
        // More coordinates than room between the smallest and the largest offset.
        let size = self.size().ok()?;
        if size - 1 > reach {
            return Some(false);
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

    /// The `R` with `self(R(i)) = i` that follows whole modes: the one of stride 1, then the one that begins where it
    /// ends, and so on. Stride-0 modes are left out, and where two modes could be next the left one is.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 8) : (8, 1)).right_inverse()?.to_string(), "(8,4):(4,1)");
    /// assert_eq!(layout!((2, 2) : (0, 1)).right_inverse()?.to_string(), "2:2");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn right_inverse(&self) -> Result<Layout> {
        let moving = self.moving("right_inverse")?;
        let mut modes: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        let mut next = 1i64;
        while let Some(m) = moving.iter().find(|m| m.stride == next) {
            modes.push((Value::Int(m.extent), Value::Int(m.index)));
            next = match next.checked_mul(m.extent) {
                Some(next) => next,
                None => break,
            };
        }
        Ok(Layout::flat_of(&modes).coalesce())
    }

    /// The `L` with `L(self(i)) = i`. The layout must be injective and its strides, sorted, must divide each other in
    /// turn; gaps between them are allowed.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 8) : (8, 1)).left_inverse()?.to_string(), "(8,4):(4,1)");
    /// assert_eq!(layout!((2, 2) : (1, 3)).left_inverse()?.to_string(), "(3,2):(1,2)");
    /// let error = layout!((6, 5) : (8, 3)).left_inverse().unwrap_err();
    /// assert!(error.line().contains("do not form a divisible chain"));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn left_inverse(&self) -> Result<Layout> {
        const OP: &str = "left_inverse";
        let mut moving = self.moving(OP)?;
        moving.sort_unstable_by_key(|m| m.stride);
        let mut modes: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        let mut before = Moving { extent: 1, stride: 1, index: 0 };
        for m in moving.iter() {
            if m.stride < 0 {
                let condition =
                    Condition::BadArgument { what: "every stride must be positive", value: m.stride };
                return Err(LayoutError::new(OP, condition).with(self));
            }
            let steps = m.stride / before.stride;
            if m.stride % before.stride != 0 || steps < before.extent {
                let multiple_of =
                    if steps < before.extent { before.extent * before.stride } else { before.stride };
                return Err(self.no_chain(OP, before, m.stride, multiple_of));
            }
            if steps > 1 {
                modes.push((Value::Int(steps), Value::Int(before.index)));
            }
            before = *m;
        }
        modes.push((Value::Int(before.extent), Value::Int(before.index)));
        let back = Layout::flat_of(&modes).recheck(OP);
        Ok(back.map_err(|e| e.with(self))?.coalesce())
    }

    /// The layout of the coordinates that do not move: `self(nullspace(i)) = 0` for all of it.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 3, 2) : (1, 0, 4)).nullspace()?.to_string(), "3:4");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn nullspace(&self) -> Result<Layout> {
        let still = self.moving("nullspace")?;
        let modes: Few<_> = still
            .iter()
            .filter(|m| m.stride == 0)
            .map(|m| (Value::Int(m.extent), Value::Int(m.index)))
            .collect();
        Ok(Layout::flat_of(&modes).coalesce())
    }

    /// Coordinates that both layouts send, in the same order, to consecutive offsets from 0: as many as whole modes and the
    /// beginning of one more lead to.
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
            if !self.composition(Layout::flat_of(&modes)).is_ok_and(|found| found.coalesce() == all) {
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

    /// The layout of the places where groups of `width` coordinates begin, if the first `width` coordinates of `common`
    /// and their copies cover this layout and each copy is a line of consecutive offsets.
    pub(crate) fn vector_starts(&self, common: &Layout, width: i64) -> Option<Layout> {
        let group = common.composition(Layout::leaf(width.into(), 1.into())).ok()?;
        let rest = group.complement(self.size().ok()?).ok()?;
        if width.checked_mul(rest.size().ok()?)? != self.size().ok()? {
            return None;
        }
        let both = self.composition(Layout::from_modes([group, rest]).ok()?).ok()?;
        both.mode(1).ok()
    }

    /// How many consecutive elements of both layouts lie side by side, everywhere: the widest copy between them, in
    /// elements. Whether its vectors are aligned is another question.
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
    /// A width is found when it, or what it divides `common` into, is at most this.
    const MOST: i64 = 1 << 12;
    let all = common.size()?;
    let most = MOST.min(all);
    let wide = (1..=most).filter(|n| all % n == 0).map(|n| all / n);
    let narrow = (1..=most).rev().filter(|n| all % n == 0);
    Ok(wide.chain(narrow).find(|&width| fits(width)).unwrap_or(1))
}
