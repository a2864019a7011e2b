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
                all.push(Moving {
                    extent,
                    stride,
                    index,
                });
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
            let condition = Condition::BadArgument {
                what: "the size to fill must be at least 1",
                value: n,
            };
            return Err(LayoutError::new(op, condition).with(self));
        }
        let mut moving = self.moving(op)?;
        for m in moving.iter_mut() {
            m.stride = m.stride.abs();
        }
        moving.sort_unstable_by_key(|m| (m.stride, m.extent));
        let mut gaps: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        let mut filled = Moving {
            extent: 1,
            stride: 1,
            index: 1,
        };
        for m in moving.iter().filter(|m| m.stride != 0) {
            let end = filled.extent * filled.stride;
            if m.stride < end {
                return Err(self.no_chain(op, filled, m.stride, end));
            }
            gaps.push((Value::Int(m.stride / end), Value::Int(end)));
            filled = *m;
        }
        let end = filled.extent.checked_mul(filled.stride).unwrap_or(i64::MAX);
        let rest = size.ceil_div(end).ok_or_else(|| self.symbolic(op, size))?;
        gaps.push((rest, Value::Int(end)));
        let full = Layout::flat_of(&gaps).recheck(op)?.coalesce();
        // Nothing left out: keep the stride at which the next copy would begin.
        let nothing = full.size() == Ok(1);
        Ok(if nothing {
            Layout::leaf(Value::Int(1), Value::Int(end))
        } else {
            full
        })
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
                return Some(Condition::NotInjective {
                    coords: (first, index),
                    offset,
                });
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
        const MOST: i64 = 1 << 24;
        if size > MOST {
            return None;
        }
        let lowest: i64 = moving.iter().map(|m| (m.extent - 1) * m.stride.min(0)).sum();
        if reach <= 64 * size {
            let mut seen = vec![false; reach as usize + 1];
            return Some(
                self.offsets()
                    .ok()?
                    .all(|at| !std::mem::replace(&mut seen[(at - lowest) as usize], true)),
            );
        }
        let mut seen = std::collections::HashSet::new();
        Some(self.offsets().ok()?.all(|at| seen.insert(at)))
    }

    /// The largest `R` with `self(R(i)) = i`, starting at offset 0. Stride-0 modes are left out.
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
        let mut before = Moving {
            extent: 1,
            stride: 1,
            index: 0,
        };
        for m in moving.iter() {
            if m.stride < 0 {
                let condition = Condition::BadArgument {
                    what: "every stride must be positive",
                    value: m.stride,
                };
                return Err(LayoutError::new(OP, condition).with(self));
            }
            let steps = m.stride / before.stride;
            if m.stride % before.stride != 0 || steps < before.extent {
                let multiple_of = if steps < before.extent {
                    before.extent * before.stride
                } else {
                    before.stride
                };
                return Err(self.no_chain(OP, before, m.stride, multiple_of));
            }
            modes.push((Value::Int(steps), Value::Int(before.index)));
            before = *m;
        }
        modes.push((Value::Int(before.extent), Value::Int(before.index)));
        Ok(Layout::flat_of(&modes).coalesce())
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
        let modes: Vec<_> = still
            .iter()
            .filter(|m| m.stride == 0)
            .map(|m| (Value::Int(m.extent), Value::Int(m.index)))
            .collect();
        Ok(Layout::flat_of(&modes).coalesce())
    }

    /// The largest layout of coordinates that both layouts send, in the same order, to consecutive offsets from 0.
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
        // Composition fails when `back` leaves our own order; its first mode alone may still stay in it.
        let leading = |layout: &Layout| layout.modes().next();
        let common = match self.composition(&back) {
            Ok(common) => common.coalesce(),
            Err(_) => match leading(&back) {
                Some(first) => self.composition(&first).map_err(within)?.coalesce(),
                None => return Ok(back),
            },
        };
        Ok(match common.leaves().next() {
            Some((Value::Int(n), Value::Int(1))) => back
                .composition(Layout::flat_of(&[(n.into(), 1.into())]))
                .map_err(within)?
                .coalesce(),
            _ => Layout::leaf(Value::Int(1), Value::Int(0)),
        })
    }

    /// How many consecutive elements of both layouts lie side by side: the widest copy between them, in elements.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((128, 8) : (1, 2048)).max_common_vector(&layout!((128, 8) : (1, 132)))?, 128);
    /// assert_eq!(layout!((128, 8) : (1, 2048)).max_common_vector(&layout!((128, 8) : (8, 1)))?, 1);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn max_common_vector(&self, other: &Layout) -> Result<i64> {
        self.max_common_layout(other)?.size()
    }
}
