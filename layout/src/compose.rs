//! Composition: `R(c) = A(B(c))`, answered exactly when a layout is an answer.
//!
//! Seen as a function of an integer, a layout with extents n₀, n₁, … and strides a₀, a₁, … is a straight line
//! that is bent wherever one of its modes wraps around:
//!
//! ```text
//! A(x) = a₀·x + Σⱼ wⱼ·⌊x / Nⱼ⌋,     Nⱼ = n₀·…·nⱼ₋₁,     wⱼ = aⱼ − nⱼ₋₁·aⱼ₋₁
//! ```
//!
//! `R` exists exactly when `A∘B` is additive over the leaves of `B` and along each leaf is a nested layout
//! itself. Both are questions about the bends alone:
//!
//! 1. Along a leaf `s:d`, let `L` be the first multiple of `d` at which the line is bent. A nested layout
//!    must break there, so `L` divides `s`; what remains is the leaf `s/L : L·d`. That gives the only
//!    candidate.
//! 2. The candidate is right if no sum of its parts carries: for every bend, the remainders `d mod Nⱼ` of the
//!    parts, each taken as often as its extent allows, add up to less than `Nⱼ`. Remainders only add, so the
//!    largest coordinate decides for all. If one bend carries, the candidate is wrong; if several do, they
//!    may cancel, and then the carries themselves are walked through.
//!
//! No step enumerates the domain.

use crate::error::{Condition, LayoutError, Operand, Result};
use crate::few::Few;
use crate::layout::Layout;
use crate::profile::{Nest, Profile};
use crate::tiler::Tiler;
use crate::tuple::Tuple;
use crate::value::Value;

/// The limit of carries to walk before giving up on a cancellation. Random operands need none, and a short
/// cycle is detected: only a cancellation that lasts for millions of carries exceeds this.
const MOST_CARRIES: u32 = 1 << 20;

/// A bend of the left operand's line.
#[derive(Clone, Copy, Default)]
struct Bend {
    /// At multiples of this index.
    every: i64,
    /// The change of slope; `None` when strides of different kinds meet, which never cancel.
    by: Option<i128>,
    /// The mode that wraps there.
    mode: usize,
}

/// The left operand, prepared: a slope and its bends.
struct Line<'a> {
    layout: &'a Layout,
    bends: Few<Bend>,
    /// From this index on the result depends on a symbolic extent.
    unknown: Option<(i64, Value)>,
}

/// A leaf of the candidate: `extent` steps of `stride` through the left operand, from leaf `of` of the right
/// one.
#[derive(Clone, Copy, Default)]
struct Part {
    extent: i64,
    stride: i64,
    of: usize,
}

