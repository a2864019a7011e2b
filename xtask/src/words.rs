//! Counts words to avoid, in identifiers and in prose, and compares them with limits that only go down. Finds long sentences of
//! documents.
//!
//! Each word is a private one where the field has a better one, or a phrase that has to be read twice. `words.txt` has the limits.

mod sentences;

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use crate::shell::{Outcome, root, step};

/// A word or phrase, and what to write instead.
const INSTEAD: &[(&str, &str)] = &[
    ("place", "slot, coordinate, span, position, index: whichever it is"),
    ("beyond", "out of bounds; fill; distance"),
    ("said", "reported"),
    ("found", "result, analysis"),
    ("nothing", "identity, empty"),
    ("holds", "contents; is valid"),
    ("follows", "flow; is derived"),
    ("digit", "submode"),
    ("deal", "partition"),
    ("dealt", "distributed"),
    ("hollow", "empty-K variant"),
    ("leaving", "staging"),
    ("rooms", "shared-memory plan"),
    ("extras", "epilogue arguments"),
    ("turn", "iteration"),
    ("round", "phase of a barrier; wave of blocks"),
    ("held", "clamped, kept"),
    ("told", "passed"),
    ("stays", "is resident"),
    ("so many", "the number"),
    ("as many as", "the number"),
    ("those of", "the noun"),
    ("that of", "the noun"),
    ("of which", "a second sentence"),
];

const LIMITS: &str = "xtask/words.txt";

/// How often a word occurs in identifiers, and in comments, strings and documents.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Count {
    identifiers: usize,
    prose: usize,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    match arguments {
        [] => {
            step("sentences", check_sentences)?;
            step("words", || check(&counted()?))
        }
        [bless] if bless == "--bless" => bless_limits(&counted()?),
        _ => Err("`cargo xtask words` takes `--bless` at most".into()),
    }
}

/// The files of the repository that match a pattern, with their texts.
fn files(patterns: &[&str]) -> Outcome<Vec<(String, String)>> {
    let listed = Command::new("git").arg("ls-files").args(patterns).current_dir(root()).output();
    let listed = listed.map_err(|why| format!("git: {why}"))?;
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(names
        .lines()
        .filter_map(|name| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?)))
        .collect())
}

/// No document has a sentence that is too long.
fn check_sentences() -> Outcome {
    let long = |(name, text): &(String, String)| {
        let long = sentences::long_sentences(text);
        long.into_iter().map(|sentence| format!("{name}, {sentence}")).collect::<Vec<_>>()
    };
    let long: Vec<String> = files(&["*.md", "llms.txt"])?.iter().flat_map(long).collect();
    if long.is_empty() {
        Ok(())
    } else {
        Err(format!("divide these sentences:\n    {}", long.join("\n    ")))
    }
}

/// Counts of all words, in the order of [`INSTEAD`].
fn counted() -> Outcome<Vec<Count>> {
    let mut all = vec![Count::default(); INSTEAD.len()];
    for (name, text) in files(&["*.rs", "*.md"])? {
        // This table names the words, and the log is a laboratory's notes.
        if ["xtask/src/words.rs", "bench/LOG.md"].contains(&name.as_str()) {
            continue;
        }
        let (code, prose) = if name.ends_with(".md") { (String::new(), text) } else { parted(&text) };
        let prose = prose.to_lowercase();
        let identifiers = in_identifiers(&code);
        for (count, (word, _)) in all.iter_mut().zip(INSTEAD) {
            count.identifiers += identifiers.get(*word).copied().unwrap_or_default();
            count.prose += in_prose(&prose, word);
        }
    }
    Ok(all)
}

/// The code of a source, and its comments and strings.
fn parted(source: &str) -> (String, String) {
    let (mut code, mut prose) = (String::new(), String::new());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (length, is_prose) = token(rest, first);
        let (token, after) = rest.split_at(length);
        if is_prose { &mut prose } else { &mut code }.push_str(token);
        if is_prose {
            code.push(' ');
            prose.push('\n');
        }
        rest = after;
    }
    (code, prose)
}

/// The length of the token that a text begins with, and whether it is a comment or a string.
fn token(rest: &str, first: char) -> (usize, bool) {
    let until = |end: &str| rest[1..].find(end).map_or(rest.len(), |at| at + 1 + end.len());
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), true);
    }
    if let Some(hashes) = rest.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len())
        && rest[1 + hashes..].starts_with('"')
    {
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = 2 + hashes;
        return (rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()), true);
    }
    match first {
        '"' => {
            let mut escaped = false;
            let end = rest[1..].find(|letter| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            });
            (end.map_or(rest.len(), |at| at + 2), true)
        }
        // A letter in quotes, and not a lifetime.
        '\'' if rest[1..].starts_with('\\') => (until("'").max(4).min(rest.len()), false),
        _ if first.is_alphanumeric() || first == '_' => {
            let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            (end.unwrap_or(rest.len()), false)
        }
        '\'' if rest.chars().nth(2) == Some('\'') => {
            (rest.char_indices().nth(3).map_or(rest.len(), |at| at.0), false)
        }
        _ => (first.len_utf8(), false),
    }
}

