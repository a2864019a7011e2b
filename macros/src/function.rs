//! `#[kernel]`: a function to a definition, and the definition to items.

use crate::deliver::{self, Made, Report};
use crate::device::{self, Fetched};
use crate::guard;
use crate::text::Text;
use crate::{carry, generate, launch, levels, names, shadow, specialize};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::parse::{ParseStream, Parser};
use syn::{Attribute as SynAttribute, Ident, Visibility};
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::wire::encode;
use tilewright_codegen::{Definition, Elem, Generated, Settings, ast};
use tilewright_parse::device::imports;
pub(crate) use tilewright_parse::function::{MOST_TYPES, read};

/// The head of the function, for the items that it expands to. Parsed separately, so that an error in the
/// body does not make the name unknown where it is used.
struct Head {
    attrs: Vec<SynAttribute>,
    vis: Visibility,
    name: Ident,
    types: Vec<ast::TypeParam>,
    /// Is it an `unsafe fn`, and what are its parameters? `None` if they could not be parsed.
    takes: Option<(bool, Vec<ast::Param>)>,
}

/// Expands the attribute: at once, or after the functions that the kernel uses have been fetched.
pub(crate) fn expand(attr: TokenStream, item: TokenStream, lints: Option<&str>) -> TokenStream {
    device::User::new("kernel", attr, item).expand(lints)
}

