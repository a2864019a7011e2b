//! Expressions: from syn's tree to the AST. Unsupported Rust is refused, with what to write instead.

use crate::pattern::pattern;
use crate::text::{Text, TokenRange};
use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Lit, Member, Token, UnOp};
use tilewright_program::ast::{self, Arg, Binary, ExprKind, Name, Unary};
use tilewright_program::limits::LONGEST_CHAIN;

/// Converts an expression. After an error the result is a hole, and the error is recorded in the text.
pub(crate) fn expr(from: &Expr, text: &mut Text) -> ast::Expr {
    if let Some(attr) = attrs(from).first() {
        text.wrong(TokenRange::of(attr), "attributes mean nothing here", "leave it out");
    }
    match text.deeper(&Shallow(from), |text| kind(from, text)) {
        Some(Some((extent, kind))) => ast::Expr { span: text.span(extent), kind },
        Some(None) | None => hole(from, text),
    }
}

fn boxed(from: &Expr, text: &mut Text) -> Box<ast::Expr> {
    Box::new(expr(from, text))
}

fn hole(from: &Expr, text: &mut Text) -> ast::Expr {
    ast::Expr { span: text.span(TokenRange::of(&Shallow(from))), kind: ExprKind::Hole }
}

/// The span and kind of an expression; `None` after an error. Every span is combined from the spans of
/// its parts: asking syn would print the whole tree again at every level.
fn kind(from: &Expr, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    Some(match from {
        Expr::Lit(lit) => (lit.lit.span().into(), literal(&lit.lit, text)?),
        Expr::Path(path) => {
            if let Some(qself) = &path.qself {
                text.wrong(
                    TokenRange::of(&qself.ty),
                    "types have no members here",
                    "write a name of the kernel",
                );
                return None;
            }
            path_value(&path.path, text)?
        }
        Expr::Infer(hole) => (hole.underscore_token.span.into(), ExprKind::Hole),
        Expr::Paren(inner) => (around(inner.paren_token.span), expr(&inner.expr, text).kind),
        Expr::Group(inner) => return kind(&inner.expr, text),
        Expr::Tuple(tuple) => {
            let items = tuple.elems.iter().map(|item| expr(item, text)).collect();
            (around(tuple.paren_token.span), ExprKind::Tuple(items))
        }
        Expr::Array(array) => {
            let items = array.elems.iter().map(|item| expr(item, text)).collect();
            (around(array.bracket_token.span), ExprKind::Tuple(items))
        }
        Expr::Call(call) => return self::call(call, text),
        Expr::MethodCall(call) => method(call, text),
        Expr::Field(field) => {
            let base = boxed(&field.base, text);
            let field = match &field.member {
                Member::Named(name) => text.name(name),
                Member::Unnamed(index) => Name { text: index.index.to_string(), span: text.span(index.span) },
            };
            let extent = text.tokens_of(base.span).to(text.tokens_of(field.span));
            (extent, ExprKind::Field { base, field })
        }
        Expr::Index(index) => {
            let base = boxed(&index.expr, text);
            let extent = text.tokens_of(base.span).to(index.bracket_token.span.close().into());
            (extent, ExprKind::Index { base, index: boxed(&index.index, text) })
        }
        // Tiles are values: the call determines whether it reads or writes one.
        Expr::Reference(reference) => {
            let inner = expr(&reference.expr, text);
            (TokenRange::from(reference.and_token.spans[0]).to(text.tokens_of(inner.span)), inner.kind)
        }
        Expr::Unary(unary) => return self::unary(unary, text),
        Expr::Binary(binary) => return chain(binary, text),
        Expr::Range(range) => return self::range(range, text),
        Expr::Cast(cast) => {
            let inner = boxed(&cast.expr, text);
            let to = element(&cast.ty, text)?;
            let extent = text.tokens_of(inner.span).to(text.tokens_of(to.span));
            (extent, ExprKind::Cast(inner, to))
        }
        Expr::Macro(call) => return layout_macro(&call.mac, text),
        Expr::Closure(closure) => self::closure(closure, text),
        Expr::If(branch) => return choice(branch, text),
        Expr::Block(block) if block.label.is_none() => {
            let value = block_value(&block.block, text)?;
            (around(block.block.brace_token.span), value.kind)
        }
        other => {
            let (at, what, instead) = refusal(other);
            text.wrong(at, what, instead);
            return None;
        }
    })
}

