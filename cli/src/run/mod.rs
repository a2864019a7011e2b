//! `tilewright run`: a kernel on random inputs, in the simulator or on a device, compared with double
//! precision.

pub(crate) mod contents;
pub(crate) mod device;
pub(crate) mod function;
pub(crate) mod input;
mod json;
pub(crate) mod problem;
mod product;
mod reference;
pub(crate) mod simulated;
mod timeline;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use std::process::ExitCode;
use tilewright_codegen::Generated;
use tilewright_codegen::cuda::Instrument;
use tilewright_codegen::kernel_def::Locations;
use tilewright_sim::{Fault, OnEvent};

use crate::kernel::{self, Chosen};
use crate::output::{self, Failure, Result, finish, flag, option, print};
use crate::own;
use input::Input;
use problem::{Argument, Problem};
use reference::Comparison;

const EXAMPLES: &str = "\
Examples:
  tilewright run tutorial
  tilewright run tutorial --size 300,200,100 --seed 7 --schedules 5
  tilewright run matmul bm=64 bn=64 'tc=(8,8)' dtype=i32 --size 128,128,64
  tilewright run softmax --size M=4,N=3000
  tilewright run tutorial --device cuda:0 --size 2048,2048,256
  tilewright run linear_hopper --size 256,256,256 --timeline linear.svg
  tilewright run tutorial --json";

/// Where a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Simulator,
    Device(usize),
}