/// Expands a kernel with the functions that it uses.
pub(crate) fn expand_with(
    attr: TokenStream,
    item: TokenStream,
    fetched: Fetched,
    lints: Option<&str>,
) -> TokenStream {
    let Some(mut head) = head(item.clone()) else {
        let first = item.into_iter().next().map_or(Span::call_site(), |token| token.span());
        let message =
            deliver::error(first.into(), "this is not a function\nhelp: write `#[kernel]` above a `fn`");
        return quote!(#message;);
    };
    let mut text = Text::new(head.name.span());
    let kernel = read(attr, item.clone(), &mut text);
    let broken = fetched.broken;
    let kernel = kernel.map(|kernel| ast::Kernel { devices: fetched.named(&mut text), ..kernel });
    let set = levels::levels(lints, &mut text);
    let shadow = kernel.as_ref().map(|kernel| shadow::of(kernel, &imports(&kernel.devices, &item), &text));
    let mut outcome = None;
    if let Some(kernel) = kernel {
        head.types.clone_from(&kernel.types);
        head.takes = Some((kernel.is_unsafe, kernel.params.clone()));
        let definition = Definition::Function(kernel, Settings::default());
        if text.problems.is_empty() && !broken {
            outcome = Some((generate::generate(&definition, &set), definition));
        }
    }
    let name = head.name.to_string();
    let report = match &outcome {
        Some((made, _)) => Report::of(&made.diagnostics, Made::Kernel(&name), &text),
        None => Report::of(&text.problems, Made::Kernel(&name), &text),
    };
    let made = outcome.as_ref().filter(|_| report.errors.is_empty());
    let made = made.and_then(|(made, definition)| Some((made.kernel.as_ref()?, definition)));
    let used = guard::check(item.clone()).is_ok().then(|| names::used(&item));
    let (report, tracked) = (report.items(), levels::tracked());
    let items = head.items(made, &text.lines(), &quote!(#report #tracked));
    let names = format_ident!("__tilewright_names_of_{}", head.name, span = Span::call_site());
    quote! {
        #items

        #[doc(hidden)]
        #[allow(non_upper_case_globals, dead_code, unexpected_cfgs)]
        const #names: () = { #used #shadow };
    }
}

/// The tokens in the attribute `#[__items { … }]` of a type.
pub(crate) fn carried(of: TokenStream) -> TokenStream {
    let within = |tokens: TokenStream, delimiter| {
        tokens.into_iter().filter_map(move |token| match token {
            TokenTree::Group(group) if group.delimiter() == delimiter => Some(group.stream()),
            _ => None,
        })
    };
    let attribute = within(of, Delimiter::Bracket).find(|tokens| {
        matches!(tokens.clone().into_iter().next(), Some(TokenTree::Ident(name)) if name == "__items")
    });
    attribute.and_then(|tokens| within(tokens, Delimiter::Brace).next()).unwrap_or_default()
}

/// Attributes, visibility and name: the tokens before `fn`, and the word after it.
fn head(item: TokenStream) -> Option<Head> {
    let mut tokens = item.into_iter();
    let before = tokens.by_ref().take_while(|token| !matches!(token, TokenTree::Ident(word) if word == "fn"));
    let before: TokenStream = before.collect();
    let Some(TokenTree::Ident(name)) = tokens.next() else { return None };
    let name = syn::parse2::<Ident>(TokenTree::from(name).into()).ok()?; // no keyword
    guard::check(before.clone()).ok()?;
    let (attrs, vis) = Parser::parse2(
        |input: ParseStream<'_>| {
            let read = (input.call(SynAttribute::parse_outer)?, input.parse()?);
            input.parse::<TokenStream>()?; // `unsafe`, `const`, …
            Ok(read)
        },
        before,
    )
    .ok()?;
    Some(Head { attrs, vis, name, types: Vec::new(), takes: None })
}

impl Head {
    /// A type, which derives the other items. An `impl` cannot contain items: there the type is the only error, since the
    /// other items are not made. After an error all items are emitted too, with empty bodies, so that one mistake is one
    /// error.
    fn items(
        &self,
        made: Option<(&Generated, &Definition)>,
        locations: &Locations,
        report: &TokenStream,
    ) -> TokenStream {
        let Head { attrs, vis, name, types, .. } = self;
        let text = name.to_string();
        let generics: Vec<_> = types.iter().map(|ty| Ident::new(&ty.name.text, Span::call_site())).collect();
        let defaults: Vec<_> = types.iter().map(|ty| carry::elem(first(ty))).collect();
        let list = (!types.is_empty()).then(|| quote!(<#(#generics),*>));
        let bounds = quote!(<#(#generics: ::tilewright::__private::Element),*>);
        let declared = quote!(<#(#generics: ::tilewright::__private::Element = #defaults),*>);
        let default = (!types.is_empty()).then(|| quote!(<#(#defaults),*>));
        let def = match made {
            Some((kernel, definition)) => carry::def(&text, kernel, definition, locations),
            None => carry::empty(&text),
        };
        let docs = attrs.iter().filter(|attr| attr.path().is_ident("doc") || attr.path().is_ident("cfg"));
        let methods = self.methods(&list);
        let launch = self.takes.as_ref().map(|(is_unsafe, params)| launch::method(*is_unsafe, params, types));
        let specialize = self.macro_items(made.map(|(_, definition)| definition), locations);
        let others = quote! {
            #report

            #(#attrs)*
            #[must_use]
            #vis const fn #name() -> #name #default {
                static DEF: ::tilewright::__private::KernelDef = #def;
                #name {
                    handle: ::tilewright::__private::Handle::Fixed(&DEF),
                    elements: ::core::marker::PhantomData,
                }
            }

            #[allow(dead_code)]
            impl #bounds #name #list {
                #methods
            }

            ::tilewright::__cuda! {
                #[allow(dead_code)]
                impl #bounds #name #list {
                    #launch
                }
            }

            impl #bounds ::tilewright::__private::Kernel for #name #list {
                fn def(&self) -> &::tilewright::__private::KernelDef {
                    ::tilewright::__private::Handle::def(&self.handle)
                }
            }

            #specialize
        };
        quote! {
            #(#docs)*
            #[allow(non_camel_case_types, missing_docs, dead_code)]
            #[derive(Clone, Debug, ::tilewright::__private::__Items)]
            #[__items { #others }]
            #vis struct #name #declared {
                handle: ::tilewright::__private::Handle,
                elements: ::core::marker::PhantomData<fn() -> (#(#generics,)*)>,
            }
        }
    }

    /// The methods that need no device; `launch` makes the others.
    fn methods(&self, list: &Option<TokenStream>) -> TokenStream {
        let name = &self.name;
        let other = (!self.types.is_empty()).then(|| {
            let texts: Vec<_> = self.types.iter().map(|ty| &ty.name.text).collect();
            let others: Vec<_> = (0..texts.len()).map(|at| format_ident!("Other{at}")).collect();
            quote! {
                /// The same kernel for other element types, and with other constants.
                pub fn specialize_for<'k, #(#others: ::tilewright::__private::Element),*>(
                    &'k self,
                    consts: &[(&::core::primitive::str, ::core::primitive::usize)],
                ) -> ::core::result::Result<#name<#(#others),*>, ::tilewright::__private::KernelErrors>
                where
                    &'k Self: ::tilewright::__private::Generates,
                {
                    let types =
                        [#((#texts, <#others as ::tilewright::__private::Element>::ELEM)),*];
                    let handle = ::tilewright::__private::Handle::specialize(&self.handle, consts, &types)?;
                    ::core::result::Result::Ok(#name { handle, elements: ::core::marker::PhantomData })
                }
            }
        });
        quote! {
            /// The CUDA C of the kernel: of its fastest variant, if there are several.
            pub fn source(&self) -> &::core::primitive::str {
                self.def().source()
            }

            /// The static report of the kernel, which needs no run.
            pub fn report(&self) -> &::core::primitive::str {
                self.def().report()
            }

            /// The loop nest of the kernel: loops of the grid, of the threads of a block, and of each thread.
            pub fn explain(
                &self,
            ) -> ::core::result::Result<::std::string::String, ::tilewright::__private::KernelErrors> {
                self.def().explain()
            }

            /// The arguments that a launch passes, in order.
            pub fn params(&self) -> &[::tilewright::__private::ParamDef] {
                self.def().params()
            }

            /// The kernel's definition; `None` when another version of tilewright wrote it.
            pub fn definition(&self) -> ::core::option::Option<::tilewright::__private::Definition> {
                self.def().definition()
            }

            /// The same kernel with other constants, made now.
            pub fn specialize<'k>(
                &'k self,
                consts: &[(&::core::primitive::str, ::core::primitive::usize)],
            ) -> ::core::result::Result<#name #list, ::tilewright::__private::KernelErrors>
            where
                &'k Self: ::tilewright::__private::Generates,
            {
                let handle = ::tilewright::__private::Handle::specialize(&self.handle, consts, &[])?;
                ::core::result::Result::Ok(#name { handle, elements: ::core::marker::PhantomData })
            }

            #other

            /// The kernel as the runtime sees it.
            pub fn def(&self) -> &::tilewright::__private::KernelDef {
                ::tilewright::__private::Handle::def(&self.handle)
            }
        }
    }

    /// `name!(BM = 64)`. It is exported from the crate root under a mangled name, and re-exported under the
    /// kernel's name beside the kernel; it refers to the kernel's type by a number.
    fn macro_items(&self, made: Option<&Definition>, locations: &Locations) -> TokenStream {
        let Head { vis, name, types, .. } = self;
        let number = self.number(made, locations);
        let exported = format_ident!("__tilewright_{}_{:08x}", name, number as u32, span = Span::call_site());
        let export = matches!(vis, Visibility::Public(_)).then(|| quote!(#[macro_export]));
        let slots: Vec<_> = (0..types.len().min(MOST_TYPES)).map(|at| format_ident!("T{at}")).collect();
        let list = (!types.is_empty()).then(|| quote!(<#(S::#slots),*>));
        let number = proc_macro2::Literal::u128_unsuffixed(number);
        let value = match made {
            Some(definition) => {
                let (definition, locations) = (carry::bytes(definition), carry::bytes(locations));
                quote!(::tilewright::__private::__specialize! { #number #definition #locations $($setting)* })
            }
            // The error is reported at the definition only, not at a use.
            None => specialize::value(&number, &quote!(::tilewright::__private::Broken)),
        };
        let about =
            format!("`{name}!(BM = 64)`: the kernel `{name}` with other constants, made while compiling.");
        quote! {
            impl<S: ::tilewright::__private::Specialized> ::tilewright::__private::Makes<#name #list, S>
                for ::tilewright::__private::Number<#number>
            where
                #(S::#slots: ::tilewright::__private::Element,)*
            {
                const KERNEL: #name #list = #name {
                    handle: ::tilewright::__private::Handle::Fixed(S::DEF),
                    elements: ::core::marker::PhantomData,
                };
            }

            #[doc = #about]
            #[doc(hidden)]
            #[allow(unused_macros)]
            #export
            macro_rules! #exported {
                ($($setting:tt)*) => { #value };
            }
            #[allow(unused_imports)]
            #[doc(hidden)]
            #vis use #exported as #name;
        }
    }

    /// The number of a definition, which depends on its location, so that the same text in two modules makes two kernels.
    fn number(&self, made: Option<&Definition>, locations: &Locations) -> u128 {
        let name = self.name.to_string();
        let package = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
        let parts = [name.into_bytes(), package.into_bytes(), encode(&made.cloned()), encode(locations)];
        tilewright_codegen::kernel_def::fingerprint(&parts.concat())
    }
}

fn first(ty: &ast::TypeParam) -> Elem {
    ty.allowed.first().and_then(|name| Elem::named(&name.text)).unwrap_or(Elem::F32)
}
