//! `cargo xtask`: commands for contributors.
//!
//! Each word is a row of [`TASKS`], and has a module of the same name. Standard library only,
//! so that the first `cargo xtask` in a fresh clone takes a second.

mod bench;
mod bundle;
mod calibrate;
mod ci;
mod disassembler;
mod first_run;
mod fuzz;
mod gpu_test;
mod kernels;
mod machine_code;
mod mutants;
mod nvrtc;
mod pip;
mod publish;
mod setup;
mod shell;
mod snapshots;
mod test;
mod times;
mod words;

use shell::Outcome;
use std::process::ExitCode;

struct Task {
    word: &'static str,
    arguments: &'static str,
    purpose: &'static str,
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task {
        word: "test",
        arguments: "[cargo test arguments]",
        purpose: "set up what the tests need and run them all, documentation examples included",
        run: test::run,
    },
    Task {
        word: "ci",
        arguments: "",
        purpose: "formatting, clippy, tests, documentation, packaging: what a change must pass",
        run: ci::run,
    },
    Task {
        word: "first-run",
        arguments: "",
        purpose: "the first commands of the README, and its first program in an empty folder",
        run: |_| first_run::run(),
    },
    Task {
        word: "sweep",
        arguments: "[cargo test arguments]",
        purpose: "the same with every case of the tests that otherwise run a share of their cases: half an hour",
        run: test::sweep,
    },
    Task {
        word: "snapshots",
        arguments: "[cargo test arguments]",
        purpose: "bless: rewrite the expected output of snapshot tests; review it with `git diff`",
        run: snapshots::run,
    },
    Task {
        word: "fuzz",
        arguments: "[seconds]",
        purpose: "run the tests named fuzz_* on random input for that long (default 60)",
        run: fuzz::run,
    },
    Task {
        word: "fuzz kernels",
        arguments: "[count] [--seed n] [--planted [--sample n]]",
        purpose: "kernels drawn at random against a plain reference (default 10,000), or planted faults",
        run: kernels::run,
    },
    Task {
        word: "calibrate",
        arguments: "",
        purpose: "fit the rates of the estimate to measured times; prints what to write",
        run: calibrate::run,
    },
    Task {
        word: "mutants",
        arguments: "",
        purpose: "the simulator on right and on broken kernels, with 1,000 seeds: some minutes",
        run: mutants::run,
    },
    Task {
        word: "machine-code",
        arguments: "[save]",
        purpose: "before and after a change of the generator: shipped kernels whose machine code differs",
        run: machine_code::run,
    },
    Task {
        word: "bench",
        arguments: "[cargo bench arguments]",
        purpose: "run the benchmarks",
        run: bench::run,
    },
    Task {
        word: "bundle",
        arguments: "[--out FOLDER]",
        purpose: "everything that a machine with a GPU needs, in one folder (default .bundle)",
        run: bundle::run,
    },
    Task {
        word: "gpu-test",
        arguments: "[words of run.sh]",
        purpose: "run that on this machine's GPU, tests and sanitize by default; skip where there is none",
        run: gpu_test::run,
    },
    Task {
        word: "setup",
        arguments: "",
        purpose: "only obtain what the tests need (NVRTC, nvdisasm, a model); `test` does this by itself",
        run: setup::run,
    },
    Task {
        word: "words",
        arguments: "[--bless]",
        purpose: "long sentences of documents, and words to avoid against limits that only go down; or lower the limits",
        run: words::run,
    },
    Task { word: "help", arguments: "", purpose: "print this list", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((word, rest)) = arguments.split_first()
        && word == times::WORD
    {
        eprintln!("error: {}", times::become_test(rest));
        return ExitCode::FAILURE;
    }
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let Some((word, rest)) = arguments.split_first() else {
        return Err(format!("say what to do\n\n{}", usage()));
    };
    if matches!(word.as_str(), "-h" | "--help") {
        return help(rest);
    }
    let Some(task) = TASKS.iter().find(|task| task.word == word) else {
        return Err(format!("`cargo xtask {word}` does not exist\n\n{}", usage()));
    };
    if task.arguments.is_empty() && !rest.is_empty() {
        return Err(format!("`cargo xtask {word}` takes no arguments, but was given `{}`", rest.join(" ")));
    }
    (task.run)(rest)
}

fn help(_: &[String]) -> Outcome {
    print!("{}", usage());
    Ok(())
}

fn usage() -> String {
    let mut text = String::from("Usage: cargo xtask <task>\n\n");
    for task in TASKS {
        let call = format!("{} {}", task.word, task.arguments);
        text += &format!("  {call:<44}{}\n", task.purpose);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(line: &str, expected: &str) {
        let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
        let message = dispatch(&arguments).expect_err("should be refused");
        assert!(message.contains(expected), "`{line}` answered: {message}");
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        check_refused("", "say what to do");
        check_refused("tset", "`cargo xtask tset` does not exist");
        check_refused("tset", "  test [cargo test arguments]");
        check_refused("ci quickly please", "takes no arguments, but was given `quickly please`");
        check_refused("fuzz soon", "`soon` is not a number of seconds");
        check_refused("fuzz 0", "`0` is not a number of seconds");
        check_refused("fuzz 1 2", "one number of seconds");
        check_refused("fuzz kernels many", "`many` is not a number of kernels");
    }
}
