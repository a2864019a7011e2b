//! `bench` for kernels of one's own: the time of a launch on a device, beside a copy of as many bytes.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tilewright_codegen::Elem;
use tilewright_runtime::{Device, Error, Stream};

use crate::kernel::{self, Chosen};
use crate::measure::{self, Effort, Samples, Timer};
use crate::output::{self, Failure, Result, finish, option, print, time};
use crate::run::{self, device::Launches, problem::Problem};

const EXAMPLES: &str = "\
Examples:
  tilewright bench KERNEL --size M=4096,N=4096
  tilewright bench KERNEL --input 'x: f32 [M=4096, N=1000] normal'";

const METHOD: &str = "\
The kernel and a copy of as many bytes as it reads and writes once take turns, A B A B …; times are medians of CUDA events over
rounds, and the speed is the median of the rounds' ratios. Launches go through the runtime with all its checks, so a kernel
that takes less than some microseconds waits for the host. Results are not compared: `run --device cuda:0` does that.";

pub(crate) fn command() -> Command {
    Command::new("bench")
        .about("Measure a kernel on a GPU, beside a copy of as many bytes")
        .args(kernel::args())
        .arg(option("size", "M,N,K", "Extents, in this order or by name: M=300,K=7"))
        .arg(run::inputs())
        .arg(option("against", "KERNEL", "Another of these kernels, with its constants: 'other BM=64'"))
        .arg(
            option("device", "N", "The device's number")
                .default_value("0")
                .value_parser(value_parser!(usize)),
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .help("Fewer rounds: a first impression")
                .action(ArgAction::SetTrue),
        )
        .arg(Arg::new("json").long("json").help("Print what a program can read").action(ArgAction::SetTrue))
        .after_help(format!("{}\n\n{METHOD}\n\n{}", kernel::examples(EXAMPLES), kernel::help()))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(kernel::chosen(matches).and_then(|chosen| show(matches, &chosen)))
}

/// Launches contenders, and copies.
struct OnDevice<'a> {
    stream: &'a Stream,
    kernels: Vec<Launches<'a>>,
    copy: Copy,
}

impl Timer for OnDevice<'_> {
    type Error = Error;

    fn time(&mut self, contender: usize, _: usize, launches: usize) -> std::result::Result<f64, Error> {
        let OnDevice { stream, kernels, copy } = self;
        let Some(kernel) = kernels.get_mut(contender) else { return copy.time(launches) };
        let work = || (0..launches).try_for_each(|_| kernel.launch().map(|_| ()));
        Ok(stream.time(work)?.1.as_secs_f64())
    }
}

/// A copy on the device, by the driver.
struct Copy {
    stream: std::sync::Arc<tilewright::cudarc::driver::CudaStream>,
    from: tilewright::cudarc::driver::CudaSlice<u8>,
    to: tilewright::cudarc::driver::CudaSlice<u8>,
}

impl Copy {
    /// A copy that reads and writes so many bytes together.
    fn new(device: &Device, bytes: usize) -> std::result::Result<Copy, Error> {
        let stream = device.context().new_stream()?;
        let half = (bytes / 2).max(1);
        let (from, to) = (stream.alloc_zeros(half)?, stream.alloc_zeros(half)?);
        Ok(Copy { stream, from, to })
    }

    fn time(&mut self, launches: usize) -> std::result::Result<f64, Error> {
        use tilewright::cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
        let start = self.stream.record_event(Some(CU_EVENT_DEFAULT))?;
        for _ in 0..launches {
            self.stream.memcpy_dtod(&self.from, &mut self.to)?;
        }
        let end = self.stream.record_event(Some(CU_EVENT_DEFAULT))?;
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
    let (sizes, inputs) = (matches.get_one::<String>("size").map(String::as_str), run::described(matches)?);
    let problem = Problem::new(&chosen.generated, sizes, &inputs, 0)?;
    let against = matches.get_one::<String>("against").map(|text| {
        let (name, keys) = text.split_once(' ').unwrap_or((text, ""));
        kernel::choose(name, keys)
    });
    let against = against.transpose()?;
    let ordinal = matches.get_one("device").copied().unwrap_or(0);
    let device = Device::open(ordinal).map_err(Failure::of)?;
    let stream = device.stream().map_err(Failure::of)?;
    let bytes = bytes(&problem);
    let launches =
        |chosen: &'_ Chosen| Launches::new(&stream, chosen.def.clone(), &problem).map_err(Failure::of);
    let mut kernels = vec![launches(chosen)?];
    let mut names = vec![chosen.name.to_owned()];
    if let Some(other) = &against {
        kernels.push(launches(other)?);
        names.push(matches.get_one::<String>("against").cloned().unwrap_or_default());
    }
    names.push("copy".to_owned());
    // The first launch compiles.
    let notes: Vec<String> = kernels
        .iter_mut()
        .map(|kernel| {
            kernel.launch().map(|launched| {
                launched.variant.map_or("nothing to do".into(), |variant| {
                    format!("variant {} of {}", variant + 1, launched.variants)
                })
            })
        })
        .collect::<std::result::Result<_, _>>()
        .map_err(Failure::of)?;
    let mut timer =
        OnDevice { stream: &stream, kernels, copy: Copy::new(&device, bytes).map_err(Failure::of)? };
    let effort = if matches.get_flag("quick") { Effort::QUICK } else { Effort::USUAL };
    let samples = measure::measure(&mut timer, names.len(), &effort).map_err(Failure::of)?;
    let name = &device.properties().name;
    if matches.get_flag("json") {
        let row = |(name, samples): (&String, &Samples)| json!({ "name": name, "seconds": samples.median(), "spread": samples.spread() });
        let rows: Vec<_> = names.iter().zip(&samples).map(row).collect();
        return output::json(&json!({ "device": name, "bytes": bytes, "rows": rows }));
    }
    print(&table(name, bytes, &names, &notes, &samples))
}

/// The times of contenders, the copy last.
fn table(device: &str, bytes: usize, names: &[String], notes: &[String], samples: &[Samples]) -> String {
    let head = ["", "time", "spread", "GB/s", "of the copy", ""].map(String::from).to_vec();
    let copy = samples.last();
    let row = |(place, (name, one)): (usize, (&String, &Samples))| {
        let speed = copy.map_or(f64::NAN, |copy| one.speed_against(copy).0);
        vec![
            name.clone(),
            time(one.median()),
            format!("{:.1} %", 100.0 * one.spread()),
            format!("{:.0}", bytes as f64 / one.median() / 1e9),
            format!("{speed:.2}"),
            notes.get(place).cloned().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = std::iter::once(head).chain(names.iter().zip(samples).enumerate().map(row)).collect();
    format!("{device}, {}\n{}", output::bytes(bytes as u64), output::table(&rows, &[1, 2, 3, 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_compare_with_the_copy() {
        let samples = [Samples::of(&[2e-6; 3], 1), Samples::of(&[1e-6; 3], 1)];
        let names = ["mine", "copy"].map(String::from);
        let text = table("a GPU", 4000, &names, &["variant 1 of 2".into()], &samples);
        assert_eq!(
            text,
            "a GPU, 4.0 kB\n         time  spread  GB/s  of the copy\nmine  2.00 µs   0.0 %     2         0.50  variant 1 of 2\n\
             copy  1.00 µs   0.0 %     4         1.00\n"
        );
    }
}
