//! A kernel as tokens: the part of it that a compiled program carries.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use tilewright_codegen::definition::Param;
use tilewright_codegen::kernel_def::{KernelDef, Locations};
use tilewright_codegen::wire::encode;
use tilewright_codegen::{Definition, Elem, Generated};

/// An expression for `static DEF: KernelDef`.
pub(crate) fn def(
    name: &str,
    kernel: &Generated,
    definition: &Definition,
    locations: &Locations,
) -> TokenStream {
    let (source, report) = (kernel.source(), kernel.report.to_string());
    let params = kernel.params.iter().map(param);
    let (definition, locations) = (bytes(definition), bytes(locations));
    let def = quote!(::tilewright::__private::KernelDef::new(#name, #source, #report, PARAMS, #definition, #locations));
    let def = if cfg!(feature = "generate") {
        quote!(#def.with_generator(::tilewright::__private::GENERATOR))
    } else {
        let programs = Literal::byte_string(&KernelDef::programs(kernel));
        // They are of the kernel that was made of the definition here.
        quote!(unsafe { ::tilewright::__private::KernelDef::with_programs(#def, #programs) })
    };
    quote! {{
        const PARAMS: &[::tilewright::__private::ParamDef] = &[#(#params),*];
        #def
    }}
}

/// The placeholder after an error.
pub(crate) fn empty(name: &str) -> TokenStream {
    quote!(::tilewright::__private::KernelDef::new(#name, "", "", &[], b"", b""))
}

/// A tree as a literal.
pub(crate) fn bytes<T: tilewright_codegen::wire::Wire>(tree: &T) -> Literal {
    Literal::byte_string(&encode(tree))
}

fn param(param: &Param) -> TokenStream {
    let name = &param.name;
    let elem = format_ident!("{}", format!("{:?}", param.elem));
    let tensor = match param.tensor {
        Some((written, modes)) => quote!(::core::option::Option::Some((#written, #modes))),
        None => quote!(::core::option::Option::None),
    };
    quote!(::tilewright::__private::ParamDef::new(#name, ::tilewright::__private::Elem::#elem, #tensor))
}

/// An element type as a type of Rust.
pub(crate) fn elem(elem: Elem) -> TokenStream {
    let name = format_ident!("{}", elem.name());
    match elem.is_primitive() {
        true => quote!(::core::primitive::#name),
        false => quote!(::tilewright::__private::#name),
    }
}
