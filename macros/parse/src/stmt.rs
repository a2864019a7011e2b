//! Statements: from syn's tree to the AST.

use crate::expr::{Tested, arguments, assigning, expr, optional};
use crate::pattern::pattern;
use crate::text::{Text, TokenRange};
use syn::Expr;
use tilewright_program::ast::{self, Pattern, Stmt, StmtKind};

/// Reads the statements of a block.
pub(crate) fn block(from: &syn::Block, text: &mut Text) -> Vec<Stmt> {
    statements(&from.stmts, text)
}

/// Reads the statements of a block, and its value; the empty tuple for a block without one.
pub(crate) fn with_value(
    from: &syn::Block,
    has_value: bool,
    text: &mut Text,
) -> Option<(Vec<Stmt>, ast::Expr)> {
    let whole = crate::expr::around(from.brace_token.span);
    match from.stmts.split_last() {
        Some((syn::Stmt::Expr(value, None), before)) if has_value => {
            let body = statements(before, text);
            Some((body, expr(value, text)))
        }
        _ if has_value => {
            text.wrong(
                whole,
                "this function has no value",
                "end it with an expression, or leave out the type of its result",
            );
            None
        }
        _ => {
            let value = ast::Expr { span: text.span(whole), kind: ast::ExprKind::Tuple(Vec::new()) };
            Some((statements(&from.stmts, text), value))
        }
    }
}

fn statements(from: &[syn::Stmt], text: &mut Text) -> Vec<Stmt> {
    from.iter().filter_map(|stmt| statement(stmt, text)).collect()
}

pub(crate) fn statement(from: &syn::Stmt, text: &mut Text) -> Option<Stmt> {
    let (extent, kind) = match from {
        syn::Stmt::Local(local) => {
            attributes(&local.attrs, text);
            let start = TokenRange::from(local.let_token.span);
            let Some(init) = &local.init else {
                text.wrong(
                    start.to(TokenRange::of(&local.pat)),
                    "a name needs a value at once",
                    "write `let x = …;`",
                );
                return None;
            };
            if let Some((other, _)) = &init.diverge {
                text.wrong(other.span, "there are no patterns to test in a kernel", "leave out the `else`");
            }
            let (pattern, value) = (pattern(&local.pat, text), expr(&init.expr, text));
            (start.to(text.tokens_of(value.span)), StmtKind::Let { pattern: pattern?, value })
        }
        // A constant in the body names a value, as `let` does.
        syn::Stmt::Item(syn::Item::Const(item)) => {
            attributes(&item.attrs, text);
            let pattern = Pattern::Name(text.name(&item.ident));
            let value = expr(&item.expr, text);
            (
                TokenRange::from(item.const_token.span).to(text.tokens_of(value.span)),
                StmtKind::Let { pattern, value },
            )
        }
        syn::Stmt::Item(syn::Item::Use(item)) => {
            let what = "functions are imported at the top of a kernel";
            text.wrong(item.use_token.span, what, "move this to its first lines");
            return None;
        }
        syn::Stmt::Item(item) => {
            text.wrong(
                first(item),
                "a kernel holds statements and constants only",
                "move this out of the kernel; a function of numbers is marked `#[device]` there",
            );
            return None;
        }
        syn::Stmt::Expr(value, _) => return effect(value, text),
        syn::Stmt::Macro(call) => {
            attributes(&call.attrs, text);
            let (extent, kind) = crate::expr::layout_macro(&call.mac, text)?;
            (extent, StmtKind::Expr(ast::Expr { span: text.span(extent), kind }))
        }
    };
    Some(Stmt { span: text.span(extent), kind })
}

