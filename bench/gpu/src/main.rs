//! `tilewright-bench`: the kernels that ship against their peers, on a GPU, in reproducible figures.

mod case;
mod command;
mod counters;
mod cublaslt;
mod driver;
mod form;
mod gemm;
mod helpers;
mod host;
mod jit;
mod ladder;
mod memory;
mod names;
mod nvml;
mod once;
mod operands;
mod own;
mod plan;
mod prepared;
mod report;

use std::cell::RefCell;
use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::json;
use tilewright_codegen::Elem;
use tilewright_runtime::nvrtc::Nvrtc;

use tilewright_cli::measure::Effort;
use tilewright_cli::output::{self, Failure, texts};

use case::Row;
use command::{command, sizes};
use cublaslt::CublasLt;
use driver::Device;
use gemm::{Bench, Task};
use helpers::Helpers;
use plan::Plan;
use prepared::Loaded;
use report::Machine;

/// A value, or a message for the person at the terminal.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let outcome = match command().get_matches().subcommand() {
        Some(("gemm", matches)) => on_device(matches, plan::gemm_tasks(matches)),
        Some(("ladder", matches)) => on_device(matches, plan::ladder_tasks(matches)),
        Some(("batched", matches)) => on_device(matches, plan::batched_tasks(matches)),
        Some(("memory", matches)) => memory_works(matches),
        Some(("launch", matches)) => launch(matches),
        Some(("counters", matches)) => counted(matches),
        Some(("jit", matches)) => jit_times(matches),
        _ => unreachable!("clap asks for a subcommand"),
    };
    output::finish(match outcome {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Wrong),
        Err(message) => Err(Failure::Refused(message)),
    })
}

/// Measures a plan. False if a result was wrong.
fn on_device(matches: &ArgMatches, plan: Result<Plan>) -> Result<bool> {
    let plan = plan?;
    let device = Device::open()?;
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    let helpers = Helpers::compile(&device, &nvrtc)?;
    let against = texts(matches, "against") == ["cublas"];
    let cublas = match against.then(CublasLt::open) {
        Some(cublas) => Some(cublas.map_err(|why| format!("{why}, or measure without it: --against none"))?),
        None => None,
    };
    let location = Bench {
        device: &device,
        nvrtc: &nvrtc,
        helpers: &helpers,
        cublas: cublas.as_ref(),
        effort: effort(matches),
    };
    let machine = Machine::of(&device, nvrtc.version(), cublas.as_ref().map(CublasLt::version));
    let legend = plan::legend(&plan);
    let keys: String = legend.iter().map(|(name, keys)| format!("{name}: {keys}\n")).collect();
    say(&format!("{}\n{keys}\n{}", machine.line(), report::heading()))?;

    let mut all: Vec<Row> = Vec::new();
    for (suite, ours) in &plan.groups {
        let loaded: Vec<_> = ours.iter().map(|ours| RefCell::new(Loaded::new(&ours.kernel))).collect();
        if plan.every_variant.is_some() {
            loaded.iter().try_for_each(|one| one.borrow_mut().compile(&device, &nvrtc))?;
        }
        for &sizes in &plan.sizes {
            let (predict, every_variant) = (plan.explain.is_none(), plan.every_variant);
            let task = Task { suite: suite.clone(), sizes, ours, loaded: &loaded, predict, every_variant };
            let rows = gemm::run(&location, &task)?;
            say(&format!("{}\n", report::table(&rows)))?;
            if let Some(explain) = plan.explain {
                say(&format!("{}\n", explain(ours, &rows)))?;
            }
            all.extend(rows);
        }
    }
    if let Some(file) = matches.get_one::<String>("json") {
        save(file, &format!("{:#}\n", report::json(&machine, &legend, &all)))?;
    }
    let wrong: Vec<&Row> = all.iter().filter(|row| !row.right).collect();
    for row in &wrong {
        eprintln!("wrong: {} {}, {}: error {:.1e}", row.suite, row.problem, row.name, row.error.relative);
    }
    Ok(wrong.is_empty())
}

