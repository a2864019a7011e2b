//! Positions in the author's text: the table from span numbers back to tokens, and the errors so far.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use tilewright_front::evaluate::elsewhere;
use tilewright_program::ast;
use tilewright_program::diagnostic::Diagnostic;
use tilewright_program::kernel_def::Locations;
use tilewright_program::limits::DEEPEST;

/// From a first token to a last.
#[derive(Clone, Copy, Debug)]
pub struct TokenRange {
    /// The first token.
    pub first: Span,
    /// The last token.
    pub last: Span,
}

impl TokenRange {
    /// The range of these tokens.
    pub fn of(tokens: &impl ToTokens) -> TokenRange {
        let mut all = tokens.to_token_stream().into_iter();
        let Some(first) = all.next() else {
            return TokenRange::from(Span::call_site());
        };
        let last = all.last().map_or(first.span(), |token| token.span());
        TokenRange { first: first.span(), last }
    }

    /// From the start of one to the end of the other.
    pub(crate) fn to(self, end: TokenRange) -> TokenRange {
        TokenRange { first: self.first, last: end.last }
    }
}

impl From<Span> for TokenRange {
    fn from(span: Span) -> TokenRange {
        TokenRange { first: span, last: span }
    }
}

/// Positions and errors of one macro invocation.
#[derive(Clone, Debug)]
pub struct Text {
    /// The whole invocation: span number 0.
    whole: TokenRange,
    /// Numbers below this belong to a definition in another invocation: see `__specialize!`.
    base: u32,
    locations: Vec<TokenRange>,
    /// The errors so far.
    pub problems: Vec<Diagnostic>,
    depth: u32,
    /// Is it one of the generator's own pages? Its parts have no spans. Every use of it gives its types and constants, which may be layouts
    /// and names, and its optional arguments, which may be numbers.
    pub(crate) is_page: bool,
}

/// How extents are written that are no names.
const EXTENTS: &str = "extents that are computed are in braces around all of them, `Tensor<f32, {(N, N + 1)}>`; integers can have an underscore, `(N, _4)`";

/// How an index is written.
const INDEX: &str = "an index is one tuple with an entry for each mode: x[(0, _, i)], where `_` keeps a mode and an integer takes one index along it; every second element is a mode of `regroup(x, (2, n))`";

impl Text {
    /// Number 0 is the whole invocation: errors without a narrower span point at it.
    pub fn new(whole: impl Into<TokenRange>) -> Text {
        let (locations, problems) = (Vec::new(), Vec::new());
        Text { whole: whole.into(), base: 1, locations, problems, depth: 0, is_page: false }
    }

    /// The text of an invocation that refers to a definition elsewhere, which has used this many numbers.
    pub fn after(locations: &Locations, whole: TokenRange) -> Text {
        Text { base: locations.lines.len().max(1) as u32, ..Text::new(whole) }
    }

    /// A number for a range.
    pub fn span(&mut self, range: impl Into<TokenRange>) -> ast::Span {
        if self.is_page {
            return ast::Span::default();
        }
        self.locations.push(range.into());
        ast::Span(self.base + self.locations.len() as u32 - 1)
    }

    /// The tokens of a number; the whole invocation for 0 and for numbers of a definition elsewhere.
    pub fn tokens_of(&self, span: ast::Span) -> TokenRange {
        self.known(span).unwrap_or(self.whole)
    }

    /// The tokens of a number that is not of a definition elsewhere.
    pub(crate) fn known(&self, span: ast::Span) -> Option<TokenRange> {
        let at = span.0.checked_sub(self.base)?;
        self.locations.get(at as usize).copied()
    }

    /// Does the number belong to a definition in another invocation?
    pub fn is_elsewhere(&self, span: ast::Span) -> bool {
        (1..self.base).contains(&span.0)
    }

    /// A name with its number.
    pub fn name(&mut self, ident: &syn::Ident) -> ast::Name {
        let text = ident.to_string();
        ast::Name { text: text.strip_prefix("r#").unwrap_or(&text).into(), span: self.span(ident.span()) }
    }