/// How often each word is a part of a name, in `snake_case` and `CamelCase`.
fn in_identifiers(code: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for name in code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')) {
        // The standard library's own words.
        if name.starts_with("is_ascii_") || name.starts_with("to_digit") {
            continue;
        }
        for part in name.split('_').filter(|part| !part.is_empty()) {
            let mut begin = 0;
            for (at, letter) in part.char_indices().skip(1).chain([(part.len(), 'A')]) {
                if letter.is_uppercase() {
                    *counts.entry(part[begin..at].to_lowercase()).or_default() += 1;
                    begin = at;
                }
            }
        }
    }
    counts
}

/// Occurrences as whole words, in lower case.
fn in_prose(prose: &str, word: &str) -> usize {
    let letters = |letter: char| letter.is_alphanumeric() || letter == '_';
    let whole = |at: usize| !prose[..at].ends_with(letters) && !prose[at + word.len()..].starts_with(letters);
    prose.match_indices(word).filter(|(at, _)| whole(*at)).count()
}

/// The limits, in the order of [`INSTEAD`].
fn limits() -> Outcome<Vec<Count>> {
    let text = fs::read_to_string(root().join(LIMITS)).map_err(|why| format!("{LIMITS}: {why}"))?;
    let limit = |(word, _): &(&str, &str)| {
        let row = text.lines().find_map(|line| line.split_once(" | ").filter(|row| row.0.trim() == *word));
        let numbers = row.and_then(|row| row.1.split_once('|'));
        let number = |text: &str| text.trim().parse().ok();
        let count = numbers.and_then(|(i, p)| Some(Count { identifiers: number(i)?, prose: number(p)? }));
        count.ok_or_else(|| format!("{LIMITS} has no row for `{word}`"))
    };
    INSTEAD.iter().map(limit).collect()
}

fn check(counts: &[Count]) -> Outcome {
    let mut more = Vec::new();
    for (((word, instead), count), limit) in INSTEAD.iter().zip(counts).zip(limits()?) {
        if count.identifiers > limit.identifiers || count.prose > limit.prose {
            more.push(format!(
                "`{word}` occurs {} times in names and {} times in prose, and the limits are {} and {}; write: {instead}",
                count.identifiers, count.prose, limit.identifiers, limit.prose
            ));
        }
    }
    let all = counts.iter().fold(Count::default(), |all, of| Count {
        identifiers: all.identifiers + of.identifiers,
        prose: all.prose + of.prose,
    });
    eprintln!("    {} in names, {} in prose", all.identifiers, all.prose);
    if more.is_empty() { Ok(()) } else { Err(more.join("\n    ")) }
}

/// Writes the counts as limits; none becomes larger.
fn bless_limits(counts: &[Count]) -> Outcome {
    let known =
        limits().unwrap_or_else(|_| vec![Count { identifiers: usize::MAX, prose: usize::MAX }; counts.len()]);
    let mut text = String::from("word | names | prose: limits of `cargo xtask words`, which only go down\n");
    for (((word, _), count), known) in INSTEAD.iter().zip(counts).zip(known) {
        let (names, prose) = (count.identifiers.min(known.identifiers), count.prose.min(known.prose));
        text += &format!("{word:<12} | {names:>5} | {prose:>5}\n");
    }
    fs::write(root().join(LIMITS), text).map_err(|why| format!("{LIMITS}: {why}"))?;
    check(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_counts(source: &str, word: &str, identifiers: usize, prose: usize) {
        let (code, text) = parted(source);
        let counted = Count {
            identifiers: in_identifiers(&code).get(word).copied().unwrap_or_default(),
            prose: in_prose(&text.to_lowercase(), word),
        };
        assert_eq!(counted, Count { identifiers, prose }, "{source}");
    }

    #[test]
    fn words_are_counted_in_names_and_in_prose() {
        check_counts("let place = Place::new(in_place, replaced); // a place", "place", 3, 1);
        check_counts(
            "struct MyPlaceOf<'a>(&'a str, char); f(\"in\\\" place\", 'p', '\\'', place)",
            "place",
            2,
            1,
        );
        check_counts("let x = r#\"a \"place\" b\"#; place", "place", 1, 1);
        check_counts("// those of, and Those of it\nlet those_of = 1;", "those of", 0, 2);
        check_counts("/// turned, turn\nfn turn() {}", "turn", 1, 1);
    }
}
