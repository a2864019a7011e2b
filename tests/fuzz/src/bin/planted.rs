//! `cargo xtask fuzz kernels --planted`: mutation testing, with faults in a copy of the generator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tilewright_fuzz::planted::{MOST_MISSED, Search, search};

fn main() -> ExitCode {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf);
    let mut words = std::env::args().skip(1);
    let count = words.next().and_then(|text| text.parse().ok()).unwrap_or(4000);
    match search(&Search { root, count, only: words.collect() }) {
        Ok(missed) if missed <= MOST_MISSED => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("error: {missed} faults were not found, and {MOST_MISSED} is the most");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
