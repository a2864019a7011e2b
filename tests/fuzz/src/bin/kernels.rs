//! `cargo xtask fuzz kernels`: runs this many random kernels and prints the tally.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::run::{Batch, run};

fn main() -> ExitCode {
    let (batch, until_wrong) = match batch() {
        Ok(read) => read,
        Err(message) => {
            eprintln!(
                "error: {message}\nusage: kernels [COUNT] [--whole | --targeted | --exchanges | --options] [--seed FIRST] [--seconds MOST] [--wrong MOST] [--unshrunk] [--until-wrong]"
            );
            return ExitCode::FAILURE;
        }
    };
    // Panics of the code under test are results.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    if until_wrong {
        let tally = run(&Batch { most_wrong: 1, shrinks: false, ..batch });
        return match tally.wrong.first_key_value() {
            Some((_, why)) => {
                println!("wrong after {} kernels\n{why}", tally.drawn());
                ExitCode::FAILURE
            }
            None => ExitCode::SUCCESS,
        };
    }
    let tally = run(&batch);
    println!("{}", tally.text());
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    // At least 1 in 250 if there are many; of whole tiles, whose kernels are shorter, 1 in 1000; of one interplay, any.
    let share = match batch.kind {
        Kind::Parts => Some(250),
        Kind::Whole => Some(1000),
        Kind::Targeted | Kind::Exchanges | Kind::Options => None,
    };
    let least = match share {
        Some(share) if tally.drawn() >= 2000 => (tally.drawn() / share) as u32,
        _ => 0,
    };
    let complaints = tally.complaints(least);
    for complaint in &complaints {
        println!("\n{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The options, and whether to stop at the first failure.
fn batch() -> Result<(Batch, bool), String> {
    let mut batch = Batch::default();
    let (mut words, mut counted, mut until_wrong) = (std::env::args().skip(1), false, false);
    while let Some(word) = words.next() {
        let mut number = |of: &str| -> Result<u64, String> {
            let text = words.next().ok_or_else(|| format!("{of} needs a number"))?;
            text.parse().map_err(|_| format!("`{text}` is not a number"))
        };
        match word.as_str() {
            "--seed" => {
                batch.first = number("--seed")?;
                if !counted {
                    batch.count = 1;
                }
            }
            "--seconds" => batch.time = Duration::from_secs(number("--seconds")?),
            "--wrong" => batch.most_wrong = number("--wrong")? as usize,
            "--until-wrong" => until_wrong = true,
            "--unshrunk" => batch.shrinks = false,
            option if Kind::OPTIONS.iter().any(|of| of.0 == option) => {
                batch.kind = Kind::OPTIONS.iter().find(|of| of.0 == option).map_or(batch.kind, |of| of.1);
            }
            count => {
                batch.count = count.parse().map_err(|_| format!("`{count}` is not a number of kernels"))?;
                counted = true;
            }
        }
    }
    Ok((batch, until_wrong))
}
