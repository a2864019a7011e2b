//! Errors and warnings at the user's tokens.

use crate::text::{Text, TokenRange};
use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use tilewright_codegen::ast::Level;
use tilewright_codegen::diagnostic::Diagnostic;
use tilewright_codegen::kernel_def::Locations;

/// All diagnostics, sorted by the compiler's treatment of them.
#[derive(Default)]
pub(crate) struct Report {
    /// `compile_error!` calls, each an expression.
    pub(crate) errors: Vec<TokenStream>,
    /// Items that make the compiler warn.
    pub(crate) warnings: Vec<TokenStream>,
}

/// The name of the expanded item, for warnings: the compiler begins their headlines with its own words.
#[derive(Clone, Copy)]
pub(crate) enum Made<'n> {
    /// A `#[kernel]`, of this name.
    Kernel(&'n str),
    /// A `matmul_kernel!`.
    Product,
}

impl Report {
    pub(crate) fn of(diagnostics: &[Diagnostic], made: Made<'_>, text: &Text) -> Report {
        let mut report = Report::default();
        for one in in_order(diagnostics, text) {
            report.add(one, made, text.tokens_of(one.span), &one.text());
        }
        report
    }

    /// Diagnostics at a use of a definition that is elsewhere: diagnostics about the definition are reported
    /// at `at`.
    pub(crate) fn far_from(
        definition: &Locations,
        at: TokenRange,
        diagnostics: &[Diagnostic],
        made: Made<'_>,
        text: &Text,
    ) -> Report {
        let mut report = Report::default();
        for one in in_order(diagnostics, text) {
            match definition.of(one.span).filter(|_| text.is_elsewhere(one.span)) {
                Some(line) => {
                    report.add(one, made, at, &format!("{}\nhelp: this is about {line}", one.text()))
                }
                None => report.add(one, made, text.tokens_of(one.span), &one.text()),
            }
        }
        report
    }

    fn add(&mut self, one: &Diagnostic, made: Made<'_>, range: TokenRange, text: &str) {
        match one.level {
            Level::Deny => self.errors.push(error(range, text)),
            Level::Warn => {
                let lint = one.lint.unwrap_or("tilewright");
                self.warnings.push(warning(range, lint, &note(made, range, lint, text)));
            }
            Level::Allow => {}
        }
    }

    /// As items.
    pub(crate) fn items(&self) -> TokenStream {
        let (errors, warnings) = (&self.errors, &self.warnings);
        quote!(#(#errors;)* #(#warnings)*)
    }
}

/// In the order of the text.
fn in_order<'d>(diagnostics: &'d [Diagnostic], text: &Text) -> Vec<&'d Diagnostic> {
    let mut all: Vec<_> = diagnostics.iter().collect();
    all.sort_by_cached_key(|one| {
        let start = text.tokens_of(one.span).first.start();
        (start.line, start.column)
    });
    all
}

/// One error: the compiler underlines from the first token of this text to the last.
pub(crate) fn error(range: TokenRange, text: &str) -> TokenStream {
    let mut message = Literal::string(text);
    message.set_span(range.last);
    let mut braces = Group::new(Delimiter::Parenthesis, TokenTree::from(message).into());
    braces.set_span(range.last);
    let name = quote_spanned!(range.first=> ::core::compile_error!);
    quote!(#name #braces)
}

/// The text of a warning: the kernel, the line, the mistake, the remedy, and how to allow it.
fn note(made: Made<'_>, range: TokenRange, lint: &str, text: &str) -> String {
    let line = range.first.start().line;
    let (name, allowed) = match made {
        Made::Kernel(name) => (format!("kernel `{name}`"), format!("`#[kernel(allow({lint}))]`")),
        Made::Product => ("this product".to_owned(), format!("`allow = {lint}`")),
    };
    format!("{name}, line {line}: {text}\nhelp: if it is meant, write {allowed}")
}

/// One warning. On stable Rust a macro can only trigger the compiler's own warnings, and these can carry a
/// text of ours:
///
/// - the use of something deprecated: "use of deprecated `…`: text". Functions, constants, fields, methods
///   and modules are shown with their whole path, `crate::transpose::_::bank_conflicts`; a macro with the
///   name that was written, and no more;
/// - an unused value that is `#[must_use = "text"]`: the headline says "unused `…` that must be used", the
///   text comes below, and `cargo fix` would write `let _ =` into the kernel;
/// - `#[warn(dead_code, reason = "text")]` on something unused, and `#[expect(…, reason = "text")]`: the
///   headline says "constant `…` is never used" or "this lint expectation is unfulfilled", and the text comes
///   below it.
///
/// We use a deprecated macro with the lint's name: the text is in the headline, next to the name that sets
/// the lint's level, and the compiler underlines the user's token.
fn warning(range: TokenRange, lint: &str, text: &str) -> TokenStream {
    let declared = syn::Ident::new(lint, Span::call_site());
    let used = syn::Ident::new(lint, range.first);
    quote! {
        const _: () = {
            #[deprecated(note = #text)]
            macro_rules! #declared {
                () => {};
            }
            #used! {}
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_codegen::Definition;

    #[track_caller]
    fn check(level: Level, errors: usize, warnings: usize) {
        let report =
            Diagnostic { level, lint: Some("uncoalesced"), ..Diagnostic::error(Definition::NOWHERE, "slow") };
        let report = Report::of(&[report], Made::Kernel("k"), &Text::new(Span::call_site()));
        assert_eq!((report.errors.len(), report.warnings.len()), (errors, warnings));
        assert!(syn::parse2::<syn::File>(report.items()).is_ok());
    }

    #[test]
    fn levels_decide_what_is_reported() {
        check(Level::Deny, 1, 0);
        check(Level::Warn, 0, 1);
        check(Level::Allow, 0, 0);
    }

    #[test]
    fn a_warning_says_which_kernel_which_line_and_what_to_write() {
        let tokens: TokenStream = "\n\n copy".parse().unwrap();
        let range = TokenRange::of(&tokens);
        let text = |made| note(made, range, "uncoalesced", "slow\nhelp: hurry");
        assert_eq!(
            text(Made::Kernel("k")),
            "kernel `k`, line 3: slow\nhelp: hurry\nhelp: if it is meant, write `#[kernel(allow(uncoalesced))]`"
        );
        assert_eq!(
            text(Made::Product),
            "this product, line 3: slow\nhelp: hurry\nhelp: if it is meant, write `allow = uncoalesced`"
        );
        let items = warning(range, "uncoalesced", "slow").to_string();
        assert!(items.contains("macro_rules ! uncoalesced") && items.contains("note = \"slow\""), "{items}");
    }
}
