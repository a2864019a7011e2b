//! Functions of elements.

use tilewright_codegen::Elem;
use tilewright_codegen::thread::{Bin, Un};
use tilewright_codegen::tile::Expr;

use super::order::Setting;
use super::{Cluster, Num, Result, Undefined};

/// The inputs of a function: for each its type and element, and the coordinates.
pub(super) struct Operands<'s> {
    pub(super) ins: Vec<(Elem, Option<Num>, Vec<i128>)>,
    /// The context of the statement, and the thread.
    at: &'s Setting,
    thread: i64,
}

impl<'s> Operands<'s> {
    pub(super) fn none(at: &'s Setting, thread: i64) -> Operands<'s> {
        Operands { ins: Vec::new(), at, thread }
    }
}

impl Cluster<'_> {
    /// A function's value as an element of a type.
    pub(super) fn element(&self, of: &Expr, given: &Operands<'_>, to: Elem) -> Result<Num> {
        let own = self.own_type(of, given);
        Ok(self.function(of, given, own.unwrap_or(to))?.cast(own.unwrap_or(to), to))
    }

    /// The value of a condition.
    pub(super) fn condition(&self, of: &Expr, given: &Operands<'_>) -> Result<Num> {
        let own = self.own_type(of, given);
        self.function(of, given, own.unwrap_or(Elem::F32))
    }

    /// A function's value. Expressions of literals alone have the given type.
    fn function(&self, of: &Expr, given: &Operands<'_>, elem: Elem) -> Result<Num> {
        let inner = |e: &Expr| self.function(e, given, elem);
        Ok(match of {
            Expr::In(n) => {
                let (_, num, _) = &given.ins[usize::from(*n)];
                num.ok_or_else(|| Undefined("an element is read before it is written".into()))?
            }
            Expr::Lit(x) => Num::literal(*x, elem),
            Expr::Scalar(id) => Num::exact(self.scalars[*id as usize]),
            Expr::Size(size) => {
                let known = |symbol| self.symbols.iter().find(|(of, _)| *of == symbol).map(|(_, n)| *n);
                let n = size.evaluate(&known).ok_or_else(|| Undefined(format!("{size} is unknown")))?;
                Num::integer(n.into(), Elem::I32)
            }
            Expr::At(_) => return Err(Undefined("coordinates of elements are not supported".into())),
            Expr::Coord(n, mode) => {
                let (_, _, coordinates) = &given.ins[usize::from(*n)];
                Num::integer(coordinates[usize::from(*mode)], Elem::I32)
            }
            Expr::Index(at) => Num::integer(self.affine(at, given.at, given.thread)?, Elem::I32),
            Expr::Un(Un::Not, x) if self.own_type(x, given).is_none() => {
                Num::pick(self.condition(x, given)?, Num::exact(0.0), Num::exact(1.0))
            }
            Expr::Un(f, x) => Num::un(*f, inner(x)?, elem),
            Expr::Bin(f, x, y) => Num::bin(*f, inner(x)?, inner(y)?, elem),
            Expr::Ptx { model, .. } => match model {
                Some(model) => inner(model)?,
                None => return Err(Undefined("instructions without a model".into())),
            },
            Expr::Fma(x) => Num::fma(inner(&x[0])?, inner(&x[1])?, inner(&x[2])?, elem),
            Expr::Cmp(f, x, y) => {
                let own = self.own_type(x, given).or(self.own_type(y, given)).unwrap_or(Elem::F32);
                Num::cmp(*f, self.function(x, given, own)?, self.function(y, given, own)?)
            }
            Expr::Pick(x) => Num::pick(self.condition(&x[0], given)?, inner(&x[1])?, inner(&x[2])?),
            Expr::Bits(to, x) => {
                let own = self.own_type(x, given).unwrap_or(*to);
                self.function(x, given, own)?.bits(own, *to)
            }
            Expr::Cast(to, x) => match (self.own_type(x, given), &**x) {
                (Some(own), x) => self.function(x, given, own)?.cast(own, *to),
                // True is 1 and false 0; a literal is of the type itself.
                (None, x) => self.function(x, given, *to)?,
            },
        })
    }

    /// The type of the first operand that has one; `None` for literals and conditions.
    fn own_type(&self, of: &Expr, given: &Operands<'_>) -> Option<Elem> {
        let first = |all: &[&Expr]| all.iter().find_map(|x| self.own_type(x, given));
        match of {
            Expr::In(n) => Some(given.ins[usize::from(*n)].0),
            Expr::Scalar(id) => Some(self.program.scalars[*id as usize].elem),
            Expr::Coord(..) | Expr::At(_) | Expr::Index(_) | Expr::Size(_) => Some(Elem::I32),
            Expr::Lit(_) | Expr::Cmp(..) => None,
            Expr::Cast(to, _) | Expr::Bits(to, _) | Expr::Ptx { elem: to, .. } => Some(*to),
            Expr::Un(_, x) => self.own_type(x, given),
            Expr::Bin(_, x, y) => first(&[x, y]),
            Expr::Fma(x) => first(&x.each_ref()),
            Expr::Pick(x) => first(&[&x[1], &x[2]]),
        }
    }
}

/// The neutral element of a reduction.
pub(super) fn identity(with: Bin, elem: Elem) -> Num {
    let (least, most) = Num::range(elem);
    match with {
        Bin::Mul => Num::exact(1.0),
        Bin::Max => least,
        Bin::Min => most,
        Bin::And if least.value == 0.0 => most,
        Bin::And => Num::exact(-1.0),
        _ => Num::exact(0.0),
    }
}
