//! Names of the language that a kernel uses. They are ordinary items of the prelude: repeated in dead code,
//! they count as used, and an editor finds their documentation.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use std::collections::BTreeMap;
use tilewright_codegen::Elem;
use tilewright_codegen::evaluate::FUNCTIONS;

/// How a name is recognised, so that a variable of the same name is not.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `tile(…)`, `shared::<f32>(…)`
    Function,
    /// `layout!(…)`
    Macro,
    /// `Tensor`
    Type,
}

/// Names of the language that are not functions.
const OTHERS: &[(Form, &str)] = &[(Form::Macro, "layout"), (Form::Type, "Tensor")];

fn is_name(form: Form, text: &str) -> bool {
    let function = form == Form::Function && FUNCTIONS.iter().any(|row| row.name == text);
    let is_type = |kind: Form| kind == Form::Type && form != Form::Macro;
    let element = is_type(Form::Type) && Elem::named(text).is_some_and(|elem| !elem.is_primitive());
    function
        || element
        || OTHERS.iter().any(|(kind, name)| *name == text && (*kind == form || is_type(*kind)))
}

/// Dead code that uses every name of the language that the tokens use.
pub(crate) fn used(tokens: &TokenStream) -> TokenStream {
    let mut names = BTreeMap::new();
    collect(tokens.clone(), &mut names);
    if names.is_empty() {
        return TokenStream::new();
    }
    // One by one and at its token: a missing import is reported there, as in any other function.
    let uses = names.values().map(|name| match Elem::named(&name.to_string()) {
        // Some are names of Rust's own types that are not stable yet: an import of such a name is
        // ambiguous with the prelude's glob, but a mention in a type is not.
        Some(_) => quote_spanned! {name.span()=>
            #[allow(dead_code, deprecated)]
            const _: ::core::marker::PhantomData<#name> = ::core::marker::PhantomData;
        },
        None => quote_spanned! {name.span()=>
            #[allow(unused_imports, deprecated)]
            use #name as _;
        },
    });
    quote!(const _: () = { #(#uses)* };)
}

fn collect(tokens: TokenStream, names: &mut BTreeMap<String, syn::Ident>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Ident(name) => {
                // `x.copy(y)`, `tilewright::layout!(…)`
                let is_member = at > 0 && [':', '.'].iter().any(|mark| is_mark(tokens.get(at - 1), *mark));
                let is_member = is_member && !is_after_single_colon(&tokens, at);
                let form = form(tokens.get(at + 1));
                let text = name.to_string();
                if is_name(form, &text) && !is_member {
                    names.entry(text).or_insert_with(|| name.clone());
                }
            }
            _ => {}
        }
    }
}

/// `a: Tensor<…>`, in contrast to `tilewright::Tensor<…>`.
fn is_after_single_colon(tokens: &[TokenTree], at: usize) -> bool {
    is_mark(tokens.get(at - 1), ':') && !(at > 1 && is_mark(tokens.get(at - 2), ':'))
}

fn form(next: Option<&TokenTree>) -> Form {
    match next {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => Form::Function,
        next if is_mark(next, ':') => Form::Function,
        next if is_mark(next, '!') => Form::Macro,
        _ => Form::Type,
    }
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut names = BTreeMap::new();
        collect(text.parse().unwrap(), &mut names);
        assert_eq!(names.into_keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn paths_need_no_import() {
        check("a: tilewright::Tensor<f32, tilewright::layout!(N)>", &[]);
        check("(a: Tensor<f32, layout!(N)>)", &["Tensor", "layout"]);
    }

    #[test]
    fn element_types_are_not_imported_again() {
        let text = used(&"a: &Tensor<bf16, (M, N)>, b: &Tensor<f16, N>".parse().unwrap()).to_string();
        assert!(text.contains("use Tensor as _"), "{text}");
        for elem in ["bf16", "f16"] {
            assert!(
                !text.contains(&format!("use {elem}")) && text.contains(&format!("< {elem} >")),
                "{text}"
            );
        }
    }

    #[test]
    fn variables_are_not_names_of_the_language() {
        check("let start = tile(a, (4, 4), start); x.copy(y); copy(map, x.map(f))", &["copy", "tile"]);
        check("shared::<f32>(layout!((4, 4)))", &["layout", "shared"]);
        check("a: &Tensor<bf16, (M, N)>, layout: f32", &["Tensor", "bf16"]);
    }
}
