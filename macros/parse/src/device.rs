//! `#[device]`: a function that kernels share to its tree, and the functions that an item uses.

use crate::expr::block_value;
use crate::text::{Text, TokenRange};
use crate::{guard, signature};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{ItemFn, Stmt, UseTree};
use tilewright_front::evaluate;
use tilewright_program::ast::{Device, DeviceParam, DeviceType};
use tilewright_program::problem::Problem;

/// The largest number of functions that a kernel or another function uses.
const MOST_DEVICES: usize = 64;

/// A function that is used.
pub struct Used {
    /// Its name here.
    pub name: Ident,
    /// Its path.
    pub path: TokenStream,
}

/// A mistake: its span, the message, and the remedy.
type Wrong = (TokenRange, String, String);

/// The functions that a kernel or a `#[device]` function uses; `None` after a mistake.
pub fn used_by(item: &TokenStream, is_device: bool) -> Option<Vec<Used>> {
    guard::check(item.clone()).ok()?;
    let function = syn::parse2::<ItemFn>(item.clone()).ok()?;
    let (used, wrong) = used(&function.block, is_device.then_some(&function.sig.ident));
    Some(used).filter(|used| wrong.is_empty() && used.len() <= MOST_DEVICES)
}

/// The functions that a body uses, and mistakes among them; `own` is the name of the function.
fn used(block: &syn::Block, own: Option<&Ident>) -> (Vec<Used>, Vec<Wrong>) {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for stmt in &block.stmts {
        if let Stmt::Item(syn::Item::Use(item)) = stmt {
            let leading = item.leading_colon;
            leaves(&item.tree, &quote!(#leading), &mut all, &mut wrong);
        }
    }
    for one in &all {
        if own.is_some_and(|own| one.path.to_string() == quote!(self::#own).to_string()) {
            let Problem { message, help, .. } = evaluate::recursive(&one.name.to_string());
            wrong.push((one.name.span().into(), message, help.unwrap_or_default()));
        }
    }
    if let Some(one) = all.get(MOST_DEVICES) {
        let message = format!("at most {MOST_DEVICES} functions are used");
        wrong.push((one.name.span().into(), message, "join some of them to one".into()));
    }
    (all, wrong)
}

fn leaves(tree: &UseTree, path: &TokenStream, all: &mut Vec<Used>, wrong: &mut Vec<Wrong>) {
    let mut leaf = |ident: &Ident, name: &Ident| match ident
        .to_string()
        .chars()
        .all(|c| c.is_lowercase() || c.is_ascii_digit() || c == '_')
    {
        true => all.push(Used { name: name.clone(), path: quote!(#path #ident) }),
        false => wrong.push((
            ident.span().into(),
            format!("`{ident}` is not a `#[device]` function, and kernels use no other items"),
            "write constants as numbers, or as `const` in the kernel".into(),
        )),
    };
    match tree {
        UseTree::Path(inner) => {
            let ident = &inner.ident;
            leaves(&inner.tree, &quote!(#path #ident ::), all, wrong);
        }
        UseTree::Name(last) => leaf(&last.ident, &last.ident),
        UseTree::Rename(last) => leaf(&last.ident, &last.rename),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, all, wrong)),
        UseTree::Glob(star) => wrong.push((
            TokenRange::of(star),
            "functions are used by their names".into(),
            "list them: `use self::{soft, clip};`".into(),
        )),
    }
}

/// A body without its imports, whose mistakes are recorded.
pub(crate) fn without_uses(block: &syn::Block, own: Option<&Ident>, text: &mut Text) -> syn::Block {
    let (_, wrong) = used(block, own);
    for (range, what, instead) in wrong {
        text.wrong(range, what, &instead);
    }
    let stmts = block.stmts.iter().filter(|stmt| !is_import(stmt)).cloned().collect();
    syn::Block { stmts, ..block.clone() }
}

/// The imports of the user of functions.
pub fn imports(devices: &[Device], item: &TokenStream) -> TokenStream {
    let function = syn::parse2::<ItemFn>(item.clone()).ok().filter(|_| !devices.is_empty());
    let stmts = function.into_iter().flat_map(|function| function.block.stmts);
    stmts.filter(is_import).map(|stmt| quote!(#stmt)).collect()
}

fn is_import(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Item(syn::Item::Use(_)))
}

/// The item of `#[device]` as a function of Rust; errors are recorded in the text.
pub fn function(attr: &TokenStream, item: TokenStream, text: &mut Text) -> Option<ItemFn> {
    let function = match guard::check(item.clone()) {
        Ok(()) => text.parse(|input: syn::parse::ParseStream<'_>| input.parse::<ItemFn>(), item),
        Err(refused) => {
            text.wrong(refused.at, refused.what, refused.instead);
            None
        }
    };
    if let Some(first) = attr.clone().into_iter().next() {
        text.wrong(first.span(), "`#[device]` takes no arguments", "leave it out");
    }
    function
}

/// The function as a tree.
pub fn read(function: &ItemFn, devices: Vec<Device>, text: &mut Text) -> Option<Device> {
    let sig = &function.sig;
    signature::qualifiers(sig, "a `#[device]` function", false, text);
    let mut types = Vec::new();
    for generic in &sig.generics.params {
        if let syn::GenericParam::Type(ty) = generic
            && ty.bounds.is_empty()
            && ty.default.is_none()
        {
            types.push(text.name(&ty.ident));
            continue;
        }
        let what = "a `#[device]` function is generic in element types only, without bounds";
        let instead = "write `fn name<T>(x: T) -> T`; a constant is a parameter, `n: usize`, and a closure too, `f: fn(f32) -> f32`";
        text.wrong(TokenRange::of(generic), what, instead);
    }
    let mut params = Vec::new();
    for input in &sig.inputs {
        params.extend(signature::device_param(input, text));
    }
    let result = match &sig.output {
        syn::ReturnType::Type(_, result) => signature::device_type(result, text)?,
        syn::ReturnType::Default => DeviceType::Tuple(Vec::new()),
    };
    let is_number = |ty: &DeviceType| matches!(ty, DeviceType::Number(_));
    let of_numbers = params.iter().all(|param: &DeviceParam| is_number(&param.ty));
    if of_numbers && !is_number(&result) && result == DeviceType::Tuple(Vec::new()) {
        text.wrong(sig.ident.span(), "a `#[device]` function returns a number", "write its type: `-> f32`");
        return None;
    }
    let block = without_uses(&function.block, Some(&sig.ident), text);
    let (body, value) = match of_numbers && is_number(&result) {
        true => (Vec::new(), block_value(&block, text)?),
        false => crate::stmt::with_value(&block, result != DeviceType::Tuple(Vec::new()), text)?,
    };
    Some(Device { name: text.name(&sig.ident), types, params, result, devices, body, value })
}
