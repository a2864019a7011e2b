//! The `tilewright` command, for the kernels that ship with tilewright.

use std::process::ExitCode;

fn main() -> ExitCode {
    tilewright_cli::shipped()
}
