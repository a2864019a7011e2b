//! Patterns: the left side of `=` in a `let`, and the variables of a loop or a closure.

use crate::expr::around;
use crate::text::{Text, TokenRange};
use syn::Pat;
use tilewright_program::ast::Pattern;

/// Converts a pattern; `None` after an error.
pub(crate) fn pattern(from: &Pat, text: &mut Text) -> Option<Pattern> {
    Some(match from {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
            Pattern::Name(text.name(&name.ident))
        }
        Pat::Wild(hole) => Pattern::Hole(text.span(hole.underscore_token.span)),
        Pat::Paren(inner) => return pattern(&inner.pat, text),
        Pat::Tuple(tuple) => {
            let items: Vec<_> = tuple.elems.iter().map(|item| pattern(item, text)).collect();
            Pattern::Tuple(
                text.span(around(tuple.paren_token.span)),
                items.into_iter().collect::<Option<_>>()?,
            )
        }
        Pat::Type(typed) => {
            text.wrong(
                TokenRange::of(&typed.ty),
                "types of values are inferred here",
                "leave out the `:` and the type",
            );
            return pattern(&typed.pat, text);
        }
        other => {
            text.wrong(
                TokenRange::of(other),
                "this pattern has no meaning here",
                "write a name, `_`, or a tuple of them",
            );
            return None;
        }
    })
}
