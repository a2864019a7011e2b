//! Kernels without messages, and spellings with the same CUDA C as longer ones.

use crate::function;
use crate::matmul;
use crate::messages::{completed, messages};
use crate::text::Text;
use proc_macro2::{Span, TokenStream};
use tilewright_codegen::Definition;
use tilewright_codegen::Generate;

#[test]
fn numbers_in_braces_are_extents() {
    let part =
        |name: &str| format!("parallelize(tile({name}, (32, 4), (block.x, 0)), layout!((32, 4)), thread.x)");
    let head = "fn k(a: &Tensor<f32, {(M, 4)}>, b: &mut Tensor<f32, (M, _4)>)";
    assert_eq!(messages(&format!("{head} {{ copy({}, {}); }}", part("a"), part("b"))), "");
}

#[test]
fn operands_are_permuted() {
    let product = "fn k(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (K, N)>, c: &mut Tensor<f32, (M, N)>) { let (a, b) = (tile(a, (64, 16), (block.x, _)), tile(b, (16, 64), (_, block.y))); let (sa, sb) = (shared::<f32>((64, 16)), shared::<f32>((16, 64))); let mut acc = full::<f32>((64, 64), 0.0); for k in pipelined(0..a.size(2), stages = 2) { copy(a[(_, _, k)], sa); copy(b[(_, _, k)], sb); gemm(sa, permute(sb, (1, 0)), &mut acc); } copy(acc, tile(c, (64, 64), (block.x, block.y))); }";
    assert_eq!(messages(product), "");
}

/// The CUDA C of a kernel's body, or the errors in it.
fn source(body: &str) -> String {
    let messages = messages(body);
    if messages.contains("error at") {
        return messages;
    }
    let item = completed(body).parse().unwrap_or_default();
    let kernel =
        function::read(TokenStream::new(), item, &mut Text::new(Span::call_site())).expect("a kernel");
    let made = Definition::Function(kernel, Default::default()).generate().kernel.expect("a kernel");
    made.source().to_owned()
}

#[test]
fn names_in_closures_stand_for_their_expressions() {
    let same = |block: &str, plain: &str| {
        let of = |value: &str| source(&format!("copy(map(from, |x| {value}), to);"));
        assert!(of(plain).contains("__global__"), "{}", of(plain));
        assert_eq!(of(block), of(plain));
    };
    same("{ let y = x * x; let z = y + 1.0; y * z }", "(x * x) * (x * x + 1.0)");
    same("{ let (y, z) = (2.0 * x, 3.0); { let y = y - z; y } }", "2.0 * x - 3.0");
    same("if x > 0.0 { let y = exp(x); y } else { 0.0 }", "if x > 0.0 { exp(x) } else { 0.0 }");
    let key = |epilogue: &str| {
        let keys = matmul::read(
            format!("epilogue = {epilogue}").parse().unwrap(),
            &mut Text::new(Span::call_site()),
        );
        keys.generate().kernel.map(|kernel| kernel.source().to_owned())
    };
    assert!(key("|x| max(x, 0.0)").is_some());
    assert_eq!(key("|x| { let zero = 0.0; max(x, zero) }"), key("|x| max(x, 0.0)"));
}