impl<'a> Line<'a> {
    fn new(layout: &'a Layout) -> Line<'a> {
        let mut line = Line::straight(layout);
        line.bend();
        line
    }

    /// The line without its bends: [`bend`](Line::bend) adds them to it, since moving a line costs more
    /// than bending it.
    fn straight(layout: &'a Layout) -> Line<'a> {
        Line { layout, bends: Few::empty(Bend::default()), unknown: None }
    }

    fn bend(&mut self) {
        let layout = self.layout;
        let (mut every, last) = (1i64, layout.shape.len() - 1);
        // An extent of 1 never wraps; the last mode is not wrapped either, whatever its extent.
        let mut moving = (0..last).filter(|&mode| layout.shape[mode] != Value::Int(1)).peekable();
        while let Some(mode) = moving.next() {
            let Value::Int(extent) = layout.shape[mode] else {
                self.unknown = Some((every, layout.shape[mode]));
                break;
            };
            // A wrap of more than 63 bits is out of reach of any index.
            let Some(next) = every.checked_mul(extent) else {
                break;
            };
            every = next;
            let after = moving.peek().copied().unwrap_or(last);
            let by = match (layout.stride[mode], layout.stride[after]) {
                (Value::Int(here), Value::Int(there)) => {
                    Some(i128::from(there) - i128::from(here) * i128::from(extent))
                }
                (here, there) if here.times(Value::Int(extent)) == Some(there) => Some(0),
                _ => None,
            };
            if by != Some(0) {
                self.bends.push(Bend { every, by, mode });
            }
        }
    }

    /// The offset of an index, as one term.
    fn at(&self, index: i64) -> Result<Value> {
        let layout = self.layout;
        let (mut rest, mut sum) = (index, Value::Int(0));
        for mode in 0..layout.shape.len() {
            let coordinate = match layout.shape[mode] {
                Value::Int(n) if mode + 1 < layout.shape.len() => {
                    let coordinate = rest % n;
                    rest /= n;
                    coordinate
                }
                _ => std::mem::take(&mut rest),
            };
            if coordinate == 0 {
                continue;
            }
            let step = layout.stride[mode].times(Value::Int(coordinate)).ok_or_else(overflow)?;
            sum = match (sum.plus(step), sum, step) {
                (Some(sum), ..) => sum,
                (None, Value::Int(_), Value::Int(_)) => return Err(overflow()),
                (None, left, right) => {
                    return Err(LayoutError::new(
                        "composition",
                        Condition::NotOneTerm { left, right, sign: '+' },
                    ));
                }
            };
        }
        Ok(sum)
    }

    /// The first multiple `1 <= u < extent` of `stride` at which the line is bent.
    fn first_bend(&self, extent: i64, stride: i64) -> Result<Option<i64>> {
        // Bends at the same step can cancel, so they are taken in order until one does not cancel.
        let mut multiples: Few<i64> = self.bends.iter().map(|_| 1).collect();
        let mut again = i64::MAX; // the period of all bends; computed once something cancels
        for _ in 0..MOST_CARRIES {
            let step = |bend: &Bend, multiple: i64| -> i64 {
                let rest = stride % bend.every;
                if rest == 0 {
                    return i64::MAX;
                }
                let (multiple, every, rest) =
                    (i128::from(multiple), i128::from(bend.every), i128::from(rest));
                i64::try_from((multiple * every + rest - 1) / rest).unwrap_or(i64::MAX)
            };
            let next =
                self.bends.iter().zip(multiples.iter()).map(|(bend, multiple)| step(bend, *multiple)).min();
            let Some(next) = next.filter(|&u| u < extent && u <= again) else {
                return Ok(None);
            };
            let mut sum = Some(0i128);
            for (bend, multiple) in self.bends.iter().zip(multiples.iter_mut()) {
                if step(bend, *multiple) == next {
                    *multiple += 1;
                    sum = sum.zip(bend.by).map(|(a, b)| a + b);
                }
            }
            if sum != Some(0) {
                return Ok(Some(next));
            }
            again = period(stride, &self.bends);
        }
        Err(LayoutError::new("composition", Condition::TooMuchWork))
    }
}

fn overflow() -> LayoutError {
    LayoutError::new("composition", Condition::Overflow { leaf: None })
}

impl Layout {
    /// The layout `R` with `R(c) = self(tiler(c))`; its shape refines the tiler's, leaf by leaf.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let a = layout!((6, 2) : (8, 2));
    /// assert_eq!(a.composition(layout!((4, 3) : (3, 1)))?.to_string(), "((2,2),3):((24,2),8)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    ///
    /// With a tiler by mode, each mode is composed separately, and further modes are unchanged:
    ///
    /// ```
    /// use tilewright_layout::{Layout, layout};
    /// let a: Layout = "(M,K):(1,lda)".parse()?;
    /// assert_eq!(a.composition((128, 8))?.to_string(), "(128,8):(1,lda)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    ///
    /// There is an answer exactly if some layout is the composition. Otherwise the error names the failing
    /// mode, and the first coordinate at which every candidate is wrong.
    pub fn composition(&self, tiler: impl Into<Tiler>) -> Result<Layout> {
        let tiler = tiler.into();
        match &tiler {
            Tiler::Layout(right) => compose(self, right),
            Tiler::Keep => Ok(self.clone()),
            Tiler::Modes(_) => by_mode(self, &tiler, "composition", &|mode, tiler| mode.composition(tiler)),
        }
    }
}

/// Applies an operation to each mode that the tiler names; the other modes are unchanged.
pub(crate) fn by_mode(
    left: &Layout,
    tiler: &Tiler,
    op: &'static str,
    apply: &dyn Fn(&Layout, &Tiler) -> Result<Layout>,
) -> Result<Layout> {
    let Tiler::Modes(tilers) = tiler else {
        return apply(left, tiler);
    };
    let operands = || [Operand::Layout(left.clone()), Operand::Tiler(tiler.clone())];
    let (rank, against) = (tilers.len(), left.rank());
    if rank > against {
        return Err(LayoutError::new(op, Condition::DoesNotFit { what: "tiler", rank, against })
            .within(op, operands()));
    }
    let mut all = Layout::empty();
    for (index, mode) in left.modes().enumerate() {
        let done = match tilers.get(index) {
            Some(tiler) => apply(&mode, tiler).map_err(|e| e.within(op, operands()).in_mode(index))?,
            None => mode,
        };
        all.append(&done);
    }
    all.profile.wrap();
    all.recheck(op).map_err(|e| e.within(op, operands()))
}

impl Layout {
    /// The number of steps of `stride`, up to `extent`, for which the offsets are linear.
    pub(crate) fn straight_for(&self, extent: i64, stride: i64) -> Result<i64> {
        Ok(Line::new(self).first_bend(extent, stride)?.unwrap_or(extent))
    }
}

fn compose(left: &Layout, right: &Layout) -> Result<Layout> {
    if left.shape.is_empty() {
        return Err(LayoutError::new("composition", Condition::NoSuchMode { index: 0, rank: 0 }));
    }
    let mut composer = Composer { line: Line::straight(left), right, parts: Few::empty(Part::default()) };
    composer.line.bend();
    composer
        .run()
        .map_err(|e| e.within("composition", [Operand::Layout(left.clone()), Operand::Layout(right.clone())]))
}

struct Composer<'a> {
    line: Line<'a>,
    right: &'a Layout,
    parts: Few<Part>,
}

impl Composer<'_> {
    fn run(&mut self) -> Result<Layout> {
        let right = self.right;
        let mut result = Layout::empty();
        let mut reach = 0i64;
        for (leaf, (extent, stride)) in right.leaves().enumerate() {
            let nest = right.profile.0[leaf];
            let before = result.shape.len();
            match (extent, stride) {
                (Value::Int(extent), Value::Int(stride)) => {
                    if extent > 1 {
                        reach = reach.saturating_add((extent - 1).saturating_mul(stride.saturating_abs()));
                    }
                    self.leaf(leaf, extent, stride, &mut result)?;
                }
                // A straight line takes any steps.
                _ if self.line.bends.is_empty() && self.line.unknown.is_none() => {
                    let slope = self.line.at(1)?;
                    let stride = slope.times(stride).ok_or_else(|| {
                        LayoutError::new("", Condition::NotOneTerm { left: slope, right: stride, sign: '*' })
                    })?;
                    push(&mut result, extent, stride);
                }
                _ => {
                    let value = if extent.int().is_none() { extent } else { stride };
                    return Err(
                        LayoutError::new("", Condition::Symbolic { value }).in_mode(mode_of(right, leaf))
                    );
                }
            }
            let after = result.shape.len();
            if after - before > 1 {
                result.profile.0[before].opens += 1;
                result.profile.0[after - 1].closes += 1;
            }
            result.profile.0[before].opens += nest.opens;
            result.profile.0[after - 1].closes += nest.closes;
        }
        if let Some((from, value)) = self.line.unknown
            && reach >= from
        {
            return Err(LayoutError::new("", Condition::Symbolic { value }));
        }
        self.check_carries()?;
        result.recheck("composition")
    }

