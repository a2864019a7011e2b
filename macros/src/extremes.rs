//! Extreme integers in every position of every function, and text of extreme length: the macros accept or refuse them, do not
//! panic, and do not take long. Each such test runs in a separate process, so that its time can be measured.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
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
    "bm = 64, bn = 32, bk = 16, tc = (8, 8), schedule = (ta = (32, 2), tb = layout!((8, 8)), pad = 2), dtype = f64, mma = none",
    "bm = 64, bn = 64, bk = 8, tc = (8, 8, 2), schedule = (values = (2, 2), fragments = 2, vec = 2), stages = 2",
    "dtype = bf16, arch = 90, bm = 128, bn = 128, bk = 64, stages = 3",
    "dtype = bf16, bm = 64, bn = 64, bk = 32, stages = 2, warps = (2, 2), a = k_major, b = k_major",
    "dtype = f16, b_dtype = u4, group_size = 64, zeros = true, arch = 90, bm = 64, bn = 64, a = k_major, b = k_major",
];

/// The replacement of an integer.
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

/// The mistake in an expansion, if there is one.
fn fault(case: &Case, with: &dyn Fn(usize) -> Option<usize>) -> Option<String> {
    let tokens = replaced(case.tokens.clone(), &mut 0, with);
    let start = spent();
    if catch_unwind(AssertUnwindSafe(|| (case.expand)(tokens.clone()))).is_err() {
        return Some(format!("a panic: {tokens}"));
    }
    let took = spent().saturating_sub(start);
    (took > MOST).then(|| format!("{took:.1?}: {tokens}"))
}

/// The processor's time that this process has used, where the system tells it.
fn spent() -> Duration {
    const TICK: u64 = 10;
    let known = std::fs::read_to_string("/proc/self/stat").ok();
    let ticks = known.and_then(|text| {
        let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
        // In user mode, and in the kernel.
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    });
    Duration::from_millis(ticks.unwrap_or(0) * TICK)
}

/// Is this the process of one test? Otherwise starts it, and returns its output where it fails.
fn alone(test: &str, row: &str) -> Option<Result<(), String>> {
    const KEY: &str = "TILEWRIGHT_ALONE";
    match std::env::var(KEY) {
        Ok(key) if key == row => return None,
        // The process of another one.
        Ok(_) => return Some(Ok(())),
        Err(_) => {}
    }
    let test = format!("extremes::{test}");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &test, "--nocapture"]).env(KEY, row);
    let output = command.output().expect("a process");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some(if output.status.success() { Ok(()) } else { Err(format!("{row}: {}", text.concat())) })
}

