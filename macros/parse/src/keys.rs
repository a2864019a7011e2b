//! `key = value, …`: the arguments of `matmul_kernel!(…)` and of `name!(…)`.

use crate::expr::expr;
use crate::signature::presence;
use crate::text::{Text, TokenRange};
use proc_macro2::TokenStream;
use syn::parse::ParseStream;
use syn::{Expr, Ident, Token};
use tilewright_program::Elem;
use tilewright_program::ast::{self, Arg, ExprKind, Name, Unary};
use tilewright_program::definition::Settings;

/// A key and its value, or the mistake in it.
type Pair = syn::Result<(Ident, Expr)>;

/// Reads keys. A mistake in one does not hide the mistakes in the others.
pub fn keys(tokens: TokenStream, text: &mut Text) -> Vec<Arg> {
    let Some(pairs) = text.parse(|input: ParseStream<'_>| Ok(pairs(input)), tokens) else {
        return Vec::new();
    };
    let mut args: Vec<Arg> = Vec::new();
    for pair in pairs {
        match pair {
            Ok((name, value)) => args.push(arg(&name, &value, text)),
            Err(error) => text.unreadable(&error, TokenStream::new()),
        }
    }
    args
}

/// A key and its value, which may be keys in parentheses: `schedule = (values = (4, 4), vec = 4)`, as a call of the key.
fn arg(name: &Ident, value: &Expr, text: &mut Text) -> Arg {
    let items: Vec<&Expr> = match value {
        Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        Expr::Paren(paren) => vec![&paren.expr],
        _ => Vec::new(),
    };
    let name = text.name(name);
    if !items.iter().any(|item| matches!(item, Expr::Assign(_))) {
        return Arg { name: Some(name), value: expr(value, text) };
    }
    let range = TokenRange::of(value);
    let nested = |item: &&Expr, text: &mut Text| match item {
        Expr::Assign(assign) if key(&assign.left).is_some() => {
            key(&assign.left).map(|name| arg(name, &assign.right, text))
        }
        other => Some(Arg { name: None, value: expr(other, text) }),
    };
    let read = |text: &mut Text| items.iter().filter_map(|item| nested(item, text)).collect::<Vec<_>>();
    let args = text.deeper(value, read).unwrap_or_default();
    let kind = ExprKind::Call { function: name.clone(), types: Vec::new(), args };
    Arg { name: Some(name), value: ast::Expr { span: text.span(range), kind } }
}

/// The word in front of `=`.
fn key(of: &Expr) -> Option<&Ident> {
    match of {
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    }
}

fn pairs(input: ParseStream<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    while !input.is_empty() {
        let one = pair(input);
        let failed = one.is_err();
        pairs.push(one);
        if failed {
            skip(input);
        } else if !input.is_empty()
            && let Err(error) = input.parse::<Token![,]>()
        {
            let message = "a comma is missing in front of this\nhelp: write `key = value, key = value`";
            pairs.push(Err(syn::Error::new(error.span(), message)));
            skip(input);
        }
    }
    pairs
}

fn pair(input: ParseStream<'_>) -> Pair {
    const FORM: &str = "write `key = value`, such as `bm = 128`";
    if !input.peek(Ident) {
        let message = format!("this is not a key\nhelp: {FORM}");
        return Err(syn::Error::new(input.span(), message));
    }
    let name: Ident = input.parse()?;
    if input.is_empty() || !input.peek(Token![=]) || input.peek(Token![==]) {
        let help = match Elem::named(&name.to_string()) {
            Some(elem) => format!("write its key, such as `dtype = {elem}`"),
            None => format!("write `{name} = …`"),
        };
        let message = format!("`{name}` has no value\nhelp: {help}");
        return Err(syn::Error::new(name.span(), message));
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = format!("`{name}` has no value\nhelp: write `{name} = …`");
        return Err(syn::Error::new(name.span(), message));
    }
    Ok((name, input.parse()?))
}

/// Continues after the next comma. It may be a comma between the parameters of a closure; then the next key
/// is an error too.
fn skip(input: ParseStream<'_>) {
    while !input.is_empty() {
        if input.parse::<Option<Token![,]>>().is_ok_and(|comma| comma.is_some()) {
            return;
        }
        let _ = input.parse::<proc_macro2::TokenTree>();
    }
}

