//! The compile-fail cases of the workspace as a table: each file of `tests/compile_fail` is expanded here,
//! without a compiler, and must report the messages of its `.stderr` file. Fast enough to run at every
//! change; the compiler's own run also checks the spans.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{device, matmul};
use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// The messages of `compile_error!` in the expansion.
fn errors_in(tokens: TokenStream, messages: &mut Vec<String>) {
    let mut named = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => named = name == "compile_error",
            TokenTree::Punct(_) => {}
            TokenTree::Group(group) => {
                if named && let Ok(text) = syn::parse2::<syn::LitStr>(group.stream()) {
                    messages.push(text.value());
                }
                named = false;
                errors_in(group.stream(), messages);
            }
            TokenTree::Literal(_) => named = false,
        }
    }
}

/// The kernels and key lists of a file, expanded.
fn messages_of(file: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let Ok(file) = syn::parse_file(file) else { return messages };
    let mut devices = BTreeMap::new();
    for item in file.items {
        if let syn::Item::Fn(function) = &item
            && let Some((at, kind)) = function.attrs.iter().enumerate().find_map(|(at, attr)| {
                let kinds = ["kernel", "device"].into_iter();
                kinds.filter(|kind| attr.path().is_ident(kind)).map(|kind| (at, kind)).next()
            })
        {
            let mut function = function.clone();
            let attr = match function.attrs.remove(at).meta {
                syn::Meta::List(list) => list.tokens,
                _ => TokenStream::new(),
            };
            let name = function.sig.ident.to_string();
            let user = device::User::new(kind, attr, function.into_token_stream());
            let expanded = expanded(user.expand(None), &devices);
            if kind == "device" {
                devices.extend(definition(expanded.clone()).map(|bytes| (name, bytes)));
            }
            errors_in(expanded, &mut messages);
        }
        keys_in(item.into_token_stream(), &mut messages);
    }
    messages
}

/// The user of functions, once all of them have been fetched.
fn expanded(mut tokens: TokenStream, devices: &BTreeMap<String, TokenTree>) -> TokenStream {
    loop {
        let all: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let [.., TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Group(user)] = &all[..] else {
            return tokens;
        };
        let Some(definition) = devices.get(&name.to_string()) else { return tokens };
        let user = user.stream();
        tokens = device::with(quote!(#definition #user), None);
    }
}

/// The definition that the macro of a function hands to its users.
fn definition(tokens: TokenStream) -> Option<TokenTree> {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    let named = |at: usize| matches!(&all[at], TokenTree::Ident(name) if name == "__with_device");
    all.iter().enumerate().find_map(|(at, token)| match token {
        TokenTree::Group(group) if at >= 2 && named(at - 2) => group.stream().into_iter().next(),
        TokenTree::Group(group) => definition(group.stream()),
        _ => None,
    })
}

/// `matmul_kernel!(…)` anywhere in the tokens.
fn keys_in(tokens: TokenStream, messages: &mut Vec<String>) {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in all.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let named = at >= 2 && matches!(&all[at - 2], TokenTree::Ident(name) if name == "matmul_kernel");
        match named {
            true => errors_in(matmul::expand(Group::stream(group), None), messages),
            false => keys_in(group.stream(), messages),
        }
    }
}

/// Our messages in the compiler's output: messages without an error code, with their help.
fn recorded(stderr: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut open = false;
    for line in stderr.lines() {
        if let Some(message) = line.strip_prefix("error: ") {
            all.push(message.to_owned());
            open = true;
        } else if let (true, Some(more), Some(last)) = (open, line.strip_prefix("       "), all.last_mut()) {
            *last += &format!("\n{more}");
        } else {
            open = false;
        }
    }
    all
}

#[test]
fn every_case_says_what_stands_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/compile_fail");
    // A published crate comes without the workspace around it.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let (mut cases, mut compared) = (0, 0);
    for path in
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "rs"))
    {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let (file, stderr) = (read(&path), read(&path.with_extension("stderr")));
        let (mut messages, mut expected) = (messages_of(&file), recorded(&stderr));
        cases += 1;
        messages.sort();
        expected.sort();
        for message in &messages {
            assert!(
                expected.contains(message),
                "{}: unexpected\n{message}\nof\n{expected:#?}",
                path.display()
            );
        }
        // The others are reported where a kernel is specialised, or by the compiler itself.
        if !messages.is_empty() {
            assert_eq!(messages, expected, "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared >= 60, "{compared} of {cases} cases are mistakes in kernels and keys");
}
