//! The macros of tilewright: a shell around `tilewright-codegen`.
//!
//! Tokens are parsed by `tilewright-parse`, generated, and quoted. The functions below take `proc_macro2` tokens, so that tests can
//! call them without a compiler.

mod carry;
mod deliver;
mod device;
#[cfg(test)]
mod drawn;
#[cfg(test)]
mod equivalents;
#[cfg(test)]
mod extremes;
mod function;
#[cfg(test)]
mod fuzz;
mod generate;
#[cfg(test)]
mod hostile;
mod launch;
mod levels;
mod matmul;
#[cfg(test)]
mod messages;
mod names;
#[cfg(test)]
mod pages;
mod shadow;
mod specialize;

use proc_macro::TokenStream;
use tilewright_parse::{attribute, guard, keys, text};

/// See `tilewright::kernel`.
#[proc_macro_attribute]
pub fn kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(attr.into(), item.into(), lints().as_deref()).into()
}

/// The items of a kernel beside its type, which carries them.
#[doc(hidden)]
#[proc_macro_derive(__Items, attributes(__items))]
pub fn __items(tokens: TokenStream) -> TokenStream {
    function::carried(tokens.into()).into()
}

/// See `tilewright::device`.
#[proc_macro_attribute]
pub fn device(attr: TokenStream, item: TokenStream) -> TokenStream {
    device::User::new("device", attr.into(), item.into()).expand(lints().as_deref()).into()
}

/// Called by the macro of a `#[device]` function, for the function's user.
#[doc(hidden)]
#[proc_macro]
pub fn __with_device(tokens: TokenStream) -> TokenStream {
    device::with(tokens.into(), lints().as_deref()).into()
}

/// See `tilewright::matmul_kernel`.
#[proc_macro]
pub fn matmul_kernel(tokens: TokenStream) -> TokenStream {
    matmul::expand(tokens.into(), lints().as_deref()).into()
}

/// Called by the macro of a kernel, `name!(BM = 64)`.
#[doc(hidden)]
#[proc_macro]
pub fn __specialize(tokens: TokenStream) -> TokenStream {
    specialize::expand(tokens.into(), lints().as_deref()).into()
}

fn lints() -> Option<String> {
    std::env::var(levels::VARIABLE).ok()
}
