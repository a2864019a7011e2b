//! The `tilewright` command: one module for each subcommand.

mod layout;

use clap::Command;
use std::process::ExitCode;

fn main() -> ExitCode {
    match command().get_matches().subcommand() {
        Some(("layout", matches)) => layout::run(matches),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

fn command() -> Command {
    Command::new("tilewright")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Tile layouts: evaluate them, explain them, draw them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(layout::command())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
