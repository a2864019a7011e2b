//! The names of a kernel for rust-analyzer: a function that binds and uses them where the kernel does, with the author's
//! own tokens, so that definitions, references, renaming and hover work. The compiler never sees it: it is behind
//! `cfg(rust_analyzer)`. It has names without types, since expressions of the language do not have Rust's types.

use crate::text::Text;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use std::collections::BTreeSet;
use tilewright_codegen::ast::{
    Arg, Device, Expr, ExprKind, Kernel, Name, ParamKind, Pattern, Span, Stmt, StmtKind,
};
use tilewright_codegen::evaluate::FUNCTIONS;

/// The shadow of a kernel with these imports.
pub(crate) fn of(kernel: &Kernel, imports: &TokenStream, text: &Text) -> TokenStream {
    let mut shadow = Shadow::new(&kernel.devices, text);
    let consts = kernel.consts.iter().map(|constant| &constant.name);
    let consts: Vec<_> = consts.filter_map(|name| shadow.bind(name, &quote!(usize))).collect();
    let shapes = kernel.params.iter().flat_map(|param| match &param.kind {
        ParamKind::Tensor { shape, stride, .. } => [Some(shape), stride.as_ref()],
        ParamKind::Scalar => [None, None],
    });
    let sizes: Vec<_> = shapes.flatten().flat_map(|size| shadow.sizes(size)).collect();
    let mut params = Vec::new();
    for param in &kernel.params {
        let ty = match param.kind {
            ParamKind::Tensor { .. } => quote!(::tilewright::language::View),
            ParamKind::Scalar => quote!(::tilewright::language::Number),
        };
        params.extend(shadow.bind(&param.name, &ty));
    }
    let body = shadow.block(&kernel.body);
    hidden(&quote!(#imports #(#consts)* #(#sizes)* #(#params)* #body))
}

/// The shadow of a function for kernels.
pub(crate) fn of_device(device: &Device, imports: &TokenStream, text: &Text) -> TokenStream {
    let mut shadow = Shadow::new(&device.devices, text);
    let number = quote!(::tilewright::language::Number);
    let params: Vec<_> = device.params.iter().map(|param| shadow.bind(&param.name, &number)).collect();
    let body: Vec<_> = device.body.iter().map(|stmt| shadow.stmt(stmt)).collect();
    let value = shadow.uses(&device.value);
    hidden(&quote!(#imports #(#params)* #(#body)* #value))
}

fn hidden(body: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unexpected_cfgs)]
        const _: () = {
            #[cfg(rust_analyzer)]
            #[allow(warnings)]
            fn shadow() { #body }
        };
    }
}

struct Shadow<'t> {
    text: &'t Text,
    /// Imported functions.
    imported: Vec<&'t str>,
    /// Names in scope.
    scope: Vec<String>,
}

impl<'t> Shadow<'t> {
    fn new(devices: &'t [Device], text: &'t Text) -> Shadow<'t> {
        let imported = devices.iter().map(|device| device.name.text.as_str()).collect();
        Shadow { text, imported, scope: Vec::new() }
    }

    fn ident(&self, text: &str, span: Span) -> Option<Ident> {
        syn::parse_str::<Ident>(text).ok()?;
        Some(Ident::new(text, self.text.tokens_of(span).first))
    }

    /// A binding of a name, whose value is never computed.
    fn bind(&mut self, name: &Name, ty: &TokenStream) -> Option<TokenStream> {
        let ident = self.ident(&name.text, name.span)?;
        self.scope.push(name.text.clone());
        Some(quote!(let #ident: #ty = loop {};))
    }

    /// Sizes that an extent or a stride names, each bound where it is named first.
    fn sizes(&mut self, of: &Expr) -> Vec<TokenStream> {
        let known: BTreeSet<String> = self.scope.iter().cloned().collect();
        let mut made = Vec::new();
        for (text, span) in leaves(of) {
            let name = Name { text: text.to_owned(), span };
            match known.contains(text) || self.scope.iter().any(|known| known == text) {
                true => made.extend(self.name(text, span)),
                false => made.extend(self.bind(&name, &quote!(usize))),
            }
        }
        made
    }

    /// A use of a name, if it is one of the kernel.
    fn name(&self, text: &str, span: Span) -> Option<TokenStream> {
        let ident = self.ident(text, span).filter(|_| self.scope.iter().any(|known| known == text))?;
        Some(quote!(let _ = &#ident;))
    }

    /// Statements in a separate scope.
    fn block(&mut self, body: &[Stmt]) -> TokenStream {
        let outer = self.scope.len();
        let body: Vec<_> = body.iter().map(|stmt| self.stmt(stmt)).collect();
        self.scope.truncate(outer);
        quote!({ #(#body)* })
    }

    fn stmt(&mut self, stmt: &Stmt) -> TokenStream {
        match &stmt.kind {
            StmtKind::Let { pattern, value } => {
                let uses = self.uses(value);
                let bound = self.pattern(pattern, &kind(value));
                quote!(#uses #bound)
            }
            StmtKind::Assign { target, value, .. } => {
                let (target, value) = (self.uses(target), self.uses(value));
                quote!(#target #value)
            }
            StmtKind::For { pattern, range, body } => {
                let (range, outer) = (self.uses(range), self.scope.len());
                let bound = self.pattern(pattern, &quote!(usize));
                let body = self.block(body);
                self.scope.truncate(outer);
                quote!(#range { #bound #body })
            }
            StmtKind::If { condition, then, other } => {
                let (condition, then, other) = (self.uses(condition), self.block(then), self.block(other));
                quote!(#condition #then #other)
            }
            StmtKind::While { condition, body } => {
                let (condition, body) = (self.uses(condition), self.block(body));
                quote!(#condition #body)
            }
            StmtKind::Break => TokenStream::new(),
            StmtKind::Block { head, body } => {
                let (head, body) = (self.uses(head), self.block(body));
                quote!(#head #body)
            }
            StmtKind::Expr(value) => self.uses(value),
        }
    }

    fn pattern(&mut self, pattern: &Pattern, ty: &TokenStream) -> TokenStream {
        match pattern {
            Pattern::Name(name) => self.bind(name, ty).unwrap_or_default(),
            Pattern::Hole(_) => TokenStream::new(),
            Pattern::Tuple(_, all) => all.iter().map(|one| self.pattern(one, ty)).collect(),
        }
    }

    /// Uses of the names in an expression.
    fn uses(&mut self, of: &Expr) -> TokenStream {
        // Chains of operators are nested to the left, as deep as they are long.
        let (mut of, mut later) = (of, Vec::new());
        while let ExprKind::Binary(_, left, right) = &of.kind {
            later.push(&**right);
            of = left;
        }
        let mut all = vec![self.first(of)];
        for right in later.into_iter().rev() {
            all.push(self.uses(right));
        }
        all.into_iter().collect()
    }

    fn first(&mut self, of: &Expr) -> TokenStream {
        let number = quote!(::tilewright::language::Number);
        match &of.kind {
            ExprKind::Name(text) => self.name(text, of.span).unwrap_or_default(),
            ExprKind::Call { function, args, .. } => {
                // Functions of the language and imported ones are items; others are closures of the kernel.
                let name = function.text.as_str();
                let is_item = self.imported.contains(&name) || FUNCTIONS.iter().any(|row| row.name == name);
                let called = match is_item && !self.scope.contains(&function.text) {
                    true => self.ident(&function.text, function.span).map(|name| quote!(let _ = #name;)),
                    false => self.name(&function.text, function.span),
                };
                let args = self.arguments(args);
                quote!(#called #args)
            }
            ExprKind::Method { receiver, args, .. } => {
                let (receiver, args) = (self.uses(receiver), self.arguments(args));
                quote!(#receiver #args)
            }
            ExprKind::Closure { params, body } => {
                let outer = self.scope.len();
                let params: TokenStream = params.iter().map(|param| self.pattern(param, &number)).collect();
                let body = self.uses(body);
                self.scope.truncate(outer);
                quote!({ #params #body })
            }
            ExprKind::Block { lets, value } => {
                let (outer, mut all) = (self.scope.len(), TokenStream::new());
                for (pattern, value) in lets {
                    all.extend(self.uses(value));
                    all.extend(self.pattern(pattern, &number));
                }
                all.extend(self.uses(value));
                self.scope.truncate(outer);
                quote!({ #all })
            }
            _ => inner(of).into_iter().map(|part| self.uses(part)).collect(),
        }
    }

    fn arguments(&mut self, args: &[Arg]) -> TokenStream {
        args.iter().map(|arg| self.uses(&arg.value)).collect()
    }
}

/// The text that hover shows for a value.
fn kind(value: &Expr) -> TokenStream {
    match &value.kind {
        ExprKind::Call { .. } | ExprKind::Index { .. } | ExprKind::Method { .. } | ExprKind::Tuple(_) => {
            quote!(::tilewright::language::View)
        }
        ExprKind::Layout { .. } => quote!(::tilewright::language::Arrangement),
        ExprKind::Closure { .. } => {
            quote!(fn(::tilewright::language::Number) -> ::tilewright::language::Number)
        }
        _ => quote!(::tilewright::language::Number),
    }
}

/// The names in an extent or a stride.
fn leaves(of: &Expr) -> Vec<(&str, Span)> {
    match &of.kind {
        ExprKind::Name(text) if !text.starts_with('_') => vec![(text, of.span)],
        _ => inner(of).into_iter().flat_map(leaves).collect(),
    }
}

/// The direct parts of expressions that bind no names.
fn inner(of: &Expr) -> Vec<&Expr> {
    match &of.kind {
        ExprKind::Tuple(all) => all.iter().collect(),
        ExprKind::Call { args, .. } => args.iter().map(|arg| &arg.value).collect(),
        ExprKind::Field { base: one, .. } | ExprKind::Unary(_, one) | ExprKind::Cast(one, _) => vec![one],
        ExprKind::Index { base: a, index: b } | ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) => {
            vec![a, b]
        }
        ExprKind::Layout { shape, stride } => [shape].into_iter().chain(stride).map(|part| &**part).collect(),
        ExprKind::If { condition, then, other } => vec![condition, then, other],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function;
    use proc_macro2::{Span, TokenTree};

    /// The identifiers of a shadow that occur in the author's text: `name@column`.
    fn placed(tokens: TokenStream, names: &mut Vec<String>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => placed(group.stream(), names),
                TokenTree::Ident(name) if name.span().start().line == 1 && name.span().start().column > 0 => {
                    names.push(format!("{name}@{}", name.span().start().column));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn every_name_of_a_kernel_is_bound_or_used_at_its_own_position() {
        let kernel = "fn k<const B: usize = 64>(s: f32, x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) { \
            let f = |v, at| select(at.0 < M, v * s, 0.0); \
            for k in 0..N { let (p, q) = (tile(x, (B, 1), (0, k)), y); copy(map(p, f), q); } }";
        let mut text = Text::new(Span::call_site());
        let read = function::read(TokenStream::new(), kernel.parse().unwrap(), &mut text).unwrap();
        assert!(text.problems.is_empty());
        let shadow = of(&read, &TokenStream::new(), &text);
        assert!(syn::parse2::<syn::File>(shadow.clone()).is_ok(), "{shadow}");
        let mut names = Vec::new();
        placed(shadow, &mut names);
        // Each is where the text has that name, and each name of the kernel is there.
        for name in &names {
            let (name, column) = name.split_once('@').unwrap();
            assert_eq!(kernel.get(column.parse().unwrap()..).map(|rest| rest.starts_with(name)), Some(true));
        }
        let count = |name: &str| names.iter().filter(|at| at.split('@').next() == Some(name)).count();
        let counts = ["B", "s", "x", "y", "M", "N", "f", "v", "at", "k", "p", "q", "tile", "copy"].map(count);
        assert_eq!(counts, [2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 1, 1], "{names:?}");
    }

    #[test]
    fn names_end_with_their_blocks() {
        let kernel = "fn k() { for k in 0..2 { let a = k; } let b = a; let c = k; }";
        let mut text = Text::new(Span::call_site());
        let read = function::read(TokenStream::new(), kernel.parse().unwrap(), &mut text).unwrap();
        let mut names = Vec::new();
        placed(of(&read, &TokenStream::new(), &text), &mut names);
        assert_eq!(names, ["k@13", "k@33", "a@29", "b@42", "c@53"].map(String::from).to_vec());
    }
}
