//! Links of documents lead to files and headings that exist, and the book's summary lists its chapters.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// All Markdown files, except the pages in `src/`, whose links rustdoc checks.
fn documents(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_left_out = name.starts_with('.') || name == "target" || path == root().join("src");
        if path.is_dir() && !is_left_out {
            documents(&path, all);
        } else if name.ends_with(".md") {
            all.push(path);
        }
    }
}

/// The text of a document without blocks of code and code in quotes.
fn prose(page: &str) -> String {
    let outside = page.split("```").step_by(2);
    outside.flat_map(|part| part.split('`').step_by(2)).collect()
}

/// The targets of links and pictures.
fn targets(page: &str) -> Vec<String> {
    let starts = page.split("](").skip(1);
    starts
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split_whitespace().collect())
        .collect()
}

/// The names by which links reach headings: in lower case, spaces as dashes, without other signs.
fn anchors(page: &str) -> BTreeSet<String> {
    let outside: String = page.split("```").step_by(2).collect();
    let headings = outside
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    headings.map(|heading| heading.chars().filter_map(letter).collect()).collect()
}

/// Why a link of a document leads to no file or to no heading.
fn broken(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() { document.to_owned() } else { document.parent().unwrap().join(path) };
    if !file.exists() {
        return Some("no such file".to_owned());
    }
    let page = anchor.and(fs::read_to_string(&file).ok())?;
    let is_page = file.extension().is_some_and(|extension| extension == "md");
    (is_page && !anchors(&page).contains(anchor?)).then(|| "no such heading".to_owned())
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut all = Vec::new();
    documents(&root(), &mut all);
    assert!(all.len() > 20, "{all:?}");
    let mut wrong = Vec::new();
    for document in &all {
        // Names of items of the documentation, as in `[tile](crate::language::tile)`, are rustdoc's.
        for target in targets(&prose(&fs::read_to_string(document).unwrap()))
            .iter()
            .filter(|target| !target.contains("::"))
        {
            wrong.extend(
                broken(document, target).map(|why| format!("{}: {target}: {why}", document.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_summary_lists_every_chapter() {
    let source = root().join("book/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    let listed: Vec<String> = targets(&summary);
    let chapters: BTreeSet<String> = fs::read_dir(&source)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), chapters);
    assert_eq!(listed.len(), 13, "an introduction and twelve chapters");
    // Doctests of the chapters are listed by hand.
    let tested = include_str!("../draw/lib.rs");
    let untested: Vec<&String> = listed
        .iter()
        .filter(|name| *name != "introduction.md" && !tested.contains(&format!("\"{name}\"")))
        .collect();
    assert!(untested.is_empty(), "draw/lib.rs does not name {untested:?}");
}

/// A chapter takes about ten minutes to read, and begins with its heading, which is its name in the summary.
#[test]
fn chapters_are_short() {
    let source = root().join("book/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    for name in targets(&summary).iter().filter(|name| *name != "introduction.md") {
        let page = fs::read_to_string(source.join(name)).unwrap();
        let outside: String = page.split("```").step_by(2).collect();
        let words = outside.split_whitespace().count();
        assert!((500..=1200).contains(&words), "{name} has {words} words");
        let heading = page.lines().next().unwrap_or_default().trim_start_matches("# ");
        assert!(
            summary.contains(&format!("[{heading}]({name})")),
            "the summary does not name {name} {heading}"
        );
        assert!(page.contains("](pictures/"), "{name} has no picture");
    }
}

#[test]
fn anchors_are_those_of_headings() {
    let page = "# A layout: `shape:stride`\n```\n# no heading\n```\n## Split-K and stream-K\n";
    let expected = ["a-layout-shapestride", "split-k-and-stream-k"].map(str::to_owned);
    assert_eq!(anchors(page), expected.into());
    assert_eq!(targets("a [link](b.md#c), ![picture](d.svg)"), ["b.md#c", "d.svg"]);
}
