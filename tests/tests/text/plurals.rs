//! One of a kind is singular, in every message that some test expects.

use std::path::Path;
use std::{fs, io};

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Words that end like plurals.
const SINGULAR: [&str; 7] = ["is", "has", "was", "does", "takes", "this", "times"];

/// `1 steps` in a text, if something like it is there.
fn wrong(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_plural = |word: &str| {
        let word = word.trim_end_matches([',', '.', ':', ';', ')']);
        let plain = word.len() > 3 && word.chars().all(|c| c.is_ascii_lowercase());
        plain && word.ends_with('s') && !word.ends_with("ss") && !SINGULAR.contains(&word)
    };
    // `0 or 1 steps`, `at least 1, 2 or 4 bytes`, and sizes such as `1 x 1 x 1 blocks` are of several.
    let alone = |at: usize| at == 0 || !["or", "to", "x", "by", "-", "*", "+", "/"].contains(&words[at - 1]);
    let at = (1..words.len()).find(|&at| words[at - 1] == "1" && is_plural(words[at]) && alone(at - 1))?;
    Some(words[at.saturating_sub(4)..=at].join(" "))
}

/// Expected messages below a folder.
fn messages(folder: &Path, result: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            // Generated code stands in the others.
            if !name.starts_with('.') && name != "target" && path != workspace().join("tests/tests/snapshots")
            {
                messages(&path, result)?;
            }
        } else if name.ends_with(".stderr") || name.ends_with(".snap") {
            let text = fs::read_to_string(&path)?;
            result.extend(wrong(&text).map(|text| format!("{}: {text}", path.display())));
        }
    }
    Ok(())
}

#[test]
fn one_of_a_kind_is_singular() {
    for text in ["is used 1 steps after", "`s` has 1 slots, and"] {
        assert!(wrong(text).is_some(), "{text}");
    }
    for text in
        ["has 11 slots", "one step", "1 to 8 warps", "1 has 2", "stages is 1 or 2", "1 x 1 x 1 blocks"]
    {
        assert_eq!(wrong(text), None, "{text}");
    }
    let mut result = Vec::new();
    messages(workspace(), &mut result).expect("the workspace's files can be read");
    assert!(result.is_empty(), "{result:#?}");
}
