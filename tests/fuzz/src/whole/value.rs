//! Values of a kernel's text: integers, numbers, tiles as tables of elements, positions in memory.

use std::cell::OnceCell;
use std::rc::Rc;

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Expr, Pattern};
use tilewright_layout::Layout;

use super::{Buffer, Num};

/// Is an element an out-of-bounds fill?
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OutOfBounds {
    No,
    Yes,
    /// That depends on what the generator knew.
    Perhaps,
}

/// An element.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) num: Num,
    pub(super) out_of_bounds: OutOfBounds,
    /// Its coordinates along each mode; `None` if all are coordinates within its own tile.
    pub(super) at: At,
    /// Was it written only by statements that do not run?
    pub(super) supposed: bool,
    /// The coordinates in an argument that are out of bounds, if it was loaded there.
    pub(super) outside: Outside,
    /// The same for the first term, if it is an accumulator that was only filled before.
    pub(super) taken: Outside,
    /// Was it only filled?
    pub(super) filled: bool,
}

/// For each mode of an argument a coordinate out of bounds, if it is.
pub(super) type Outside = Option<Rc<[Option<i128>]>>;

/// A coordinate of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Along {
    /// The coordinate in its own tile, which was only filled.
    Own,
    /// That in an argument, and whether it is in bounds there.
    In(i128, bool),
    /// Unspecified.
    Unclear,
    /// It differs among the elements that a function has combined; the coordinate of the first.
    Mixed(i128, bool),
}

pub(super) type At = Option<Rc<[Along]>>;

impl Cell {
    pub(super) fn of(num: Num) -> Cell {
        Cell {
            num,
            out_of_bounds: OutOfBounds::No,
            at: None,
            supposed: false,
            outside: None,
            taken: None,
            filled: false,
        }
    }
}

impl Cell {
    /// Is it, or may it be, a fill?
    pub(super) fn is_outside(&self) -> bool {
        self.out_of_bounds != OutOfBounds::No
    }

    /// Whether it counts as out of bounds is unspecified.
    pub(super) fn unclear(num: Num) -> Cell {
        Cell { out_of_bounds: OutOfBounds::Perhaps, ..Cell::of(num) }
    }
}

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    Elem(Elem),
    /// A literal, which takes the type of the other operand.
    Literal,
    /// An integer of the kernel as `u32`: among elements an `i32` or a `u32`, as the other operand.
    Whole,
    Condition,
}

impl Type {
    /// Of elements in memory: a `bool` is a condition.
    pub(super) fn of(elem: Elem) -> Type {
        if elem == Elem::Bool { Type::Condition } else { Type::Elem(elem) }
    }

    /// The type in which it is stored, if it has one by itself.
    pub(super) fn stored(self) -> Option<Elem> {
        if self == Type::Condition { Some(Elem::Bool) } else { self.elem() }
    }

    pub(super) fn elem(self) -> Option<Elem> {
        match self {
            Type::Elem(elem) => Some(elem),
            Type::Whole => Some(Elem::I32),
            Type::Literal | Type::Condition => None,
        }
    }
}

/// Elements, the leftmost mode running fastest; a number has no modes.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    pub(super) sizes: Vec<i64>,
    pub(super) ty: Type,
    pub(super) cells: Vec<Cell>,
    /// Is it a number that depends on no element: an argument, or arithmetic on such?
    pub(super) argument: bool,
}

impl Elements {
    pub(super) fn number(ty: Type, num: Num) -> Elements {
        Elements { sizes: Vec::new(), ty, cells: vec![Cell::of(num)], argument: false }
    }

    pub(super) fn argument(ty: Type, num: Num) -> Elements {
        Elements { argument: true, ..Elements::number(ty, num) }
    }
}

/// Where a view's elements are.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// The position in the store; `None` out of bounds.
    pub(super) position: Option<usize>,
    /// Coordinates in the tensor.
    pub(super) at: Rc<[i128]>,
}

/// A function of coordinates.
pub(super) type SpotOf = dyn Fn(&[i128]) -> Spot;

/// The spots of a view: a function of coordinates, also out of bounds, and a table that is made when all are needed.
pub(super) struct Spots {
    pub(super) of: Box<SpotOf>,
    pub(super) all: OnceCell<Vec<Spot>>,
}

/// Positions in a store.
#[derive(Clone)]
pub(super) struct View {
    pub(super) store: usize,
    pub(super) elem: Elem,
    pub(super) sizes: Vec<i64>,
    pub(super) spots: Rc<Spots>,
    /// Extents of the store.
    pub(super) extents: Rc<[i64]>,
    /// The mode of the store that each mode runs along; `None` if there is none.
    pub(super) modes: Vec<Option<usize>>,
    /// Is it all of the store, as it is?
    pub(super) whole: bool,
}

impl View {
    pub(super) fn is_one(&self) -> bool {
        self.sizes.iter().product::<i64>() == 1
    }
}

/// Memory.
pub(super) enum Store {
    Global(Buffer),
    Shared(Vec<Option<Cell>>),
    Registers(Vec<Option<Cell>>),
}

impl Store {
    /// Its elements, if blocks or threads have it for themselves.
    pub(super) fn cells(&self) -> Option<&Vec<Option<Cell>>> {
        match self {
            Store::Global(_) => None,
            Store::Shared(cells) | Store::Registers(cells) => Some(cells),
        }
    }

    /// The same, to change them.
    pub(super) fn cells_mut(&mut self) -> Option<&mut Vec<Option<Cell>>> {
        match self {
            Store::Global(_) => None,
            Store::Shared(cells) | Store::Registers(cells) => Some(cells),
        }
    }
}

/// A value.
#[derive(Clone)]
pub(super) enum Value<'k> {
    Int(i128),
    Float(f64),
    /// An integer of the kernel: a loop variable, a size, a coordinate of the block.
    Integer(i128),
    Elements(Elements),
    View(View),
    Tuple(Vec<Value<'k>>),
    Range(i128, i128),
    Bool(bool),
    Text(&'k str),
    Type(Elem),
    Layout(Rc<Layout>),
    /// A function with a name: its parameters and its body.
    Closure(&'k [Pattern], &'k Expr),
    /// A coordinate along a mode about which operands disagree: it may not be read.
    MixedCoordinates,
    Hole,
    Unit,
}

impl Value<'_> {
    pub(super) fn scalar(elem: Elem, value: f64) -> Value<'static> {
        Value::Elements(Elements::argument(Type::of(elem), Num::exact(value)))
    }

    pub(super) fn int(&self) -> Option<i128> {
        match self {
            Value::Int(n) | Value::Integer(n) => Some(*n),
            Value::Elements(of) if of.cells.len() == 1 => {
                let num = of.cells[0].num;
                num.int()
            }
            _ => None,
        }
    }
}

/// The coordinates of an element, the leftmost mode fastest.
pub(crate) fn digits(sizes: &[i64], mut at: i64) -> Vec<i64> {
    let coordinate = |size: &i64| {
        let coordinate = at % size;
        at /= size;
        coordinate
    };
    sizes.iter().map(coordinate).collect()
}

/// The position of coordinates; coordinates along modes of extent 1 do not count.
pub(crate) fn linear(sizes: &[i64], at: &[i64]) -> usize {
    let mut position = 0;
    for (size, at) in sizes.iter().zip(at).rev() {
        position = position * size + if *size == 1 { 0 } else { *at };
    }
    position as usize
}
