//! `tune`: measures the alternatives of a kernel for some sizes, and writes which is the fastest as records that launches consult.

mod ahead;
mod case;
mod halving;
mod list;
mod lock;
mod sizes;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{ArgAction, ArgMatches, Command, value_parser};
use tilewright::Kernel;
use tilewright_codegen::Generated;
use tilewright_codegen::launch::{Record, records};
use tilewright_runtime::{Built, Stream};

use super::bench;
use super::peer::Failed;
use crate::choose::left_out;
use crate::kernel::{self, Chosen};
use crate::measure::Effort;
use crate::output::{Failure, Result, finish, flag, option, print, text, texts};
use crate::run;
use crate::run::simulated::bar;
use case::{Alternatives, Case};

const EXAMPLES: &str = "\
Examples:
  tilewright tune KERNEL --size M=4096,N=4096 --size M=64,N=4096
  tilewright tune KERNEL --size M=1..8192,N=4096 --drawn 20 --quick
  tilewright tune KERNEL --size M=1..8192,N=1024..16384 --drawn 200 --estimate";

const METHOD: &str = "\
For each size, the alternatives with the least estimates are compiled, on all processors, while others are measured. The device makes
the inputs. It compares the results with the results of the estimate's choice. Then the alternatives are launched in turns. The slower half is left out, and the rest is measured for longer, until one and the
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
    let variants = case.variants(tuning);
    let measured = |compiled: &mut ahead::Compiled| {
        case.measured(stream, tuning, &mut Alternatives::default(), compiled)
    };
    Ok(ahead::compiled(&kernel, stream.device(), &variants, measured)?.record)
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
    print(&left_out(kernel.generated()))?;
    let records = Records::read(text(matches, "records").unwrap_or_default(), matches.get_flag("again"));
    let case = |sizes| Case::new(&kernel, &device, sizes, &inputs).map(|case| (records.have(&case), case));
    let cases: Vec<Result<(bool, Case<'_>)>> = all.iter().map(|sizes| case(sizes)).collect();
    let missing = cases.iter().flatten().filter(|(is_known, _)| !is_known);
    let variants: Vec<usize> = missing.flat_map(|(_, case)| case.variants(&tuning)).collect();
    let work = |compiled: &mut ahead::Compiled| {
        let mut alternatives = Alternatives::default();
        let measure = |case: &Case<'_>| case.measured(&stream, &tuning, &mut alternatives, compiled);
        measure_all(&all, cases, &records, measure)
    };
    ahead::compiled(&kernel, &device, &variants, work)
}

/// Measures all sizes, each with its case, or with the reason why there is none. Prints and records each at once.
fn measure_all(
    all: &[String],
    cases: Vec<Result<(bool, Case<'_>)>>,
    records: &Records<'_>,
    mut measure: impl FnMut(&Case<'_>) -> std::result::Result<case::Measured, Failed>,
) -> Result {
    let bar = bar("  {bar:40} {pos} of {len} sizes, {eta} left: {msg}");
    bar.iter().for_each(|bar| bar.set_length(all.len() as u64));
    let mut failed = 0;
    for (sizes, case) in all.iter().zip(cases) {
        bar.iter().for_each(|bar| bar.set_message(sizes.clone()));
        let text = match case {
            Ok((true, _)) => format!("{sizes}: there is a record\n"),
            Ok((false, case)) => match measure(&case) {
                Ok(measured) => {
                    records.append(&measured.record)?;
                    measured.text(sizes)
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

/// The file of records.
struct Records<'p> {
    path: &'p Path,
    /// The records that count: none if all sizes are measured again.
    known: Vec<Record>,
}

impl Records<'_> {
    fn read(path: &str, again: bool) -> Records<'_> {
        let path = Path::new(path);
        let text = if again { String::new() } else { std::fs::read_to_string(path).unwrap_or_default() };
        Records { path, known: records(&text).0 }
    }

    fn have(&self, case: &Case<'_>) -> bool {
        self.known.iter().any(|record| case.has(record))
    }

    /// Adds a line at once.
    fn append(&self, record: &Record) -> Result {
        let failed = |why| Failure::Refused(format!("cannot write {}: {why}", self.path.display()));
        let mut file = OpenOptions::new().create(true).append(true).open(self.path).map_err(failed)?;
        // A file that was edited may not end with the end of a line.
        let ends = std::fs::read(self.path).map_err(failed)?.last().is_none_or(|last| *last == b'\n');
        let start = if ends { "" } else { "\n" };
        file.write_all(format!("{start}{record}\n").as_bytes()).map_err(failed)
    }
}
