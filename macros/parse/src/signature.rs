//! The head of a kernel: its constants, its element types, its arguments.

use crate::attribute::Attribute;
use crate::expr::{element, expr, layout_macro, path_value};
use crate::function::MOST_TYPES;
use crate::text::{Text, TokenRange};
use syn::{GenericArgument, GenericParam, PathArguments, Type};
use tilewright_program::Elem;
use tilewright_program::ast::{
    self, ConstParam, DeviceParam, DeviceType, ExprKind, Param, ParamKind, TypeParam,
};
use tilewright_program::limits::MOST_LISTED;

/// Reads the constants and the element types between `<` and `>`.
pub(crate) fn generics(
    from: &syn::Generics,
    attribute: &Attribute,
    text: &mut Text,
) -> (Vec<ConstParam>, Vec<TypeParam>) {
    let mut consts = Vec::new();
    let mut types = Vec::new();
    for param in &from.params {
        match param {
            GenericParam::Const(constant) => {
                let is_size = matches!(&constant.ty, Type::Path(path) if path.path.is_ident("usize"));
                let is_function = matches!(constant.ty, Type::FnPtr(_));
                let default = constant.default.as_ref().map(|(_, value)| expr(value, text));
                let is_closure = default.as_ref().is_some_and(ast::Expr::is_closure);
                if is_function && !is_closure {
                    let instead =
                        format!("write one: `const {}: fn(f32) -> f32 = {{ |x| x }}`", constant.ident);
                    text.wrong(constant.ident.span(), "a function has a closure as its default", &instead);
                } else if is_size && is_closure {
                    let instead = "write its type: `fn(f32) -> f32`";
                    text.wrong(TokenRange::of(&constant.ty), "this constant is a closure", instead);
                } else if !is_size && !is_function && !text.is_page {
                    let instead = match named(&constant.ty).map(|name| name.to_string()).as_deref() {
                        Some("bool") => "write `usize`, 1 or 0, and `if FLAG == 1`",
                        Some("f32" | "f64") => "write the number in the body, or an argument, `alpha: f32`",
                        _ => "write `usize`",
                    };
                    text.wrong(
                        TokenRange::of(&constant.ty),
                        "a kernel's constants are sizes and closures",
                        instead,
                    );
                }
                let name = text.name(&constant.ident);
                consts.push(ConstParam { name, default });
            }
            GenericParam::Type(ty) => {
                let name = ty.ident.to_string();
                let is_function =
                    ty.bounds.iter().any(|bound| match bound {
                        syn::TypeParamBound::Trait(of) => of.path.segments.last().is_some_and(|last| {
                            ["Fn", "FnMut", "FnOnce"].contains(&&*last.ident.to_string())
                        }),
                        _ => false,
                    });
                if is_function {
                    let instead = format!(
                        "write a constant, `const {}: fn(f32) -> f32 = {{ |x| x }}`, and set it where the kernel is used: `name!({} = |x| max(x, 0.0))`",
                        ty.ident, ty.ident
                    );
                    text.wrong(TokenRange::of(&ty.bounds), "functions of a kernel are constants", &instead);
                    continue;
                }
                if !ty.bounds.is_empty() {
                    let instead =
                        format!("list them in the attribute instead: `#[kernel({name} = f32 | f64)]`");
                    text.wrong(TokenRange::of(&ty.bounds), "element types have no bounds here", &instead);
                }
                if let Some((_, default)) = &ty.default {
                    let instead = format!(
                        "in the attribute, the first type is the default: `#[kernel({name} = f32 | f64)]`"
                    );
                    text.wrong(TokenRange::of(default), "an element type has no default here", &instead);
                }
                match attribute.types.iter().find(|listed| listed.name.text == name) {
                    Some(listed) => types.push(TypeParam { name: text.name(&ty.ident), ..listed.clone() }),
                    None if attribute.unreadable || text.is_page => {}
                    None => {
                        let what = format!("the types of `{name}` are not listed");
                        text.wrong(
                            ty.ident.span(),
                            what,
                            &format!("list them: `#[kernel({name} = f32 | f64)]`"),
                        );
                    }
                }
            }
            GenericParam::Lifetime(lifetime) => {
                text.wrong(TokenRange::of(&lifetime.lifetime), "kernels have no lifetimes", "leave it out");
            }
        }
    }
    check_types(from, attribute, &types, text);
    (consts, types)
}

