//! Levels of lints that the environment sets, for all kernels at once: `TILEWRIGHT_LINTS="deny(bank_conflicts)"`.

use crate::attribute::attribute;
use crate::text::Text;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use tilewright_codegen::ast::{Level, Name};

/// The variable. It says what `#[kernel(…)]` says, and what a kernel says itself is stronger.
pub(crate) const VARIABLE: &str = "TILEWRIGHT_LINTS";

/// The levels in it.
pub(crate) fn levels(value: Option<&str>, text: &mut Text) -> Vec<(Name, Level)> {
    let Some(value) = value else { return Vec::new() };
    let Ok(tokens) = value.parse::<TokenStream>() else {
        wrong(value, text);
        return Vec::new();
    };
    let mut own = Text::new();
    let read = attribute(tokens, &mut own);
    if !own.problems.is_empty() || !read.types.is_empty() {
        wrong(value, text);
    }
    let here = |name: Name| Name { span: tilewright_codegen::Definition::NOWHERE, ..name };
    read.levels.into_iter().map(|(name, level)| (here(name), level)).collect()
}

fn wrong(value: &str, text: &mut Text) {
    let what = format!("the environment variable `{VARIABLE}` cannot be read: `{value}`");
    text.wrong(Span::call_site(), what, "write for example `deny(bank_conflicts), warn(uncoalesced)`");
}

/// Makes cargo build again when the variable changes.
pub(crate) fn tracked() -> TokenStream {
    quote!(
        const _: ::core::option::Option<&str> = ::core::option_env!(#VARIABLE);
    )
}
