//! What is said to the author: errors and warnings on tokens.

use crate::text::{Place, Text};
use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use tilewright_codegen::ast::Level;
use tilewright_codegen::diagnostic::Diagnostic;
use tilewright_codegen::kernel_def::Places;

/// Everything that was said, sorted by what the compiler does with it.
#[derive(Default)]
pub(crate) struct Said {
    /// `compile_error!` calls, each an expression.
    pub(crate) errors: Vec<TokenStream>,
    /// Items that make the compiler warn.
    pub(crate) warnings: Vec<TokenStream>,
}

impl Said {
    pub(crate) fn of(diagnostics: &[Diagnostic], text: &Text) -> Said {
        let mut said = Said::default();
        for one in in_order(diagnostics, text) {
            said.add(one, text.place(one.span), &one.text());
        }
        said
    }

    /// The same at a use of a definition that stands elsewhere: what belongs to the definition is said at `at`.
    pub(crate) fn far_from(definition: &Places, at: Place, diagnostics: &[Diagnostic], text: &Text) -> Said {
        let mut said = Said::default();
        for one in in_order(diagnostics, text) {
            match definition.of(one.span).filter(|_| text.is_elsewhere(one.span)) {
                Some(line) => said.add(one, at, &format!("{}\nhelp: this is about {line}", one.text())),
                None => said.add(one, text.place(one.span), &one.text()),
            }
        }
        said
    }

    fn add(&mut self, one: &Diagnostic, place: Place, text: &str) {
        match one.level {
            Level::Deny => self.errors.push(error(place, text)),
            Level::Warn => self.warnings.push(warning(place, one.lint.unwrap_or("tilewright"), text)),
            Level::Allow => {}
        }
    }

    /// As items.
    pub(crate) fn items(&self) -> TokenStream {
        let (errors, warnings) = (&self.errors, &self.warnings);
        quote!(#(#errors;)* #(#warnings)*)
    }
}

/// As the text is read.
fn in_order<'d>(diagnostics: &'d [Diagnostic], text: &Text) -> Vec<&'d Diagnostic> {
    let mut all: Vec<_> = diagnostics.iter().collect();
    all.sort_by_cached_key(|one| {
        let start = text.place(one.span).first.start();
        (start.line, start.column)
    });
    all
}

/// One error: the compiler underlines from the first token of this text to the last.
pub(crate) fn error(place: Place, text: &str) -> TokenStream {
    let mut message = Literal::string(text);
    message.set_span(place.last);
    let mut braces = Group::new(Delimiter::Parenthesis, TokenTree::from(message).into());
    braces.set_span(place.last);
    let name = quote_spanned!(place.first=> ::core::compile_error!);
    quote!(#name #braces)
}

/// One warning: on stable Rust, the use of something deprecated is the only one that a macro can cause.
fn warning(place: Place, lint: &str, text: &str) -> TokenStream {
    let declared = syn::Ident::new(lint, Span::call_site());
    let used = syn::Ident::new(lint, place.first);
    quote! {
        const _: () = {
            #[deprecated(note = #text)]
            #[allow(dead_code)]
            fn #declared() {}
            #[allow(dead_code)]
            fn warning() {
                #used()
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_codegen::Definition;

    #[track_caller]
    fn check(level: Level, errors: usize, warnings: usize) {
        let said =
            Diagnostic { level, lint: Some("uncoalesced"), ..Diagnostic::error(Definition::NOWHERE, "slow") };
        let said = Said::of(&[said], &Text::new(Span::call_site()));
        assert_eq!((said.errors.len(), said.warnings.len()), (errors, warnings));
        assert!(syn::parse2::<syn::File>(said.items()).is_ok());
    }

    #[test]
    fn levels_decide_what_is_said() {
        check(Level::Deny, 1, 0);
        check(Level::Warn, 0, 1);
        check(Level::Allow, 0, 0);
    }
}
