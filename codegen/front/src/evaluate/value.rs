//! Values of a kernel's expressions while it is compiled.

use std::sync::Arc;

use tilewright_layout::{ALL, Composed, Layout, Tiler, Tuple, Value as Size};

use super::elementwise::Elements;
use super::{Home, integer};
use crate::build::tiled::Terms;
use crate::isa::atom::Atom;
use crate::source::ast::{Expr, Pattern, Span};
use crate::source::problem::Problem;
use crate::tile;
use crate::tile::view::{At, View};
use crate::values::affine::Affine;
use crate::values::condition::Test;
use crate::values::elem::Elem;
use crate::values::limits;
use crate::values::number::Number;
use crate::values::semiring::Semiring;
use crate::values::typing::{Scalar, Type};

/// A closure that the text bound to a name or passes on.
#[derive(Debug)]
pub(super) struct Closure {
    pub(super) params: Vec<Pattern>,
    pub(super) body: Expr,
    /// Its captured names.
    pub(super) scope: Vec<(String, Value)>,
    /// The text that it is written in.
    pub(super) home: Arc<Home>,
}

/// A value, and the span of its expression.
pub(super) struct Spanned {
    pub(super) value: Value,
    pub(super) span: Span,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// The unit value of a statement.
    Unit,
    /// An expression with a reported error: its uses report no further errors.
    Poison,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    /// `_`
    Hole,
    Tuple(Vec<Value>),
    Layout(Composed),
    View(View),
    /// A coordinate: of the block, the thread, a loop.
    Index(Affine),
    /// A size known at launch.
    Size(Size),
    /// A condition on integers, decided at run time.
    Test(Test),
    Range(Box<Value>, Box<Value>),
    /// A number of the kernel: a scalar argument, or arithmetic with elements inside a closure.
    Number(Scalar),
    /// Arithmetic on tiles that is not computed yet.
    Elements(Box<Elements>),
    /// An element type, where a call takes one by name.
    Elem(Elem),
    /// The operations of a product, where a call takes them by name.
    Semiring(Semiring),
    Closure(Arc<Closure>),
    /// `block`, `thread`: names with fields.
    Special(&'static str),
    /// A matrix instruction and its arrangement of warps.
    Mma(Mma),
}

/// The value of `tiled_mma`.
#[derive(Clone, Debug)]
pub(super) struct Mma {
    /// The instruction.
    pub(super) row: &'static Atom,
    /// How the warps are arranged over (M, N) or (M, N, K), or how many there are.
    pub(super) warps: Warps,
    /// The terms of an operand's elements.
    pub(super) terms: Terms,
}

/// The warps of a [`Mma`].
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub(super) enum Warps {
    /// This number of warps, arranged to suit a tile.
    Count(i64),
    /// This number of groups that issue asynchronous instructions, which depend on the tile too.
    Asynchronous(i64),
    /// This arrangement.
    Arranged(Layout),
}

impl Value {
    /// The value of an expression with this span.
    pub(super) fn spanned(self, span: Span) -> Spanned {
        Spanned { value: self, span }
    }

    /// The values of a tuple, nested ones included; a value alone.
    pub(super) fn items(&self) -> Vec<&Value> {
        match self {
            Value::Tuple(all) => all.iter().flat_map(Value::items).collect(),
            value => vec![value],
        }
    }

    /// The same tuple of other values; or the value for a value alone.
    pub(super) fn with_items(&self, items: &mut impl Iterator<Item = Value>) -> Value {
        match self {
            Value::Tuple(all) => Value::Tuple(all.iter().map(|value| value.with_items(items)).collect()),
            _ => items.next().unwrap_or(Value::Poison),
        }
    }

    /// Does it have elements of the tensor of this view?
    pub(super) fn has_elements_of(&self, view: &View) -> bool {
        self.items().into_iter().any(|item| matches!(item, Value::View(own) if own.tensor == view.tensor))
    }

