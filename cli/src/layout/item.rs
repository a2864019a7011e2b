//! Kinds of operands and results, and how each is parsed and printed.

use std::fmt;
use tilewright_layout::{
    Composed, Layout, LayoutError, Obligation, Reader, Swizzle, TiledCopy, Tiler, Tuple, Value,
};

/// The kind of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A layout, swizzled or not.
    Layout,
    /// Any number of layouts.
    Layouts,
    /// A layout, a shape, or `<…>`.
    Tiler,
    /// A shape, a coordinate, a pattern.
    Tuple,
    /// Any number of tuples.
    Tuples,
    /// An integer.
    Number,
    /// An integer or a symbol.
    Value,
}

impl Kind {
    /// Its word in help and errors.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Kind::Layout => "layout",
            Kind::Layouts => "layout…",
            Kind::Tiler => "tiler",
            Kind::Tuple => "tuple",
            Kind::Tuples => "tuple…",
            Kind::Number => "number",
            Kind::Value => "size",
        }
    }

    /// Parses an operand that is not a call, reusing an earlier item.
    pub(crate) fn read_into(self, reader: &mut Reader<'_>, item: &mut Item) -> Result<(), LayoutError> {
        match (self, &mut *item) {
            (Kind::Layout, Item::Layout(index)) => reader.composed_into(index),
            (Kind::Tiler, Item::Tiler(index)) => reader.tiler_into(index),
            _ => {
                *item = self.read(reader)?;
                Ok(())
            }
        }
    }

    /// Parses an operand that is not a call.
    pub(crate) fn read(self, reader: &mut Reader<'_>) -> Result<Item, LayoutError> {
        Ok(match self {
            Kind::Layout | Kind::Layouts => Item::Layout(reader.composed()?),
            Kind::Tiler => Item::Tiler(reader.tiler()?),
            Kind::Tuple | Kind::Tuples => Item::Tuple(reader.tuple()?),
            Kind::Number => {
                let negative = reader.take(b'-');
                Item::Number(reader.number(negative)?)
            }
            Kind::Value => match reader.tuple()?.as_leaf() {
                Some(value) => Item::Value(value),
                None => return Err(reader.expected("a number or a name before this")),
            },
        })
    }

    /// Converts an item to this kind, where that has a meaning.
    pub(crate) fn from(self, item: Item) -> Result<Item, Failure> {
        Ok(match (self, item) {
            (Kind::Layout | Kind::Layouts, Item::Layout(x)) => Item::Layout(x),
            (Kind::Layout | Kind::Layouts, Item::Part { layout, offset: Value::Int(0), .. }) => {
                Item::Layout(layout)
            }
            (Kind::Layout | Kind::Layouts, Item::Part { layout, offset: Value::Int(by), .. })
                if layout.as_layout().is_some() =>
            {
                Item::Layout(Composed::new(Swizzle::IDENTITY, by, layout.layout().clone()))
            }
            (Kind::Layout | Kind::Layouts, Item::Tuple(shape)) => {
                Item::Layout(Layout::compact(shape)?.into())
            }
            (Kind::Layout | Kind::Layouts, Item::Copy(copy)) => Item::Layout(copy.tv().into()),
            (Kind::Tiler, Item::Layout(x)) if x.as_layout().is_some() => Item::Tiler(x.layout().into()),
            (Kind::Tiler, Item::Tuple(shape)) => Item::Tiler(shape.into()),
            (Kind::Tiler, Item::Number(n)) => Item::Tiler(n.into()),
            (Kind::Tuple | Kind::Tuples, Item::Tuple(x)) => Item::Tuple(x),
            (Kind::Tuple | Kind::Tuples, Item::Number(n)) => Item::Tuple(n.into()),
            (Kind::Number, Item::Number(n)) => Item::Number(n),
            (Kind::Value, Item::Number(n)) => Item::Value(n.into()),
            (Kind::Value, Item::Value(x)) => Item::Value(x),
            (kind, item) => {
                return Err(Failure::Text(format!(
                    "expected a {}, and `{item}` is {}",
                    kind.word(),
                    item.noun()
                )));
            }
        })
    }
}

impl From<Composed> for Item {
    fn from(layout: Composed) -> Item {
        Item::Layout(layout)
    }
}

impl From<Layout> for Item {
    fn from(layout: Layout) -> Item {
        Item::Layout(layout.into())
    }
}

impl From<Tuple> for Item {
    fn from(tuple: Tuple) -> Item {
        Item::Tuple(tuple)
    }
}

impl From<Value> for Item {
    fn from(value: Value) -> Item {
        Item::Value(value)
    }
}

impl From<i64> for Item {
    fn from(n: i64) -> Item {
        Item::Number(n)
    }
}

impl From<usize> for Item {
    fn from(n: usize) -> Item {
        Item::Value(i64::try_from(n).unwrap_or(i64::MAX).into())
    }
}

impl From<bool> for Item {
    fn from(truth: bool) -> Item {
        Item::Text(truth.to_string())
    }
}

impl From<TiledCopy> for Item {
    fn from(copy: TiledCopy) -> Item {
        Item::Copy(copy)
    }
}

impl From<(Layout, Value)> for Item {
    fn from((layout, offset): (Layout, Value)) -> Item {
        Item::Part { layout: layout.into(), offset, needs: Vec::new() }
    }
}

impl From<(Layout, Vec<Obligation>)> for Item {
    fn from((layout, needs): (Layout, Vec<Obligation>)) -> Item {
        Item::Part { layout: layout.into(), offset: Value::Int(0), needs }
    }
}

/// An operand or a result.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // nearly every item is a layout
pub(crate) enum Item {
    Layout(Composed),
    /// A layout with an offset, or one that depends on conditions at launch.
    Part {
        layout: Composed,
        offset: Value,
        needs: Vec<Obligation>,
    },
    Copy(TiledCopy),
    Tiler(Tiler),
    Tuple(Tuple),
    Number(i64),
    Value(Value),
    /// A value without further operations.
    Text(String),
}

impl Item {
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Item::Layout(_) | Item::Part { .. } => "a layout",
            Item::Copy(_) => "a tiled copy",
            Item::Tiler(_) => "a tiler",
            Item::Tuple(_) => "a tuple",
            Item::Number(_) | Item::Value(_) => "a number",
            Item::Text(_) => "text",
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Layout(x) => x.fmt(f),
            Item::Part { layout, offset, needs } => {
                layout.fmt(f)?;
                if !offset.is_zero() {
                    write!(f, " + {offset}")?;
                }
                for (i, need) in needs.iter().enumerate() {
                    write!(f, " {} {need}", if i == 0 { "if" } else { "and" })?;
                }
                Ok(())
            }
            Item::Copy(copy) => write!(f, "{} into a tile {}", copy.tv(), copy.tile()),
            Item::Tiler(x) => x.fmt(f),
            Item::Tuple(x) => x.fmt(f),
            Item::Number(x) => x.fmt(f),
            Item::Value(x) => x.fmt(f),
            Item::Text(x) => f.write_str(x),
        }
    }
}

/// Why there is no result. The alternate form (`{:#}`) is one line.
pub(crate) enum Failure {
    Layout(LayoutError),
    Text(String),
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Failure {
        Failure::Layout(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Layout(error) => error.fmt(f), // hands on the alternate form
            Failure::Text(text) => f.write_str(text),
        }
    }
}