#[test]
fn arithmetic_on_tiles_is_map() {
    let same = |arithmetic: &str, map: &str| {
        assert!(source(map).contains("__global__"), "{}", source(map));
        assert_eq!(source(arithmetic), source(map));
    };
    same("copy(from * alpha + 1.0, to);", "copy(map(from, |x| x * alpha + 1.0), to);");
    same("copy(-from, to);", "copy(map(from, |x| -x), to);");
    same("copy(from + to * from, to);", "copy(map((from, to), |x, y| x + y * x), to);");
    same("copy(max(exp(from), 0.0), to);", "copy(map(from, |x| max(exp(x), 0.0)), to);");
    same("copy(from as bf16 as f32, to);", "copy(map(from, |x| x as bf16 as f32), to);");
    same("copy((from > 1.0) as f32, to);", "copy(map(from, |x| (x > 1.0) as f32), to);");
    same(
        "copy(select(from > to, from, 0.0), to);",
        "copy(map((from, to), |x, y| select(x > y, x, 0.0)), to);",
    );
    same(
        "copy(if from > to { from } else { -to }, to);",
        "copy(map((from, to), |x, y| if x > y { x } else { -y }), to);",
    );
    same("copy(from / M as f32, to);", "copy(map(from, |x| x / M as f32), to);");
    same("to = 2.0 * from;", "map(from, to, |x| 2.0 * x);");
    same("to += from * alpha;", "map((to, from), to, |y, x| y + x * alpha);");
    same(
        "let f = |x, y| x * y + 1.0; copy(f(from, to), to);",
        "copy(map((from, to), |x, y| x * y + 1.0), to);",
    );
    // A name keeps the tile that it was computed as, even if its operands change later.
    same(
        "let two = 2.0 * from; copy(two + from, to);",
        "let two = map(from, |x| 2.0 * x); copy(map((two, from), |t, x| t + x), to);",
    );
    same(
        "let mask = from > 0.0; copy(select(!mask, 1.0, from), to);",
        "let mask = map(from, |x| x > 0.0); copy(map((mask, from), |m, x| select(!m, 1.0, x)), to);",
    );
}

#[test]
fn names_in_closures_make_no_value_without_end() {
    let doubled: String = (1..60).map(|n| format!("let x{n} = x{} * x{}; ", n - 1, n - 1)).collect();
    let nested: String = (1..600).map(|n| format!("let x{n} = -x{}; ", n - 1)).collect();
    let of = |lets: &str| source(&format!("copy(map(from, |x0| {{ {lets} x3 }}), to);"));
    // A long expression that is used twice has its own registers.
    let messages = of(&doubled);
    assert!(messages.contains("__global__") && messages.len() < 20_000, "{messages}");
    let messages = of(&nested);
    assert!(messages.contains("names stand for their expressions"), "{messages}");
    assert_eq!(messages.matches("error at").count(), 1, "{messages}");
    // Names of a block are out of scope after it, and shadow others only inside.
    let messages = source("copy(map(from, |x| { let y = x; y } + y), to);");
    assert!(messages.contains("`y` is not defined"), "{messages}");
}

/// The messages about a reduction and a scan by a closure.
fn combined(elements: &str, identity: &str, closure: &str) -> [String; 2] {
    let head = "fn k(d: f32, y: &mut Tensor<f32, (M, N)>, from: &Tensor<f32, (M, N)>) { let x = map(tile(from, (4, 64), (block.x, block.y)), |x, at| ";
    let tail = "fill(tile(y, (4, 64), (block.x, block.y)), d); }";
    ["reduce", "scan"].map(|name| {
        let body =
            format!("{head}{elements}); let _made = {name}(x, {identity}, {closure}, mode = 1); {tail}");
        messages(&body).lines().filter(|line| !line.starts_with("unread at")).collect()
    })
}

