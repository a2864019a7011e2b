//! The text of a file: its kernel, and the functions for kernels beside it. Other items are left out, as macros never see them.

use crate::device::{self, used_by};
use crate::function;
use crate::text::{Text, TokenRange};
use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use tilewright_front::evaluate;
use tilewright_program::ast::{Device, Kernel};
use tilewright_program::problem::Problem;

/// Parses the text of a file with one kernel; errors are recorded in the result.
///
/// ```
/// use tilewright_parse::file::read;
/// let (kernel, text) = read("#[kernel]\nfn fill(x: &mut Tensor<f32, N>) { copy(full::<f32>(4, 0.0), x) }");
/// assert_eq!((kernel.unwrap().name.text.as_str(), text.problems.len()), ("fill", 0));
///
/// let (_, text) = read("#[kernel]\nfn fill(x: f32) -> f32 {}");
/// let problem = &text.problems[0];
/// assert_eq!(text.tokens_of(problem.span).first.start().line, 2);
/// assert!(problem.text().starts_with("a kernel has no result\nhelp: "));
/// ```
pub fn read(source: &str) -> (Option<Kernel>, Text) {
    read_as(source, false)
}

/// The function of one of the generator's own pages, whose parts have no spans.
pub fn page(source: &str) -> Result<Kernel, Problem> {
    let (kernel, text) = read_as(source, true);
    let wrong = text.problems.into_iter().next().map(|problem| problem.message);
    kernel.filter(|_| wrong.is_none()).ok_or_else(|| Problem::internal(wrong.unwrap_or_default()))
}

fn read_as(source: &str, is_page: bool) -> (Option<Kernel>, Text) {
    let tokens = match source.parse::<TokenStream>() {
        Ok(tokens) => tokens,
        Err(why) => {
            return refused(
                why.span(),
                "the text from here on is not Rust",
                "close every bracket and quotation mark",
            );
        }
    };
    let items = items(tokens);
    let mut kernels = items.iter().filter(|item| item.kind == Kind::Kernel);
    let Some(kernel) = kernels.next() else {
        let end = items.last().map_or(Span::call_site(), |item| item.whole.first);
        return refused(end, "there is no kernel", "write `#[kernel]` above a function");
    };
    if let Some(second) = kernels.next() {
        return refused(second.whole.first, "this is a second kernel", "leave one kernel in the text");
    }
    let Some(name) = &kernel.name else {
        return refused(kernel.whole.first, "this is not a function", "write `#[kernel]` above a `fn`");
    };
    let mut text = Text::new(name.span());
    text.is_page = is_page;
    let tree = function::read(kernel.attr.clone(), kernel.tokens.clone(), &mut text);
    let devices = devices(kernel, &items, &mut Vec::new(), &mut text);
    (tree.map(|tree| Kernel { devices, ..tree }), text)
}

fn refused(at: impl Into<TokenRange>, what: &str, instead: &str) -> (Option<Kernel>, Text) {
    let at = at.into();
    let mut text = Text::new(at);
    text.wrong(at, what, instead);
    (None, text)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Kernel,
    Device,
    Other,
}

/// An item, as the compiler hands it to a macro.
struct Item {
    kind: Kind,
    /// The arguments of the attribute.
    attr: TokenStream,
    /// Without the attribute.
    tokens: TokenStream,
    whole: TokenRange,
    /// Of a function.
    name: Option<Ident>,
}

/// The items of a file. Each ends with a semicolon, or with a block that is in no list of parameters.
fn items(tokens: TokenStream) -> Vec<Item> {
    let (mut items, mut item) = (Vec::new(), Vec::new());
    let (mut angles, mut arrow) = (0, false);
    for token in tokens {
        let (mut ends, mut dash) = (false, false);
        match &token {
            TokenTree::Punct(mark) => match mark.as_char() {
                '<' => angles += 1,
                '>' if !arrow => angles -= 1,
                ';' => ends = true,
                mark => dash = mark == '-',
            },
            TokenTree::Group(group) => ends = group.delimiter() == Delimiter::Brace && angles == 0,
            _ => {}
        }
        arrow = dash;
        item.push(token);
        if ends {
            angles = 0;
            items.extend(Item::new(std::mem::take(&mut item)));
        }
    }
    items.extend(Item::new(item));
    items
}

impl Item {
    fn new(tokens: Vec<TokenTree>) -> Option<Item> {
        let whole = TokenRange { first: tokens.first()?.span(), last: tokens.last()?.span() };
        let mut item = Item {
            kind: Kind::Other,
            attr: TokenStream::new(),
            tokens: TokenStream::new(),
            whole,
            name: None,
        };
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let attribute = match (&token, tokens.peek()) {
                (TokenTree::Punct(mark), Some(TokenTree::Group(group))) if mark.as_char() == '#' => {
                    attribute(group.stream())
                }
                _ => None,
            };
            if let Some((kind, attr)) = attribute {
                (item.kind, item.attr) = (kind, attr);
                tokens.next();
                continue;
            }
            if let (TokenTree::Ident(word), Some(TokenTree::Ident(name)), None) =
                (&token, tokens.peek(), &item.name)
                && word == "fn"
            {
                item.name = Some(name.clone());
            }
            item.tokens.extend([token]);
        }
        Some(item)
    }
}

/// The kind and the arguments of `kernel(…)` or `tilewright::device`.
fn attribute(tokens: TokenStream) -> Option<(Kind, TokenStream)> {
    let (mut last, mut arguments) = (None, TokenStream::new());
    for token in tokens {
        match token {
            TokenTree::Ident(word) => last = Some(word),
            TokenTree::Group(group) => arguments = group.stream(),
            TokenTree::Punct(mark) if mark.as_char() == ':' => {}
            _ => return None,
        }
    }
    match last?.to_string().as_str() {
        "kernel" => Some((Kind::Kernel, arguments)),
        "device" => Some((Kind::Device, arguments)),
        _ => None,
    }
}

