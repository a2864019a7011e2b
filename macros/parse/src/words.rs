//! Keys as text, `bm=64 tc=(8,8) schedule=(vec=4)`: the form of a macro's tokens on a command line, in a test or in
//! a tuning record. Mistakes are pointed at in the text itself.

use std::ops::Range;
use std::sync::LazyLock;

use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use tilewright_front::matmul::Texts;
use tilewright_program::ast::{Arg, Kernel, Level};
use tilewright_program::definition::{Definition, Settings};
use tilewright_program::diagnostic::Diagnostic;
use tilewright_program::kernel_def::Locations;
use tilewright_program::problem::Problem;

use crate::text::{Text, TokenRange};
use crate::{file, guard, keys};

/// The texts of the front end for GEMMs. Their parts have no spans.
pub static TEXTS: LazyLock<Texts> = LazyLock::new(|| Texts::read(file::page, keys));

fn keys(text: &str) -> Result<Vec<Arg>, Problem> {
    let mut positions = Text::new(Span::call_site());
    positions.is_page = true;
    let words = Words::read_to(text, positions, &Locations::default());
    words.map(|words| words.args).map_err(|why| Problem::internal(why.to_string()))
}

/// Keys with their values, and the range of each part in the text.
#[derive(Clone, Debug)]
pub struct Words {
    text: String,
    args: Vec<Arg>,
    positions: Text,
}

/// Mistakes in keys, pointed at in their text. Printing it shows everything.
#[derive(Clone, PartialEq, Eq)]
pub struct Mistakes(String);

impl Mistakes {
    /// Mistakes that have this text.
    pub fn new(text: impl Into<String>) -> Mistakes {
        Mistakes(text.into())
    }
}

impl Words {
    /// Reads keys. `bm=64`, `bm = 64` and `bm = 64,` are the same; a layout is `(128,8):(1,129)` or `layout!(…)`, and
    /// keys of a key are in parentheses, with or without commas.
    ///
    /// ```
    /// use tilewright_parse::words::Words;
    /// let words = Words::read("bm=64 tc=(8,8) schedule=(vec=4) epilogue=|x| max(x, 0.0)")?;
    /// assert_eq!((words.args().len(), words.args()[0].to_string()), (4, "bm = 64".to_owned()));
    ///
    /// let message = Words::read("bm=64 bn").unwrap_err().to_string();
    /// assert_eq!(message, "\
    /// `bn` has no value
    ///   bm=64 bn
    ///         ^^
    /// help: write `bn = …`");
    /// # Ok::<(), tilewright_parse::words::Mistakes>(())
    /// ```
    pub fn read(text: &str) -> Result<Words, Mistakes> {
        Words::read_after(text, &Locations::default())
    }

    /// Reads keys for a kernel that is defined elsewhere, at these locations.
    pub fn read_after(text: &str, elsewhere: &Locations) -> Result<Words, Mistakes> {
        Words::read_to(text, Text::after(elsewhere, Span::call_site().into()), elsewhere)
    }

    fn read_to(text: &str, mut positions: Text, elsewhere: &Locations) -> Result<Words, Mistakes> {
        let mut args = Vec::new();
        match text.parse::<TokenStream>().map(with_commas) {
            Err(why) => {
                let what = "the text from here on is not made of keys";
                positions.wrong(why.span(), what, "close every parenthesis and quotation mark");
            }
            Ok(tokens) => match guard::check(tokens.clone()) {
                Err(refused) => positions.wrong(refused.at, refused.what, refused.instead),
                Ok(()) => args = keys::keys(with_layouts(tokens), &mut positions),
            },
        }
        let problems = std::mem::take(&mut positions.problems);
        let words = Words { text: text.to_owned(), args, positions };
        if problems.is_empty() { Ok(words) } else { Err(words.mistakes(&problems, elsewhere)) }
    }

    /// The keys.
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// Constants and element types of a `#[kernel]`.
    pub fn settings(&mut self, kernel: &Kernel) -> Result<Settings, Vec<Diagnostic>> {
        let set = keys::settings(self.args.clone(), kernel, false, &mut self.positions);
        let mut wrong = std::mem::take(&mut self.positions.problems);
        wrong.extend(set.repeated());
        if wrong.is_empty() { Ok(set) } else { Err(wrong) }
    }

    /// The diagnostics, each with its line and caret marks.
    pub fn mistakes(&self, reported: &[Diagnostic], elsewhere: &Locations) -> Mistakes {
        let errors = reported.iter().filter(|one| one.level == Level::Deny);
        let shown: Vec<String> = errors.map(|one| self.mistake(one, elsewhere)).collect();
        Mistakes(shown.join("\n"))
    }

