//! Probes: assertions that are checked while a kernel runs, and prints. An instrumented kernel and the simulator write records of
//! them, which become the same text here.

use std::collections::BTreeMap;

use crate::source::ast::Span;
use crate::thread::visit::preorder;
use crate::thread::{Kernel, Op};
use crate::values::elem::Elem;

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fails where its value is 0.
    Assert,
    /// Shows its value.
    Print,
}

/// A probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its kind.
    pub kind: Kind,
    /// The text of an assertion, or the name of what is printed.
    pub text: String,
    /// The type of the value.
    pub elem: Elem,
    /// The extents of the tile that the value is of; empty for one value. The coordinates come after the value.
    pub shape: Vec<i64>,
    /// Integers that the condition depends on. They come after the coordinates.
    pub names: Vec<String>,
}

/// The numbers of a record at most.
pub const MOST_VALUES: usize = 5;

/// What a probe saw in one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The index of the probe among all of the kernel.
    pub probe: usize,
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: u32,
    /// The value, coordinates and integers: the bits of an `i64`, or of an `f64` where the type of the value is a floating-point one.
    pub values: [u64; MOST_VALUES],
}

/// Records as text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Shown {
    /// The assertions that failed.
    pub failed: Vec<String>,
    /// What was printed.
    pub printed: Vec<String>,
}

/// All probes of a kernel, with the spans of their statements.
pub fn all(kernel: &Kernel) -> Vec<(&Probe, Span)> {
    let span = |site: u32| kernel.sites.get(site as usize).map_or(Span::default(), |site| site.span);
    let probe = |stmt: &'_ crate::thread::Stmt| span(stmt.site);
    preorder(&kernel.body)
        .filter_map(
            |stmt| if let Op::Probe { probe: of, .. } = &stmt.op { Some((of, probe(stmt))) } else { None },
        )
        .collect()
}

impl Shown {
    /// The text of records, in the order in which each thread wrote its own. `locate` gives the file and line of a span.
    pub fn of(kernel: &Kernel, records: &[Record], locate: &dyn Fn(Span) -> Option<String>) -> Shown {
        let mut by_block: BTreeMap<(usize, [u32; 3]), Vec<&Record>> = BTreeMap::new();
        for record in records {
            let [x, y, z] = record.block;
            by_block.entry((record.probe, [z, y, x])).or_default().push(record);
        }
        let (probes, mut shown) = (all(kernel), Shown::default());
        let mut failed: BTreeMap<usize, (Vec<&Record>, usize)> = BTreeMap::new();
        for ((at, _), records) in by_block {
            let Some((probe, span)) = probes.get(at) else { continue };
            let at_line = locate(*span).map_or(String::new(), |line| format!(" at {line}"));
            match probe.kind {
                Kind::Assert => {
                    let (first, count) = failed.entry(at).or_default();
                    *count += records.len();
                    first.extend(records.iter().min_by_key(|record| record.thread));
                }
                Kind::Print => shown.printed.extend(probe.printed(&records, &at_line)),
            }
        }
        for (at, (first, count)) in failed {
            let (probe, span) = probes[at];
            let at_line = locate(span).map_or(String::new(), |line| format!(" at {line}"));
            shown.failed.extend(first.first().map(|record| probe.failed(record, count - 1, &at_line)));
        }
        shown
    }
}

impl Probe {
    /// The message of an assertion that failed for a record, and `others` more times.
    pub fn failed(&self, record: &Record, others: usize, at_line: &str) -> String {
        let [x, y, z] = record.block;
        let mut text = format!(
            "the assertion `{}`{at_line} failed in thread {} of block ({x}, {y}, {z})",
            self.text, record.thread
        );
        if !self.shape.is_empty() {
            text += &format!(", for the element {}", coordinates(&self.at(record)));
        }
        let integers = record.values[1 + self.shape.len()..].iter().zip(&self.names);
        for (number, (value, name)) in integers.enumerate() {
            let with = if number == 0 { ", where" } else { " and" };
            text += &format!("{with} {name} = {}", value.cast_signed());
        }
        if others > 0 {
            text += &format!("; and {others} more times");
        }
        text
    }

    /// The coordinates of a record's element.
    fn at(&self, record: &Record) -> Vec<i64> {
        record.values[1..].iter().take(self.shape.len()).map(|at| at.cast_signed()).collect()
    }

