//! Statements on whole tiles take effect in program order: by waits and barriers, which the simulator checks, or the kernel is
//! refused.

mod in_flight;
mod pairs;
mod producers;

use tilewright_codegen::definition::Generated;
use tilewright_codegen::element::Element;
use tilewright_sim::{Arg, Options, run_every};

/// Runs every variant of a kernel with many schedules, which must all be right: the elements of one of its tensors.
#[track_caller]
fn run_all<T: Element>(kernel: &Generated, args: &[Arg], name: &str, seeds: u64) -> Vec<Vec<T>> {
    let options = |seed| Options { seed, written_once: false, ..Options::default() };
    let all = (0..seeds).flat_map(|seed| {
        run_every(kernel, args, &options(seed)).unwrap_or_else(|fault| panic!("{fault}\n{}", kernel.source()))
    });
    all.map(|outcome| outcome.get::<T>(name).expect("a tensor")).collect()
}
