//! The time of each test: a runner that makes the test harness report it, and a list of the slowest.

use std::path::Path;
use std::process::Command;

/// The hidden task by which cargo starts test programs.
pub(crate) const WORD: &str = "run-test";

/// How many tests are listed.
const LISTED: usize = 10;

/// Arguments of cargo that have it start test programs by this program, where that replaces itself by them.
pub(crate) fn runner() -> Vec<String> {
    let own = std::env::current_exe().ok().and_then(|path| path.to_str().map(String::from));
    match own {
        Some(own) if cfg!(unix) && !own.contains('\'') => {
            vec!["--config".into(), format!("target.'cfg(all())'.runner = ['{own}', '{WORD}']")]
        }
        _ => Vec::new(),
    }
}

/// Becomes a test program. Its harness reports times, which stable toolchains only do if asked like this; tests that
/// start a compiler take the variable away again.
#[cfg(unix)]
pub(crate) fn become_test(arguments: &[String]) -> String {
    use std::os::unix::process::CommandExt;
    let Some((program, rest)) = arguments.split_first() else { return "which test program?".into() };
    let mut command = Command::new(program);
    command.args(rest);
    if has_times(program) {
        command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    }
    let error = command.exec();
    format!("cannot start `{program}`: {error}")
}

#[cfg(not(unix))]
pub(crate) fn become_test(_: &[String]) -> String {
    let _ = (Command::new(""), has_times(""));
    "this system starts test programs itself".into()
}

/// Programs of doc tests and examples are elsewhere.
fn has_times(program: &str) -> bool {
    Path::new(program).parent().is_some_and(|folder| folder.ends_with("deps"))
}

/// The slowest tests of a run.
#[derive(Default)]
pub(crate) struct Slowest(Vec<(f64, String)>);

impl Slowest {
    /// Reads a line of a harness.
    pub(crate) fn read(&mut self, line: &str) {
        self.0.extend(timed(line).map(|(name, seconds)| (seconds, name.to_owned())));
    }

    /// Prints them, if there are any of a second or more.
    pub(crate) fn show(mut self) {
        self.0.retain(|(seconds, _)| *seconds >= 1.0);
        self.0.sort_by(|one, other| other.0.total_cmp(&one.0));
        if !self.0.is_empty() {
            eprintln!("    slowest tests:");
        }
        for (seconds, name) in self.0.iter().take(LISTED) {
            eprintln!("    {seconds:>8.1} s  {name}");
        }
    }
}

/// The name and the seconds in `test name ... ok <1.234s>`.
fn timed(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, seconds) = rest.rsplit_once('<')?;
    Some((name, seconds.strip_suffix("s>")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_harness() {
        assert_eq!(timed("test a::b ... ok <1.250s>"), Some(("a::b", 1.25)));
        assert_eq!(timed("test a::b ... some output\u{20}FAILED <0.001s>"), Some(("a::b", 0.001)));
        for other in ["test a::b ... ok", "test a::b ... ignored", "running 3 tests", "Vec<u8s>"] {
            assert_eq!(timed(other), None, "{other}");
        }
        assert!(has_times("/t/debug/deps/gpu-1") && !has_times("/tmp/rustdoctest/rust_out"));
    }
}