pub(crate) fn command() -> Command {
    Command::new("run")
        .about("Run a kernel on random inputs and compare the result with double precision")
        .args(kernel::args())
        .arg(sizes("Extents, in this order or by name: M=300,K=7 [default: none is divided by tiles]"))
        .arg(inputs())
        .arg(
            option("device", "sim|cuda:0", "The simulator, or a device by its number")
                .default_value("sim")
                .value_parser(backend),
        )
        .arg(
            option("seed", "N", "Decides inputs, and in the simulator the order of everything")
                .default_value("0")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            option("schedules", "N", "In the simulator: run so many orders, whose results must agree")
                .default_value("1")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(option(
            "timeline",
            "FILE",
            "Write what each warp of the first block did when: a picture, or a trace for Chrome, FILE.json",
        ))
        .arg(flag("check", "Fail where the result cannot be compared, instead of saying so"))
        .arg(output::json_flag())
        .after_help(format!("{}\n\n{}\n\n{}", kernel::examples(EXAMPLES), output::EXIT_CODES, kernel::help()))
}

/// The option with extents.
pub(crate) fn sizes(help: &'static str) -> Arg {
    option("size", "M,N,K", help)
}

/// The option that describes arguments.
pub(crate) fn inputs() -> Arg {
    let help = "An argument in words, 'x: f32 [M=4096, N=1000] row-major normal'; may be given several times";
    option("input", "INPUT", help).action(ArgAction::Append)
}

/// Its text.
pub(crate) fn described(matches: &ArgMatches) -> Result<Vec<Input>> {
    output::texts(matches, "input").into_iter().map(Input::read).collect()
}

fn backend(text: &str) -> std::result::Result<Where, String> {
    let number = text.strip_prefix("cuda:").map(str::parse);
    match (text, number) {
        ("sim", _) => Ok(Where::Simulator),
        (_, Some(Ok(ordinal))) => Ok(Where::Device(ordinal)),
        _ => Err("write `sim` or `cuda:0`".to_owned()),
    }
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(kernel::chosen(matches).and_then(|chosen| carry_out(matches, &chosen)))
}

/// The outcome of a run.
struct Shown {
    /// The index of the variant that ran, if one did.
    variant: Option<usize>,
    /// The device.
    device: String,
    /// Which variant ran and why, and its cost, as text.
    details: String,
    /// The same as JSON.
    json: Value,
    /// The results.
    results: Vec<Vec<f64>>,
}

fn carry_out(matches: &ArgMatches, chosen: &Chosen) -> Result {
    let seed = *matches.get_one::<u64>("seed").unwrap_or(&0);
    let sizes = output::text(matches, "size");
    let problem = Problem::new(&chosen.generated, sizes, &described(matches)?, seed)?;
    let device = matches.get_one::<Where>("device").copied().unwrap_or(Where::Simulator);
    let file = output::text(matches, "timeline");
    let shown = match device {
        Where::Simulator => {
            let schedules = *matches.get_one::<u32>("schedules").unwrap_or(&1);
            let locations = chosen.def.locations();
            let seen = timeline::Events::default();
            let events = file.map(|_| timeline::receiver(&seen));
            let wanted = simulated::Wanted { seed, schedules, locations, events };
            match simulated::run(&chosen.generated, &problem, &wanted) {
                Ok(ran) => {
                    if let Some(file) = file {
                        let of = timeline::of_events(&seen, &chosen.generated, ran.outcome.variant());
                        timeline::write(&of, file)?;
                    }
                    in_simulator(ran, schedules)
                }
                Err(tilewright_sim::Error::Fault(fault)) => return faulty(matches, &fault),
                Err(why) => return Err(Failure::of(why)),
            }
        }
        Where::Device(ordinal) => {
            if file.is_some() {
                let instrument = Instrument { timeline: true, ..Instrument::default() };
                tilewright_runtime::instrument(instrument).map_err(Failure::of)?;
            }
            let ran = device::run(&chosen.def, &problem, ordinal)?;
            file.map_or(Ok(()), |file| timeline::write(&ran.timeline, file))?;
            on_device(ran)
        }
    };
    let compared = reference::compare(chosen.name, &chosen.definition, &problem, &shown.results);
    if compared.is_none() && matches.get_flag("check") {
        return Err(Failure::of(
            "what this kernel computes is not known, so there is nothing to compare with",
        ));
    }
    match matches.get_flag("json") {
        true => output::json(&json::run(chosen, &problem, seed, &shown, compared.as_ref()))?,
        false => print(&text(&chosen.generated, &problem, seed, &shown, compared.as_ref()))?,
    }
    match compared {
        Some(compared) if !compared.is_right() => Err(Failure::Wrong),
        _ => Ok(()),
    }
}

/// A fault is printed in full, and ends the command.
fn faulty(matches: &ArgMatches, fault: &Fault) -> Result {
    match matches.get_flag("json") {
        true => output::json(&json::fault(fault))?,
        false => eprintln!("{fault}"),
    }
    Err(Failure::Wrong)
}

/// A run in the simulator, as `--json` prints it; or its fault.
pub(crate) fn simulate(
    chosen: &Chosen,
    sizes: Option<&str>,
    inputs: &[Input],
    seed: u64,
    events: OnEvent,
) -> Result<Value> {
    let problem = Problem::new(&chosen.generated, sizes, inputs, seed)?;
    let locations = chosen.def.locations();
    let wanted = simulated::Wanted { seed, schedules: 1, locations, events: Some(events) };
    let shown = match simulated::run(&chosen.generated, &problem, &wanted) {
        Ok(ran) => in_simulator(ran, 1),
        Err(tilewright_sim::Error::Fault(fault)) => return Ok(json::fault(&fault)),
        Err(why) => return Err(Failure::of(why)),
    };
    let compared = reference::compare(chosen.name, &chosen.definition, &problem, &shown.results);
    Ok(json::run(chosen, &problem, seed, &shown, compared.as_ref()))
}

/// The variant that a kernel runs for these sizes in the simulator, and the costs of its accesses, as `--json` prints them.
pub fn counted(kernel: &Generated, sizes: &str) -> Result<Value> {
    let problem = Problem::new(kernel, Some(sizes), &[], 0)?;
    let wanted = simulated::Wanted { seed: 0, schedules: 1, locations: Locations::default(), events: None };
    Ok(in_simulator(simulated::run(kernel, &problem, &wanted).map_err(Failure::of)?, 1).json)
}

fn in_simulator(ran: simulated::Ran, schedules: u32) -> Shown {
    let outcome = &ran.outcome;
    let accesses = outcome.accesses().iter().map(|access| {
        json!({
            "access": access.what,
            "tensor": access.tensor,
            "memory": access.memory,
            "executed": access.executed,
            "bytes": access.bytes,
            "wavefronts": access.wavefronts,
            "least_wavefronts": access.least_wavefronts,
            "sectors": access.sectors,
            "least_sectors": access.least_sectors,
        })
    });
    let operations: serde_json::Map<String, Value> =
        outcome.operations().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let json = json!({
        "variant": outcome.variant() + 1,
        "passed_over": outcome.passed_over(),
        "packed": outcome.copies().iter().map(|copy| json!([copy.argument, copy.why])).collect::<Vec<_>>(),
        "grid": outcome.grid(),
        "schedules": schedules,
        "operations": operations,
        "accesses": accesses.collect::<Vec<_>>(),
    });
    let device = match schedules {
        1 => "the simulator".to_owned(),
        n => format!("the simulator, in {n} orders"),
    };
    Shown {
        variant: Some(outcome.variant()),
        device,
        details: outcome.to_string(),
        json,
        results: ran.results,
    }
}

fn on_device(ran: device::Ran) -> Shown {
    let launched = &ran.launched;
    let json = json!({
        "variant": launched.variant.map(|variant| variant + 1),
        "passed_over": launched.passed_over(),
        "packed": launched.packed(),
        "grid": launched.grid,
        "microseconds": ran.time.as_secs_f64() * 1e6,
    });
    let details = format!(
        "{launched}\n{:.1} µs, the fastest of a few launches; `tilewright bench` measures with care\n",
        ran.time.as_secs_f64() * 1e6
    );
    Shown { variant: launched.variant, device: ran.device, details, json, results: ran.results }
}

fn text(
    kernel: &Generated,
    problem: &Problem,
    seed: u64,
    shown: &Shown,
    compared: Option<&Comparison>,
) -> String {
    let sizes: Vec<String> = problem.sizes.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let mut text = format!("{} on {}: {}, seed {seed}\n", kernel.name, shown.device, sizes.join(", "));
    for argument in &problem.arguments {
        if let Argument::Number { name, value, .. } = argument {
            text += &format!("{name} = {value}\n");
        }
    }
    text += &match compared {
        None => format!(
            "the result is not compared: what the kernel computes is not known{}\n",
            compared_kernels()
        ),
        Some(comparison) => verdict(comparison),
    };
    text + &format!(
        "\n{}\n{}",
        tilewright_codegen::report_of(kernel, shown.variant.unwrap_or(0)),
        shown.details
    )
}

/// Which results are compared, in words.
fn compared_kernels() -> &'static str {
    match own::program() {
        Some(_) => "; Commands::reference adds a reference to this program",
        None => "; it is for GEMMs and for softmax, and tests compare the other kernels",
    }
}

