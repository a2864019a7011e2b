//! Adversarial but allowed names, and random builder calls: the generated code is the same as with plain names, up to
//! renaming, and there are no panics.

use std::collections::HashMap;

use proptest::prelude::*;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Unroll};
use tilewright_codegen::tile::{Ahead, Expr, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Layout, Tuple, Value, layout};

/// Names with a meaning in CUDA C, in the prelude or to the printer.
pub(crate) const NAMES: &[&str] = &[
    "if",
    "for",
    "float",
    "float4",
    "int",
    "main",
    "tid",
    "bx",
    "shared_memory",
    "fmaf",
    "expf",
    "atomicAdd",
    "asm",
    "threadIdx",
    "__global__",
    "_Bool",
    "__x",
    "_",
    "x__y",
    "min",
    "double",
    "register",
    "template",
    "i",
    "j",
    "cp_async_4",
    "bf16",
    "f16",
    "k_done",
    "k_ahead",
    "N",
    "nullptr",
    "sizeof",
    "half",
    "typeof",
    "static",
];

/// A kernel with every kind of name: arguments, sizes, a scalar, shared and register tensors, a loop, views.
fn program(names: &[&str; 8]) -> Program {
    let [kernel, from, to, size, scalar, shared, var, view] = *names;
    let mut b = Builder::new(kernel);
    let make = |b: &mut Builder| -> Result<()> {
        let block = At::Index(Coord::Block(0).into());
        let n = Value::symbol(size);
        let (x, y) =
            (b.tensor(from, Elem::F32, (n,), None, false)?, b.tensor(to, Elem::F32, (n,), None, true)?);
        let scale = b.scalar(scalar, Elem::F32);
        let (x, y) = (b.tile(&x, (512,), std::slice::from_ref(&block))?, b.tile(&y, (512,), &[block])?);
        let s = b.shared(shared, Elem::F32, layout!(512))?;
        let wide = Partition { values: vec![4], ..Partition::default() };
        let threads = layout!(128);
        let (px, py) =
            (b.parallelize_over(&x, &threads, 0, &wide)?, b.parallelize_over(&y, &threads, 0, &wide)?);
        let ps = b.parallelize_over(&s, &threads, 0, &wide)?.with_name(view);
        b.repeat(var, Value::Int(3), Unroll::No, |b, _| -> Result<()> {
            b.copy(&px, &ps)?;
            b.wait(None, 0);
            b.sync();
            let r = b.registers(view, Elem::F32, ps.shape())?;
            b.map(
                std::slice::from_ref(&ps),
                &r,
                Expr::Bin(Bin::Mul, Box::new(Expr::In(0)), Box::new(scale.clone())),
            )?;
            b.copy(&r, &py)?;
            b.sync();
            Ok(())
        })
    };
    make(&mut b).expect("a program");
    b.finish()
}

/// The tokens of a source without its comments, and without braces around what a condition guards: whether there are any
/// depends on the length of names.
fn tokens(source: &str) -> Vec<String> {
    let mut all = all_tokens(source);
    for at in (0..all.len()).rev().filter(|&at| all[at] == "if").collect::<Vec<_>>() {
        let Some(open) = closing(&all, at + 1).map(|end| end + 1) else { continue };
        if let (Some("{"), Some(end)) = (all.get(open).map(String::as_str), closing(&all, open)) {
            all.remove(end);
            all.remove(open);
        }
    }
    all
}

