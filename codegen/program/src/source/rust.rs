//! A function of the language as Rust, as an author would have written it. It knows no meaning of names.

mod lines;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use super::ast::{
    Arg, Binary, Choice, Expr, ExprKind, Kernel, Name, Param, ParamKind, Pattern, Span, Stmt, StmtKind, Unary,
};

/// Columns of a line.
const WIDTH: usize = 100;

/// The function with its attribute.
impl Display for Kernel {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let attribute = attribute(self);
        let attribute =
            if attribute.is_empty() { String::new() } else { format!("({})", attribute.join(", ")) };
        // The type of an optional argument implies its constant, unless the argument is left out.
        let implied: Vec<&str> = self.params.iter().filter_map(|param| presence(self, param)).collect();
        let consts =
            self.consts.iter().filter(|constant| !implied.contains(&&*constant.name.text)).map(|constant| {
                match &constant.default {
                    Some(value) if matches!(value.kind, ExprKind::Int(_)) => {
                        format!("const {}: usize = {}", constant.name.text, expr(value))
                    }
                    Some(value) => {
                        format!(
                            "const {}: {} = {{ {} }}",
                            constant.name.text,
                            constant_type(value),
                            expr(value)
                        )
                    }
                    None => format!("const {}: usize", constant.name.text),
                }
            });
        let generics: Vec<String> =
            self.types.iter().map(|param| param.name.text.clone()).chain(consts).collect();
        let generics = match &generics[..] {
            [] => String::new(),
            all => format!("<{}>", listed(all, 0)),
        };
        let unsafety = if self.is_unsafe { "unsafe " } else { "" };
        writeln!(to, "#[kernel{attribute}]")?;
        writeln!(to, "pub {unsafety}fn {}{generics}(", self.name.text)?;
        let parameter = |param: &Param| parameter(param, presence(self, param).is_some());
        self.params.iter().try_for_each(|param| writeln!(to, "    {},", parameter(param)))?;
        let mut changed = BTreeSet::new();
        self.body.iter().for_each(|stmt| changes(stmt, &mut changed));
        writeln!(to, ") {}", block(&self.body, 0, &changed))
    }
}

/// The constant of an optional argument that is there by default.
fn presence<'k>(kernel: &'k Kernel, param: &'k Param) -> Option<&'k str> {
    let ExprKind::Name(name) = &param.list.as_ref().filter(|_| param.optional)?.kind else { return None };
    let constant = kernel.consts.iter().find(|constant| constant.name.text == *name)?;
    let is_one = matches!(constant.default.as_ref()?.kind, ExprKind::Int(1));
    is_one.then_some(name)
}

/// The type of a constant with this value.
fn constant_type(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Closure { params, .. } => format!("fn({}) -> f32", vec!["f32"; params.len()].join(", ")),
        _ => "usize".into(),
    }
}

/// An argument of a call, or a key.
impl Display for Arg {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&argument(self))
    }
}

/// The parts of the attribute.
fn attribute(kernel: &Kernel) -> Vec<String> {
    let types = kernel.types.iter().map(|param| {
        let allowed: Vec<&str> = param.allowed.iter().map(|name| &*name.text).collect();
        format!("{} = {}", param.name.text, allowed.join(" | "))
    });
    let levels = kernel.levels.iter().map(|(name, level)| format!("{}({})", level.name(), name.text));
    let mut all: Vec<String> = types.chain(kernel.keys.iter().map(argument)).chain(levels).collect();
    all.extend(kernel.overlaps.then(|| "overlaps".to_owned()));
    all.extend((!kernel.choices.is_empty()).then(|| {
        let lists: Vec<String> = kernel.choices.iter().map(choice).collect();
        format!("choose({})", lists.join(", "))
    }));
    all
}