fn call(call: &syn::ExprCall, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    let Expr::Path(function) = &*call.func else {
        text.wrong(
            TokenRange::of(&call.func),
            "only functions of the language can be called",
            "write the function's name in front of the parentheses",
        );
        return None;
    };
    let (function, types) = callee(&function.path, text)?;
    let extent = text.tokens_of(function.span).to(call.paren_token.span.close().into());
    Some((extent, ExprKind::Call { function, types, args: arguments(&call.args, text) }))
}

fn method(call: &syn::ExprMethodCall, text: &mut Text) -> (TokenRange, ExprKind) {
    if let Some(turbofish) = &call.turbofish {
        text.wrong(
            TokenRange::of(turbofish),
            "methods take no types",
            "leave them out; an element type is changed with `x as f16`",
        );
    }
    let receiver = boxed(&call.receiver, text);
    let extent = text.tokens_of(receiver.span).to(call.paren_token.span.close().into());
    let (method, args) = (text.name(&call.method), arguments(&call.args, text));
    (extent, ExprKind::Method { receiver, method, args })
}

fn unary(unary: &syn::ExprUnary, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    let operator = match unary.op {
        UnOp::Neg(_) => Unary::Neg,
        UnOp::Not(_) => Unary::Not,
        _ => {
            text.wrong(
                unary.op.span(),
                "there is nothing to dereference here",
                "leave out the `*`; a power is x * x, or pow(x, 3.0)",
            );
            return None;
        }
    };
    let inner = boxed(&unary.expr, text);
    let extent = TokenRange::from(unary.op.span()).to(text.tokens_of(inner.span));
    Some((extent, ExprKind::Unary(operator, inner)))
}

/// A range with both its ends; a closed one ends one further.
fn range(range: &syn::ExprRange, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    let (Some(from), Some(to)) = (&range.start, &range.end) else {
        text.wrong(
            TokenRange::of(&range.limits),
            "a range needs both its ends here",
            "write `0..n`; in an index, all of a mode is `_`",
        );
        return None;
    };
    let (from, mut to) = (boxed(from, text), boxed(to, text));
    let extent = text.tokens_of(from.span).to(text.tokens_of(to.span));
    if let syn::RangeLimits::Closed(_) = range.limits {
        let one = Box::new(ast::Expr { span: to.span, kind: ExprKind::Int(1) });
        to = Box::new(ast::Expr { span: to.span, kind: ExprKind::Binary(Binary::Add, to, one) });
    }
    Some((extent, ExprKind::Range(from, to)))
}

fn closure(closure: &syn::ExprClosure, text: &mut Text) -> (TokenRange, ExprKind) {
    let extra = closure.lifetimes.as_ref().map(TokenRange::of);
    let extra = extra.or(closure.asyncness.as_ref().map(TokenRange::of));
    if let Some(extra) = extra.or(closure.capture.as_ref().map(TokenRange::of)) {
        text.wrong(extra, "a function of elements has parameters and a value only", "write `|x| …`");
    }
    if let syn::ReturnType::Type(_, ty) = &closure.output {
        text.wrong(TokenRange::of(ty), "the type of the value is inferred here", "leave it out");
    }
    let params = closure.inputs.iter().filter_map(|input| pattern(input, text)).collect();
    let body = boxed(&closure.body, text);
    let extent = TokenRange::from(closure.inputs_begin.span).to(text.tokens_of(body.span));
    (extent, ExprKind::Closure { params, body })
}

/// `let Some(bias) = bias`, the condition of an `if`.
pub(crate) struct Tested {
    /// `bias.is_some()`
    pub(crate) condition: ast::Expr,
    pub(crate) pattern: ast::Pattern,
    /// `bias[0]`
    pub(crate) value: ast::Expr,
}

/// Whether the suffix of a number is a name in lower case that no type has.
fn is_name(suffix: &str) -> bool {
    suffix.starts_with(|first: char| first.is_ascii_lowercase())
        && suffix != "usize"
        && tilewright_program::Elem::named(suffix).is_none()
}

