//! The output of a subcommand: answers on standard output, errors on standard error, an exit code.

use clap::{Arg, ArgAction, ArgMatches};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// The meaning of exit codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it could not be done: the message says why
  2  the command line could not be read
  3  a result was wrong, or the simulator found a fault";

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// It failed.
    Refused(String),
    /// It succeeded, and the result is wrong. The message has been printed.
    Wrong,
}

/// A result whose error is a [`Failure`].
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// From any printable error.
    pub fn of(why: impl fmt::Display) -> Failure {
        Failure::Refused(why.to_string())
    }
}

/// Ends a subcommand.
pub fn finish(result: Result) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Refused(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
        Err(Failure::Wrong) => ExitCode::from(3),
    }
}

/// Writes to standard output.
pub fn print(text: &str) -> Result {
    write(text.as_bytes()).map_err(Failure::of)
}

/// Prints JSON.
pub fn json(value: &serde_json::Value) -> Result {
    print(&format!("{value:#}\n"))
}

/// Writes into a file, or to standard output for `-`.
pub fn save(file: &str, text: &str) -> Result {
    if file == "-" {
        return print(text);
    }
    std::fs::write(file, text).map_err(|why| Failure::Refused(format!("cannot write {file}: {why}")))
}

/// A reader that closes its end early is not an error.
pub fn write(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        done => done,
    }
}

/// An option with a value.
pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// An option without a value.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

/// `--json`
pub(crate) fn json_flag() -> Arg {
    flag("json", "Print what a program can read")
}

/// The text of an option or argument.
pub(crate) fn text<'m>(matches: &'m ArgMatches, name: &str) -> Option<&'m str> {
    matches.get_one::<String>(name).map(String::as_str)
}

/// The texts of an option or argument that may be given several times.
pub fn texts<'m>(matches: &'m ArgMatches, name: &str) -> Vec<&'m str> {
    matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
}

/// A mistake with carets below a word of a line. `option` is what is before the line's text.
pub(crate) fn pointed(what: &str, option: &str, [line, word]: [&str; 2], help: &str) -> Failure {
    // A word that is no part of the line is its beginning.
    let at = (word.as_ptr() as usize).checked_sub(line.as_ptr() as usize);
    let before = at.and_then(|at| line.get(..at)).unwrap_or_default();
    let indent = " ".repeat(option.chars().count() + before.chars().count());
    let carets = "^".repeat(word.chars().count().max(1));
    Failure::Refused(format!("{what}\n  {option}{line}\n  {indent}{carets}\nhelp: {help}"))
}

/// `1.234 ms`
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.2} µs", s * 1e6),
    }
}

/// Columns two spaces apart, below a head. `right` lists the right-aligned columns.
pub fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, right: &[usize]) -> String {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &match right.contains(&column) {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// `4.2 MB`, for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    match unit {
        "bytes" if count == 1 => "1 byte".to_owned(),
        "bytes" => format!("{count} bytes"),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        let check = |count, expected: &str| assert_eq!(bytes(count), expected);
        check(0, "0 bytes");
        check(1, "1 byte");
        check(999, "999 bytes");
        check(1000, "1.0 kB");
        check(4_236_000, "4.2 MB");
        check(u64::MAX, "18446744.1 TB");
    }

    #[test]
    fn times_for_people() {
        assert_eq!([2.5, 1e-3, 4.167e-5].map(time), ["2.500 s", "1.000 ms", "41.67 µs"]);
    }

    #[test]
    fn columns() {
        let rows = [vec!["long".into(), "7".into()]].into_iter();
        assert_eq!(table(&["a", "100", "x"], rows, &[1]), "a     100  x\nlong    7\n");
    }
}
