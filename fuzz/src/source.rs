//! Prints kernels as source text.

use std::fmt::Write;

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::ast::{
    Arg, Binary, Expr, ExprKind, Kernel, Param, ParamKind, Pattern, Stmt, StmtKind, Unary,
};
use tilewright_codegen::view::View;
use tilewright_codegen::{Definition, tile};

use crate::judge::{Source, Subject};

/// A definition: the function, or the macro with its keys.
pub fn definition(of: &Definition) -> String {
    match of {
        Definition::Function(of, _) => kernel(of),
        Definition::Matmul(args) => {
            format!("matmul_kernel!({})\n", args.iter().map(key).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A key of a product; keys in parentheses are a call of it.
fn key(of: &Arg) -> String {
    match (&of.name, &of.value.kind) {
        (Some(name), ExprKind::Call { function, args: keys, .. }) if *function == *name => {
            format!("{} = ({})", name.text, keys.iter().map(key).collect::<Vec<_>>().join(", "))
        }
        _ => arg(of),
    }
}

/// A kernel.
pub fn kernel(of: &Kernel) -> String {
    let params: Vec<String> = of.params.iter().map(param).collect();
    let consts: Vec<String> = of
        .consts
        .iter()
        .map(|one| {
            let default = one.default.as_ref().map_or(String::new(), |value| format!(" = {}", expr(value)));
            format!("const {}: usize{default}", one.name.text)
        })
        .collect();
    let generics = if consts.is_empty() { String::new() } else { format!("<{}>", consts.join(", ")) };
    let keys = if of.keys.is_empty() { String::new() } else { format!("({})", args(&of.keys)) };
    let mut text = format!("#[kernel{keys}]\nfn {}{generics}(\n", of.name.text);
    for param in params {
        let _ = writeln!(text, "    {param},");
    }
    text += ") {\n";
    body(&of.body, 1, &mut text);
    text + "}\n"
}

fn param(of: &Param) -> String {
    let (name, elem) = (&of.name.text, &of.elem.text);
    match &of.kind {
        ParamKind::Scalar => format!("{name}: {elem}"),
        ParamKind::Tensor { mutable, shape, stride } => {
            let lent = if *mutable { "&mut" } else { "&" };
            let gap = if *mutable { " " } else { "" };
            let shape = match stride {
                Some(stride) => format!("layout!({} : {})", expr(shape), expr(stride)),
                None => size(shape),
            };
            format!("{name}: {lent}{gap}Tensor<{elem}, {shape}>")
        }
    }
}

/// A size in a type, which cannot hold a bare integer.
fn size(of: &Expr) -> String {
    match &of.kind {
        ExprKind::Int(n) => format!("_{n}"),
        ExprKind::Tuple(items) => tuple(items.iter().map(size).collect()),
        _ => expr(of),
    }
}

fn tuple(items: Vec<String>) -> String {
    let comma = if items.len() == 1 { "," } else { "" };
    format!("({}{comma})", items.join(", "))
}

fn body(of: &[Stmt], depth: usize, text: &mut String) {
    of.iter().for_each(|stmt| statement(stmt, depth, text));
}

fn statement(of: &Stmt, depth: usize, text: &mut String) {
    let indent = "    ".repeat(depth);
    let line = match &of.kind {
        StmtKind::Let { pattern: to, value } => format!("let {} = {};", pattern(to), expr(value)),
        StmtKind::Assign { target, op, value } => {
            format!("{} {}= {};", expr(target), op.map_or("", Binary::sign), expr(value))
        }
        StmtKind::Expr(value) => format!("{};", expr(value)),
        StmtKind::For { pattern: of, range, body: inner } => {
            let _ = writeln!(text, "{indent}for {} in {} {{", pattern(of), expr(range));
            body(inner, depth + 1, text);
            String::from("}")
        }
        StmtKind::If { condition, then, other } => {
            let _ = writeln!(text, "{indent}if {} {{", expr(condition));
            body(then, depth + 1, text);
            if !other.is_empty() {
                let _ = writeln!(text, "{indent}}} else {{");
                body(other, depth + 1, text);
            }
            String::from("}")
        }
        StmtKind::While { condition, body: inner } => {
            let _ = writeln!(text, "{indent}while {} {{", expr(condition));
            body(inner, depth + 1, text);
            String::from("}")
        }
        StmtKind::Break => String::from("break;"),
        StmtKind::Block { head, body: inner } => {
            let _ = writeln!(text, "{indent}{} {{", expr(head));
            body(inner, depth + 1, text);
            String::from("}")
        }
    };
    let _ = writeln!(text, "{indent}{line}");
}

fn pattern(of: &Pattern) -> String {
    match of {
        Pattern::Name(name) => name.text.clone(),
        Pattern::Hole(_) => "_".into(),
        Pattern::Tuple(_, all) => tuple(all.iter().map(pattern).collect()),
    }
}

fn arg(of: &Arg) -> String {
    match &of.name {
        Some(name) => format!("{} = {}", name.text, expr(&of.value)),
        None => expr(&of.value),
    }
}

fn args(of: &[Arg]) -> String {
    of.iter().map(arg).collect::<Vec<_>>().join(", ")
}

/// An operand, in parentheses where needed.
fn operand(of: &Expr) -> String {
    match &of.kind {
        ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Cast(..) | ExprKind::If { .. } => {
            format!("({})", expr(of))
        }
        _ => expr(of),
    }
}

/// An expression.
pub fn expr(of: &Expr) -> String {
    match &of.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Long(n) => n.to_string(),
        ExprKind::Float(x) => format!("{x:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Name(name) | ExprKind::Path(name) => name.clone(),
        ExprKind::Hole => "_".into(),
        ExprKind::Tuple(items) => tuple(items.iter().map(expr).collect()),
        ExprKind::Call { function, types, args: all } => {
            let types: Vec<&str> = types.iter().map(|name| name.text.as_str()).collect();
            let types = if types.is_empty() { String::new() } else { format!("::<{}>", types.join(", ")) };
            format!("{}{types}({})", function.text, args(all))
        }
        ExprKind::Method { receiver, method, args: all } => {
            format!("{}.{}({})", operand(receiver), method.text, args(all))
        }
        ExprKind::Field { base, field } => format!("{}.{}", operand(base), field.text),
        ExprKind::Index { base, index } => format!("{}[{}]", operand(base), expr(index)),
        ExprKind::Unary(op, inner) => {
            format!("{}{}", if *op == Unary::Neg { "-" } else { "!" }, operand(inner))
        }
        ExprKind::Binary(op, x, y) => format!("{} {} {}", operand(x), op.sign(), operand(y)),
        ExprKind::Range(from, to) => format!("{}..{}", operand(from), operand(to)),
        ExprKind::Cast(inner, to) => format!("{} as {}", operand(inner), to.text),
        ExprKind::Layout { shape, stride } => match stride {
            Some(stride) => format!("layout!({} : {})", expr(shape), expr(stride)),
            None => format!("layout!({})", expr(shape)),
        },
        ExprKind::Closure { params, body } => {
            let params: Vec<String> = params.iter().map(pattern).collect();
            format!("|{}| {}", params.join(", "), expr(body))
        }
        ExprKind::Block { lets, value } => {
            let lets: Vec<String> =
                lets.iter().map(|(to, value)| format!("let {} = {}; ", pattern(to), expr(value))).collect();
            format!("{{ {}{} }}", lets.concat(), expr(value))
        }
        ExprKind::If { condition, then, other } => {
            format!("if {} {{ {} }} else {{ {} }}", expr(condition), expr(then), expr(other))
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
            stmt.writes().into_iter().chain(stmt.reads()).map(|view| place(view, program)).collect();
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
            tile::Op::When { cond, .. } => format!("when {cond:?}"),
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

fn place(view: &View, program: &tile::Program) -> String {
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
                Coord::Digit { of, over, extent: Some(n) } => format!("({}) / {over} % {n}", affine(of)),
                Coord::Digit { of, over, extent: None } => format!("({}) / {over}", affine(of)),
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
