//! `tilewright bench`: kernels against their baselines, on a GPU, in reproducible figures.

mod case;
mod counters;
mod cublaslt;
mod driver;
mod form;
mod gemm;
mod helpers;
mod jit;
mod ladder;
mod library;
mod measure;
mod memory;
mod names;
mod nvml;
mod once;
mod operands;
mod plot;
mod prepared;
mod report;
mod roof;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use tilewright::kernels::choose::{self, Problem, candidates};
use tilewright::kernels::{DOUBLE, FASTEST};
use tilewright_codegen::Elem;
use tilewright_codegen::words::Words;
use tilewright_runtime::nvrtc::Nvrtc;

use crate::output::{self, Failure};

use case::Row;
use cublaslt::CublasLt;
use driver::Device;
use gemm::{Ours, Place, Task};
use helpers::Helpers;
use measure::Effort;
use report::Machine;
pub(crate) use report::time;

/// A value, or a message for the person at the terminal.
type Result<T = ()> = std::result::Result<T, String>;

/// The installed version of cuBLASLt, or why there is none.
pub(crate) fn comparison() -> Result<String> {
    cublaslt::found().map_err(|why| why.to_string())
}

const METHOD: &str = "\
How it is measured:
  Every result is compared with double precision before and after it is timed, on poisoned outputs.
  Inputs are random and seeded; sets of data rotate, three times the cache together, so that no launch hits its data there.
  Contenders alternate, A B A B …, in one run; all launches of a sample are queued before the first one starts.
  Times are medians of CUDA events over rounds; `speed` is the median of the rounds' ratios, with its spread.
  Memory-bound works are compared with a copy of as many bytes; untimed launches before each sample warm the cache up.
  cuBLASLt is the fastest of its heuristic's first eight algorithms, for the same types and its own epilogue. It multiplies
  f32 strictly, without TF32, also where a kernel has another `precision`; narrow weights are compared with wide ones.
  The allowed error follows from the types: 1e-5 of the norm for f32 and f32x3, 1e-3 where tensor cores truncate sums of f16,
  bf16 and tf32, 5e-3 and 5e-2 for 8-bit floats without and with fast accumulation; and the rounding of C.";

const EXAMPLES: &str = "\
Examples:
  tilewright bench gemm --sizes 1024,2048,4096
  tilewright bench gemm --dtype bf16 --sizes 4096,4095x4097x1023 --layouts tn
  tilewright bench gemm --dtype e4m3 --sizes 4096 --kernel 'arch=90 out=bf16' --kernel 'arch=90 out=bf16 fast_accum=true'
  tilewright bench gemm --dtype bf16 --layouts tn --kernel 'arch=90 bias=rows epilogue=gelu'
  tilewright bench gemm --kernel 'vec=4 bk=16 stages=3' --kernel 'vec=4 bk=16' --layouts nn,nt,tn,tt
  tilewright bench ladder --plot ladder.svg
  tilewright bench batched --sizes 64x128x128x128
  tilewright bench jit";

/// The default contenders: keys of `matmul_kernel!`.
const BEST: &[(Elem, &[&str])] = &[
    (Elem::F32, FASTEST),
    (Elem::F64, &[DOUBLE, "bm=64 bn=64"]),
    (Elem::F16, &["arch=90", "vec=8 bk=16"]),
    (Elem::Bf16, &["arch=90", "vec=8 bk=16"]),
    (Elem::I8, &["bm=64 bn=64"]),
    (Elem::I32, &["bm=64 bn=64"]),
    (Elem::Tf32, &["arch=90"]),
    (Elem::E4m3, &["arch=90", "arch=90 fast_accum=true"]),
    (Elem::E5m2, &["arch=90", "arch=90 fast_accum=true"]),
];

