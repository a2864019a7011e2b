//! `adding.md` quotes what its files contain.

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

/// Folders of the crates that an addition changes, without their tests.
const CRATES: [&str; 11] = [
    "codegen/src",
    "codegen/front/src",
    "codegen/passes/src",
    "codegen/program/src",
    "codegen/tile/src",
    "sim/src",
    "runtime/src",
    "cli/src",
    "macros/src",
    "macros/parse/src",
    "src",
];

/// Their files, without comments.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> = CRATES.iter().map(|folder| root.join(folder)).collect();
    let mut all = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if name.ends_with("tests")
                || name.ends_with("tests.rs")
                || name.ends_with(".md")
                || name.ends_with(".snap")
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
            all.push((name, fs::read_to_string(&path).unwrap().lines().map(code).collect()));
        }
    }
    assert!(all.len() > 300, "{} files", all.len());
    all
}

/// Does the text have this name, as a whole word?
fn has_name(text: &str, name: &str) -> bool {
    let in_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(in_word) && !text[at + name.len()..].starts_with(in_word))
}

/// The files that have one of these names.
fn files_with<'s>(sources: &'s [(String, String)], names: &[&str]) -> Vec<&'s str> {
    let has = |text: &str| names.iter().any(|name| has_name(text, name));
    sources.iter().filter(|(_, text)| has(text)).map(|(file, _)| file.as_str()).collect()
}

/// The variants of an enumeration.
fn variants<'s>(sources: &'s [(String, String)], file: &str, enumeration: &str) -> Vec<&'s str> {
    let (_, text) = sources.iter().find(|(name, _)| name == file).expect("the file");
    let (_, body) = text.split_once(&format!("pub enum {enumeration} {{")).expect("the enumeration");
    let body = body.split_once("\n}").expect("its end").0;
    let name =
        |line: &'s str| line.strip_prefix("    ")?.split(|letter: char| !letter.is_alphanumeric()).next();
    body.lines().filter_map(name).filter(|name| name.starts_with(char::is_uppercase)).collect()
}

/// Additions: the names that each brought, and the most files that have one of them. A file that has such a name does not
/// compile without the addition, and no page decides which files count. The numbers may only fall.
const ADDITIONS: [(&str, &[&str], usize); 3] = [
    ("element type `e5m2`", &["E5m2", "e5m2"], 24),
    ("option `alternate` of a persistent loop", &["alternate", "alternates"], 15),
    ("instruction family `wgmma`", &["wgmma"], 24),
];

/// The most files that name a statement: the greatest number, and the one in the middle.
const STATEMENTS: (usize, usize) = (44, 11);

#[test]
fn additions_change_few_files() {
    let sources = sources();
    for (addition, names, most) in ADDITIONS {
        let files = files_with(&sources, names);
        println!("{:>3} files: {addition}", files.len());
        assert!(!files.is_empty() && files.len() <= most, "{addition}: {} files\n{files:#?}", files.len());
    }
}

/// Every statement of tile programs, the most entangled one too. Thread programs have statements of some of these names.
#[test]
fn statements_change_few_files() {
    let sources = sources();
    let of_threads = variants(&sources, "codegen/program/src/thread/stmt.rs", "Op");
    let of_tiles = variants(&sources, "codegen/tile/src/tile/stmt.rs", "Op");
    let mut counts: Vec<(usize, &str)> = of_tiles
        .into_iter()
        .filter(|name| !of_threads.contains(name))
        .map(|name| (files_with(&sources, &[&format!("Op::{name}")]).len(), name))
        .collect();
    counts.sort_unstable();
    let (greatest, middle) = (counts.last().expect("statements").0, counts[counts.len() / 2].0);
    println!("{counts:?}");
    assert!(counts.len() >= 20 && counts[0].0 >= 3, "{counts:?}");
    assert!(greatest <= STATEMENTS.0 && middle <= STATEMENTS.1, "{greatest} and {middle} files: {counts:?}");
}

/// The page names every file of the generator that has the statement of its example.
#[test]
fn the_page_names_every_file_with_its_statement() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("adding.md")).unwrap();
    let (_, section) = page.split_once("## A statement: `Flag`").unwrap();
    let items = items(section.split_once("\n## ").unwrap().0);
    let named: Vec<&str> = items.iter().flat_map(|item| parted(item).0).collect();
    for file in files_with(&sources(), &["Op::Flag"]) {
        assert!(named.contains(&file), "{file} has `Op::Flag`");
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
