//! The launch of a kernel at some sizes, whose alternatives are compared and measured.

use std::collections::HashMap;

use tilewright_codegen::Elem;
use tilewright_codegen::launch::{self, Record, ranking};
use tilewright_runtime::raw::AnyTensor;
use tilewright_runtime::{self as runtime, Built, Device, Stream};

use super::ahead::Compiled;
use super::halving::{Candidates, fastest};
use super::{Tuning, message, without_alternatives};
use crate::output::{Failure, Result, time};
use crate::own::peer::Failed;
use crate::run::contents;
use crate::run::device::Launches;
use crate::run::input::Input;
use crate::run::problem::{Problem, unallocated};

/// Alternatives by name, each as a kernel. All sizes share them.
pub(super) type Alternatives = HashMap<String, Built>;

/// A launch of a kernel, and the alternatives that can run it, the estimate's choice first.
pub(super) struct Case<'k> {
    kernel: &'k Built,
    sizes: &'k str,
    inputs: &'k [Input],
    /// What a record of this launch begins with.
    record: Record,
    alternatives: Vec<Alternative>,
}

/// An alternative at some sizes: its name, its fastest variant, and the estimate of that in seconds.
struct Alternative {
    name: String,
    variant: usize,
    seconds: f64,
}

/// A measurement, and what a reader may want to know of it.
pub(super) struct Measured {
    pub(super) record: Record,
    candidates: usize,
    /// Candidates that were left out, and why.
    left_out: Vec<String>,
}

impl Measured {
    pub(super) fn text(&self, sizes: &str) -> String {
        let Measured { record, candidates, left_out } = self;
        let mut text = format!(
            "{sizes}: {}, {} ± {:.1} %, the fastest of {candidates}; the estimate's choice took {:.3} times as long\n",
            record.alternative,
            time(record.microseconds / 1e6),
            100.0 * record.spread,
            record.estimated,
        );
        left_out.iter().for_each(|why| text += &format!("  {why}\n"));
        text
    }
}

impl Case<'_> {
    pub(super) fn new<'k>(
        kernel: &'k Built,
        device: &Device,
        sizes: &'k str,
        inputs: &'k [Input],
    ) -> Result<Case<'k>> {
        let (generated, limits) = (kernel.generated(), device.limits());
        let (_, given) = unallocated(generated, Some(sizes), inputs)?;
        let ranking = ranking(generated, &given, &limits).map_err(Failure::of)?;
        let mut alternatives: Vec<Alternative> = Vec::new();
        for one in ranking.serves.iter().filter(|one| one.competes) {
            let (name, seconds) = (generated.alternative(one.variant), one.estimate.map(|one| one.seconds()));
            if !alternatives.iter().any(|known| known.name == name) {
                let seconds = seconds.unwrap_or(f64::INFINITY);
                alternatives.push(Alternative { name, variant: one.variant, seconds });
            }
        }
        if alternatives.is_empty() {
            return Err(without_alternatives(generated));
        }
        let version = device.driver_version().map_err(Failure::of)?;
        let named = launch::sizes(generated, &given).map_err(Failure::of)?.into_iter();
        let named = named.map(|(symbol, size)| (symbol.name().to_owned(), size));
        Ok(Case {
            kernel,
            sizes,
            inputs,
            record: Record {
                kernel: generated.name.clone(),
                fingerprint: generated.fingerprint(),
                device: device.properties().name.clone(),
                sizes: named.collect(),
                alternative: String::new(),
                microseconds: 0.0,
                spread: 0.0,
                estimated: 1.0,
                overestimate: 1.0,
                driver: format!("{}.{}", version.0, version.1),
            },
            alternatives,
        })
    }

    /// Whether it is a record of this launch.
    pub(super) fn has(&self, record: &Record) -> bool {
        let launch = |record: &Record| Record {
            sizes: record.sizes.clone(),
            kernel: record.kernel.clone(),
            fingerprint: record.fingerprint,
            device: record.device.clone(),
            ..self.record.clone()
        };
        launch(record) == self.record
    }

    fn candidates(&self, tuning: &Tuning) -> &[Alternative] {
        &self.alternatives[..self.alternatives.len().min(tuning.candidates.max(1))]
    }

    /// The variants that are measured.
    pub(super) fn variants(&self, tuning: &Tuning) -> Vec<usize> {
        self.candidates(tuning).iter().map(|one| one.variant).collect()
    }

    pub(super) fn measured(
        &self,
        stream: &Stream,
        tuning: &Tuning,
        alternatives: &mut Alternatives,
        compiled: &mut Compiled,
    ) -> std::result::Result<Measured, Failed> {
        let generated = self.kernel.generated();
        let problem = Problem::on_device(generated, Some(self.sizes), self.inputs).map_err(message)?;
        let mut launches = Launches::new(stream, self.kernel.clone(), &problem)?;
        let (mut expected, mut right, mut left_out) = (None, Candidates::new(), Vec::new());
        for Alternative { name, variant, .. } in self.candidates(tuning) {
            let made = alternatives.entry(name.clone()).or_insert_with(|| self.kernel.alternative(*variant));
            let why = match compiled.wait(*variant) {
                Ok(()) => self.differs(stream, &mut launches, made, &mut expected)?,
                Err(why) => Some(why),
            };
            match why {
                None => right.push((name.clone(), made.clone())),
                Some(why) => left_out.push(format!("left out: {name}: {why}")),
            }
        }
        if right.first().is_none_or(|(name, _)| *name != self.alternatives[0].name) {
            return Err(format!("the estimate's choice cannot be measured\n{}", left_out.join("\n")).into());
        }
        launches.fill_written()?;
        let (name, samples, estimated) = fastest(stream, &mut launches, right, tuning)?;
        let taken = self.alternatives.iter().find(|one| one.name == name);
        let record = Record {
            overestimate: taken.map_or(1.0, |taken| taken.seconds / self.alternatives[0].seconds),
            alternative: name,
            microseconds: samples.median() * 1e6,
            spread: samples.spread(),
            estimated,
            ..self.record.clone()
        };
        Ok(Measured { record, candidates: self.candidates(tuning).len(), left_out })
    }

    /// Launches an alternative. Returns why its results do not count: it cannot run, or differ from the first alternative's.
    fn differs(
        &self,
        stream: &Stream,
        launches: &mut Launches<'_>,
        alternative: &Built,
        expected: &mut Option<Vec<AnyTensor>>,
    ) -> std::result::Result<Option<String>, Failed> {
        launches.set(alternative.clone());
        launches.fill_written()?;
        match launches.launch() {
            Ok(launched) if launched.variant.is_none() => {
                return Err("a launch of these sizes is empty".into());
            }
            Err(runtime::Error::Refused(why)) => return Ok(Some(why.to_string())),
            launched => launched?,
        };
        let Some(expected) = expected else {
            *expected = Some(launches.take_written()?);
            return Ok(None);
        };
        for (results, others) in launches.written().zip(expected) {
            let apart = contents::difference(stream, results, others)?;
            if apart > tolerance(results.elem()) {
                return Ok(Some(format!("its results differ by {apart:.1e}")));
            }
        }
        Ok(None)
    }
}

/// The difference that rounding explains, accumulation included.
fn tolerance(elem: Elem) -> f64 {
    const ACCUMULATION_TOLERANCE: f64 = 1e-3;
    if elem.is_float() { (32.0 * elem.roundoff()).max(ACCUMULATION_TOLERANCE) } else { 0.0 }
}
