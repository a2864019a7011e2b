//! Random text through the macros: code or errors, never a panic. Kernels are mutated as token trees, so that
//! the result still consists of tokens.

use crate::{carry, function, matmul, specialize};
use proc_macro2::{Delimiter, Group, Literal, Spacing, TokenStream, TokenTree};
use proptest::prelude::*;
use quote::quote;
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::wire::{decode, encode};
use tilewright_codegen::{Definition, Generate, Settings};

/// Seed kernels.
const KERNELS: &[&str] = &[
    include_str!("../fuzz/matmul.rs"),
    include_str!("../fuzz/elementwise.rs"),
    include_str!("../fuzz/everything.rs"),
];

const KEYS: &[&str] = &[
    "bm = 128, bn = 128, bk = 8, tc = (16, 16)",
    "bm = 64, bn = 32, bk = 16, tc = (8, 8), schedule = (ta = (32, 2), tb = layout!((8, 8)), pad = 2), dtype = f64, mma = none",
    "a = k_major, b = k_major, c = n_major, stages = 3, schedule = (vec = 4), epilogue = |x| max(x, 0.0), name = relu",
    "alpha_beta = false, schedule = (order = serpentine, sa = layout!((128, 8) : (1, 132))), arch = 80, deny = bank_conflicts",
];

/// Replacements for a token.
const WORDS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "32",
    "128",
    "4096",
    "-1",
    "0.5",
    "9223372036854775807",
    "_",
    "a",
    "k",
    "sa",
    "acc",
    "M",
    "BM",
    "thread",
    "block",
    "x",
    "tile",
    "parallelize",
    "copy",
    "gemm",
    "shared",
    "registers",
    "map",
    "sum",
    "unroll",
    "layout!((4, 8))",
    "layout!((4, 8) : (8, 1))",
    "(1, _)",
    "()",
    "(3, (2, _))",
    "f32",
    "f16",
    "f64",
    "i8",
    "let",
    "for",
    "if",
    "else",
    "in",
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "==",
    "<",
    ">",
    "&",
    "|",
    "!",
    ".",
    "..",
    "::",
    ":",
    ",",
    ";",
    "#",
    "'a",
    "|x| x",
    "{}",
    "[0]",
    "fn",
    "unsafe",
    "match",
    "&mut",
    "as f32",
    "thread.x",
    "\"text\"",
];

/// One mutation: which token, what kind, and the replacement.
type Change = (usize, u8, usize);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<usize>(), 0..6u8, any::<usize>()), 1..6)
}

fn mutate(text: &str, changes: &[Change]) -> TokenStream {
    let mut tokens = text.parse().expect("tokens");
    for (at, kind, with) in changes {
        let mut left = at % count(&tokens).max(1);
        tokens = change(tokens, &mut left, *kind, *with).0;
    }
    tokens
}

fn count(tokens: &TokenStream) -> usize {
    let inner = |token: TokenTree| match token {
        TokenTree::Group(group) => count(&group.stream()),
        _ => 0,
    };
    tokens.clone().into_iter().map(|token| 1 + inner(token)).sum()
}

/// Mutates the token that `left` counts down to; returns whether there is one.
fn change(tokens: TokenStream, left: &mut usize, kind: u8, with: usize) -> (TokenStream, bool) {
    let mut all: Vec<TokenTree> = tokens.into_iter().collect();
    for at in 0..all.len() {
        if *left == 0 {
            let words = || WORDS[with % WORDS.len()].parse::<TokenStream>().expect("tokens");
            let other = with % all.len();
            let replaced: TokenStream = match kind {
                0 => TokenStream::new(),
                1 => words(),
                2 => [all[at].clone(), all[at].clone()].into_iter().collect(),
                3 => words().into_iter().chain([all[at].clone()]).collect(),
                4 => all[other].clone().into(),
                _ => match &all[at] {
                    TokenTree::Group(group) => group.stream(),
                    token => {
                        TokenTree::Group(Group::new(Delimiter::Parenthesis, token.clone().into())).into()
                    }
                },
            };
            all.splice(at..=at, replaced);
            return (all.into_iter().collect(), true);
        }
        *left -= 1;
        if let TokenTree::Group(group) = &all[at] {
            let (stream, done) = change(group.stream(), left, kind, with);
            if done {
                all[at] = Group::new(group.delimiter(), stream).into();
                return (all.into_iter().collect(), true);
            }
        }
    }
    (all.into_iter().collect(), false)
}

