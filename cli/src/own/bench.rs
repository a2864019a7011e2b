//! `bench` for the user's own kernels: the time of a launch, beside other kernels, peers, and a copy of the same number of bytes.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tilewright::cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
use tilewright::cudarc::driver::{CudaSlice, CudaStream};
use tilewright_codegen::Elem;
use tilewright_runtime::raw::AnyTensor;
use tilewright_runtime::{Built, Device, Stream};

use super::peer::{Failed, Peer};
use crate::kernel::{self, Chosen};
use crate::measure::{self, Effort, Samples, Timer};
use crate::output::{self, Failure, Result, finish, flag, option, print, text, texts, time};
use crate::own;
use crate::run::{self, contents, device::Launches, problem::Problem};

const EXAMPLES: &str = "\
Examples:
  tilewright bench KERNEL --size M=4096,N=4096
  tilewright bench KERNEL --input 'x: f32 [M=4096, N=1000] normal'
  tilewright bench KERNEL --size M=4096,N=4096 --against 'KERNEL BM=64' --against OTHER";

const METHOD: &str = "\
The kernel, others, the program's peers, and a copy of as many bytes as it reads and writes once take turns, A B A B …; times are
medians of CUDA events over rounds, and the speed is the median of the rounds' ratios. Launches go through the runtime with all its
checks, so a kernel that takes less than some microseconds waits for the host. The device makes the inputs. It compares what others
wrote in their first launch with what the kernel wrote: the largest difference, relative to the mean size. `run --device cuda:0`
compares with double precision.";

pub(crate) fn command() -> Command {
    Command::new("bench")
        .about("Measure a kernel on a GPU, beside others and a copy of as many bytes")
        .args(kernel::args())
        .arg(run::sizes("Extents, in this order or by name: M=300,K=7"))
        .arg(run::inputs())
        .arg(
            option(
                "against",
                "KERNEL",
                "Another of these kernels, with its constants: 'other BM=64'; may be given several times",
            )
            .action(ArgAction::Append),
        )
        .arg(device())
        .arg(flag("quick", "Fewer rounds: a first impression"))
        .arg(output::json_flag())
        .after_help(format!("{}\n\n{METHOD}\n\n{}", kernel::examples(EXAMPLES), kernel::help()))
}

/// The option with the device's number.
pub(super) fn device() -> Arg {
    option("device", "N", "The device's number").default_value("0").value_parser(value_parser!(usize))
}

/// The device of this number.
pub(super) fn opened(matches: &ArgMatches) -> Result<Device> {
    Device::open(matches.get_one("device").copied().unwrap_or(0)).map_err(Failure::of)
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(kernel::chosen(matches).and_then(|chosen| show(matches, &chosen)))
}

/// Launches contenders: kernels, then peers, then the copy.
struct OnDevice<'a> {
    stream: &'a Stream,
    kernels: Vec<Launches<'a>>,
    /// Peers and the copy are launched on this stream.
    other: Arc<CudaStream>,
    peers: Vec<Peer<'a>>,
    copy: [CudaSlice<u8>; 2],
}

impl Timer for OnDevice<'_> {
    type Error = Failed;

    fn time(&mut self, contender: usize, _: usize, launches: usize) -> std::result::Result<f64, Failed> {
        let OnDevice { stream, kernels, other, peers, copy: [from, to] } = self;
        let kernel_count = kernels.len();
        if let Some(kernel) = kernels.get_mut(contender) {
            let work = || (0..launches).try_for_each(|_| kernel.launch().map(|_| ()));
            return Ok(stream.time(work)?.1.as_secs_f64());
        }
        let start = other.record_event(Some(CU_EVENT_DEFAULT))?;
        for _ in 0..launches {
            match peers.get_mut(contender - kernel_count) {
                Some(peer) => peer.launch()?,
                None => other.memcpy_dtod(from, to)?,
            }
        }
        let end = other.record_event(Some(CU_EVENT_DEFAULT))?;
        end.synchronize()?;
        Ok(f64::from(start.elapsed_ms(&end)?.max(0.0)) / 1e3)
    }
}

/// Bytes that a kernel reads and writes once.
fn bytes(problem: &Problem) -> usize {
    let size = |elem: Elem| elem.bytes() as usize;
    let tensor = |tensor: &run::problem::Tensor| {
        let passes = usize::from(tensor.is_read()) + usize::from(tensor.written);
        passes * size(tensor.elem) * tensor.extents.iter().product::<usize>()
    };
    problem.tensors().map(tensor).sum()
}

