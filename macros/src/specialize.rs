//! `name!(BM = 64)`: specialises a definition from elsewhere with other constants, as a value.

use crate::deliver::{Made, Report};
use crate::function::MOST_TYPES;
use crate::keys::{keys, settings};
use crate::text::{Text, TokenRange};
use crate::{carry, generate, guard, levels};
use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::wire::{Wire, decode};
use tilewright_codegen::{Definition, Elem, Settings, ast};

/// The input from the kernel's macro: its number, its definition, its spans; and the user's tokens.
struct Given {
    number: Literal,
    kernel: ast::Kernel,
    locations: Locations,
    settings: TokenStream,
}

/// Expands to an expression.
pub(crate) fn expand(tokens: TokenStream, lints: Option<&str>) -> TokenStream {
    let Some(Given { number, kernel, locations, settings: written }) = given(tokens) else {
        let report = "this kernel was compiled by another version of tilewright";
        return crate::deliver::error(Span::call_site().into(), report);
    };
    let at = TokenRange::of(&written);
    let mut text = Text::after(&locations, at);
    let mut set = Settings::default();
    match guard::check(written.clone()) {
        Ok(()) => set = settings(keys(written.clone(), &mut text), &kernel, true, &mut text),
        Err(refused) => text.wrong(refused.at, refused.what, refused.instead),
    }
    let set_levels = levels::levels(lints, &mut text);
    text.problems.extend(set.repeated());
    if !text.problems.is_empty() {
        return failed(&Report::of(&text.problems, Made::Kernel(&kernel.name.text), &text));
    }
    let (name, types) = (kernel.name.text.clone(), types(&kernel, &set));
    let definition = Definition::Function(kernel, set);
    let outcome = generate::generate(&definition, &set_levels);
    let report = Report::far_from(&locations, at, &outcome.diagnostics, Made::Kernel(&name), &text);
    let Some(made) = outcome.kernel.filter(|_| report.errors.is_empty()) else {
        return failed(&report);
    };
    let (report, tracked) = (report.items(), levels::tracked());
    let def = carry::def(&name, &made, &definition, &locations);
    let value = value(&number, &quote!(Made));
    let slots = (0..MOST_TYPES).map(|at| format_ident!("T{at}"));
    quote! {{
        #report
        #tracked
        struct Made;
        impl ::tilewright::__private::Specialized for Made {
            const DEF: &'static ::tilewright::__private::KernelDef = {
                static DEF: ::tilewright::__private::KernelDef = #def;
                &DEF
            };
            #(type #slots = #types;)*
        }
        #value
    }}
}

/// The value of the kernel's own type, which its number identifies.
pub(crate) fn value(number: &Literal, made: &TokenStream) -> TokenStream {
    quote!(<::tilewright::__private::Number<#number> as ::tilewright::__private::Makes<_, #made>>::KERNEL)
}

/// An expression of no type: it reports the errors and causes no further ones.
pub(crate) fn failed(report: &Report) -> TokenStream {
    let (errors, warnings) = (&report.errors, &report.warnings);
    quote!({ #(#warnings)* #(#errors);* })
}

/// The element types of the kernel in this specialisation.
fn types(kernel: &ast::Kernel, set: &Settings) -> Vec<TokenStream> {
    let chosen = kernel.types.iter().map(|ty| {
        let set = set.types.iter().find(|(name, _)| name.text == ty.name.text).map(|(_, elem)| *elem);
        let first = ty.allowed.first().and_then(|name| Elem::named(&name.text));
        carry::elem(set.or(first).unwrap_or(Elem::F32))
    });
    let none = std::iter::repeat_with(|| quote!(()));
    chosen.chain(none).take(MOST_TYPES).collect()
}

fn given(tokens: TokenStream) -> Option<Given> {
    let mut tokens = tokens.into_iter();
    let Some(TokenTree::Literal(number)) = tokens.next().map(bare) else {
        return None;
    };
    let Definition::Function(kernel, _) = carried(tokens.next()?)? else {
        return None;
    };
    let locations = carried(tokens.next()?)?;
    Some(Given { number, kernel, locations, settings: tokens.collect() })
}

/// Decodes the bytes of [`carry::bytes`].
fn carried<T: Wire>(token: TokenTree) -> Option<T> {
    let literal = syn::parse2::<syn::LitByteStr>(bare(token).into()).ok()?;
    decode(&literal.value())
}

/// A token that went through a macro may be in invisible brackets.
fn bare(token: TokenTree) -> TokenTree {
    match token {
        TokenTree::Group(group) => group.stream().into_iter().next().unwrap_or(TokenTree::Group(group)),
        token => token,
    }
}
