//! The subcommands that inspect, run, draw and measure kernels: of the `tilewright` command, and for your own kernels.
//!
//! To use them on your own kernels, add a binary to your program, for example `src/bin/kernels.rs`:
//!
//! ```no_run
//! # use std::process::ExitCode;
//! # mod mine {
//! #     use tilewright::prelude::*;
//! #     #[kernel]
//! #     pub fn shifted(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//! #         map(tile(x, 1024, block.x), tile(y, 1024, block.x), |x| x + 1.0);
//! #     }
//! # }
//! # use mine::shifted;
//! fn main() -> ExitCode {
//!     tilewright_cli::main(&[&shifted()])
//! }
//! ```
//!
//! Then `cargo run --bin kernels -- inspect shifted --report` prints the kernel's report. `run`, `draw`, `explore`, `choose`, `bench`, `tune`
//! and `export` work in the same way; `--help` lists all subcommands. `default-features = false` leaves out tilewright's own
//! kernels. [`Commands`] adds references for `run` to compare results with, and peers for `bench` to measure beside a kernel.

mod cache;
mod choose;
#[cfg(feature = "shipped")]
mod completions;
mod data;
#[cfg(feature = "shipped")]
mod doctor;
mod draw;
mod explore;
mod export;
mod inspect;
mod kernel;
mod layout;
// For the project's own benchmarks, `bench/gpu`.
#[doc(hidden)]
pub mod measure;
#[doc(hidden)]
pub mod output;
mod own;
mod run;

use clap::{ArgMatches, Command};
use std::process::ExitCode;

use tilewright::Kernel;

pub use own::tune::{Tuning, tune};
pub use own::{Commands, Inputs, Operands, Results};
// For the project's own benchmarks.
#[doc(hidden)]
pub use run::{counted, function::Function, problem::placed_with};

/// A subcommand: its arguments, and its function.
struct Subcommand {
    command: fn() -> Command,
    run: fn(&ArgMatches) -> ExitCode,
}

macro_rules! subcommands {
    ($($($module:ident)::+),* $(,)?) => {
        &[$(Subcommand { command: $($module)::+::command, run: $($module)::+::run }),*]
    };
}

/// All subcommands, in the order of `--help`.
#[cfg(feature = "shipped")]
#[rustfmt::skip]
const COMMANDS: &[Subcommand] = subcommands![
    layout, draw, explore, inspect, run, choose, own::bench, own::tune, export, doctor, cache, completions,
];

/// The subcommands for your own kernels.
const OWN: &[Subcommand] =
    subcommands![inspect, run, draw, explore, choose, own::bench, own::tune, export, layout, cache];

/// The `tilewright` command.
#[cfg(feature = "shipped")]
pub fn shipped() -> ExitCode {
    parsed(command("tilewright", env!("CARGO_PKG_VERSION"), COMMANDS), COMMANDS)
}

/// The subcommands for these kernels: what a program's `main` returns. See [`Commands`] for more.
pub fn main(kernels: &[&dyn Kernel]) -> ExitCode {
    Commands::of(kernels).main()
}

fn parsed(command: Command, all: &[Subcommand]) -> ExitCode {
    let matches = command.get_matches();
    let chosen = matches.subcommand().and_then(|(name, inner)| {
        let row = all.iter().find(|row| (row.command)().get_name() == name)?;
        Some((row.run)(inner))
    });
    chosen.unwrap_or(ExitCode::FAILURE) // clap requires a subcommand
}

fn command(name: &'static str, version: &'static str, all: &[Subcommand]) -> Command {
    let command = Command::new(name)
        .version(version)
        .about("Tile layouts in, readable CUDA C out")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(output::EXIT_CODES);
    all.iter().fold(command, |command, row| command.subcommand((row.command)()))
}

#[cfg(all(test, feature = "shipped"))]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command("tilewright", "0", super::COMMANDS).debug_assert();
        super::command("own", "0", super::OWN).debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for row in super::COMMANDS.iter().chain(super::OWN) {
            let mut command = (row.command)();
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n  tilewright "), "{}: {help}", command.get_name());
        }
    }
}
