//! The method `launch` of a kernel: its parameters are the kernel's, with types that the compiler checks. It is
//! made only from the head of the function, so that an error in the body is not reported again at launches.

use crate::carry;
use proc_macro2::{Literal, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Ident, Lifetime};
use tilewright_codegen::Elem;
use tilewright_codegen::ast::{ExprKind, Param, ParamKind, TypeParam};

/// The method. Hygiene: names that the user did not write are invisible to the user's code.
pub(crate) fn method(is_unsafe: bool, params: &[Param], types: &[TypeParam]) -> TokenStream {
    let names: Vec<&str> = params.iter().map(|param| &*param.name.text).collect();
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        return TokenStream::new(); // Reported as an error elsewhere.
    }
    let listed = params.iter().any(|param| param.list.is_some());
    let (mut lives, mut declared, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for (range, param) in params.iter().enumerate() {
        let (declare, pass) = argument(param, types, range);
        let pass = match (listed, &param.list) {
            (true, None) => quote!([#pass]),
            _ => pass,
        };
        lives.extend(rank(param).map(|_| life(range)));
        declared.push(declare);
        passed.push(pass);
    }
    let stream = Ident::new("stream", Span::mixed_site());
    let takes: Vec<String> = params.iter().map(describe).collect();
    let takes = format!("Takes, in this order: {}.", takes.join(", "));
    // Lists are passed tensor by tensor.
    let all = match listed {
        false => quote!(&mut [#(#passed),*]),
        true => quote!(&mut ::std::vec::Vec::from_iter(::core::iter::empty() #(.chain(#passed))*)),
    };
    let optional = params.iter().filter(|param| param.optional).map(|param| &param.name.text);
    let given = params
        .iter()
        .filter(|param| param.optional)
        .map(|param| syn::parse_str::<Ident>(&param.name.text).unwrap_or_else(|_| format_ident!("argument")));
    let presence = params.iter().any(|param| param.optional).then(|| {
        quote!(::tilewright::__private::Launch::__presence(self, &[#((#optional, ::core::option::Option::is_some(&#given))),*])?;)
    });
    let call = quote!((self, #stream, #all));
    let (danger, call, qualifier) = match is_unsafe {
        true => (
            Some(quote! {
                ///
                /// # Safety
                /// The requirements in the documentation of the kernel are met.
            }),
            quote!(unsafe { ::tilewright::__private::Launch::launch_unchecked #call }),
            Some(quote!(unsafe)),
        ),
        false => (None, quote!(::tilewright::__private::Launch::launch_with #call), None),
    };
    quote! {
        /// Launches the kernel on a device. Arguments are checked before anything runs.
        ///
        #[doc = #takes]
        #danger
        #[allow(clippy::too_many_arguments)]
        pub #qualifier fn launch<#(#lives),*>(
            &self,
            #stream: &::tilewright::__private::Stream,
            #(#declared),*
        ) -> ::core::result::Result<::tilewright::__private::Launched, ::tilewright::__private::LaunchError> {
            #presence
            #call
        }
    }
}

/// A parameter of the method, and the value that it passes on.
fn argument(param: &Param, types: &[TypeParam], range: usize) -> (TokenStream, TokenStream) {
    // A user's name may be a keyword only in raw form, which the tree does not keep.
    let name =
        syn::parse_str::<Ident>(&param.name.text).unwrap_or_else(|_| format_ident!("argument_{range}"));
    let elem = element(&param.elem.text, types);
    match rank(param) {
        Some((mutable, rank)) => {
            let kind = format_ident!("{}", if mutable { "WriteTensor" } else { "ReadTensor" });
            let life = life(range);
            let kind = quote!(::tilewright::__private::#kind<#life, #elem, #rank>);
            let lent = |name| quote!(::tilewright::__private::Argument::from(<_ as #kind>::lend(#name)));
            match &param.list {
                None => (quote!(#name: impl #kind), lent(quote!(#name))),
                Some(length) => {
                    let listed = match length.kind {
                        // One type, so that `None` has a type too.
                        _ if param.optional => {
                            let view = format_ident!("{}", if mutable { "TensorMut" } else { "TensorRef" });
                            let view = quote!(::tilewright::__private::#view<#life, #elem, #rank>);
                            quote!(#name: ::core::option::Option<#view>)
                        }
                        ExprKind::Int(length) => {
                            let length = Literal::i64_unsuffixed(length);
                            quote!(#name: [impl #kind; #length])
                        }
                        // A constant, which other kernels of this type may have another value of.
                        _ => quote!(#name: impl ::core::iter::IntoIterator<Item = impl #kind>),
                    };
                    let one = Ident::new("one", Span::mixed_site());
                    let lent = lent(quote!(#one));
                    let all = quote!(::core::iter::IntoIterator::into_iter(#name));
                    (listed, quote!(::core::iter::Iterator::map(#all, |#one| #lent)))
                }
            }
        }
        None => (quote!(#name: #elem), quote!(::tilewright::__private::Argument::scalar::<#elem>(#name))),
    }
}

/// Of a tensor: whether it is written, and its number of modes.
fn rank(param: &Param) -> Option<(bool, usize)> {
    match &param.kind {
        ParamKind::Scalar => None,
        ParamKind::Tensor { mutable, shape, .. } => match &shape.kind {
            ExprKind::Tuple(modes) => Some((*mutable, modes.len())),
            _ => Some((*mutable, 1)),
        },
    }
}

/// The lifetime for which a tensor is borrowed.
fn life(range: usize) -> Lifetime {
    Lifetime::new(&format!("'t{range}"), Span::call_site())
}

/// The element type: a type parameter of the kernel, or a Rust type. Any other is an error that is reported
/// elsewhere.
fn element(written: &str, types: &[TypeParam]) -> TokenStream {
    match types.iter().find(|ty| ty.name.text == written) {
        Some(ty) => {
            let name = Ident::new(&ty.name.text, Span::call_site());
            quote!(#name)
        }
        None => carry::elem(Elem::named(written).unwrap_or(Elem::F32)),
    }
}

fn describe(param: &Param) -> String {
    let name = &param.name.text;
    match rank(param) {
        Some((mutable, rank)) => {
            let (done, modes) =
                (if mutable { "written" } else { "read" }, if rank == 1 { "mode" } else { "modes" });
            match param.list {
                None => format!("`{name}`, a tensor of {rank} {modes} that is {done}"),
                Some(_) if param.optional => {
                    format!("`{name}`, an optional tensor of {rank} {modes} that is {done}")
                }
                Some(_) => format!("`{name}`, a list of tensors of {rank} {modes} that are {done}"),
            }
        }
        None => format!("`{name}`, a number"),
    }
}

#[cfg(test)]
mod tests {
    use crate::function::expand;
    use proc_macro2::TokenStream;

    /// Asserts that the expansion contains these parts, ignoring white space.
    #[track_caller]
    fn check(kernel: &str, parts: &[&str]) {
        let kernel: TokenStream = kernel.parse().expect("tokens");
        let text = expand(TokenStream::new(), kernel, None).to_string().replace(char::is_whitespace, "");
        for part in parts {
            let part = part.replace(char::is_whitespace, "");
            assert!(text.contains(&part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_launch_has_the_parameters_of_the_kernel() {
        let body = "{ let t = tile(x, (32, 8), (block.x, block.y)); \
            let p = parallelize(t, layout!((32, 8)), thread.x); copy(map(p, |x| x * by), p); }";
        let head = "fn k(x: &mut Tensor<f32, (M, N)>, by: f32)";
        let takes = [
            "pub fn launch<'t0>(&self, stream: &::tilewright::__private::Stream",
            "x: impl ::tilewright::__private::WriteTensor<'t0, ::core::primitive::f32, 2usize>",
            "by: ::core::primitive::f32",
            "::tilewright::__private::Launch::launch_with(self, stream, &mut [",
        ];
        check(&format!("{head} {body}"), &takes);
        let vouched = [
            "pub unsafe fn launch<'t0>(",
            "unsafe { ::tilewright::__private::Launch::launch_unchecked(self, stream, &mut [",
            "#Safety",
        ];
        check(&format!("unsafe {head} {body}"), &vouched);
        // An error in the body does not remove the method.
        check(&format!("{head} {{ copy(y, x); }}"), &takes);
    }

    #[test]
    fn shapes_have_ranks() {
        let check = |shape: &str, rank: &str| {
            let kernel = format!("fn k(x: &mut Tensor<f16, {shape}>) {{ nothing(); }}");
            check(&kernel, &[&format!("WriteTensor<'t0, ::tilewright::__private::f16, {rank}usize>")]);
        };
        check("N", "1");
        check("(N,)", "1");
        check("(M, N, L)", "3");
        check("layout!((M, N) : (ldc, 1))", "2");
        check("{(N, 4)}", "2");
        check("{4}", "1");
    }
}
