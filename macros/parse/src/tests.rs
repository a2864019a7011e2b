//! Text to trees, and text to messages.

use crate::text::Text;
use crate::{compact, function, keys};
use proc_macro2::{Span, TokenStream};
use tilewright_program::diagnostic::Diagnostic;
use tilewright_program::wire::{decode, encode};

/// The kernel of this text, or its messages; every line with the text that it underlines.
fn read(attr: &str, item: &str) -> String {
    let mut text = Text::new(Span::call_site());
    let kernel = function::read(tokens(attr), tokens(item), &mut text);
    let reported = reported(&text);
    match kernel {
        Some(kernel) if reported.is_empty() => {
            assert_eq!(decode(&encode(&kernel)).as_ref(), Some(&kernel), "the tree survives its encoding");
            compact::kernel(&kernel)
        }
        _ => reported,
    }
}

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("tokens")
}

fn reported(text: &Text) -> String {
    let one = |problem: &Diagnostic| {
        let tokens = text.tokens_of(problem.span);
        let (from, to) = (tokens.first.start(), tokens.last.end());
        format!("{}-{}: {}", from.column, to.column, problem.text().replace('\n', "; "))
    };
    text.problems.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Statements.
#[track_caller]
fn body(text: &str, expected: &str) {
    assert_eq!(read("", &format!("fn f() {{ {text} }}")), format!("fn f() {{ {expected} }}"));
}

/// One expression.
#[track_caller]
fn value(text: &str, expected: &str) {
    body(&format!("let x = {text};"), &format!("let x = {expected};"));
}

/// A kernel's head.
#[track_caller]
fn head(attr: &str, text: &str, expected: &str) {
    assert_eq!(read(attr, &format!("{text} {{}}")), expected);
}

/// An error in an expression: the underlined text, and the message.
#[track_caller]
fn wrong(text: &str, underlined: &str, expected: &str) {
    check_wrong("", &format!("fn f() {{ {text} }}"), underlined, expected);
}

#[track_caller]
fn check_wrong(attr: &str, item: &str, underlined: &str, expected: &str) {
    let reported = read(attr, item);
    let (columns, message) = reported.split_once(": ").unwrap_or(("", &reported));
    let (from, to) = columns.split_once('-').unwrap_or_default();
    let (from, to) = (from.parse().unwrap_or(0), to.parse().unwrap_or(0));
    let text = if attr.contains(underlined) && !item.contains(underlined) { attr } else { item };
    assert_eq!((text.get(from..to).unwrap_or_default(), message), (underlined, expected), "{item}");
}

#[test]
fn expressions() {
    value("a + b * c", "(a + (b * c))");
    value("-a * !b", "((-a) * (!b))");
    value("(BM + 1)", "(BM + 1)");
    value("a && b || c & d", "((a & b) | (c & d))");
    value("a << 2 >> 1 ^ 7 % 3 / 1", "(((a << 2) >> 1) ^ ((7 % 3) / 1))");
    value("a <= b", "(a <= b)");
    value("1_000usize", "1000");
    value("0x10", "16");
    value("1.5e3", "1500.0");
    value("2f32", "(2 as f32)");
    value("0.5f16", "(0.5 as f16)");
    value("\"text\"", "\"text\"");
    value("true", "true");
    value("()", "()");
    value("(1,)", "(1,)");
    value("[1, 2]", "(1, 2)");
    value("(_, _, k)", "(_, _, k)");
    value("_1", "1");
    value("f32::MAX", "f32::MAX");
    value("&mut acc", "acc");
    value("x as f16", "(x as f16)");
    value("0..n", "0..n");
    value("0..=n", "0..(n + 1)");
    value("|x, (y, _)| x + y", "|x, (y, _)| (x + y)");
    value("|x| { x }", "|x| x");
    value(
        "|x| { let y = x * x; let (a, b) = (y, 1.0); a + b }",
        "|x| { let y = (x * x); let (a, b) = (y, 1.0); (a + b) }",
    );
    value("if a { let b = 1; b } else { 2 }", "(if a { { let b = 1; b } } else { 2 })");
    value("if x > 0.0 { x } else { 0.0 }", "(if (x > 0.0) { x } else { 0.0 })");
    value("if a { 1 } else if b { 2 } else { 3 }", "(if a { 1 } else { (if b { 2 } else { 3 }) })");
}

#[test]
fn calls() {
    value("tile(a, (BM, BK), (block.x, _))", "tile(a, (BM, BK), (block.x, _))");
    value(
        "shared::<f32>(layout!((BM, BK) : (1, BM + 1)))",
        "shared::<f32>(layout!((BM, BK) : (1, (BM + 1))))",
    );
    value("layout!((32, 8))", "layout!((32, 8))");
    value("layout![32 : 4,]", "layout!(32 : 4)");
    value("tilewright::layout!(8)", "layout!(8)");
    value("ta_ga.size(2)", "ta_ga.size(2)");
    value("ta_ga[(_, _, k)]", "ta_ga[(_, _, k)]");
    value("t.0.1.x", "t.0.1.x");
    value("pipelined(0..n, stages = 4)", "pipelined(0..n, stages = 4)");
    value("map((x, y), |x, y| fma(x, y, 1.0))", "map((x, y), |x, y| fma(x, y, 1.0))");
}

#[test]
fn statements() {
    body("let (a, _) = (b, c);", "let (a, _) = (b, c);");
    body("let mut acc = x;", "let acc = x;");
    body("const PAD: usize = 1 + 2;", "let PAD = (1 + 2);");
    body("copy(a, b);", "copy(a, b);");
    body("copy(a, b)", "copy(a, b);");
    body("acc = x; acc += 2.0; acc <<= 1;", "acc = x; acc += 2.0; acc <<= 1;");
    body("for k in 0..n { copy(a, b); }", "for k in 0..n { copy(a, b); }");
    body("for _ in unroll(0..4) {}", "for _ in unroll(0..4) {}");
    body("if k == 0 { a(); } else if k == 1 { b(); }", "if (k == 0) { a(); } else { if (k == 1) { b(); } }");
    body(
        "role(producer, warps = 1, || { copy(a, b); wait(); });",
        "role(producer, warps = 1) { copy(a, b); wait(); }",
    );
    body("role(producer, || copy(a, b));", "role(producer) { copy(a, b); }");
}

#[test]
fn heads() {
    head("", "fn f()", "fn f() {}");
    head("", "pub(crate) unsafe fn f() -> ()", "unsafe fn f() {}");
    head("", "fn f<const BM: usize = 128, const BN: usize = { 2 }>()", "fn f<BM = 128, BN = 2>() {}");
    head("", "fn f<const BM: usize>()", "fn f<BM>() {}");
    // Numbers instead of a type: braces, or an underscore.
    head("", "fn f(a: &Tensor<f32, {(N, 4)}>)", "fn f(a: &f32(N, 4)) {}");
    head("", "fn f(a: &Tensor<f32, (N, _4), {(ld, 1)}>)", "fn f(a: &f32(N, 4) : (ld, 1)) {}");
    head(
        "T = f32 | f64, deny(bank_conflicts),",
        "fn f<T>(x: T)",
        "fn f<T: f32 | f64>(x: T) {} Deny(bank_conflicts)",
    );
    head("warn(a, b), allow(c)", "fn f()", "fn f() {} Warn(a) Warn(b) Allow(c)");
    head("overlaps", "fn f()", "fn f() {} overlaps");
    head("arch = sm_90, threads = 32 * W", "fn f()", "fn f() {} arch = sm_90 threads = (32 * W)");
    head("overlaps, deny(a),", "fn f()", "fn f() {} Deny(a) overlaps");
    head(
        "choose(M in [1, 2 * 2], (A, B) in [(1, 2)])",
        "fn f<const M: usize, const A: usize, const B: usize>()",
        "fn f<M, A, B>() {} M in [[1], [4]] A, B in [[1, 2]]",
    );
    head(
        "choose(A in 1..=7 step 3, B in [2, 3], C in 8..10, if A * B < 12 && B != 3 || A == 1)",
        "fn f<const A: usize, const B: usize, const C: usize>()",
        "fn f<A, B, C>() {} A, B in [[1, 2], [1, 3], [4, 2]] C in [[8], [9]]",
    );
    head(
        "choose((A, B) in h200::gated_gemm)",
        "fn f<const A: usize, const B: usize>()",
        "fn f<A, B>() {} A, B in [[128, 128], [192, 96], [128, 112], [128, 64], [64, 128], [64, 64], [64, 32]]",
    );
    head("choose(A in h200::gated_gemm)", "fn f<const A: usize>()", "fn f<A>() {} A in [[128], [192], [64]]");
    head("", "fn f(a: &Tensor<f32, (M, K)>)", "fn f(a: &f32(M, K)) {}");
    head("", "fn f(a: &mut Tensor<f32, ((M, _2), K)>)", "fn f(a: &mut f32((M, 2), K)) {}");
    head("", "fn f(a: &Tensor<f32, (M, _8)>)", "fn f(a: &f32(M, 8)) {}");
    head("", "fn f(a: &Tensor<f32, N>)", "fn f(a: &f32N) {}");
    head("", "fn f(a: &Tensor<f32, 128>)", "fn f(a: &f32128) {}");
    head("", "fn f(a: &Tensor<f32, { BM * 2 }>)", "fn f(a: &f32(BM * 2)) {}");
    head("", "fn f(a: &Tensor<f32, layout!((M, N) : (1, ldc))>)", "fn f(a: &f32(M, N) : (1, ldc)) {}");
    head("", "fn f(a: &Tensor<f32, (M, N), (_1, ldc)>)", "fn f(a: &f32(M, N) : (1, ldc)) {}");
    head("", "fn f(a: &tilewright::Tensor<f32, layout!((M, 4))>)", "fn f(a: &f32(M, 4)) {}");
    head("", "fn f(alpha: f32, n: i32)", "fn f(alpha: f32, n: i32) {}");
}

/// Mistakes in bodies: the statement, what is underlined, and the message.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "continue;",
        "continue",
        "an iteration runs to its end; help: put the rest of the loop's body under an `if`",
    ),
    ("let n = loop {};", "loop", "a loop is a statement, not a value; help: write it on a line of its own"),
    (
        "break 1;",
        "break 1",
        "`break` is a statement without a value; help: write `break;` on a line of its own",
    ),
    ("match x {}", "match", "there is no `match` in a kernel; help: write `if … { … } else { … }`"),
    (
        "return;",
        "return",
        "a kernel has no result; help: remove it, or put the remaining statements under an `if`",
    ),
    ("let x: f32 = 1.0;", "f32", "types of values are inferred here; help: leave out the `:` and the type"),
    ("let x;", "let x", "a name needs a value at once; help: write `let x = …;`"),
    (
        "let [a, b] = x;",
        "[a, b]",
        "this pattern has no meaning here; help: write a name, `_`, or a tuple of them",
    ),
    (
        "struct A;",
        "struct",
        "a kernel holds statements and constants only; help: move this out of the kernel; a function of numbers is marked `#[device]` there",
    ),
    (
        "f(1)(2);",
        "f(1)",
        "only functions of the language can be called; help: write the function's name in front of the parentheses",
    ),
    (
        "a::b(1);",
        "a::b",
        "functions of the language are called by their names alone; help: import it, a `#[device]` function by `use` at the top of the kernel, and write `b(…)`",
    ),
    (
        "let x = *y;",
        "*",
        "there is nothing to dereference here; help: leave out the `*`; a power is x * x, or pow(x, 3.0)",
    ),
    (
        "let x = [0.0; 4];",
        "[0.0; 4]",
        "there are no arrays in a kernel; help: write registers::<f32>((8, 8), 0.0), or shared::<f32>(layout!((32, 32))); a list has each of its values, [x, x]",
    ),
    ("let x = y?;", "?", "there are no errors to propagate in a kernel; help: leave out the `?`"),
    (
        "let x = a[..];",
        "..",
        "a range needs both its ends here; help: write `0..n`; in an index, all of a mode is `_`",
    ),
    (
        "println!(\"x\");",
        "println",
        "`println!` has no meaning in a kernel; help: leave it out; kernel.simulate(…) runs it on the CPU, and results can be printed there",
    ),
    (
        "let x = layout!();",
        "layout!()",
        "this layout has no shape; help: write `layout!((4, 8))` or `layout!((4, 8) : (8, 1))`",
    ),
    (
        "let x = layout!(4 : 1 : 2);",
        ":",
        "a layout is a shape and at most one stride; help: write each in parentheses, with a colon between them: `layout!((4, 8) : (8, 1))`",
    ),
    (
        "let x = x.cast::<f16>();",
        "::<f16>",
        "methods take no types; help: leave them out; an element type is changed with `x as f16`",
    ),
    (
        "{ copy(a, b); }",
        "{",
        "a block of its own has no meaning here; help: write its statements without the braces, or as the last argument of a call: `role(…, || { … })`",
    ),
    (
        "'a: for k in 0..4 {}",
        "'a:",
        "loops have no labels here; help: leave the label out: `break` leaves the innermost loop",
    ),
    ("#[unroll] for k in 0..4 {}", "#[unroll]", "attributes mean nothing here; help: leave it out"),
    ("let x = |y: f32| y;", "f32", "types of values are inferred here; help: leave out the `:` and the type"),
    ("let x = if a { 1 };", "if", "this `if` has no value if its condition is false; help: add an `else`"),
    (
        "let x = 99999999999999999999;",
        "99999999999999999999",
        "this number does not fit into 64 bits; help: write a smaller one",
    ),
    (
        "let x = 1.5e4m3;",
        "1.5e4m3",
        "Rust reads `e4` as the exponent of this number and `m3` as its type; help: write `1.5 as e4m3`",
    ),
    ("let x = 'c';", "'c'", "kernels have no values of this kind; help: write a number"),
    (
        "let x = a.b = c;",
        "=",
        "an assignment is a statement, not a value; help: write it on a line of its own",
    ),
    (
        "shared::<[f32; 4]>(x);",
        "[f32; 4]",
        "this is not an element type; help: write its name alone, such as `f32`, or a type that the attribute lists: `#[kernel(T = f32 | f64)]`",
    ),
    (
        "let x = ((((a.b))).await);",
        "await",
        "a kernel is not asynchronous Rust; help: write `start(copy(…))` and later `wait(…)`",
    ),
];