    /// Its kind, in the words of a message.
    pub(super) fn kind(&self) -> String {
        match self {
            Value::Unit => "nothing".into(),
            Value::Poison => "an expression with an error".into(),
            Value::Int(n) => format!("the integer {n}"),
            Value::Float(x) => format!("the number {x:?}"),
            Value::Bool(b) => format!("`{b}`"),
            Value::Text(text) => format!("the text {text:?}"),
            Value::Hole => "`_`".into(),
            Value::Tuple(_) if self.is_optional() => {
                "an optional argument, or a list of at most one tensor".into()
            }
            Value::Tuple(_) => match self.tuple() {
                Some(tuple) => format!("the tuple {tuple}"),
                None if self.is_coordinates() => "the coordinates of an element".into(),
                None => "a tuple".into(),
            },
            Value::Layout(layout) => format!("the layout {layout}"),
            Value::View(view) => format!("the tensor `{}`, {}", view.name, view.shape()),
            Value::Index(_) => "a coordinate".into(),
            Value::Test(_) => "a condition".into(),
            Value::Size(size) => format!("the size `{size}`, known at launch"),
            Value::Range(..) => "a range".into(),
            Value::Number(Scalar { ty: Some(Type::Condition), .. }) => "a condition".into(),
            Value::Number(Scalar { ty: Some(ty), .. }) => format!("a number of type {ty}"),
            Value::Number(_) => "a number".into(),
            Value::Elements(of) if of.number.ty == Some(Type::Condition) => {
                "a condition on elements of tiles".into()
            }
            Value::Elements(_) => "arithmetic on tiles".into(),
            Value::Elem(elem) => format!("the type `{elem}`"),
            Value::Semiring(_) => "two operations".into(),
            Value::Closure(..) => "a closure".into(),
            Value::Special(name) => format!("`{name}`"),
            Value::Mma(mma) => format!("the matrix instruction `{}`", mma.row.name),
        }
    }

    /// The number of values in it that are not tuples.
    pub(super) fn leaves(&self) -> usize {
        match self {
            Value::Tuple(items) => items.iter().map(Value::leaves).fold(0, usize::saturating_add),
            _ => 1,
        }
    }

    /// Whether it is an argument that may be left out, or another list of at most one tensor.
    pub(super) fn is_optional(&self) -> bool {
        matches!(self, Value::Tuple(items) if matches!(items[..], [] | [Value::View(_)]))
    }

    /// Are they the coordinates of an element, which a closure has as its last parameter?
    pub(super) fn is_coordinates(&self) -> bool {
        let is_coordinate =
            |value: &Value| matches!(value, Value::Number(Scalar { expr: tile::Expr::At(_), .. }));
        matches!(self, Value::Tuple(items) if !items.is_empty() && items.iter().all(is_coordinate))
    }

    /// The number of its parts; a refusal if they are too many. Nested values grow exponentially: `let b =
    /// (a, a); let c = (b, b);`.
    pub(super) fn parts(&self) -> Result<u64, Problem> {
        let count = match self {
            Value::Number(number) => return limits::function(&number.expr),
            Value::Elements(of) => return limits::function(&of.number.expr),
            Value::Tuple(items) => {
                let cost = items.iter().map(Value::parts).sum::<Result<u64, Problem>>()?;
                // Functions of elements have a separate limit.
                match self.entries() <= limits::MOST_PARTS {
                    true => return Ok(cost.max(1)),
                    false => cost as usize,
                }
            }
            Value::Layout(layout) => {
                limits::layout(layout.layout())?;
                layout.layout().leaves().count()
            }
            Value::View(view) => view.within_limits()?,
            Value::Size(size) => limits::coordinate(&(*size).into())?,
            Value::Index(index) => limits::coordinate(index)?,
            Value::Test(test) => {
                test.integers().into_iter().map(limits::coordinate).sum::<Result<usize, _>>()?
            }
            _ => 1,
        };
        match count <= limits::MOST_PARTS {
            true => Ok(count.max(1) as u64),
            false => Err(Problem::new(format!(
                "this has {count} parts, and {} is the limit: modes of a layout, entries of a tuple",
                limits::MOST_PARTS
            ))),
        }
    }