pub(crate) fn command() -> Command {
    let sizes = |default: &'static str, help: &'static str| {
        option("sizes", "SIZES", help).value_delimiter(',').default_value(default)
    };
    let kernels = option("kernel", "KEYS", "Keys of `matmul_kernel!`; may be given several times")
        .action(ArgAction::Append);
    let dtype = || option("dtype", "TYPE", "Element type of A and B").default_value("f32");
    Command::new("bench")
        .about("Measure kernels against their peers on a GPU")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(format!("{EXAMPLES}\n\n{METHOD}"))
        .subcommand(
            common(Command::new("gemm"))
                .about("Matrix products: C (M, N) = A (M, K) · B (K, N)")
                .arg(dtype())
                .arg(sizes("1024,2048,4096", "n, MxNxK or LxMxNxK, separated by commas"))
                .arg(
                    option(
                        "layouts",
                        "LAYOUTS",
                        "nn, nt, tn, tt: as BLAS writes it, columns of C contiguous [default: tn for tf32 and 8 bits, else nt]",
                    )
                    .value_delimiter(','),
                )
                .arg(kernels.clone()),
        )
        .subcommand(
            common(Command::new("ladder"))
                .about("The steps of a tutorial, from naive to fast, with the reasons")
                .arg(sizes("4096", "n or MxNxK, separated by commas")),
        )
        .subcommand(
            common(Command::new("batched"))
                .about("Many small products at once")
                .arg(dtype())
                .arg(sizes("64x128x128x128,64x256x256x256,64x512x512x512", "LxMxNxK, separated by commas"))
                .arg(kernels),
        )
        .subcommand(
            Command::new("memory")
                .about("Memory-bound works, against a copy of as many bytes")
                .arg(
                    Arg::new("works")
                        .value_name("WORK")
                        .help(format!("Some of {}; all without any", memory::names().join(", ")))
                        .num_args(0..),
                )
                .arg(option("dtype", "TYPES", "Element types, separated by commas").value_delimiter(',').default_value("f32,bf16"))
                .arg(option("sizes", "SIZES", "Rows and columns, MxN, separated by commas; usual ones without it").value_delimiter(','))
                .arg(
                    option("kernel", "KERNEL", "A kernel and its constants in place of the chooser's; may be given several times")
                        .action(ArgAction::Append),
                )
                .arg(Arg::new("quick").long("quick").help("Fewer rounds: a first impression").action(ArgAction::SetTrue))
                .arg(option("json", "FILE", "Write the results as JSON")),
        )
        .subcommand(
            Command::new("launch")
                .about("Launch kernels once, unmeasured: for profilers and sanitizers")
                .arg(
                    Arg::new("kernels")
                        .value_name("KERNEL")
                        .help("A kernel that comes with tilewright, or keys of `matmul_kernel!`; all of both without it")
                        .num_args(0..),
                )
                .arg(sizes("256x256x64,100x77x33", "n or MxNxK, separated by commas"))
                .arg(
                    Arg::new("every-variant")
                        .long("every-variant")
                        .help("Each variant that can run at a size, not only the one that a launch takes")
                        .action(ArgAction::SetTrue),
                ),
        )
        .subcommand(
            Command::new("counters")
                .about("Launch small kernels whose accesses the simulator counts: bench/gpu/counters.py compares")
                .arg(option("simulated", "FILE", "Write what the simulator counts, and launch nothing")),
        )
        .subcommand(
            Command::new("jit")
                .about("How long kernels take from their definition to a binary and from the cache; to a GPU, where there is one")
                .arg(option("arch", "ARCH", "What is compiled for").default_value("sm_90a"))
                .arg(option("json", "FILE", "Write the results as JSON")),
        )
}

pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn common(command: Command) -> Command {
    command
        .arg(
            option("against", "PEER", "cublas, or none")
                .value_parser(["cublas", "none"])
                .default_value("cublas"),
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .help("Fewer rounds: a first impression")
                .action(ArgAction::SetTrue),
        )
        .arg(option("json", "FILE", "Write the results as JSON"))
        .arg(option("plot", "FILE", "Draw a roofline as SVG"))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let outcome = match matches.subcommand() {
        Some(("gemm", matches)) => on_device(matches, gemm_tasks(matches)),
        Some(("ladder", matches)) => on_device(matches, ladder_tasks(matches)),
        Some(("batched", matches)) => on_device(matches, batched_tasks(matches)),
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

/// A plan of measurements: kernels of one form each, and sizes for all of them.
struct Plan {
    groups: Vec<(String, Vec<Ours>)>,
    sizes: Vec<[i64; 4]>,
    explain: Option<Explain>,
}

/// Explains the rows of one size.
type Explain = fn(&[Ours], &[Row]) -> String;

pub(crate) fn texts<'m>(matches: &'m ArgMatches, name: &str) -> Vec<&'m str> {
    matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
}

fn elem(matches: &ArgMatches) -> Result<Elem> {
    let name = texts(matches, "dtype").concat();
    let known = || BEST.iter().map(|(elem, _)| elem.name()).collect::<Vec<_>>().join(", ");
    let elem = Elem::named(&name).filter(|elem| BEST.iter().any(|(known, _)| known == elem));
    elem.ok_or_else(|| format!("`{name}` is no element type of a product; write one of {}", known()))
}

/// The product of these keys; the comparison sets the keys that they leave open.
fn product(keys: &str, problem: &Problem) -> Result<Ours> {
    let (_, kernel) = choose::kernel(keys, problem).map_err(|why| why.to_string())?;
    let words = Words::read(keys).map_err(|why| why.to_string())?;
    Ours::new(if keys.is_empty() { "matmul" } else { keys }, kernel, words.args())
}

/// The products of these keys, with short names.
fn products(keys: &[&str], problem: &Problem) -> Result<Vec<Ours>> {
    let named = |(keys, name)| {
        let mut ours = product(keys, problem)?;
        ours.name = name;
        Ok(ours)
    };
    keys.iter().copied().zip(names::short(keys)).map(named).collect()
}

fn gemm_tasks(matches: &ArgMatches) -> Result<Plan> {
    let elem = elem(matches)?;
    let given = texts(matches, "kernel");
    let usual = BEST.iter().find(|(known, _)| *known == elem).map_or(&[][..], |(_, keys)| keys);
    let mut keys = if given.is_empty() { usual.to_vec() } else { given.clone() };
    // The chooser's candidates take part, unless they are already there under another spelling.
    let typed = format!("dtype={elem} ");
    let more =
        candidates(&Problem::new(elem, 1, 1, 1)).into_iter().map(|keys| keys.trim_start_matches(&typed));
    keys.extend(more.filter(|keys| given.is_empty() && !usual.contains(keys)));
    let mut layouts = texts(matches, "layouts");
    if layouts.is_empty() {
        // On tensor cores these are multiplied along K only.
        let k_major = elem.bytes() == 1 || elem == Elem::Tf32;
        layouts.push(if k_major { "tn" } else { "nt" });
    }
    let mut groups = Vec::new();
    for letters in layouts {
        let problem = Problem::new(elem, 1, 1, 1).layouts(letters).map_err(|why| why.to_string())?;
        groups.extend(by_form("gemm", products(&keys, &problem)?));
    }
    plan(groups, sizes(&texts(matches, "sizes"), 3)?, None)
}

fn ladder_tasks(matches: &ArgMatches) -> Result<Plan> {
    let groups = vec![(format!("ladder {}", ladder::ELEM), ladder::kernels()?)];
    plan(groups, sizes(&texts(matches, "sizes"), 3)?, Some(ladder::explain))
}

fn batched_tasks(matches: &ArgMatches) -> Result<Plan> {
    let elem = elem(matches)?;
    let given = texts(matches, "kernel");
    let one = Problem::new(elem, 1, 1, 1);
    let (keys, problem) = match given.is_empty() {
        true => (candidates(&one.batched(1)), one.batched(1)),
        false => (given, one),
    };
    let groups = by_form("batched", products(&keys, &problem)?);
    plan(groups, sizes(&texts(matches, "sizes"), 4)?, None)
}