/// `(BM, BN) in [(128, 256), (64, 128)]`
fn choice(of: &Choice) -> String {
    let tuple = |items: Vec<String>| match &items[..] {
        [one] => one.clone(),
        all => format!("({})", all.join(", ")),
    };
    let rows: Vec<String> =
        of.rows.iter().map(|row| tuple(row.iter().map(i64::to_string).collect())).collect();
    format!("{} in [{}]", tuple(names(&of.names)), listed(&rows, 0))
}

/// Items with commas, on separate lines if they do not fit one.
fn listed(items: &[String], indent: usize) -> String {
    let one = items.join(", ");
    if one.len() <= WIDTH {
        return one;
    }
    let begin = format!("\n{}", " ".repeat(indent + 4));
    let (mut text, mut left) = (String::new(), 0);
    for item in items {
        if item.len() + 2 > left {
            text = text.trim_end().to_owned() + &begin;
            left = WIDTH;
        }
        text += &format!("{item}, ");
        left -= item.len() + 2;
    }
    format!("{}\n{}", text.trim_end(), " ".repeat(indent))
}

fn names(of: &[Name]) -> Vec<String> {
    of.iter().map(|name| name.text.clone()).collect()
}

/// An argument; an optional one that is left out is an empty list.
fn parameter(of: &Param, is_there: bool) -> String {
    let (name, elem) = (&of.name.text, &of.elem.text);
    let ParamKind::Tensor { mutable, shape, stride } = &of.kind else { return format!("{name}: {elem}") };
    let borrow = if *mutable { "&mut " } else { "&" };
    let stride = stride.as_ref().map_or(String::new(), |stride| format!(", {}", extents(stride)));
    let tensor = format!("{borrow}Tensor<{elem}, {}{stride}>", extents(shape));
    match &of.list {
        Some(_) if of.optional && is_there => format!("{name}: Option<{tensor}>"),
        Some(len) => format!("{name}: [{tensor}; {}]", expr(len)),
        None => format!("{name}: {tensor}"),
    }
}

/// Extents or strides as types: numbers begin with an underscore, and computed extents have braces.
fn extents(of: &Expr) -> String {
    fn plain(of: &Expr) -> Option<String> {
        match &of.kind {
            ExprKind::Int(number) => Some(format!("_{number}")),
            ExprKind::Name(name) => Some(name.clone()),
            ExprKind::Hole => Some("_".to_owned()),
            ExprKind::Tuple(items) => {
                let one = if items.len() == 1 { "," } else { "" };
                let items: Option<Vec<String>> = items.iter().map(plain).collect();
                Some(format!("({}{one})", items?.join(", ")))
            }
            _ => None,
        }
    }
    plain(of).unwrap_or_else(|| format!("{{ {} }}", expr(of)))
}

/// The names that statements change: the targets of assignments, and accumulators.
fn changes(stmt: &Stmt, names: &mut BTreeSet<String>) {
    let mut target = match &stmt.kind {
        StmtKind::Assign { target, .. } => Some(target),
        StmtKind::Expr(of) => accumulator(of),
        _ => None,
    };
    while let Some(of) = target {
        target = match &of.kind {
            ExprKind::Name(name) => {
                names.insert(name.clone());
                None
            }
            ExprKind::Index { base, .. } | ExprKind::Field { base, .. } => Some(base),
            _ => None,
        };
    }
    stmt.stmts().into_iter().for_each(|inner| changes(inner, names));
}

/// The accumulators of a product.
fn accumulator(of: &Expr) -> Option<&Expr> {
    match &of.kind {
        ExprKind::Call { function, args, .. } if function.text == "gemm" => args.get(2).map(|arg| &arg.value),
        _ => None,
    }
}

fn block(body: &[Stmt], indent: usize, changed: &BTreeSet<String>) -> String {
    let inner = indent + 4;
    let lines = body.iter().map(|stmt| format!("{}{}\n", " ".repeat(inner), statement(stmt, inner, changed)));
    format!("{{\n{}{}}}", lines.collect::<String>(), " ".repeat(indent))
}

