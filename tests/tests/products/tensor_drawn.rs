//! Random products on tensor cores: types, architectures, tiles, warps, stages, orders, epilogues and sizes. Each is right
//! in the simulator, or refused for a limit of the hardware.

use std::ops::Range;
use std::panic::catch_unwind;

use tilewright_codegen::Generated;
use tilewright_codegen::launch::Limits;
use tilewright_sim::{Options, run_every};
use tilewright_tests::configuration::{Configuration, Scale};
use tilewright_tests::{by_all_cores, sweep};

/// Draws in an ordinary run; `TILEWRIGHT_PRODUCTS` sets another number, or a range, 200..600.
const DRAWS: u64 = 60;

/// Draws that are generated only; the same variable sets others.
const GENERATED: u64 = 200;
/// The seed of the first of these.
const AFTER: u64 = 10_000;

/// Sizes at which a drawn product runs as well: of single rows and columns, and of sums of no or one product.
const EXTREMES: [[usize; 3]; 4] = [[1, 18, 1], [21, 1, 40], [2, 17, 0], [1, 2, 33]];

/// The kernel of a configuration, or why it was refused for a limit; otherwise the error.
fn kernel(of: &Configuration) -> Result<Result<Generated, String>, String> {
    let about = |why: String| format!("{}\n{why}", of.text());
    match catch_unwind(|| of.kernel()) {
        Ok(Ok(kernel)) if kernel.empty_loops.iter().all(|empty_loops| empty_loops.variant().is_some()) => {
            Ok(Ok(kernel))
        }
        Ok(Ok(_)) => Err(about("there is no kernel for a size of 0".into())),
        Ok(Err(why)) if Configuration::names_a_limit(&why) => Ok(Err(about(why))),
        Ok(Err(why)) => Err(about(why)),
        Err(_) => Err(about("it panics".into())),
    }
}

/// The error of a configuration; whether it was refused for a limit, and why.
fn fault(seed: u64) -> Result<Option<String>, String> {
    let drawn = Configuration::draw(seed, Scale::Small);
    let kernel = match kernel(&drawn)? {
        Ok(kernel) => kernel,
        Err(refused) => return Ok(Some(refused)),
    };
    let limits = Limits { multiprocessors: 4, ..Limits::of(drawn.arch()) };
    let options = Options { limits, ..Options::default() };
    let extremes = EXTREMES.map(|sizes| drawn.sized(sizes));
    for of in std::iter::once(&drawn).chain(&extremes) {
        let problem = of.problem(&kernel);
        let outcomes = match run_every(&kernel, &problem.args(), &options) {
            Ok(outcomes) => outcomes,
            Err(why) if of.is_empty(&why.to_string()) => continue,
            Err(why) => return Err(format!("{}\n{why}", of.text())),
        };
        if let Some(wrong) = outcomes.iter().find_map(|outcome| problem.wrong_outcome(outcome)) {
            return Err(format!("{}\n{wrong}", of.text()));
        }
    }
    Ok(None)
}

/// The requested seeds.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(asked) = std::env::var("TILEWRIGHT_PRODUCTS") else { return usual };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("TILEWRIGHT_PRODUCTS is `{asked}`"));
    match asked.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&asked),
    }
}

/// Runs each seed: whether it is refused for a limit, and why, or the error.
#[track_caller]
fn judge(seeds: Range<u64>, fault: impl Fn(u64) -> Result<Option<String>, String> + Sync) {
    let seeds: Vec<u64> = seeds.collect();
    let count = seeds.len();
    let mut all = by_all_cores(&seeds, |&seed| (seed, fault(seed)));
    all.sort_by_key(|(seed, _)| *seed);
    let wrong: Vec<&str> = all.iter().filter_map(|(_, one)| one.as_ref().err().map(String::as_str)).collect();
    let refused: Vec<&str> = all.iter().filter_map(|(_, one)| one.as_ref().ok()?.as_deref()).collect();
    eprintln!("{} of {count} are refused\n{}", refused.len(), refused.join("\n"));
    assert!(wrong.is_empty(), "{} of {count} are wrong\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(refused.len() * 10 <= count, "{} of {count} are refused", refused.len());
}

#[test]
fn random_products_on_tensor_cores() {
    judge(seeds(0..sweep::count(DRAWS / 3, DRAWS)), fault);
}

/// Refusals are at a key.
#[test]
fn random_products_have_kernels() {
    judge(seeds(AFTER..AFTER + sweep::count(GENERATED / 4, GENERATED)), |seed| {
        Ok(kernel(&Configuration::draw(seed, Scale::Small))?.err())
    });
}
