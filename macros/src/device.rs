//! `#[device]`: a function that kernels share. It becomes a macro of its name, which passes its definition to
//! the kernels that use it: macros see only their own tokens, and names of macros follow Rust's own imports.
//!
//! A kernel with `use self::soft;` in its body expands to `self::soft! { … the kernel … }`. This expands to
//! `__with_device! { … the definition … the kernel … }`, which fetches the next function in the same way, and after the last
//! function expands to the kernel.

use crate::deliver::{Made, Report};
use crate::function;
use crate::text::Text;
use crate::{names, shadow};
use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ItemFn;
use tilewright_codegen::ast::Device;
use tilewright_codegen::evaluate;
use tilewright_codegen::wire::{decode, encode};
use tilewright_parse::device::{self as parse, Used};

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

impl User {
    pub(crate) fn new(kind: &str, attr: TokenStream, item: TokenStream) -> User {
        User { kind: Ident::new(kind, Span::call_site()), attr, item, fetched: Vec::new() }
    }

    /// Asks for the next function that is used; `None` if all have been fetched.
    fn next(&self) -> Option<TokenStream> {
        let used = parse::used_by(&self.item, self.kind == "device")?;
        let Used { name, path } = used.get(self.fetched.len())?;
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

/// The items of `#[device]`.
fn device(attr: &TokenStream, item: TokenStream, fetched: Fetched) -> TokenStream {
    let mut text = Text::new(Span::call_site());
    let function = parse::function(attr, item.clone(), &mut text);
    let Some(function) = function else {
        return Report::of(&text.problems, Made::Kernel("device"), &text).items();
    };
    let broken = fetched.broken;
    let devices = fetched.named(&mut text);
    let read = parse::read(&function, devices, &mut text).filter(|_| text.problems.is_empty() && !broken);
    if let Some(device) = &read {
        text.problems = evaluate::device(device);
    }
    let name = &function.sig.ident;
    let report = Report::of(&text.problems, Made::Kernel(&name.to_string()), &text).items();
    let shadow =
        read.as_ref().map(|device| shadow::of_device(device, &parse::imports(&device.devices, &item), &text));
    let bytes = read.filter(|_| text.problems.is_empty()).map_or_else(Vec::new, |device| encode(&device));
    let (items, names) = (items(&function, &bytes, &text), names::used(&item));
    quote!(#report #items #names #shadow)
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
