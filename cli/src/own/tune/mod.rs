//! `tune`: measures the alternatives of a kernel for some sizes, and writes which is the fastest as records that launches consult.

mod list;
mod lock;
mod sizes;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{ArgAction, ArgMatches, Command, value_parser};
use tilewright::Kernel;
use tilewright_codegen::launch::{self, Record, ranking, records};
use tilewright_codegen::{Elem, Generated};
use tilewright_runtime::{Built, Device, Stream};

use super::bench;
use super::peer::Failed;
use crate::kernel::{self, Chosen};
use crate::measure::{self, Effort, Samples, Timer};
use crate::output::{Failure, Result, finish, flag, option, print, text, texts, time};
use crate::run::input::Input;
use crate::run::problem::{Problem, unallocated};
use crate::run::{self, device::Launches, simulated::bar};

const EXAMPLES: &str = "\
Examples:
  tilewright tune KERNEL --size M=4096,N=4096 --size M=64,N=4096
  tilewright tune KERNEL --size M=1..8192,N=4096 --drawn 20 --quick
  tilewright tune KERNEL --size M=1..8192,N=1024..16384 --drawn 200 --estimate";

const METHOD: &str = "\
For each size, the alternatives with the least estimates are compiled side by side. Their results are compared with the results of
the estimate's choice. Then they are launched in turns. The slower half is left out, and the rest is measured for longer, until one and the
estimate's choice are left. The fastest becomes a line of the file of records. Sizes that have a line are skipped, so a command that was
stopped goes on where it was. Launches consult the files that TILEWRIGHT_RECORDS names, and what `tilewright::runtime::records::add` adds.

--estimate needs no GPU. It prints the alternatives with the least estimates at some of the sizes, as a list for `choose`. An alternative
is left out if every size is within 1 % of its least estimate without it.";

pub(crate) fn command() -> Command {
    Command::new("tune")
        .about("Find the fastest alternatives of a kernel for some sizes, and record them for launches")
        .args(kernel::args())
        .arg(
            run::sizes("Extents, in this order or by name: M=300,K=7; may be given several times")
                .visible_alias("sizes")
                .action(ArgAction::Append)
                .required(true),
        )
        .arg(
            option("drawn", "N", "Draw this number of sizes from the ranges in --size, M=1..8192")
                .value_parser(value_parser!(usize)),
        )
        .arg(
            option("seed", "N", "Decides which sizes are drawn")
                .default_value("0")
                .value_parser(value_parser!(u64)),
        )
        .arg(run::inputs())
        .arg(option("records", "FILE", "Where the records are, and are added").default_value("records.txt"))
        .arg(
            option(
                "candidates",
                "N",
                "Measure this number of alternatives of each size [default: 12, or 4 with --quick]",
            )
            .value_parser(value_parser!(usize)),
        )
        .arg(bench::device())
        .arg(flag("quick", "Fewer alternatives and shorter measurements"))
        .arg(flag("again", "Measure sizes again that have a record"))
        .arg(flag("estimate", "Rank by the estimate alone, without a GPU, and print a list for `choose`"))
        .after_help(format!("{}\n\n{METHOD}\n\n{}", kernel::examples(EXAMPLES), kernel::help()))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(kernel::chosen(matches).and_then(|chosen| show(matches, &chosen)))
}

/// How thoroughly alternatives are measured.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// The number of alternatives that are measured: those that the estimate says are the fastest.
    pub candidates: usize,
    /// Fewer and shorter measurements.
    pub quick: bool,
}

impl Tuning {
    /// For records that are kept.
    pub const USUAL: Tuning = Tuning { candidates: 12, quick: false };
    /// For a first impression.
    pub const QUICK: Tuning = Tuning { candidates: 4, quick: true };

    /// The measurement of a phase, from 0.
    fn effort(&self, phase: u32) -> Effort {
        let count = (if self.quick { 3 } else { 5 }) << phase.min(3);
        let sample = if self.quick { 2e-4 } else { 1e-3 };
        Effort { warm_up: 1, sample, lead: 0, most_launches: 32, total: 60.0, rounds: (count, count) }
    }
}

/// The fastest alternative of a kernel for some sizes, `M=4096,N=1000`, measured on random inputs.
///
/// ```no_run
/// # use tilewright::prelude::*;
/// # fn show(kernel: &dyn tilewright::Kernel, stream: &Stream) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let record = tilewright_cli::tune(kernel, stream, "M=4096,N=1000", &tilewright_cli::Tuning::USUAL)?;
/// tilewright::runtime::records::add(&record.to_string())?; // or write it to a file
/// # Ok(())
/// # }
/// ```
pub fn tune(
    kernel: &dyn Kernel,
    stream: &Stream,
    sizes: &str,
    tuning: &Tuning,
) -> std::result::Result<Record, Failed> {
    let kernel = Built::without_records(kernel.def())?;
    let case = Case::new(&kernel, stream.device(), sizes, &[]).map_err(message)?;
    Ok(case.measured(stream, tuning)?.record)
}

