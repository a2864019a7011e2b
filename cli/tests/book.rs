//! The commands in documents run, and print what the documents show.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{run, text};

/// Subcommands that need a GPU, start a server or write files. Of these only the names are checked, by their help.
const NOT_RUN: [&str; 5] = ["bench", "doctor", "explore", "export", "tune"];

/// A line of shown output that stands for any lines; at the end of a line, for the rest of it.
const OMITTED: &str = "…";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The README, the layout crate's, and the chapters of the book.
fn documents() -> Vec<PathBuf> {
    let chapters = fs::read_dir(root().join("book/src")).unwrap().map(|entry| entry.unwrap().path());
    let chapters = chapters.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    ["README.md", "layout/README.md"].map(|name| root().join(name)).into_iter().chain(chapters).collect()
}

/// A command of `tilewright` with the output that a document shows.
struct Shown {
    words: Vec<String>,
    lines: Vec<String>,
}

/// The commands in the blocks of a document. Output of other programs is left out.
fn commands(page: &str) -> Vec<Shown> {
    let blocks = page.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
    let mut all: Vec<Shown> = Vec::new();
    for block in blocks {
        let mut is_ours = false;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let command = command.strip_prefix("tilewright ");
                is_ours = command.is_some();
                all.extend(command.map(|command| Shown { words: words(command), lines: Vec::new() }));
            } else if is_ours && let Some(last) = all.last_mut() {
                last.lines.push(line.trim_end().to_owned());
            }
        }
    }
    all
}

/// The words of a command, as a shell reads single quotes and comments.
fn words(command: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let (mut in_quotes, mut is_open) = (false, false);
    for letter in command.chars() {
        match letter {
            '#' if !in_quotes && !is_open => break,
            ' ' if !in_quotes => is_open = false,
            _ => {
                if !is_open {
                    all.push(String::new());
                    is_open = true;
                }
                match letter {
                    '\'' => in_quotes = !in_quotes,
                    _ => all.last_mut().unwrap().push(letter),
                }
            }
        }
    }
    all
}

/// The first shown line that is not in the output where it should be.
fn missing<'s>(shown: &'s [String], output: &str) -> Option<&'s str> {
    let mut rest = output.lines().map(str::trim_end);
    let mut may_skip = false;
    for line in shown {
        if line == OMITTED {
            may_skip = true;
            continue;
        }
        let begins = line.strip_suffix(OMITTED).map(str::trim_end);
        let is_shown = |actual: &str| begins.map_or(actual == line, |begins| actual.starts_with(begins));
        let matches = if may_skip { rest.any(is_shown) } else { rest.next().is_some_and(is_shown) };
        if !matches {
            return Some(line);
        }
        may_skip = false;
    }
    None
}

#[test]
fn commands_print_what_documents_show() {
    let (mut count, mut wrong) = (0, Vec::new());
    for document in documents() {
        let page = fs::read_to_string(&document).unwrap();
        for Shown { words, lines } in commands(&page) {
            let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
            if NOT_RUN.contains(&words[0]) {
                words = vec![words[0], "--help"];
            }
            let output = run(&words);
            let (printed, errors) = (text(output.stdout), text(output.stderr));
            let command = format!("{}: tilewright {}", document.display(), words.join(" "));
            if !output.status.success() {
                wrong.push(format!("{command} fails: {errors}"));
            } else if let Some(line) = missing(&lines, &printed) {
                wrong.push(format!("{command} does not print this line, in this order: {line}"));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "documents have only {count} commands");
}

#[track_caller]
fn check(shown: &[&str], output: &str, expected: Option<&str>) {
    let shown: Vec<String> = shown.iter().map(|line| line.to_string()).collect();
    assert_eq!(missing(&shown, output), expected);
}

#[test]
fn output_is_compared() {
    check(&[], "a\nb\n", None);
    check(&["a", "b"], "a\nb\nc\n", None);
    check(&["b"], "a\nb\n", Some("b"));
    check(&["…", "b"], "a\nb\n", None);
    check(&["a", "…", "c …"], "a\nb\nc: d\n", None);
    check(&["…", "c", "a"], "a\nb\nc\nd\n", Some("a"));
    let command = "layout 'composition((6,2):(8,2), (4,3):(3,1))' --explain   # why";
    assert_eq!(words(command), ["layout", "composition((6,2):(8,2), (4,3):(3,1))", "--explain"]);
}