/// The test of an optional argument, which is a list of at most one tensor, if the condition is one.
pub(crate) fn optional(condition: &Expr, text: &mut Text) -> Option<Tested> {
    let Expr::Let(tested) = condition else { return None };
    let syn::Pat::TupleStruct(some) = &*tested.pat else { return None };
    let (true, [inner]) = (some.path.is_ident("Some"), &some.elems.iter().collect::<Vec<_>>()[..]) else {
        return None;
    };
    let hole = |text: &mut Text| ast::Pattern::Hole(text.span(TokenRange::of(inner)));
    let pattern = pattern(inner, text).unwrap_or_else(|| hole(text));
    let list = expr(&tested.expr, text);
    let at_list = |kind| ast::Expr { span: list.span, kind };
    let method = Name { text: "is_some".into(), span: list.span };
    let condition = at_list(ExprKind::Method { receiver: Box::new(list.clone()), method, args: Vec::new() });
    let index = Box::new(at_list(ExprKind::Int(0)));
    let value = at_list(ExprKind::Index { base: Box::new(list.clone()), index });
    Some(Tested { condition, pattern, value })
}

/// An `if` that has a value.
fn choice(branch: &syn::ExprIf, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    let start = TokenRange::from(branch.if_token.span);
    let Some((_, other)) = &branch.else_branch else {
        text.wrong(start, "this `if` has no value if its condition is false", "add an `else`");
        return None;
    };
    let tested = optional(&branch.cond, text);
    let condition = tested.as_ref().map(|tested| tested.condition.clone());
    let condition = Box::new(condition.unwrap_or_else(|| expr(&branch.cond, text)));
    let mut then = block_value(&branch.then_branch, text)?;
    if let Some(Tested { pattern, value, .. }) = tested {
        then = ast::Expr {
            span: then.span,
            kind: ExprKind::Block { lets: vec![(pattern, value)], value: Box::new(then) },
        };
    }
    let then = Box::new(then);
    let other = boxed(other, text);
    Some((start.to(text.tokens_of(other.span)), ExprKind::If { condition, then, other }))
}

/// A chain of operators: syn nests it to the left, as deep as it is long. It is walked without recursion.
fn chain(last: &syn::ExprBinary, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    let mut links = vec![last];
    let first = loop {
        match &*links[links.len() - 1].left {
            Expr::Binary(left) if left.attrs.is_empty() => links.push(left),
            first => break first,
        }
    };
    if links.len() > LONGEST_CHAIN as usize {
        let what = format!("this chain has {} operators, and {LONGEST_CHAIN} is the limit", links.len());
        let instead = "give parts of it names, with `let`, or let a `map` of its own compute them";
        text.wrong(TokenRange::of(&last.op), what, instead);
        return None;
    }
    let mut left = expr(first, text);
    for link in links.into_iter().rev() {
        let Some(operator) = operator(&link.op) else {
            text.wrong(
                TokenRange::of(&link.op),
                "an assignment is a statement, not a value",
                "write it on a line of its own",
            );
            return None;
        };
        let right = expr(&link.right, text);
        let extent = text.tokens_of(left.span).to(text.tokens_of(right.span));
        let kind = ExprKind::Binary(operator, Box::new(left), Box::new(right));
        if std::ptr::eq(link, last) {
            return Some((extent, kind));
        }
        left = ast::Expr { span: text.span(extent), kind };
    }
    None
}