    /// Splits one leaf of the right operand at a bend of the left one.
    fn leaf(&mut self, leaf: usize, extent: i64, stride: i64, result: &mut Layout) -> Result<()> {
        let (mut extent, mut stride) = (extent, stride);
        if extent < 1 {
            let (value, role) = (Value::Int(extent), "extent");
            return Err(LayoutError::new("", Condition::BadLeaf { leaf, value, role }));
        }
        if stride < 0 && extent > 1 && (!self.line.bends.is_empty() || self.line.unknown.is_some()) {
            return Err(
                LayoutError::new("", Condition::NegativeIndex { stride }).in_mode(mode_of(self.right, leaf))
            );
        }
        let mut done = 1;
        loop {
            let run = if stride > 0 { self.line.first_bend(extent, stride)? } else { None };
            let run = run.unwrap_or(extent);
            if extent % run != 0 {
                // A carry before the break is the smaller counterexample.
                self.parts.push(Part { extent: run, stride, of: leaf });
                if let Err(carry) = self.check_carries()
                    && carry.counterexample().is_some()
                {
                    return Err(carry);
                }
                let straight = self.line.at(stride)?.times(Value::Int(run)).unwrap_or_default();
                let actual = self.line.at(stride.checked_mul(run).ok_or_else(overflow)?)?;
                return Err(LayoutError::new(
                    "",
                    Condition::RunDoesNotDivide { run, extent, stride, actual, straight },
                )
                .in_mode(mode_of(self.right, leaf))
                .because(self.coordinate(&[(leaf, done * run)])));
            }
            self.parts.push(Part { extent: run, stride, of: leaf });
            // The stride of a single element is never used: any will do.
            let reached = self.line.at(stride);
            let reached = if run == 1 { Ok(reached.unwrap_or_default()) } else { reached };
            push(result, Value::Int(run), reached?);
            if run == extent {
                return Ok(());
            }
            done *= run;
            extent /= run;
            stride = stride.checked_mul(run).ok_or_else(overflow)?;
        }
    }

