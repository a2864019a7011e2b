//! The messages of the macros as one table: a kernel with a mistake, the tokens that each message underlines, and the message
//! with its remedy. `cargo xtask snapshots` rewrites the messages. `tests/compile_fail` shows some as the compiler does.
//!
//! In the files of `macros/messages` a case is a text, a line `----`, and its messages; a line `====` ends it. The text is a
//! whole file that begins with a comment, a kernel without its attribute, the call of `matmul_kernel!`, or the body of the kernel that begins with [`HEAD`].

use crate::{device, matmul};
use proc_macro2::{Group, LineColumn, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The head of the bodies, with the names that most of them need.
const HEAD: &str = "fn k<const B: usize = 32>(a: &Tensor<f32, (M, N)>, b: &mut Tensor<f32, (M, N)>, alpha: f32) {\n\
    let t = layout!((32, 8));\n\
    let from = parallelize(tile(a, (B, 8), (block.x, block.y)), t, thread.x);\n\
    let to = parallelize(tile(b, (B, 8), (block.x, block.y)), t, thread.x);\n";

/// A text as tokens that rustc could read: bodies have their head.
pub(crate) fn completed(text: &str) -> String {
    match ["//", "fn ", "unsafe fn ", "matmul_kernel!"].iter().any(|start| text.starts_with(start)) {
        true => text.to_owned(),
        false => format!("{HEAD}{text}\n}}"),
    }
}

/// The messages for a text, with the tokens that each one underlines.
pub(crate) fn messages(text: &str) -> String {
    let source = completed(text);
    let Ok(tokens) = source.parse::<TokenStream>() else { return "rustc cannot read the tokens\n".into() };
    let mut messages = Messages { source: &source, text: String::new() };
    if source.starts_with("//") {
        messages.read_file();
    } else if source.starts_with("matmul_kernel!") {
        messages.read_products(tokens);
    } else {
        messages.read(device::User::new("kernel", TokenStream::new(), tokens).expand(None));
    }
    messages.text
}

struct Messages<'s> {
    source: &'s str,
    text: String,
}

impl Messages<'_> {
    /// The kernels and products of a whole file, expanded.
    fn read_file(&mut self) {
        let Ok(file) = syn::parse_file(self.source) else { return };
        let mut devices = BTreeMap::new();
        for item in file.items {
            if let syn::Item::Fn(function) = &item
                && let Some((at, kind)) = function.attrs.iter().enumerate().find_map(|(at, attr)| {
                    let kinds = ["kernel", "device"].into_iter();
                    kinds.filter(|kind| attr.path().is_ident(kind)).map(|kind| (at, kind)).next()
                })
            {
                let mut function = function.clone();
                let attr = match function.attrs.remove(at).meta {
                    syn::Meta::List(list) => list.tokens,
                    _ => TokenStream::new(),
                };
                let name = function.sig.ident.to_string();
                let user = device::User::new(kind, attr, function.into_token_stream());
                let expanded = expanded(user.expand(None), &devices);
                if kind == "device" {
                    devices.extend(definition(expanded.clone()).map(|bytes| (name, bytes)));
                }
                self.read(expanded);
            }
            self.read_products(item.into_token_stream());
        }
    }

    /// `matmul_kernel!(…)` anywhere in the tokens.
    fn read_products(&mut self, tokens: TokenStream) {
        let all: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in all.iter().enumerate() {
            let TokenTree::Group(group) = token else { continue };
            let named = at >= 2 && matches!(&all[at - 2], TokenTree::Ident(name) if name == "matmul_kernel");
            match named {
                true => self.read(matmul::expand(Group::stream(group), None)),
                false => self.read_products(group.stream()),
            }
        }
    }

    /// The errors of an expansion, `compile_error!(…)`, and its warnings: uses of a deprecated macro.
    fn read(&mut self, tokens: TokenStream) {
        let mut note = None;
        let mut last: Option<proc_macro2::Ident> = None;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => last = Some(name),
                TokenTree::Punct(_) => {}
                TokenTree::Literal(_) => last = None,
                TokenTree::Group(group) => {
                    let name = last.take();
                    match name.as_ref().map(ToString::to_string).as_deref() {
                        Some("compile_error") => {
                            if let (Some(name), Ok(text)) =
                                (&name, syn::parse2::<syn::LitStr>(group.stream()))
                            {
                                self.write("error", name.span(), text.span(), &text.value());
                            }
                        }
                        // `#[deprecated(note = "…")] macro_rules! lint { … } lint! {}`
                        Some(lint) if note.is_some() && group.stream().is_empty() => {
                            let (span, text): (Span, String) =
                                (name.as_ref().expect("a name").span(), note.take().unwrap_or_default());
                            self.write(lint, span, span, &text);
                        }
                        _ => match deprecated(&group) {
                            Some(text) => note = Some(text),
                            None => self.read(group.stream()),
                        },
                    }
                }
            }
        }
    }

    fn write(&mut self, level: &str, first: Span, last: Span, text: &str) {
        let underlined = between(self.source, first.start(), last.end());
        let _ = writeln!(self.text, "{level} at `{underlined}`: {text}");
    }
}