fn effort(matches: &ArgMatches) -> Effort {
    if matches.get_flag("quick") { Effort::QUICK } else { Effort::USUAL }
}

/// Measures cases that name their peers themselves, and reports them.
fn measured(
    matches: &ArgMatches,
    run: impl FnOnce(&Device, &Nvrtc, &dyn Fn(&[Row]) -> Result) -> Result<Vec<Row>>,
) -> Result<bool> {
    let device = Device::open()?;
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    let machine = Machine::of(&device, nvrtc.version(), None);
    say(&format!("{}\n\n{}", machine.line(), report::heading()))?;
    let all = run(&device, &nvrtc, &|rows| say(&format!("{}\n", report::table(rows))))?;
    if let Some(file) = matches.get_one::<String>("json") {
        save(file, &format!("{:#}\n", report::json(&machine, &[], &all)))?;
    }
    Ok(all.iter().all(|row| row.right))
}

fn memory_works(matches: &ArgMatches) -> Result<bool> {
    let elem = |name: &str| {
        Elem::named(name).ok_or_else(|| format!("`{name}` is no element type; write f32 or bf16"))
    };
    let size =
        |text: &str| match text.split('x').map(str::parse).collect::<std::result::Result<Vec<i64>, _>>() {
            Ok(numbers) if numbers.len() == 2 && numbers.iter().all(|&n| n > 0) => {
                Ok([numbers[0], numbers[1]])
            }
            _ => Err(format!("`{text}` is no size; write MxN, such as 4096x4097")),
        };
    let wanted = memory::Wanted {
        works: texts(matches, "works"),
        elems: texts(matches, "dtype").into_iter().map(elem).collect::<Result<_>>()?,
        sizes: texts(matches, "sizes").into_iter().map(size).collect::<Result<_>>()?,
        kernels: texts(matches, "kernel"),
        effort: Effort { lead: 2, ..effort(matches) },
    };
    measured(matches, |device, nvrtc, tell| memory::run(device, nvrtc, &wanted, tell))
}

fn launch(matches: &ArgMatches) -> Result<bool> {
    let kernels = once::kernels(&texts(matches, "kernels"))?;
    let sizes = sizes(&texts(matches, "sizes"), 3)?;
    let device = Device::open()?;
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    for kernel in &kernels {
        for &[_, m, n, k] in &sizes {
            let sizes = [("M", m), ("N", n), ("K", k), ("L", 2)];
            for note in once::launch(&device, &nvrtc, kernel, &sizes, matches.get_flag("every-variant"))? {
                say(&format!("{}, {m}x{n}x{k}: {note}\n", kernel.name))?;
            }
        }
    }
    Ok(true)
}

fn counted(matches: &ArgMatches) -> Result<bool> {
    if let Some(file) = matches.get_one::<String>("simulated") {
        save(file, &format!("{:#}\n", counters::simulated()?))?;
        return Ok(true);
    }
    let device = Device::open()?;
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    for case in counters::CASES {
        let notes = once::launch(&device, &nvrtc, &case.kernel()?, &case.sizes(), false)?;
        say(&format!("{}: {}\n", case.name, notes.concat()))?;
    }
    Ok(true)
}

fn jit_times(matches: &ArgMatches) -> Result<bool> {
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    let architecture = texts(matches, "arch").concat();
    let all = jit::run(&nvrtc, &architecture)?;
    let launches = host::launches(&nvrtc)?;
    let (major, minor) = nvrtc.version();
    let tables = jit::table(&all) + &host::table(&launches);
    say(&format!("NVRTC {major}.{minor}, {architecture}\n\n{tables}"))?;
    if let Some(file) = matches.get_one::<String>("json") {
        let json = json!({ "kernels": jit::json(&all), "launches": host::json(&launches) });
        save(file, &format!("{json:#}\n"))?;
    }
    Ok(true)
}

fn say(text: &str) -> Result {
    output::print(text).map_err(message)
}

fn save(file: &str, text: &str) -> Result {
    output::save(file, text).map_err(message)
}

fn message(failure: Failure) -> String {
    match failure {
        Failure::Refused(why) => why,
        Failure::Wrong => "a result is wrong".into(),
    }
}