#[test]
fn closures_that_combine_in_any_order_are_silent() {
    let silent = |elements: &str, identity: &str, closure: &str| {
        for messages in combined(elements, identity, closure) {
            assert!(
                !messages.contains("order_matters") && !messages.contains("error"),
                "{closure}: {messages}"
            );
        }
    };
    silent("x", "0.0", "|a, b| a + b");
    silent("x", "1.0", "|a, b| a * b");
    silent("x", "0.0", "|a, b| max(abs(a), abs(b))");
    silent("x", "0.0", "|a, b| min(a + b, 255.0)");
    silent("x", "f32::NEG_INFINITY", "|a, b| max(a, b) + log(1.0 + exp(-abs(a - b)))");
    silent("x as i32", "0", "|a, b| (a + b) % 7");
    silent("x as i32", "1", "|a, b| a * b / 1");
    // Means and variances, arguments of maxima, two largest, maxima with sums of exponentials.
    silent(
        "(1.0, x, 0.0)",
        "(0.0, 0.0, 0.0)",
        "|(n, m, s), (k, o, t)| { let (all, d) = (n + k, o - m); if all == 0.0 { (0.0, 0.0, 0.0) } else { (all, m + d * k / all, s + t + d * d * n * k / all) } }",
    );
    silent(
        "(x, at.1)",
        "(f32::NEG_INFINITY, i32::MAX)",
        "|(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) }",
    );
    silent("(x, at.1)", "(f32::NEG_INFINITY, -1)", "|(a, i), (b, j)| if b > a { (b, j) } else { (a, i) }");
    silent(
        "(x, f32::NEG_INFINITY)",
        "(f32::NEG_INFINITY, f32::NEG_INFINITY)",
        "|(a, b), (c, d)| (max(a, c), max(min(a, c), if a > c { b } else { d }))",
    );
    silent(
        "(x, 1.0)",
        "(f32::MIN, 0.0)",
        "|(a, s), (b, t)| (max(a, b), s * exp(a - max(a, b)) + t * exp(b - max(a, b)))",
    );
    // An entry that is 0 or 1.
    silent("(x, at.1 % 2)", "(0.0, 0)", "|(a, f), (b, g)| (if g == 1 { b } else { a + b }, f | g)");
    // Kernels that depend on sizes are not checked.
    silent("x", "0.0", "|a, b| if N > 3 { a + b } else { a - b }");
    // Where the order is kept.
    for (elements, identity, closure) in [
        ("(d, x)", "(1.0, 0.0)", "|(a, x), (b, y)| (a * b, b * x + y)"),
        ("(x, at.1 % 2)", "(0.0, 0)", "|(a, f), (b, g)| (if !(g == 0) { b } else { a + b }, max(f, g))"),
    ] {
        let [reduced, scanned] = combined(elements, identity, closure);
        assert!(reduced.contains("order_matters"), "{closure}: {reduced}");
        assert!(!scanned.contains("order_matters"), "{closure}: {scanned}");
    }
}

/// Instructions of PTX of one operand and one result.
const PTX_THAT_COMPUTES: &[&str] = &[
    "add.u32 %0, %1, 1;",
    "{ .reg .u32 t, u; mul.lo.u32 t, %1, %1; // a square\\n mov.b32 u, t; /* again */ add.u32 %0, t, u; }",
    "{ .reg .pred p; setp.lt.u32 p, %1, 5; selp.u32 %0, 1, 0, p; }",
    "{ .reg .pred p, q; setp.lt.u32 p|q, %1, 5; @p mov.u32 %0, 1; @!p mov.u32 %0, 0; }",
    "{ .reg .pred p; setp.eq.s32 p, %1, -7; mov.u32 %0, 0x10; @ p add.u32 %0, %0, %1; }",
    "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo}; }",
    "{ .reg .f32 t; cvt.rn.f32.u32 t, %1; rcp.approx.ftz.f32 t, t; mul.f32 t, t, 0f3F800000; cvt.rzi.u32.f32 %0, t; }",
    "{ .reg .u32 %%t; mov.u32 %%t, %%tid.x; xor.b32 %0, %%t, %1; }",
    "{ { .reg .u32 t; not.b32 t, %1; popc.b32 %0, t; } }",
    "lop3.b32 %0, %1, %1, WARP_SZ, 0x96;",
    "prmt.b32 %0, %1, 0, 0x0123; ; dp4a.u32.u32 %0, %1, %1, %0;",
    "shf.l.wrap.b32 %0, %1, %1, 3;",
    "mov.u32 %0, %%clock;",
];

#[test]
fn instructions_compute_numbers() {
    for text in PTX_THAT_COMPUTES {
        let asm = format!("asm::<u32>(\"{text}\", x, volatile = true)");
        let head = "unsafe fn k(x: &Tensor<u32, N>, y: &mut Tensor<u32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x)";
        assert_eq!(messages(&format!("{head}, |x| {asm}); }}")), "", "{text}");
    }
}