fn statement(of: &Stmt, indent: usize, changed: &BTreeSet<String>) -> String {
    let block = |body: &[Stmt]| block(body, indent, changed);
    match &of.kind {
        StmtKind::Let { pattern: to, value } => format!("let {} = {};", pattern(to, changed), expr(value)),
        StmtKind::Assign { target, op, value } => {
            format!("{} {}= {};", expr(target), op.map_or("", Binary::sign), expr(value))
        }
        StmtKind::For { pattern: to, range, body } => {
            format!("for {} in {} {}", pattern(to, &BTreeSet::new()), expr(range), block(body))
        }
        StmtKind::If { condition, then, other } => {
            let other = if other.is_empty() { String::new() } else { format!(" else {}", block(other)) };
            format!("if {} {}{other}", expr(condition), block(then))
        }
        StmtKind::While { condition, body } => format!("while {} {}", expr(condition), block(body)),
        StmtKind::Break => "break;".to_owned(),
        StmtKind::Block { head, body } => {
            let head = expr(head);
            let head = head.strip_suffix(')').unwrap_or(&head);
            let comma = if head.ends_with('(') { "" } else { ", " };
            format!("{head}{comma}|| {});", block(body))
        }
        StmtKind::Expr(value) => match (&value.kind, accumulator(value)) {
            (ExprKind::Call { function, args, .. }, Some(acc)) => {
                let mut args: Vec<String> = args.iter().map(argument).collect();
                args[2] = format!("&mut {}", expr(acc));
                format!("{}({});", function.text, args.join(", "))
            }
            _ => {
                let text = format!("{};", expr(value));
                match &value.kind {
                    ExprKind::Call { function, types, args } if text.len() + indent > WIDTH => {
                        let args: Vec<String> = args.iter().map(argument).collect();
                        let begin = format!("\n{}", " ".repeat(indent + 4));
                        let end = " ".repeat(indent);
                        format!(
                            "{}({begin}{},\n{end});",
                            callee(function, types),
                            args.join(&format!(",{begin}"))
                        )
                    }
                    _ => text,
                }
            }
        },
    }
}

/// `function::<types>`
fn callee(function: &Name, types: &[Name]) -> String {
    let types = if types.is_empty() { String::new() } else { format!("::<{}>", names(types).join(", ")) };
    format!("{}{types}", function.text)
}

fn pattern(of: &Pattern, changed: &BTreeSet<String>) -> String {
    match of {
        Pattern::Name(name) if changed.contains(&name.text) => format!("mut {}", name.text),
        Pattern::Name(name) => name.text.clone(),
        Pattern::Hole(_) => "_".to_owned(),
        Pattern::Tuple(_, items) => {
            let items: Vec<String> = items.iter().map(|item| pattern(item, changed)).collect();
            format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
        }
    }
}

fn patterns(of: &[Pattern]) -> String {
    of.iter().map(|one| pattern(one, &BTreeSet::new())).collect::<Vec<_>>().join(", ")
}

fn argument(of: &Arg) -> String {
    match (&of.name, &of.value.kind) {
        // Keys in parentheses are a call of their key.
        (Some(name), ExprKind::Call { function, args, .. }) if function.text == name.text => {
            format!("{} = ({})", name.text, arguments(args))
        }
        (Some(name), _) => format!("{} = {}", name.text, expr(&of.value)),
        (None, _) => expr(&of.value),
    }
}

fn arguments(of: &[Arg]) -> String {
    of.iter().map(argument).collect::<Vec<_>>().join(", ")
}

/// An operand: operations in operations have parentheses.
fn operand(of: &Expr) -> String {
    match &of.kind {
        ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Range(..)
        | ExprKind::Cast(..)
        | ExprKind::Closure { .. }
        | ExprKind::Block { .. }
        | ExprKind::If { .. } => format!("({})", expr(of)),
        _ => expr(of),
    }
}

