//! `tilewright explore`: layouts and kernels on a page in the browser.
//!
//! One process serves the page, and questions of the page are answered by further processes of this program: a question that takes
//! too long, or makes the generator fail, ends with its process. What a question can name is a kernel of the list and its keys, a
//! layout, sizes and a seed; no file, and no program. A kernel as text is parsed, generated and simulated, never run.

mod answers;
mod http;
mod kernels;
mod server;
mod timeline;

use clap::{Arg, ArgMatches, Command, value_parser};
use std::process::ExitCode;

use crate::output::{finish, option};

const EXAMPLES: &str = "\
Examples:
  tilewright explore
  tilewright explore --port 8008";

const ABOUT: &str = "\
The page shows layouts and the operations on them, kernels beside their CUDA C, bank conflicts and sectors of every access, runs in
the simulator step by step, and which variant a launch takes. A kernel is one of the list, or the text of a #[kernel] function. Only
this computer can open the page, by the address that is printed. The part of the address after `#` is the state of the page: append
it to the address that the next start prints.";

pub(crate) fn command() -> Command {
    Command::new("explore")
        .about("Explore layouts and kernels on a page in the browser")
        .arg(
            option("port", "N", "The port of the loopback interface; 0 is a free one")
                .default_value("0")
                .value_parser(value_parser!(u16)),
        )
        .arg(Arg::new("answer").long("answer").hide(true))
        .after_help(format!("{EXAMPLES}\n\n{ABOUT}"))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    match matches.get_one::<String>("answer") {
        Some(question) => finish(answers::print(question)),
        None => finish(server::serve(matches.get_one("port").copied().unwrap_or(0))),
    }
}