/// Kernels of the same form, in the order of their first: each form has its own peer.
fn by_form(suite: &str, all: Vec<Ours>) -> Vec<(String, Vec<Ours>)> {
    let mut groups: Vec<(String, Vec<Ours>)> = Vec::new();
    for ours in all {
        match groups.iter_mut().find(|(_, group)| group[0].form == ours.form) {
            Some((_, group)) => group.push(ours),
            None => groups.push((format!("{suite} {}", ours.form), vec![ours])),
        }
    }
    groups
}

fn plan(groups: Vec<(String, Vec<Ours>)>, sizes: Vec<[i64; 4]>, explain: Option<Explain>) -> Result<Plan> {
    match groups.is_empty() {
        true => Err("there is nothing to measure".into()),
        false => Ok(Plan { groups, sizes, explain }),
    }
}

/// Short names whose keys are not their own text, and these keys; each once.
fn legend(plan: &Plan) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for ours in plan.groups.iter().flat_map(|(_, ours)| ours) {
        let one = (ours.name.as_str(), ours.keys.as_str());
        if one.0 != one.1 && !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// Batch, M, N, K: from `LxMxNxK`, or, where there need be no batch, `n` or `MxNxK`.
pub(crate) fn sizes(texts: &[&str], parts: usize) -> Result<Vec<[i64; 4]>> {
    let one = |text: &&str| {
        let numbers: Option<Vec<i64>> = text
            .split('x')
            .map(|part| part.trim().parse().ok().filter(|n| (1..=1 << 20).contains(n)))
            .collect();
        match (numbers.as_deref(), parts) {
            (Some([n]), 3) => Ok([1, *n, *n, *n]),
            (Some([m, n, k]), 3) => Ok([1, *m, *n, *k]),
            (Some([l, m, n, k]), _) => Ok([*l, *m, *n, *k]),
            (_, 4) => Err(format!("`{text}` is no size; write LxMxNxK, such as 64x128x128x128")),
            _ => Err(format!("`{text}` is no size; write n or MxNxK, such as 4096 or 4096x4096x512")),
        }
    };
    texts.iter().map(one).collect()
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
    let effort = if matches.get_flag("quick") { Effort::QUICK } else { Effort::USUAL };
    let place = Place { device: &device, nvrtc: &nvrtc, helpers: &helpers, cublas: cublas.as_ref(), effort };
    let machine = Machine::of(&device, nvrtc.version(), cublas.as_ref().map(CublasLt::version));
    let legend = legend(&plan);
    let keys: String = legend.iter().map(|(name, keys)| format!("{name}: {keys}\n")).collect();
    say(&format!("{}\n{keys}\n{}", machine.line(), report::heading()))?;

    let mut all: Vec<Row> = Vec::new();
    for (suite, ours) in &plan.groups {
        for &sizes in &plan.sizes {
            let task = Task { suite: suite.clone(), sizes, ours, predict: plan.explain.is_none() };
            let rows = gemm::run(&place, &task)?;
            say(&format!("{}\n", report::table(&rows)))?;
            if let Some(explain) = plan.explain {
                say(&format!("{}\n", explain(ours, &rows)))?;
            }
            all.extend(rows);
        }
    }
    let files = (matches.get_one::<String>("json"), matches.get_one::<String>("plot"));
    if files != (None, None) {
        let roof = roof::of(&device, &helpers, plan.groups[0].1[0].form.a)?;
        if let Some(file) = files.0 {
            save(file, &format!("{:#}\n", report::json(&machine, roof.as_ref(), &legend, &all)))?;
        }
        if let Some(file) = files.1 {
            let roof =
                roof.ok_or("what this device can do at most is not known, so there is no roofline to draw")?;
            save(file, &plot::roofline(&machine.line(), &roof, &all))?;
        }
    }
    let wrong: Vec<&Row> = all.iter().filter(|row| !row.right).collect();
    for row in &wrong {
        eprintln!("wrong: {} {}, {}: error {:.1e}", row.suite, row.problem, row.name, row.error.relative);
    }
    Ok(wrong.is_empty())
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
        effort: Effort { lead: 2, ..if matches.get_flag("quick") { Effort::QUICK } else { Effort::USUAL } },
    };
    let device = Device::open()?;
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    let machine = Machine::of(&device, nvrtc.version(), None);
    say(&format!("{}\n\n{}", machine.line(), report::heading()))?;
    let all = memory::run(&device, &nvrtc, &wanted, &|rows| say(&format!("{}\n", report::table(rows))))?;
    if let Some(file) = matches.get_one::<String>("json") {
        save(file, &format!("{:#}\n", report::json(&machine, None, &[], &all)))?;
    }
    Ok(all.iter().all(|row| row.right))
}

