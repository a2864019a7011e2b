//! The method `launch` of a kernel: its parameters are the kernel's, with types that the compiler compares.

use crate::carry;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Ident, Lifetime};
use tilewright_codegen::definition::Param;
use tilewright_codegen::{Definition, Generated, ast};

/// The method. Names that the user did not write are invisible to what they wrote.
pub(crate) fn method(kernel: &Generated, definition: &Definition) -> TokenStream {
    let Definition::Function(written, _) = definition else { return TokenStream::new() };
    let (mut lives, mut declared, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (param, written)) in kernel.params.iter().zip(&written.params).enumerate() {
        let (declare, pass) = argument(param, written, place);
        lives.extend(param.tensor.map(|_| life(place)));
        declared.push(declare);
        passed.push(pass);
    }
    let stream = Ident::new("stream", Span::mixed_site());
    let takes: Vec<String> = kernel.params.iter().map(describe).collect();
    let takes = format!("Takes, in this order: {}.", takes.join(", "));
    let call = quote!((self, #stream, &mut [#(#passed),*]));
    let (danger, call, qualifier) = match written.is_unsafe {
        true => (
            Some(quote! {
                ///
                /// # Safety
                /// What the documentation of the kernel asks for holds.
            }),
            quote!(unsafe { ::tilewright::__private::Launch::launch_unchecked #call }),
            Some(quote!(unsafe)),
        ),
        false => (None, quote!(::tilewright::__private::Launch::launch_with #call), None),
    };
    quote! {
        /// Launches the kernel on a device. What is wrong with the arguments is found before anything runs.
        ///
        #[doc = #takes]
        #danger
        #[allow(clippy::too_many_arguments)]
        pub #qualifier fn launch<#(#lives),*>(
            &self,
            #stream: &::tilewright::__private::Stream,
            #(#declared),*
        ) -> ::core::result::Result<::tilewright::__private::Launched, ::tilewright::__private::LaunchError> {
            #call
        }
    }
}

/// A parameter of the method, and what it passes on.
fn argument(param: &Param, written: &ast::Param, place: usize) -> (TokenStream, TokenStream) {
    // A user's name may be a keyword only in raw form, which the tree does not keep.
    let name = syn::parse_str::<Ident>(&param.name).unwrap_or_else(|_| format_ident!("argument_{place}"));
    let elem = element(&written.elem.text, param);
    match param.tensor {
        Some((mutable, rank)) => {
            let kind = format_ident!("{}", if mutable { "TensorMut" } else { "TensorRef" });
            let life = life(place);
            let kind = quote!(::tilewright::__private::#kind<#life, #elem, #rank>);
            let declared = quote!(#name: impl ::core::convert::Into<#kind>);
            let lent = quote!(::core::convert::Into::<#kind>::into(#name));
            (declared, quote!(::tilewright::__private::Argument::from(#lent)))
        }
        None => (quote!(#name: #elem), quote!(::tilewright::__private::Argument::scalar::<#elem>(#name))),
    }
}

/// How long a tensor is lent.
fn life(place: usize) -> Lifetime {
    Lifetime::new(&format!("'t{place}"), Span::call_site())
}

/// The element type: one of the kernel's own types, or a type of Rust.
fn element(written: &str, param: &Param) -> TokenStream {
    match tilewright_codegen::Elem::named(written) {
        Some(elem) => carry::elem(elem),
        None => match syn::parse_str::<Ident>(written) {
            Ok(name) => quote!(#name),
            Err(_) => carry::elem(param.elem),
        },
    }
}

fn describe(param: &Param) -> String {
    match param.tensor {
        Some((mutable, rank)) => {
            let (a, modes) =
                (if mutable { "written" } else { "read" }, if rank == 1 { "mode" } else { "modes" });
            format!("`{}`, a tensor of {rank} {modes} that is {a}", param.name)
        }
        None => format!("`{}`, a number", param.name),
    }
}
