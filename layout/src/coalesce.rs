//! Simplifications that keep the function: coalesce, filter, and regroupings of modes.

use crate::error::{Condition, LayoutError, Result};
use crate::few::Few;
use crate::layout::Layout;
use crate::profile::Profile;
use crate::tuple::Tuple;
use crate::value::Value;

impl Layout {
    /// The same function on `0..size` with the fewest modes.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((2, (1, 6)) : (1, (6, 2))).coalesce().to_string(), "12:1");
    /// ```
    pub fn coalesce(&self) -> Layout {
        let mut modes: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        for (extent, stride) in self.leaves() {
            if extent == Value::Int(1) {
                continue;
            }
            if let Some((n, d)) = modes.last_mut()
                && d.times(*n) == Some(stride)
                && let Some(merged) = n.times(extent)
            {
                *n = merged;
                continue;
            }
            modes.push((extent, stride));
        }
        Layout::flat_of(&modes)
    }

    /// Coalesces each mode on its own where `pattern` has a number, and each of its modes where it has a
    /// tuple.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!(((2, 4), (2, 2)) : ((1, 2), (8, 16)));
    /// assert_eq!(a.coalesce_modes((1, 1))?.to_string(), "(8,4):(1,8)");
    /// assert_eq!(a.coalesce().to_string(), "32:1");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn coalesce_modes(&self, pattern: impl Into<Tuple>) -> Result<Layout> {
        let pattern: Tuple = pattern.into();
        if pattern.is_leaf() {
            return Ok(self.coalesce());
        }
        if pattern.rank() != self.rank() {
            let (rank, against) = (pattern.rank(), self.rank());
            return Err(LayoutError::new(
                "coalesce",
                Condition::DoesNotFit { what: "pattern", rank, against },
            )
            .with(self)
            .with(&pattern));
        }
        let modes: Result<Vec<_>> =
            self.modes().zip(pattern.modes()).map(|(m, p)| m.coalesce_modes(p)).collect();
        Layout::from_modes(modes?)
    }

    /// Without the modes of stride 0: extents 1 and strides 0 are dropped, and the rest is coalesced.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 3, 2) : (1, 0, 4)).filter().to_string(), "8:1");
    /// ```
    pub fn filter(&self) -> Layout {
        let moving: Few<_> = self.leaves().filter(|(_, stride)| !stride.is_zero()).collect();
        Layout::flat_of(&moving).coalesce()
    }

    /// All leaves as top-level modes, without nesting.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, (2, 3)) : (1, (4, 8))).flatten().to_string(), "(4,2,3):(1,4,8)");
    /// ```
    pub fn flatten(&self) -> Layout {
        Layout {
            shape: self.shape.clone(),
            stride: self.stride.clone(),
            profile: Profile::flat(self.shape.len()),
        }
    }

    /// The chosen modes, in that order.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 2, 3)).select(&[2, 0])?.to_string(), "(3,4):(8,1)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn select(&self, modes: &[usize]) -> Result<Layout> {
        let picked: Result<Vec<_>> = modes.iter().map(|&mode| self.mode(mode)).collect();
        Layout::from_modes(picked?)
    }

    /// The modes `from..to` become one mode.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 2, 3)).group(0, 2)?.to_string(), "((4,2),3):((1,4),8)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn group(&self, from: usize, to: usize) -> Result<Layout> {
        let rank = self.rank();
        if from >= to || to > rank {
            return Err(LayoutError::new("group", Condition::NoSuchMode { index: to, rank }).with(self));
        }
        let modes: Vec<_> = self.modes().collect();
        let grouped = Layout::from_modes(modes[from..to].iter().cloned())?;
        let before = modes[..from].iter().cloned();
        Layout::from_modes(before.chain([grouped]).chain(modes[to..].iter().cloned()))
    }

    /// The same offsets under another shape of the same size: `self ∘ compact(shape)`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!(24 : 2).reshape((4, 6))?.to_string(), "(4,6):(2,8)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn reshape(&self, shape: impl Into<Tuple>) -> Result<Layout> {
        let shape: Tuple = shape.into();
        let (mine, theirs) = (self.size()?, shape.product().unwrap_or(0));
        if mine != theirs {
            let what = "the new shape must have as many elements as the layout";
            let condition = Condition::BadArgument { what, value: theirs };
            return Err(LayoutError::new("reshape", condition).with(self).with(&shape));
        }
        self.composition(Layout::compact(&shape)?)
            .map_err(|e| e.within("reshape", [self.into(), (&shape).into()]))
    }
}

#[cfg(test)]
mod tests {
    use crate::Layout;

    #[track_caller]
    fn check(op: fn(&Layout) -> Layout, layout: &str, expected: &str) {
        let layout: Layout = layout.parse().unwrap();
        assert_eq!(op(&layout).to_string(), expected, "of {layout}");
    }

    #[test]
    fn coalesces() {
        check(Layout::coalesce, "8:1", "8:1");
        check(Layout::coalesce, "(1,1):(3,4)", "1:0");
        check(Layout::coalesce, "(2,1):(1,0)", "2:1");
        check(Layout::coalesce, "((6,6,5),4,4):((20,480,4),1,120)", "(6,6,5,4,4):(20,480,4,1,120)");
        check(Layout::coalesce, "(4,3):(0,0)", "12:0");
        check(Layout::coalesce, "(4,3):(-1,-4)", "12:-1");
        check(Layout::coalesce, "(4,K):(lda,4*lda)", "4*K:lda");
        check(Layout::coalesce, "(M,K):(1,lda)", "(M,K):(1,lda)");
    }

    #[test]
    fn filters() {
        check(Layout::filter, "(4,3):(0,0)", "1:0");
        check(Layout::filter, "(2,3,2):(1,0,2)", "4:1");
    }
}
