//! Prints kernels as source text.

use std::fmt::Write;

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::ast::Arg;
use tilewright_codegen::view::View;
use tilewright_codegen::{Definition, tile};

use crate::judge::{Source, Subject};

/// A definition: the function, or the macro with its keys.
pub fn definition(of: &Definition) -> String {
    match of {
        Definition::Function(of, _) => of.to_string(),
        Definition::Matmul(args) => {
            format!("matmul_kernel!({})\n", args.iter().map(Arg::to_string).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The whole of a subject: its text, or the statements of its tile program, and its changes.
pub fn subject(of: &Subject) -> String {
    let mut text = match &of.source {
        Source::Text(text) | Source::Whole(text) => definition(text),
        Source::Built(program) => tiles(&program.body, program, 0),
        Source::Refused(why) => why.clone(),
    };
    for change in &of.changes {
        let _ = writeln!(text, "then {change:?}");
    }
    if let (Source::Text(_), Ok(program), false) = (&of.source, of.program(), of.changes.is_empty()) {
        let _ = writeln!(text, "which makes it\n{}", tiles(&program.body, &program, 0));
    }
    text
}

/// Statements of a tile program, a line each.
fn tiles(body: &[tile::Stmt], program: &tile::Program, depth: usize) -> String {
    let mut text = String::new();
    for stmt in body {
        let views: Vec<String> =
            stmt.writes().into_iter().chain(stmt.reads()).map(|view| described(view, program)).collect();
        let words = format!("{:?}", stmt.op);
        let head = match &stmt.op {
            tile::Op::Copy { how, fill, .. } => format!("copy {how:?} fill {fill}"),
            tile::Op::Map { value, .. } | tile::Op::Fill { value, .. } => format!("map {value:?}"),
            tile::Op::Gemm { how, order, .. } => format!("gemm {how:?} {order:?}"),
            tile::Op::Reduce { with, across, .. } => format!("reduce {with:?} {across:?}"),
            tile::Op::Fold { with, across, .. } => format!("fold {with:?} {across:?}"),
            tile::Op::Scan { how, .. } => format!("scan {how:?}"),
            tile::Op::For { var, unroll, .. } => {
                let of = &program.vars[*var as usize];
                format!("for {var} in {} .. {} {unroll:?}", affine(&of.from), affine(&of.to))
            }
            tile::Op::Pipelined { var, ahead, .. } => format!("pipelined {var} {ahead:?}"),
            tile::Op::If { test, .. } => format!("if {test:?}"),
            tile::Op::Step { var, at, past, .. } => format!("step {var} at {at:?} {past:?}"),
            tile::Op::Roles(_) => "roles".into(),
            tile::Op::Tiles { vars, raster, .. } => format!("tiles {vars:?} {raster:?}"),
            _ => words,
        };
        let _ = writeln!(text, "{}{head}", "    ".repeat(depth));
        for view in views {
            let _ = writeln!(text, "{}    {view}", "    ".repeat(depth));
        }
        for body in stmt.bodies() {
            text += &format!(
                "{}{{\n{}{}}}\n",
                "    ".repeat(depth),
                tiles(body, program, depth + 1),
                "    ".repeat(depth)
            );
        }
    }
    text
}

fn described(view: &View, program: &tile::Program) -> String {
    let tensor = program.tensor(view.tensor);
    let bases: Vec<String> = view.base.iter().map(affine).collect();
    let limits: Vec<String> = view
        .limits
        .iter()
        .map(|limit| limit.as_ref().map_or("-".into(), |(origin, n)| format!("{} + {n}", affine(origin))))
        .collect();
    let ragged = if view.limits.iter().any(Option::is_some) {
        format!(" below ({})", limits.join(", "))
    } else {
        String::new()
    };
    let clamped =
        if view.clamped.is_empty() { String::new() } else { format!(" clamped {:?}", view.clamped) };
    format!(
        "`{}` of `{}` {} {}: {} from ({}){ragged}{clamped}",
        view.name,
        tensor.name,
        tensor.elem,
        tensor.layout,
        view.layout,
        bases.join(", ")
    )
}

fn affine(of: &Affine) -> String {
    let mut all: Vec<String> = of
        .terms
        .iter()
        .map(|(coord, by)| {
            let coord = match coord {
                Coord::Block(axis) => format!("block{axis}"),
                Coord::Var(var) => format!("var{var}"),
                Coord::Thread(group) => format!("thread{group}"),
                Coord::Submode { of, over, extent: Some(n) } => format!("({}) / {over} % {n}", affine(of)),
                Coord::Submode { of, over, extent: None } => format!("({}) / {over}", affine(of)),
                other => format!("{other:?}"),
            };
            if *by == 1 { coord } else { format!("{by} * {coord}") }
        })
        .collect();
    if of.constant != 0 || all.is_empty() {
        all.push(of.constant.to_string());
    }
    all.join(" + ")
}