/// Rust that the language does not support: its span, its name, and the remedy.
fn refusal(from: &Expr) -> (TokenRange, &'static str, &'static str) {
    let first = first(from);
    let (what, instead) = match from {
        Expr::While(_) | Expr::Loop(_) | Expr::ForLoop(_) => {
            ("a loop is a statement, not a value", "write it on a line of its own")
        }
        Expr::Match(_) => ("there is no `match` in a kernel", "write `if … { … } else { … }`"),
        Expr::Let(_) => (
            "`if let Some(x) = argument` is the only pattern that a kernel tests",
            "write it like this for an optional argument, or a comparison such as `k == 0`",
        ),
        Expr::Return(syn::ExprReturn { expr: Some(_), .. }) => (
            "there is no `return`, and a kernel has no result",
            "put the remaining statements under an `if`; the value of a `#[device]` function is its last expression, such as `if … { x } else { y }`",
        ),
        Expr::Return(_) => {
            ("a kernel has no result", "remove it, or put the remaining statements under an `if`")
        }
        Expr::Break(_) => ("`break` is a statement without a value", "write `break;` on a line of its own"),
        Expr::Continue(_) => {
            ("an iteration runs to its end", "put the rest of the loop's body under an `if`")
        }
        Expr::Assign(_) => ("an assignment is a statement, not a value", "write it on a line of its own"),
        Expr::Block(_) => ("blocks have no labels here", "leave the label out"),
        Expr::Unsafe(_) => {
            ("there is nothing unsafe to do in here", "declare the kernel itself as `unsafe fn`")
        }
        Expr::Async(_) | Expr::Await(_) => {
            ("a kernel is not asynchronous Rust", "write `start(copy(…))` and later `wait(…)`")
        }
        Expr::Struct(_) => ("there are no structs in a kernel", "write a tuple"),
        Expr::Repeat(_) => (
            "there are no arrays in a kernel",
            "write registers::<f32>((8, 8), 0.0), or shared::<f32>(layout!((32, 32))); a list has each of its values, [x, x]",
        ),
        Expr::Try(_) => ("there are no errors to propagate in a kernel", "leave out the `?`"),
        _ => ("this has no meaning in a kernel", "write it with calls, tuples and arithmetic"),
    };
    (first, what, instead)
}

/// The first token: enough for the message, without printing the whole expression.
fn first(from: &Expr) -> TokenRange {
    match from {
        Expr::While(x) => x.while_token.span.into(),
        Expr::Loop(x) => x.loop_token.span.into(),
        Expr::ForLoop(x) => x.for_token.span.into(),
        Expr::Match(x) => x.match_token.span.into(),
        Expr::Block(syn::ExprBlock { label: Some(label), .. }) => TokenRange::of(label),
        Expr::Unsafe(x) => x.unsafe_token.span.into(),
        Expr::Try(x) => x.question_token.span.into(),
        Expr::Assign(x) => x.eq_token.span.into(),
        Expr::Await(x) => x.await_token.span.into(),
        other => TokenRange::of(other),
    }
}

fn attrs(from: &Expr) -> &[syn::Attribute] {
    match from {
        Expr::Lit(x) => &x.attrs,
        Expr::Path(x) => &x.attrs,
        Expr::Paren(x) => &x.attrs,
        Expr::Tuple(x) => &x.attrs,
        Expr::Call(x) => &x.attrs,
        Expr::MethodCall(x) => &x.attrs,
        Expr::Macro(x) => &x.attrs,
        Expr::If(x) => &x.attrs,
        Expr::Block(x) => &x.attrs,
        Expr::Closure(x) => &x.attrs,
        _ => &[],
    }
}

/// An expression that prints as its first token, so that an error deep in the tree costs little.
struct Shallow<'e>(&'e Expr);

impl quote::ToTokens for Shallow<'_> {
    fn to_tokens(&self, to: &mut TokenStream) {
        let mut at = self.0;
        loop {
            at = match at {
                Expr::Binary(x) => &x.left,
                Expr::MethodCall(x) => &x.receiver,
                Expr::Field(x) => &x.base,
                Expr::Index(x) => &x.expr,
                Expr::Call(x) => &x.func,
                Expr::Cast(x) => &x.expr,
                Expr::Assign(x) => &x.left,
                Expr::Try(x) => &x.expr,
                Expr::Range(syn::ExprRange { start: Some(start), .. }) => start,
                _ => break,
            };
        }
        let first = match at {
            Expr::Unary(x) => x.op.to_token_stream(),
            Expr::Reference(x) => x.and_token.to_token_stream(),
            other => other.to_token_stream().into_iter().take(1).collect(),
        };
        first.into_iter().take(1).for_each(|token| token.to_tokens(to));
    }
}

pub(crate) fn around(brackets: proc_macro2::extra::DelimSpan) -> TokenRange {
    TokenRange::from(brackets.open()).to(brackets.close().into())
}

