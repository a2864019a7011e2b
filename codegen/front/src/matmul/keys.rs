//! The keys of the product family. `keys.md` is their table: the page of the reference, messages and the reader of keys use it.

use std::sync::LazyLock;

/// A key: its name, its default in words, and its meaning.
pub type Key = (&'static str, &'static str, &'static str);

/// A list of keys for each subject, and a table of the keys inside `schedule`.
const PAGE: &str = include_str!("keys.md");

/// The keys of the lists.
static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| read(["- **`", "`**: ", ". Default: ", "."]));

/// The keys inside `schedule`.
static SCHEDULE: LazyLock<Vec<Key>> = LazyLock::new(|| read(["| **`", "`** | ", " | ", " |"]));

/// The keys of lines with these texts before the name, the meaning and the default, and at the end.
fn read([name, about, default, end]: [&str; 4]) -> Vec<Key> {
    let key = |line: &'static str| {
        let (name, rest) = line.strip_prefix(name)?.split_once(about)?;
        let (about, default) = rest.strip_suffix(end)?.rsplit_once(default)?;
        Some((name, default, about))
    };
    PAGE.lines().filter_map(key).collect()
}

/// All keys, but for those inside `schedule`.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

/// The keys inside `schedule`.
pub fn schedule() -> impl Iterator<Item = &'static Key> {
    SCHEDULE.iter()
}

/// A key by its name, also one inside `schedule`.
pub(super) fn key(name: &str) -> Option<&'static Key> {
    keys().chain(schedule()).find(|(known, ..)| *known == name)
}

/// Is a key inside of `schedule`?
pub(super) fn is_of_schedule(name: &str) -> bool {
    schedule().any(|(known, ..)| *known == name)
}

/// The table as Markdown.
pub fn page() -> &'static str {
    PAGE
}