fn expr(of: &Expr) -> String {
    match &of.kind {
        ExprKind::Int(number) => number.to_string(),
        ExprKind::Long(number) => number.to_string(),
        ExprKind::Float(number) => format!("{number:?}"),
        ExprKind::Bool(flag) => flag.to_string(),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Name(name) | ExprKind::Path(name) => name.clone(),
        ExprKind::Hole => "_".to_owned(),
        ExprKind::Tuple(items) => {
            let one = if items.len() == 1 { "," } else { "" };
            format!("({}{one})", items.iter().map(expr).collect::<Vec<_>>().join(", "))
        }
        ExprKind::Call { function, types, args } => {
            format!("{}({})", callee(function, types), arguments(args))
        }
        ExprKind::Method { receiver, method, args } => {
            format!("{}.{}({})", operand(receiver), method.text, arguments(args))
        }
        ExprKind::Field { base, field } => format!("{}.{}", operand(base), field.text),
        ExprKind::Index { base, index } => format!("{}[{}]", operand(base), expr(index)),
        ExprKind::Unary(op, inner) => {
            format!("{}{}", if *op == Unary::Neg { "-" } else { "!" }, operand(inner))
        }
        ExprKind::Binary(..) => {
            let (first, links) = of.chain();
            chain(first, &links)
        }
        ExprKind::Range(from, to) => format!("{}..{}", operand(from), operand(to)),
        ExprKind::Cast(inner, to) => format!("{} as {}", operand(inner), to.text),
        ExprKind::Layout { shape, stride } => match stride {
            Some(stride) => format!("layout!({} : {})", expr(shape), expr(stride)),
            None => format!("layout!({})", expr(shape)),
        },
        ExprKind::Closure { params, body } => format!("|{}| {}", patterns(params), expr(body)),
        ExprKind::Block { lets, value } => {
            let lets = lets
                .iter()
                .map(|(to, value)| format!("let {} = {}; ", pattern(to, &BTreeSet::new()), expr(value)));
            format!("{{ {}{} }}", lets.collect::<String>(), expr(value))
        }
        ExprKind::If { condition, then, other } => {
            format!("if {} {{ {} }} else {{ {} }}", expr(condition), expr(then), expr(other))
        }
    }
}

/// A chain of operators from left to right.
fn chain(first: &Expr, links: &[(Span, Binary, &Expr)]) -> String {
    let Some((_, op, _)) = links.last() else { return operand(first) };
    let (mut text, mut before) = (side(first, *op), None);
    for (_, op, right) in links.iter().rev() {
        if before.is_some_and(|(inner, last)| !is_first(inner, *op) || (*op == Binary::Lt && is_cast(last))) {
            text = format!("({text})");
        }
        text = format!("{text} {} {}", op.sign(), side(right, *op));
        before = Some((*op, *right));
    }
    text
}

/// Is a chain of `inner` on the left of `op` read first, as everybody knows?
fn is_first(inner: Binary, op: Binary) -> bool {
    is_known(op) && (level(inner) > level(op) || (level(inner) == level(op) && level(op) > 0))
}

/// Does it end with a type, which a `<` after it would continue?
fn is_cast(of: &Expr) -> bool {
    match &of.kind {
        ExprKind::Cast(..) => true,
        ExprKind::Binary(_, _, right) => is_cast(right),
        _ => false,
    }
}

/// An operand of an operator, without parentheses where everybody knows the order.
fn side(of: &Expr, op: Binary) -> String {
    match &of.kind {
        ExprKind::Binary(inner, ..) if level(*inner) > level(op) && is_known(op) && op != Binary::Lt => {
            expr(of)
        }
        ExprKind::Cast(..) if level(op) > 0 => expr(of),
        _ => operand(of),
    }
}

/// The precedence of arithmetic; 0 for other operators.
fn level(op: Binary) -> u8 {
    match op {
        Binary::Mul | Binary::Div | Binary::Rem => 2,
        Binary::Add | Binary::Sub => 1,
        _ => 0,
    }
}

/// Is arithmetic known to come before this operator?
fn is_known(op: Binary) -> bool {
    let compares = matches!(op, Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne);
    compares || level(op) > 0
}
