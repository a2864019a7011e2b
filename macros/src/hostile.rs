//! Hostile kernels: definitions that no text can express, and texts that would need too much work.

use crate::function;
use crate::text::Text;
use proc_macro2::{Span, TokenStream};
use tilewright_codegen::ast::{Expr, ExprKind, Kernel, ParamKind, Pattern, StmtKind};
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::wire::encode;
use tilewright_codegen::{Definition, GENERATOR, Generate, Settings};

const COPY: &str = "fn dup(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (x, y) = (tile(x, 128, block.x), tile(y, 128, block.x));
    let (px, py) = (parallelize(x, layout!(128), thread.x), parallelize(y, layout!(128), thread.x));
    for k in 0..4 { copy(px, py); }
}";

/// A name that would end a comment, and disable all guards.
const EVIL: &str = "N\n#define if(x) if(1)\n//";

fn kernel(text: &str) -> Kernel {
    let mut locations = Text::new(Span::call_site());
    let kernel = function::read(TokenStream::new(), text.parse().expect("tokens"), &mut locations);
    assert!(locations.problems.is_empty(), "{:?}", locations.problems);
    kernel.expect("a kernel")
}

/// The error for an encoded kernel whose tree was modified after the macro.
#[track_caller]
fn forged(what: &str, change: impl Fn(&mut Kernel)) {
    let mut kernel = kernel(COPY);
    change(&mut kernel);
    let bytes = encode(&Definition::Function(kernel, Settings::default()));
    let messages = KernelDef::new("dup", "", "", &[], bytes.leak(), b"")
        .with_generator(GENERATOR)
        .generate()
        .map(drop)
        .unwrap_err();
    let expected =
        format!("kernel `dup`: {EVIL:?} cannot be the name of {what}, which stands in generated CUDA C\n");
    assert!(messages.to_string().starts_with(&expected), "{messages}");
}

#[test]
fn forged_names_are_refused() {
    forged("a kernel", |kernel| kernel.name.text = EVIL.into());
    forged("an argument", |kernel| kernel.params[0].name.text = EVIL.into());
    forged("a size", |kernel| {
        for param in &mut kernel.params {
            let ParamKind::Tensor { shape, .. } = &mut param.kind else { panic!("a tensor") };
            shape.kind = ExprKind::Name(EVIL.into());
        }
    });
    forged("a size", |kernel| {
        let ParamKind::Tensor { stride, shape, .. } = &mut kernel.params[1].kind else { panic!("a tensor") };
        *stride = Some(Expr { span: shape.span, kind: ExprKind::Name(EVIL.into()) });
    });
    forged("a value", |kernel| {
        let StmtKind::Let { pattern: Pattern::Tuple(_, names), .. } = &mut kernel.body[1].kind else {
            panic!("names")
        };
        let Pattern::Name(name) = &mut names[0] else { panic!("a name") };
        name.text = EVIL.into();
    });
    forged("a value", |kernel| {
        let StmtKind::For { pattern: Pattern::Name(name), .. } = &mut kernel.body[2].kind else {
            panic!("a loop")
        };
        name.text = EVIL.into();
    });
}

/// The first error that the macro reports for a kernel.
fn messages(text: &str) -> String {
    let kernel = kernel(text);
    let outcome = Definition::Function(kernel, Settings::default()).generate();
    assert!(outcome.kernel.is_none(), "it is accepted");
    outcome.diagnostics[0].text()
}

/// The body of a kernel that copies, with a text instead of the copies.
fn body(text: &str) -> String {
    COPY.replace("for k in 0..4 { copy(px, py); }", text)
}

/// Values that double from line to line.
#[test]
fn values_have_few_parts() {
    let doubling = |first: &str, next: &dyn Fn(u32) -> String| {
        let lines: String = (1..40).map(|n| format!("let a{n} = {};", next(n - 1))).collect();
        format!("for k in 0..4 {{ let a0 = {first}; {lines} copy(px, py); }}")
    };
    let check = |text: String, expected: &str| assert_eq!(messages(&body(&text)), expected);
    check(
        doubling("(1, 1)", &|n| format!("(a{n}, a{n})")),
        "this has 512 parts, and 256 is the limit: modes of a layout, entries of a tuple",
    );
    check(
        doubling("k", &|n| format!("a{n} / 3 + a{n} % 5")),
        "this coordinate has 383 terms and 7 quotients inside of one another, and 256 and 16 are the limits\nhelp: compute it in fewer steps: `k / 2 / 2` is `k / 4`",
    );
}

/// A name is looked for among all that are bound, so these are bounded; names of a block that has ended do not count.
#[test]
fn names_are_bounded() {
    let lets = |count: usize| (0..count).map(|n| format!("let a{n} = {n};")).collect::<String>();
    for count in [3_000, 100_000] {
        let text = body(&format!("{} copy(px, py);", lets(count)));
        assert_eq!(
            messages(&text),
            "more than 2000 names are bound here\nhelp: bind a name again, or bind it inside of the loop or the condition that uses it"
        );
    }
    let block = format!("if 1 < 2 {{ {} }}", lets(1_000));
    let made = Definition::Function(
        kernel(&body(&format!("{} copy(px, py);", block.repeat(5)))),
        Settings::default(),
    )
    .generate();
    assert!(made.kernel.is_some(), "{:?}", made.diagnostics.iter().find(|messages| messages.lint.is_none()));
}

#[test]
fn long_sums_are_allowed() {
    let sum = |terms: usize| {
        let sum = vec!["v"; terms].join(" + ");
        body(&format!("let r = map(px, |v| {sum}); copy(r, py);"))
    };
    let made = |text: &str| Definition::Function(kernel(text), Settings::default()).generate();
    assert!(made(&sum(501)).kernel.is_some());
    let mut text = Text::new(Span::call_site());
    let refused = function::read(TokenStream::new(), sum(505).parse().expect("tokens"), &mut text);
    assert!(refused.is_some() && text.problems.len() == 1);
    assert_eq!(
        text.problems[0].text(),
        "this chain has 504 operators, and 500 is the limit\nhelp: give parts of it names, with `let`, or let a `map` of its own compute them"
    );
}