/// Reports listed types that the function lacks, too many types, and bounds.
fn check_types(from: &syn::Generics, attribute: &Attribute, types: &[TypeParam], text: &mut Text) {
    for listed in &attribute.types {
        if !from.type_params().any(|ty| ty.ident == listed.name.text) {
            let instead = format!("add it to the function: `fn name<{}, …>(…)`", listed.name.text);
            let what = format!("the function has no element type `{}`", listed.name.text);
            let range = text.tokens_of(listed.name.span);
            text.wrong(range, what, &instead);
        }
    }
    if let Some(extra) = types.get(MOST_TYPES) {
        let range = text.tokens_of(extra.name.span);
        text.wrong(
            range,
            format!("a kernel has at most {MOST_TYPES} element types"),
            "give some of them a fixed type",
        );
    }
    if let Some(clause) = &from.where_clause {
        text.wrong(clause.where_token.span, "kernels have no bounds", "leave out the `where` clause");
    }
}

/// The constant of an optional argument: 1 if there is the argument.
pub(crate) fn presence(name: &str) -> String {
    format!("HAS_{}", name.to_uppercase())
}

/// Adds the constants of the optional arguments, which there are unless a use of the kernel leaves them out.
pub(crate) fn add_presences(consts: &mut Vec<ConstParam>, params: &[Param], text: &mut Text) {
    for param in params.iter().filter(|param| param.optional) {
        let name = ast::Name { text: presence(&param.name.text), span: param.name.span };
        if let Some(other) = consts.iter().find(|other| other.name.text == name.text) {
            let what = format!(
                "`{}` is the constant of the optional argument `{}` and of another one",
                name.text, param.name.text
            );
            text.wrong(text.tokens_of(other.name.span), what, "rename one of them");
            continue;
        }
        consts.push(ConstParam { name, default: Some(1.into()) });
    }
}

/// The type in `Option<…>`.
fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(list) => match list.args.first() {
            Some(GenericArgument::Type(ty)) if list.args.len() == 1 => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

/// Reads one argument.
pub(crate) fn argument(from: &syn::FnArg, text: &mut Text) -> Option<Param> {
    let syn::FnArg::Typed(from) = from else {
        text.wrong(
            TokenRange::of(from),
            "a kernel is not a method",
            "write a function outside of the `impl`",
        );
        return None;
    };
    if let Some(attr) = from.attrs.first() {
        text.wrong(TokenRange::of(attr), "attributes mean nothing here", "leave it out");
    }
    let name = parameter(&from.pat, ["an argument has a name", "write `name: &Tensor<f32, (M, K)>`"], text);
    let (ty, list) = match &*from.ty {
        Type::Array(list) => (&*list.elem, Some(&list.len)),
        ty => (optional(ty).unwrap_or(ty), None),
    };
    let is_optional = optional(&from.ty).is_some();
    let (elem, kind) = kind(ty, text)?;
    if (list.is_some() || is_optional && !text.is_page) && matches!(kind, ParamKind::Scalar) {
        let what = if is_optional { "an optional argument is a tensor" } else { "a list has tensors" };
        let instead = match is_optional {
            true => "write `Option<&Tensor<f32, N>>`, or a constant of the kernel",
            false => "write a tensor of these numbers, `&Tensor<f32, N>`, or `[&Tensor<f32, N>; 4]`",
        };
        text.wrong(TokenRange::of(ty), what, instead);
        return None;
    }
    let name = name?;
    let list = match is_optional {
        true => Some(ast::Expr { span: name.span, kind: ExprKind::Name(presence(&name.text)) }),
        false => list.map(|len| expr(len, text)),
    };
    Some(Param { name, elem, kind, list, optional: is_optional })
}

/// A parameter of a function that kernels share.
pub(crate) fn device_param(from: &syn::FnArg, text: &mut Text) -> Option<DeviceParam> {
    let syn::FnArg::Typed(from) = from else {
        text.wrong(
            TokenRange::of(from),
            "a `#[device]` function is not a method",
            "write a function outside of the `impl`",
        );
        return None;
    };
    let wrong = ["a parameter has a name", "write `pair: (View, View)`, and `let (x, y) = pair;`"];
    let name = parameter(&from.pat, wrong, text)?;
    Some(DeviceParam { name, ty: device_type(&from.ty, text)? })
}

/// The name of a parameter; any other pattern is wrong.
fn parameter(pattern: &syn::Pat, [what, instead]: [&str; 2], text: &mut Text) -> Option<ast::Name> {
    match pattern {
        syn::Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
            Some(text.name(&name.ident))
        }
        other => {
            text.wrong(TokenRange::of(other), what, instead);
            None
        }
    }
}

/// Refuses qualifiers of a function.
pub(crate) fn qualifiers(sig: &syn::Signature, what: &str, may_be_unsafe: bool, text: &mut Text) {
    let is_unsafe = !may_be_unsafe && matches!(sig.safety, syn::Safety::Unsafe(_));
    let qualifiers = [
        (sig.constness.as_ref().map(TokenRange::of), "`const`"),
        (sig.asyncness.as_ref().map(TokenRange::of), "`async`"),
        (is_unsafe.then(|| TokenRange::of(&sig.safety)), "`unsafe`"),
        (sig.abi.as_ref().map(TokenRange::of), "`extern`"),
        (sig.variadic.as_ref().map(TokenRange::of), "a variable number of arguments"),
    ];
    for (range, qualifier) in qualifiers {
        if let Some(range) = range {
            text.wrong(range, format!("{what} cannot have {qualifier}"), "leave it out");
        }
    }
}