#[test]
fn mistakes_in_bodies() {
    for (text, underlined, expected) in MISTAKES {
        wrong(text, underlined, expected);
    }
}

#[test]
fn mistakes_in_heads() {
    let wrong = |attr: &str, head: &str, underlined: &str, expected: &str| {
        check_wrong(attr, &format!("{head} {{}}"), underlined, expected);
    };
    const TENSOR: &str =
        "write `&Tensor<f32, (M, K)>`, `&mut Tensor<f32, (M, N)>`, or for a number `alpha: f32`";
    wrong(
        "",
        "fn f(a: Tensor<f32, M>)",
        "Tensor<f32, M>",
        "a kernel borrows its tensors; help: write `&` or `&mut` in front",
    );
    wrong("", "fn f(a: &[f32])", "[f32]", "this is not a tensor; help: write `&Tensor<f32, N>`");
    wrong("", "fn f(a: &mut f32)", "f32", "this is not a tensor; help: write `&mut Tensor<f32, _1>`");
    wrong("", "fn f(a: &Vec<f32>)", "Vec<f32>", &format!("this is not a tensor; help: {TENSOR}"));
    wrong(
        "",
        "fn f(a: (f32, f32))",
        "(f32, f32)",
        &format!("this is neither a tensor nor a number; help: {TENSOR}"),
    );
    wrong("", "fn f(a: &f32)", "f32", "numbers are passed by value; help: leave out the `&`");
    wrong(
        "",
        "fn f(a: &Tensor<f32>)",
        "Tensor<f32>",
        "a tensor has an element type and extents; help: write `Tensor<f32, (M, N)>`, or with strides `Tensor<f32, (M, N), (_1, ldc)>`",
    );
    wrong(
        "",
        "fn f(a: &Tensor<f32, layout!(M : 1), (_1,)>)",
        "(_1,)",
        "this tensor has strides twice; help: write them in the layout, or behind the shape",
    );
    wrong(
        "",
        "fn f(a: &Tensor<f32, (M, [N; 2])>)",
        "[N; 2]",
        "this is not an extent; help: write a name such as `M`, or a number in braces: `{(M, 4)}`",
    );
    wrong(
        "",
        "fn f(&self)",
        "&self",
        "a kernel is not a method; help: write a function outside of the `impl`",
    );
    wrong(
        "",
        "fn f((a, b): f32)",
        "(a, b)",
        "an argument has a name; help: write `name: &Tensor<f32, (M, K)>`",
    );
    wrong(
        "",
        "fn f() -> f32",
        "f32",
        "a kernel has no result; help: write the result to a tensor: `c: &mut Tensor<f32, (M, N)>`",
    );
    wrong("", "async fn f()", "async", "a kernel cannot have `async`; help: leave it out");
    wrong("", "fn f<'a>(x: f32)", "'a", "kernels have no lifetimes; help: leave it out");
    wrong(
        "",
        "fn f<T>(x: T)",
        "T",
        "the types of `T` are not listed; help: list them: `#[kernel(T = f32 | f64)]`",
    );
    wrong(
        "T = f32",
        "fn f()",
        "T",
        "the function has no element type `T`; help: add it to the function: `fn name<T, …>(…)`",
    );
    wrong(
        "",
        "fn f<const B: i32 = 4>()",
        "i32",
        "a kernel's constants are sizes and closures; help: write `usize`",
    );
    wrong(
        "unroll",
        "fn f()",
        "unroll",
        "`#[kernel]` has no argument `unroll`; help: write `T = f32 | f64`, `threads = 128`, `arch = 90`, `deny(bank_conflicts)`, `choose(BM in [64, 128])` or `overlaps`",
    );
    for given in ["overlaps = true", "overlaps(true)", "overlaps true"] {
        let expected = "`overlaps` has no value; help: write `#[kernel(overlaps)]`, or leave it out";
        wrong(given, "fn f()", "overlaps", expected);
    }
    wrong("overlaps, overlaps", "fn f()", "overlaps", "`overlaps` is given twice; help: remove one of them");
    wrong(
        "forbid(x)",
        "fn f()",
        "forbid",
        "`forbid` is not a level; help: write `T = f32 | f64`, `threads = 128`, `arch = 90`, `deny(bank_conflicts)`, `choose(BM in [64, 128])` or `overlaps`",
    );
    wrong(
        "T = 4",
        "fn f<T>()",
        "4",
        "this is not an element type; help: list them by their names, `T = f32 | f64`; numbers are for `threads` and `arch`",
    );
}