/// Text that grows with a number: a name, further arguments, and the body of a kernel that copies `x` to `y`.
type Growth = (&'static str, fn(usize) -> String, fn(usize) -> String);

fn none(_: usize) -> String {
    String::new()
}

/// A text for each number.
fn each(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

const GROWTH: &[Growth] = &[
    ("let", none, |n| each(n, |i| format!("let a{i} = {i};"))),
    ("let of one name", none, |n| each(n, |_| "let a = 1;".into())),
    ("let in a block", none, |n| format!("let z = {{ {} a0 }};", each(n, |i| format!("let a{i} = {i};")))),
    ("let of a function", none, |n| {
        format!("map(g, h, |x| {{ {} x }});", each(n, |i| format!("let a{i} = x + {i}.0;")))
    }),
    ("let of long numbers of a function", none, |n| {
        let lets = each(n, |i| format!("let a{i} = x * x + x * {i}.0; let b{i} = a{i} * a{i};"));
        format!("map(g, h, |x| {{ {lets} x }});")
    }),
    ("let of the one before, in a function", none, |n| {
        format!("map(g, h, |x| {{ {} x }});", each(n, |_| "let x = x + 1.0;".into()))
    }),
    ("let of the one before, twice", none, |n| {
        format!("map(g, h, |x| {{ {} x }});", each(n, |_| "let x = x * x;".into()))
    }),
    (
        "let of an argument",
        |_| ", s: f32".into(),
        |n| format!("let s = s; {}", each(n, |_| "let s = s + 1.0;".into())),
    ),
    ("conditions", none, |n| {
        format!("let c = block.x < 1; {}", each(n, |i| format!("let c = c && block.x < {i};")))
    }),
    ("integers", none, |n| format!("let a = block.x; {}", each(n, |_| "let a = a / 2 + a % 3;".into()))),
    (
        "integers of memory",
        |_| ", i: &Tensor<i32, N>".into(),
        |n| {
            let reads = each(n, |at| format!("let a{} = i[(a{at})];", at + 1));
            format!("let a0 = i[(0)]; {reads} copy(g, tile(y, 64, a{n}));")
        },
    ),
    ("tuples", none, |n| format!("let a = (1, 2); {}", each(n, |_| "let a = (a, a);".into()))),
    ("tuple patterns", none, |n| {
        format!("let ({}) = ({});", each(n, |i| format!("a{i},")), each(n, |i| format!("{i},")))
    }),
    ("closures", none, |n| {
        let values = each(n, |i| format!("let a{i} = {i}.0;"));
        format!("{values} {}", each(n, |i| format!("let f{i} = |x| x + a{i};")))
    }),
    ("closures of closures", none, |n| {
        let all = each(n, |i| format!("let f{} = |x| f{i}(x) + 1.0;", i + 1));
        format!("let f0 = |x| x; {all} map(g, h, f{n});")
    }),
    ("closures, called", none, |n| {
        let all = each(n, |i| format!("let f{i} = |x| x + 1.0;"));
        format!("{all} map(g, h, |x| {{ {} x }});", each(n, |i| format!("let x = f{i}(x);")))
    }),
    ("arguments", |n| each(n, |i| format!(", s{i}: f32")), none),
    ("tensors", |n| each(n, |i| format!(", t{i}: &Tensor<f32, N>")), none),
    ("at_most", none, |n| each(n, |i| format!("at_most(N, {});", 100_000 + i))),
    ("assert", none, |n| each(n, |i| format!("assert(N % {} == 0);", i % 50 + 1))),
    ("views", none, |n| each(n, |i| format!("let v{i} = tile(x, 64, block.x);"))),
    ("views of views", none, |n| format!("let v = g; {}", each(n, |_| "let v = shift(v, 1);".into()))),
    ("shared tiles", none, |n| each(n, |i| format!("let s{i} = shared::<f32>(4); fill(s{i}, 1.0);"))),
    ("statements", none, |n| each(2 * n, |_| "copy(g, h);".into())),
    ("conditional statements", none, |n| each(n, |i| format!("if block.x == {i} {{ copy(g, h); }}"))),
    ("arithmetic on tiles", none, |n| {
        format!("let mut a = full::<f32>(64, 0.0); {} copy(a, h);", each(n, |_| "a += g;".into()))
    }),
    ("unroll without a body", none, |_| "for i in unroll(0..2147483648) {}".into()),
    ("unroll of let", none, |_| "for i in unroll(0..900000) { let z = i; }".into()),
    ("unroll of views", none, |_| "for i in unroll(0..900000) { let v = tile(x, 64, i); }".into()),
    ("unroll of layouts", none, |_| {
        "for i in unroll(0..900000) { let l = zipped_divide(layout!((32, 8)), (4, 2)); }".into()
    }),
    ("unroll of unroll", none, |_| {
        "for i in unroll(0..30000) { for j in unroll(0..30000) { let z = i + j; } }".into()
    }),
    ("unknown names", none, |n| each(n, |i| format!("let a{i} = b{i};"))),
    ("unknown functions", none, |n| each(n, |i| format!("f{i}(x);"))),
    ("unknown names among many", none, |n| {
        format!("{} {}", each(n, |i| format!("let a{i} = 1;")), each(n, |i| format!("let b{i} = c{i};")))
    }),
];

/// How long the text of a row is.
const MANY: usize = 950;

#[test]
fn growth_is_bounded() {
    let mut faults = Vec::new();
    for &(name, args, body) in GROWTH {
        match alone("growth_is_bounded", name) {
            Some(done) => faults.extend(done.err()),
            None => {
                let text = format!(
                    "fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>{}) {{ let (g, h) = (tile(x, 64, block.x), tile(y, 64, block.x)); {} copy(g, h); }}",
                    args(MANY),
                    body(MANY)
                );
                let tokens: TokenStream = text.parse().expect("tokens");
                let start = spent();
                function::expand(TokenStream::new(), tokens, None);
                let took = spent().saturating_sub(start);
                assert!(took <= MOST, "{took:.1?}");
                return;
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n\n"));
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
    if let Some(done) = alone("extreme_integers_are_answered", "integers themselves") {
        return done.unwrap();
    }
    let mut faults = Vec::new();
    for case in cases() {
        for range in 0..integers(&case.tokens) {
            for extreme in 0..EXTREMES.len() {
                faults.extend(fault(&case, &|at| (at == range).then_some(extreme)));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n\n"));
}

proptest! {
    /// Several at once.
    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_extreme_integers(case: usize, positions in prop::collection::vec((any::<usize>(), 0..EXTREMES.len()), 1..4)) {
        let cases = cases();
        let case = &cases[case % cases.len()];
        let count = integers(&case.tokens).max(1);
        let with = |at: usize| positions.iter().find(|(range, _)| range % count == at).map(|(_, extreme)| *extreme);
        prop_assert_eq!(fault(case, &with), None);
    }
}