fn message(failure: Failure) -> Failed {
    match failure {
        Failure::Refused(why) => why.into(),
        Failure::Wrong => "a result was wrong".into(),
    }
}

fn show(matches: &ArgMatches, chosen: &Chosen) -> Result {
    let seed = matches.get_one("seed").copied().unwrap_or(0);
    let all = sizes::all(&texts(matches, "size"), matches.get_one("drawn").copied(), seed)?;
    let inputs = run::described(matches)?;
    if matches.get_flag("estimate") {
        return print(&list::pruned(&chosen.generated, &all, &inputs)?);
    }
    let quick = matches.get_flag("quick");
    let usual = if quick { Tuning::QUICK } else { Tuning::USUAL };
    let candidates = matches.get_one("candidates").copied().unwrap_or(usual.candidates);
    let tuning = Tuning { candidates, ..usual };
    let device = bench::opened(matches)?;
    let _lock = lock::Lock::of(&device)?;
    let stream = device.stream().map_err(Failure::of)?;
    let kernel = Built::without_records(&chosen.def).map_err(Failure::of)?;
    let path = Path::new(text(matches, "records").unwrap_or_default());
    let mut known = match std::fs::read_to_string(path) {
        Ok(text) => records(&text).0,
        Err(_) => Vec::new(),
    };
    let again = matches.get_flag("again");
    let bar = bar("  {bar:40} {pos} of {len} sizes, {eta} left: {msg}");
    bar.iter().for_each(|bar| bar.set_length(all.len() as u64));
    let mut failed = 0;
    for sizes in &all {
        bar.iter().for_each(|bar| bar.set_message(sizes.clone()));
        let text = match Case::new(&kernel, &device, sizes, &inputs) {
            Ok(case) if !again && known.iter().any(|record| case.has(record)) => {
                format!("{sizes}: there is a record\n")
            }
            Ok(case) => match case.measured(&stream, &tuning) {
                Ok(measured) => {
                    append(path, &measured.record)?;
                    let text = measured.text(sizes);
                    known.push(measured.record);
                    text
                }
                Err(why) => skipped(sizes, &why.to_string(), &mut failed),
            },
            Err(Failure::Refused(why)) => skipped(sizes, &why, &mut failed),
            Err(failure) => return Err(failure),
        };
        match &bar {
            Some(bar) => bar.suspend(|| print(&text))?,
            None => print(&text)?,
        }
        bar.iter().for_each(|bar| bar.inc(1));
    }
    bar.iter().for_each(|bar| bar.finish_and_clear());
    match failed {
        0 => Ok(()),
        count => Err(Failure::Refused(format!("{count} of {} sizes could not be measured", all.len()))),
    }
}

/// The refusal of a kernel without alternatives.
fn without_alternatives(kernel: &Generated) -> Failure {
    let help = "list values of its constants: #[kernel(choose(BM in [64, 128]))]";
    Failure::Refused(format!("`{}` has no alternatives\nhelp: {help}", kernel.name))
}

/// The line for sizes that cannot be measured.
fn skipped(sizes: &str, why: &str, failed: &mut usize) -> String {
    *failed += 1;
    format!("{sizes}: left out: {why}\n")
}

/// Adds a line to a file at once.
fn append(path: &Path, record: &Record) -> Result {
    let failed = |why| Failure::Refused(format!("cannot write {}: {why}", path.display()));
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    // A file that was edited may not end with the end of a line.
    let ends = std::fs::read(path).map_err(failed)?.last().is_none_or(|last| *last == b'\n');
    let start = if ends { "" } else { "\n" };
    file.write_all(format!("{start}{record}\n").as_bytes()).map_err(failed)
}

/// A launch of a kernel, and the alternatives that can run it, the estimate's choice first.
struct Case<'k> {
    kernel: &'k Built,
    sizes: &'k str,
    inputs: &'k [Input],
    /// What a record of this launch begins with.
    record: Record,
    /// Alternatives by their names, each with its fastest variant.
    alternatives: Vec<(String, usize)>,
}

/// A measurement, and what a reader may want to know of it.
struct Measured {
    record: Record,
    candidates: usize,
    /// Candidates that were left out, and why.
    left_out: Vec<String>,
}

