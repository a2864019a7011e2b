//! Kernels of all kinds in the simulator. Tests that need no process of their own are modules of few programs, by subject:
//! linking a program takes longer than compiling a test.

mod ahead;
mod alternatives;
mod assertions;
mod breaks;
mod choreography;
mod claims;
mod clusters;
mod coordinates;
mod device;
mod edges;
mod elements;
mod empty_sums;
mod exact;
mod gallery;
mod integers;
mod lanes;
mod language;
mod lists;
mod masks;
mod memory;
mod models;
mod models_attention;
mod models_memory;
mod narrow;
mod one_call;
mod order;
mod overflow;
mod packed;
mod pages;
mod pairs;
mod parts;
mod pipelined;
mod probes;
mod ptx;
mod radix;
mod reductions;
mod reference;
mod rows;
mod scalars;
mod scans;
mod schedules;
mod semirings;
mod stages;
mod types;
mod updates;
mod views;

/// The outcomes of all variants.
#[track_caller]
fn run(def: &tilewright::KernelDef, args: &[tilewright_sim::Arg]) -> Vec<tilewright_sim::Outcome> {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error:?}"));
    let outcomes = tilewright_sim::run_every(&kernel, args, &Default::default())
        .unwrap_or_else(|error| panic!("{error}\n{}", kernel.source()));
    assert!(!outcomes.is_empty());
    outcomes
}

/// A result of every variant, in several schedules.
#[track_caller]
fn check_output<T: tilewright::Element + PartialEq + std::fmt::Debug>(
    def: &tilewright::KernelDef,
    args: &[tilewright_sim::Arg],
    output: &str,
    wanted: &[T],
) {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error:?}"));
    let options = tilewright_sim::Options { schedules: 3, ..Default::default() };
    let outcomes =
        tilewright_sim::run_every(&kernel, args, &options).unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcomes.is_empty());
    for outcome in outcomes {
        let got = outcome.get::<T>(output).unwrap();
        assert!(got == wanted, "variant {}: {got:?}\nwanted {wanted:?}", outcome.variant() + 1);
    }
}

/// Drawn inputs, and several schedules.
fn inputs(def: &tilewright::KernelDef) -> tilewright_tests::inputs::Inputs {
    tilewright_tests::inputs::inputs(def).schedules(3)
}

/// The results of every variant, in several schedules, are the results of the kernel's text.
#[track_caller]
fn check(def: &tilewright::KernelDef, args: &[tilewright_sim::Arg]) {
    let options = tilewright_sim::Options { schedules: 3, ..Default::default() };
    tilewright_fuzz::written_with(def, args, &options);
}
