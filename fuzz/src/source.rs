//! Kernels as text, as their authors would write them.

use std::fmt::Write;

use tilewright_codegen::Definition;
use tilewright_codegen::ast::{
    Arg, Binary, Expr, ExprKind, Kernel, Param, ParamKind, Pattern, Stmt, StmtKind, Unary,
};

/// A definition: the function, or the macro with its keys.
pub fn definition(of: &Definition) -> String {
    match of {
        Definition::Function(of, _) => kernel(of),
        Definition::Matmul(args) => {
            format!("matmul_kernel!({})\n", args.iter().map(arg).collect::<Vec<_>>().join(", "))
        }
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
    let mut text = format!("#[kernel]\nfn {}{generics}(\n", of.name.text);
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
            format!("{} {}= {};", expr(target), op.map_or("", operator), expr(value))
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

/// An operand, in parentheses where it is made of others.
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
        ExprKind::Binary(op, x, y) => format!("{} {} {}", operand(x), operator(*op), operand(y)),
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
        ExprKind::If { condition, then, other } => {
            format!("if {} {{ {} }} else {{ {} }}", expr(condition), expr(then), expr(other))
        }
    }
}

fn operator(of: Binary) -> &'static str {
    match of {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::Rem => "%",
        Binary::Lt => "<",
        Binary::Le => "<=",
        Binary::Gt => ">",
        Binary::Ge => ">=",
        Binary::Eq => "==",
        Binary::Ne => "!=",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::Shl => "<<",
        Binary::Shr => ">>",
    }
}
