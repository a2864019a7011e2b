//! Errors as values: one catalogue, each entry with its numbers and its remedy.

use std::fmt;

use crate::layout::Layout;
use crate::swizzle::Composed;
use crate::tiler::Tiler;
use crate::tuple::Tuple;
use crate::value::Value;

/// The result of an operation on layouts.
pub type Result<T> = std::result::Result<T, LayoutError>;

/// Why an operation has no result: the operation, its operands, the condition that fails, and where.
///
/// `Display` prints a short paragraph, and one line in its alternate form `{:#}`.
///
/// ```
/// use tilewright_layout::layout;
/// let error = layout!((7, 6) : (6, 1)).composition(&layout!(8 : 4)).unwrap_err();
/// assert_eq!(error.operation(), "composition");
/// assert_eq!(error.counterexample().unwrap().to_string(), "7");
/// ```
#[derive(Clone, PartialEq)]
pub struct LayoutError(Box<Parts>);

#[derive(Clone, PartialEq)]
struct Parts {
    op: &'static str,
    operands: Vec<Operand>,
    mode: Option<usize>,
    condition: Condition,
    counterexample: Option<Tuple>,
}

/// An operand of the failed operation.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Operand {
    /// A layout.
    Layout(Layout),
    /// A swizzled layout.
    Composed(Composed),
    /// A shape, stride or coordinate.
    Tuple(Tuple),
    /// A tiler.
    Tiler(Tiler),
    /// Text that does not parse.
    Text(String),
}

/// The violated condition, with its numbers.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)] // lives in the box of a LayoutError
pub enum Condition {
    /// Shape and stride nest differently.
    NotCongruent {
        /// The shape.
        shape: Tuple,
        /// The stride.
        stride: Tuple,
    },
    /// An extent that is not positive, or a leaf that is not a number.
    BadLeaf {
        /// The index of the leaf, from the left.
        leaf: usize,
        /// The text or value of the leaf.
        value: Value,
        /// `extent` or `stride`.
        role: &'static str,
    },
    /// A size or an offset does not fit 64 bits.
    Overflow {
        /// The leaf at which it happens, where known.
        leaf: Option<usize>,
    },
    /// The operation needs the value of a symbol.
    Symbolic {
        /// The symbolic value.
        value: Value,
    },
    /// A sum or product that is not a single term.
    NotOneTerm {
        /// Left operand.
        left: Value,
        /// Right operand.
        right: Value,
        /// `+` or `*`.
        sign: char,
    },
    /// Nesting too deep.
    TooDeep {
        /// How deep it is.
        depth: usize,
        /// How deep it may be.
        most: usize,
    },
    /// A mode that does not exist.
    NoSuchMode {
        /// The requested mode.
        index: usize,
        /// How many there are.
        rank: usize,
    },
    /// `_` where every mode needs a number.
    HoleInCoordinate,
    /// A coordinate, projection or tiler that does not fit the nesting of the layout.
    DoesNotFit {
        /// Its description.
        what: &'static str,
        /// Its rank.
        rank: usize,
        /// The expected rank.
        against: usize,
    },
    /// A coordinate outside its mode.
    OutOfRange {
        /// The coordinate.
        index: i64,
        /// The extent of the mode.
        extent: i64,
    },
    /// Text that is not a layout.
    Parse {
        /// 1-based column, in characters.
        column: usize,
        /// The expected token.
        expected: &'static str,
        /// The actual token.
        actual: String,
    },
    /// Along one leaf of the right operand the left one is not a nested layout: it is linear for `run`
    /// elements, and the leaf's extent is not a multiple of `run`.
    RunDoesNotDivide {
        /// Elements before the first break.
        run: i64,
        /// The extent that it must divide.
        extent: i64,
        /// The stride of the leaf in the right operand.
        stride: i64,
        /// The offset at the break.
        actual: Value,
        /// The offset of a linear continuation.
        straight: Value,
    },
    /// The offset of a coordinate is not the sum of the offsets of its parts: adding them carries into a
    /// later mode.
    Carry {
        /// The left operand's mode that overflows.
        mode: usize,
        /// The index in the left operand at which that mode wraps around.
        wraps_at: i64,
        /// The offset at the counterexample.
        actual: Value,
        /// The sum of the offsets of its parts.
        sum: Value,
    },
    /// Whether parts carry could not be decided within the limit of work.
    TooMuchWork,
    /// A negative index falls outside the left operand.
    NegativeIndex {
        /// The stride that leads there.
        stride: i64,
    },
    /// Two coordinates share an offset.
    NotInjective {
        /// Two different coordinates.
        coords: (i64, i64),
        /// The offset that they share.
        offset: i64,
    },
    /// A tile that does not divide the extent.
    TileDoesNotDivide {
        /// The mode.
        mode: usize,
        /// The extent of the tile.
        tile: Value,
        /// The extent to be tiled.
        extent: Value,
    },
    /// A tile with gaps whose repetitions do not tile the extent.
    TilesOutOfBounds {
        /// The mode.
        mode: usize,
        /// The period of the tiles.
        period: i64,
        /// The span of a tile.
        reach: i64,
        /// The extent to be tiled.
        extent: i64,
    },
    /// The layout is injective, but no layout is its inverse.
    NoLayoutThrough {
        /// The largest offset.
        last: i64,
    },
    /// A question that would take too long to decide.
    Undecided {
        /// The question, beginning with `whether`.
        whether: &'static str,
    },
    /// A stride or extent that a change of element width cannot divide.
    WidthDoesNotDivide {
        /// The leaf.
        leaf: usize,
        /// The dividend.
        value: i64,
        /// The divisor.
        by: i64,
    },
    /// An argument that is not valid, such as one that is not positive or no permutation.
    BadArgument {
        /// The mistake in it.
        what: &'static str,
        /// The argument.
        value: i64,
    },
    /// The elements of a lane's vector are not contiguous.
    NotAVector {
        /// The lane.
        lane: usize,
        /// The first element that is not contiguous.
        element: usize,
        /// The offset that would be contiguous.
        expected: i64,
        /// Its offset.
        actual: i64,
    },
    /// The lane of a misaligned address.
    Misaligned {
        /// The lane.
        lane: usize,
        /// Its byte address.
        address: i64,
        /// The bytes of its access.
        bytes: i64,
    },
    /// A swizzle whose bits overlap or do not fit.
    BadSwizzle {
        /// Bits, base, shift.
        parts: (u32, u32, i32),
        /// Why it is not one.
        why: &'static str,
    },
}

