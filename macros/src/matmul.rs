//! `matmul_kernel!`: keys to a value.

use crate::deliver::{Made, Report};
use crate::specialize::failed;
use crate::text::{Text, TokenRange};
use crate::{carry, generate, guard, keys, levels};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use tilewright_codegen::{Definition, Elem};

/// Expands to an expression.
pub(crate) fn expand(tokens: TokenStream, lints: Option<&str>) -> TokenStream {
    let mut text = Text::new(TokenRange::of(&tokens));
    let definition = read(tokens.clone(), &mut text);
    let set = levels::levels(lints, &mut text);
    if !text.problems.is_empty() {
        return failed(&Report::of(&text.problems, Made::Product, &text));
    }
    let outcome = generate::generate(&definition, &set);
    let report = Report::of(&outcome.diagnostics, Made::Product, &text);
    let Some(made) = outcome.kernel.filter(|_| report.errors.is_empty()) else {
        return failed(&report);
    };
    let (warnings, tracked) = (report.items(), levels::tracked());
    let def = carry::def(&made.name, &made, &definition, &text.lines());
    let elem = carry::elem(made.params.first().map_or(Elem::F32, |param| param.elem));
    // Where another element type is expected, the compiler points here.
    let at = TokenRange::of(&tokens).first;
    let elements = quote_spanned!(at=> &<#elem as ::tilewright::__private::Element>::ZERO);
    quote! {{
        #warnings
        #tracked
        static DEF: ::tilewright::__private::KernelDef = #def;
        ::tilewright::__private::MatmulKernel {
            __handle: ::tilewright::__private::Handle::Fixed(&DEF),
            __elements: #elements,
        }
    }}
}

/// The definition, as far as it can be parsed; errors are recorded in the text.
pub(crate) fn read(tokens: TokenStream, text: &mut Text) -> Definition {
    match guard::check(tokens.clone()) {
        Ok(()) => Definition::Matmul(keys::keys(tokens, text)),
        Err(refused) => {
            text.wrong(refused.at, refused.what, refused.instead);
            Definition::Matmul(Vec::new())
        }
    }
}
