//! Steps and the commands that they run. Knows no particular task.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// Nothing, or a message for the person at the terminal.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    // Fixed while compiling: a binary of this checkout serves this checkout.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace root")
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

/// Runs a command whose output goes straight to the terminal.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` ended with {status}", line(command)))
    }
}

/// Runs a command and keeps its output. A failing command is not an error here: look at the status.
pub(crate) fn capture(command: &mut Command) -> Outcome<Output> {
    command.output().map_err(|error| cannot_start(command, &error))
}

/// A command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", line(command))
}