/// Random tokens.
fn soup() -> impl Strategy<Value = TokenStream> {
    let leaf = prop_oneof![
        prop::sample::select(WORDS).prop_map(|word| word.parse::<TokenStream>().expect("tokens")),
        any::<i64>().prop_map(|n| TokenTree::from(Literal::i64_unsuffixed(n.saturating_abs())).into()),
        any::<f32>()
            .prop_filter("a literal", |x| x.is_finite() && *x >= 0.0)
            .prop_map(|x| { TokenTree::from(Literal::f32_suffixed(x)).into() }),
        prop::sample::select(&['+', '-', '&', '|', '<', '=', '.', '!'][..])
            .prop_map(|mark| TokenTree::from(proc_macro2::Punct::new(mark, Spacing::Joint)).into()),
        "[a-z]{1,3}".prop_map(|word| format!("r#{word}_").parse().expect("tokens")),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        let brackets = prop::sample::select(
            &[Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None][..],
        );
        (brackets, prop::collection::vec(inner, 0..8)).prop_map(|(brackets, inner)| {
            TokenTree::from(Group::new(brackets, inner.into_iter().collect())).into()
        })
    })
}

/// The expansion must parse as items, or as an expression.
#[track_caller]
fn check_items(tokens: TokenStream) {
    if let Err(error) = syn::parse2::<syn::File>(tokens.clone()) {
        panic!("{error}: {:.300}", tokens.to_string());
    }
}

#[track_caller]
fn check_expr(tokens: TokenStream) {
    if let Err(error) = syn::parse2::<syn::Expr>(tokens.clone()) {
        panic!("{error}: {:.300}", tokens.to_string());
    }
}

