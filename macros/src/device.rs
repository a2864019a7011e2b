//! `#[device]`: a function that kernels share. It becomes a macro of its name, which passes its definition to
//! the kernels that use it: macros see only their own tokens, and names of macros follow Rust's own imports.
//!
//! A kernel with `use self::soft;` in its body expands to `self::soft! { … the kernel … }`. This expands to
//! `__with_device! { … the definition … the kernel … }`, which fetches the next function in the same way, and after the last
//! function expands to the kernel.

use crate::deliver::{Made, Report};
use crate::expr::block_value;
use crate::function::{self, MOST_DEVICES};
use crate::text::{Text, TokenRange};
use crate::{guard, names, shadow, signature};
use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{ItemFn, Stmt, UseTree};
use tilewright_codegen::ast::{Device, DeviceParam, DeviceType};
use tilewright_codegen::evaluate;
use tilewright_codegen::problem::Problem;
use tilewright_codegen::wire::{decode, encode};

/// The user of functions, and the functions fetched so far: the input of `__with_device!` after a definition.
pub(crate) struct User {
    /// `kernel` or `device`.
    kind: Ident,
    attr: TokenStream,
    item: TokenStream,
    fetched: Vec<(Ident, Literal)>,
}

/// The functions that something uses, decoded.
#[derive(Default)]
pub(crate) struct Fetched {
    devices: Vec<(Ident, Device)>,
    /// Is one of them missing because of an error that has been reported where it is defined?
    pub(crate) broken: bool,
}

impl Fetched {
    /// The functions, by their names in this text.
    pub(crate) fn named(self, text: &mut Text) -> Vec<Device> {
        self.devices.into_iter().map(|(name, device)| Device { name: text.name(&name), ..device }).collect()
    }
}

/// A function that is used: its name here, and its path.
struct Used {
    name: Ident,
    path: TokenStream,
}

impl User {
    pub(crate) fn new(kind: &str, attr: TokenStream, item: TokenStream) -> User {
        User { kind: Ident::new(kind, Span::call_site()), attr, item, fetched: Vec::new() }
    }