/// An expression as a statement.
fn effect(from: &Expr, text: &mut Text) -> Option<Stmt> {
    let (extent, kind) = match from {
        Expr::ForLoop(x) => {
            let start = looped(&x.attrs, x.label.as_ref(), x.for_token.span, text);
            let (pattern, range) = (pattern(&x.pat, text), expr(&x.expr, text));
            let body = nested(&x.body, x.for_token.span, text);
            (start.to(text.tokens_of(range.span)), StmtKind::For { pattern: pattern?, range, body })
        }
        Expr::While(x) => {
            let start = looped(&x.attrs, x.label.as_ref(), x.while_token.span, text);
            let condition = expr(&x.cond, text);
            let body = nested(&x.body, x.while_token.span, text);
            (start.to(text.tokens_of(condition.span)), StmtKind::While { condition, body })
        }
        Expr::Loop(x) => {
            let start = looped(&x.attrs, x.label.as_ref(), x.loop_token.span, text);
            let condition = ast::Expr { span: text.span(start), kind: ast::ExprKind::Bool(true) };
            let body = nested(&x.body, x.loop_token.span, text);
            (start, StmtKind::While { condition, body })
        }
        Expr::Break(x) if x.label.is_none() && x.expr.is_none() => {
            attributes(&x.attrs, text);
            (TokenRange::from(x.break_token.span), StmtKind::Break)
        }
        Expr::If(x) => {
            attributes(&x.attrs, text);
            let start = TokenRange::from(x.if_token.span);
            let tested = optional(&x.cond, text);
            let condition = tested.as_ref().map(|tested| tested.condition.clone());
            let condition = condition.unwrap_or_else(|| expr(&x.cond, text));
            let mut then = nested(&x.then_branch, x.if_token.span, text);
            if let Some(Tested { pattern, value, .. }) = tested {
                then.insert(0, Stmt { span: value.span, kind: StmtKind::Let { pattern, value } });
            }
            let other = match x.else_branch.as_ref().map(|(_, other)| &**other) {
                None => Vec::new(),
                Some(Expr::Block(block)) => nested(&block.block, x.if_token.span, text),
                Some(other) => text.deeper(x, |text| effect(other, text)).flatten().into_iter().collect(),
            };
            (start.to(text.tokens_of(condition.span)), StmtKind::If { condition, then, other })
        }
        Expr::Assign(x) => {
            let (target, value) = (expr(&x.left, text), expr(&x.right, text));
            (
                text.tokens_of(target.span).to(text.tokens_of(value.span)),
                StmtKind::Assign { target, op: None, value },
            )
        }
        Expr::Binary(x) if assigning(&x.op).is_some() => {
            let (target, value) = (expr(&x.left, text), expr(&x.right, text));
            let extent = text.tokens_of(target.span).to(text.tokens_of(value.span));
            (extent, StmtKind::Assign { target, op: assigning(&x.op), value })
        }
        Expr::Call(x) if matches!(x.args.last(), Some(Expr::Closure(last)) if last.inputs.is_empty()) => {
            return headed(x, text);
        }
        Expr::Block(x) if x.label.is_none() => {
            let instead = "write its statements without the braces, or as the last argument of a call: `role(…, || { … })`";
            text.wrong(x.block.brace_token.span.open(), "a block of its own has no meaning here", instead);
            nested(&x.block, x.block.brace_token.span.open(), text);
            return None;
        }
        other => {
            let value = expr(other, text);
            (text.tokens_of(value.span), StmtKind::Expr(value))
        }
    };
    Some(Stmt { span: text.span(extent), kind })
}

/// The keyword of a loop.
fn looped(
    attrs: &[syn::Attribute],
    label: Option<&syn::Label>,
    keyword: proc_macro2::Span,
    text: &mut Text,
) -> TokenRange {
    attributes(attrs, text);
    if let Some(label) = label {
        text.wrong(
            TokenRange::of(label),
            "loops have no labels here",
            "leave the label out: `break` leaves the innermost loop",
        );
    }
    TokenRange::from(keyword)
}

/// `role(producer, || { … })`: a call that takes a block.
fn headed(call: &syn::ExprCall, text: &mut Text) -> Option<Stmt> {
    let mut args = call.args.clone();
    let Some(Expr::Closure(last)) = args.pop() else {
        return None;
    };
    let head = Expr::Call(syn::ExprCall { args: syn::punctuated::Punctuated::new(), ..call.clone() });
    let mut head = expr(&head, text);
    if let ast::ExprKind::Call { args: empty, .. } = &mut head.kind {
        *empty = arguments(&args, text);
    }
    let body = match &*last.body {
        Expr::Block(body) => nested(&body.block, last.inputs_begin.span, text),
        other => effect(other, text).into_iter().collect(),
    };
    Some(Stmt { span: head.span, kind: StmtKind::Block { head, body } })
}

fn nested(block: &syn::Block, at: proc_macro2::Span, text: &mut Text) -> Vec<Stmt> {
    let at = syn::Ident::new("x", at);
    text.deeper(&at, |text| self::block(block, text)).unwrap_or_default()
}

fn attributes(attrs: &[syn::Attribute], text: &mut Text) {
    for attr in attrs {
        text.wrong(TokenRange::of(attr), "attributes mean nothing here", "leave it out");
    }
}

/// The keyword that an item begins with.
fn first(item: &syn::Item) -> TokenRange {
    use quote::ToTokens;
    let mut tokens = item.to_token_stream().into_iter();
    tokens.next().map_or_else(|| proc_macro2::Span::call_site().into(), |token| token.span().into())
}