fn specialized(settings: TokenStream) -> TokenStream {
    let mut text = crate::text::Text::new(proc_macro2::Span::call_site());
    let item = KERNELS[0].parse().expect("tokens");
    let kernel = function::read(TokenStream::new(), item, &mut text).expect("a kernel");
    let definition = carry::bytes(&Definition::Function(kernel, Settings::default()));
    let locations = carry::bytes(&text.lines());
    specialize::expand(quote!(1 #definition #locations #settings), None)
}

fn mutated_kernel(kernel: usize, changes: &[Change]) {
    check_items(function::expand(TokenStream::new(), mutate(KERNELS[kernel % KERNELS.len()], changes), None));
}

fn mutated_keys(keys: usize, changes: &[Change]) {
    check_expr(matmul::expand(mutate(KEYS[keys % KEYS.len()], changes), None));
}

/// A kernel's encoded definition with some bytes changed; some names are replaced by hostile ones of the same
/// length.
fn mutated_bytes(kernel: usize, changes: &[Change]) -> Vec<u8> {
    let mut text = crate::text::Text::new(proc_macro2::Span::call_site());
    let item = KERNELS[kernel % KERNELS.len()].parse().expect("tokens");
    let kernel = function::read(TokenStream::new(), item, &mut text).expect("a kernel");
    let mut bytes = encode(&Definition::Function(kernel, Settings::default()));
    for (at, kind, with) in changes {
        let at = at % bytes.len().max(1);
        let rest = bytes.len() - at;
        match kind {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, *with as u8),
            2 => bytes[at] = *with as u8,
            3 => bytes[at] = [0, 1, b'\n', b'\\', b'/', b'#', 0x7f, 0xff][with % 8],
            4 => {
                let copied = bytes[at..at + rest.min(1 + with % 64)].to_vec();
                bytes.splice(at..at, copied);
            }
            _ => drop(bytes.drain(at..at + rest.min(with % 16))),
        }
    }
    bytes
}

/// For any bytes the result is a kernel of plain text or a refusal.
#[track_caller]
fn check_bytes(bytes: Vec<u8>) {
    let Some(definition) = decode::<Definition>(&bytes) else { return };
    assert_eq!(decode(&encode(&definition)).as_ref(), Some(&definition), "what is read can be written");
    let Some(kernel) = definition.generate().kernel else { return };
    for variant in kernel.variants {
        let strange = variant.source.chars().find(|c| *c != '\n' && !(' '..='~').contains(c));
        assert_eq!(strange, None, "{}", variant.source);
        let joined = variant.source.lines().find(|line| line.contains("//") && line.ends_with('\\'));
        assert_eq!(joined, None);
    }
}

#[test]
fn what_is_mutated_is_right() {
    for kernel in KERNELS {
        let made = function::expand(TokenStream::new(), kernel.parse().expect("tokens"), None).to_string();
        assert!(!made.contains("compile_error"), "{made:.1000}");
    }
    for keys in KEYS {
        let made = matmul::expand(keys.parse().expect("tokens"), None).to_string();
        assert!(!made.contains("compile_error"), "{made:.1000}");
    }
    let made = specialized("BM = 64, BN = 32".parse().expect("tokens")).to_string();
    assert!(!made.contains("compile_error"), "{made:.1000}");
}

/// The deepest nesting that the guard accepts needs at most half of the compiler's stack, in an unoptimised
/// build.
#[test]
fn the_deepest_that_is_read_fits_the_stack() {
    const HALF: usize = 4 << 20;
    let shapes = [
        ("(", ")"),
        ("f(1, ", ")"),
        ("[", "]"),
        ("{ ", "}"),
        ("-", ""),
        ("&", ""),
        ("|x| ", ""),
        ("x = ", ""),
        ("x.f(|y| ", ")"),
        ("x[(_, ", ")]"),
        ("if x {} else ", ""),
        ("if x { ", "}"),
        ("for k in 0..n { ", "}"),
        ("match x { _ => ", "}"),
        ("layout!(", ")"),
        ("f::<A<", ">>(x)"),
        ("1 + ", ""),
        ("a || b && c == d | e ^ f & g << h + i * -(", ")"),
        ("role(x, || { ", "})"),
    ];
    for (open, close) in shapes {
        // The deepest nesting of this shape that the guard accepts.
        let text = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        let accepted = |n: &usize| crate::guard::check(text(*n).parse().expect("tokens")).is_ok();
        let text = text((1..1100).take_while(accepted).last().unwrap_or(1));
        let read = move || {
            let item = format!("fn f(x: &Tensor<f32, {text}>) {{ let x = {text}; {text} }}");
            check_items(function::expand(TokenStream::new(), item.parse().expect("tokens"), None));
            check_expr(matmul::expand(format!("bm = {text}").parse().expect("tokens"), None));
        };
        let thread = std::thread::Builder::new().stack_size(HALF).spawn(read).expect("a thread");
        assert!(thread.join().is_ok(), "{open}");
    }
}

/// Carried bytes are never trusted.
#[test]
fn foreign_bytes_are_refused() {
    let good = carry::bytes(&Locations::default());
    for tokens in [quote!(), quote!(1), quote!(1 b"" b""), quote!(1 b"\xff\xff\xff" #good), quote!(#good 1 2)]
    {
        let message = specialize::expand(tokens, None).to_string();
        assert!(message.contains("another version"), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn kernels_survive_a_few_changes(kernel: usize, changes in changes()) {
        mutated_kernel(kernel, &changes);
    }

    #[test]
    fn bytes_survive_a_few_changes(kernel: usize, changes in changes()) {
        check_bytes(mutated_bytes(kernel, &changes));
    }

    #[test]
    fn keys_survive_a_few_changes(keys: usize, changes in changes()) {
        mutated_keys(keys, &changes);
    }
}

proptest! {
    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_mutated_kernels(kernel: usize, changes in changes()) {
        mutated_kernel(kernel, &changes);
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_mutated_bytes(kernel: usize, changes in changes()) {
        check_bytes(mutated_bytes(kernel, &changes));
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_mutated_keys(keys: usize, changes in changes()) {
        mutated_keys(keys, &changes);
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_random_attributes(attr in soup(), kernel: usize) {
        let item = KERNELS[kernel % KERNELS.len()].parse().expect("tokens");
        check_items(function::expand(attr, item, None));
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_random_functions(item in soup(), body in prop::collection::vec(soup(), 0..6)) {
        check_items(function::expand(TokenStream::new(), item, None));
        check_items(function::expand(TokenStream::new(), quote!(pub fn f(a: &Tensor<f32, M>) { #(#body)* }), None));
        check_items(function::expand(TokenStream::new(), quote!(fn f() { #(let x = #body;)* }), None));
        check_items(function::expand(TokenStream::new(), quote!(fn f(#(a: #body),*) {}), None));
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_random_keys(keys in prop::collection::vec(soup(), 0..6)) {
        check_expr(matmul::expand(quote!(#(#keys)*), None));
        check_expr(matmul::expand(quote!(#(bm = #keys),*), None));
        check_expr(specialized(quote!(#(#keys)*)));
        check_expr(specialized(quote!(#(BM = #keys),*)));
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_random_levels(text in ".*", words in soup()) {
        for lints in [text, words.to_string()] {
            check_expr(matmul::expand(TokenStream::new(), Some(&lints)));
        }
    }
}
