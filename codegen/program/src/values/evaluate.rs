//! Values of functions of elements, in double precision, where the values of their leaves are known.

use super::arithmetic;
use super::expr::Expr;
use super::operation::{Bin, Cmp, Un};
use super::typing::{Type, Types};

/// Deeper expressions have no value here.
const DEEPEST: u32 = 100;

impl Types<'_> {
    /// The value of an expression, true being 1; `None` if it is not known. `leaf`: inputs, arguments,
    /// coordinates and sizes.
    pub fn evaluated(&self, expr: &Expr, leaf: &dyn Fn(&Expr) -> Option<f64>) -> Option<f64> {
        self.value(expr, leaf, 0)
    }

    fn value(&self, expr: &Expr, leaf: &dyn Fn(&Expr) -> Option<f64>, depth: u32) -> Option<f64> {
        if depth > DEEPEST {
            return None;
        }
        let of = |expr| self.value(expr, leaf, depth + 1);
        match expr {
            Expr::In(_)
            | Expr::Scalar(_)
            | Expr::Size(_)
            | Expr::Coord(..)
            | Expr::Index(_)
            | Expr::At(_) => leaf(expr),
            // The other arm may have no value.
            Expr::Pick(all) => of(&all[if of(&all[0])? == 0.0 { 2 } else { 1 }]),
            Expr::Ptx { model, .. } => of(model.as_deref()?),
            _ => {
                let parts: Option<Vec<f64>> = expr.parts().into_iter().map(of).collect();
                self.applied(expr, &parts?)
            }
        }
    }

    /// The value of an operation or a literal, of the values of its direct subexpressions.
    pub fn applied(&self, expr: &Expr, parts: &[f64]) -> Option<f64> {
        Some(match (expr, parts) {
            (Expr::Lit(number), []) => number.to_f64(),
            // All bits of 0 are 0 in every type.
            (Expr::Bits(..), [x]) => x.to_bits().eq(&0).then_some(0.0)?,
            (Expr::Un(Un::Not, of), [x]) if self.own(of)? == Type::Condition => 1.0 - x,
            (Expr::Un(f, _), [x]) => unary(*f, *x)?,
            (Expr::Bin(Bin::Div, ..), [x, y]) => match self.own(expr)? {
                Type::Elem(elem) if !elem.is_float() => (x / y).trunc(),
                _ => x / y,
            },
            (Expr::Bin(f, ..), [x, y]) => binary(*f, *x, *y)?,
            (Expr::Fma(_), [x, y, z]) => x * y + z,
            (Expr::Cmp(how, ..), [x, y]) => f64::from(match how {
                Cmp::Lt => x < y,
                Cmp::Le => x <= y,
                Cmp::Eq => x == y,
                Cmp::Ne => x != y,
            }),
            (Expr::Cast(elem, _), [x]) if elem.is_float() => *x,
            (Expr::Cast(..), [x]) => x.is_finite().then(|| x.trunc())?,
            _ => return None,
        })
    }

    /// The type of an expression, if it has one without its context.
    pub fn own(&self, expr: &Expr) -> Option<Type> {
        self.scalar(expr).ok()?.own_type()
    }
}

fn unary(f: Un, x: f64) -> Option<f64> {
    match f {
        Un::CountOnes | Un::LeadingZeros | Un::Not => None,
        _ => Some(arithmetic::un_double(f, x)),
    }
}

fn binary(f: Bin, x: f64, y: f64) -> Option<f64> {
    let whole = |of: fn(i64, i64) -> i64| {
        let is = |x: f64| x.fract() == 0.0 && x.abs() < 1e15;
        (is(x) && is(y)).then(|| of(x as i64, y as i64) as f64)
    };
    Some(match f {
        Bin::Add => x + y,
        Bin::Sub => x - y,
        Bin::Mul => x * y,
        Bin::Rem => x % y,
        Bin::Min => x.min(y),
        Bin::Max => x.max(y),
        Bin::And => whole(|x, y| x & y)?,
        Bin::Or => whole(|x, y| x | y)?,
        Bin::Xor => whole(|x, y| x ^ y)?,
        Bin::Pow => x.powf(y),
        Bin::CopySign => x.copysign(y),
        Bin::FastDiv => x / y,
        Bin::Div | Bin::Shl | Bin::Shr | Bin::MulHigh => return None,
    })
}
