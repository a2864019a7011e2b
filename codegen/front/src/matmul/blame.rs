//! Diagnostics of a product in terms of its keys: names inside the program do not occur in the user's text.

use super::keys;
use crate::source::ast::{Arg, Expr};
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;

/// A key whose value the others do not allow, and why.
pub(super) type Unfit = (&'static str, Problem);

/// A table of checks: a condition that must not hold, the key, a message and help. Those that fail, in order.
macro_rules! checks {
    ($($wrong:expr => $key:expr, $message:expr, $help:expr;)*) => {{
        let mut all: Vec<crate::matmul::blame::Unfit> = Vec::new();
        $(if $wrong {
            all.push(($key, crate::source::problem::Problem::new($message).help($help)));
        })*
        all.into_iter()
    }};
}
pub(super) use checks;

/// The multiple of `of` that is nearest below a number, at least one.
pub(super) fn nearest(number: i64, of: i64) -> i64 {
    (number / of).max(1) * of
}

/// The keys that a key or its default depends on, nearest first.
fn follows(key: &str) -> &'static [&'static str] {
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

/// The value of a key, or of the nearest one that its default depends on.
pub(super) fn blamed<'a>(args: &'a [Arg], key: &str) -> Option<&'a Expr> {
    let keys = std::iter::once(key).chain(follows(key).iter().copied());
    keys.into_iter().find_map(|key| args.iter().find(|arg| arg.is(key))).map(|arg| &arg.value)
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
