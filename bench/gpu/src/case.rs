//! A case: one problem and its contenders, which are checked and then measured against each other.

use super::Result;
use super::driver::Device;
use super::helpers::{Error, Helpers};
use super::nvml::Reading;
use tilewright_cli::measure::{self, Effort, Samples, Timer};

/// One problem.
pub(crate) struct Case<'a> {
    /// `gemm f32 nt`
    pub(crate) suite: String,
    /// `4096x4096x4096`
    pub(crate) problem: String,
    /// Operations of the problem.
    pub(crate) operations: f64,
    /// Compulsory memory traffic in bytes: every input read once, every output written once.
    pub(crate) bytes: f64,
    /// The first is the baseline.
    pub(crate) contenders: Vec<Contender<'a>>,
}

/// One way to solve it.
pub(crate) struct Contender<'a> {
    pub(crate) name: String,
    /// Registers, algorithm, variant.
    pub(crate) note: String,
    /// Launches it on a set of data; any number is a valid set.
    pub(crate) begin: Box<dyn Fn(usize) -> Result + 'a>,
    /// Poisons the output, runs, and compares with the oracle, on each of the given sets; returns the worst
    /// error.
    pub(crate) check: Box<dyn Fn() -> Result<Error> + 'a>,
    /// The largest relative error that rounding explains.
    pub(crate) bound: f64,
}

/// The result of one contender.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) suite: String,
    pub(crate) problem: String,
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) operations: f64,
    pub(crate) bytes: f64,
    pub(crate) samples: Samples,
    /// Speed against the first contender, and its spread.
    pub(crate) against: (f64, f64),
    pub(crate) error: Error,
    pub(crate) right: bool,
    /// Lowest clock and highest power sampled between rounds.
    pub(crate) state: Option<Reading>,
    /// The estimated seconds of the launch.
    pub(crate) predicted: Option<f64>,
}

impl Row {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations / self.samples.median()
    }

    /// Bytes per second, compulsory traffic only.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.bytes / self.samples.median()
    }
}

/// Checks and measures a case. A contender with a wrong result is still measured, and its row reports it.
pub(crate) fn run(device: &Device, helpers: &Helpers, case: &Case, effort: &Effort) -> Result<Vec<Row>> {
    let blame = |contender: &Contender, why: String| {
        format!("{} {}, {}: {why}", case.suite, case.problem, contender.name)
    };
    let mut errors = Vec::new();
    for contender in &case.contenders {
        errors.push((contender.check)().map_err(|why| blame(contender, why))?);
    }
    let begins: Vec<&dyn Fn(usize) -> Result> = case.contenders.iter().map(|one| &*one.begin as _).collect();
    let (measured, states) = time(device, helpers, &begins, effort)?;
    // Checked again: heat may have slowed the device down, and a race may appear only now.
    for (contender, error) in case.contenders.iter().zip(&mut errors) {
        let again = (contender.check)().map_err(|why| blame(contender, why))?;
        *error = worse(*error, again);
    }
    let state = states
        .into_iter()
        .reduce(|a, b| Reading { clock: a.clock.min(b.clock), power: a.power.max(b.power) });
    let rows = case.contenders.iter().zip(&measured).zip(errors);
    Ok(rows
        .map(|((contender, samples), error)| Row {
            suite: case.suite.clone(),
            problem: case.problem.clone(),
            name: contender.name.clone(),
            note: contender.note.clone(),
            operations: case.operations,
            bytes: case.bytes,
            samples: samples.clone(),
            against: samples.speed_against(&measured[0]),
            right: is_right(&error, contender.bound),
            error,
            state,
            predicted: None,
        })
        .collect())
}

/// The worse of two errors; NaN is the worst.
pub(crate) fn worse(a: Error, b: Error) -> Error {
    let most = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
    Error {
        relative: most(a.relative, b.relative),
        largest: most(a.largest, b.largest),
        missing: a.missing.max(b.missing),
    }
}

/// One wrong element among many hides in the norm, but not in the largest difference.
fn is_right(error: &Error, bound: f64) -> bool {
    error.missing == 0 && error.relative <= bound && error.largest <= 50.0 * bound
}

/// Measures launches against each other, unchecked; with clock and power sampled between rounds.
pub(crate) fn time(
    device: &Device,
    helpers: &Helpers,
    begins: &[&dyn Fn(usize) -> Result],
    effort: &Effort,
) -> Result<(Vec<Samples>, Vec<Reading>)> {
    let mut timer = OnDevice {
        device,
        helpers,
        begins,
        lead: effort.lead,
        states: Vec::new(),
        begun: vec![0.0; begins.len()],
    };
    let measured = measure::measure(&mut timer, begins.len(), effort)?;
    Ok((measured, timer.states))
}

struct OnDevice<'a> {
    device: &'a Device,
    helpers: &'a Helpers<'a>,
    begins: &'a [&'a dyn Fn(usize) -> Result],
    /// Untimed launches before a sample.
    lead: usize,
    states: Vec<Reading>,
    /// Seconds of the host for the last launch of each contender.
    begun: Vec<f64>,
}

impl Timer for OnDevice<'_> {
    type Error = String;

    fn time(&mut self, contender: usize, set: usize, launches: usize) -> Result<f64> {
        // A kernel blocks the stream until all launches are queued, so that there are no gaps between them.
        let hold = (2.0 * self.begun[contender] * (self.lead + launches) as f64 + 20e-6).min(5e-3);
        self.helpers.hold(hold)?;
        // On the sets before the timed ones, in order.
        let before = |lead: usize| set.checked_sub(lead).unwrap_or(set + lead);
        (1..=self.lead).rev().try_for_each(|lead| self.begins[contender](before(lead)))?;
        let mut host = 0.0;
        let seconds = self.device.time(|| {
            let start = std::time::Instant::now();
            for launch in 0..launches {
                self.begins[contender](set + launch)?;
            }
            host = start.elapsed().as_secs_f64();
            Ok(())
        })?;
        self.begun[contender] = host / launches as f64;
        Ok(seconds)
    }

    fn repetition_ends(&mut self) {
        self.states.extend(self.device.nvml.as_ref().and_then(super::nvml::Nvml::read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_element_is_reported() {
        let fine = Error { relative: 1e-6, largest: 1e-5, missing: 0 };
        assert!(is_right(&fine, 1e-5));
        assert!(!is_right(&Error { relative: 2e-5, ..fine }, 1e-5));
        assert!(!is_right(&Error { largest: 1.0, ..fine }, 1e-5));
        assert!(!is_right(&Error { missing: 1, ..fine }, 1e-5));
        assert!(!is_right(&Error { relative: f64::NAN, ..fine }, 1e-5));
        let exact = Error { relative: 0.0, largest: 0.0, missing: 0 };
        assert!(is_right(&exact, 0.0));
        assert!(worse(fine, Error { relative: f64::NAN, ..fine }).relative.is_nan());
        assert_eq!(worse(fine, Error { largest: 2.0, ..exact }), Error { largest: 2.0, ..fine });
    }
}