/// A type in the head of a function that kernels share.
pub(crate) fn device_type(ty: &Type, text: &mut Text) -> Option<DeviceType> {
    let is_view = |ty: &Type| named(ty).is_some_and(|name| name == "View");
    match ty {
        Type::Group(inner) => device_type(&inner.elem, text),
        Type::Paren(inner) => device_type(&inner.elem, text),
        Type::Tuple(all) => {
            let all: Vec<_> = all.elems.iter().map(|ty| device_type(ty, text)).collect();
            Some(DeviceType::Tuple(all.into_iter().collect::<Option<_>>()?))
        }
        Type::Array(list) => match expr(&list.len, text).kind {
            ExprKind::Int(len) if (1..=MOST_LISTED).contains(&len) => {
                Some(DeviceType::Tuple(vec![device_type(&list.elem, text)?; len as usize]))
            }
            _ => {
                let what = "the length of a list is a number here";
                text.wrong(TokenRange::of(&list.len), what, &format!("write 1 to {MOST_LISTED}"));
                None
            }
        },
        Type::FnPtr(_) | Type::ImplTrait(_) => Some(DeviceType::Closure),
        Type::Reference(reference) if is_view(&reference.elem) => {
            Some(DeviceType::Tile { mutable: reference.mutability.is_some() })
        }
        Type::Path(_) if is_view(ty) => Some(DeviceType::Tile { mutable: false }),
        Type::Path(path) if path.qself.is_none() && !is_tensor(path) => {
            match named(ty).map(|name| name.to_string()).as_deref() {
                Some("usize" | "isize") => Some(DeviceType::Integer),
                Some("Arrangement") => Some(DeviceType::Layout),
                _ => element(ty, text).map(DeviceType::Number),
            }
        }
        other => {
            let what = "a `#[device]` function takes numbers, tiles, integers, layouts, closures and tuples of these";
            let instead = "a tile is `x: View`, a tensor too; or pass elements to it: `map(x, |x| soft(x))`";
            text.wrong(TokenRange::of(other), what, instead);
            None
        }
    }
}

const TENSOR: &str = "write `&Tensor<f32, (M, K)>`, `&mut Tensor<f32, (M, N)>`, or for a number `alpha: f32`";

fn kind(ty: &Type, text: &mut Text) -> Option<(ast::Name, ParamKind)> {
    match ty {
        Type::Group(inner) => kind(&inner.elem, text),
        Type::Paren(inner) => kind(&inner.elem, text),
        Type::Reference(reference)
            if matches!(&*reference.elem, Type::Array(_) | Type::Slice(_))
                && element_of(&reference.elem).is_none() =>
        {
            let borrow = if reference.mutability.is_some() { "&mut " } else { "&" };
            let instead = format!("write `[{borrow}Tensor<f32, N>; 4]`");
            text.wrong(TokenRange::of(ty), "a list has references to tensors, and a length", &instead);
            None
        }
        Type::Reference(reference) => tensor(&reference.elem, reference.mutability.is_some(), text),
        Type::Path(path) if is_tensor(path) => {
            text.wrong(
                TokenRange::of(&path.path),
                "a kernel borrows its tensors",
                "write `&` or `&mut` in front",
            );
            None
        }
        Type::Path(path) if path.qself.is_none() && path.path.get_ident().is_some() => {
            Some((element(ty, text)?, ParamKind::Scalar))
        }
        other => {
            text.wrong(TokenRange::of(other), "this is neither a tensor nor a number", TENSOR);
            None
        }
    }
}

/// A type of one name.
fn named(ty: &Type) -> Option<&syn::Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// The type of a number, or of the numbers of a slice.
fn element_of(ty: &Type) -> Option<&syn::Ident> {
    let own = if let Type::Slice(slice) = ty { &slice.elem } else { ty };
    named(own).filter(|name| Elem::named(&name.to_string()).is_some())
}

/// Is it the name of a type of numbers?
fn is_number_type(ty: &Type) -> bool {
    const OTHERS: [&str; 6] = ["usize", "isize", "i64", "u64", "bool", "char"];
    named(ty)
        .map(|name| name.to_string())
        .is_some_and(|name| Elem::named(&name).is_some() || OTHERS.contains(&&*name))
}

fn is_tensor(path: &syn::TypePath) -> bool {
    path.path.segments.last().is_some_and(|last| last.ident == "Tensor")
}