    /// Records an error.
    pub fn wrong(&mut self, range: impl Into<TokenRange>, what: impl Into<String>, instead: &str) {
        let span = self.span(range);
        self.problems.push(Diagnostic::error(span, what).help(instead));
    }

    /// Records a message of the parser, which is already written for the author, with a remedy where the tokens show one.
    pub(crate) fn unreadable(&mut self, error: &syn::Error, tokens: TokenStream) {
        for one in error {
            let span = self.span(one.span());
            let message = one.to_string();
            let (word, in_index) = token_at(tokens.clone(), one.span(), false).unwrap_or_default();
            let remedy = word
                .as_deref()
                .filter(|word| syn::parse_str::<syn::Ident>(word).is_err())
                .and_then(elsewhere);
            // The parser lists all that a type can begin with.
            self.problems.push(match (&*message, remedy) {
                (message, _) if message.starts_with("expected one of: `for`, parentheses, ") => {
                    Diagnostic::error(span, "a type cannot begin like this").help(EXTENTS)
                }
                ("unexpected token, expected `]`", _) => {
                    Diagnostic::error(span, "an index ends here").help(INDEX)
                }
                (_, Some(instead)) => {
                    let word = word.unwrap_or_default();
                    Diagnostic::error(span, format!("`{word}` is a word of Rust")).help(instead)
                }
                _ if in_index => Diagnostic::error(span, "this is not an index").help(INDEX),
                (message, _) => match message.split_once("\nhelp: ") {
                    Some((what, instead)) => Diagnostic::error(span, what).help(instead),
                    None => Diagnostic::error(span, message),
                },
            });
        }
    }

    /// Runs `read` one level deeper; refuses nesting that is too deep for the tree.
    pub(crate) fn deeper<T>(&mut self, at: &impl Spanned, read: impl FnOnce(&mut Text) -> T) -> Option<T> {
        if self.depth >= DEEPEST {
            let instead = "give parts of it names, with `let`";
            self.wrong(at.span(), format!("this is nested more than {DEEPEST} levels deep"), instead);
            return None;
        }
        self.depth += 1;
        let tree = read(self);
        self.depth -= 1;
        Some(tree)
    }

    /// Lines of all spans, for messages where the tokens are out of reach.
    pub fn lines(&self) -> Locations {
        let whole = self.whole.first;
        let line = |span: Span| span.start().line as u32;
        let lines = std::iter::once(line(whole)).chain(self.locations.iter().map(|range| line(range.first)));
        Locations { file: whole.file(), lines: lines.collect() }
    }

    /// Parses tokens with syn; `None` after an error.
    pub(crate) fn parse<T>(
        &mut self,
        parser: impl syn::parse::Parser<Output = T>,
        tokens: TokenStream,
    ) -> Option<T> {
        parser.parse2(tokens.clone()).map_err(|error| self.unreadable(&error, tokens)).ok()
    }
}

/// The token at a position, if it is a word, and whether it is in an index.
fn token_at(tokens: TokenStream, at: Span, in_index: bool) -> Option<(Option<String>, bool)> {
    let mut can_be_indexed = false;
    for token in tokens {
        let (separate, operand) = match &token {
            TokenTree::Group(group) => {
                let inside = match group.delimiter() {
                    Delimiter::Bracket => can_be_indexed,
                    Delimiter::Parenthesis => in_index,
                    _ => false,
                };
                (token_at(group.stream(), at, inside), group.delimiter() == Delimiter::Parenthesis)
            }
            one if one.span().start() != at.start() => (None, matches!(one, TokenTree::Ident(_))),
            TokenTree::Ident(word) => (Some((Some(word.to_string()), in_index)), true),
            _ => (Some((None, in_index)), false),
        };
        if separate.is_some() {
            return separate;
        }
        can_be_indexed = operand;
    }
    None
}
