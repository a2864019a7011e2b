//! `#[kernel]`: a function to the tree of a kernel.

use crate::attribute::{Attribute, attribute};
use crate::text::{Text, TokenRange};
use crate::{device, guard, signature, stmt};
use proc_macro2::TokenStream;
use syn::ItemFn;
use syn::parse::ParseStream;
use tilewright_program::ast;

/// The largest number of element types: [`tilewright_program::kernel_value::Specialized`] has no room for
/// more.
pub const MOST_TYPES: usize = 4;

/// The kernel, as far as it can be parsed; errors are recorded in the text.
pub fn read(attr: TokenStream, item: TokenStream, text: &mut Text) -> Option<ast::Kernel> {
    for tokens in [&attr, &item] {
        if let Err(refused) = guard::check(tokens.clone()) {
            text.wrong(refused.at, refused.what, refused.instead);
            return None;
        }
    }
    let attribute = attribute(attr, text);
    let function = text.parse(|input: ParseStream<'_>| input.parse::<ItemFn>(), item)?;
    Some(kernel(&function, attribute, text))
}

fn kernel(function: &ItemFn, attribute: Attribute, text: &mut Text) -> ast::Kernel {
    let sig = &function.sig;
    signature::qualifiers(sig, "a kernel", true, text);
    if let syn::ReturnType::Type(_, ty) = &sig.output {
        let is_unit = matches!(&**ty, syn::Type::Tuple(tuple) if tuple.elems.is_empty());
        if !is_unit {
            let instead = "write the result to a tensor: `c: &mut Tensor<f32, (M, N)>`";
            text.wrong(TokenRange::of(ty), "a kernel has no result", instead);
        }
    }
    let name = text.name(&sig.ident);
    let (mut consts, types) = signature::generics(&sig.generics, &attribute, text);
    let params: Vec<_> = sig.inputs.iter().filter_map(|input| signature::argument(input, text)).collect();
    let is_presence = |constant: &ast::Name| {
        let optional = params.iter().filter(|param| param.optional);
        optional.map(|param| signature::presence(&param.name.text)).any(|name| name == constant.text)
    };
    for constant in attribute.choices.iter().flat_map(|choice| &choice.names).filter(|name| is_presence(name))
    {
        let what = "a launch does not choose whether there is an argument";
        text.wrong(
            text.tokens_of(constant.span),
            what,
            "leave it out where the kernel is used: `name!(bias = None)`",
        );
    }
    signature::add_presences(&mut consts, &params, text);
    let body = stmt::block(&device::without_uses(&function.block, None, text), text);
    let is_unsafe = matches!(sig.safety, syn::Safety::Unsafe(_));
    for constant in attribute.choices.iter().flat_map(|choice| &choice.names) {
        if !consts.iter().any(|known| known.name.text == constant.text) {
            let what = format!("the function has no constant `{}`", constant.text);
            let instead = format!("add it to the function: `fn name<const {}: usize>(…)`", constant.text);
            text.wrong(text.tokens_of(constant.span), what, &instead);
        }
    }
    let Attribute { levels, keys, overlaps, choices, .. } = attribute;
    let devices = Vec::new();
    ast::Kernel { name, is_unsafe, consts, types, params, devices, body, levels, keys, overlaps, choices }
}