/// Where the bracket at a position is closed.
fn closing(tokens: &[String], at: usize) -> Option<usize> {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "(" | "{" => depth += 1,
            ")" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

fn all_tokens(source: &str) -> Vec<String> {
    let code = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut all: Vec<String> = Vec::new();
    for line in code {
        let mut grows = false;
        for c in line.chars() {
            let in_word = c.is_ascii_alphanumeric() || c == '_';
            match all.last_mut() {
                Some(last) if in_word && grows => last.push(c),
                _ if c.is_whitespace() => {}
                _ => all.push(c.to_string()),
            }
            grows = in_word;
        }
    }
    all
}

/// The renaming between two sources, in both directions.
#[derive(Clone, Default)]
struct Pairs {
    there: HashMap<String, String>,
    back: HashMap<String, String>,
}

impl Pairs {
    fn declare(&mut self, x: &str, y: &str) {
        if let Some(old) = self.there.insert(x.to_owned(), y.to_owned()) {
            self.back.remove(&old);
        }
        if let Some(old) = self.back.insert(y.to_owned(), x.to_owned())
            && old != x
        {
            self.there.remove(&old);
        }
    }

    fn agree(&mut self, x: &str, y: &str) -> bool {
        let there = self.there.entry(x.to_owned()).or_insert(y.to_owned());
        let back = self.back.entry(y.to_owned()).or_insert(x.to_owned());
        there == y && back == x
    }
}

/// Fails unless one kernel is the other up to a consistent renaming in each scope.
#[track_caller]
fn same_up_to_names(a: &str, b: &str) {
    const TYPES: [&str; 5] = ["int", "long", "float", "float4", "const"];
    let function = |source: &str| tokens(&source[source.find("extern \"C\"").expect("a kernel")..]);
    let (a_tokens, b_tokens) = (function(a), function(b));
    let is_name = |token: &str| token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    assert_eq!(a_tokens.len(), b_tokens.len(), "{a}\n{b}");
    let (mut pairs, mut outer, mut before) = (Pairs::default(), Vec::new(), "");
    for (x, y) in a_tokens.iter().zip(&b_tokens) {
        match x.as_str() {
            "{" => outer.push(pairs.clone()),
            "}" => pairs = outer.pop().expect("a block"),
            _ => {}
        }
        assert_eq!(is_name(x), is_name(y), "{x} {y}\n{a}\n{b}");
        if !is_name(x) || before == "." {
            assert_eq!(x, y, "{a}\n{b}");
        } else if TYPES.contains(&before) && !TYPES.contains(&y.as_str()) {
            pairs.declare(x, y);
        } else {
            assert!(pairs.agree(x, y), "{x} {y}\n{a}\n{b}");
        }
        before = y;
    }
}

/// Every line is code, a comment, or empty, and no comment reaches into the next line.
#[track_caller]
fn comments_end(source: &str) {
    for line in source.lines() {
        let plain = line.chars().all(|c| (' '..='~').contains(&c));
        let joins = line.contains("//") && (line.trim_end().ends_with('\\') || line.contains("??"));
        assert!(plain && !joins, "{line}");
    }
}

#[track_caller]
fn check(names: &[&str; 8]) {
    let plain = ["kernel", "a", "b", "SIZE", "alpha", "tile", "step", "part"];
    let made = |names| generate(program(names)).kernel.expect("a kernel");
    let (hostile, plain) = (made(names), made(&plain));
    assert_eq!(hostile.variants.len(), plain.variants.len());
    for (hostile, plain) in hostile.variants.iter().zip(&plain.variants) {
        comments_end(&hostile.source);
        same_up_to_names(&hostile.source, &plain.source);
    }
}

#[test]
fn words_of_cuda_are_names_like_others() {
    check(&["main", "if", "for", "tid", "float4", "shared_memory", "bx", "cp_async_16"]);
    check(&["_", "__x", "x__y", "y", "_Bool", "__global__", "i", "i_done"]);
}

/// Eight distinct names, none a prefix of another: those would compete for numbered names.
fn names() -> impl Strategy<Value = [&'static str; 8]> {
    let alike = |a: &str, b: &str| a != b && (a.starts_with(b) || b.starts_with(a));
    let all = prop::sample::subsequence(NAMES, 8).prop_shuffle();
    all.prop_filter("names that are alike", move |all| !all.iter().any(|a| all.iter().any(|b| alike(a, b))))
        .prop_map(|all| all.try_into().expect("eight names"))
}

/// A call of the builder, made of numbers.
type Call = (u8, usize, usize, i64, i64);

const TEXTS: &[&str] = &["x", "N", "a\nb", "", "größe", "if", "\\", "??/", "\u{202e}", "x_2", "//", "*/"];
const SIZES: &[i64] =
    &[0, 1, 2, 3, 7, 32, 128, 1 << 10, 1 << 31, (1 << 31) + 1, 1 << 32, 1 << 40, i64::MAX, -1, i64::MIN];

/// Executes calls one after the other, on the views that exist so far; refusals are fine.
fn carry_out(calls: &[Call]) -> Builder {
    let text = |at: usize| TEXTS[at % TEXTS.len()];
    let size = |n: i64| SIZES[n.rem_euclid(SIZES.len() as i64) as usize];
    let mut b = Builder::new("k");
    let mut views: Vec<View> = Vec::new();
    for &(kind, one, other, n, m) in calls {
        let elem = [Elem::F32, Elem::F64, Elem::F16, Elem::I8][other % 4];
        let some = |views: &Vec<View>, at: usize| views.get(at % views.len().max(1)).cloned();
        let layout = || Layout::new((size(n), size(m)), (1i64, size(n))).ok();
        let made = match kind % 16 {
            0 => {
                let shape = Tuple::of([Tuple::from(Value::symbol(text(one))), Tuple::from(size(n))]);
                b.tensor(text(other), elem, shape, None, n % 2 == 0).ok()
            }
            1 => b
                .tensor(
                    text(one),
                    elem,
                    Tuple::flat(&vec![size(n); (m.unsigned_abs() % 300) as usize]),
                    None,
                    true,
                )
                .ok(),
            2 => layout().and_then(|layout| b.shared(text(one), elem, layout).ok()),
            3 => b.registers(text(one), elem, (size(n), size(m))).ok(),
            4 => some(&views, one)
                .and_then(|view| b.tile(&view, (size(n),), &[At::Index(Coord::Block(0).into())]).ok()),
            5 => some(&views, one).and_then(|view| b.parallelize(&view, &layout()?).ok()),
            6 => some(&views, one).and_then(|view| {
                let at: Affine = size(n).into();
                let coord: Vec<At> = (0..view.rank())
                    .map(|mode| if mode == other % 3 { At::Index(at.clone()) } else { At::All })
                    .collect();
                b.slice(&view, &coord).ok()
            }),
            7 => some(&views, one).map(|view| view.with_name(text(other))),
            8 => {
                if let (Some(from), Some(to)) = (some(&views, one), some(&views, other)) {
                    let _ = b.copy(&from, &to);
                }
                None
            }
            9 => {
                if let Some(to) = some(&views, one) {
                    let _ = b.fill(&to, Expr::lit(n as f64));
                }
                None
            }
            10 => {
                b.sync();
                None
            }
            11 => {
                b.scalar(text(one), elem);
                None
            }
            12 => some(&views, one).and_then(|view| {
                let _ = b.repeat(text(other), Value::Int(size(n)), Unroll::No, |b, k| {
                    let part = b.slice(&view, &vec![At::Index(k); view.rank()])?;
                    b.fill(&part, Expr::lit(0.0))
                });
                None
            }),
            13 => {
                b.cluster([n as u32, m as u32, 1]);
                b.program_mut().blocks_per_sm = other as u32;
                None
            }
            14 => {
                let ahead = Ahead { fragments: m as u32, ..(n as u32).into() };
                if let (Some(from), Some(to)) = (some(&views, one), some(&views, other)) {
                    let _ = b.pipelined("k", Value::Int(size(n)), ahead, |b, _| b.copy(&from, &to));
                }
                None
            }
            _ => {
                b.sync();
                None
            }
        };
        views.extend(made);
    }
    b
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = (any::<u8>(), 0..64usize, 0..64usize, any::<i64>(), any::<i64>());
    prop::collection::vec(call, 0..24)
}

fn survives(calls: &[Call]) {
    if let Some(kernel) = generate(carry_out(calls).finish()).kernel {
        kernel.variants.iter().for_each(|variant| comments_end(&variant.source));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn allowed_names_change_names_alone(names in names()) {
        check(&names);
    }

    #[test]
    fn builder_calls_survive(calls in calls()) {
        survives(&calls);
    }
}

proptest! {
    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_builder_calls(calls in calls()) {
        survives(&calls);
    }

    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_allowed_names(names in names()) {
        check(&names);
    }
}
