//! Inverses: from offsets back to coordinates.

use crate::complement::Moving;
use crate::error::{Condition, LayoutError, Result};
use crate::few::Few;
use crate::layout::Layout;
use crate::points::layout_through;
use crate::value::Value;

/// The largest number of elements for which an inverse is searched without a divisible chain of strides.
const MOST_POINTS: i64 = 1 << 12;

impl Layout {
    /// The `R` with `self(R(i)) = i` that takes whole modes: a mode of stride 1, then a mode that begins where it
    /// ends, and so on. It is the longest such chain; of several equally long ones, the chain that takes the
    /// left mode first. Stride-0 modes are left out. If the layout is a permutation of `0..size`, the chain has
    /// all modes.
    ///
    /// Only whole modes are taken, so if offsets repeat there may be larger inverses: `(4,4):(1,2)`
    /// maps 0 and 1, 4, 8 and 12 to `0..8`, and the answer is `4:1`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 8) : (8, 1)).right_inverse()?.to_string(), "(8,4):(4,1)");
    /// assert_eq!(layout!((2, 2) : (0, 1)).right_inverse()?.to_string(), "2:2");
    /// assert_eq!(layout!((2, 3, 2) : (1, 1, 3)).right_inverse()?.to_string(), "6:2"); // by way of the 3
    /// assert_eq!(layout!((4, 4) : (1, 2)).right_inverse()?.to_string(), "4:1");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn right_inverse(&self) -> Result<Layout> {
        let moving = self.moving("right_inverse")?;
        // The reach of each mode if it is the next, and the mode after it; larger strides first.
        let mut order: Few<usize> = (0..moving.len()).filter(|&mode| moving[mode].stride > 0).collect();
        order.sort_unstable_by_key(|&mode| (std::cmp::Reverse(moving[mode].stride), mode));
        let mut chains: Few<(i64, Option<usize>)> = moving.iter().map(|_| (0, None)).collect();
        let longest = |chains: &[(i64, Option<usize>)], next: i64| {
            let follow = (0..moving.len()).filter(|&mode| moving[mode].stride == next);
            follow.rev().max_by_key(|&mode| chains[mode].0)
        };
        for &mode in order.iter() {
            let Some(end) = moving[mode].stride.checked_mul(moving[mode].extent) else { continue };
            let after = longest(&chains, end);
            chains[mode] = (after.map_or(end, |after| chains[after].0), after);
        }
        let mut modes: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
        let mut next = longest(&chains, 1);
        while let Some(mode) = next {
            modes.push((Value::Int(moving[mode].extent), Value::Int(moving[mode].index)));
            next = chains[mode].1;
        }
        Ok(Layout::flat_of(&modes).coalesce())
    }

    /// The `L` with `L(self(i)) = i`, if a layout is the inverse. `self` must be injective, with positive
    /// strides.
    ///
    /// If the sorted strides divide one another and each is at least the span of the modes before it, there
    /// is always an inverse, gaps or not. Otherwise all ways to nest the offsets are tried, for up to 4,096
    /// offsets below 65,536. The error says whether there is no inverse, or whether it could not be decided.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 8) : (8, 1)).left_inverse()?.to_string(), "(8,4):(4,1)");
    /// assert_eq!(layout!((2, 2) : (1, 3)).left_inverse()?.to_string(), "(3,2):(1,2)");
    /// assert_eq!(layout!((2, 2) : (3, 5)).left_inverse()?.to_string(), "(2,3,2):(0,1,2)");
    /// let error = layout!((3, 3) : (2, 3)).left_inverse().unwrap_err();
    /// assert!(error.line().contains("every nesting of 0..=10 was tried"));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn left_inverse(&self) -> Result<Layout> {
        const OP: &str = "left_inverse";
        let refuse = |condition| Err(LayoutError::new(OP, condition).with(self));
        let mut moving = self.moving(OP)?;
        moving.sort_unstable_by_key(|m| m.stride);
        if let Some(below) = moving.iter().find(|m| m.stride < 0) {
            return refuse(Condition::BadArgument {
                what: "every stride must be positive",
                value: below.stride,
            });
        }
        if let Some(still) = moving.iter().find(|m| m.stride == 0) {
            return refuse(Condition::NotInjective { coords: (0, still.index), offset: 0 });
        }
        if let Some(modes) = back_along_a_chain(&moving) {
            let back = Layout::flat_of(&modes).recheck(OP);
            return Ok(back.map_err(|e| e.with(self))?.coalesce());
        }
        self.closest(&moving, OP)?; // refuses a layout that is not injective
        if self.size()? > MOST_POINTS {
            return refuse(Condition::Undecided { whether: "whether some layout leads back" });
        }
        let points = self.offsets()?.zip(0..).collect();
        layout_through(points, OP).map_err(|e| e.with(self))?.recheck(OP)
    }

    /// The layout of the coordinates that map to offset 0: `self(nullspace(i)) = 0` for all of it.
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
}

/// The modes of a left inverse, if the sorted, positive strides divide each other and each is at least the
/// span of the modes before it.
fn back_along_a_chain(moving: &[Moving]) -> Option<Few<(Value, Value)>> {
    let mut modes: Few<(Value, Value)> = Few::empty((Value::Int(0), Value::Int(0)));
    let mut before = Moving { extent: 1, stride: 1, index: 0 };
    for m in moving {
        let steps = m.stride / before.stride;
        if m.stride % before.stride != 0 || steps < before.extent {
            return None;
        }
        if steps > 1 {
            modes.push((Value::Int(steps), Value::Int(before.index)));
        }
        before = *m;
    }
    modes.push((Value::Int(before.extent), Value::Int(before.index)));
    Some(modes)
}
