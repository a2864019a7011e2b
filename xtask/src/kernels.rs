//! Kernels drawn at random against the meaning of their text, and faults planted in the generator that they must
//! find.

use crate::shell::{Outcome, cargo, run as spawn, step};

/// Arguments of the program, and whether a number follows.
const OPTIONS: &[(&str, bool)] = &[
    ("--seed", true),
    ("--seconds", true),
    ("--wrong", true),
    ("--unshrunk", false),
    ("--until-wrong", false),
    ("--whole", false),
    ("--targeted", false),
    ("--exchanges", false),
    ("--options", false),
];

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (planted, rest): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| *word == "--planted");
    let program = if planted.is_empty() { "kernels" } else { "planted" };
    if planted.is_empty() {
        check(&rest)?;
    }
    let mut command =
        cargo(["run", "--quiet", "--profile=fuzz", "--package=tilewright-fuzz", "--bin", program]);
    command.arg("--").args(rest);
    step(&format!("fuzz {program}"), || spawn(&mut command))
}

/// Refuses bad arguments before anything is built.
fn check(words: &[&String]) -> Outcome {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let number = match OPTIONS.iter().find(|option| option.0 == word.as_str()) {
            Some((_, false)) => continue,
            Some((option, true)) => words.next().ok_or_else(|| format!("{option} needs a number"))?,
            None => word,
        };
        if number.parse::<u64>().is_err() {
            return Err(format!(
                "`{number}` is not a number of kernels; for example: cargo xtask fuzz kernels 1000"
            ));
        }
    }
    Ok(())
}