/// The settings of a kernel's specialisation: constants and element types. A macro may see names of constants of a program.
pub fn settings(args: Vec<Arg>, kernel: &ast::Kernel, is_macro: bool, text: &mut Text) -> Settings {
    let mut settings = Settings::default();
    for arg in args {
        let Some(name) = arg.name else { continue };
        if kernel.types.iter().any(|ty| ty.name.text == name.text) {
            match &arg.value.kind {
                ExprKind::Name(elem) if Elem::named(elem).is_some() => {
                    settings.types.extend(Elem::named(elem).map(|elem| (name, elem)));
                }
                ExprKind::Hole => {} // reported already
                _ => {
                    let range = text.tokens_of(arg.value.span);
                    let instead = format!("the element types are {}", Elem::names());
                    text.wrong(range, "this is not an element type", &instead);
                }
            }
            continue;
        }
        if kernel.params.iter().any(|param| param.name.text == name.text && param.optional) {
            match &arg.value.kind {
                ExprKind::Name(none) if none == "None" => {
                    settings.consts.push((Name { text: presence(&name.text), ..name }, 0));
                }
                _ => {
                    let what = "an optional argument is passed when the kernel is launched";
                    let instead = format!("write `{} = None` for a kernel without it", name.text);
                    text.wrong(text.tokens_of(arg.value.span), what, &instead);
                }
            }
            continue;
        }
        let constant = kernel.consts.iter().find(|constant| constant.name.text == name.text);
        match number(&arg.value) {
            _ if constant.is_some_and(ast::ConstParam::is_function) => match arg.value.is_closure() {
                true => settings.functions.push((name, arg.value)),
                false => no_closure(&arg.value, text),
            },
            Ok(value) => settings.consts.push((name, value)),
            // The generator reports the name.
            Err(_) if constant.is_none() => settings.consts.push((name, 0)),
            Err(at) => unreadable(at, &name, is_macro, text),
        }
    }
    settings
}

fn no_closure(at: &ast::Expr, text: &mut Text) {
    let instead = match &at.kind {
        ExprKind::Hole => return, // reported already
        ExprKind::Name(name) => format!("write `|x| {name}(x)`"),
        _ => "write one, such as `|x| max(x, 0.0)`".to_owned(),
    };
    text.wrong(text.tokens_of(at.span), "this constant is a closure", &instead);
}

fn unreadable(at: &ast::Expr, name: &Name, is_macro: bool, text: &mut Text) {
    let range = text.tokens_of(at.span);
    let (what, instead) = match &at.kind {
        ExprKind::Hole => return, // reported already
        ExprKind::Name(path) | ExprKind::Path(path) if is_macro => (
            format!("a macro sees the name `{path}`, not its value"),
            format!("write the number, or set it at run time: `.specialize(&[(\"{}\", {path})])`", name.text),
        ),
        _ => ("this is not a size".to_string(), "write an integer such as `64`".to_string()),
    };
    text.wrong(range, what, &instead);
}

/// Evaluates arithmetic over literals; otherwise returns the subexpression that is something else.
pub(crate) fn number(from: &ast::Expr) -> Result<i64, &ast::Expr> {
    number_of(from, &|_| None)
}

/// Evaluates arithmetic over literals and over names with values.
pub(crate) fn number_of<'e>(
    from: &'e ast::Expr,
    value: &dyn Fn(&str) -> Option<i64>,
) -> Result<i64, &'e ast::Expr> {
    match &from.kind {
        ExprKind::Int(number) => Ok(*number),
        ExprKind::Name(name) => value(name).ok_or(from),
        ExprKind::Unary(Unary::Neg, inner) => number_of(inner, value)?.checked_neg().ok_or(from),
        ExprKind::Binary(op, left, right) => {
            let (left, right) = (number_of(left, value)?, number_of(right, value)?);
            op.on_integers(left, right, Some, |_| None).flatten().ok_or(from)
        }
        _ => Err(from),
    }
}
