//! `cargo xtask fuzz kernels --planted`: mutation testing, with faults in a copy of the generator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use tilewright_fuzz::planted::{MOST_MISSED, Search, search};

fn main() -> ExitCode {
    let outcome = options().and_then(|options| {
        let most = if options.sample.is_some() { 0 } else { MOST_MISSED };
        match search(&options)? {
            missed if missed <= most => Ok(()),
            missed => Err(format!("{missed} faults were not found, and {most} is the most")),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// `[COUNT] [--sample FAULTS [--seed SEED]] [WORD …]`; a sample without a seed is another one for each run.
fn options() -> Result<Search, String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf);
    let mut search = Search { root, count: 10_000, only: Vec::new(), sample: None };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let (mut sample, mut seed) = (None, now);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = |option: &str| -> Result<u64, String> {
            let text = words.next().ok_or_else(|| format!("{option} needs a number"))?;
            text.parse().map_err(|_| format!("`{text}` is not a number"))
        };
        match word.as_str() {
            "--sample" => sample = Some(number("--sample")? as usize),
            "--seed" => seed = number("--seed")?,
            text => match text.parse() {
                Ok(count) => search.count = count,
                Err(_) => search.only.push(word),
            },
        }
    }
    search.sample = sample.map(|count| (count, seed));
    Ok(search)
}