#[test]
fn all_mistakes_are_reported() {
    let text = "fn f(a: &[f32]) -> f32 { continue; let y: f32 = z?; break 1; }";
    assert_eq!(read("nonsense", text).lines().count(), 7, "{}", read("nonsense", text));
}

#[track_caller]
fn check_keys(text: &str, expected: &str) {
    let mut text_of = Text::new(Span::call_site());
    let args = keys::keys(tokens(text), &mut text_of);
    let outcome = reported(&text_of);
    assert_eq!(if outcome.is_empty() { compact::args(&args) } else { outcome }, expected);
}

#[test]
fn keys_are_read() {
    check_keys("", "");
    check_keys("bm = 128, tc = (16, 16),", "bm = 128, tc = (16, 16)");
    check_keys(
        "dtype = f64, epilogue = |x, y| max(x, y), name = \"x\"",
        "dtype = f64, epilogue = |x, y| max(x, y), name = \"x\"",
    );
    check_keys("bm", "0-2: `bm` has no value; help: write `bm = …`");
    check_keys("bm =", "0-2: `bm` has no value; help: write `bm = …`");
    check_keys("128", "0-3: this is not a key; help: write `key = value`, such as `bm = 128`");
    check_keys(
        "bm, = 3, bn = 4 bk = 8, tc = 5, 7",
        "0-2: `bm` has no value; help: write `bm = …`\n\
         4-5: this is not a key; help: write `key = value`, such as `bm = 128`\n\
         16-18: a comma is missing in front of this; help: write `key = value, key = value`\n\
         32-33: this is not a key; help: write `key = value`, such as `bm = 128`",
    );
}

