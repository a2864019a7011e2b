//! The list of alternatives that the estimate prunes a space to.

use std::collections::BTreeMap;

use tilewright_codegen::Generated;
use tilewright_codegen::launch::ranking;

use super::without_alternatives;
use crate::choose::left_out;
use crate::kernel;
use crate::output::{self, Failure, Result};
use crate::run::input::Input;
use crate::run::problem::unallocated;

/// An alternative is left out if no size takes longer by more than this part without it.
const MAX_LOSS: f64 = 0.01;

/// The alternatives that are the fastest at some sizes, with their numbers, and a list for `choose`.
pub(super) fn pruned(kernel: &Generated, all: &[String], inputs: &[Input]) -> Result<String> {
    let limits = kernel::limits(kernel);
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    for one in all {
        let (_, given) = unallocated(kernel, Some(one), inputs)?;
        let ranking = ranking(kernel, &given, &limits).map_err(|why| Failure::of(format!("{one}: {why}")))?;
        let mut times = BTreeMap::new();
        for ranked in &ranking.serves {
            let Some(estimate) = ranked.estimate.filter(|_| ranked.competes) else { continue };
            let name = kernel.alternative(ranked.variant);
            let number = names.iter().position(|known| *known == name).unwrap_or(names.len());
            if number == names.len() {
                names.push(name);
            }
            let time = times.entry(number).or_insert(f64::INFINITY);
            *time = estimate.seconds().min(*time);
        }
        sizes.push(times);
    }
    if names.is_empty() {
        return Err(without_alternatives(kernel));
    }
    let kept = kept(names.len(), &sizes);
    let firsts: Vec<usize> =
        sizes.iter().filter_map(|times| fastest(times, &kept)).map(|(at, _)| at).collect();
    let count = |at: usize| firsts.iter().filter(|first| **first == at).count();
    let mut rows: Vec<(usize, &str)> = kept.iter().map(|at| (count(*at), names[*at].as_str())).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    let cells = rows.iter().map(|(count, name)| vec![count.to_string(), (*name).to_owned()]);
    let table = output::table(&["sizes", "alternative"], cells, &[0]);
    let kept: Vec<&str> = rows.iter().map(|row| row.1).collect();
    let list = choose(&kept).map_or_else(String::new, |list| format!("\n{list}\n"));
    Ok(format!(
        "{} of {} alternatives, by the number of sizes at which each is the fastest\n{table}{list}{}",
        rows.len(),
        names.len(),
        left_out(kernel)
    ))
}

/// The fastest of the kept alternatives, and its time.
fn fastest(times: &BTreeMap<usize, f64>, kept: &[usize]) -> Option<(usize, f64)> {
    let known = times.iter().filter(|(at, _)| kept.contains(at)).map(|(at, time)| (*at, *time));
    known.min_by(|one, other| one.1.total_cmp(&other.1))
}

/// The alternatives that are needed. Those whose loss is least are left out first.
fn kept(count: usize, sizes: &[BTreeMap<usize, f64>]) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..count).collect();
    let best = |times: &BTreeMap<usize, f64>| times.values().copied().fold(f64::INFINITY, f64::min);
    let best: Vec<f64> = sizes.iter().map(best).collect();
    let loss = |kept: &[usize]| {
        let loss_at = |(times, best): (&BTreeMap<usize, f64>, &f64)| match times.is_empty() {
            true => 0.0,
            false => fastest(times, kept).map_or(f64::INFINITY, |(_, time)| time / best - 1.0),
        };
        sizes.iter().zip(&best).map(loss_at).fold(0.0, f64::max)
    };
    loop {
        let without = |at: &usize| kept.iter().copied().filter(|other| other != at).collect::<Vec<_>>();
        let losses = kept.iter().map(without).map(|others| (loss(&others), others));
        match losses.min_by(|one, other| one.0.total_cmp(&other.0)) {
            Some((loss, others)) if loss <= MAX_LOSS => kept = others,
            _ => return kept,
        }
    }
}

/// `choose((BM, BN) in [(128, 256), (64, 128)])`; `None` if the alternatives are not values of constants.
fn choose(alternatives: &[&str]) -> Option<String> {
    let rows: Vec<Vec<(&str, &str)>> = alternatives
        .iter()
        .map(|name| name.split(", ").map(|pair| pair.split_once(" = ")).collect())
        .collect::<Option<_>>()?;
    let tuple = |items: Vec<&str>| match &items[..] {
        [one] => (*one).to_owned(),
        all => format!("({})", all.join(", ")),
    };
    let names = tuple(rows.first()?.iter().map(|pair| pair.0).collect());
    let values: Vec<String> = rows.iter().map(|row| tuple(row.iter().map(|pair| pair.1).collect())).collect();
    Some(format!("choose({names} in [{}])", values.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_that_others_replace_are_left_out() {
        let sizes = [
            BTreeMap::from([(0, 1.0), (1, 1.005), (2, 3.0)]),
            BTreeMap::from([(0, 2.0), (1, 1.9), (2, 1.0)]),
            BTreeMap::from([(1, 5.0), (2, 4.99)]),
        ];
        assert_eq!(kept(3, &sizes), [0, 2]);
        assert_eq!(
            choose(&["BM = 64, BN = 8", "BM = 1, BN = 2"]).unwrap(),
            "choose((BM, BN) in [(64, 8), (1, 2)])"
        );
        assert_eq!(choose(&["PART = 64", "PART = 1"]).unwrap(), "choose(PART in [64, 1])");
        assert_eq!(choose(&["variant 3"]), None);
    }
}
