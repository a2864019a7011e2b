//! Short constructors for nodes of the syntax tree.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, ExprKind, Name, Pattern, Span, Stmt, StmtKind, Unary};

const NOWHERE: Span = Span(0);

pub(super) fn expr(kind: ExprKind) -> Expr {
    Expr { span: NOWHERE, kind }
}

pub(super) fn word(text: &str) -> Name {
    Name { text: text.into(), span: NOWHERE }
}

pub(super) fn name(text: &str) -> Expr {
    expr(ExprKind::Name(text.into()))
}

/// A number that is computed: one that an index spells out must name an element.
pub(super) fn computed(n: i64) -> Expr {
    match n {
        0 => int(0),
        n => binary(Binary::Sub, int(n + 1), int(1)),
    }
}

pub(super) fn int(n: i64) -> Expr {
    let size = expr(ExprKind::Int(n.abs()));
    if n < 0 { expr(ExprKind::Unary(Unary::Neg, Box::new(size))) } else { size }
}

pub(super) fn float(x: f64) -> Expr {
    if x.is_infinite() {
        return expr(ExprKind::Path(if x < 0.0 { "f32::NEG_INFINITY" } else { "f32::INFINITY" }.into()));
    }
    let size = expr(ExprKind::Float(x.abs()));
    if x < 0.0 { expr(ExprKind::Unary(Unary::Neg, Box::new(size))) } else { size }
}

/// A number as a literal of a type.
pub(super) fn literal(x: f64, elem: Elem) -> Expr {
    if elem.is_float() { float(x) } else { int(x as i64) }
}

pub(super) fn hole() -> Expr {
    expr(ExprKind::Hole)
}

pub(super) fn text(of: &str) -> Expr {
    expr(ExprKind::Str(of.into()))
}

pub(super) fn truth(of: bool) -> Expr {
    expr(ExprKind::Bool(of))
}

/// A tuple; a single entry is not wrapped.
pub(super) fn tuple(mut all: Vec<Expr>) -> Expr {
    if all.len() == 1 { all.remove(0) } else { expr(ExprKind::Tuple(all)) }
}

/// A tuple, also of one entry.
pub(super) fn list(all: Vec<Expr>) -> Expr {
    expr(ExprKind::Tuple(all))
}

pub(super) fn ints(all: &[i64]) -> Expr {
    tuple(all.iter().map(|&n| int(n)).collect())
}

/// Modes, some of them nested.
pub(super) fn nested_entries(of: &[Vec<i64>]) -> Expr {
    let entries: Vec<Expr> = of.iter().map(|inner| ints(inner)).collect();
    match of {
        // A nested mode by itself remains nested.
        [inner] if inner.len() > 1 => list(entries),
        _ => tuple(entries),
    }
}

pub(super) fn call(function: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    expr(ExprKind::Call { function: word(function), types: Vec::new(), args })
}

/// The same with a type argument.
pub(super) fn typed(function: &str, elem: Elem, args: Vec<Expr>) -> Expr {
    with_type(call(function, args), elem)
}

fn with_type(mut of: Expr, elem: Elem) -> Expr {
    if let ExprKind::Call { types, .. } = &mut of.kind {
        types.push(word(elem.name()));
    }
    of
}

/// The same with one more argument, by name.
pub(super) fn with(mut of: Expr, key: &str, value: Expr) -> Expr {
    if let ExprKind::Call { args, .. } = &mut of.kind {
        args.push(Arg { name: Some(word(key)), value });
    }
    of
}

pub(super) fn method(receiver: Expr, method: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    expr(ExprKind::Method { receiver: Box::new(receiver), method: word(method), args })
}

pub(super) fn field(base: &str, field: &str) -> Expr {
    expr(ExprKind::Field { base: Box::new(name(base)), field: word(field) })
}

pub(super) fn index(base: Expr, at: Vec<Expr>) -> Expr {
    expr(ExprKind::Index { base: Box::new(base), index: Box::new(tuple(at)) })
}

pub(super) fn binary(op: Binary, x: Expr, y: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(x), Box::new(y)))
}

pub(super) fn negative(x: Expr) -> Expr {
    expr(ExprKind::Unary(Unary::Neg, Box::new(x)))
}

pub(super) fn cast(x: Expr, to: Elem) -> Expr {
    expr(ExprKind::Cast(Box::new(x), word(to.name())))
}

pub(super) fn range(from: Expr, to: Expr) -> Expr {
    expr(ExprKind::Range(Box::new(from), Box::new(to)))
}

pub(super) fn layout(shape: Expr, stride: Option<Expr>) -> Expr {
    expr(ExprKind::Layout { shape: Box::new(shape), stride: stride.map(Box::new) })
}

pub(super) fn closure(params: &[&str], body: Expr) -> Expr {
    let params = params.iter().map(|param| Pattern::Name(word(param))).collect();
    expr(ExprKind::Closure { params, body: Box::new(body) })
}

/// A closure of two pairs.
pub(super) fn pairs(params: [[&str; 2]; 2], body: Expr) -> Expr {
    let pair =
        |names: [&str; 2]| Pattern::Tuple(NOWHERE, names.map(|name| Pattern::Name(word(name))).to_vec());
    expr(ExprKind::Closure { params: params.map(pair).to_vec(), body: Box::new(body) })
}

pub(super) fn choice(condition: Expr, then: Expr, other: Expr) -> Expr {
    let (condition, then, other) = (Box::new(condition), Box::new(then), Box::new(other));
    expr(ExprKind::If { condition, then, other })
}

pub(super) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { span: NOWHERE, kind }
}

pub(super) fn bind(to: &str, value: Expr) -> Stmt {
    stmt(StmtKind::Let { pattern: Pattern::Name(word(to)), value })
}

pub(super) fn effect(value: Expr) -> Stmt {
    stmt(StmtKind::Expr(value))
}

pub(super) fn assign(target: Expr, op: Option<Binary>, value: Expr) -> Stmt {
    stmt(StmtKind::Assign { target, op, value })
}

pub(super) fn not(x: Expr) -> Expr {
    expr(ExprKind::Unary(Unary::Not, Box::new(x)))
}

pub(super) fn decide(condition: Expr, then: Vec<Stmt>, other: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::If { condition, then, other })
}

pub(super) fn repeat(var: &str, range: Expr, body: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::For { pattern: Pattern::Name(word(var)), range, body })
}
