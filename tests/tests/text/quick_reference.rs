//! `llms.txt`, the language on one page, has every function and every key, and quotes messages that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tilewright_codegen::evaluate::{FUNCTIONS, Function};
use tilewright_codegen::matmul;

/// The most bytes of the page, so that a tool can read all of it.
const MAX_BYTES: usize = 16_000;

/// The number of frequent mistakes.
const MISTAKES: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(root().join("llms.txt")).unwrap()
}

/// A section of the page.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// The call at the beginning of a usage.
fn call(usage: &'static str) -> &'static str {
    if usage.starts_with("for ") {
        return usage;
    }
    let mut depth = 0;
    let end = usage.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ')' && depth == 0
    });
    &usage[..=end.unwrap_or_else(|| panic!("no call: {usage}"))]
}

/// A function on the page: its call and its named arguments, without the one of all reductions.
fn entry(function: &Function) -> String {
    let named: Vec<&str> = function.named.iter().copied().filter(|name| *name != "out_of_bounds").collect();
    let call = call(function.usage);
    if named.is_empty() { call.to_owned() } else { format!("{call} [{}]", named.join(" ")) }
}

/// The documentation of a function in the reference, without quotes and links.
fn documentation(reference: &str, name: &str) -> String {
    let [generic, plain] = ["<T>(", "("].map(|after| reference.find(&format!("\n    fn {name}{after}")));
    let at = generic.or(plain).unwrap_or_else(|| panic!("the reference lacks {name}"));
    let mut lines: Vec<&str> = reference[..at]
        .lines()
        .rev()
        .map_while(|line| line.trim().strip_prefix("///"))
        .map(str::trim)
        .collect();
    lines.reverse();
    lines.join(" ").replace("[`", "").replace("`]", "").replace('`', "")
}

/// The lines with functions; the others are headings of groups.
fn lines_of_functions(page: &str) -> impl Iterator<Item = &str> {
    let (_, block) = section(page, "Functions").split_once("```text\n").unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    block.lines().filter(|line| line.ends_with([')', ']']) || line.contains(" // "))
}

/// Does a text begin with these words?
fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

#[test]
fn the_page_is_short() {
    let bytes = page().len();
    assert!(bytes <= MAX_BYTES, "llms.txt has {bytes} bytes; the limit is {MAX_BYTES}");
}

/// Every function has its call and its named arguments as in the table of functions. A meaning is the beginning of the
/// documentation.
#[test]
fn every_function_is_on_the_page() {
    let page = page();
    let reference = fs::read_to_string(root().join("src/language/functions.rs")).unwrap();
    let mut wrong = Vec::new();
    let mut listed = Vec::new();
    for line in lines_of_functions(&page) {
        let (entries, meaning) = line.split_once(" // ").unwrap_or((line, ""));
        for text in entries.split("; ") {
            let Some(function) = FUNCTIONS.iter().find(|function| entry(function) == text) else {
                wrong.push(format!("no function is called like this: {text}"));
                continue;
            };
            listed.push(function.name);
            let documentation = documentation(&reference, function.name);
            if !meaning.is_empty() && !begins_with(&documentation, meaning) {
                wrong.push(format!(
                    "{}: `{meaning}` is not the beginning of `{documentation}`",
                    function.name
                ));
            }
        }
    }
    let absent = FUNCTIONS.iter().filter(|function| !listed.contains(&function.name));
    wrong.extend(absent.map(|function| {
        let documentation = documentation(&reference, function.name);
        let meaning = documentation.split([':', ';', '.', ',']).next().unwrap_or_default();
        format!("write this line in its group: {} // {meaning}", entry(function))
    }));
    assert!(wrong.is_empty(), "llms.txt, functions:\n{}", wrong.join("\n"));
    assert_eq!(listed.len(), FUNCTIONS.len(), "a function is listed twice: {listed:?}");
}

#[test]
fn every_key_is_on_the_page() {
    let page = page();
    let (_, lists) = section(&page, "Options").split_once("\n- ").unwrap();
    let named: BTreeSet<&str> =
        lists.split('`').skip(1).step_by(2).filter(|code| !code.contains(' ')).collect();
    let keys: BTreeSet<&str> = matmul::keys().chain(matmul::schedule()).map(|(name, ..)| *name).collect();
    let differ: Vec<_> = named.symmetric_difference(&keys).collect();
    assert!(differ.is_empty(), "keys that only llms.txt has, or only the table: {differ:?}");
}

/// The arguments of `#[kernel]` are in the macro's message about unknown arguments.
#[test]
fn every_argument_of_the_attribute_is_on_the_page() {
    let (page, source) = (page(), fs::read_to_string(root().join("macros/parse/src/attribute.rs")).unwrap());
    let (_, message) = source.split_once("const PARTS: &str = \"").unwrap();
    let (message, _) = message.split_once("\";").unwrap();
    let row = section(&page, "Options").lines().find(|line| line.starts_with("| `#[kernel(")).unwrap();
    for part in message.split('`').skip(1).step_by(2) {
        let name = part.split([' ', '(']).next().unwrap_or_default();
        assert!(row.contains(&format!("`{name}")), "llms.txt lacks the argument {name} of `#[kernel]`");
    }
}

/// The cells of a row of a table. The first and the last are code.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "\u{0}");
    row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).filter(|cell| !cell.is_empty()).collect()
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Does a text have these parts, in this order?
fn has_parts(text: &str, parts: &str) -> bool {
    let mut rest = Some(text);
    for part in parts.split('…') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|halves| halves.1);
    }
    rest.is_some()
}

/// Every mistake is in the tables of wrong programs, with this message. `…` stands for any code.
#[test]
fn mistakes_have_these_messages() {
    let mut tables = String::new();
    for file in fs::read_dir(root().join("macros/messages")).unwrap() {
        tables += &fs::read_to_string(file.unwrap().path()).unwrap();
        tables += "\n====\n";
    }
    let programs: Vec<(String, &str)> = tables
        .split("\n====\n")
        .filter_map(|program| program.split_once("\n----\n"))
        .map(|(source, messages)| (without_space(source), messages))
        .collect();
    let page = page();
    let rows: Vec<_> =
        section(&page, "Mistakes").lines().filter(|line| line.starts_with("| `")).map(cells).collect();
    assert_eq!(rows.len(), MISTAKES);
    for row in rows {
        let [wrong, message, _] = &row[..] else { panic!("three cells: {row:?}") };
        let (wrong, end) = (without_space(wrong.trim_matches('`')), format!(": {message}"));
        let has = |(source, messages): &(String, &str)| {
            has_parts(source, &wrong) && messages.lines().any(|line| line.ends_with(&end))
        };
        assert!(
            programs.iter().any(has),
            "no program of macros/messages has this mistake and this message: {row:?}"
        );
    }
}