#[track_caller]
fn check_settings(text: &str, expected: &str) {
    let mut text_of = Text::new(Span::call_site());
    let item = "fn nt<T, const BM: usize = 1, const BN: usize = 2, const F: fn(f32) -> f32 = { |x| x }>() {}";
    let kernel = function::read(tokens("T = f32 | f64"), tokens(item), &mut text_of).unwrap();
    let settings = keys::settings(tokens(text), &kernel, &mut text_of);
    let consts = settings.consts.iter().map(|(name, value)| format!("{} = {value}", name.text));
    let types = settings.types.iter().map(|(name, elem)| format!("{} = {elem}", name.text));
    let functions =
        settings.functions.iter().map(|(name, value)| format!("{} = {}", name.text, compact::expr(value)));
    let outcome = reported(&text_of);
    let settings: Vec<_> = types.chain(consts).chain(functions).collect();
    assert_eq!(if outcome.is_empty() { settings.join(", ") } else { outcome }, expected);
}

#[test]
fn settings_are_read() {
    check_settings("BM = 64, T = f64", "T = f64, BM = 64");
    check_settings("BM = 2 * (32 + 8) / 4 - 1", "BM = 19");
    check_settings("BM = -1", "BM = -1");
    check_settings("F = |x| x + 1.0, BM = 3", "BM = 3, F = |x| (x + 1.0)");
    check_settings("F = 3", "4-5: this constant is a closure; help: write one, such as `|x| max(x, 0.0)`");
    check_settings("F = relu", "4-8: this constant is a closure; help: write `|x| relu(x)`");
    check_settings("BM = |x| x", "5-10: this is not a size; help: write an integer such as `64`");
    check_settings(
        "BM = SIZE",
        "5-9: a macro sees the name `SIZE`, not its value; help: write the number, or set it at run time: `.specialize(&[(\"BM\", SIZE)])`",
    );
    check_settings(
        "BM = 2 * a::SIZE",
        "9-16: a macro sees the name `a::SIZE`, not its value; help: write the number, or set it at run time: `.specialize(&[(\"BM\", a::SIZE)])`",
    );
    check_settings("BM = 1.5", "5-8: this is not a size; help: write an integer such as `64`");
    check_settings("BM = 1 / 0", "5-10: this is not a size; help: write an integer such as `64`");
    check_settings(
        "T = 4",
        "4-5: this is not an element type; help: the element types are f64, f32, f16, bf16, i32, u32, i8, u8, tf32, e4m3, e5m2, i64, u64, i16, u16, bool",
    );
}