fn literal(from: &Lit, text: &mut Text) -> Option<ExprKind> {
    Some(match from {
        Lit::Int(int) => match int.base10_parse::<i64>() {
            Err(_) if int.base10_parse::<u64>().is_ok() => ExprKind::Long(int.base10_parse().ok()?),
            Err(_) => {
                text.wrong(int.span(), "this number does not fit into 64 bits", "write a smaller one");
                return None;
            }
            Ok(value) if is_name(int.suffix()) => {
                let (written, name) = (int.to_string(), int.suffix());
                let what = format!("`{written}` is one number, of a type `{name}` that does not exist");
                text.wrong(int.span(), what, &format!("write {value} * {name}, a product"));
                return None;
            }
            // Coordinates and constants are sizes anyhow.
            Ok(value) if !matches!(int.suffix(), "" | "usize") => {
                let to = Name { text: int.suffix().into(), span: text.span(int.span()) };
                ExprKind::Cast(Box::new(ast::Expr { span: to.span, kind: ExprKind::Int(value) }), to)
            }
            Ok(value) => ExprKind::Int(value),
        },
        Lit::Float(float) => {
            let Ok(value) = float.base10_parse::<f64>() else {
                text.wrong(float.span(), "this number cannot be read", "write it as `1.5` or `1.5e3`");
                return None;
            };
            let (kind, written) = (ExprKind::Float(value), float.to_string());
            if float.suffix().is_empty() {
                return Some(kind);
            }
            // To Rust, `e4` of `1.5e4m3` is an exponent.
            let of_eight_bits = |elem| Some((elem, written.strip_suffix(elem)?));
            if let Some((elem, number)) = ["e4m3", "e5m2"].into_iter().find_map(of_eight_bits) {
                let (exponent, suffix) = elem.split_at(2);
                text.wrong(
                    float.span(),
                    format!(
                        "Rust reads `{exponent}` as the exponent of this number and `{suffix}` as its type"
                    ),
                    &format!("write `{number} as {elem}`"),
                );
                return None;
            }
            let to = Name { text: float.suffix().into(), span: text.span(float.span()) };
            ExprKind::Cast(Box::new(ast::Expr { span: to.span, kind }), to)
        }
        Lit::Bool(bool) => ExprKind::Bool(bool.value),
        Lit::Str(text) => ExprKind::Str(text.value()),
        other => {
            text.wrong(other.span(), "kernels have no values of this kind", "write a number");
            return None;
        }
    })
}