fn show(matches: &ArgMatches, chosen: &Chosen) -> Result {
    let problem = Problem::on_device(&chosen.generated, text(matches, "size"), &run::described(matches)?)?;
    let against = texts(matches, "against").into_iter();
    let against = against.map(|words| Ok((words.to_owned(), kernel::in_words(words)?)));
    let against = against.collect::<Result<Vec<_>>>()?;
    let device = opened(matches)?;
    let stream = device.stream().map_err(Failure::of)?;
    let (bytes, mut rows) = (bytes(&problem), Vec::new());
    let mut timer = on_device(&stream, chosen, &against, &problem, bytes, &mut rows).map_err(Failure::of)?;
    let effort = if matches.get_flag("quick") { Effort::QUICK } else { Effort::USUAL };
    let samples = measure::measure(&mut timer, rows.len(), &effort).map_err(Failure::of)?;
    let name = &device.properties().name;
    if matches.get_flag("json") {
        let row = |(Row { name, note, difference }, samples): (&Row, &Samples)| {
            let (seconds, spread) = (samples.median(), samples.spread());
            json!({ "name": name, "seconds": seconds, "spread": spread, "note": note, "difference": difference })
        };
        let rows: Vec<_> = rows.iter().zip(&samples).map(row).collect();
        return output::json(&json!({ "device": name, "bytes": bytes, "rows": rows }));
    }
    print(&table(name, bytes, &rows, &samples))
}

/// A contender before it is measured.
struct Row {
    name: String,
    note: String,
    /// The difference of its results from the kernel's results, relative to their mean size.
    difference: Option<f64>,
}

/// All contenders, launched once, and their rows.
fn on_device<'a>(
    stream: &'a Stream,
    chosen: &Chosen,
    against: &[(String, Chosen)],
    problem: &'a Problem,
    bytes: usize,
    rows: &mut Vec<Row>,
) -> std::result::Result<OnDevice<'a>, Failed> {
    let mut kernels: Vec<Launches<'a>> = Vec::new();
    let first = [(chosen.name.to_owned(), chosen)].into_iter();
    for (name, one) in first.chain(against.iter().map(|(name, other)| (name.clone(), other))) {
        let mut launches = Launches::new(stream, Built::carried(&one.def)?, problem)?;
        // The first launch compiles.
        let launched = launches.launch()?;
        let note = launched.variant.map_or("nothing to do".into(), |variant| {
            format!("variant {} of {}", variant + 1, launched.variants)
        });
        let expected = kernels.first().map(Launches::written);
        let difference = expected.map(|expected| difference(stream, launches.written(), expected));
        let difference = difference.transpose()?;
        rows.push(Row { name, note, difference });
        kernels.push(launches);
    }
    let other = stream.device().context().new_stream()?;
    let mut peers = Vec::new();
    for (name, prepare) in own::peers(chosen.def.name()) {
        let mut peer = Peer::new(prepare, stream, &other, problem)?;
        peer.launch()?;
        other.synchronize()?;
        let difference = Some(difference(stream, peer.written(), kernels[0].written())?);
        rows.push(Row { name: name.to_owned(), note: String::new(), difference });
        peers.push(peer);
    }
    rows.push(Row { name: "copy".into(), note: String::new(), difference: None });
    // Its reads and writes together have this number of bytes.
    let half = (bytes / 2).max(1);
    let copy = [other.alloc_zeros(half)?, other.alloc_zeros(half)?];
    Ok(OnDevice { stream, kernels, other, peers, copy })
}

/// The largest difference of results: see [`contents::difference`].
fn difference<'t>(
    stream: &Stream,
    results: impl Iterator<Item = &'t AnyTensor>,
    others: impl Iterator<Item = &'t AnyTensor>,
) -> std::result::Result<f64, Failed> {
    results.zip(others).try_fold(0.0, |most: f64, (results, others)| {
        let apart = contents::difference(stream, results, others)?;
        Ok(if apart > most || apart.is_nan() { apart } else { most })
    })
}

/// The times of contenders, the copy last.
fn table(device: &str, bytes: usize, rows: &[Row], samples: &[Samples]) -> String {
    let head = ["", "time", "spread", "GB/s", "of the copy", ""];
    let copy = samples.last();
    let row = |(Row { name, note, difference }, one): (&Row, &Samples)| {
        let speed = copy.map_or(f64::NAN, |copy| one.speed_against(copy).0);
        let apart = difference.map(|apart| match apart {
            0.0 => "the same results".to_owned(),
            apart => format!("results differ by {apart:.1e}"),
        });
        let notes: Vec<&str> = [note.as_str(), apart.as_deref().unwrap_or("")]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        vec![
            name.clone(),
            time(one.median()),
            format!("{:.1} %", 100.0 * one.spread()),
            format!("{:.0}", bytes as f64 / one.median() / 1e9),
            format!("{speed:.2}"),
            notes.join(", "),
        ]
    };
    let table = output::table(&head, rows.iter().zip(samples).map(row), &[1, 2, 3, 4]);
    format!("{device}, {}\n{table}", output::bytes(bytes as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_compare_with_the_copy() {
        let times = [2e-6, 4e-6, 4e-6, 1e-6].map(|time| Samples::of(&[time; 3], 1));
        let row =
            |name: &str, note: &str, difference| Row { name: name.into(), note: note.into(), difference };
        let rows = [
            row("mine", "variant 1 of 2", None),
            row("other", "variant 2 of 2", Some(0.0)),
            row("a library", "", Some(3.21e-7)),
            row("copy", "", None),
        ];
        insta::assert_snapshot!("own_bench_table", table("a GPU", 4000, &rows, &times));
    }
}
