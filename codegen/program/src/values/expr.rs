//! Functions of elements: the expression of a closure once names and calls in it are evaluated.

use tilewright_layout::Value;

use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::id::Id;
use crate::values::number::Number;
use crate::values::operation::{Bin, Cmp, Un};

/// A scalar argument of a kernel, [`Expr::Scalar`].
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar {
    /// Its name.
    pub name: String,
    /// Its type.
    pub elem: Elem,
}

/// A scalar function of elements, coordinates and arguments.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// The element of an input.
    In(u8),
    /// A literal, whose type comes from its context; see [`crate::values::typing`].
    Lit(Number),
    /// A scalar argument.
    Scalar(Id),
    /// A size known at launch, an `i32`.
    Size(Value),
    /// The coordinate of the current element in a mode of an input's tensor, an `i32`.
    Coord(u8, u8),
    /// An integer of the kernel, an `i32`: the block index, a loop variable, expressions of these and sizes.
    Index(Box<Affine>),
    /// The coordinate, in the user's tensor, of the current element along a mode of the tile that is written,
    /// an `i32`. It is derived through copies, functions and products from its origin.
    At(u8),
    /// A function of one value.
    Un(Un, Box<Expr>),
    /// A function of two values.
    Bin(Bin, Box<Expr>, Box<Expr>),
    /// `a * b + c`, rounded once.
    Fma(Box<[Expr; 3]>),
    /// A comparison, which is true or false.
    Cmp(Cmp, Box<Expr>, Box<Expr>),
    /// Select: the second where the first is true or not 0, elsewhere the third.
    Pick(Box<[Expr; 3]>),
    /// Converted: numbers as Rust's `as` does, true to 1 and false to 0. A literal gets this type.
    Cast(Elem, Box<Expr>),
    /// The bits of an element of 4 bytes, as another type of 4 bytes.
    Bits(Elem, Box<Expr>),
    /// Instructions of PTX as a function of numbers: `%0` in the text is the result, `%1` and on are the operands.
    Ptx {
        /// The instructions.
        text: String,
        /// The type of the result.
        elem: Elem,
        /// May two executions with the same operands differ?
        volatile: bool,
        /// The operands, each with its own type.
        args: Vec<Expr>,
        /// The same as a function of the operands, for the simulator.
        model: Option<Box<Expr>>,
    },
}

impl From<Bin> for Expr {
    /// The operation of the first two inputs.
    fn from(with: Bin) -> Expr {
        Expr::Bin(with, Box::new(Expr::In(0)), Box::new(Expr::In(1)))
    }
}

impl Expr {
    /// The condition on scalar arguments alone without which an input is not read, if there is one.
    pub fn read_where(&self, input: u8) -> Option<&Expr> {
        match self {
            Expr::Cast(_, of) => of.read_where(input),
            Expr::Pick(of) => {
                let [test, then, other] = &**of;
                let varies = |part: &Expr| {
                    matches!(part, Expr::In(_) | Expr::Coord(..) | Expr::At(_) | Expr::Index(_))
                };
                (then.reads(input) && !other.reads(input) && !test.any(&varies)).then_some(test)
            }
            _ => None,
        }
    }

    /// A literal.
    ///
    /// ```
    /// use tilewright_program::{number::Number, values::expr::Expr};
    /// assert_eq!(Expr::lit(-1), Expr::Lit(Number::Int(-1)));
    /// ```
    pub fn lit(number: impl Into<Number>) -> Expr {
        Expr::Lit(number.into())
    }

    /// Converted to a type.
    ///
    /// ```
    /// use tilewright_program::{Elem, values::expr::Expr};
    /// assert_eq!(Expr::In(0).cast(Elem::F32), Expr::Cast(Elem::F32, Box::new(Expr::In(0))));
    /// ```
    pub fn cast(self, to: Elem) -> Expr {
        Expr::Cast(to, Box::new(self))
    }

    /// The operation, if a reduction by these functions of two tuples is one operation of two elements.
    ///
    /// ```
    /// use tilewright_program::{thread::Bin, values::expr::Expr};
    /// assert_eq!(Expr::operation(&[Bin::Max.into()]), Some(Bin::Max));
    /// assert_eq!(Expr::operation(&[Expr::In(0)]), None);
    /// ```
    pub fn operation(functions: &[Expr]) -> Option<Bin> {
        let [Expr::Bin(with, x, y)] = functions else { return None };
        matches!((&**x, &**y), (Expr::In(0), Expr::In(1)) | (Expr::In(1), Expr::In(0))).then_some(*with)
    }

