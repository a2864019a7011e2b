//! `tilewright completions`: shell completions for the command.

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use std::process::ExitCode;

use crate::output::{finish, print};

const EXAMPLES: &str = "\
Examples:
  tilewright completions bash > ~/.local/share/bash-completion/completions/tilewright
  tilewright completions zsh > ~/.zfunc/_tilewright
  tilewright completions fish > ~/.config/fish/completions/tilewright.fish";

pub(crate) fn command() -> Command {
    Command::new("completions")
        .about("Write a shell's completions of this command")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .help("Which shell")
                .required(true)
                .value_parser(value_parser!(Shell)),
        )
        .after_help(EXAMPLES)
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let mut text = Vec::new();
    if let Some(&shell) = matches.get_one::<Shell>("shell") {
        clap_complete::generate(
            shell,
            &mut crate::command("tilewright", env!("CARGO_PKG_VERSION"), crate::COMMANDS),
            "tilewright",
            &mut text,
        );
    }
    finish(print(&String::from_utf8_lossy(&text)))
}
