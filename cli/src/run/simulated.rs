//! A kernel in the simulator, with a progress bar.

use std::io::IsTerminal;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use tilewright_codegen::element::Element;
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::{Generated, with_element};
use tilewright_sim::{Arg, Error, OnEvent, OnProgress, Options, Outcome};

use super::problem::{Argument, Problem, Tensor, decoded, encoded};

/// The command line's settings of a run.
pub(super) struct Wanted {
    pub(super) seed: u64,
    pub(super) schedules: u32,
    /// The kernel's source location, for faults.
    pub(super) locations: Locations,
    /// Receives the events of its first cluster.
    pub(super) events: Option<OnEvent>,
}

/// The outcome of a run in the simulator.
pub(super) struct Ran {
    /// Results as stored, in the order of the written tensors.
    pub(super) results: Vec<Vec<f64>>,
    pub(super) outcome: Outcome,
}

pub(super) fn run(kernel: &Generated, problem: &Problem, wanted: &Wanted) -> Result<Ran, Error> {
    let arguments: Vec<Arg> = problem.arguments.iter().map(argument).collect();
    let bar = bar("  {bar:40} {pos} of {len} blocks, {eta} left");
    let progress: Option<OnProgress> = bar.clone().map(|bar| -> OnProgress {
        Arc::new(move |progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        })
    });
    let Wanted { seed, schedules, locations, events } = wanted;
    let (locations, events) = (Some(locations.clone()), events.clone());
    let options =
        Options { seed: *seed, schedules: *schedules, progress, locations, events, ..Options::default() };
    let outcome = tilewright_sim::run(kernel, &arguments, &options);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let outcome = outcome?;
    let results: Result<Vec<Vec<f64>>, Error> =
        problem.tensors().filter(|tensor| tensor.written).map(|tensor| result(&outcome, tensor)).collect();
    Ok(Ran { results: results?, outcome })
}

/// A progress bar, on a terminal only.
pub(crate) fn bar(template: &str) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template(template);
    Some(ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
}

fn argument(argument: &Argument) -> Arg {
    match argument {
        Argument::Number { elem, value, .. } => {
            with_element!(*elem, T => Arg::number(T::from_raw(encoded(*elem, *value))))
        }
        Argument::Tensor(tensor) => with_element!(tensor.elem, T => {
            let values: Vec<T> =
                tensor.values.iter().map(|&value| T::from_raw(encoded(tensor.elem, value))).collect();
            let extents = tensor.extents.iter().copied();
            let arg = match (tensor.written, tensor.read) {
                (false, _) => Arg::tensor(&values, extents),
                (true, true) => Arg::in_out(&values, extents),
                (true, false) => Arg::output::<T>(extents),
            };
            arg.strides(tensor.strides.iter().copied())
        }),
    }
}

fn result(outcome: &Outcome, tensor: &Tensor) -> Result<Vec<f64>, Error> {
    with_element!(tensor.elem, T => {
        let values = outcome.get::<T>(&tensor.name)?;
        Ok(values.into_iter().map(|value| decoded(tensor.elem, value.to_raw())).collect())
    })
}

#[cfg(test)]
mod tests {
    use tilewright::prelude::*;
    use tilewright_sim::Error;

    use super::{Problem, Wanted, run};

    /// All blocks write the first tile.
    #[kernel(allow(unbounded))]
    fn mistaken<const T: usize = 32>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
        let threads = layout!((32, 8));
        let from = parallelize(tile(x, (T, T), (block.x, block.y)), threads, thread.x);
        copy(from, parallelize(tile(y, (T, T), (0, block.y)), threads, thread.x));
    }

    #[test]
    fn a_fault_names_its_seed() {
        let kernel = mistaken().def().generate().unwrap();
        let Ok(problem) = Problem::new(&kernel, Some("70,40"), &[], 3) else { panic!("there is a problem") };
        let locations = mistaken().def().locations();
        let wanted = Wanted { seed: 3, schedules: 2, locations, events: None };
        let Err(Error::Fault(fault)) = run(&kernel, &problem, &wanted) else { panic!("it has a fault") };
        let message = fault.to_string();
        assert!(message.starts_with("kernel `mistaken`: a race\n"), "{message}");
        assert!(
            message.contains("at cli/src/run/simulated.rs:") && message.ends_with("with seed 3"),
            "{message}"
        );
    }
}