fn launch(matches: &ArgMatches) -> Result<bool> {
    let kernels = once::kernels(&texts(matches, "kernels"))?;
    let sizes = sizes(&texts(matches, "sizes"), 3)?;
    let device = Device::open()?;
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    for kernel in &kernels {
        for &[_, m, n, k] in &sizes {
            let sizes = once::Sizes::new(m, n, k);
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
    let launches = jit::launches()?;
    let (major, minor) = nvrtc.version();
    say(&format!("NVRTC {major}.{minor}, {architecture}\n\n{}", jit::table(&all, launches.as_ref())))?;
    if let Some(file) = matches.get_one::<String>("json") {
        save(file, &format!("{:#}\n", jit::json(&all, launches.as_ref())))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(text: &str, parts: usize, expected: std::result::Result<[i64; 4], &str>) {
        assert_eq!(sizes(&[text], parts).map(|sizes| sizes[0]), expected.map_err(str::to_owned));
    }

    #[test]
    fn sizes_are_read() {
        check_size("1024", 3, Ok([1, 1024, 1024, 1024]));
        check_size("100x77x33", 3, Ok([1, 100, 77, 33]));
        check_size("64x1x2x3", 4, Ok([64, 1, 2, 3]));
        check_size("0", 3, Err("`0` is no size; write n or MxNxK, such as 4096 or 4096x4096x512"));
        check_size("4x4", 3, Err("`4x4` is no size; write n or MxNxK, such as 4096 or 4096x4096x512"));
        check_size("128", 4, Err("`128` is no size; write LxMxNxK, such as 64x128x128x128"));
    }

    fn matches(line: &str) -> ArgMatches {
        command().get_matches_from(line.split_whitespace())
    }

    #[test]
    fn the_usual_kernels_are_products_of_their_types() {
        for (elem, _) in BEST {
            let line = format!("bench gemm --dtype {elem} --layouts nn,nt,tn,tt");
            let plan = gemm_tasks(matches(&line).subcommand().unwrap().1).unwrap();
            // With and without fast accumulation, 8-bit floats are two comparisons.
            let forms = if matches!(elem, Elem::E4m3 | Elem::E5m2) { 8 } else { 4 };
            assert_eq!((plan.groups.len(), plan.sizes.len()), (forms, 3));
            assert!(plan.groups.iter().all(|(_, ours)| ours[0].form.a == *elem));
        }
        let plan = batched_tasks(matches("bench batched").subcommand().unwrap().1).unwrap();
        assert_eq!(plan.sizes[0], [64, 128, 128, 128]);
    }

    #[test]
    fn mistakes_are_named() {
        let said = |line: &str| gemm_tasks(matches(line).subcommand().unwrap().1).err().unwrap_or_default();
        let expected = "`fp8` is no element type of a product; write one of f32, f64, f16, bf16, i8, i32, tf32, e4m3, e5m2";
        assert_eq!(said("bench gemm --dtype fp8"), expected);
        assert!(said("bench gemm --layouts n").contains("write one of nn, nt, tn, tt"));
        assert!(said("bench gemm --kernel bmm=64").contains("did you mean `bm`?"));
    }
}