/// The note of the attribute `[deprecated(note = "…")]`.
fn deprecated(group: &Group) -> Option<String> {
    let mut tokens = group.stream().into_iter();
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(note))) = (tokens.next(), tokens.next()) else {
        return None;
    };
    let text = note.stream().into_iter().last().filter(|_| name == "deprecated")?;
    syn::parse2::<syn::LitStr>(text.into()).ok().map(|text| text.value())
}

/// The user of functions, once all of them have been fetched.
fn expanded(mut tokens: TokenStream, devices: &BTreeMap<String, TokenTree>) -> TokenStream {
    loop {
        let all: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let [.., TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Group(user)] = &all[..] else {
            return tokens;
        };
        let Some(definition) = devices.get(&name.to_string()) else { return tokens };
        let user = user.stream();
        tokens = device::with(quote!(#definition #user), None);
    }
}

/// The definition that the macro of a function hands to its users.
fn definition(tokens: TokenStream) -> Option<TokenTree> {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    let named = |at: usize| matches!(&all[at], TokenTree::Ident(name) if name == "__with_device");
    all.iter().enumerate().find_map(|(at, token)| match token {
        TokenTree::Group(group) if at >= 2 && named(at - 2) => group.stream().into_iter().next(),
        TokenTree::Group(group) => definition(group.stream()),
        _ => None,
    })
}

/// The text from one position to another.
fn between(source: &str, from: LineColumn, to: LineColumn) -> String {
    let byte = |at: LineColumn| {
        let line = source.split_inclusive('\n').take(at.line.saturating_sub(1)).map(str::len).sum::<usize>();
        let rest = &source[line..];
        line + rest.char_indices().nth(at.column).map_or(rest.len(), |(byte, _)| byte)
    };
    source.get(byte(from)..byte(to)).unwrap_or_default().to_owned()
}

#[test]
fn every_mistake_is_answered() {
    // Internal names of the generator, and operations that the user did not write.
    const OURS: [&str; 8] = ["Tuple", "View", "Value", "Expr", "None", "Some(", "@0", "divide of"];
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("messages");
    // A published crate comes without them.
    let Ok(files) = std::fs::read_dir(folder) else { return };
    let mut wrong = String::new();
    for file in files.map(|file| file.unwrap().path()) {
        let table = std::fs::read_to_string(&file).unwrap();
        let mut rewritten = Vec::new();
        for case in table.split("\n====\n") {
            let (text, expected) = case.split_once("\n----\n").expect("a line `----`");
            let messages = messages(text);
            if messages.is_empty() {
                let _ = writeln!(wrong, "{text}\nno message");
            }
            for one in messages.split("error at ").skip(1) {
                let remedy = one.contains("\nhelp: ") || one.contains(". Write ");
                // Whole files also have messages that only name what differs.
                if text.starts_with("//") {
                    continue;
                }
                // The pattern that kernels may write.
                let shown = one.replace("if let Some(x)", "");
                if !remedy || OURS.iter().any(|name| shown.contains(name)) {
                    let _ = writeln!(wrong, "{text}\nwithout a remedy, or with a name of ours: {one}");
                }
            }
            if messages != expected && !bless {
                let _ = writeln!(wrong, "=== {text}\n--- expected\n{expected}--- reported\n{messages}");
            }
            rewritten.push(format!("{text}\n----\n{messages}"));
        }
        if bless {
            std::fs::write(file, rewritten.join("\n====\n")).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}`cargo xtask snapshots` accepts what is reported");
}

/// Prints the messages about the files of a folder: `TILEWRIGHT_KERNELS=folder cargo test -p tilewright-macros of_a_folder --
/// --ignored --nocapture`.
#[test]
#[ignore = "prints messages, to be read"]
fn messages_of_a_folder() {
    let folder = std::env::var("TILEWRIGHT_KERNELS").expect("a folder");
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        println!("=== {}\n{}", file.display(), messages(&format!("// {}\n{text}", file.display())));
    }
}