impl Measured {
    fn text(&self, sizes: &str) -> String {
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

/// Launches candidates on the same arguments.
struct OnDevice<'l, 's> {
    stream: &'s Stream,
    launches: &'l mut Launches<'s>,
    kernels: Vec<Built>,
}

impl Timer for OnDevice<'_, '_> {
    type Error = Failed;

    fn time(&mut self, contender: usize, _: usize, launches: usize) -> std::result::Result<f64, Failed> {
        self.launches.set(self.kernels[contender].clone());
        let work = || (0..launches).try_for_each(|_| self.launches.launch().map(|_| ()));
        Ok(self.stream.time(work)?.1.as_secs_f64())
    }
}

impl Case<'_> {
    fn new<'k>(kernel: &'k Built, device: &Device, sizes: &'k str, inputs: &'k [Input]) -> Result<Case<'k>> {
        let (generated, limits) = (kernel.generated(), device.limits());
        let (_, given) = unallocated(generated, Some(sizes), inputs)?;
        let ranking = ranking(generated, &given, &limits).map_err(Failure::of)?;
        let mut alternatives: Vec<(String, usize)> = Vec::new();
        for one in ranking.serves.iter().filter(|one| one.competes) {
            let name = generated.alternative(one.variant);
            if !alternatives.iter().any(|(known, _)| *known == name) {
                alternatives.push((name, one.variant));
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
                driver: format!("{}.{}", version.0, version.1),
            },
            alternatives,
        })
    }

    /// Whether it is a record of this launch.
    fn has(&self, record: &Record) -> bool {
        let launch = |record: &Record| Record {
            sizes: record.sizes.clone(),
            kernel: record.kernel.clone(),
            fingerprint: record.fingerprint,
            device: record.device.clone(),
            ..self.record.clone()
        };
        launch(record) == self.record
    }

    /// The kernel whose launches take an alternative.
    fn taking(&self, alternative: &str) -> Built {
        self.kernel.with_records(vec![Record { alternative: alternative.to_owned(), ..self.record.clone() }])
    }

    fn measured(&self, stream: &Stream, tuning: &Tuning) -> std::result::Result<Measured, Failed> {
        let count = self.alternatives.len().min(tuning.candidates.max(1));
        let (mut candidates, mut left_out) = self.compiled(stream.device(), &self.alternatives[..count]);
        let problem =
            Problem::new(self.kernel.generated(), Some(self.sizes), self.inputs, 0).map_err(message)?;
        let mut launches = Launches::new(stream, self.kernel.clone(), &problem)?;
        let mut expected = None;
        let mut right = Vec::new();
        for (name, kernel) in candidates.drain(..) {
            launches.replace(kernel.clone())?;
            let Some(variant) = launches.launch()?.variant else {
                return Err("a launch of these sizes is empty".into());
            };
            if self.kernel.generated().alternative(variant) != name {
                left_out.push(format!("left out, since it cannot run: {name}"));
                continue;
            }
            let results = launches.results()?;
            let first = expected.get_or_insert_with(|| results.clone());
            if let Some(apart) = difference(&problem, &results, first) {
                left_out.push(format!("left out, since its results differ by {apart:.1e}: {name}"));
                continue;
            }
            right.push((name, kernel));
        }
        if right.first().is_none_or(|(name, _)| *name != self.alternatives[0].0) {
            return Err(format!("the estimate's choice cannot be measured\n{}", left_out.join("\n")).into());
        }
        let (name, samples, estimated) = fastest(stream, &mut launches, right, tuning)?;
        let record = Record {
            alternative: name,
            microseconds: samples.median() * 1e6,
            spread: samples.spread(),
            estimated,
            ..self.record.clone()
        };
        Ok(Measured { record, candidates: count, left_out })
    }

    /// Candidates, compiled side by side; and those that cannot be compiled, in words.
    fn compiled(&self, device: &Device, all: &[(String, usize)]) -> (Vec<(String, Built)>, Vec<String>) {
        let kernels: Vec<Built> = all.iter().map(|(name, _)| self.taking(name)).collect();
        let (next, threads) =
            (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, usize::from));
        let failures = std::sync::Mutex::new(vec![None; all.len()]);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(all.len()) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((_, variant)) = all.get(at) else { return };
                        let failure = kernels[at].compile_variant(device, *variant).err();
                        let mut failures = failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        failures[at] = failure.map(|why| why.to_string());
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (mut made, mut left_out) = (Vec::new(), Vec::new());
        for (((name, _), kernel), failure) in all.iter().zip(kernels).zip(failures) {
            match failure {
                None => made.push((name.clone(), kernel)),
                Some(why) => left_out.push(format!("left out: {name}: {why}")),
            }
        }
        (made, left_out)
    }
}

