//! Random kernels on a device, in every applicable variant, compared with the meaning of their text, which
//! checks the simulator.

use tilewright::Stream;
use tilewright::runtime::Built;
use tilewright_codegen::Definition;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::launch::plan;
use tilewright_codegen::tile::{Arg, Program};
use tilewright_fuzz::case::{Case, Fit, Sizes, Tensor as Drawn};
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::{prepare, wanted};
use tilewright_fuzz::source;
use tilewright_fuzz::whole::{Buffer, Num, Undefined};
use tilewright_sim::{Options, run_variant};
use tilewright_tests::problem::Operand;
use tilewright_tests::tensor::Tensor;
use tilewright_tests::{
    arithmetic, breaks, by_all_cores, gathers, integers, lanes, lists, masks, sweep, types, views,
};

use super::{device_run, stream};

/// Kernels per run, unless `TILEWRIGHT_KERNELS` is set.
const KERNELS: u64 = 300;
/// The maximum number of blocks per launch.
const MOST_BLOCKS: i64 = 64;

/// A tensor of a random case as the other tests represent it.
fn tensor(of: &Drawn) -> Tensor {
    let sizes = |all: &[i64]| all.iter().map(|&n| n as usize).collect();
    let tensor = Tensor {
        name: of.name.clone(),
        elem: of.elem,
        written: of.written,
        extents: sizes(&of.extents),
        over: vec![1; of.extents.len()],
        strides: sizes(&of.strides),
        offset: of.offset,
        len: of.all.len(),
        values: Vec::new(),
    };
    let values: Vec<f64> = tensor.places().into_iter().filter_map(|index| of.all[index]).collect();
    Tensor { values, ..tensor }
}

/// The expected results of a kernel on the arguments of a case.
type Oracle = fn(&Definition, &Program, &Generated, &Case) -> Result<Vec<Buffer>, Undefined>;

/// The results from the text.
fn text(of: &Definition, program: &Program, _: &Generated, case: &Case) -> Result<Vec<Buffer>, Undefined> {
    wanted(of, program, case)
}

/// The results from the text, or, if it has a statement that is not evaluated, of the simulator: its results are compared
/// with plain loops elsewhere. A device's functions are within a few units of the simulator's, its atomic sums in another order.
fn simulated(
    of: &Definition,
    program: &Program,
    kernel: &Generated,
    case: &Case,
) -> Result<Vec<Buffer>, Undefined> {
    if let Ok(known) = wanted(of, program, case) {
        return Ok(known);
    }
    let (options, last) = (Options { count: false, ..Options::default() }, kernel.variants.len() - 1);
    let outcome = run_variant(kernel, last, &case.args(program), &options);
    let outcome = outcome.map_err(|error| Undefined(error.to_string()))?;
    let mut buffers = case.buffers();
    for (tensor, buffer) in case.tensors.iter().zip(&mut buffers).filter(|(tensor, _)| tensor.written) {
        let bytes = outcome.bytes(&tensor.name).ok_or_else(|| Undefined("no such tensor".into()))?;
        for (known, bits) in buffer.all.iter_mut().zip(tensor.decoded(bytes)) {
            let num = Num::of_bits(tensor.elem, bits);
            let error = if tensor.elem.is_float() { 1e-4 * (1.0 + num.value.abs()) } else { 0.0 };
            let num = if error > 0.0 { Num::near(num.value, error) } else { num };
            *known = known.map(|_| num);
        }
    }
    Ok(buffers)
}

/// A kernel, each of its variants as a kernel of its own.
struct Prepared<'s> {
    definition: &'s Definition,
    program: Program,
    kernel: Generated,
    variants: Vec<Built>,
}

impl Prepared<'_> {
    /// `None` for refused kernels, which are counted elsewhere, and for kernels that are too new for a tool.
    fn new(definition: &Definition) -> Option<Prepared<'_>> {
        let (program, kernel) = prepare(definition).ok()?;
        if newest().is_some_and(|newest| kernel.variants.iter().any(|of| of.program.arch > newest)) {
            return None;
        }
        Some(Prepared { definition, program, variants: device_run::variants(&kernel), kernel })
    }

    /// Runs it with the random data of a seed; returns the number of variants that ran.
    fn judge(&self, stream: &Stream, seed: u64, oracle: Oracle) -> Result<u32, String> {
        let Prepared { definition, program, kernel, variants } = self;
        let tell = |why: String| format!("seed {seed}: {why}\n{}", source::definition(definition));
        let mut ran = 0;
        for (index, fit) in [Fit::Whole, Fit::Any, Fit::Aligned].into_iter().enumerate() {
            let seed = seed.wrapping_mul(97) + index as u64;
            let Some(case) = Case::draw(program, kernel, fit, seed, &Sizes::default()) else { continue };
            let small = case.grid(program).is_some_and(|grid| grid.iter().product::<i64>() <= MOST_BLOCKS);
            let empty = case.tensors.iter().any(|tensor| tensor.extents.contains(&0));
            let Ok(wanted) = oracle(definition, program, kernel, &case) else { continue };
            // A case that no launch accepts, such as a written tensor with overlapping modes, is refused by the
            // simulator too.
            let taken = plan(kernel, &case.given(program), &stream.device().limits()).is_ok();
            if !small || empty || !taken {
                continue;
            }
            let mut tensors = case.tensors.iter();
            let operand = |arg: &Arg| match arg {
                Arg::Tensor(_) => {
                    Operand::Tensor(tensor(tensors.next().expect("a tensor for each argument")))
                }
                Arg::Scalar(id) => {
                    Operand::Number(program.scalars[*id as usize].elem, case.scalars[*id as usize])
                }
            };
            let operands: Vec<Operand> = program.args.iter().map(operand).collect();
            for (at, variant) in variants.iter().enumerate() {
                let failed = |why: String| tell(format!("variant {}, {}: {why}", at + 1, case.text()));
                let ran_with = device_run::run(stream, variant, &operands).map_err(failed)?;
                let Some(buffers) = ran_with else { continue };
                ran += 1;
                for ((tensor, wanted), bits) in case.tensors.iter().zip(&wanted).zip(&buffers) {
                    if let Some(why) = tensor.wrong(bits, wanted) {
                        return Err(failed(why));
                    }
                }
            }
        }
        Ok(ran)
    }
}

