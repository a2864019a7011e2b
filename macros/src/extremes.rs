//! Extreme integers in every position of every function: the macros answer or refuse, they never panic, and they never
//! take long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::{function, matmul};
use proc_macro2::{Group, TokenStream, TokenTree};
use proptest::prelude::*;
use quote::ToTokens;
use tilewright_codegen::evaluate::FUNCTIONS;

/// Kernels that call every function.
const KERNELS: &str = include_str!("../fuzz/functions.rs");

/// Keys of products with integers in them.
const PRODUCTS: &[&str] = &[
    "bm = 64, bn = 32, bk = 16, tc = (8, 8), ta = (32, 2), tb = layout!((8, 8)), dtype = f64, pad = 2",
    "bm = 64, bn = 64, bk = 8, tc = (8, 8, 2), values = (2, 2), stages = 2, fragments = 2, vec = 2",
    "dtype = bf16, arch = 90, bm = 128, bn = 128, bk = 64, stages = 3",
    "dtype = bf16, bm = 64, bn = 64, bk = 32, stages = 2, warps = (2, 2), a = k_major, b = k_major",
    "dtype = f16, b_dtype = u4, group_size = 64, zeros = true, arch = 90, bm = 64, bn = 64, a = k_major, b = k_major",
];

/// What replaces an integer.
const EXTREMES: &[&str] = &[
    "0",
    "-1",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
];

/// The most time of the processor that an expansion takes, in an unoptimised build.
const MOST: Duration = Duration::from_secs(2);

/// Is it an integer, as a literal or as `_1` in a type?
fn is_integer(token: &TokenTree) -> bool {
    match token {
        TokenTree::Literal(literal) => literal.to_string().bytes().all(|byte| byte.is_ascii_digit()),
        TokenTree::Ident(name) => {
            let name = name.to_string();
            name.len() > 1 && name.starts_with('_') && name[1..].bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}

/// The tokens with integers replaced by what the function returns for their numbers, and the number of integers from
/// `at` on.
fn replaced(tokens: TokenStream, at: &mut usize, with: &dyn Fn(usize) -> Option<usize>) -> TokenStream {
    let mut made = TokenStream::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let inner = replaced(group.stream(), at, with);
                made.extend([TokenTree::from(Group::new(group.delimiter(), inner))]);
            }
            token if is_integer(&token) => {
                match with(*at) {
                    Some(extreme) if matches!(token, TokenTree::Ident(_)) => {
                        let text = EXTREMES[extreme].trim_start_matches('-').trim_start_matches('(');
                        made.extend(format!("_{text}").parse::<TokenStream>().unwrap_or_default());
                    }
                    Some(extreme) => made.extend(EXTREMES[extreme].parse::<TokenStream>().expect("tokens")),
                    None => made.extend([token]),
                }
                *at += 1;
            }
            token => made.extend([token]),
        }
    }
    made
}

fn integers(tokens: &TokenStream) -> usize {
    let mut count = 0;
    replaced(tokens.clone(), &mut count, &|_| None);
    count
}

/// A source and how it is expanded.
struct Case {
    name: String,
    tokens: TokenStream,
    expand: fn(TokenStream) -> TokenStream,
}

/// The attribute's keys are the first group.
fn kernel(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter();
    let Some(TokenTree::Group(attr)) = tokens.next() else { panic!("the keys of the attribute") };
    function::expand(attr.stream(), tokens.collect(), None)
}

fn product(tokens: TokenStream) -> TokenStream {
    matmul::expand(tokens, None)
}

fn cases() -> Vec<Case> {
    let file = syn::parse_file(KERNELS).expect("functions");
    let functions = file.items.into_iter().map(|item| {
        let syn::Item::Fn(mut item) = item else { panic!("a function") };
        let keys = match item.attrs.remove(0).meta {
            syn::Meta::List(list) => list.tokens,
            _ => TokenStream::new(),
        };
        let name = item.sig.ident.to_string();
        let keys = TokenTree::from(Group::new(proc_macro2::Delimiter::Parenthesis, keys));
        let tokens = std::iter::once(keys).chain(item.into_token_stream()).collect();
        Case { name, tokens, expand: kernel }
    });
    let products = PRODUCTS.iter().map(|keys| Case {
        name: (*keys).into(),
        tokens: keys.parse().expect("tokens"),
        expand: product,
    });
    functions.chain(products).collect()
}

/// What is wrong with an expansion, if anything.
fn fault(case: &Case, with: &dyn Fn(usize) -> Option<usize>) -> Option<String> {
    let tokens = replaced(case.tokens.clone(), &mut 0, with);
    let start = spent();
    if catch_unwind(AssertUnwindSafe(|| (case.expand)(tokens.clone()))).is_err() {
        return Some(format!("a panic: {tokens}"));
    }
    let took = spent().saturating_sub(start);
    (took > MOST).then(|| format!("{took:.1?}: {tokens}"))
}

/// The processor's time that this thread has used, where the system tells it: other processes do not count.
fn spent() -> Duration {
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = known.and_then(|text| text.split_whitespace().next()?.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

#[test]
fn every_function_is_called() {
    for function in FUNCTIONS {
        let called = |mark: &str| KERNELS.contains(&format!("{}{mark}", function.name));
        assert!(called("(") || called("::<"), "no kernel calls `{}`", function.name);
    }
    for case in cases() {
        let made = (case.expand)(case.tokens).to_string();
        assert!(!made.contains("compile_error"), "{}: {made:.1000}", case.name);
    }
}

#[test]
fn extreme_integers_are_answered() {
    let mut faults = Vec::new();
    for case in cases() {
        for place in 0..integers(&case.tokens) {
            for extreme in 0..EXTREMES.len() {
                faults.extend(fault(&case, &|at| (at == place).then_some(extreme)));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n\n"));
}

proptest! {
    /// Several at once.
    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_extreme_integers(case: usize, places in prop::collection::vec((any::<usize>(), 0..EXTREMES.len()), 1..4)) {
        let cases = cases();
        let case = &cases[case % cases.len()];
        let count = integers(&case.tokens).max(1);
        let with = |at: usize| places.iter().find(|(place, _)| place % count == at).map(|(_, extreme)| *extreme);
        prop_assert_eq!(fault(case, &with), None);
    }
}
