//! Steps and the commands that they run. Knows no particular task.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Instant;

/// Success, or a message for the person at the terminal.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// The folder that contains the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    // Fixed while compiling: a binary of this checkout serves this checkout.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace root")
}

/// Does one step: a header line before, its time after.
///
/// Both go to standard error, as cargo's own progress does; standard output belongs to the commands.
pub(crate) fn step<T>(title: &str, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    eprintln!("==> {title}");
    let start = Instant::now();
    let outcome = work();
    let verdict = if outcome.is_ok() { "done" } else { "FAILED" };
    eprintln!("    {title}: {verdict} in {:.1} s", start.elapsed().as_secs_f64());
    outcome
}

/// The cargo that runs us, in the workspace root.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// `--workspace`, unless the arguments choose packages: cargo would silently ignore the choice beside it.
pub(crate) fn scope(extra: &[String]) -> &'static [&'static str] {
    let own = extra.iter().take_while(|argument| *argument != "--");
    let chooses = |argument: &String| argument.starts_with("-p") || argument.starts_with("--package");
    if own.into_iter().any(chooses) { &[] } else { &["--workspace"] }
}

/// Runs a command whose output goes straight to the terminal.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    judge(command, status)
}

/// Runs a command and shows, of its standard output, only the lines worth showing.
pub(crate) fn run_filtered(command: &mut Command, mut worth_showing: impl FnMut(&str) -> bool) -> Outcome {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let output = child.stdout.take().expect("is piped");
    for bytes in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let text = String::from_utf8_lossy(&bytes);
        if worth_showing(&text) {
            println!("{text}");
        }
    }
    let status = child.wait().map_err(|error| format!("lost `{}`: {error}", line(command)))?;
    judge(command, status)
}

/// Runs a command and keeps its output. A failing command is not an error here: look at the status.
pub(crate) fn capture(command: &mut Command) -> Outcome<Output> {
    command.output().map_err(|error| cannot_start(command, &error))
}

/// The outcome of a command that ended.
pub(crate) fn judge(command: &Command, status: ExitStatus) -> Outcome {
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` ended with {status}", line(command)))
}

/// A command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", line(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_scope(arguments: &[&str], expected: &[&str]) {
        let arguments: Vec<String> = arguments.iter().copied().map(String::from).collect();
        assert_eq!(scope(&arguments), expected, "{arguments:?}");
    }

    #[test]
    fn the_whole_workspace_unless_packages_are_chosen() {
        check_scope(&[], &["--workspace"]);
        check_scope(&["coalesce"], &["--workspace"]);
        check_scope(&["-p", "tilewright-layout"], &[]);
        check_scope(&["coalesce", "--package=tilewright-layout"], &[]);
        check_scope(&["--", "-p"], &["--workspace"]);
    }
}
