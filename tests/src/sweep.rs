//! Sweeps: tests over many cases. An ordinary run takes a share of them, which a seed draws; `cargo xtask sweep` runs all.
//!
//! `cargo xtask test` draws the seed from the commit, so that each commit runs another share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;

/// The environment variable: `all`, or a seed.
pub const VARIABLE: &str = "TILEWRIGHT_SWEEP";

/// The seed of this run; `None` if every case runs.
fn seed() -> Option<u64> {
    match std::env::var(VARIABLE) {
        Ok(text) if text == "all" => None,
        Ok(text) => {
            Some(text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is `{text}`: give a number, or `all`")))
        }
        Err(_) => Some(0),
    }
}

/// Whether every case runs.
pub fn is_full() -> bool {
    seed().is_none()
}

/// One of `parts` cases, at least one.
#[track_caller]
pub fn share<T>(cases: impl IntoIterator<Item = T>, parts: u64) -> Vec<T> {
    let cases: Vec<T> = cases.into_iter().collect();
    let Some(seed) = seed() else { return cases };
    let here = Location::caller();
    drawn(cases, parts, (seed, here.file(), here.line()))
}

/// The share without the environment: `key` decides which cases it has.
fn drawn<T>(cases: Vec<T>, parts: u64, key: impl Hash) -> Vec<T> {
    let number = |case: usize| {
        let mut hasher = DefaultHasher::new();
        (&key, case).hash(&mut hasher);
        hasher.finish()
    };
    let total = cases.len();
    let mut order: Vec<(usize, T)> = cases.into_iter().enumerate().collect();
    order.sort_by_key(|(case, _)| number(*case));
    order.truncate(total.div_ceil(parts as usize));
    order.sort_by_key(|(case, _)| *case);
    println!("{} of {total} cases; {VARIABLE}=all runs all of them", order.len());
    order.into_iter().map(|(_, case)| case).collect()
}

/// Whether a case runs that is as long as many others: once in `parts` seeds.
#[track_caller]
pub fn runs(parts: u64) -> bool {
    let Some(seed) = seed() else { return true };
    let here = Location::caller();
    let mut hasher = DefaultHasher::new();
    (seed, here.file(), here.line()).hash(&mut hasher);
    let runs = hasher.finish().is_multiple_of(parts);
    println!("{}; {VARIABLE}=all runs it", if runs { "drawn" } else { "not drawn" });
    runs
}

/// A number of random cases: `full` in a sweep, `quick` otherwise.
pub fn count(quick: u64, full: u64) -> u64 {
    if is_full() { full } else { quick }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_different_shares_of_the_same_size() {
        let all: Vec<u32> = (0..100).collect();
        let shares: Vec<Vec<u32>> = (0..40).map(|seed| drawn(all.clone(), 8, seed)).collect();
        assert!(shares.iter().all(|share| share.len() == 13 && share.is_sorted()));
        assert!(all.iter().all(|case| shares.iter().any(|share| share.contains(case))));
        assert_eq!(drawn(vec![7], 8, 1), [7]);
        assert!(drawn(Vec::<u32>::new(), 8, 1).is_empty());
    }
}