/// `Tensor<f32, (M, K)>`, with a layout instead of the extents, or with strides after them.
fn tensor(ty: &Type, mutable: bool, text: &mut Text) -> Option<(ast::Name, ParamKind)> {
    let path = match ty {
        Type::Path(path) if is_tensor(path) => path,
        Type::Group(inner) => return tensor(&inner.elem, mutable, text),
        Type::Path(_) if !mutable && named(ty).is_some() => {
            text.wrong(TokenRange::of(ty), "numbers are passed by value", "leave out the `&`");
            return None;
        }
        // The intended type is known.
        Type::Path(_) | Type::Slice(_) if element_of(ty).is_some() => {
            let borrow = if mutable { "&mut " } else { "&" };
            let extent = if matches!(ty, Type::Slice(_)) { "N" } else { "_1" };
            let elem = element_of(ty).map(|name| name.to_string()).unwrap_or_default();
            text.wrong(
                TokenRange::of(ty),
                "this is not a tensor",
                &format!("write `{borrow}Tensor<{elem}, {extent}>`"),
            );
            return None;
        }
        other => {
            text.wrong(TokenRange::of(other), "this is not a tensor", TENSOR);
            return None;
        }
    };
    let arguments = match path.path.segments.last().map(|last| &last.arguments) {
        Some(PathArguments::AngleBracketed(list)) => list.args.iter().collect(),
        _ => Vec::new(),
    };
    let (elem, shape, stride) = match arguments[..] {
        [elem, shape] => (elem, shape, None),
        [elem, shape, stride] => (elem, shape, Some(stride)),
        _ => {
            let what = "a tensor has an element type and extents";
            text.wrong(
                TokenRange::of(path),
                what,
                "write `Tensor<f32, (M, N)>`, or with strides `Tensor<f32, (M, N), (_1, ldc)>`",
            );
            return None;
        }
    };
    let GenericArgument::Type(elem) = elem else {
        text.wrong(TokenRange::of(elem), "this is not an element type", "write its name, such as `f32`");
        return None;
    };
    let elem = element(elem, text);
    let shape = extents(shape, text);
    let mut stride = match stride {
        Some(stride) => Some(extents(stride, text)?),
        None => None,
    };
    let mut shape = shape?;
    if let ExprKind::Layout { shape: inner, stride: own } = shape.kind {
        if let Some(stride) = &stride {
            let range = text.tokens_of(stride.span);
            text.wrong(
                range,
                "this tensor has strides twice",
                "write them in the layout, or behind the shape",
            );
        }
        (shape, stride) = (*inner, own.map(|own| *own).or(stride));
    }
    Some((elem?, ParamKind::Tensor { mutable, shape, stride }))
}

/// Extents or strides as a generic argument.
fn extents(from: &GenericArgument, text: &mut Text) -> Option<ast::Expr> {
    match from {
        GenericArgument::Type(ty) => type_value(ty, text),
        GenericArgument::Const(syn::Expr::Block(block)) => match &block.block.stmts[..] {
            [syn::Stmt::Expr(value, None)] => Some(expr(value, text)),
            _ => {
                text.wrong(TokenRange::of(block), "this is not an extent", "write one expression");
                None
            }
        },
        GenericArgument::Const(value) => Some(expr(value, text)),
        other => {
            text.wrong(
                TokenRange::of(other),
                "this is not an extent",
                "write a name that launch finds out, such as `M`",
            );
            None
        }
    }
}

/// A type that stands for a value: `M`, `(M, K)`, `_1`, `layout!(…)`.
fn type_value(ty: &Type, text: &mut Text) -> Option<ast::Expr> {
    text.deeper(ty, |text| {
        let (range, kind) = match ty {
            Type::Path(path) if is_number_type(ty) => {
                let what = "this is a type, and an extent is the name of a size";
                text.wrong(TokenRange::of(path), what, "write a name that launch finds out, such as `M`");
                return None;
            }
            Type::Path(path) if path.qself.is_none() => path_value(&path.path, text)?,
            Type::Tuple(tuple) => {
                let items: Vec<_> = tuple.elems.iter().map(|item| type_value(item, text)).collect();
                let items = items.into_iter().collect::<Option<_>>()?;
                (crate::expr::around(tuple.paren_token.span), ExprKind::Tuple(items))
            }
            Type::Macro(call) => layout_macro(&call.mac, text)?,
            Type::Paren(inner) => return type_value(&inner.elem, text),
            Type::Group(inner) => return type_value(&inner.elem, text),
            Type::Infer(hole) => (hole.underscore_token.span.into(), ExprKind::Hole),
            other => {
                text.wrong(
                    TokenRange::of(other),
                    "this is not an extent",
                    "write a name such as `M`, or a number in braces: `{(M, 4)}`",
                );
                return None;
            }
        };
        Some(ast::Expr { span: text.span(range), kind })
    })
    .flatten()
}