macro_rules! operand {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Operand {
            fn from(value: $from) -> Operand {
                Operand::$variant(value.to_owned())
            }
        }
    )*};
}
operand!(&Layout => Layout, &Composed => Composed, Tuple => Tuple, &Tuple => Tuple, &Tiler => Tiler, &str => Text);

impl LayoutError {
    pub(crate) fn new(op: &'static str, condition: Condition) -> LayoutError {
        LayoutError(Box::new(Parts { op, operands: Vec::new(), mode: None, condition, counterexample: None }))
    }

    /// Adds an operand.
    pub(crate) fn with(mut self, operand: impl Into<Operand>) -> LayoutError {
        self.0.operands.push(operand.into());
        self
    }

    /// The same error, attributed to the operation that the user called.
    pub(crate) fn within(
        mut self,
        op: &'static str,
        operands: impl IntoIterator<Item = Operand>,
    ) -> LayoutError {
        self.0.op = op;
        self.0.operands = operands.into_iter().collect();
        self
    }

    pub(crate) fn in_mode(mut self, mode: usize) -> LayoutError {
        self.0.mode = Some(mode);
        self
    }

    pub(crate) fn because(mut self, counterexample: Tuple) -> LayoutError {
        self.0.counterexample = Some(counterexample);
        self
    }