/// The functions that an item uses; `users` are those that use it.
fn devices(item: &Item, items: &[Item], users: &mut Vec<String>, text: &mut Text) -> Vec<Device> {
    let mut devices = Vec::new();
    for used in used_by(&item.tokens, item.kind == Kind::Device).unwrap_or_default() {
        let Some(TokenTree::Ident(last)) = used.path.into_iter().last() else { continue };
        let path = last.to_string();
        let is_named = |item: &&Item| item.name.as_ref().is_some_and(|name| *name == path);
        let Some(function) = items.iter().filter(|item| item.kind == Kind::Device).find(is_named) else {
            let what = format!("the text has no function `{path}` for kernels");
            text.wrong(last.span(), what, &format!("write `#[device] fn {path}(…)` above the kernel"));
            continue;
        };
        if users.contains(&path) {
            let Problem { message, help, .. } = evaluate::recursive(&path);
            text.wrong(last.span(), message, &help.unwrap_or_default());
            continue;
        }
        users.push(path);
        devices.extend(
            device(function, items, users, text)
                .map(|device| Device { name: text.name(&used.name), ..device }),
        );
        users.pop();
    }
    devices
}

fn device(item: &Item, items: &[Item], users: &mut Vec<String>, text: &mut Text) -> Option<Device> {
    let function = device::function(&item.attr, item.tokens.clone(), text)?;
    let inner = devices(item, items, users, text);
    let device = device::read(&function, inner, text).filter(|_| text.problems.is_empty())?;
    text.problems = evaluate::device(&device);
    Some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message with its line and its columns.
    #[track_caller]
    fn check(source: &str, expected: &[&str]) {
        let (_, text) = read(source);
        let message = |problem: &tilewright_program::diagnostic::Diagnostic| {
            let at = text.tokens_of(problem.span);
            let (from, to) = (at.first.start(), at.last.end());
            format!("{}:{}-{}: {}", from.line, from.column, to.column, problem.text().replace('\n', "; "))
        };
        assert_eq!(text.problems.iter().map(message).collect::<Vec<_>>(), expected, "{source}");
    }

    #[test]
    fn items_beside_the_kernel_are_left_out() {
        let (kernel, text) = read(
            "use tilewright::{prelude::*};\nstruct S { x: u8 }\n\
             #[tilewright::kernel(T = f32 | f16, threads = 128)]\n/// Text.\n\
             pub fn k<T, const F: fn(f32) -> f32 = { |x| x }>(x: &Tensor<T, {(N, 4)}>) { copy(x, x) }\nfn main() {}",
        );
        let kernel = kernel.expect("a kernel");
        assert_eq!((text.problems.len(), kernel.consts.len(), kernel.types.len()), (0, 1, 1));
        assert_eq!((kernel.keys.len(), kernel.body.len()), (1, 1));
    }

    #[test]
    fn functions_are_found_by_their_names() {
        let soft = "#[device]\nfn soft(x: f32) -> f32 { x / (1.0 + abs(x)) }\n";
        let twice = "#[device]\nfn twice(x: f32) -> f32 {\nuse self::soft; soft(soft(x)) }\n";
        let kernel = "#[kernel]\nfn k(x: f32) {\nuse self::{twice, soft as s}; f(twice(x), s(x)) }";
        let (tree, text) = read(&format!("{kernel}{twice}{soft}"));
        assert!(text.problems.is_empty(), "{:?}", text.problems);
        let devices = tree.unwrap().devices;
        let names: Vec<_> = devices.iter().map(|device| (&*device.name.text, device.devices.len())).collect();
        assert_eq!(names, [("twice", 1), ("s", 0)]);
        check(
            &format!("{kernel}{twice}"),
            &[
                "5:10-14: the text has no function `soft` for kernels; help: write `#[device] fn soft(…)` above the kernel",
                "3:18-22: the text has no function `soft` for kernels; help: write `#[device] fn soft(…)` above the kernel",
            ],
        );
    }

    #[test]
    fn texts_without_a_kernel_are_refused() {
        check("", &["1:0-0: there is no kernel; help: write `#[kernel]` above a function"]);
        check("\n fn k() {}", &["2:1-3: there is no kernel; help: write `#[kernel]` above a function"]);
        check(
            "#[kernel]\nstruct K;",
            &["1:0-1: this is not a function; help: write `#[kernel]` above a `fn`"],
        );
        check(
            "#[kernel] fn k() {",
            &["1:17-17: the text from here on is not Rust; help: close every bracket and quotation mark"],
        );
        check(
            "#[kernel] fn k() {}\n#[kernel] fn l() {}",
            &["2:0-1: this is a second kernel; help: leave one kernel in the text"],
        );
    }

    #[test]
    fn messages_are_those_of_the_macros_with_their_lines() {
        check(
            "#[kernel]\n\nfn k(x: f32) -> f32 {\n    continue;\n}",
            &[
                "3:16-19: a kernel has no result; help: write the result to a tensor: `c: &mut Tensor<f32, (M, N)>`",
                "4:4-12: an iteration runs to its end; help: put the rest of the loop's body under an `if`",
            ],
        );
        let around = |name: &str, other: &str| {
            format!("#[device] fn {name}(x: f32) -> f32 {{ use self::{other}; {other}(x) }}\n")
        };
        let kernel = "#[kernel] fn k(x: f32) { use self::one; f(one(x)) }";
        let (_, text) = read(&format!("{}{}{kernel}", around("one", "two"), around("two", "one")));
        assert!(text.problems[0].message.contains("one"), "{:?}", text.problems);
    }
}
