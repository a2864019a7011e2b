//! `tilewright-parallel`: layers on several GPUs, checked, made to fail, and measured.
//!
//! - `check [SEED]`: all layers on one and on two devices, in one process and in a process each;
//! - `faults [RUNS] [KILLS]`: random runs in which a rank fails, and pairs of processes, one of them killed;
//! - `bench`: a column and a row layer on one and on two devices.
//!
//! Results are lines of text; `bench` also writes lines of JSON to `$OUT/parallel.json`.
#![allow(unsafe_code)]

mod bench;
mod check;
mod faults;
mod reference;

use std::process::{Command, ExitCode};

use tilewright::parallel::{Error, Group, Meeting, Options, Rank};
use tilewright::runtime::Graph;
use tilewright::{Device, Stream};

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number =
        |at: usize, default: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(default);
    let outcome = match words.first() {
        Some(&"check") => check(number(1, 1) as u64),
        Some(&"faults") => faulty(number(1, 1000), number(2, 16), number(3, 1) as u64),
        Some(&"bench") => bench::run(),
        Some(&"worker") => return worker(words.get(1).copied().unwrap_or_default()),
        _ => Err("write `check`, `faults` or `bench`".into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Captures launches whose tensors the caller keeps alive for as long as the graph.
fn capture(stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
    let mut failed = None;
    // SAFETY: callers keep tensors, make none in `work`, and use the stream in one thread.
    let graph = unsafe {
        stream.capture(|| {
            failed = work().err();
            Ok(())
        })
    };
    match failed {
        Some(error) => Err(error),
        None => Ok(graph?),
    }
}

/// Prints checks. Are all errors within their bounds?
fn report(what: &str, outcomes: &[check::Outcome]) -> bool {
    let worst = outcomes.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    for (name, error) in outcomes.iter().filter(|(_, error)| *error > 1.0) {
        println!("WRONG {what}: {name}: {error:.2} of the bound");
    }
    println!("{what}: {} checks, the largest error is {worst:.2} of its bound", outcomes.len());
    worst <= 1.0
}

/// The numbers of ranks for which there are devices, at most two.
fn devices() -> Anything<Vec<usize>> {
    let count = Device::all()?.len().min(2);
    if count < 2 {
        println!("two devices are needed for the rest; there is one");
    }
    Ok((0..count).collect())
}

fn check(seed: u64) -> Anything<bool> {
    let (mut good, all) = (true, devices()?);
    for count in 1..=all.len() {
        let start = std::time::Instant::now();
        let mut group =
            Group::new(&all[..count], Options { blocks: (count > 1).then_some(8), ..Options::default() })?;
        println!("{count} ranks connected in {:.1?}", start.elapsed());
        let outcomes = group.run(|rank, stream| check::run(rank, stream, seed))?;
        for (rank, outcomes) in outcomes.iter().enumerate() {
            good &= report(&format!("one process, rank {rank} of {count}"), outcomes);
        }
    }
    Ok(good & check_processes(all.len())?)
}

/// This program again, as one of two processes.
fn command(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["worker", task]);
    command
}

/// All checks in processes, one for each device.
fn check_processes(count: usize) -> std::io::Result<bool> {
    let all: Vec<_> = (0..count).map(|rank| faults::start(command("check"), 29_500, [rank, count])).collect();
    let mut good = true;
    for (rank, child) in all.into_iter().enumerate() {
        let output = child?.wait_with_output()?;
        good &= output.status.success();
        if rank == 0 || !output.status.success() {
            print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(good)
}

fn faulty(runs: usize, kills: usize, seed: u64) -> Anything<bool> {
    // Panics are expected, so their messages are of no use.
    std::panic::set_hook(Box::new(|_| {}));
    let all = devices()?;
    let here = faults::in_process(&all, runs, seed, runs / 40, true)?;
    let kills = if all.len() > 1 { kills } else { 0 };
    let there = faults::of_processes(&|| command("endless"), kills, seed)?;
    for (what, tally) in [("one process", &here), ("two processes, one killed", &there)] {
        println!(
            "{what}: {} runs, {} groups, the longest took {:.2?}, {} were wrong",
            tally.runs,
            tally.groups,
            tally.longest,
            tally.wrong.len()
        );
        tally.wrong.iter().take(10).for_each(|wrong| println!("  WRONG {wrong}"));
    }
    Ok(here.wrong.is_empty() && there.wrong.is_empty())
}

fn worker(task: &str) -> ExitCode {
    let checked = || -> Result<bool, Error> {
        let mut rank = Rank::join(&Meeting::from_env()?, Options { blocks: Some(8), ..Options::default() })?;
        let stream = rank.device().stream()?;
        let outcomes = check::run(&mut rank, &stream, 2)?;
        let good = report(&format!("a process each, rank {} of {}", rank.rank(), rank.ranks()), &outcomes);
        rank.finish()?;
        Ok(good)
    };
    let outcome = if task == "check" { checked() } else { faults::work_endlessly().map(|()| true) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}
