//! The constructs of a kernel's text, as rows of the coverage.

use tilewright_codegen::ast::{Arg, Expr, ExprKind, Kernel, Pattern, Stmt, StmtKind};

/// Constructs in the text of a kernel, as rows of the coverage.
pub fn constructs(kernel: &Kernel) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut see = |of: &ExprKind| found.extend(construct(of));
    statements(&kernel.body, &mut see);
    kernel.body.iter().for_each(|stmt| loops(stmt, false, &mut found));
    if kernel.keys.iter().any(|key| key.name.as_ref().is_some_and(|name| name.text == "arch")) {
        found.push("whole: sm_90");
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Rows of the coverage of whole tiles.
pub const CONSTRUCTS: &[&str] = &[
    "whole: operators",
    "whole: comparisons",
    "whole: conversions",
    "whole: functions of numbers",
    "whole: iota",
    "whole: full",
    "whole: map",
    "whole: gathers",
    "whole: coordinates",
    "whole: scatter",
    "whole: atomic updates",
    "whole: reductions along modes",
    "whole: reductions of all",
    "whole: reductions by closures",
    "whole: reductions of tuples",
    "whole: scan",
    "whole: scan with a carry",
    "whole: scan along several modes",
    "whole: exclusive scan",
    "whole: assignment",
    "whole: in place",
    "whole: along",
    "whole: permute",
    "whole: regroup",
    "whole: broadcast",
    "whole: shift",
    "whole: halo",
    "whole: clamp",
    "whole: shared",
    "whole: shared with a layout",
    "whole: gemm",
    "whole: loop",
    "whole: loop in a loop",
    "whole: if",
    "whole: pipelined",
    "whole: producer",
    "whole: persistent",
    "whole: cluster",
    "whole: sm_90",
];

fn is_named(args: &[Arg], key: &str) -> bool {
    args.iter().any(|arg| arg.name.as_ref().is_some_and(|name| name.text == key))
}

fn construct(of: &ExprKind) -> Vec<&'static str> {
    use tilewright_codegen::ast::Binary::{Eq, Ge, Gt, Le, Lt, Ne};
    match of {
        ExprKind::Binary(Lt | Le | Gt | Ge | Eq | Ne, ..) => vec!["whole: comparisons"],
        ExprKind::Binary(..) | ExprKind::Unary(..) => vec!["whole: operators"],
        ExprKind::Cast(..) => vec!["whole: conversions"],
        ExprKind::Method { method, .. } if method.text == "along" => vec!["whole: along"],
        ExprKind::Closure { params, body } => {
            let mut all = Vec::new();
            if params.iter().any(|param| matches!(param, Pattern::Name(name) if name.text == "at")) {
                all.push("whole: coordinates");
            }
            statements_of(body, &mut |inner| {
                if matches!(inner, ExprKind::Index { .. }) {
                    all.push("whole: gathers");
                }
            });
            all
        }
        ExprKind::Call { function, args, .. } => {
            let mut all = Vec::new();
            let modes =
                |n: usize| args.get(n).is_some_and(|arg| arg.name.is_none()) || is_named(args, "mode");
            all.extend(match function.text.as_str() {
                "iota" => Some("whole: iota"),
                "full" => Some("whole: full"),
                "map" => Some("whole: map"),
                "scatter" => Some("whole: scatter"),
                "sum" | "maximum" | "minimum" if modes(1) => Some("whole: reductions along modes"),
                "reduce" if matches!(args[0].value.kind, ExprKind::Tuple(_)) => {
                    Some("whole: reductions of tuples")
                }
                "reduce" => Some("whole: reductions by closures"),
                "sum" | "maximum" | "minimum" => Some("whole: reductions of all"),
                "scan" => Some("whole: scan"),
                "permute" => Some("whole: permute"),
                "regroup" => Some("whole: regroup"),
                "broadcast" => Some("whole: broadcast"),
                "shift" => Some("whole: shift"),
                "shared" if matches!(args[0].value.kind, ExprKind::Tuple(_) | ExprKind::Int(_)) => {
                    Some("whole: shared")
                }
                "shared" => Some("whole: shared with a layout"),
                "gemm" => Some("whole: gemm"),
                "pipelined" => Some("whole: pipelined"),
                "persistent" => Some("whole: persistent"),
                "cluster" => Some("whole: cluster"),
                "abs" | "min" | "max" | "exp" | "sqrt" | "floor" | "select" | "fma" => {
                    Some("whole: functions of numbers")
                }
                _ => None,
            });
            for (key, what) in [
                ("carry", "whole: scan with a carry"),
                ("exclusive", "whole: exclusive scan"),
                ("halo", "whole: halo"),
                ("clamp", "whole: clamp"),
                ("producer", "whole: producer"),
            ] {
                all.extend(is_named(args, key).then_some(what));
            }
            if is_named(args, "how") && matches!(function.text.as_str(), "scatter" | "copy") {
                all.push("whole: atomic updates");
            }
            let several = |arg: &Arg| {
                arg.name.as_ref().is_some_and(|name| name.text == "mode")
                    && matches!(arg.value.kind, ExprKind::Tuple(_))
            };
            if function.text == "scan" && args.iter().any(several) {
                all.push("whole: scan along several modes");
            }
            all
        }
        _ => Vec::new(),
    }
}