/// `_1` stands for 1: types cannot hold a bare integer.
pub(crate) fn static_integer(name: &str) -> Option<i64> {
    let digits = name.strip_prefix('_')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

pub(crate) fn path_value(path: &syn::Path, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    for segment in &path.segments {
        if !segment.arguments.is_none() {
            let instead = "types belong to a call, as in `shared::<f32>(…)`";
            text.wrong(TokenRange::of(&segment.arguments), "a value takes no types", instead);
            return None;
        }
    }
    if let Some(name) = path.get_ident() {
        let name = text.name(name);
        let kind = match static_integer(&name.text) {
            Some(value) => ExprKind::Int(value),
            None => ExprKind::Name(name.text),
        };
        return Some((text.tokens_of(name.span), kind));
    }
    let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    Some((TokenRange::of(path), ExprKind::Path(segments.join("::"))))
}

fn callee(path: &syn::Path, text: &mut Text) -> Option<(Name, Vec<Name>)> {
    if path.leading_colon.is_some() || path.segments.len() != 1 {
        let last = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        let what = "functions of the language are called by their names alone";
        let own = ["self", "super", "crate"].iter().any(|start| path.segments[0].ident == start);
        let elsewhere = tilewright_front::evaluate::elsewhere(&last).filter(|_| !own);
        let fast = (path.segments[0].ident == "fast").then(|| format!("write `fast_{last}(…)`"));
        let instead = fast.or(elsewhere).unwrap_or_else(|| {
            format!(
                "import it, a `#[device]` function by `use` at the top of the kernel, and write `{last}(…)`"
            )
        });
        text.wrong(TokenRange::of(path), what, &instead);
        return None;
    }
    let segment = &path.segments[0];
    let mut types = Vec::new();
    match &segment.arguments {
        syn::PathArguments::None => {}
        syn::PathArguments::AngleBracketed(list) => {
            for argument in &list.args {
                match argument {
                    syn::GenericArgument::Type(ty) => types.extend(element(ty, text)),
                    other => text.wrong(
                        TokenRange::of(other),
                        "this is not an element type",
                        "write a type such as `f32` between `<` and `>`",
                    ),
                }
            }
        }
        syn::PathArguments::Parenthesized(list) => {
            text.wrong(TokenRange::of(list), "this is not an element type", "write it as `shared::<f32>(…)`");
        }
    }
    Some((text.name(&segment.ident), types))
}

/// A type where an element type is expected.
pub(crate) fn element(ty: &syn::Type, text: &mut Text) -> Option<Name> {
    match ty {
        syn::Type::Path(path) if path.qself.is_none() && path.path.get_ident().is_some() => {
            path.path.get_ident().map(|name| text.name(name))
        }
        syn::Type::Group(inner) => element(&inner.elem, text),
        syn::Type::Paren(inner) => element(&inner.elem, text),
        other => {
            text.wrong(
                TokenRange::of(other),
                "this is not an element type",
                "write its name alone, such as `f32`, or a type that the attribute lists: `#[kernel(T = f32 | f64)]`",
            );
            None
        }
    }
}

/// Arguments, some by name: to Rust, `stages = 4` is an assignment.
pub(crate) fn arguments<P>(list: &syn::punctuated::Punctuated<Expr, P>, text: &mut Text) -> Vec<Arg> {
    list.iter().map(|argument| self::argument(argument, text)).collect()
}

fn argument(from: &Expr, text: &mut Text) -> Arg {
    if let Expr::Assign(assign) = from
        && let Expr::Path(path) = &*assign.left
        && let Some(name) = path.path.get_ident()
    {
        return Arg { name: Some(text.name(name)), value: expr(&assign.right, text) };
    }
    Arg { name: None, value: expr(from, text) }
}

/// A block with a value: `let` statements for subexpressions, then an expression.
pub(crate) fn block_value(block: &syn::Block, text: &mut Text) -> Option<ast::Expr> {
    let whole = around(block.brace_token.span);
    let Some((syn::Stmt::Expr(value, None), before)) = block.stmts.split_last() else {
        let instead = match block.stmts.last() {
            Some(syn::Stmt::Expr(Expr::Return(_), Some(_))) => {
                "write the value alone, without `return` and `;`"
            }
            Some(syn::Stmt::Expr(_, Some(_))) => "leave out its last `;`",
            _ => "end it with an expression: `{ let y = x * x; y + 1.0 }`",
        };
        text.wrong(whole, "this block has no value", instead);
        return None;
    };
    let mut lets = Vec::new();
    for stmt in before {
        match crate::stmt::statement(stmt, text)? {
            ast::Stmt { kind: ast::StmtKind::Let { pattern, value }, .. } => lets.push((pattern, value)),
            other => {
                let extent = text.tokens_of(other.span);
                let instead = match other.kind {
                    ast::StmtKind::Assign { target, .. } if !binds(&lets, &target) => {
                        "a closure changes nothing outside of it: sum(x) combines elements, and scan(x, 0.0, |a, b| a + b) each with those before it"
                    }
                    ast::StmtKind::Assign { .. } => {
                        "give each step a name, as in { let y = x + 1.0; let y = y * y; y }"
                    }
                    ast::StmtKind::For { .. } => {
                        "the loop stands outside of the closure, around y = map(y, |y| …); steps of a closure are bound by `let`"
                    }
                    _ => "statements stand outside of it, in the kernel's body",
                };
                text.wrong(extent, "only `let` can stand in front of a value", instead);
                return None;
            }
        }
    }
    let value = expr(value, text);
    if lets.is_empty() {
        return Some(value);
    }
    Some(ast::Expr { span: text.span(whole), kind: ExprKind::Block { lets, value: Box::new(value) } })
}

/// Do these bindings contain the target of an assignment?
fn binds(lets: &[(ast::Pattern, ast::Expr)], target: &ast::Expr) -> bool {
    fn names(pattern: &ast::Pattern, name: &str) -> bool {
        match pattern {
            ast::Pattern::Name(own) => own.text == name,
            ast::Pattern::Tuple(_, all) => all.iter().any(|one| names(one, name)),
            ast::Pattern::Hole(_) => false,
        }
    }
    matches!(&target.kind, ExprKind::Name(name) if lets.iter().any(|(pattern, _)| names(pattern, name)))
}

fn operator(op: &BinOp) -> Option<Binary> {
    Some(match op {
        BinOp::Add(_) => Binary::Add,
        BinOp::Sub(_) => Binary::Sub,
        BinOp::Mul(_) => Binary::Mul,
        BinOp::Div(_) => Binary::Div,
        BinOp::Rem(_) => Binary::Rem,
        BinOp::And(_) | BinOp::BitAnd(_) => Binary::And,
        BinOp::Or(_) | BinOp::BitOr(_) => Binary::Or,
        BinOp::BitXor(_) => Binary::Xor,
        BinOp::Shl(_) => Binary::Shl,
        BinOp::Shr(_) => Binary::Shr,
        BinOp::Eq(_) => Binary::Eq,
        BinOp::Lt(_) => Binary::Lt,
        BinOp::Le(_) => Binary::Le,
        BinOp::Ne(_) => Binary::Ne,
        BinOp::Ge(_) => Binary::Ge,
        BinOp::Gt(_) => Binary::Gt,
        _ => return None,
    })
}

/// `+` of `+=`.
pub(crate) fn assigning(op: &BinOp) -> Option<Binary> {
    Some(match op {
        BinOp::AddAssign(_) => Binary::Add,
        BinOp::SubAssign(_) => Binary::Sub,
        BinOp::MulAssign(_) => Binary::Mul,
        BinOp::DivAssign(_) => Binary::Div,
        BinOp::RemAssign(_) => Binary::Rem,
        BinOp::BitAndAssign(_) => Binary::And,
        BinOp::BitOrAssign(_) => Binary::Or,
        BinOp::BitXorAssign(_) => Binary::Xor,
        BinOp::ShlAssign(_) => Binary::Shl,
        BinOp::ShrAssign(_) => Binary::Shr,
        _ => return None,
    })
}

/// `layout!(shape : stride)`, as tokens.
struct LayoutTokens {
    shape: Expr,
    stride: Option<Expr>,
}

impl Parse for LayoutTokens {
    fn parse(input: ParseStream<'_>) -> syn::Result<LayoutTokens> {
        let shape = input.parse()?;
        let stride = if input.parse::<Option<Token![:]>>()?.is_some() { Some(input.parse()?) } else { None };
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            let message = "a layout is a shape and at most one stride\n\
                        help: write each in parentheses, with a colon between them: `layout!((4, 8) : (8, 1))`";
            return Err(input.error(message));
        }
        Ok(LayoutTokens { shape, stride })
    }
}

