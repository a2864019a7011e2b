//! Typical mistakes of newcomers from CUDA, Triton or CuTe, with their messages: every mistake with the
//! underlined tokens, the message and its help, in one snapshot, to be read from top to bottom.

mod lists;
mod lost;
mod ptx;
mod table;

use crate::function;
use crate::matmul;
use crate::text::Text;
use proc_macro2::{Span, TokenStream};
use tilewright_codegen::Definition;
use tilewright_codegen::Generate;
use tilewright_codegen::ast::Level;

/// Where the text of a mistake goes.
#[derive(Clone, Copy)]
enum In {
    /// Between the parentheses of `matmul_kernel!`.
    Keys,
    /// In the body of the kernel that begins with `HEAD`.
    Body,
    /// With its own head; the body comes next.
    Kernel,
}
use In::{Body, Kernel, Keys};
use lists::LISTS;
use lost::LOST;
use ptx::{PTX_THAT_COMPUTES, PTX_THAT_DOES_MORE};
use table::MISTAKES;

/// The head of the bodies, with the names that most of them need.
const HEAD: &str = "fn k<const B: usize = 32>(a: &Tensor<f32, (M, N)>, b: &mut Tensor<f32, (M, N)>, alpha: f32) {\n\
    let t = layout!((32, 8));\n\
    let from = parallelize(tile(a, (B, 8), (block.x, block.y)), t, thread.x);\n\
    let to = parallelize(tile(b, (B, 8), (block.x, block.y)), t, thread.x);\n";

/// The messages for a text, with the tokens that each one underlines.
fn messages(range: In, text: &str) -> String {
    let source = match range {
        Keys | Kernel => text.to_owned(),
        Body => format!("{HEAD}{text}\n}}"),
    };
    let Ok(tokens) = source.parse::<TokenStream>() else { return "rustc cannot read the tokens".into() };
    let mut locations = Text::new(Span::call_site());
    let definition = match range {
        Keys => Some(matmul::read(tokens, &mut locations)),
        Body | Kernel => function::read(TokenStream::new(), tokens, &mut locations)
            .map(|kernel| Definition::Function(kernel, Default::default())),
    };
    let mut all = std::mem::take(&mut locations.problems);
    if all.is_empty() {
        all.extend(definition.into_iter().flat_map(|definition| definition.generate().diagnostics));
    }
    all.iter().map(|one| shown(one, &locations, &source)).collect()
}

/// A message with the tokens that it underlines.
fn shown(messages: &tilewright_codegen::diagnostic::Diagnostic, locations: &Text, source: &str) -> String {
    let at = locations.tokens_of(messages.span);
    let (from, to) = (at.first.start(), at.last.end());
    let level = match messages.level {
        Level::Deny => "error",
        Level::Warn => messages.lint.unwrap_or("warning"),
        Level::Allow => "allowed",
    };
    format!("{level} at `{}`: {}\n", between(source, from, to), messages.text())
}

/// Prints the messages about the kernels in the files of a folder: `TILEWRIGHT_KERNELS=folder cargo test -p tilewright-macros
/// kernels_of_a_folder -- --ignored --nocapture`.
#[test]
#[ignore = "prints messages, to be read"]
fn kernels_of_a_folder() {
    use proc_macro2::{Delimiter, TokenTree};
    let folder = std::env::var("TILEWRIGHT_KERNELS").expect("a folder");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|of| of == "rs")) {
        let source = std::fs::read_to_string(file).unwrap();
        println!("=== {}", file.display());
        let tokens: Vec<TokenTree> = source.parse::<TokenStream>().unwrap().into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let TokenTree::Group(group) = token else { continue };
            let mut inside = group.stream().into_iter();
            if group.delimiter() != Delimiter::Bracket
                || inside.next().is_none_or(|name| name.to_string() != "kernel")
            {
                continue;
            }
            let attr = match inside.next() {
                Some(TokenTree::Group(keys)) => keys.stream(),
                _ => TokenStream::new(),
            };
            let is_body = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
            let end = tokens[at + 1..].iter().position(is_body).map_or(tokens.len(), |body| at + body + 2);
            let item = tokens[at + 1..end].iter().cloned().collect();
            let mut locations = Text::new(Span::call_site());
            let kernel = function::read(attr, item, &mut locations);
            let mut all = std::mem::take(&mut locations.problems);
            if all.is_empty() {
                let made = kernel.map(|kernel| Definition::Function(kernel, Default::default()).generate());
                all.extend(made.into_iter().flat_map(|made| made.diagnostics));
            }
            all.iter().for_each(|one| print!("{}", shown(one, &locations, &source)));
        }
    }
}

