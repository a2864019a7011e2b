//! [`Layout`]: the value itself, its constructors and accessors. The operations are in other modules.

use crate::error::{Condition, LayoutError, Result};
use crate::few::{Few, INLINE};
use crate::profile::Profile;
use crate::text::MAX_DEPTH;
use crate::tuple::Tuple;
use crate::value::{Symbol, Value};

/// A function from coordinates to offsets, written `shape:stride`.
///
/// Shape and stride are [`Tuple`]s of the same nesting. The offset of a coordinate is the sum of the
/// products of its leaves and the strides. An integer is a coordinate too: it numbers the coordinates with
/// the leftmost mode fastest. The last mode never wraps around, so a layout is also defined at and above its
/// size.
///
/// ```
/// use tilewright_layout::Layout;
/// let a: Layout = "(4,(2,3)):(1,(4,8))".parse()?;
/// assert_eq!(a.at((1, (1, 2)))?.int(), Some(21));
/// assert_eq!(a.eval(23), Some(23)); // this one is a plain 4x6 column-major matrix
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    pub(crate) shape: Few<Value>,
    pub(crate) stride: Few<Value>,
    pub(crate) profile: Profile,
}

impl Layout {
    /// The layout of this shape and stride. They must nest alike, and extents must be positive.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// assert_eq!(Layout::new((128, 8), (1, 129))?.to_string(), "(128,8):(1,129)");
    /// assert!(Layout::new((4, 2), 1).is_err());
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn new(shape: impl Into<Tuple>, stride: impl Into<Tuple>) -> Result<Layout> {
        let (shape, stride) = (shape.into(), stride.into());
        if !shape.congruent(&stride) {
            return Err(LayoutError::new("layout", Condition::NotCongruent { shape, stride }));
        }
        Layout::checked(shape.leaves, stride.leaves, shape.profile, "layout")
    }

