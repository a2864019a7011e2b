//! Trees as text, for tests: like the source, with parentheses around every operation.

use tilewright_program::ast::*;

pub(crate) fn kernel(k: &Kernel) -> String {
    let mut text = format!("{}fn {}", if k.is_unsafe { "unsafe " } else { "" }, k.name.text);
    let consts = k.consts.iter().map(|c| match &c.default {
        Some(value) => format!("{} = {}", c.name.text, expr(value)),
        None => c.name.text.clone(),
    });
    let types = k.types.iter().map(|t| format!("{}: {}", t.name.text, names(&t.allowed, " | ")));
    let generics: Vec<_> = types.chain(consts).collect();
    if !generics.is_empty() {
        text += &format!("<{}>", generics.join(", "));
    }
    let params: Vec<_> = k.params.iter().map(param).collect();
    text += &format!("({}) {}", params.join(", "), block(&k.body));
    for (name, level) in &k.levels {
        text += &format!(" {level:?}({})", name.text);
    }
    for key in &k.keys {
        text += &format!(" {}", args(std::slice::from_ref(key)));
    }
    if k.overlaps {
        text += " overlaps";
    }
    for choice in &k.choices {
        text += &format!(" {} in {:?}", names(&choice.names, ", "), choice.rows);
    }
    text
}

fn param(p: &Param) -> String {
    let kind = match &p.kind {
        ParamKind::Scalar => p.elem.text.clone(),
        ParamKind::Tensor { mutable, shape, stride } => {
            let stride = stride.as_ref().map_or(String::new(), |stride| format!(" : {}", expr(stride)));
            format!("{}{}{}{stride}", if *mutable { "&mut " } else { "&" }, p.elem.text, expr(shape))
        }
    };
    format!("{}: {kind}", p.name.text)
}

pub(crate) fn block(stmts: &[Stmt]) -> String {
    let stmts: Vec<_> = stmts.iter().map(stmt).collect();
    if stmts.is_empty() { "{}".into() } else { format!("{{ {} }}", stmts.join(" ")) }
}

fn stmt(s: &Stmt) -> String {
    match &s.kind {
        StmtKind::Let { pattern: p, value } => format!("let {} = {};", pattern(p), expr(value)),
        StmtKind::Assign { target, op: None, value } => format!("{} = {};", expr(target), expr(value)),
        StmtKind::Assign { target, op: Some(op), value } => {
            format!("{} {}= {};", expr(target), op.sign(), expr(value))
        }
        StmtKind::For { pattern: p, range, body } => {
            format!("for {} in {} {}", pattern(p), expr(range), block(body))
        }
        StmtKind::If { condition, then, other } if other.is_empty() => {
            format!("if {} {}", expr(condition), block(then))
        }
        StmtKind::If { condition, then, other } => {
            format!("if {} {} else {}", expr(condition), block(then), block(other))
        }
        StmtKind::While { condition, body } => format!("while {} {}", expr(condition), block(body)),
        StmtKind::Break => "break;".into(),
        StmtKind::Block { head, body } => format!("{} {}", expr(head), block(body)),
        StmtKind::Expr(value) => format!("{};", expr(value)),
    }
}

fn pattern(p: &Pattern) -> String {
    match p {
        Pattern::Name(name) => name.text.clone(),
        Pattern::Hole(_) => "_".into(),
        Pattern::Tuple(_, items) => format!("({})", items.iter().map(pattern).collect::<Vec<_>>().join(", ")),
    }
}

pub(crate) fn expr(e: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(expr).collect::<Vec<_>>().join(", ");
    match &e.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Long(n) => n.to_string(),
        ExprKind::Float(x) => format!("{x:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Name(name) | ExprKind::Path(name) => name.clone(),
        ExprKind::Hole => "_".into(),
        ExprKind::Tuple(items) if items.len() == 1 => format!("({},)", list(items)),
        ExprKind::Tuple(items) => format!("({})", list(items)),
        ExprKind::Call { function, types, args: a } if types.is_empty() => {
            format!("{}({})", function.text, args(a))
        }
        ExprKind::Call { function, types, args: a } => {
            format!("{}::<{}>({})", function.text, names(types, ", "), args(a))
        }
        ExprKind::Method { receiver, method, args: a } => {
            format!("{}.{}({})", expr(receiver), method.text, args(a))
        }
        ExprKind::Field { base, field } => format!("{}.{}", expr(base), field.text),
        ExprKind::Index { base, index } => format!("{}[{}]", expr(base), expr(index)),
        ExprKind::Unary(op, inner) => {
            format!("({}{})", if *op == Unary::Neg { "-" } else { "!" }, expr(inner))
        }
        ExprKind::Binary(op, left, right) => format!("({} {} {})", expr(left), op.sign(), expr(right)),
        ExprKind::Range(from, to) => format!("{}..{}", expr(from), expr(to)),
        ExprKind::Cast(inner, to) => format!("({} as {})", expr(inner), to.text),
        ExprKind::Layout { shape, stride: None } => format!("layout!({})", expr(shape)),
        ExprKind::Layout { shape, stride: Some(stride) } => {
            format!("layout!({} : {})", expr(shape), expr(stride))
        }
        ExprKind::Closure { params, body } => {
            format!("|{}| {}", params.iter().map(pattern).collect::<Vec<_>>().join(", "), expr(body))
        }
        ExprKind::Block { lets, value } => {
            let lets: String = lets
                .iter()
                .map(|(name, value)| format!("let {} = {}; ", pattern(name), expr(value)))
                .collect();
            format!("{{ {lets}{} }}", expr(value))
        }
        ExprKind::If { condition, then, other } => {
            format!("(if {} {{ {} }} else {{ {} }})", expr(condition), expr(then), expr(other))
        }
    }
}

pub(crate) fn args(args: &[Arg]) -> String {
    let one = |arg: &Arg| match &arg.name {
        Some(name) => format!("{} = {}", name.text, expr(&arg.value)),
        None => expr(&arg.value),
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn names(names: &[Name], between: &str) -> String {
    names.iter().map(|name| &*name.text).collect::<Vec<_>>().join(between)
}