/// The largest difference of results relative to their mean size, if rounding does not explain it. Integers are equal; what is no number
/// in both is equal too.
fn difference(problem: &Problem, results: &[Vec<f64>], others: &[Vec<f64>]) -> Option<f64> {
    let written = problem.tensors().filter(|tensor| tensor.written);
    let pairs = written.zip(results.iter().zip(others));
    let apart = pairs.map(|(tensor, (results, others))| (tensor.elem, relative(results, others)));
    let wrong = apart.filter(|(elem, apart)| *apart > tolerance(*elem));
    wrong.map(|(_, apart)| apart).reduce(f64::max)
}

/// The difference that rounding explains, accumulation included.
fn tolerance(elem: Elem) -> f64 {
    const ACCUMULATION_TOLERANCE: f64 = 1e-3;
    if elem.is_float() { (32.0 * elem.roundoff()).max(ACCUMULATION_TOLERANCE) } else { 0.0 }
}

/// The largest difference relative to the mean size; infinite between a number and none.
fn relative(results: &[f64], others: &[f64]) -> f64 {
    let numbers = || others.iter().filter(|value| value.is_finite());
    let mean = (numbers().map(|value| value * value).sum::<f64>() / numbers().count().max(1) as f64).sqrt();
    let apart = |(one, other): (&f64, &f64)| match (one - other).abs() {
        _ if one == other || one.is_nan() && other.is_nan() => 0.0,
        apart if apart.is_nan() => f64::INFINITY,
        apart => apart,
    };
    let most = results.iter().zip(others).map(apart).fold(0.0, f64::max);
    if most == 0.0 { 0.0 } else { most / mean }
}

/// The name and the times of the fastest, and the time of the first as a multiple. The slower half is left out after each phase; the
/// first, which is the estimate's choice, is kept until the end, and is taken unless another is clearly faster.
fn fastest<'s>(
    stream: &'s Stream,
    launches: &mut Launches<'s>,
    mut candidates: Vec<(String, Built)>,
    tuning: &Tuning,
) -> std::result::Result<(String, Samples, f64), Failed> {
    /// Alternatives that are less than this part faster are as fast.
    const MIN_GAIN: f64 = 0.005;
    let mut phase = 0;
    loop {
        let kernels = candidates.iter().map(|(_, kernel)| kernel.clone()).collect();
        let mut timer = OnDevice { stream, launches, kernels };
        let all = measure::measure(&mut timer, candidates.len(), &tuning.effort(phase))?;
        let medians: Vec<f64> = all.iter().map(Samples::median).collect();
        let order = order(&medians);
        if candidates.len() < 3 && (phase > 1 || candidates.len() == 1) {
            let taken = if medians[0] <= medians[order[0]] * (1.0 + MIN_GAIN) { 0 } else { order[0] };
            let estimated = medians[0] / medians[taken];
            return Ok((candidates.swap_remove(taken).0, all[taken].clone(), estimated));
        }
        let mut keeps = keeps(&medians).into_iter();
        candidates.retain(|_| keeps.next() == Some(true));
        phase += 1;
    }
}

/// Candidates by their times, the fastest first.
fn order(times: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|one, other| times[*one].total_cmp(&times[*other]));
    order
}

/// Whether each candidate is measured again: the first is, and the faster half of the others.
fn keeps(times: &[f64]) -> Vec<bool> {
    let order = order(times);
    let others: Vec<usize> = order.into_iter().filter(|at| *at > 0).collect();
    let faster = &others[..others.len().div_ceil(2)];
    (0..times.len()).map(|at| at == 0 || faster.contains(&at)).collect()
}

#[cfg(test)]
mod tests {
    use super::{keeps, relative};

    /// Two candidates are left at last, the first and the fastest of the others.
    #[test]
    fn the_slower_half_is_left_out() {
        for count in 2..20 {
            for first in [0.0, 1e9] {
                let mut times: Vec<f64> = (0..count).map(|n| f64::from((n * 7) % count) + 1.0).collect();
                times[0] = first;
                let fastest = times[1..].iter().copied().fold(f64::INFINITY, f64::min);
                while times.len() > 2 {
                    let (before, mut keeps) = (times.len(), keeps(&times).into_iter());
                    times.retain(|_| keeps.next() == Some(true));
                    assert!(times.len() < before && times[0] == first, "{times:?}");
                }
                assert!(times.contains(&fastest), "{times:?}");
            }
        }
    }

    #[test]
    fn results_without_numbers_are_compared() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        assert_eq!(relative(&[nan, infinite, 2.0], &[nan, infinite, 2.0]), 0.0);
        assert_eq!(relative(&[nan, 4.0], &[nan, 2.0]), 1.0);
        for (one, other) in [(nan, 1.0), (1.0, nan), (infinite, 1.0), (1.0, infinite), (infinite, -infinite)]
        {
            assert_eq!(relative(&[one, 2.0], &[other, 2.0]), infinite, "{one} {other}");
        }
    }
}