    /// The operation that was called.
    pub fn operation(&self) -> &'static str {
        self.0.op
    }

    /// The operands.
    pub fn operands(&self) -> &[Operand] {
        &self.0.operands
    }

    /// The mode of the last operand that caused the failure, if a single mode did.
    pub fn mode(&self) -> Option<usize> {
        self.0.mode
    }

    /// The condition that was violated.
    pub fn condition(&self) -> &Condition {
        &self.0.condition
    }

    /// The smallest coordinate at which no layout can be right, if there is one.
    pub fn counterexample(&self) -> Option<&Tuple> {
        self.0.counterexample.as_ref()
    }

    /// Is the cause a bend of the left operand?
    pub(crate) fn is_a_bend(&self) -> bool {
        matches!(self.0.condition, Condition::Carry { .. } | Condition::RunDoesNotDivide { .. })
    }

    /// The nearest right operand for which the operation has an answer, if the search finds one. The search
    /// takes time: call it only for an error that is shown.
    ///
    /// ```
    /// use tilewright_layout::layout;
    /// let error = layout!((4, 6, 8) : (2, 3, 5)).composition(&layout!(6 : 3)).unwrap_err();
    /// assert_eq!(error.nearest().unwrap().to_string(), "6:2");
    /// ```
    pub fn nearest(&self) -> Option<Operand> {
        crate::nearest::nearest(self)
    }

    /// One line: what failed and why, without advice. `{:#}` prints the same.
    pub fn line(&self) -> String {
        format!("{self:#}")
    }

    fn write_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.op)?;
        if let Some(mode) = self.0.mode {
            write!(f, ", mode {mode}")?;
        }
        write!(f, ": {}", self.0.condition)?;
        if let Some(coord) = &self.0.counterexample {
            write!(f, " (at coordinate {coord})")?;
        }
        Ok(())
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.write_line(f);
        }
        let Parts { op, operands, mode, condition, counterexample } = &*self.0;
        // Modes and coordinates belong to the right operand.
        let of = match operands.as_slice() {
            [] | [_] => String::new(),
            [.., last] => format!(" of {last}"),
        };
        match operands.as_slice() {
            [] => write!(f, "{op}")?,
            [Operand::Text(text)] => write!(f, "{op}: cannot read `{}`", shortened(text))?,
            [first] => write!(f, "{op} of {first} has no result")?,
            [first, rest @ ..] => {
                write!(f, "{op} of {first} with ")?;
                for (i, operand) in rest.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{operand}")?;
                }
                f.write_str(" has no result")?;
            }
        }
        let only = matches!(operands.last(), Some(Operand::Layout(last)) if last.rank() == 1);
        match (counterexample, mode.filter(|_| !only)) {
            (Some(coord), Some(mode)) => {
                write!(f, ". At coordinate {coord}{of}, in mode {mode}: {condition}.")?;
            }
            (Some(coord), None) => write!(f, ". At coordinate {coord}{of}: {condition}.")?,
            (None, Some(mode)) => write!(f, ". In mode {mode}{of}: {condition}.")?,
            (None, None) => write!(f, ": {condition}.")?,
        }
        if let Some(remedy) = condition.remedy() {
            write!(f, " {remedy}")?;
        }
        if let Some(nearest) = self.nearest() {
            write!(f, " The nearest operand that works is {nearest}.")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LayoutError {}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Layout(x) => fmt::Display::fmt(x, f),
            Operand::Composed(x) => fmt::Display::fmt(x, f),
            Operand::Tuple(x) => fmt::Display::fmt(x, f),
            Operand::Tiler(x) => fmt::Display::fmt(x, f),
            Operand::Text(x) => f.write_str(&shortened(x)),
        }
    }
}