    /// How many parts a value has, where a function of elements is one.
    fn entries(&self) -> usize {
        match self {
            Value::Tuple(items) => items.iter().map(Value::entries).fold(0, usize::saturating_add),
            Value::Number(_) | Value::Elements(_) => 1,
            other => other.parts().map_or(usize::MAX, |parts| parts as usize),
        }
    }

    /// As a shape, stride or projection.
    pub(super) fn tuple(&self) -> Option<Tuple> {
        match self {
            Value::Int(n) => Some((*n).into()),
            Value::Size(size) => Some((*size).into()),
            Value::Hole => Some(ALL.into()),
            Value::Tuple(items) => {
                Some(Tuple::of(items.iter().map(Value::tuple).collect::<Option<Vec<_>>>()?))
            }
            _ => None,
        }
    }

    /// As a tiler: a layout, a shape, or a tuple of tilers.
    pub(super) fn tiler(&self) -> Option<Tiler> {
        match self {
            Value::Layout(layout) => layout.as_layout().map(Tiler::from),
            Value::Tuple(items) => Some(Tiler::Modes(items.iter().map(Value::tiler).collect::<Option<_>>()?)),
            _ => self.tuple().map(Tiler::from),
        }
    }

    /// As a coordinate.
    pub(super) fn at(&self) -> Option<At> {
        match self {
            Value::Hole => Some(At::All),
            Value::Int(n) => Some(At::Index((*n).into())),
            Value::Index(index) => Some(At::Index(index.clone())),
            Value::Size(size) => Some(At::Index((*size).into())),
            Value::Tuple(items) => Some(At::Tuple(items.iter().map(Value::at).collect::<Option<_>>()?)),
            _ => None,
        }
    }

    /// As coordinates of all modes: a tuple's, or one alone.
    pub(super) fn ats(&self) -> Option<Vec<At>> {
        match self.at()? {
            At::Tuple(all) => Some(all),
            one => Some(vec![one]),
        }
    }

    /// As a layout without a swizzle.
    pub(super) fn layout(&self) -> Option<Layout> {
        match self {
            Value::Layout(layout) => layout.as_layout().cloned(),
            _ => None,
        }
    }

    /// The literal that it is.
    pub(super) fn literal(&self) -> Option<Number> {
        match self {
            Value::Int(n) => Some(Number::from(*n)),
            Value::Float(x) => Some(Number::from(*x)),
            Value::Bool(known) => Some(Number::from(i32::from(*known))),
            Value::Number(number) => number.literal_number().filter(|_| number.ty.is_none()),
            _ => None,
        }
    }

    /// As a number of the kernel, sizes included: under `as` or in a closure.
    pub(super) fn as_number(&self) -> Option<Scalar> {
        match self {
            Value::Size(size) => Some(Scalar::new(tile::Expr::Size(*size), Elem::I32)),
            other => other.number(),
        }
    }

    /// As a number of the kernel.
    pub(super) fn number(&self) -> Option<Scalar> {
        match self {
            Value::Int(n) => Some(Scalar::literal(*n)),
            Value::Float(x) => Some(Scalar::literal(*x)),
            Value::Number(scalar) => Some(scalar.clone()),
            Value::Index(at) => Some(Scalar::new(tile::Expr::Index(Box::new(at.clone())), Elem::I32)),
            Value::Test(test) => Some(integer::as_number(test)),
            Value::Bool(known) => {
                Some(Scalar::new(tile::Expr::lit(i32::from(*known)).cast(Elem::Bool), Elem::Bool))
            }
            _ => None,
        }
    }
}

impl From<Tuple> for Value {
    fn from(tuple: Tuple) -> Value {
        match tuple.as_leaf() {
            Some(Size::Int(n)) => Value::Int(n),
            Some(size) => Value::Size(size),
            None => Value::Tuple(tuple.modes().map(Value::from).collect()),
        }
    }
}