/// The text from one position to another.
fn between(source: &str, from: proc_macro2::LineColumn, to: proc_macro2::LineColumn) -> String {
    let byte = |at: proc_macro2::LineColumn| {
        let line = source.split_inclusive('\n').take(at.line - 1).map(str::len).sum::<usize>();
        let rest = &source[line..];
        line + rest.char_indices().nth(at.column).map_or(rest.len(), |(byte, _)| byte)
    };
    source.get(byte(from)..byte(to)).unwrap_or_default().to_owned()
}

#[test]
fn every_mistake_is_answered() {
    insta::assert_snapshot!(answered(MISTAKES));
}

#[test]
fn mistakes_with_lists_are_answered() {
    insta::assert_snapshot!(answered(LISTS));
}

#[test]
fn lost_coordinates_and_layouts_are_explained() {
    insta::assert_snapshot!(answered(LOST));
}

/// The errors in instructions of PTX, and whether texts that compute a number are accepted.
#[test]
fn instructions_only_compute_numbers() {
    let kernel = |text: &str| {
        let head = "unsafe fn k(x: &Tensor<u32, N>, y: &mut Tensor<u32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x)";
        let asm = format!("asm::<u32>(\"{text}\", x, volatile = true)");
        messages(Kernel, &format!("{head}, |x| {asm}); }}"))
    };
    for text in PTX_THAT_COMPUTES {
        assert_eq!(kernel(text), "", "{text}");
    }
    let mut all = String::new();
    for text in PTX_THAT_DOES_MORE {
        let answer = kernel(text);
        let (_, message) = answer.split_once("`: ").unwrap_or(("", "accepted"));
        all += &format!("{text}\n{message}\n");
    }
    insta::assert_snapshot!(all);
}

/// The messages for some mistakes. Each has the remedy.
fn answered(mistakes: &[(In, &str)]) -> String {
    // Internal names of the generator, and operations that the user did not write.
    const OURS: [&str; 8] = ["Tuple", "View", "Value", "Expr", "None", "Some(", "@0", "divide of"];
    let mut shown = String::new();
    for (range, text) in mistakes {
        let messages = messages(*range, text);
        assert!(!messages.is_empty(), "nothing is said about {text}");
        for one in messages.split("error at ").skip(1) {
            assert!(
                one.contains("\nhelp: ") || one.contains(". Write "),
                "{text}: what is to be written? {one}"
            );
            assert!(!OURS.iter().any(|name| one.contains(name)), "{text}: {one}");
        }
        shown += &format!("{text}\n{messages}\n");
    }
    shown
}

#[test]
fn numbers_in_braces_are_extents() {
    let part =
        |name: &str| format!("parallelize(tile({name}, (32, 4), (block.x, 0)), layout!((32, 4)), thread.x)");
    let head = "fn k(a: &Tensor<f32, {(M, 4)}>, b: &mut Tensor<f32, (M, _4)>)";
    assert_eq!(messages(Kernel, &format!("{head} {{ copy({}, {}); }}", part("a"), part("b"))), "");
}

#[test]
fn operands_are_permuted() {
    let product = "fn k(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (K, N)>, c: &mut Tensor<f32, (M, N)>) { let (a, b) = (tile(a, (64, 16), (block.x, _)), tile(b, (16, 64), (_, block.y))); let (sa, sb) = (shared::<f32>((64, 16)), shared::<f32>((16, 64))); let mut acc = full::<f32>((64, 64), 0.0); for k in pipelined(0..a.size(2), stages = 2) { copy(a[(_, _, k)], sa); copy(b[(_, _, k)], sb); gemm(sa, permute(sb, (1, 0)), &mut acc); } copy(acc, tile(c, (64, 64), (block.x, block.y))); }";
    assert_eq!(messages(Kernel, product), "");
}

/// The CUDA C of a kernel's body, or the errors in it.
fn source(body: &str) -> String {
    let messages = messages(Body, body);
    if messages.contains("error at") {
        return messages;
    }
    let item = format!("{HEAD}{body}\n}}").parse().unwrap_or_default();
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
        messages(Kernel, &body).lines().filter(|line| !line.starts_with("unread at")).collect()
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
