//! Examples in documentation. Rustdoc compiles the examples of a crate as modules of one program. If that fails, it compiles
//! each as a program, without a message, and takes ten times as long: 75 seconds of processor time instead of 11.

use std::fs;
use std::path::Path;

/// Lines of examples that are modules of one program and name items of their own crate.
fn misplaced(text: &str) -> Vec<usize> {
    let mut wrong = Vec::new();
    let mut merged: Option<bool> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let line = line.strip_prefix("///").or(line.strip_prefix("//!")).unwrap_or(line).trim_start();
        match (line.strip_prefix("```"), merged) {
            (Some(words), None) => merged = Some(!words.contains("standalone_crate")),
            (Some(_), Some(_)) => merged = None,
            (None, Some(true)) if line.starts_with("use crate::") => wrong.push(at + 1),
            _ => {}
        }
    }
    wrong
}

fn read(folder: &Path, wrong: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, wrong);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "md") {
            let text = fs::read_to_string(&path).unwrap();
            wrong.extend(misplaced(&text).iter().map(|line| format!("{}:{line}", path.display())));
        }
    }
}

#[test]
fn examples_that_name_their_crate_are_programs_of_their_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for folder in [
        "src",
        "layout/src",
        "codegen/program/src",
        "codegen/tile/src",
        "codegen/front/src",
        "codegen/passes/src",
        "codegen/src",
        "macros/parse/src",
        "runtime/src",
        "sim/src",
        "cli/src",
    ] {
        read(&root.join(folder), &mut wrong);
    }
    assert!(wrong.is_empty(), "mark these examples with `standalone_crate`:\n{}", wrong.join("\n"));
}

#[test]
fn a_path_from_the_crate_is_noticed() {
    let check = |text: &str, lines: &[usize]| assert_eq!(misplaced(text), lines, "{text}");
    check("```\nuse crate::a;\n```", &[2]);
    check("/// ```\n/// mod a {\n///     use crate::a;\n/// ```\nuse crate::b;", &[3]);
    check("```standalone_crate\nuse crate::a;\n```", &[]);
    check("use crate::a;\n```\n```\nuse crate::a;", &[]);
}
