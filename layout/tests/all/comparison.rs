//! The tables of the README that compare this crate with other implementations. The others' results are in `vectors/peers.txt`, which
//! `vectors/compare.py` writes.

use std::fmt::Write;

use crate::vectors::apply;
use tilewright_layout::Layout;

/// How the answers to the vectors of one operation agree with the vectors.
#[derive(Default)]
struct Agreement {
    equal: usize,
    other_inverses: usize,
    wrong: usize,
    refused: usize,
}

impl Agreement {
    fn total(&self) -> usize {
        self.equal + self.other_inverses + self.wrong + self.refused
    }

    /// A cell of the table.
    fn cell(&self) -> String {
        let parts =
            [(self.other_inverses, "other inverses"), (self.wrong, "wrong"), (self.refused, "refused")];
        let parts =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
        parts.fold(self.equal.to_string(), |cell, part| cell + &part)
    }
}

/// The rows of a kind in the file of the others' results: with this number of cells.
fn peers(cells: usize) -> Vec<Vec<&'static str>> {
    let lines = include_str!("../vectors/peers.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(" | ").collect::<Vec<_>>()).filter(|row| row.len() == cells).collect()
}

/// The others, in the order of the file.
fn implementations() -> Vec<&'static str> {
    peers(5).iter().map(|row| row[0]).collect()
}

fn numbers<const N: usize>(cells: &[&str]) -> [usize; N] {
    let numbers: Vec<usize> = cells.iter().map(|cell| cell.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Of one implementation; `None` if it has no such operation.
fn agreement_of(implementation: &str, operation: &str) -> Option<Agreement> {
    let rows = peers(7);
    let row = rows.iter().find(|row| row[0] == implementation && row[1] == operation)?;
    let [text, function, other_inverses, wrong, refused] = numbers(&row[2..]);
    Some(Agreement { equal: text + function, other_inverses, wrong, refused })
}

/// Of this crate. An answer is equal if it is the same function.
fn own_agreement(operation: &str) -> Agreement {
    let mut agreement = Agreement::default();
    for line in include_str!("../vectors/layout_ops.txt").lines().filter(|line| line.starts_with(operation)) {
        let [_, left, right, expected] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let expected: Layout = expected.parse().unwrap();
        match apply(operation, &left.parse().unwrap(), right) {
            Err(_) => agreement.refused += 1,
            Ok(result) if result.offsets().unwrap().eq(expected.offsets().unwrap()) => agreement.equal += 1,
            Ok(_) => agreement.wrong += 1,
        }
    }
    agreement
}

fn operations() -> Vec<&'static str> {
    let mut all: Vec<&str> = Vec::new();
    for line in include_str!("../vectors/layout_ops.txt").lines() {
        let operation = line.split('|').next().unwrap();
        if !all.contains(&operation) {
            all.push(operation);
        }
    }
    all.sort_unstable();
    all
}

#[track_caller]
fn is_in_the_readme(table: &str) {
    let readme = include_str!("../../README.md").replace("\r\n", "\n");
    assert!(readme.contains(table), "layout/README.md lacks this table:\n{table}");
}

#[test]
fn operations_agree_as_the_readme_says() {
    let others = implementations();
    let mut table = format!(
        "| operation | vectors | this crate | {} |\n|---|---|---|{}\n",
        others.join(" | "),
        "---|".repeat(others.len())
    );
    for operation in operations() {
        let own = own_agreement(operation);
        write!(table, "| `{operation}` | {} | {} |", own.total(), own.cell()).unwrap();
        for other in &others {
            let agreement = agreement_of(other, operation);
            assert!(
                agreement.as_ref().is_none_or(|agreement| agreement.total() == own.total()),
                "{other}: {operation}"
            );
            let cell = agreement.map_or_else(|| "none".to_owned(), |agreement| agreement.cell());
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    is_in_the_readme(&table);
}

#[test]
fn compositions_exist_as_the_readme_says() {
    let pairs: Vec<Vec<&str>> = include_str!("../vectors/composition_truth.txt")
        .lines()
        .map(|line| line.split('|').collect())
        .collect();
    let mut own = [0; 4];
    for pair in &pairs {
        let (left, right): (Layout, Layout) = (pair[0].parse().unwrap(), pair[1].parse().unwrap());
        let kind = match left.composition(&right) {
            Err(_) if pair[2] == "1" => 3,
            Err(_) => 2,
            Ok(result) => {
                let expected = right.offsets().unwrap().map(|index| left.eval(index).unwrap());
                usize::from(!result.offsets().unwrap().eq(expected))
            }
        };
        own[kind] += 1;
    }
    let mut table =
        "| | right | wrong | rightly refused | refused, although it exists |\n|---|---|---|---|---|\n"
            .to_owned();
    let rows = peers(5);
    let others = rows.iter().map(|row| (row[0], numbers::<4>(&row[1..])));
    for (name, counts) in std::iter::once(("this crate", own)).chain(others) {
        assert_eq!(counts.iter().sum::<usize>(), pairs.len(), "{name}");
        let [right, wrong, refused, lost] = counts;
        writeln!(table, "| {name} | {right} | {wrong} | {refused} | {lost} |").unwrap();
    }
    is_in_the_readme(&table);
}