/// User text may be long; an error shows its beginning.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(MOST).map(clean).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Condition::*;
        match self {
            NotCongruent { shape, stride } => {
                write!(f, "the shape {shape} and the stride {stride} are not congruent")
            }
            BadLeaf { leaf, value, role } if *role == "extent" && value.int().is_some() => {
                write!(f, "leaf {leaf} has the extent {value}, and an extent must be at least 1")
            }
            BadLeaf { leaf, value, role } => write!(f, "`{value}` in leaf {leaf} is not a possible {role}"),
            Overflow { leaf: Some(leaf) } => {
                write!(f, "the size or the largest offset passes 63 bits at leaf {leaf}")
            }
            Overflow { leaf: None } => write!(f, "the size or the largest offset passes 63 bits"),
            Symbolic { value } => {
                write!(f, "`{value}` is not known until launch, and the result depends on it")
            }
            NotOneTerm { left, right, sign } => write!(f, "`{left} {sign} {right}` is not a single term"),
            TooDeep { depth, most } => {
                write!(f, "nested {depth} deep, and at most {most} levels are possible")
            }
            NoSuchMode { index, rank } => write!(f, "there is no mode {index}; the rank is {rank}"),
            HoleInCoordinate => f.write_str("a `_` in the coordinate leaves a mode open"),
            DoesNotFit { what, rank, against } => {
                write!(f, "the {what} has {rank} {}, where {against} are expected", plural(*rank, "mode"))
            }
            OutOfRange { index, extent } => write!(f, "the coordinate {index} is outside 0..{extent}"),
            Parse { column, expected, actual } => {
                write!(f, "column {column}: expected {expected}, found {actual}")
            }
            RunDoesNotDivide { run, extent, stride, actual, straight } => write!(
                f,
                "steps of {stride} through the left operand are equidistant for {run} {}, and the next offset is {actual} \
                 instead of {straight}; a mode can end there only if {run} divides the extent {extent}",
                plural(*run as usize, "element"),
            ),
            Carry { mode, wraps_at, actual, sum } => write!(
                f,
                "the offset is {actual}, but strides that fit the smaller coordinates give {sum}, because \
                 mode {mode} of the left operand wraps around at index {wraps_at}"
            ),
            TooMuchWork => {
                f.write_str("whether its parts ever carry could not be decided in reasonable time")
            }
            NegativeIndex { stride } => {
                write!(
                    f,
                    "the stride {stride} leads to negative indices, where the left operand is not defined"
                )
            }
            NotInjective { coords: (a, b), offset } => {
                write!(
                    f,
                    "the layout is not injective: its coordinates {a} and {b} share the offset {offset}"
                )
            }
            TileDoesNotDivide { mode, tile, extent } => {
                write!(f, "the tile's extent {tile} does not divide {extent} in mode {mode}")
            }
            TilesOutOfBounds { mode, period, reach, extent } => write!(
                f,
                "tiles repeat every {period} {} and span {reach} of them, so the last of {extent} \
                 elements are {} of a tile in mode {mode}",
                plural(*period as usize, "element"),
                extent % period
            ),
            NoLayoutThrough { last } => write!(
                f,
                "no layout is the inverse: every nesting of 0..={last} was tried, and none \
                 has strides that do"
            ),
            Undecided { whether } => write!(f, "{whether} could not be decided in reasonable time"),
            WidthDoesNotDivide { leaf, value, by } => {
                write!(f, "{value} in leaf {leaf} cannot be divided by {by} without a remainder")
            }
            BadArgument { what, value } => write!(f, "{what}, and it is {value}"),
            NotAVector { lane, element, expected, actual } => write!(
                f,
                "lane {lane}'s element {element} is at offset {actual} instead of {expected}, so they are not contiguous"
            ),
            Misaligned { lane, address, bytes } => write!(
                f,
                "lane {lane} is at byte {address}, which is not a multiple of the {bytes} bytes that it moves"
            ),
            BadSwizzle { parts: (b, m, s), why } => write!(f, "Sw<{b},{m},{s}> is not a swizzle: {why}"),
        }
    }
}

impl Condition {
    /// The remedy.
    fn remedy(&self) -> Option<&'static str> {
        use Condition::*;
        Some(match self {
            NotCongruent { .. } => "Write one stride for every extent, in the same parentheses.",
            Symbolic { .. } => "Use an integer there, or apply the operation after binding the symbol.",
            NotOneTerm { .. } => "Give the stride a symbol of its own.",
            HoleInCoordinate => "Use `slice` to keep a mode.",
            RunDoesNotDivide { .. } => {
                "Choose an extent that is a multiple of that run, or a stride that divides the extents of the left operand."
            }
            Carry { .. } => "Choose a tile that stays inside that mode or covers it whole.",
            NegativeIndex { .. } => "Compose with positive strides and negate the result's stride.",
            NotInjective { .. } => "Give each coordinate its own offset.",
            NotAVector { .. } => {
                "Move fewer elements at once, or make the mode that a vector runs along contiguous."
            }
            Misaligned { .. } => "Move fewer bytes at once, or pad the strides to a multiple of them.",
            NoLayoutThrough { .. } => {
                "Choose strides that, sorted, are multiples of one another, each at least the span of the mode before."
            }
            TileDoesNotDivide { .. } | TilesOutOfBounds { .. } => {
                "Round the shape up to a multiple of the tile first."
            }
            _ => return None,
        })
    }
}

fn plural(n: usize, word: &str) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}
