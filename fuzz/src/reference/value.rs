//! Functions of elements.

use tilewright_codegen::Elem;
use tilewright_codegen::thread::Bin;
use tilewright_codegen::tile::Expr;

use super::{Block, Num, Result, Undefined};

/// What a function is given: for each input its type and element, and the coordinates behind it.
pub(super) struct Operands {
    pub(super) ins: Vec<(Elem, Option<Num>, Vec<i128>)>,
}

impl Operands {
    pub(super) fn none() -> Operands {
        Operands { ins: Vec::new() }
    }
}

/// The type in which a function is computed: the widest of its inputs' and its result's.
pub(super) fn common(to: Elem, ins: impl Iterator<Item = Elem>) -> Elem {
    ins.fold(to, |one, other| match (one.is_float(), other.is_float()) {
        _ if one == other => one,
        (true, false) => one,
        (false, true) => other,
        (true, true) if one.bytes() == other.bytes() => Elem::F32,
        _ if one.bytes() >= other.bytes() => one,
        _ => other,
    })
}

impl Block<'_> {
    /// A function's value in a type.
    pub(super) fn function(&self, of: &Expr, given: &Operands, elem: Elem) -> Result<Num> {
        let inner = |e: &Expr| self.function(e, given, elem);
        Ok(match of {
            Expr::In(n) => {
                let (from, num, _) = &given.ins[usize::from(*n)];
                let num = num.ok_or_else(|| Undefined("an element is read that nobody wrote".into()))?;
                num.cast(*from, elem)
            }
            Expr::Lit(x) => Num::literal(*x, elem),
            Expr::Scalar(id) => {
                let of = self.program.scalars[*id as usize].elem;
                Num::exact(self.scalars[*id as usize]).cast(of, elem)
            }
            Expr::Coord(n, mode) => {
                let (_, _, coordinates) = &given.ins[usize::from(*n)];
                Num::integer(coordinates[usize::from(*mode)], elem)
            }
            Expr::Un(f, x) => Num::un(*f, inner(x)?, elem),
            Expr::Bin(f, x, y) => Num::bin(*f, inner(x)?, inner(y)?, elem),
            Expr::Fma(x) => Num::fma(inner(&x[0])?, inner(&x[1])?, inner(&x[2])?, elem),
            Expr::Cmp(f, x, y) => Num::cmp(*f, inner(x)?, inner(y)?),
            Expr::Pick(x) => Num::pick(inner(&x[0])?, inner(&x[1])?, inner(&x[2])?),
            Expr::Cast(to, x) => {
                let value = self.function(x, given, *to)?;
                // Where the type makes a difference to what is converted, anything will do.
                let own = own_type(x, given, &|id| self.program.scalars[id as usize].elem);
                let alike = match own {
                    Some(own) => self.function(x, given, own)?.cast(own, *to) == value,
                    None => true,
                };
                if alike { value.cast(*to, elem) } else { Num::UNKNOWN }
            }
        })
    }

    /// A function of scalar arguments alone, in their type.
    pub(super) fn uniform(&self, of: &Expr, given: &Operands) -> Result<Num> {
        let own = own_type(of, given, &|id| self.program.scalars[id as usize].elem);
        self.function(of, given, own.unwrap_or(Elem::F32))
    }
}

/// The type of the first operand that has one.
fn own_type(of: &Expr, given: &Operands, scalar: &dyn Fn(u32) -> Elem) -> Option<Elem> {
    let first = |all: &[&Expr]| all.iter().find_map(|x| own_type(x, given, scalar));
    match of {
        Expr::In(n) => Some(given.ins[usize::from(*n)].0),
        Expr::Scalar(id) => Some(scalar(*id)),
        Expr::Lit(_) | Expr::Coord(..) => None,
        Expr::Cast(to, _) => Some(*to),
        Expr::Un(_, x) => own_type(x, given, scalar),
        Expr::Bin(_, x, y) | Expr::Cmp(_, x, y) => first(&[x, y]),
        Expr::Fma(x) | Expr::Pick(x) => first(&x.each_ref()),
    }
}

/// The inputs that a function mentions.
pub(super) fn mentions(of: &Expr, input: u8) -> bool {
    match of {
        Expr::In(n) => *n == input,
        Expr::Lit(_) | Expr::Scalar(_) | Expr::Coord(..) => false,
        Expr::Un(_, x) | Expr::Cast(_, x) => mentions(x, input),
        Expr::Bin(_, x, y) | Expr::Cmp(_, x, y) => mentions(x, input) || mentions(y, input),
        Expr::Fma(x) | Expr::Pick(x) => x.iter().any(|x| mentions(x, input)),
    }
}

/// The number that changes nothing when it is combined.
pub(super) fn identity(with: Bin, elem: Elem) -> f64 {
    let (least, most) = crate::number::range(elem);
    match with {
        Bin::Mul => 1.0,
        Bin::Max => least,
        Bin::Min => most,
        Bin::And if least == 0.0 => most,
        Bin::And => -1.0,
        _ => 0.0,
    }
}
