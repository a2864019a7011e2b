//! Does the simulator detect faults? Faults of a table are planted in hand-written programs: rings, roles, barriers, products,
//! bulk copies, clusters, atomic updates. Every seed must detect each of them, and none may report a fault in a correct
//! program. Others are made from kernels that ship (`shipped`).

#[path = "../../../sim/tests/common/mod.rs"]
mod common;
mod cut;
mod programs;
mod shipped;
mod table;

use std::collections::BTreeSet;

use tilewright_codegen::thread::Kernel;
use tilewright_sim::{Error, Fault, Options, run_program};

use tilewright_tests::by_all_cores;

use programs::Program;
use table::{Of, Planted};

/// Seeds in continuous integration.
const SEEDS: u64 = 20;
/// Seeds of `cargo xtask mutants`.
const MANY: u64 = 1000;

/// The fault that a seed shows; `None` is a wrong result without a fault.
fn shown(program: &Program, kernel: &Kernel, seed: u64) -> Result<(), Option<Box<Fault>>> {
    let options = Options { seed, count: false, threads: 1, ..Options::default() };
    match run_program(kernel, &program.args, &options) {
        Err(Error::Fault(fault)) => Err(Some(fault)),
        Err(error) => panic!("{}: {error}", kernel.name),
        Ok(done) => {
            let right =
                |(name, wanted): &(&str, Vec<f32>)| done.get::<f32>(name).is_ok_and(|got| got == *wanted);
            let counted = |(name, wanted): &(&str, Vec<i32>)| match done.get::<u64>(name) {
                Ok(words) => words.iter().copied().eq(wanted.iter().map(|count| *count as u64)),
                Err(_) => done.get::<i32>(name).is_ok_and(|got| got == *wanted),
            };
            let all = program.wanted.iter().all(right) && program.counts.iter().all(counted);
            all.then_some(()).ok_or(None)
        }
    }
}

/// The faults of a planted bug over all seeds: a line for the snapshot, or an error.
fn shown_faults(of: &Of, planted: &Planted, seeds: u64) -> Result<String, String> {
    let program = (of.program)();
    let mut kernel = program.kernel.clone();
    (planted.change)(&mut kernel);
    let allowed: BTreeSet<&str> = planted.kinds.split(" | ").collect();
    let mut kinds = BTreeSet::new();
    for seed in 0..seeds {
        match shown(&program, &kernel, seed) {
            Err(Some(fault)) if allowed.contains(&*format!("{:?}", fault.kind())) => {
                let text = fault.to_string();
                if !planted.texts.is_empty() && !planted.texts.iter().any(|part| text.contains(part)) {
                    return Err(format!(
                        "{}: {}\nthe text has none of {:?}\n{text}",
                        of.name, planted.name, planted.texts
                    ));
                }
                kinds.insert(format!("{:?}", fault.kind()));
            }
            Err(Some(fault)) => {
                return Err(format!(
                    "{}: {}\nthe table has {}\n{fault}",
                    of.name, planted.name, planted.kinds
                ));
            }
            Err(None) if allowed.contains("wrong result") => {
                kinds.insert("wrong result".into());
            }
            Err(None) => {
                return Err(format!("{}: {}\na wrong result with seed {seed}", of.name, planted.name));
            }
            Ok(()) => return Err(format!("{}: {}\nnothing with seed {seed}", of.name, planted.name)),
        }
    }
    let kinds: Vec<String> = kinds.into_iter().collect();
    Ok(format!("{}: {}\n    {}", of.name, planted.name, kinds.join(", ")))
}

/// Runs all planted bugs; returns lines, and undetected bugs.
fn review(seeds: u64) -> (Vec<String>, Vec<String>) {
    let all = table::all();
    let faults: Vec<(&Of, &Planted)> =
        all.iter().flat_map(|of| of.faults.iter().map(move |planted| (of, planted))).collect();
    let outcomes = by_all_cores(&faults, |(of, planted)| shown_faults(of, planted, seeds));
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(line) => lines.push(line),
            Err(text) => wrong.push(text),
        }
    }
    lines.push(format!("{} planted faults, {} of them found with every seed", faults.len(), lines.len()));
    (lines, wrong)
}

/// Runs the correct programs.
fn unbroken(seeds: u64) {
    let all = table::all();
    let wrong = by_all_cores(&all, |of| {
        let program = (of.program)();
        (0..seeds).find_map(|seed| {
            let fault = match shown(&program, &program.kernel, seed) {
                Ok(()) => return None,
                Err(Some(fault)) => fault.to_string(),
                Err(None) => "a wrong result".into(),
            };
            Some(format!("{} with seed {seed}: {fault}", of.name))
        })
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn planted_faults_are_found_with_every_seed() {
    let (lines, wrong) = review(SEEDS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    insta::assert_snapshot!("planted", lines.join("\n"));
}

#[test]
fn correct_programs_have_no_fault() {
    unbroken(SEEDS);
}

#[test]
#[ignore = "takes many minutes: `cargo xtask mutants`"]
fn a_thousand_seeds() {
    unbroken(MANY);
    let (lines, wrong) = review(MANY / 20);
    println!("{}", lines.join("\n"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