    /// The coordinate of the right operand with these leaves set and the others zero.
    fn coordinate(&self, set: &[(usize, i64)]) -> Tuple {
        let mut leaves: Few<Value> = self.right.shape.iter().map(|_| Value::Int(0)).collect();
        for &(leaf, n) in set {
            leaves[leaf] = Value::Int(leaves[leaf].factor() + n);
        }
        Tuple { leaves, profile: self.right.profile.clone() }
    }

    /// Step 2 of the module's comment.
    fn check_carries(&self) -> Result<()> {
        let carrying = |bend: &Bend| {
            let most: i128 = self.parts.iter().map(|p| i128::from(p.extent - 1) * rest(p, bend)).sum();
            most >= i128::from(bend.every)
        };
        let carries: Few<Bend> = self.bends_within_reach().filter(carrying).collect();
        match carries.iter().find(|bend| bend.by.is_none()) {
            Some(bend) => Err(self.carry(bend, &self.first_carry(bend))),
            None if carries.len() == 1 => Err(self.carry(&carries[0], &self.first_carry(&carries[0]))),
            None if carries.is_empty() => Ok(()),
            None => self.walk_carries(&carries),
        }
    }

    fn bends_within_reach(&self) -> impl Iterator<Item = Bend> + '_ {
        self.line
            .bends
            .iter()
            .copied()
            .filter(|_| self.parts.len() > 1 || self.parts.iter().any(|p| p.extent > 1))
    }

    /// The smallest coordinate, one coordinate for each part, whose remainders reach the bend: greedy from the
    /// top, because lower digits can then be as large as needed.
    fn first_carry(&self, bend: &Bend) -> Vec<i64> {
        let mut missing = i128::from(bend.every);
        let mut below: i128 = self.parts.iter().map(|p| i128::from(p.extent - 1) * rest(p, bend)).sum();
        let mut coordinates = vec![0; self.parts.len()];
        for (coordinate, part) in coordinates.iter_mut().zip(self.parts.iter()).rev() {
            let step = rest(part, bend);
            below -= i128::from(part.extent - 1) * step;
            if missing > below && step > 0 {
                let least = (missing - below + step - 1) / step;
                *coordinate = least as i64;
                missing -= least * step;
            }
        }
        coordinates
    }

    /// Several bends carry: do they cancel everywhere? Walks along the first part from carry to carry, for
    /// each coordinate of the others, in the order of coordinates.
    fn walk_carries(&self, carries: &[Bend]) -> Result<()> {
        let mut coordinates: Few<i64> = self.parts.iter().map(|_| 0).collect();
        // If it is true up to the period of the carries, it is true above.
        let shortened = |part: &Part| Part {
            extent: part.extent.min(period(part.stride, carries).saturating_add(1)),
            ..*part
        };
        let parts: Few<Part> = self.parts.iter().map(shortened).collect();
        let first = parts[0];
        let mut work = 0u32;
        loop {
            let base: Few<i128> = carries
                .iter()
                .map(|b| {
                    parts
                        .iter()
                        .zip(coordinates.iter())
                        .skip(1)
                        .map(|(p, &n)| i128::from(n) * rest(p, b))
                        .sum()
                })
                .collect();
            let mut at = 0i64;
            loop {
                let sum = |b: &Bend, base: i128| {
                    let carried = (base + i128::from(at) * rest(&first, b)) / i128::from(b.every);
                    b.by.unwrap_or(0).checked_mul(carried)
                };
                let bent: Option<i128> = carries
                    .iter()
                    .zip(base.iter())
                    .try_fold(0i128, |all, (b, base)| all.checked_add(sum(b, *base)?));
                let bent = bent.ok_or_else(overflow)?;
                if bent != 0 {
                    coordinates[0] = at;
                    return Err(self.carry(&carries[0], &coordinates));
                }
                work += 1;
                if work > MOST_CARRIES {
                    return Err(LayoutError::new("", Condition::TooMuchWork));
                }
                let next_of = |b: &Bend, base: i128| {
                    let (every, step) = (i128::from(b.every), rest(&first, b));
                    let now = base + i128::from(at) * step;
                    if step == 0 {
                        i128::MAX
                    } else {
                        i128::from(at) + (every - now.rem_euclid(every) + step - 1) / step
                    }
                };
                let next = carries.iter().zip(base.iter()).map(|(b, base)| next_of(b, *base)).min();
                match next {
                    Some(next) if next < i128::from(first.extent) => at = next as i64,
                    _ => break,
                }
            }
            let mut part = 1;
            loop {
                if part >= coordinates.len() {
                    return Ok(());
                }
                coordinates[part] += 1;
                if coordinates[part] < parts[part].extent {
                    break;
                }
                coordinates[part] = 0;
                part += 1;
            }
        }
    }

    fn carry(&self, bend: &Bend, coordinates: &[i64]) -> LayoutError {
        let (mut index, mut sum, mut coord) = (0i64, Some(Value::Int(0)), Vec::new());
        let mut within = (usize::MAX, 1i64); // the current leaf and the size of its parts so far
        for (part, &coordinate) in self.parts.iter().zip(coordinates) {
            if within.0 != part.of {
                within = (part.of, 1);
            }
            coord.push((part.of, coordinate * within.1));
            within.1 *= part.extent;
            index += coordinate * part.stride;
            let offset = self.line.at(part.stride).ok().and_then(|a| a.times(Value::Int(coordinate)));
            sum = sum.zip(offset).and_then(|(a, b)| a.plus(b));
        }
        let actual = self.line.at(index).unwrap_or_default();
        let condition = Condition::Carry {
            mode: mode_of(self.line.layout, bend.mode),
            wraps_at: bend.every,
            actual,
            sum: sum.unwrap_or_default(),
        };
        let error = LayoutError::new("", condition).because(self.coordinate(&coord));
        let last = coord.iter().rev().find(|(_, coordinate)| *coordinate > 0);
        match last {
            Some((leaf, _)) => error.in_mode(mode_of(self.right, *leaf)),
            None => error,
        }
    }
}

/// The period of the bends in steps of `stride`. The bends divide each other, so it fits.
fn period(stride: i64, bends: &[Bend]) -> i64 {
    let gcd = |mut a: i64, mut b: i64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    bends.iter().fold(1, |all, bend| {
        let own = bend.every / gcd(bend.every, stride.rem_euclid(bend.every));
        all / gcd(all, own) * own
    })
}

fn rest(part: &Part, bend: &Bend) -> i128 {
    if part.extent > 1 { i128::from(part.stride.rem_euclid(bend.every)) } else { 0 }
}

fn push(layout: &mut Layout, extent: Value, stride: Value) {
    layout.shape.push(extent);
    layout.stride.push(stride);
    layout.profile.0.push(Nest { opens: 0, closes: 0 });
}

/// The top-level mode that a leaf belongs to.
pub(crate) fn mode_of(layout: &Layout, leaf: usize) -> usize {
    let profile: &Profile = &layout.profile;
    profile.modes().position(|range| range.contains(&leaf)).unwrap_or(0)
}
