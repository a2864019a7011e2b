//! Trees that the generator writes itself: constructors without spans.

use super::{Expr, ExprKind, Name, Span};

/// A name without a span.
pub fn named(text: &str) -> Name {
    Name { text: text.to_owned(), span: Span::default() }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr { span: Span::default(), kind: ExprKind::Int(value) }
    }
}