/// The one macro of the language.
pub(crate) fn layout_macro(mac: &syn::Macro, text: &mut Text) -> Option<(TokenRange, ExprKind)> {
    let name = mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    let extent = TokenRange::of(&mac.path).to(match &mac.delimiter {
        syn::MacroDelimiter::Paren(token) => token.span.close().into(),
        syn::MacroDelimiter::Brace(token) => token.span.close().into(),
        syn::MacroDelimiter::Bracket(token) => token.span.close().into(),
    });
    if name != "layout" {
        text.wrong(
            TokenRange::of(&mac.path),
            format!("`{name}!` has no meaning in a kernel"),
            match name.as_str() {
                "assert" | "debug_assert" => "write assert(M == N), a condition on sizes that a launch checks",
                "assert_eq" | "debug_assert_eq" => "write assert(M == N)",
                "vec" => "write full::<f32>((64, 64), 0.0) for a tile that threads share, registers::<f32>((8, 8), 0.0) for the part of one",
                "print" | "println" | "eprintln" | "dbg" => {
                    "leave it out; kernel.simulate(…) runs it on the CPU, and results can be printed there"
                }
                _ => "the only macro is `layout!`",
            },
        );
        return None;
    }
    if mac.tokens.is_empty() {
        text.wrong(
            extent,
            "this layout has no shape",
            "write `layout!((4, 8))` or `layout!((4, 8) : (8, 1))`",
        );
        return None;
    }
    let LayoutTokens { shape, stride } =
        mac.parse_body().map_err(|error| text.unreadable(&error, mac.tokens.clone())).ok()?;
    let shape = boxed(&shape, text);
    let stride = stride.map(|stride| boxed(&stride, text));
    Some((extent, ExprKind::Layout { shape, stride }))
}