fn loops(stmt: &Stmt, inside: bool, found: &mut Vec<&'static str>) {
    match &stmt.kind {
        StmtKind::For { body, .. } => {
            found.push(if inside { "whole: loop in a loop" } else { "whole: loop" });
            body.iter().for_each(|stmt| loops(stmt, true, found));
        }
        StmtKind::If { then, other, .. } => {
            found.push("whole: if");
            then.iter().chain(other).for_each(|stmt| loops(stmt, inside, found));
        }
        StmtKind::Assign { target, op, .. } => {
            let is_output = matches!(&target.kind, ExprKind::Name(name) if name.starts_with('o'));
            found.push(if is_output && op.is_some() { "whole: in place" } else { "whole: assignment" });
        }
        _ => {}
    }
}

/// All expressions of statements.
pub(super) fn statements(body: &[Stmt], see: &mut dyn FnMut(&ExprKind)) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Let { value, .. } | StmtKind::Expr(value) => statements_of(value, see),
            StmtKind::Assign { value, .. } => statements_of(value, see),
            StmtKind::For { range, body, .. } => {
                statements_of(range, see);
                statements(body, see);
            }
            StmtKind::If { then, other, .. } => {
                statements(then, see);
                statements(other, see);
            }
            StmtKind::Block { body, .. } => statements(body, see),
        }
    }
}

fn statements_of(of: &Expr, see: &mut dyn FnMut(&ExprKind)) {
    see(&of.kind);
    match &of.kind {
        ExprKind::Tuple(items) => items.iter().for_each(|item| statements_of(item, see)),
        ExprKind::Call { args, .. } => args.iter().for_each(|arg| statements_of(&arg.value, see)),
        ExprKind::Method { receiver, args, .. } => {
            statements_of(receiver, see);
            args.iter().for_each(|arg| statements_of(&arg.value, see));
        }
        ExprKind::Field { base, .. } => statements_of(base, see),
        ExprKind::Index { base, .. } => statements_of(base, see),
        ExprKind::Unary(_, x) | ExprKind::Cast(x, _) | ExprKind::Closure { body: x, .. } => {
            statements_of(x, see)
        }
        ExprKind::Binary(_, x, y) => {
            statements_of(x, see);
            statements_of(y, see);
        }
        ExprKind::If { condition, then, other } => {
            [condition, then, other].into_iter().for_each(|x| statements_of(x, see));
        }
        ExprKind::Block { lets, value } => {
            lets.iter().for_each(|(_, x)| statements_of(x, see));
            statements_of(value, see);
        }
        _ => {}
    }
}