    /// Asks for the next function that is used; `None` if all have been fetched.
    fn next(&self) -> Option<TokenStream> {
        guard::check(self.item.clone()).ok()?;
        let function = syn::parse2::<ItemFn>(self.item.clone()).ok()?;
        let (used, wrong) = used(&function.block, own(&self.kind, &function));
        let next = used.get(self.fetched.len()).filter(|_| wrong.is_empty() && used.len() <= MOST_DEVICES)?;
        let Used { name, path } = next;
        let User { kind, attr, item, fetched } = self;
        let known = fetched.iter().map(|(name, bytes)| quote!(#name #bytes));
        Some(quote!(#path! { #name #kind [#(#known)*] [#attr] [#item] }))
    }

    /// Fetches the next function, or expands their user.
    pub(crate) fn expand(self, lints: Option<&str>) -> TokenStream {
        if let Some(next) = self.next() {
            return next;
        }
        let mut fetched = Fetched { devices: Vec::new(), broken: false };
        for (name, bytes) in &self.fetched {
            let read = syn::parse2::<syn::LitByteStr>(TokenTree::from(bytes.clone()).into());
            match read.ok().and_then(|bytes| decode::<Device>(&bytes.value())) {
                Some(device) => fetched.devices.push((name.clone(), device)),
                None => fetched.broken = true,
            }
        }
        match self.kind == "kernel" {
            true => function::expand_with(self.attr, self.item, fetched, lints),
            false => device(&self.attr, self.item, fetched),
        }
    }
}

/// `__with_device!`: a definition, its name where it is used, and its user.
pub(crate) fn with(tokens: TokenStream, lints: Option<&str>) -> TokenStream {
    let Some(user) = given(tokens) else {
        let error = "this function was compiled by another version of tilewright";
        let error = crate::deliver::error(Span::call_site().into(), error);
        return quote!(#error;);
    };
    user.expand(lints)
}

fn given(tokens: TokenStream) -> Option<User> {
    let mut tokens = tokens.into_iter();
    let TokenTree::Literal(bytes) = tokens.next()? else { return None };
    let TokenTree::Ident(name) = tokens.next()? else { return None };
    let TokenTree::Ident(kind) = tokens.next()? else { return None };
    let mut group = || match tokens.next()? {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    };
    let (known, attr, item) = (group()?, group()?, group()?);
    let mut fetched = Vec::new();
    let mut known = known.into_iter();
    while let Some(TokenTree::Ident(name)) = known.next() {
        let TokenTree::Literal(bytes) = known.next()? else { return None };
        fetched.push((name, bytes));
    }
    fetched.push((name, bytes));
    Some(User { kind, attr, item, fetched })
}

/// A mistake: its span, the message, and the remedy.
type Wrong = (TokenRange, String, String);

/// The name of a function, which it cannot use itself.
fn own<'f>(kind: &Ident, function: &'f ItemFn) -> Option<&'f Ident> {
    (kind == "device").then_some(&function.sig.ident)
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
pub(crate) fn imports(devices: &[Device], item: &TokenStream) -> TokenStream {
    let function = syn::parse2::<ItemFn>(item.clone()).ok().filter(|_| !devices.is_empty());
    let stmts = function.into_iter().flat_map(|function| function.block.stmts);
    stmts.filter(is_import).map(|stmt| quote!(#stmt)).collect()
}

fn is_import(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Item(syn::Item::Use(_)))
}

/// The items of `#[device]`.
fn device(attr: &TokenStream, item: TokenStream, fetched: Fetched) -> TokenStream {
    let mut text = Text::new(Span::call_site());
    let function = match guard::check(item.clone()) {
        Ok(()) => text.parse(|input: syn::parse::ParseStream<'_>| input.parse::<ItemFn>(), item.clone()),
        Err(refused) => {
            text.wrong(refused.at, refused.what, refused.instead);
            None
        }
    };
    if let Some(first) = attr.clone().into_iter().next() {
        text.wrong(first.span(), "`#[device]` takes no arguments", "leave it out");
    }
    let Some(function) = function else {
        return Report::of(&text.problems, Made::Kernel("device"), &text).items();
    };
    let broken = fetched.broken;
    let devices = fetched.named(&mut text);
    let read = read(&function, devices, &mut text).filter(|_| text.problems.is_empty() && !broken);
    if let Some(device) = &read {
        text.problems = evaluate::device(device);
    }
    let name = &function.sig.ident;
    let report = Report::of(&text.problems, Made::Kernel(&name.to_string()), &text).items();
    let shadow =
        read.as_ref().map(|device| shadow::of_device(device, &imports(&device.devices, &item), &text));
    let bytes = read.filter(|_| text.problems.is_empty()).map_or_else(Vec::new, |device| encode(&device));
    let (items, names) = (items(&function, &bytes, &text), names::used(&item));
    quote!(#report #items #names #shadow)
}

/// The function as a tree.
fn read(function: &ItemFn, devices: Vec<Device>, text: &mut Text) -> Option<Device> {
    let sig = &function.sig;
    let qualifiers = [
        (sig.constness.as_ref().map(TokenRange::of), "`const`"),
        (sig.asyncness.as_ref().map(TokenRange::of), "`async`"),
        (matches!(sig.safety, syn::Safety::Unsafe(_)).then(|| TokenRange::of(&sig.safety)), "`unsafe`"),
        (sig.abi.as_ref().map(TokenRange::of), "`extern`"),
        (sig.variadic.as_ref().map(TokenRange::of), "a variable number of arguments"),
    ];
    for (range, what) in qualifiers {
        if let Some(range) = range {
            text.wrong(range, format!("a `#[device]` function cannot have {what}"), "leave it out");
        }
    }
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

/// A function that says where it belongs, for imports, editors and documentation, and the macro beside it.
fn items(function: &ItemFn, bytes: &[u8], text: &Text) -> TokenStream {
    let ItemFn { attrs, vis, sig, .. } = function;
    let name = &sig.ident;
    let number = tilewright_codegen::kernel_def::fingerprint(
        &[name.to_string().as_bytes(), bytes, &encode(&text.lines())].concat(),
    );
    let exported = format_ident!("__tilewright_{}_{:08x}", name, number as u32, span = Span::call_site());
    let export = matches!(vis, syn::Visibility::Public(_)).then(|| quote!(#[macro_export]));
    // After an error its head may be one that Rust does not accept.
    let (generics, inputs, output) = match bytes {
        [] => (None, None, None),
        _ => (Some(&sig.generics), Some(&sig.inputs), Some(&sig.output)),
    };
    let message = format!("`{name}` is called outside of a kernel");
    let bytes = Literal::byte_string(bytes);
    quote! {
        #(#attrs)*
        #[allow(dead_code, unused_variables)]
        #vis fn #name #generics(#inputs) #output {
            ::core::panic!(#message)
        }

        #[doc(hidden)]
        #[allow(unused_macros)]
        #export
        macro_rules! #exported {
            ($($user:tt)*) => { ::tilewright::__private::__with_device! { #bytes $($user)* } };
        }
        #[allow(unused_imports)]
        #[doc(hidden)]
        #vis use #exported as #name;
    }
}
