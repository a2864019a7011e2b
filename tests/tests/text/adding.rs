//! `adding.md` quotes what its files contain.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tilewright_codegen::Elem;
use tilewright_codegen::diagnostic::LINTS;

/// A part of a page, and where it begins.
type Part<'a> = (usize, &'a str);

/// A page's code in back quotes, and its prose.
struct Spans<'a> {
    code: Vec<Part<'a>>,
    prose: Vec<Part<'a>>,
}

fn spans(item: &str) -> Spans<'_> {
    let (mut code, mut prose) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(begin) = item[at..].find('`').map(|begin| at + begin) {
        prose.push((at, &item[at..begin]));
        let quotes = "`".repeat(item[begin..].chars().take_while(|letter| *letter == '`').count());
        let inside = begin + quotes.len();
        let end = inside + item[inside..].find(&quotes).unwrap_or_else(|| panic!("an open quote: {item}"));
        code.push((begin, &item[inside..end]));
        at = end + quotes.len();
    }
    prose.push((at, &item[at..]));
    Spans { code, prose }
}

/// Files that an item names before its first colon, and texts that it quotes after it.
fn parted(item: &str) -> (Vec<&str>, Vec<&str>) {
    let Spans { code, prose } = spans(item);
    let colon = prose.iter().find_map(|(at, text)| text.find(':').map(|colon| at + colon));
    let colon = colon.unwrap_or_else(|| panic!("an item without a colon: {item}"));
    let (files, quoted): (Vec<_>, Vec<_>) = code.into_iter().partition(|(at, _)| *at < colon);
    (files.into_iter().map(|of| of.1).collect(), quoted.into_iter().map(|of| of.1).collect())
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Items of lists, each on one line.
fn items(page: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("- ") {
            Some(begin) => items.push(begin.to_owned()),
            None if inside && line.starts_with("  ") => {
                let last = items.last_mut().expect("an item");
                *last += line;
            }
            None => {
                inside = false;
                continue;
            }
        }
        inside = true;
    }
    items
}

#[test]
fn adding_quotes_the_files_that_it_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("adding.md")).unwrap();
    let items = items(&page);
    assert!(items.len() > 40, "{items:#?}");
    let mut wrong = Vec::new();
    for item in &items {
        let (files, quoted) = parted(item);
        assert!(!files.is_empty() && !quoted.is_empty(), "an item needs a file and a text from it: {item}");
        for file in files {
            match fs::read_to_string(root.join(file)) {
                Ok(source) => {
                    let source = without_space(&source);
                    let absent = quoted.iter().filter(|text| !source.contains(&without_space(text)));
                    wrong.extend(absent.map(|text| format!("{file} does not contain {text}")));
                }
                Err(why) => wrong.push(format!("{file}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "adding.md is out of date:\n{}", wrong.join("\n"));
    // Other files that it names.
    for (_, name) in spans(&page).code {
        let is_path = name.contains('/') && !name.contains(' ');
        assert!(!is_path || root.join(name).exists(), "adding.md names {name}, which does not exist");
    }
}

/// The items of a section of the page.
fn section(title: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("adding.md")).unwrap();
    let (_, section) = page.split_once(title).unwrap();
    items(section.split_once("\n## ").unwrap().0)
}

/// An element type needs few files, whether Rust has it or not.
#[test]
fn an_element_type_needs_twelve_files() {
    let items = section("## An element type");
    let files: BTreeSet<&str> = items.iter().flat_map(|item| parted(item).0).collect();
    assert!(files.len() <= 12, "{files:#?}");
}

/// The generator, and what it shares with programs.
const CRATES: [&str; 5] =
    ["codegen/src", "codegen/front/src", "codegen/passes/src", "codegen/program/src", "codegen/tile/src"];

/// A statement needs few files, and the page names all of them.
#[test]
fn a_statement_needs_twelve_files_of_the_generator() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let items = section("## A statement: `signal`");
    let named: Vec<&str> = items.iter().flat_map(|item| parted(item).0).collect();
    let of_generator = named.iter().filter(|file| CRATES.iter().any(|of| file.starts_with(of)));
    assert!(of_generator.count() <= 12, "{named:#?}");
    let mut folders: Vec<_> = CRATES.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            assert!(!source.contains("Op::Signal") || named.contains(&name), "{name} matches `Op::Signal`");
        }
    }
}

#[test]
fn an_item_has_files_and_quotes() {
    let (files, quoted) = parted("`a.rs`, `b.rs`: its row: ``| `u16` |``, `Elem::U16`");
    assert_eq!((files, quoted), (vec!["a.rs", "b.rs"], vec!["| `u16` |", "Elem::U16"]));
}

/// The pages of the language have every type and every lint.
#[test]
fn pages_name_every_type_and_every_lint() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/language");
    let read = |page| fs::read_to_string(root.join(page)).unwrap();
    let (types, lints) = (read("types.md"), read("lints.md"));
    for elem in Elem::all() {
        let row = |line: &str| line.starts_with('|') && line.contains(&format!("`{elem}`"));
        assert!(types.lines().any(row), "types.md lacks {elem}");
    }
    for lint in LINTS {
        let row = |line: &str| line.starts_with('|') && line.contains(&format!("`{}`", lint.name));
        assert!(lints.lines().any(row), "lints.md lacks {}", lint.name);
    }
}
