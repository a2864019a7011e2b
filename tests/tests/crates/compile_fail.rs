//! Some mistakes as the compiler shows them, with its output beside each file; and programs that must compile and run. All
//! messages of the macros are in `macros/messages`.
//!
//! The mistakes that macros report are modules of one crate, so that one run of the compiler reports them all. What the
//! compiler itself reports would hide other errors, or be hidden by them: such a file is a crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::{env, fs};

use serde_json::Value;
use tilewright_tests::{Compiler, by_all_cores, sweep};

const BLESS: &str = "TILEWRIGHT_BLESS";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Whether the file has to be a crate: it has attributes of one, or the compiler reports errors of its own.
fn alone(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let expected = fs::read_to_string(file.with_extension("stderr")).unwrap_or_default();
    text.contains("#![")
        || text.contains("crate::")
        || expected.contains("error[E")
        || expected.contains("warning:")
}

/// The compiler's messages, by file.
fn messages(output: &Output) -> BTreeMap<String, String> {
    let mut all = BTreeMap::<String, String>::new();
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(span) = spans.iter().find(|span| span["is_primary"] == true) else { continue };
        let file = name(Path::new(span["file_name"].as_str().unwrap_or_default()));
        let rendered = message["rendered"].as_str().unwrap_or_default();
        let _ = write!(all.entry(file).or_default(), "{}\n\n", portable(rendered).trim_end());
    }
    all
}

/// The text without parts that differ between machines and with edits of the library: the workspace's folder, and the
/// numbers of lines that are not the case's own.
fn portable(rendered: &str) -> String {
    let own = format!("{}/", folder().display());
    let mut sections: Vec<Section> = vec![Section::default()];
    for line in rendered.lines() {
        let line = line.replace(&own, "");
        let start = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let arrow = ["--> ", "::: "].into_iter().find(|arrow| start.starts_with(arrow));
        if let Some(arrow) = arrow {
            let at = &start[arrow.len()..];
            let elsewhere = !at.starts_with("compile_fail/");
            let at = match at.split_once(".rs:") {
                Some((path, _)) if elsewhere => format!("$WORKSPACE/{path}.rs"),
                _ => at.to_owned(),
            };
            sections.push(Section { elsewhere, lines: Vec::new() });
            sections.last_mut().unwrap().lines.push((String::new(), format!("{arrow}{at}")));
            continue;
        }
        let section = sections.last_mut().unwrap();
        let is_margin = start.len() < line.len() && (start.starts_with('|') || start.starts_with("= "));
        let number = line[..line.len() - start.len()].trim();
        section.lines.push(match is_margin {
            true if section.elsewhere => (String::new(), format!(" {start}")),
            true => (number.to_owned(), format!(" {start}")),
            false => (String::new(), line),
        });
    }
    let lines: Vec<String> = sections.iter().flat_map(Section::aligned).collect();
    lines.join("\n")
}

/// The lines of a message that are about one file: the margin, and the rest.
#[derive(Default)]
struct Section {
    elsewhere: bool,
    lines: Vec<(String, String)>,
}

impl Section {
    /// With a margin as wide as its own numbers.
    fn aligned(&self) -> impl Iterator<Item = String> {
        let width = self.lines.iter().map(|line| line.0.len()).max().unwrap_or(0).max(1);
        self.lines.iter().map(move |(number, text)| {
            let in_margin = [" |", " = ", "--> ", "::: "].iter().any(|start| text.starts_with(start));
            let line = if in_margin { format!("{number:width$}{text}") } else { text.clone() };
            line.trim_end().to_owned()
        })
    }
}

fn output_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes").join(name)
}

#[test]
fn mistakes() {
    let cases = files(&folder().join("compile_fail"));
    let (crates, modules): (Vec<PathBuf>, Vec<PathBuf>) = cases.into_iter().partition(|file| alone(file));
    let compiler = Compiler::of_this_build();
    const OPTIONS: [&str; 5] =
        ["--error-format=json", "--emit=metadata", "--crate-type=lib", "-A", "dead_code"];

    let root = output_folder("all").with_extension("rs");
    fs::create_dir_all(root.parent().unwrap()).unwrap();
    let modules_of_one = modules.iter().map(|file| format!("#[path = {file:?}]\nmod {};\n", name(file)));
    fs::write(&root, modules_of_one.collect::<String>()).unwrap();
    let mut result = messages(&compiler.compile(&root, &output_folder("all"), &OPTIONS));
    let apart = by_all_cores(&crates, |file| {
        (
            name(file),
            messages(&compiler.compile(file, &output_folder(&name(file)), &OPTIONS))
                .into_values()
                .collect::<String>(),
        )
    });
    result.extend(apart);

    let bless = env::var_os(BLESS).is_some();
    let mut wrong = String::new();
    for file in modules.iter().chain(&crates) {
        let beside = file.with_extension("stderr");
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        let got = result.get(&name(file)).map_or(String::new(), |text| format!("{}\n", text.trim_end()));
        if bless {
            fs::write(&beside, &got).unwrap();
        } else if got != expected || got.is_empty() {
            let _ = write!(
                wrong,
                "=== {}: expected\n{expected}--- and the compiler says\n{got}\n",
                file.display()
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}`cargo xtask snapshots` accepts what it says");
}

#[test]
fn programs() {
    let compiler = Compiler::of_this_build();
    by_all_cores(&sweep::share(files(&folder().join("compile_pass")), 2), |file| {
        let out = output_folder(&name(file));
        let output = compiler.compile(file, &out, &["--crate-type=bin"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let run = std::process::Command::new(out.join(name(file))).output().unwrap();
        assert!(run.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&run.stderr));
    });
}