    /// Its direct subexpressions.
    ///
    /// ```
    /// use tilewright_program::{Elem, values::expr::Expr};
    /// assert_eq!(Expr::In(0).cast(Elem::F32).parts(), [&Expr::In(0)]);
    /// assert!(Expr::In(0).parts().is_empty());
    /// ```
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::In(_)
            | Expr::Lit(_)
            | Expr::Scalar(_)
            | Expr::Size(_)
            | Expr::Coord(..)
            | Expr::At(_)
            | Expr::Index(_) => Vec::new(),
            Expr::Un(_, x) | Expr::Cast(_, x) | Expr::Bits(_, x) => vec![x],
            Expr::Bin(_, x, y) | Expr::Cmp(_, x, y) => vec![x, y],
            Expr::Fma(all) | Expr::Pick(all) => all.iter().collect(),
            Expr::Ptx { args, model, .. } => args.iter().chain(model.as_deref()).collect(),
        }
    }

    /// The same with every leaf replaced.
    ///
    /// ```
    /// use tilewright_program::{Elem, values::expr::Expr};
    /// let one = |_: &Expr| Expr::lit(1);
    /// assert_eq!(Expr::In(0).cast(Elem::F32).leaves(&one), Expr::lit(1).cast(Elem::F32));
    /// ```
    pub fn leaves(&self, of: &dyn Fn(&Expr) -> Expr) -> Expr {
        let inner = |x: &Expr| Box::new(x.leaves(of));
        match self {
            Expr::Un(f, x) => Expr::Un(*f, inner(x)),
            Expr::Bin(f, x, y) => Expr::Bin(*f, inner(x), inner(y)),
            Expr::Cmp(f, x, y) => Expr::Cmp(*f, inner(x), inner(y)),
            Expr::Fma(all) => Expr::Fma(Box::new(all.each_ref().map(|x| x.leaves(of)))),
            Expr::Pick(all) => Expr::Pick(Box::new(all.each_ref().map(|x| x.leaves(of)))),
            Expr::Cast(elem, x) => Expr::Cast(*elem, inner(x)),
            Expr::Bits(elem, x) => Expr::Bits(*elem, inner(x)),
            Expr::Ptx { text, elem, volatile, args, model } => Expr::Ptx {
                text: text.clone(),
                elem: *elem,
                volatile: *volatile,
                args: args.iter().map(|x| x.leaves(of)).collect(),
                model: model.as_deref().map(inner),
            },
            leaf => of(leaf),
        }
    }

    /// Two operands of a comparison as integers of the kernel, if both are integers or literals and one is no literal. They
    /// are compared exactly, also if they do not fit an `i32`.
    pub fn compared(x: &Expr, y: &Expr) -> Option<[Affine; 2]> {
        let of = |expr: &Expr| match expr {
            Expr::Index(at) => Some((**at).clone()),
            Expr::Cast(Elem::I32, inner) => match **inner {
                Expr::Lit(number) => i64::try_from(number.int()?).ok().map(Affine::from),
                _ => None,
            },
            _ => None,
        };
        let both = [of(x)?, of(y)?];
        [x, y].into_iter().any(|expr| matches!(expr, Expr::Index(_))).then_some(both)
    }

    /// The integers of the kernel in it.
    ///
    /// ```
    /// use tilewright_program::{Elem, affine::{Affine, Coord}, values::expr::Expr};
    /// let block = Affine::from(Coord::Block(0));
    /// let of = Expr::Index(Box::new(block.clone())).cast(Elem::F32);
    /// assert_eq!(of.integers(), [&block]);
    /// ```
    pub fn integers(&self) -> Vec<&Affine> {
        let mut result = Vec::new();
        // Without recursion: it may nest deeper than any stack allows.
        let mut left = vec![self];
        while let Some(expr) = left.pop() {
            if let Expr::Index(at) = expr {
                result.push(&**at);
            }
            left.extend(expr.parts());
        }
        result
    }

    /// The same, mutably.
    pub fn each_integer_mut(&mut self, f: &mut dyn FnMut(&mut Affine)) {
        match self {
            Expr::Index(at) => f(at),
            Expr::In(_) | Expr::Lit(_) | Expr::Scalar(_) | Expr::Size(_) | Expr::Coord(..) | Expr::At(_) => {}
            Expr::Un(_, x) | Expr::Cast(_, x) | Expr::Bits(_, x) => x.each_integer_mut(f),
            Expr::Bin(_, x, y) | Expr::Cmp(_, x, y) => {
                x.each_integer_mut(f);
                y.each_integer_mut(f);
            }
            Expr::Fma(all) | Expr::Pick(all) => all.iter_mut().for_each(|x| x.each_integer_mut(f)),
            Expr::Ptx { args, model, .. } => {
                args.iter_mut().chain(model.as_deref_mut()).for_each(|x| x.each_integer_mut(f));
            }
        }
    }

    /// The same function with another expression substituted for its first input.
    pub fn with(&self, first: &Expr) -> Expr {
        self.leaves(&|leaf| if *leaf == Expr::In(0) { first.clone() } else { leaf.clone() })
    }

    /// Is the test true for it or any of its subexpressions?
    ///
    /// ```
    /// use tilewright_program::{Elem, values::expr::Expr};
    /// assert!(Expr::In(1).cast(Elem::F32).any(&|part| *part == Expr::In(1)));
    /// ```
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        test(self) || self.parts().into_iter().any(|part| part.any(test))
    }

    /// Does it read this input?
    ///
    /// ```
    /// use tilewright_program::{Elem, values::expr::Expr};
    /// assert!(Expr::In(1).cast(Elem::F32).reads(1) && !Expr::In(1).reads(0));
    /// ```
    pub fn reads(&self, input: u8) -> bool {
        self.any(&|part| *part == Expr::In(input))
    }
}