    /// Compact and column-major: every stride is the product of the extents before it.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// assert_eq!(Layout::compact((4, (2, 3)))?.to_string(), "(4,(2,3)):(1,(4,8))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn compact(shape: impl Into<Tuple>) -> Result<Layout> {
        let shape: Tuple = shape.into();
        let order: Few<usize> = (0..shape.leaves.len()).collect();
        Layout::packed(shape, &order, "compact")
    }

    /// Compact and row-major: the last leaf is fastest.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// assert_eq!(Layout::row_major((4, 8))?.to_string(), "(4,8):(8,1)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn row_major(shape: impl Into<Tuple>) -> Result<Layout> {
        let shape: Tuple = shape.into();
        let order: Few<usize> = (0..shape.leaves.len()).rev().collect();
        Layout::packed(shape, &order, "row_major")
    }

    /// Compact, with the leaves laid down in the order of their ranks in `order`: the smallest is fastest.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// assert_eq!(Layout::ordered((4, 2, 3), (1, 2, 0))?.to_string(), "(4,2,3):(3,12,1)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn ordered(shape: impl Into<Tuple>, order: impl Into<Tuple>) -> Result<Layout> {
        let (shape, order) = (shape.into(), order.into());
        let ranks = order.ints().filter(|_| shape.congruent(&order)).ok_or_else(|| {
            let (shape, stride) = (shape.clone(), order.clone());
            LayoutError::new("ordered", Condition::NotCongruent { shape, stride })
        })?;
        let mut by_rank: Vec<usize> = (0..ranks.len()).collect();
        by_rank.sort_by_key(|&leaf| ranks[leaf]);
        Layout::packed(shape, &by_rank, "ordered")
    }

    fn packed(shape: Tuple, order: &[usize], op: &'static str) -> Result<Layout> {
        let mut stride = shape.leaves.clone();
        let mut next = Value::Int(1);
        for (slot, &leaf) in order.iter().enumerate() {
            stride[leaf] = next;
            if slot + 1 < order.len() {
                next = next.times(shape.leaves[leaf]).ok_or_else(|| {
                    LayoutError::new(
                        op,
                        Condition::NotOneTerm { left: next, right: shape.leaves[leaf], sign: '*' },
                    )
                })?;
            }
        }
        Layout::checked(shape.leaves, stride, shape.profile, op)
    }

    /// The first mode contiguous, with `pad` unused elements in every later stride: `(BM,BK):(1,BM+1)`.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// assert_eq!(Layout::padded((128, 8), 1)?.to_string(), "(128,8):(1,129)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn padded(shape: impl Into<Tuple>, pad: i64) -> Result<Layout> {
        let mut layout = Layout::compact(shape)?;
        let mut next = Value::Int(1);
        for mode in 0..layout.stride.len() {
            layout.stride[mode] = next;
            let padded = next
                .times(layout.shape[mode])
                .and_then(|n| n.plus(Value::Int(if mode == 0 { pad } else { 0 })));
            if mode + 1 < layout.stride.len() {
                next = padded.ok_or_else(|| {
                    let (left, right) = (layout.shape[mode], Value::Int(pad));
                    LayoutError::new("padded", Condition::NotOneTerm { left, right, sign: '+' })
                })?;
            }
        }
        layout.recheck("padded")
    }

    /// The layout that returns its own coordinate: strides are basis elements.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// let id = Layout::identity((4, (2, 3)))?;
    /// assert_eq!(id.to_string(), "(4,(2,3)):(1@0,(1@0@1,1@1@1))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn identity(shape: impl Into<Tuple>) -> Result<Layout> {
        use crate::value::Path;
        let shape: Tuple = shape.into();
        let mut stride = shape.leaves.clone();
        let mut open: Vec<usize> = Vec::new(); // the position reached in each tuple that is open
        for (leaf, nest) in shape.profile.0.iter().enumerate() {
            open.resize(open.len() + nest.opens as usize, 0);
            let path = Path::new(&open).ok_or_else(|| {
                LayoutError::new("identity", Condition::TooDeep { depth: shape.depth(), most: 4 })
            })?;
            stride[leaf] = if open.is_empty() { Value::Int(1) } else { Value::Basis { times: 1, path } };
            open.truncate(open.len() - nest.closes as usize);
            if let Some(last) = open.last_mut() {
                *last += 1;
            }
        }
        Layout::checked(shape.leaves, stride, shape.profile, "identity")
    }

    /// A layout whose modes are these layouts.
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// let rows: Layout = "4:8".parse()?;
    /// let cols: Layout = "(2,4):(1,2)".parse()?;
    /// assert_eq!(Layout::from_modes([rows, cols])?.to_string(), "(4,(2,4)):(8,(1,2))");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn from_modes(modes: impl IntoIterator<Item = Layout>) -> Result<Layout> {
        let mut all = Layout::empty();
        for mode in modes {
            all.append(&mode);
        }
        all.profile.wrap();
        all.recheck("from_modes")
    }

    /// The layout of rank 0: a single element, after every mode was sliced away.
    pub(crate) const fn empty() -> Layout {
        let none = Few::empty(Value::Int(0));
        Layout { shape: none, stride: Few::empty(Value::Int(0)), profile: Profile::empty() }
    }

    /// Adds the leaves of a mode; the caller wraps and checks.
    pub(crate) fn append(&mut self, mode: &Layout) {
        self.shape.extend_from(&mode.shape);
        self.stride.extend_from(&mode.stride);
        self.profile.append(&mode.profile);
    }

    /// One leaf.
    pub(crate) fn leaf(extent: Value, stride: Value) -> Layout {
        Layout { shape: Few::from_iter([extent]), stride: Few::from_iter([stride]), profile: Profile::leaf() }
    }

    /// A flat layout of these leaves; a bare leaf for one, `1:0` for none.
    pub(crate) fn flat_of(modes: &[(Value, Value)]) -> Layout {
        if modes.is_empty() {
            return Layout::leaf(Value::Int(1), Value::Int(0));
        }
        Layout {
            shape: modes.iter().map(|m| m.0).collect(),
            stride: modes.iter().map(|m| m.1).collect(),
            profile: Profile::flat(modes.len()),
        }
    }

    /// Every layout that leaves the crate is checked here: positive extents, and no size or offset of more
    /// than 63 bits. No modes at all are a single element.
    pub(crate) fn checked(
        shape: Few<Value>,
        stride: Few<Value>,
        profile: Profile,
        op: &'static str,
    ) -> Result<Layout> {
        Layout { shape, stride, profile }.recheck(op)
    }

    pub(crate) fn recheck(self, op: &'static str) -> Result<Layout> {
        if self.shape.is_empty() {
            return Ok(Layout::leaf(Value::Int(1), Value::Int(0)));
        }
        match self.check(op) {
            Ok(()) => Ok(self),
            Err(e) => Err(e),
        }
    }

    /// The checks of [`checked`](Layout::checked), without moving the layout.
    pub(crate) fn check(&self, op: &'static str) -> Result<()> {
        let depth = self.profile.depth();
        if depth > MAX_DEPTH {
            let most = MAX_DEPTH;
            return Err(LayoutError::new(op, Condition::TooDeep { depth, most }));
        }
        let (mut size, mut reach) = (1i64, 0i64);
        for leaf in 0..self.shape.len() {
            let (extent, stride) = (self.shape[leaf], self.stride[leaf]);
            let wrong = match extent {
                Value::Int(n) => n < 1,
                Value::Sym { times, .. } => times < 1,
                _ => true,
            };
            if wrong || stride == Value::Any {
                let value = if wrong { extent } else { stride };
                let role = if wrong { "extent" } else { "stride" };
                return Err(LayoutError::new(op, Condition::BadLeaf { leaf, value, role }));
            }
            let Value::Int(extent) = extent else { continue };
            let next = size.checked_mul(extent).zip(
                (extent - 1)
                    .checked_mul(stride.factor().checked_abs().unwrap_or(i64::MAX))
                    .and_then(|far| reach.checked_add(far)),
            );
            (size, reach) = match next {
                Some((size, reach)) if reach < i64::MAX => (size, reach),
                _ => return Err(LayoutError::new(op, Condition::Overflow { leaf: Some(leaf) })),
            };
        }
        Ok(())
    }

    /// For [`layout!`](crate::layout!): the layout of integer leaves, in a constant.
    ///
    /// # Panics
    /// When shape and stride do not nest alike, an extent is not positive, or there are more than twelve
    /// leaves. In a `const` that is a compile error.
    #[doc(hidden)]
    pub const fn literal(shape: &[Token], stride: Option<&[Token]>) -> Layout {
        use crate::profile::Nest;
        let (mut extents, mut strides) = ([Value::Int(0); INLINE], [Value::Int(0); INLINE]);
        let mut nests = [Nest { opens: 0, closes: 0 }; INLINE];
        let (mut leaves, mut opens, mut at, mut compact) = (0, 0, 0, 1i64);
        if let Some(stride) = stride {
            assert!(shape.len() == stride.len(), "layout!: shape and stride must nest alike");
        }
        while at < shape.len() {
            match shape[at] {
                Token::Open => {
                    opens += 1;
                    if let Some(stride) = stride {
                        assert!(
                            matches!(stride[at], Token::Open),
                            "layout!: shape and stride must nest alike"
                        );
                    }
                }
                Token::Close => {
                    assert!(leaves > 0 && opens == 0, "layout!: an empty tuple has no layout");
                    nests[leaves - 1].closes += 1;
                    if let Some(stride) = stride {
                        assert!(
                            matches!(stride[at], Token::Close),
                            "layout!: shape and stride must nest alike"
                        );
                    }
                }
                Token::Leaf(extent) => {
                    assert!(leaves < INLINE, "layout!: at most twelve leaves; use Layout::new for more");
                    assert!(extent > 0, "layout!: an extent must be at least 1");
                    extents[leaves] = Value::Int(extent);
                    nests[leaves].opens = opens;
                    opens = 0;
                    strides[leaves] = Value::Int(compact);
                    if let Some(stride) = stride {
                        match stride[at] {
                            Token::Leaf(d) => strides[leaves] = Value::Int(d),
                            _ => panic!("layout!: shape and stride must nest alike"),
                        }
                    }
                    compact = match compact.checked_mul(extent) {
                        Some(size) => size,
                        None => panic!("layout!: the size does not fit 64 bits"),
                    };
                    leaves += 1;
                }
            }
            at += 1;
        }
        let (mut leaf, mut reach) = (0, 0i64);
        while leaf < leaves {
            let stride = strides[leaf].factor().saturating_abs();
            reach = match (extents[leaf].factor() - 1).checked_mul(stride) {
                Some(step) if step < i64::MAX - reach => reach + step,
                _ => panic!("layout!: the largest offset does not fit 63 bits"),
            };
            leaf += 1;
        }
        Layout {
            shape: Few::from_array(leaves, extents),
            stride: Few::from_array(leaves, strides),
            profile: Profile(Few::from_array(leaves, nests)),
        }
    }

    /// The shape.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, (2, 3)) : (1, (4, 8))).shape().to_string(), "(4,(2,3))");
    /// ```
    pub fn shape(&self) -> Tuple {
        Tuple { leaves: self.shape.clone(), profile: self.profile.clone() }
    }

    /// The stride.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, (2, 3)) : (1, (4, 8))).stride().to_string(), "(1,(4,8))");
    /// ```
    pub fn stride(&self) -> Tuple {
        Tuple { leaves: self.stride.clone(), profile: self.profile.clone() }
    }

    /// Extent and stride of every leaf, left to right.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!((4, (2, 3)) : (1, (4, 8)));
    /// assert_eq!(a.leaves().map(|(n, d)| format!("{n}:{d}")).collect::<Vec<_>>(), ["4:1", "2:4", "3:8"]);
    /// ```
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = (Value, Value)> + '_ {
        self.shape.iter().copied().zip(self.stride.iter().copied())
    }

    /// How many top-level modes.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, (2, 3))).rank(), 2);
    /// ```
    pub fn rank(&self) -> usize {
        self.profile.rank()
    }

    /// Levels of nesting; 0 for `4:1`.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, (2, 3))).depth(), 2);
    /// ```
    pub fn depth(&self) -> usize {
        self.profile.depth()
    }

    /// The top-level modes.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!((4, (2, 3)) : (1, (4, 8)));
    /// assert_eq!(a.modes().map(|m| m.to_string()).collect::<Vec<_>>(), ["4:1", "(2,3):(4,8)"]);
    /// ```
    pub fn modes(&self) -> impl ExactSizeIterator<Item = Layout> + DoubleEndedIterator + '_ {
        let ends: Few<usize> = self.profile.modes().map(|range| range.end).collect();
        (0..ends.len()).map(move |mode| {
            let range = mode.checked_sub(1).map_or(0, |before| ends[before])..ends[mode];
            Layout {
                profile: self.profile.mode(&range),
                shape: self.shape[range.clone()].iter().copied().collect(),
                stride: self.stride[range].iter().copied().collect(),
            }
        })
    }

    /// One top-level mode; an error names the rank when there is none.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!((4, (2, 3)) : (1, (4, 8)));
    /// assert_eq!(a.mode(1)?.to_string(), "(2,3):(4,8)");
    /// assert_eq!(a.mode(2).unwrap_err().line(), "mode: there is no mode 2; the rank is 2");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn mode(&self, index: usize) -> Result<Layout> {
        self.modes().nth(index).ok_or_else(|| {
            LayoutError::new("mode", Condition::NoSuchMode { index, rank: self.rank() }).with(self)
        })
    }

    /// How many coordinates: the product of the extents. A symbolic extent is refused by name.
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// assert_eq!(layout!((4, (2, 3))).size()?, 24);
    /// let error = "(M,4):(1,M)".parse::<Layout>()?.size().unwrap_err();
    /// assert!(error.to_string().contains("M"));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn size(&self) -> Result<i64> {
        let mut size = 1i64;
        for (leaf, extent) in self.shape.iter().enumerate() {
            let n = extent.int().ok_or_else(|| self.symbolic("size", *extent))?;
            size = size.checked_mul(n).ok_or_else(|| {
                LayoutError::new("size", Condition::Overflow { leaf: Some(leaf) }).with(self)
            })?;
        }
        Ok(size)
    }

    /// One more than the distance between the smallest and the largest offset: the number of slots that
    /// the offsets span. Negative strides count by their magnitude.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((4, 3) : (-1, 4)).cosize()?, 12);
    /// assert_eq!(layout!((128, 8) : (1, 129)).cosize()?, 1031);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn cosize(&self) -> Result<i64> {
        let mut far = 1i64;
        for (leaf, (extent, stride)) in self.leaves().enumerate() {
            let n = extent.int().ok_or_else(|| self.symbolic("cosize", extent))?;
            let d = stride.int().ok_or_else(|| self.symbolic("cosize", stride))?;
            far =
                (n - 1).checked_mul(d.saturating_abs()).and_then(|reach| far.checked_add(reach)).ok_or_else(
                    || LayoutError::new("cosize", Condition::Overflow { leaf: Some(leaf) }).with(self),
                )?;
        }
        Ok(far)
    }

    pub(crate) fn symbolic(&self, op: &'static str, value: Value) -> LayoutError {
        LayoutError::new(op, Condition::Symbolic { value }).with(self)
    }

    /// Are all extents and strides integers?
    ///
    /// ```
    /// use tilewright_layout::Layout;
    /// assert!("(4,8):(1,4)".parse::<Layout>()?.is_static());
    /// assert!(!"(M,8):(1,lda)".parse::<Layout>()?.is_static());
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn is_static(&self) -> bool {
        self.leaves().all(|(n, d)| n.int().is_some() && d.int().is_some())
    }

    /// The offset of an integer coordinate `0 <= index`; the last mode is not wrapped. `None` if the offset
    /// depends on a symbol or exceeds 63 bits. A `const fn`.
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// const A: &Layout = &layout!((4, 2) : (2, 1));
    /// const LAST: Option<i64> = A.eval(7);
    /// assert_eq!(LAST, Some(7));
    /// assert_eq!(A.eval(8), Some(2)); // at or above the size: the last mode goes on
    /// ```
    pub const fn eval(&self, index: i64) -> Option<i64> {
        let (shape, stride) = (self.shape.as_slice(), self.stride.as_slice());
        let (mut rest, mut sum, mut leaf) = (index, 0i64, 0);
        while leaf < shape.len() {
            let coordinate = match shape[leaf] {
                _ if leaf + 1 == shape.len() => rest,
                Value::Int(n) => {
                    let coordinate = rest % n;
                    rest /= n;
                    coordinate
                }
                _ => return None,
            };
            let Value::Int(d) = stride[leaf] else { return None };
            let Some(step) = coordinate.checked_mul(d) else {
                return None;
            };
            let Some(next) = sum.checked_add(step) else {
                return None;
            };
            sum = next;
            leaf += 1;
        }
        Some(sum)
    }

    /// The offset of a coordinate: a number, a tuple, or a tuple with numbers instead of inner tuples.
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// let a = layout!((4, (2, 3)) : (1, (4, 8)));
    /// assert_eq!(a.at((3, 5))?, a.at((3, (1, 2)))?);
    /// let global: Layout = "(M,K):(1,lda)".parse()?;
    /// assert_eq!(global.at((0, 3))?.to_string(), "3*lda");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn at(&self, coord: impl Into<Tuple>) -> Result<Value> {
        let coord: Tuple = coord.into();
        if coord.leaves.contains(&Value::Any) {
            return Err(LayoutError::new("at", Condition::HoleInCoordinate).with(self).with(coord));
        }
        let (_, offset) = self.slice(&coord).map_err(|e| e.within("at", [self.into(), coord.into()]))?;
        Ok(offset)
    }

    /// All offsets, in the order of integer coordinates. Integers only.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// assert_eq!(layout!((2, 3) : (3, 1)).offsets()?.collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn offsets(&self) -> Result<impl Iterator<Item = i64> + '_> {
        let left = self.size()?;
        if let Some((_, stride)) = self.leaves().find(|(_, d)| d.int().is_none()) {
            return Err(self.symbolic("offsets", stride));
        }
        let mut odometer: Few<i64> = self.shape.iter().map(|_| 0).collect();
        let mut now = 0;
        Ok((0..left).map(move |_| {
            let answer = now;
            for (leaf, coordinate) in odometer.iter_mut().enumerate() {
                let (n, d) = (self.shape[leaf].factor(), self.stride[leaf].factor());
                if *coordinate + 1 < n {
                    *coordinate += 1;
                    now += d;
                    break;
                }
                now -= *coordinate * d;
                *coordinate = 0;
            }
            answer
        }))
    }

    /// The layout with symbols replaced by numbers.
    ///
    /// ```
    /// use tilewright_layout::{Layout, Symbol};
    /// let a: Layout = "(M,8):(1,lda)".parse()?;
    /// let at_launch = a.bind(&|s: Symbol| match s.name() { "M" => Some(100), "lda" => Some(104), _ => None })?;
    /// assert_eq!(at_launch.to_string(), "(100,8):(1,104)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn bind(&self, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Result<Layout> {
        let known = |value: Value| match value {
            Value::Sym { .. } => {
                value.evaluate(lookup).map(Value::Int).ok_or_else(|| self.symbolic("bind", value))
            }
            other => Ok(other),
        };
        Layout::checked(
            self.shape.iter().map(|v| known(*v)).collect::<Result<_>>()?,
            self.stride.iter().map(|v| known(*v)).collect::<Result<_>>()?,
            self.profile.clone(),
            "bind",
        )
    }
}

/// A piece of a [`layout!`](crate::layout!) literal.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Token {
    /// `(`
    Open,
    /// `)`
    Close,
    /// A number.
    Leaf(i64),
}
