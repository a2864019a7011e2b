//! Parts of the language's text that kernels are drawn from. An operation is in parentheses, so that any text can be its operand.

use std::fmt::Display;

use tilewright_codegen::Elem;

/// Entries with commas between them.
pub(super) fn commas<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|entry| entry.to_string()).collect();
    all.join(", ")
}

/// A tuple; a single entry is not wrapped.
pub(super) fn tuple<T: Display>(all: &[T]) -> String {
    match all {
        [entry] => entry.to_string(),
        all => list(all),
    }
}

/// A tuple, also of one entry.
pub(super) fn list<T: Display>(all: &[T]) -> String {
    match all {
        [entry] => format!("({entry},)"),
        all => format!("({})", commas(all)),
    }
}

/// Modes, some of them nested.
pub(super) fn nested_entries(of: &[Vec<i64>]) -> String {
    let entries: Vec<String> = of.iter().map(|inner| tuple(inner)).collect();
    match of {
        // A nested mode by itself remains nested.
        [inner] if inner.len() > 1 => list(&entries),
        _ => tuple(&entries),
    }
}

/// An index of all elements along the first modes.
pub(super) fn last_mode(rank: usize, last: impl Display) -> String {
    format!("({}{last})", "_, ".repeat(rank))
}

/// A number that is computed: one that an index spells out must name an element.
pub(super) fn computed(n: i64) -> String {
    match n {
        0 => "0".into(),
        n => format!("({} - 1)", n + 1),
    }
}

pub(super) fn float(x: f64) -> String {
    match x {
        f64::INFINITY => "f32::INFINITY".into(),
        f64::NEG_INFINITY => "f32::NEG_INFINITY".into(),
        x => format!("{x:?}"),
    }
}

/// A number as a literal of a type.
pub(super) fn literal(x: f64, elem: Elem) -> String {
    if elem.is_float() { float(x) } else { (x as i64).to_string() }
}

/// A call with one more argument, by name.
pub(super) fn with(mut call: String, key: &str, value: impl Display) -> String {
    call.pop();
    let comma = if call.ends_with('(') { "" } else { ", " };
    format!("{call}{comma}{key} = {value})")
}

pub(super) fn cast(x: impl Display, to: Elem) -> String {
    format!("({x} as {to})")
}

/// A value that is converted, unless it has the type.
pub(super) fn as_elem(x: impl Display, from: Elem, to: Elem) -> String {
    if from == to { x.to_string() } else { cast(x, to) }
}

pub(super) fn choice(condition: impl Display, then: impl Display, other: impl Display) -> String {
    format!("(if {condition} {{ {then} }} else {{ {other} }})")
}

/// Statements under a condition.
pub(super) fn decide(condition: &str, then: &str, other: &str) -> String {
    let other = if other.is_empty() { String::new() } else { format!(" else {{\n{other}}}") };
    format!("if {condition} {{\n{then}}}{other}")
}

pub(super) fn repeat(var: &str, range: &str, body: &str) -> String {
    format!("for {var} in {range} {{\n{body}}}")
}