/// Kernels with data-dependent integers, with arithmetic on tiles, lists, masks, lanes and breaks, on random data: whatever the integers
/// are, no access is out of bounds. A share of the first two, all with `TILEWRIGHT_SWEEP=all`. `TILEWRIGHT_KERNELS` is the most runs of
/// all of them together, one at least of each.
#[test]
fn kernels_with_integers() {
    /// How often each is run.
    const RUNS: u64 = 12;
    if stream().is_none() {
        return;
    }
    // Scattered rows may collide, which is a race.
    let all = integers::all().into_iter().chain(views::all()).filter(|(name, _)| *name != "scatter_rows");
    let all = all.map(|(name, def)| (name, def, text as Oracle));
    // Old values depend on the order of updates.
    let types = types::all().into_iter().filter(|(name, _)| *name != "updates");
    let gathering = gathers::all().into_iter().chain(arithmetic::all()).chain(types);
    let gathering = gathering.map(|(name, def)| (name, def, simulated as Oracle));
    // A share of the kernels: compiling them takes most of the time.
    let share = sweep::share(all.chain(gathering), if asked().is_some() { 1 } else { 8 });
    let words = lanes::all().into_iter().chain(lists::all()).chain(masks::all()).chain(breaks::all());
    // Elements are compacted in any order.
    let words = words.filter(|(name, _)| *name != "compacted");
    let all: Vec<(&str, Definition, Oracle)> = (share.into_iter())
        .chain(words.map(|(name, def)| (name, def, simulated as Oracle)))
        .map(|(name, def, oracle)| (name, def.definition().expect("a definition of this version"), oracle))
        .collect();
    let prepared = by_all_cores(&all, |(_, definition, _)| Prepared::new(definition));
    let runs = asked().map_or(RUNS, |most| (most / all.len() as u64).clamp(1, RUNS));
    let jobs: Vec<_> = (0..all.len()).flat_map(|kernel| (0..runs).map(move |seed| (kernel, seed))).collect();
    let judged = by_all_cores(&jobs, |&(kernel, seed)| {
        let ((name, _, oracle), stream) = (&all[kernel], stream().expect("a device"));
        let judged = prepared[kernel].as_ref().map_or(Ok(0), |of| of.judge(&stream, seed, *oracle));
        judged.unwrap_or_else(|why| panic!("{name}: {why}"))
    });
    for (kernel, (name, ..)) in all.iter().enumerate() {
        let ran: u32 = jobs.iter().zip(&judged).filter(|(job, _)| job.0 == kernel).map(|(_, ran)| ran).sum();
        assert!(ran > 0 || !sweep::is_full() || runs < RUNS, "{name} never ran");
        eprintln!("{name}: {ran} runs of variants");
    }
    let ran: u32 = judged.iter().sum();
    assert!(ran as usize > jobs.len() / 2, "only {ran} runs of {} jobs", jobs.len());
}

/// The number in `TILEWRIGHT_KERNELS`.
fn asked() -> Option<u64> {
    std::env::var("TILEWRIGHT_KERNELS").ok().and_then(|text| text.parse().ok())
}

/// Only kernels for this architecture or older, `TILEWRIGHT_ARCH=80`: a tool may not know newer instructions.
fn newest() -> Option<u32> {
    std::env::var("TILEWRIGHT_ARCH").ok().and_then(|text| text.parse().ok())
}

#[test]
fn kernels_drawn_at_random() {
    drawn(Kind::Parts, 1.0);
}

#[test]
fn kernels_of_whole_tiles_drawn_at_random() {
    drawn(Kind::Whole, 0.5);
}

#[test]
fn kernels_about_one_interplay_drawn_at_random() {
    drawn(Kind::Targeted, 0.5);
}

#[test]
fn kernels_of_exchanges_drawn_at_random() {
    drawn(Kind::Exchanges, 0.5);
}

#[test]
fn kernels_with_options_drawn_at_random() {
    drawn(Kind::Options, 0.5);
}

/// Runs the kernels of the first seeds. `least`: of each as many runs.
fn drawn(kind: Kind, least: f64) {
    if stream().is_none() {
        return;
    }
    let count = asked().unwrap_or(KERNELS);
    let (mut ran, mut wrong) = (0, Vec::new());
    let seeds: Vec<u64> = (0..count).collect();
    let judged = by_all_cores(&seeds, |&seed| {
        let (stream, definition) = (stream().expect("a device"), kind.kernel(seed));
        Prepared::new(&definition).map_or(Ok(0), |prepared| prepared.judge(&stream, seed, text))
    });
    for judged in judged {
        match judged {
            Ok(runs) => ran += runs,
            Err(why) => wrong.push(why),
        }
    }
    eprintln!("{count} kernels: {ran} runs of variants");
    assert!(wrong.is_empty(), "{} kernels are wrong\n\n{}", wrong.len(), wrong.join("\n\n"));
    let enough = newest().is_some() || f64::from(ran) > count as f64 * least;
    assert!(enough, "only {ran} runs of {count} kernels");
}
