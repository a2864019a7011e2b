//! The same memory seen with wider or narrower elements.

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::obligation::{Obligation, distinct};
use crate::value::Value;

impl Layout {
    /// The layout in units of `n` elements: leaf by leaf, groups of coordinates become one coordinate, and
    /// offsets are divided by `n`. It is an error if a group does not begin at a multiple of `n`, or spans
    /// more than `n` elements. Conditions on symbols are returned as obligations.
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// assert_eq!(layout!((8, 4) : (1, 16)).upcast(4)?.0.to_string(), "(2,4):(1,4)");
    /// assert_eq!(layout!(((2, 2), 4) : ((1, 2), 16)).upcast(4)?.0.to_string(), "((1,1),4):((1,1),4)");
    /// assert!(layout!((8, 4) : (1, 129)).upcast(4).is_err());
    /// let (wide, needs) = "(128,K):(1,lda)".parse::<Layout>()?.upcast(4)?;
    /// assert_eq!(wide.to_string(), "(32,K):(1,ceil(lda/4))");
    /// assert_eq!(needs[0].to_string(), "4 divides lda");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn upcast(&self, n: i64) -> Result<(Layout, Vec<Obligation>)> {
        const OP: &str = "upcast";
        self.width(OP, n)?;
        let (mut wide, mut needs) = (self.clone(), Vec::new());
        let mut within = 0i64; // the span of one group's elements
        for (leaf, (extent, stride)) in self.leaves().enumerate() {
            let refuse = |value: i64, by: i64| {
                Err(LayoutError::new(OP, Condition::WidthDoesNotDivide { leaf, value, by }).with(self))
            };
            match (extent, stride) {
                _ if stride.is_zero() || extent == Value::Int(1) => {}
                _ if stride.factor() % n == 0 => wide.stride[leaf] = stride.with_factor(stride.factor() / n),
                (_, Value::Sym { .. }) => {
                    let Some(wider) = stride.ceil_div(n) else {
                        return refuse(stride.factor(), n);
                    };
                    wide.stride[leaf] = wider;
                    needs.push(Obligation { divisor: n, of: stride });
                }
                (_, Value::Int(d))
                    if d > 0 && n % d == 0 && (extent.int().is_none_or(|e| e % (n / d) == 0)) =>
                {
                    let group = n / d;
                    within = within.saturating_add(n - d);
                    wide.stride[leaf] = Value::Int(1);
                    wide.shape[leaf] = match extent {
                        _ if extent.factor() % group == 0 => extent.with_factor(extent.factor() / group),
                        _ => {
                            needs.push(Obligation { divisor: group, of: extent });
                            extent.ceil_div(group).ok_or_else(|| self.symbolic(OP, extent))?
                        }
                    };
                }
                // The whole leaf is inside; the case that it does not is refused below.
                (Value::Int(e), Value::Int(d)) if d > 0 && (e - 1).saturating_mul(d) < n => {
                    within = within.saturating_add((e - 1) * d);
                    (wide.shape[leaf], wide.stride[leaf]) = (Value::Int(1), Value::Int(1));
                }
                (_, Value::Int(d)) if d > 0 && n % d == 0 => return refuse(extent.factor(), n / d),
                _ => return refuse(stride.factor(), n),
            }
            if within >= n {
                return refuse(stride.factor(), n);
            }
        }
        Ok((wide.recheck(OP)?, distinct(needs)))
    }

    /// The layout in units of one `n`-th of an element: every element becomes `n` contiguous ones.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((2, 4) : (1, 4)).downcast(4)?.to_string(), "(8,4):(1,16)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn downcast(&self, n: i64) -> Result<Layout> {
        const OP: &str = "downcast";
        self.width(OP, n)?;
        let mut narrow = self.clone();
        let mut split = n == 1;
        for (leaf, (extent, stride)) in self.leaves().enumerate() {
            let index = if !split && stride == Value::Int(1) {
                split = true;
                &mut narrow.shape[leaf]
            } else {
                &mut narrow.stride[leaf]
            };
            let from = if stride == Value::Int(1) && index == &extent { extent } else { *index };
            *index = from
                .times(Value::Int(n))
                .ok_or_else(|| LayoutError::new(OP, Condition::Overflow { leaf: Some(leaf) }).with(self))?;
        }
        if !split {
            let what =
                "one mode must have stride 1 to be split into narrower elements; the width is divided by";
            return Err(LayoutError::new(OP, Condition::BadArgument { what, value: n }).with(self));
        }
        narrow.recheck(OP)
    }

    /// The same memory with elements of `to` bits instead of `from` bits.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((8, 4) : (1, 16)).recast(16, 64)?.0.to_string(), "(2,4):(1,4)");
    /// assert_eq!(layout!((2, 4) : (1, 4)).recast(64, 16)?.0.to_string(), "(8,4):(1,16)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn recast(&self, from: i64, to: i64) -> Result<(Layout, Vec<Obligation>)> {
        const OP: &str = "recast";
        self.width(OP, from)?;
        self.width(OP, to)?;
        let (mut common, mut rest) = (from, to);
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        let narrow = if from == common { Ok(self.clone()) } else { self.downcast(from / common) };
        let wide = narrow.and_then(|narrow| match to / common {
            1 => Ok((narrow, Vec::new())),
            n => narrow.upcast(n),
        });
        wide.map_err(|e| e.within(OP, [self.into()]))
    }

    fn width(&self, op: &'static str, n: i64) -> Result<()> {
        if n < 1 {
            let condition = Condition::BadArgument { what: "the width must be at least 1", value: n };
            return Err(LayoutError::new(op, condition).with(self));
        }
        Ok(())
    }
}
