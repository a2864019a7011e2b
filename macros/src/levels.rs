//! Levels of lints that the environment sets, for all kernels at once:
//! `TILEWRIGHT_LINTS="deny(bank_conflicts)"`.

use crate::attribute::attribute;
use crate::text::Text;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use tilewright_codegen::Definition;
use tilewright_codegen::ast::{Level, Name};

/// The variable. It has the syntax of `#[kernel(…)]`; the attribute of a kernel overrides it.
pub(crate) const VARIABLE: &str = "TILEWRIGHT_LINTS";

/// The levels in it.
pub(crate) fn levels(value: Option<&str>, text: &mut Text) -> Vec<(Name, Level)> {
    let Some(value) = value else { return Vec::new() };
    let Ok(tokens) = value.parse::<TokenStream>() else {
        wrong(value, text);
        return Vec::new();
    };
    let mut own = Text::new(Span::call_site());
    let read = attribute(tokens, &mut own);
    if !own.problems.is_empty()
        || !read.types.is_empty()
        || !read.keys.is_empty()
        || read.overlaps
        || !read.choices.is_empty()
    {
        wrong(value, text);
    }
    let here = |name: Name| Name { span: Definition::NOWHERE, ..name };
    read.levels.into_iter().map(|(name, level)| (here(name), level)).collect()
}

fn wrong(value: &str, text: &mut Text) {
    let what = format!("the environment variable `{VARIABLE}` cannot be read: `{value}`");
    let whole = text.tokens_of(Definition::NOWHERE);
    text.wrong(whole, what, "write for example `deny(bank_conflicts), warn(uncoalesced)`");
}

/// Makes cargo build again when the variable changes.
pub(crate) fn tracked() -> TokenStream {
    quote!(
        const _: ::core::option::Option<&str> = ::core::option_env!(#VARIABLE);
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: &[(&str, Level)], mistakes: usize) {
        let mut text = Text::new(Span::call_site());
        let read = levels(Some(value), &mut text);
        let read: Vec<_> = read.iter().map(|(name, level)| (name.text.as_str(), *level)).collect();
        assert_eq!((&read[..], text.problems.len()), (expected, mistakes));
    }

    #[test]
    fn the_variable_says_what_an_attribute_says() {
        check("deny(bank_conflicts)", &[("bank_conflicts", Level::Deny)], 0);
        check("overlaps", &[], 1);
        check("allow(a), warn(b)", &[("a", Level::Allow), ("b", Level::Warn)], 0);
        check("", &[], 0);
        check("bank_conflicts", &[], 1);
        check("T = f32", &[], 1);
        check("deny(", &[], 1);
    }
}
