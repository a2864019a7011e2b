//! The arguments of `#[kernel(…)]`: element types, levels of lints, keys, alternatives of constants, and whether launches
//! overlap.

use crate::expr::expr;
use crate::space::{self, Entry};
use crate::text::Text;
use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Token, parenthesized};
use tilewright_front::evaluate::KEYS;
use tilewright_program::ast::{Arg, Choice, Level, Name, TypeParam};
use tilewright_program::diagnostic::LINTS;

/// The contents of an attribute.
#[derive(Debug, Default)]
pub struct Attribute {
    /// Element types with their alternatives.
    pub types: Vec<TypeParam>,
    /// Levels of lints.
    pub levels: Vec<(Name, Level)>,
    /// Keys with their values.
    pub keys: Vec<Arg>,
    /// `overlaps` is set.
    pub overlaps: bool,
    /// Constants that a launch chooses.
    pub choices: Vec<Choice>,
    /// It has a separate error: a missing entry may have been meant.
    pub(crate) unreadable: bool,
}

/// One part of it: `T = f32 | f64`, `threads = 128`, `deny(bank_conflicts)`, `overlaps`, `choose(BM in [64, 128])`.
#[allow(clippy::large_enum_variant)]
enum Part {
    Types(Ident, Vec<Ident>),
    Key(Ident, syn::Expr),
    Level(Ident, Vec<Ident>),
    Overlaps(Ident),
    Choose(Vec<Entry>),
}

const PARTS: &str = "write `T = f32 | f64`, `threads = 128`, `arch = 90`, `deny(bank_conflicts)`, `choose(BM in [64, 128])` or `overlaps`";
/// The word that lists values of constants.
const CHOOSE: &str = "choose";
/// The word that lets launches overlap.
const OVERLAPS: &str = "overlaps";

/// Reads the tokens between the parentheses.
pub fn attribute(tokens: TokenStream, text: &mut Text) -> Attribute {
    let mut read = Attribute::default();
    let Some(parts) = text.parse(|input: ParseStream<'_>| parts(input), tokens) else {
        read.unreadable = true;
        return read;
    };
    let mut entries_of_all = Vec::new();
    for part in parts {
        match part {
            Part::Types(name, allowed) => {
                if read.types.iter().any(|earlier| name == earlier.name.text) {
                    text.wrong(name.span(), format!("`{name}` is listed twice"), "list its types once");
                }
                let allowed = allowed.iter().map(|ty| text.name(ty)).collect();
                read.types.push(TypeParam { name: text.name(&name), allowed });
            }
            Part::Key(name, value) => {
                let value = expr(&value, text);
                read.keys.push(Arg { name: Some(text.name(&name)), value });
            }
            Part::Level(word, lints) => {
                let Some(level) = Level::named(&word.to_string()) else {
                    text.wrong(word.span(), format!("`{word}` is not a level"), PARTS);
                    continue;
                };
                read.levels.extend(lints.iter().map(|name| (text.name(name), level)));
            }
            Part::Choose(entries) => entries_of_all.extend(entries),
            Part::Overlaps(word) => {
                if std::mem::replace(&mut read.overlaps, true) {
                    text.wrong(word.span(), format!("`{OVERLAPS}` is given twice"), "remove one of them");
                }
            }
        }
    }
    read.choices = space::choices(entries_of_all, text);
    read
}

fn parts(input: ParseStream<'_>) -> syn::Result<Vec<Part>> {
    let mut parts = Vec::new();
    while !input.is_empty() {
        parts.push(part(input)?);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(parts)
}

fn part(input: ParseStream<'_>) -> syn::Result<Part> {
    let name: Ident = input.parse().map_err(|error| say(&error))?;
    if name == OVERLAPS {
        if input.is_empty() || input.peek(Token![,]) {
            return Ok(Part::Overlaps(name));
        }
        let message =
            format!("`{OVERLAPS}` has no value\nhelp: write `#[kernel({OVERLAPS})]`, or leave it out");
        return Err(syn::Error::new(name.span(), message));
    }
    if name == CHOOSE && input.peek(syn::token::Paren) {
        let inside;
        parenthesized!(inside in input);
        let entries = inside.parse_terminated(Entry::parse, Token![,])?;
        return Ok(Part::Choose(entries.into_iter().collect()));
    }
    if input.peek(syn::token::Paren) {
        let inside;
        parenthesized!(inside in input);
        let lints = inside.parse_terminated(lint_name, Token![,])?;
        return Ok(Part::Level(name, lints.into_iter().collect()));
    }
    if !input.peek(Token![=]) {
        let message = format!("`#[kernel]` has no argument `{name}`\nhelp: {PARTS}");
        return Err(syn::Error::new(name.span(), message));
    }
    input.parse::<Token![=]>()?;
    if KEYS.iter().any(|(key, _)| name == key) {
        return Ok(Part::Key(name, input.parse()?));
    }
    let mut allowed = vec![element_name(input)?];
    while input.parse::<Option<Token![|]>>()?.is_some() {
        allowed.push(element_name(input)?);
    }
    Ok(Part::Types(name, allowed))
}

fn element_name(input: ParseStream<'_>) -> syn::Result<Ident> {
    input.parse().map_err(|error: syn::Error| {
        syn::Error::new(
            error.span(),
            "this is not an element type\nhelp: list them by their names, `T = f32 | f64`; numbers are for `threads` and `arch`",
        )
    })
}

fn lint_name(input: ParseStream<'_>) -> syn::Result<Ident> {
    input.parse().map_err(|error: syn::Error| {
        let first = LINTS.first().map_or("", |lint| lint.name);
        syn::Error::new(error.span(), format!("this is not a lint\nhelp: write its name, such as `{first}`"))
    })
}

fn say(error: &syn::Error) -> syn::Error {
    syn::Error::new(error.span(), format!("this is not an argument of `#[kernel]`\nhelp: {PARTS}"))
}