fn verdict(comparison: &Comparison) -> String {
    let Comparison { error, share, tensor, at, value, expected, wrong, elements } = comparison;
    match comparison.is_right() {
        true => format!(
            "right: {elements} elements, largest error {error:.3e}, {:.0} % of what rounding explains\n",
            100.0 * share
        ),
        false => {
            let at: Vec<String> = at.iter().map(usize::to_string).collect();
            format!(
                "WRONG: {wrong} of {elements} elements; at ({}) `{tensor}` is {value:e}, and it should be {expected:e}\n",
                at.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_run() {
        let check = |text, expected: Option<Where>| assert_eq!(backend(text).ok(), expected, "{text}");
        check("sim", Some(Where::Simulator));
        check("cuda:0", Some(Where::Device(0)));
        check("cuda:12", Some(Where::Device(12)));
        check("cuda", None);
        check("cuda:x", None);
        check("gpu", None);
    }

    #[test]
    fn wrong_results_say_where() {
        let comparison = Comparison {
            error: 0.5,
            share: 1e5,
            tensor: "c".to_owned(),
            at: vec![3, 4],
            value: 1.5,
            expected: 1.0,
            wrong: 2,
            elements: 63,
        };
        let message = verdict(&comparison);
        assert_eq!(message, "WRONG: 2 of 63 elements; at (3, 4) `c` is 1.5e0, and it should be 1e0\n");
        let fine = Comparison { wrong: 0, share: 0.125, ..comparison };
        assert_eq!(
            verdict(&fine),
            "right: 63 elements, largest error 5.000e-1, 12 % of what rounding explains\n"
        );
    }
}
