//! The `tilewright` command: one module for each subcommand, one row in [`COMMANDS`].

mod bench;
mod cache;
mod choose;
mod completions;
mod doctor;
mod draw;
mod inspect;
mod kernel;
mod layout;
mod output;
mod run;

use clap::{ArgMatches, Command};
use std::process::ExitCode;

/// A subcommand: its arguments, and its function.
struct Subcommand {
    command: fn() -> Command,
    run: fn(&ArgMatches) -> ExitCode,
}

/// All subcommands, in the order of `--help`.
const COMMANDS: &[Subcommand] = &[
    Subcommand { command: layout::command, run: layout::run },
    Subcommand { command: draw::command, run: draw::run },
    Subcommand { command: inspect::command, run: inspect::run },
    Subcommand { command: run::command, run: run::run },
    Subcommand { command: choose::command, run: choose::run },
    Subcommand { command: bench::command, run: bench::run },
    Subcommand { command: doctor::command, run: doctor::run },
    Subcommand { command: cache::command, run: cache::run },
    Subcommand { command: completions::command, run: completions::run },
];

fn main() -> ExitCode {
    let matches = command().get_matches();
    let chosen = matches.subcommand().and_then(|(name, inner)| {
        let row = COMMANDS.iter().find(|row| (row.command)().get_name() == name)?;
        Some((row.run)(inner))
    });
    chosen.unwrap_or(ExitCode::FAILURE) // clap requires a subcommand
}

fn command() -> Command {
    let command = Command::new("tilewright")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Tile layouts in, readable CUDA C out")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(output::EXIT_CODES);
    COMMANDS.iter().fold(command, |command, row| command.subcommand((row.command)()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for row in super::COMMANDS {
            let mut command = (row.command)();
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n  tilewright "), "{}: {help}", command.get_name());
        }
    }
}
