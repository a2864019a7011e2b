//! Random products on tensor cores: types, architectures, tiles, warps, stages, orders, epilogues and sizes. Each is right
//! in the simulator, or refused for a limit of the hardware.

use tilewright_codegen::launch::Limits;
use tilewright_sim::{Options, run_every};
use tilewright_tests::by_all_cores;
use tilewright_tests::configuration::{Configuration, Scale};

/// Draws in an ordinary run; `TILEWRIGHT_PRODUCTS` sets another number, or a range, 200..600.
const DRAWS: u64 = 60;

/// What is wrong with a configuration; whether it was refused for a limit, and why.
fn fault(seed: u64) -> Result<Option<String>, String> {
    let of = Configuration::draw(seed, Scale::Small);
    let about = |why: String| format!("{}\n{why}", of.text());
    let kernel = match of.kernel() {
        Ok(kernel) => kernel,
        Err(why) if Configuration::names_a_limit(&why) => return Ok(Some(about(why))),
        Err(why) => return Err(about(why)),
    };
    let problem = of.problem(&kernel);
    let limits = Limits { multiprocessors: 4, ..Limits::of(of.arch()) };
    let outcomes = match run_every(&kernel, &problem.args(), &Options { limits, ..Options::default() }) {
        Ok(outcomes) => outcomes,
        Err(why) if of.is_empty(&why.to_string()) => return Ok(None),
        Err(why) => return Err(about(why.to_string())),
    };
    match outcomes.iter().find_map(|outcome| problem.wrong_outcome(outcome)) {
        None => Ok(None),
        Some(wrong) => Err(about(wrong)),
    }
}

/// The seeds that are asked for.
fn seeds() -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("TILEWRIGHT_PRODUCTS") else { return 0..DRAWS };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("TILEWRIGHT_PRODUCTS is `{asked}`"));
    match asked.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&asked),
    }
}

#[test]
fn random_products_on_tensor_cores() {
    let seeds: Vec<u64> = seeds().collect();
    let count = seeds.len();
    let mut all = by_all_cores(&seeds, |&seed| (seed, fault(seed)));
    all.sort_by_key(|(seed, _)| *seed);
    let wrong: Vec<&str> = all.iter().filter_map(|(_, one)| one.as_ref().err().map(String::as_str)).collect();
    let refused: Vec<&str> = all.iter().filter_map(|(_, one)| one.as_ref().ok()?.as_deref()).collect();
    eprintln!("{} of {count} are refused\n{}", refused.len(), refused.join("\n"));
    assert!(wrong.is_empty(), "{} of {count} are wrong\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(refused.len() * 10 <= count, "{} of {count} are refused", refused.len());
}