    fn mistake(&self, reported: &Diagnostic, elsewhere: &Locations) -> String {
        let mut text = reported.message.clone();
        if let Some(tokens) = self.positions.known(reported.span) {
            text += &format!("\n{}", marked(&self.text, &self.range(tokens)));
        } else if reported.span != Definition::NOWHERE
            && let Some(line) = elsewhere.of(reported.span)
        {
            text += &format!("\n  at {line}");
        }
        if let Some(help) = &reported.help {
            text += &format!("\nhelp: {help}");
        }
        text
    }

    /// The part of the text; its end for tokens that are missing.
    fn range(&self, tokens: TokenRange) -> Range<usize> {
        let range = tokens.first.byte_range().start..tokens.last.byte_range().end;
        let end = self.text.trim_end().len();
        if range == (0..0) { end..end } else { range.start..range.end.max(range.start) }
    }
}

impl std::fmt::Display for Mistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// As for people: `unwrap` shows this.
impl std::fmt::Debug for Mistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistakes {}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(other)) if other.as_char() == mark)
}

/// Do these tokens begin with a key: a word and `=`?
fn begins_key(tokens: &[TokenTree]) -> bool {
    matches!(tokens.first(), Some(TokenTree::Ident(_)))
        && is_mark(tokens.get(1), '=')
        && !is_mark(tokens.get(2), '=')
}

/// Does a word after this token begin another key? Words between a closure's values are `as` and `else`.
fn ends_value(token: &TokenTree, next: &TokenTree) -> bool {
    let is_value = matches!(token, TokenTree::Group(_) | TokenTree::Literal(_));
    is_value && matches!(next, TokenTree::Ident(word) if word != "as" && word != "else")
}

/// The tokens of keys with commas between them.
fn with_commas(tokens: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut all: Vec<TokenTree> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_next = all.last().is_some_and(|last| {
            let is_complete = !is_mark(Some(last), ',') && !is_mark(Some(last), '=');
            is_complete && begins_key(&tokens[at..]) || ends_value(last, token)
        });
        if is_next {
            all.push(Punct::new(',', Spacing::Alone).into());
        }
        all.push(token.clone());
    }
    all.into_iter().collect()
}

/// The tokens with `layout!(shape : stride)` for a shape and a stride, and commas between keys in parentheses.
fn with_layouts(tokens: TokenStream) -> TokenStream {
    let mut all: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let is_operand =
            |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Group(_) | TokenTree::Literal(_)));
        if is_mark(Some(&token), ':') && is_operand(all.last()) {
            let stride = tokens.next().map(|stride| within(stride, all.last()));
            if let (Some(stride), Some(shape)) = (stride.clone().filter(|of| is_operand(Some(of))), all.pop())
            {
                let (from, to) = (shape.span(), stride.span());
                let mut layout =
                    Group::new(Delimiter::Parenthesis, [shape, token, stride].into_iter().collect());
                layout.set_span(to);
                let mark = Punct::new('!', Spacing::Alone);
                all.extend([Ident::new("layout", from).into(), mark.into(), layout.into()]);
                continue;
            }
            all.push(token);
            all.extend(stride);
            continue;
        }
        let token = within(token, all.last());
        all.push(token);
    }
    all.into_iter().collect()
}

/// A token after another one; the tokens in it, if it is a group, which are left as they are after `layout!`.
fn within(token: TokenTree, before: Option<&TokenTree>) -> TokenTree {
    let TokenTree::Group(group) = &token else { return token };
    if is_mark(before, '!') {
        return token;
    }
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let are_keys = is_mark(before, '=') && begins_key(&inside);
    let stream = if are_keys { with_commas(group.stream()) } else { group.stream() };
    let mut inner = Group::new(group.delimiter(), with_layouts(stream));
    inner.set_span(group.span());
    inner.into()
}

/// The line, with carets under a part of it. Long lines are truncated on both sides.
fn marked(text: &str, range: &Range<usize>) -> String {
    const BEFORE: usize = 60;
    const LONGEST: usize = 100;
    let flat = |c: char| if c.is_control() { ' ' } else { c };
    let count = |range: &str| range.chars().count();
    let (before, inside) = (count(&text[..range.start]), count(&text[range.clone()]));
    let skipped = if before > BEFORE + 10 { before - BEFORE } else { 0 };
    let mut line: String = text.chars().skip(skipped).take(LONGEST).map(flat).collect();
    if count(text) > skipped + LONGEST {
        line.push('…');
    }
    let dots = if skipped > 0 { "…" } else { "" };
    let indent = " ".repeat(before - skipped + count(dots));
    let carets = "^".repeat(inside.clamp(1, LONGEST));
    format!("  {dots}{}\n  {indent}{carets}", line.trim_end())
}