    /// The values of one block: one text for each time that the statement ran.
    fn printed(&self, records: &[&Record], at_line: &str) -> Vec<String> {
        // The records of an element, or of a thread, are in the order of time.
        let mut times: Vec<BTreeMap<Vec<i64>, u64>> = Vec::new();
        let mut counts: BTreeMap<Vec<i64>, usize> = BTreeMap::new();
        for record in records {
            let key = if self.shape.is_empty() { vec![record.thread.into()] } else { self.at(record) };
            // Elements outside of the tile have no coordinates.
            if key.iter().any(|at| *at < 0) {
                continue;
            }
            let time = counts.entry(key.clone()).or_default();
            times.resize_with(times.len().max(*time + 1), BTreeMap::new);
            times[*time].insert(key, record.values[0]);
            *time += 1;
        }
        let [x, y, z] = records.first().map_or([0; 3], |record| record.block);
        let head = format!("{}{at_line}, block ({x}, {y}, {z})", self.text);
        times
            .iter()
            .map(
                |values| {
                    if self.shape.is_empty() { self.one(&head, values) } else { self.tile(&head, values) }
                },
            )
            .collect()
    }

    /// A value that each thread may have another of.
    fn one(&self, head: &str, values: &BTreeMap<Vec<i64>, u64>) -> String {
        let mut lines: Vec<(i64, i64, u64)> = Vec::new();
        for (thread, value) in values {
            match lines.last_mut().filter(|(_, last, same)| *last + 1 == thread[0] && same == value) {
                Some((_, last, _)) => *last = thread[0],
                None => lines.push((thread[0], thread[0], *value)),
            }
        }
        match lines[..] {
            [(_, _, value)] => format!("{head}: {}", self.number(value)),
            _ => {
                let line = |(first, last, value): &(i64, i64, u64)| match first == last {
                    true => format!("\n  thread {first}: {}", self.number(*value)),
                    false => format!("\n  threads {first}-{last}: {}", self.number(*value)),
                };
                format!("{head}:{}", lines.iter().map(line).collect::<String>())
            }
        }
    }

    /// A tile up to the last element that is in bounds: a row for each coordinate along the first mode, or one row of a vector.
    fn tile(&self, head: &str, values: &BTreeMap<Vec<i64>, u64>) -> String {
        let extent = |mode: usize| values.keys().map(|at| at[mode] + 1).max().unwrap_or(0);
        let extents: Vec<i64> = (0..self.shape.len()).map(extent).collect();
        let (rows, columns, outer) = match extents[..] {
            [columns] => (1, columns, &[][..]),
            [rows, columns, ..] => (rows, columns, &extents[2..]),
            [] => return head.to_owned(),
        };
        let text = |at: &[i64]| values.get(at).map_or("-".to_owned(), |value| self.number(*value));
        let wide = values.values().map(|value| self.number(*value).len()).max().unwrap_or(1);
        let mut lines = format!("{head}, {}:", coordinates(&self.shape));
        for slice in 0..outer.iter().product::<i64>() {
            let mut rest = slice;
            let outer: Vec<i64> = outer.iter().map(|extent| (rest % extent, rest /= extent).0).collect();
            if !outer.is_empty() {
                let outer: Vec<String> = outer.iter().map(i64::to_string).collect();
                lines += &format!("\n (_, _, {}):", outer.join(", "));
            }
            for row in 0..rows {
                let at = |column| match extents.len() {
                    1 => vec![column],
                    _ => [&[row, column], &outer[..]].concat(),
                };
                let row: Vec<String> =
                    (0..columns).map(|column| format!("{:>wide$}", text(&at(column)))).collect();
                lines += &format!("\n  {}", row.join(" "));
            }
        }
        lines
    }

    fn number(&self, bits: u64) -> String {
        match self.elem {
            Elem::F64 => f64::from_bits(bits).to_string(),
            elem if elem.is_float() => (f64::from_bits(bits) as f32).to_string(),
            Elem::Bool => (bits != 0).to_string(),
            Elem::U64 => bits.to_string(),
            _ => bits.cast_signed().to_string(),
        }
    }
}

fn coordinates(at: &[i64]) -> String {
    let at: Vec<String> = at.iter().map(i64::to_string).collect();
    format!("({})", at.join(", "))
}
