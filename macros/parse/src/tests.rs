//! Text to trees, and text to messages.

use crate::text::Text;
use crate::{function, keys};
use proc_macro2::{Span, TokenStream};
use tilewright_program::ast::{Arg, Expr, Name};
use tilewright_program::diagnostic::Diagnostic;
use tilewright_program::wire::{decode, encode};

/// The kernel of this text, printed in one line, or its messages; every line with the columns that it underlines.
fn read(attr: &str, item: &str) -> String {
    let mut text = Text::new(Span::call_site());
    let kernel = function::read(tokens(attr), tokens(item), &mut text);
    let reported = reported(&text);
    match kernel {
        Some(kernel) if reported.is_empty() => {
            assert_eq!(decode(&encode(&kernel)).as_ref(), Some(&kernel), "the tree survives its encoding");
            kernel.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
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
    assert_eq!(read("", &format!("fn f() {{ {text} }}")), format!("#[kernel] pub fn f( ) {{ {expected} }}"));
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

#[test]
fn expressions() {
    value("a + b * c", "a + b * c");
    value("-a * !b", "(-a) * (!b)");
    value("(BM + 1)", "BM + 1");
    value("a && b || c & d", "(a & b) | (c & d)");
    value("a << 2 >> 1 ^ 7 % 3 / 1", "((a << 2) >> 1) ^ (7 % 3 / 1)");
    value("a <= b", "a <= b");
    value("1_000usize", "1000");
    value("0x10", "16");
    value("1.5e3", "1500.0");
    value("2f32", "2 as f32");
    value("0.5f16", "0.5 as f16");
    value("\"text\"", "\"text\"");
    value("true", "true");
    value("()", "()");
    value("(1,)", "(1,)");
    value("[1, 2]", "(1, 2)");
    value("(_, _, k)", "(_, _, k)");
    value("_1", "1");
    value("f32::MAX", "f32::MAX");
    value("&mut acc", "acc");
    value("x as f16", "x as f16");
    value("0..n", "0..n");
    value("0..=n", "0..(n + 1)");
    value("|x, (y, _)| x + y", "|x, (y, _)| x + y");
    value("|x| { x }", "|x| x");
    value(
        "|x| { let y = x * x; let (a, b) = (y, 1.0); a + b }",
        "|x| { let y = x * x; let (a, b) = (y, 1.0); a + b }",
    );
    value("if a { let b = 1; b } else { 2 }", "if a { { let b = 1; b } } else { 2 }");
    value("if x > 0.0 { x } else { 0.0 }", "if x > 0.0 { x } else { 0.0 }");
    value("if a { 1 } else if b { 2 } else { 3 }", "if a { 1 } else { if b { 2 } else { 3 } }");
}

#[test]
fn calls() {
    value("tile(a, (BM, BK), (block.x, _))", "tile(a, (BM, BK), (block.x, _))");
    value("shared::<f32>(layout!((BM, BK) : (1, BM + 1)))", "shared::<f32>(layout!((BM, BK) : (1, BM + 1)))");
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
    body("const PAD: usize = 1 + 2;", "let PAD = 1 + 2;");
    body("copy(a, b);", "copy(a, b);");
    body("copy(a, b)", "copy(a, b);");
    body("acc = x; acc += 2.0; acc <<= 1;", "acc = x; acc += 2.0; acc <<= 1;");
    body("for k in 0..n { copy(a, b); }", "for k in 0..n { copy(a, b); }");
    body("for _ in unroll(0..4) {}", "for _ in unroll(0..4) { }");
    body("if k == 0 { a(); } else if k == 1 { b(); }", "if k == 0 { a(); } else { if k == 1 { b(); } }");
    body(
        "role(producer, warps = 1, || { copy(a, b); wait(); });",
        "role(producer, warps = 1, || { copy(a, b); wait(); });",
    );
    body("role(producer, || copy(a, b));", "role(producer, || { copy(a, b); });");
}

#[test]
fn heads() {
    head("", "fn f()", "#[kernel] pub fn f( ) { }");
    head("", "pub(crate) unsafe fn f() -> ()", "#[kernel] pub unsafe fn f( ) { }");
    head(
        "",
        "fn f<const BM: usize = 128, const BN: usize = { 2 }>()",
        "#[kernel] pub fn f<const BM: usize = 128, const BN: usize = 2>( ) { }",
    );
    head("", "fn f<const BM: usize>()", "#[kernel] pub fn f<const BM: usize>( ) { }");
    // Numbers instead of a type: braces, or an underscore.
    head("", "fn f(a: &Tensor<f32, {(N, 4)}>)", "#[kernel] pub fn f( a: &Tensor<f32, (N, _4)>, ) { }");
    head(
        "",
        "fn f(a: &Tensor<f32, (N, _4), {(ld, 1)}>)",
        "#[kernel] pub fn f( a: &Tensor<f32, (N, _4), (ld, _1)>, ) { }",
    );
    head(
        "T = f32 | f64, deny(bank_conflicts),",
        "fn f<T>(x: T)",
        "#[kernel(T = f32 | f64, deny(bank_conflicts))] pub fn f<T>( x: T, ) { }",
    );
    head("warn(a, b), allow(c)", "fn f()", "#[kernel(warn(a), warn(b), allow(c))] pub fn f( ) { }");
    head("overlaps", "fn f()", "#[kernel(overlaps)] pub fn f( ) { }");
    head(
        "arch = sm_90, threads = 32 * W",
        "fn f()",
        "#[kernel(arch = sm_90, threads = 32 * W)] pub fn f( ) { }",
    );
    head("overlaps, deny(a),", "fn f()", "#[kernel(deny(a), overlaps)] pub fn f( ) { }");
    head(
        "choose(M in [1, 2 * 2], (A, B) in [(1, 2)])",
        "fn f<const M: usize, const A: usize, const B: usize>()",
        "#[kernel(choose(M in [1, 4], (A, B) in [(1, 2)]))] pub fn f<const M: usize, const A: usize, const B: usize>( ) { }",
    );
    head(
        "choose(A in 1..=7 step 3, B in [2, 3], C in 8..10, if A * B < 12 && B != 3 || A == 1)",
        "fn f<const A: usize, const B: usize, const C: usize>()",
        "#[kernel(choose((A, B) in [(1, 2), (1, 3), (4, 2)], C in [8, 9]))] pub fn f<const A: usize, const B: usize, const C: usize>( ) { }",
    );
    head(
        "choose((A, B) in h200::gated_gemm)",
        "fn f<const A: usize, const B: usize>()",
        "#[kernel(choose((A, B) in [(128, 128), (192, 96), (128, 112), (128, 64), (64, 128), (64, 64), (64, 32), (16, 64), (32, 64)]))] pub fn f<const A: usize, const B: usize>( ) { }",
    );
    head(
        "choose(A in h200::gated_gemm)",
        "fn f<const A: usize>()",
        "#[kernel(choose(A in [128, 192, 64, 16, 32]))] pub fn f<const A: usize>( ) { }",
    );
    head("", "fn f(a: &Tensor<f32, (M, K)>)", "#[kernel] pub fn f( a: &Tensor<f32, (M, K)>, ) { }");
    head(
        "",
        "fn f(a: &mut Tensor<f32, ((M, _2), K)>)",
        "#[kernel] pub fn f( a: &mut Tensor<f32, ((M, _2), K)>, ) { }",
    );
    head("", "fn f(a: &Tensor<f32, (M, _8)>)", "#[kernel] pub fn f( a: &Tensor<f32, (M, _8)>, ) { }");
    head("", "fn f(a: &Tensor<f32, N>)", "#[kernel] pub fn f( a: &Tensor<f32, N>, ) { }");
    head("", "fn f(a: &Tensor<f32, 128>)", "#[kernel] pub fn f( a: &Tensor<f32, _128>, ) { }");
    head("", "fn f(a: &Tensor<f32, { BM * 2 }>)", "#[kernel] pub fn f( a: &Tensor<f32, { BM * 2 }>, ) { }");
    head(
        "",
        "fn f(a: &Tensor<f32, layout!((M, N) : (1, ldc))>)",
        "#[kernel] pub fn f( a: &Tensor<f32, (M, N), (_1, ldc)>, ) { }",
    );
    head(
        "",
        "fn f(a: &Tensor<f32, (M, N), (_1, ldc)>)",
        "#[kernel] pub fn f( a: &Tensor<f32, (M, N), (_1, ldc)>, ) { }",
    );
    head(
        "",
        "fn f(a: &tilewright::Tensor<f32, layout!((M, 4))>)",
        "#[kernel] pub fn f( a: &Tensor<f32, (M, _4)>, ) { }",
    );
    head("", "fn f(alpha: f32, n: i32)", "#[kernel] pub fn f( alpha: f32, n: i32, ) { }");
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
    assert_eq!(
        if outcome.is_empty() {
            args.iter().map(Arg::to_string).collect::<Vec<_>>().join(", ")
        } else {
            outcome
        },
        expected
    );
}

#[test]
fn keys_are_read() {
    check_keys("", "");
    check_keys("bm = 128, tc = (16, 16),", "bm = 128, tc = (16, 16)");
    check_keys(
        "dtype = f64, epilogue = |x, y| max(x, y), name = \"x\"",
        "dtype = f64, epilogue = |x, y| max(x, y), name = \"x\"",
    );
}

#[track_caller]
fn check_settings(text: &str, expected: &str) {
    let mut text_of = Text::new(Span::call_site());
    let item = "fn nt<T, const BM: usize = 1, const BN: usize = 2, const F: fn(f32) -> f32 = { |x| x }>() {}";
    let kernel = function::read(tokens("T = f32 | f64"), tokens(item), &mut text_of).unwrap();
    let settings = {
        let args = keys::keys(tokens(text), &mut text_of);
        keys::settings(args, &kernel, true, &mut text_of)
    };
    let consts = settings.consts.iter().map(|(name, value)| format!("{} = {value}", name.text));
    let types = settings.types.iter().map(|(name, elem)| format!("{} = {elem}", name.text));
    let function = |(name, value): &(Name, Expr)| Arg { name: Some(name.clone()), value: value.clone() };
    let functions = settings.functions.iter().map(|of| function(of).to_string());
    let outcome = reported(&text_of);
    let settings: Vec<_> = types.chain(consts).chain(functions).collect();
    assert_eq!(if outcome.is_empty() { settings.join(", ") } else { outcome }, expected);
}

#[test]
fn settings_are_read() {
    check_settings("BM = 64, T = f64", "T = f64, BM = 64");
    check_settings("BM = 2 * (32 + 8) / 4 - 1", "BM = 19");
    check_settings("BM = -1", "BM = -1");
    check_settings("F = |x| x + 1.0, BM = 3", "BM = 3, F = |x| x + 1.0");
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
