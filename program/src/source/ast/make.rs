//! Trees that the generator writes itself: constructors without spans.

use super::{Arg, Binary, Expr, ExprKind, Name, Pattern, Span};

/// A name without a span.
pub fn named(text: &str) -> Name {
    Name { text: text.to_owned(), span: Span::default() }
}

fn made(kind: ExprKind) -> Expr {
    Expr { span: Span::default(), kind }
}

/// A name as a value.
impl From<&str> for Expr {
    fn from(text: &str) -> Expr {
        made(ExprKind::Name(text.to_owned()))
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        made(ExprKind::Int(value))
    }
}

impl From<f64> for Expr {
    fn from(value: f64) -> Expr {
        made(ExprKind::Float(value))
    }
}

/// `(a, b)`
impl<const N: usize> From<[Expr; N]> for Expr {
    fn from(items: [Expr; N]) -> Expr {
        made(ExprKind::Tuple(items.into()))
    }
}

impl<const N: usize> From<[&str; N]> for Expr {
    fn from(items: [&str; N]) -> Expr {
        items.map(Expr::from).into()
    }
}

impl From<Vec<Expr>> for Expr {
    fn from(items: Vec<Expr>) -> Expr {
        made(ExprKind::Tuple(items))
    }
}

fn plain(args: impl IntoIterator<Item = Expr>) -> Vec<Arg> {
    args.into_iter().map(|value| Arg { name: None, value }).collect()
}

/// `function::<types>(args)`
pub fn call(function: &str, types: &[&str], args: impl IntoIterator<Item = Expr>) -> Expr {
    let types = types.iter().map(|ty| named(ty)).collect();
    made(ExprKind::Call { function: named(function), types, args: plain(args) })
}

/// `left op right`
pub fn two(op: Binary, left: Expr, right: Expr) -> Expr {
    made(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

/// `if condition { then } else { other }`
pub fn choice(condition: Expr, then: Expr, other: Expr) -> Expr {
    let [condition, then, other] = [condition, then, other].map(Box::new);
    made(ExprKind::If { condition, then, other })
}

impl Expr {
    /// `self as elem`
    pub fn cast(self, elem: &str) -> Expr {
        made(ExprKind::Cast(Box::new(self), named(elem)))
    }

    /// `{ let name = value; self }`
    pub fn given(self, name: Pattern, value: Expr) -> Expr {
        made(ExprKind::Block { lets: vec![(name, value)], value: Box::new(self) })
    }
}
