//! Prints the CUDA C of `matmul_kernel!` keys given as `key=integer`.
use tilewright_codegen::Definition;
use tilewright_codegen::ast::{Arg, Expr, ExprKind, Name, Span};

fn main() {
    let args = std::env::args().skip(1).map(|text| {
        let (key, value) = text.split_once('=').expect("key=value");
        let kind = match value {
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            _ => value.parse().map(ExprKind::Int).unwrap_or(ExprKind::Name(value.into())),
        };
        let name = Some(Name { text: key.into(), span: Span(0) });
        Arg { name, value: Expr { span: Span(0), kind } }
    });
    let outcome = Definition::Matmul(args.collect()).generate();
    for diagnostic in &outcome.diagnostics {
        eprintln!("{}", diagnostic.text());
    }
    if let Some(kernel) = outcome.kernel {
        for variant in &kernel.variants {
            println!("{}", variant.source);
        }
        println!("{}", kernel.report);
    }
}
