//! Kernels as a newcomer would write them from the documentation of the language, each at most a page, compared
//! with double precision in every variant, at sizes that tiles do not divide.

mod arithmetic;
mod decoding;
mod detection;
mod differences;
mod elements;
mod gathers;
mod gradients;
mod graphs;
mod identifiers;
mod images;
mod learning;
mod lists;
mod models;
mod moves;
mod names;
mod neighbours;
mod numbers;
mod pictures;
mod producers;
mod products;
mod rows;
mod sciences;
mod searches;
mod serving;
mod sparse;
mod steps;
mod sums;
mod systems;
mod tiles;
mod training;
mod transformed;
mod tuples;
mod week;
mod weights;
mod windows;

use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, Outcome, run_every};

/// The generated kernel of a function.
macro_rules! generated {
    ($kernel:expr) => {
        $kernel.def().generate().unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
    };
}
pub(crate) use generated;

/// Numbers between -4 and 4.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    words(count, seed).into_iter().map(|word| (word % 2001) as f32 / 250.0 - 4.0).collect()
}

/// Integers between 0 and a limit.
fn below(limit: i32, count: usize, seed: u64) -> Vec<i32> {
    words(count, seed).into_iter().map(|word| (word % limit as u64) as i32).collect()
}

fn words(count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 40
    };
    (0..count).map(|_| next()).collect()
}

/// The results of every variant.
#[track_caller]
fn every(kernel: Generated, args: &[Arg]) -> Vec<Outcome> {
    run_every(&kernel, args, &Options::default()).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Every variant's result is right within a relative bound; an empty result is right if no element is expected.
#[track_caller]
fn right(kernel: Generated, args: &[Arg], name: &str, wanted: &[f64], within: f64) {
    for outcome in every(kernel, args) {
        close(&outcome.get::<f32>(name).unwrap(), wanted, within);
    }
}

#[track_caller]
fn close(got: &[f32], wanted: &[f64], within: f64) {
    assert_eq!(got.len(), wanted.len());
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let same = f64::from(*got) == *wanted || got.is_nan() && wanted.is_nan();
        let off = (f64::from(*got) - wanted).abs();
        assert!(same || off <= within * (1.0 + wanted.abs()), "element {at} is {got}, and {wanted} is right");
    }
}

/// A row-major matrix.
fn rows(data: &[f32], m: usize, n: usize) -> Arg {
    Arg::tensor(data, [m, n]).strides([n, 1])
}

/// A row-major result.
fn rows_out(m: usize, n: usize) -> Arg {
    Arg::output::<f32>([m, n]).strides([n, 1])
}
