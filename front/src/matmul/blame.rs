//! Diagnostics of a product in terms of its keys: names inside the program do not occur in the user's text.

use super::{Config, keys};
use crate::source::ast::{Arg, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Cause, Problem};
use crate::source::spelling::did_you_mean;

/// The key at which an error is reported.
pub(super) struct Blame {
    /// The key.
    pub(super) key: &'static str,
    /// The keys of the sizes that threads should divide, mode by mode.
    pub(super) sizes: [&'static str; 2],
}

/// The keys that a key or its default depends on, nearest first.
pub(super) fn follows(key: &str) -> &'static [&'static str] {
    match key {
        "ta" => &["a", "vec", "bm", "bk", "tc"],
        "tb" => &["b", "vec", "bn", "bk", "tc"],
        "tc" => &["values", "bm", "bn"],
        "sa" => &["pad", "vec", "bm", "bk"],
        "sb" => &["pad", "vec", "bn", "bk"],
        "bn" => &["bm"],
        "acc" => &["dtype"],
        "warps" => &["bm", "bn", "bk"],
        "stages" => &["bk", "bm", "bn"],
        _ => &[],
    }
}

/// Places a problem at the key that caused it, or at one that its default depends on.
pub(super) fn put_by_keys(problem: Problem, blame: &Blame, args: &[Arg], config: &Config) -> Diagnostic {
    let given = |key: &str| args.iter().find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key));
    let key = blame.key;
    let blamed = std::iter::once(key).chain(follows(key).iter().copied()).find_map(given);
    let at = blamed.map_or(Span::default(), |arg| arg.value.span);
    let is_default = given(key).is_none();
    let problem = match problem.cause.as_deref().cloned() {
        Some(Cause::Indivisible { threads, each, mode, near }) => {
            let size = blame.sizes[mode.min(1)];
            let extent = config.tile[["bm", "bn"].iter().position(|key| *key == size).unwrap_or(2)];
            let each = if each > 1 { format!(" with {each} elements each") } else { String::new() };
            let owner = if is_default { format!("the default of `{key}`") } else { format!("`{key}`") };
            let what =
                format!("{owner} has {threads} threads{each} along `{size}`, which do not divide {extent}");
            Problem::new(what).help(match near {
                Some(near) => format!("give `{key}` {near} threads along it, or change `{size}`"),
                None => format!(
                    "let each thread take a number of elements that divides {extent}, or change `{size}`"
                ),
            })
        }
        Some(Cause::Threads { here, first }) => {
            Problem::new(format!("`{key}` has {here} threads, and `tc` has {first}"))
                .help(format!("give `{key}` a layout of {first} threads, or leave it out"))
        }
        Some(Cause::TooMany { threads, most }) => Problem::new(format!(
            "`{key}` has {threads} threads, and a block has at most {most}"
        ))
        .help(format!("write a smaller layout, such as {key} = (16, 16): each thread computes more of C")),
        Some(Cause::Registers) => problem.help("use a smaller `bm` or `bn`, or more threads in `tc`"),
        Some(Cause::Sum) => {
            Problem::new(format!("products of {} cannot be summed in {}", config.dtype, config.acc))
                .help(format!("write acc = {}, or leave it out", config.dtype.accumulator()))
        }
        None => problem,
    };
    problem.at(at)
}

/// The names of keys in other languages.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["block_m", "block_size_m", "tile_m"], "bm"),
    (&["block_n", "block_size_n", "tile_n"], "bn"),
    (&["block_k", "block_size_k", "tile_k"], "bk"),
    (&["num_stages", "pipeline"], "stages"),
    (&["num_warps", "threads", "block", "block_dim"], "tc"),
    (&["type", "elem", "element"], "dtype"),
    (&["accumulator", "acc_type"], "acc"),
    (&["layout_a", "trans_a", "transa"], "a"),
    (&["layout_b", "trans_b", "transb"], "b"),
    (&["layout_c"], "c"),
    (&["activation", "relu"], "epilogue"),
];

/// Keys whose values are part of another key's.
const MERGED: [(&str, &str); 2] =
    [("residual_dtype", "write residual = before(f32)"), ("aux_dtype", "write aux = f32")];

/// The help for an unknown key.
pub(super) fn instead_of(name: &str) -> String {
    let row = ELSEWHERE.iter().find(|(names, _)| names.contains(&name.to_lowercase().as_str()));
    if let Some((key, _, about)) = row.and_then(|(_, key)| keys::key(key)) {
        return format!("write `{key}`: {about}");
    }
    if let Some((_, help)) = MERGED.iter().find(|(known, _)| *known == name) {
        return (*help).to_owned();
    }
    let keys = || keys::keys().map(|(key, ..)| *key);
    did_you_mean(name, keys().chain(keys::schedule().map(|(key, ..)| *key)))
        .unwrap_or_else(|| format!("the keys are {}", keys().collect::<Vec<_>>().join(", ")))
}
