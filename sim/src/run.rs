//! A whole launch: the plan, the flattened program, clusters distributed over threads of the host, results
//! merged in the order of the grid.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tilewright_program::Elem;
use tilewright_program::definition::{Generated, Param as Named, Variant};
use tilewright_program::launch::{Given, Passed, Plan, plan, plan_of};
use tilewright_program::thread::{Bar, Kernel, Param, Space};

use crate::arg::Arg;
use crate::arithmetic::Arithmetic;
use crate::code::{Access, Code};
use crate::compile::{Given as Sizes, compile};
use crate::count::Counts;
use crate::error::Error;
use crate::fault::{Fault, FaultKind, Party};
use crate::global::{Accessed, Buffer, Clash, Merged, Overlay, World};
use crate::machine::{self, Context};
use crate::options::{Options, Progress};
use crate::outcome::{AccessCount, Copied, Outcome, Unread};
use crate::ring::Ring;
use crate::shadow::Stamp;
use crate::table::tables;

/// Runs the first variant of a kernel whose facts hold.
///
/// ```
/// # use tilewright_codegen::Generate;
/// # use tilewright_program::Definition;
/// use tilewright_sim::{Arg, Options, run};
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let ones = vec![1.0f32; 40 * 30];
/// let args = [Arg::tensor(&ones, [40, 30]), Arg::tensor(&ones, [40, 30]), Arg::output::<f32>([40, 40])];
/// let done = run(&kernel, &args, &Options { seed: 7, schedules: 2, ..Options::default() })?;
/// assert_eq!(done.get::<f32>("c")?, vec![30.0; 1600]);
/// # Ok::<(), tilewright_sim::Error>(())
/// ```
pub fn run(kernel: &Generated, args: &[Arg], options: &Options) -> Result<Outcome, Error> {
    let kernel = kernel.probed();
    let plan = plan(kernel, &given(args), &options.limits)?;
    launches(kernel, &kernel.variant(plan.variant).program, plan, args, options)
}

/// Runs one variant of a kernel; refuses where its facts do not hold.
///
/// ```
/// # use tilewright_codegen::Generate;
/// # use tilewright_program::Definition;
/// use tilewright_sim::{Arg, Options, run_variant};
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let ones = vec![1.0f32; 9];
/// let args = [Arg::tensor(&ones, [9, 1]), Arg::tensor(&ones, [9, 1]), Arg::output::<f32>([9, 9])];
/// let refused = run_variant(&kernel, 0, &args, &Options::default()).unwrap_err();
/// assert_eq!(refused.to_string(), "4 does not divide lda, which is 9");
/// ```
pub fn run_variant(
    kernel: &Generated,
    variant: usize,
    args: &[Arg],
    options: &Options,
) -> Result<Outcome, Error> {
    let kernel = kernel.probed();
    let plan = plan_of(kernel, variant, &given(args), &options.limits)?;
    launches(kernel, &kernel.variant(plan.variant).program, plan, args, options)
}

/// Runs every variant of a kernel whose facts are true, fastest first. If only loops run over a size of 0, it runs the
/// kernel without these loops.
///
/// ```
/// # use tilewright_codegen::Generate;
/// # use tilewright_program::Definition;
/// use tilewright_sim::{Arg, Options, run_every};
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let ones = vec![1.0f32; 9];
/// let args = [Arg::tensor(&ones, [9, 1]), Arg::tensor(&ones, [9, 1]), Arg::output::<f32>([9, 9])];
/// for outcome in run_every(&kernel, &args, &Options::default())? {
///     assert_eq!(outcome.get::<f32>("c")?, vec![1.0; 81], "variant {}", outcome.variant() + 1);
/// }
/// # Ok::<(), tilewright_sim::Error>(())
/// ```
pub fn run_every(kernel: &Generated, args: &[Arg], options: &Options) -> Result<Vec<Outcome>, Error> {
    let kernel = kernel.probed();
    // The arguments are refused as they are for any launch.
    let plan = plan(kernel, &given(args), &options.limits)?;
    if plan.variant >= kernel.variants.len() {
        return Ok(vec![launches(kernel, &kernel.variant(plan.variant).program, plan, args, options)?]);
    }
    let mut all = Vec::new();
    for variant in 0..kernel.variants.len() {
        match run_variant(kernel, variant, args, options) {
            Ok(outcome) => all.push(outcome),
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Runs a thread program without a kernel, for tests. Its parameters are the arguments, tensors and numbers
/// first; sizes are derived from the tensors.
///
/// ```
/// # use tilewright_codegen::Generate;
/// # use tilewright_program::Definition;
/// use tilewright_program::thread::Op;
/// use tilewright_sim::{Arg, FaultKind, Options, run_program};
/// let mut program = Definition::Matmul(vec![]).generate().kernel.unwrap().variants.pop().unwrap().program;
/// let ones = vec![1.0f32; 81];
/// let args = [Arg::tensor(&ones, [9, 9]), Arg::tensor(&ones, [9, 9]), Arg::output::<f32>([9, 9])];
/// assert!(run_program(&program, &args, &Options::default()).is_ok());
/// // without its loop the result is never written whole
/// program.body.retain(|stmt| !matches!(stmt.op, Op::For { .. }));
/// let error = run_program(&program, &args, &Options::default()).unwrap_err();
/// assert_eq!(error.fault().unwrap().kind(), FaultKind::NotWritten);
/// ```
pub fn run_program(program: &Kernel, args: &[Arg], options: &Options) -> Result<Outcome, Error> {
    let params = program.params.iter().filter_map(|param| match param {
        Param::Pointer { name, elem, write, shape, .. } => {
            Some(Named { name: name.clone(), elem: *elem, tensor: Some((*write, shape.len())) })
        }
        Param::Scalar { name, elem } => Some(Named { name: name.clone(), elem: *elem, tensor: None }),
        Param::Int { .. } | Param::Workspace { .. } | Param::TensorMap { .. } => None,
    });
    let kernel = Generated {
        name: program.name.clone(),
        params: params.collect(),
        variants: vec![Variant::new(None, String::new(), program.clone())],
        requires: Vec::new(),
        packs: Vec::new(),
        empty_loops: Vec::new(),
        with_probes: None,
        report: Default::default(),
        records: Vec::new(),
    };
    run(&kernel, args, options)
}

fn given(args: &[Arg]) -> Vec<Given> {
    args.iter().enumerate().map(|(index, arg)| arg.given(index)).collect()
}

/// Runs the launches of a plan, one after the other: copies into an uninitialised workspace, then the kernel
/// on them.
fn launches(
    kernel: &Generated,
    program: &Kernel,
    mut plan: Plan,
    args: &[Arg],
    options: &Options,
) -> Result<Outcome, Error> {
    let arithmetic = arithmetic(kernel, program, options);
    let args: Vec<Arg> = args.iter().map(|arg| arg.in_arithmetic(arithmetic)).collect();
    let (mut read, mut copies) = (args.clone(), Vec::new());
    for packed in std::mem::take(&mut plan.packed) {
        let (argument, why) = (kernel.params[packed.arg].name.clone(), plan.why(kernel, &packed));
        let pack = &kernel.packs[packed.pack];
        let [_, to] = packed.arguments(kernel, &given(&args), 0);
        let (from, to) = (args[packed.arg].permuted(&pack.modes), Arg::uninitialised(to));
        let copier = &pack.kernel.variant(packed.plan.variant).program;
        let silent = Options { events: None, ..options.clone() };
        let outcome = execute(&pack.kernel, copier, packed.plan, &[from, to], (&silent, arithmetic))?;
        let bytes = outcome.results.first().map(|(_, _, bytes)| bytes.clone()).unwrap_or_default();
        read[packed.arg] = Arg::copied(packed.copy, bytes);
        copies.push(Copied { argument, why, outcome });
    }
    Ok(Outcome { copies, ..execute(kernel, program, plan, &read, (options, arithmetic))? })
}

/// The arithmetic of a run, the same for all variants of a kernel.
fn arithmetic(kernel: &Generated, program: &Kernel, options: &Options) -> Arithmetic {
    let programs = kernel.variants.iter().map(|variant| &variant.program).chain([program]);
    Arithmetic::new(options.exact.then(|| Ring::of(programs)))
}

/// A long unoptimised run prints how to make it faster.
const LONG: Duration = Duration::from_secs(20);

fn execute(
    kernel: &Generated,
    program: &Kernel,
    plan: Plan,
    args: &[Arg],
    (options, arithmetic): (&Options, Arithmetic),
) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let buffers = buffers(program, &plan, args);
    let sizes = Sizes {
        ints: plan
            .passed
            .iter()
            .map(|passed| if let Passed::Int { value, .. } = passed { *value } else { 0 })
            .collect(),
        scalars: plan
            .passed
            .iter()
            .enumerate()
            .map(|(index, passed)| match passed {
                Passed::Int { value, .. } => crate::value::from_int(*value, Elem::I32),
                _ => args.get(index).map_or(0, Arg::raw),
            })
            .collect(),
        grid: plan.grid,
        arithmetic,
        strict: options.strict,
    };
    let fault = |kind, message: String, parties, help: &str| {
        Box::new(Fault {
            kernel: kernel.name.clone(),
            variant: plan.variant,
            seed: options.seed,
            kind,
            message,
            parties,
            help: help.into(),
        })
    };
    let code = compile(program, &sizes).map_err(|malformed| {
        let span = program.sites.get(malformed.site as usize).map(|site| site.span).unwrap_or_default();
        let line =
            options.locations.as_ref().and_then(|locations| locations.of(span)).filter(|_| span.0 != 0);
        let message = match line {
            Some(line) => format!("{}, at {line}", malformed.message),
            None => malformed.message,
        };
        fault(FaultKind::Malformed, message, Vec::new(), &malformed.help)
    })?;
    let (mut first, mut unread, mut printed): (Option<(Merged, Counts)>, _, _) =
        (None, Vec::new(), Vec::new());
    for schedule in 0..options.schedules.max(1) {
        let context = context(program, &code, &plan, &buffers, (options, arithmetic), schedule);
        let (merged, counts) = grid(&context, options, schedule)?;
        complete(&context, &merged, args, options)?;
        zeroed(program, &context, &merged)?;
        match &first {
            None => {
                first = Some((merged, counts));
                (unread, printed) = (never_read(&context), context.printed());
                printed.iter().for_each(|text| println!("{text}"));
            }
            Some((before, _)) => {
                if let Some(which) = (0..buffers.len()).find(|&at| before.data[at] != merged.data[at]) {
                    let size = buffers[which].elem.bytes() as usize;
                    let (old, new) = (&before.data[which], &merged.data[which]);
                    let at = old.iter().zip(new).position(|(x, y)| x != y).unwrap_or(0) / size;
                    let element = context.element(Space::Global(which as u32), at as i64);
                    return Err(context
                        .fault(
                            FaultKind::Unstable,
                            format!("{element} is not the same with seed {}", options.seed),
                            Vec::new(),
                            "enable race detection: Options { races: true, … }",
                        )
                        .into());
                }
            }
        }
    }
    let (merged, counts) = first.unwrap_or_else(|| (Merged::new(&[]), Counts::default()));
    hint(begun.elapsed());
    Ok(Outcome {
        copies: Vec::new(),
        kernel: kernel.name.clone(),
        variant: plan.variant,
        passed_over: plan.passed_over(kernel),
        grid: plan.grid,
        seed: options.seed,
        results: buffers
            .iter()
            .zip(&merged.data)
            .zip(args)
            .filter(|((buffer, _), _)| buffer.written)
            .map(|((buffer, data), arg)| (buffer.name.clone(), buffer.elem, arg.with(data)))
            .collect(),
        accesses: accesses(program, &code, &counts, options),
        unread,
        printed,
        counts,
    })
}

/// The tensors that the kernel reads, and not all of them.
fn never_read(context: &Context<'_>) -> Vec<Unread> {
    let read = |buffer: &usize| {
        context.code.accesses.iter().any(|access| access.space == Space::Global(*buffer as u32))
    };
    let one = |buffer: usize| {
        let (elements, first) = context.world.never_read(buffer)?;
        let of = &context.world.buffers[buffer];
        let first = of.coordinate(first as i64).unwrap_or_default();
        Some(Unread { argument: of.name.clone(), elements, first })
    };
    (0..context.world.buffers.len()).filter(read).filter_map(one).collect()
}

/// Where tensors of a workspace are: no argument is there.
const WORKSPACE: u64 = 1 << 56;

/// Tensors by parameter; other parameters have an empty one.
fn buffers(program: &Kernel, plan: &Plan, args: &[Arg]) -> Vec<Buffer> {
    let one = |(index, param): (usize, &Param)| {
        let mut buffer = Buffer {
            name: String::new(),
            elem: Elem::U8,
            address: 0,
            extents: Vec::new(),
            strides: Vec::new(),
            len: 0,
            data: Vec::new(),
            initialised: false,
            written: false,
            gaps: false,
        };
        if let Param::Workspace { name, elem, shape, zeroed } = param {
            let lookup = |of| plan.symbols.iter().find(|(symbol, _)| *symbol == of).map(|(_, value)| *value);
            buffer.extents =
                shape.iter().map(|extent| extent.evaluate(&lookup).unwrap_or(0).max(0)).collect();
            let mut len = 1;
            for extent in &buffer.extents {
                buffer.strides.push(len);
                len *= extent;
            }
            (buffer.name, buffer.elem, buffer.len) = (name.clone(), *elem, len as usize);
            buffer.data = vec![if *zeroed { 0 } else { 0xff }; elem.bytes_of(buffer.len)];
            (buffer.address, buffer.initialised, buffer.written) =
                (WORKSPACE + ((index as u64) << 40), *zeroed, true);
            return buffer;
        }
        let (Param::Pointer { name, write, .. }, Passed::Tensor(which)) = (param, &plan.passed[index]) else {
            return buffer;
        };
        let arg = &args[*which];
        let Given::Tensor(tensor) = arg.given(*which) else { return buffer };
        let len = crate::arg::reach(&tensor.extents, &tensor.strides).max(0) as usize;
        let bytes = arg.elem().bytes_of(len);
        buffer.data = match arg.contents() {
            Some(contents) => contents[..bytes].to_vec(),
            None => vec![0xff; bytes],
        };
        buffer.gaps = tensor.extents.iter().product::<i64>() != len as i64;
        buffer.name = name.clone();
        (buffer.elem, buffer.address, buffer.len) = (arg.elem(), tensor.address, len);
        (buffer.extents, buffer.strides) = (tensor.extents, tensor.strides);
        (buffer.initialised, buffer.written) = (!arg.is_output(), *write);
        buffer
    };
    program.params.iter().enumerate().map(one).collect()
}

fn context<'c>(
    program: &'c Kernel,
    code: &'c Code,
    plan: &Plan,
    buffers: &'c [Buffer],
    (options, arithmetic): (&'c Options, Arithmetic),
    schedule: u32,
) -> Context<'c> {
    let mut next = 0;
    let bars = program.bars.iter().map(|bar| {
        let first = next;
        if let Bar::Mbarriers { slots, .. } = bar {
            next += *slots as usize;
        }
        first
    });
    let together = Context::side_by_side(program, code, plan.grid);
    let grain = program.shared.iter().map(|array| array.elem.bytes() as usize).min().unwrap_or(4);
    Context {
        kernel: program,
        code,
        world: World {
            buffers,
            seen: World::unseen(buffers),
            components: Context::components(program, together),
            races: options.races,
            written_once: options.written_once,
            arithmetic,
            alone: plan.grid.iter().map(|&n| u64::from(n)).product::<u64>() <= u64::from(together),
        },
        maps: plan
            .passed
            .iter()
            .map(|passed| if let Passed::Map(map) = passed { Some(map.clone()) } else { None })
            .collect(),
        tables: tables(code),
        grid: plan.grid,
        bars: bars.collect(),
        count: options.count && schedule == 0,
        seed: options.seed.wrapping_add(u64::from(schedule)),
        variant: plan.variant,
        locations: options.locations.as_ref(),
        events: options.events.as_ref().filter(|_| schedule == 0),
        printed: Mutex::default(),
        resident: options.limits.multiprocessors.saturating_mul(program.launch.blocks_per_sm.max(1)),
        grain,
        arrays: arrays(program, code),
    }
}

/// The array of each access, if arrays in shared memory overlap.
fn arrays(program: &Kernel, code: &Code) -> Option<Arc<[u32]>> {
    let mut places: Vec<_> =
        program.shared.iter().map(|array| (array.offset, array.offset + array.bytes())).collect();
    places.sort_unstable();
    let overlap = places.windows(2).any(|pair| pair[1].0 < pair[0].1);
    let array = |access: &Access| match access.space {
        Space::Shared(id) => id,
        Space::Global(_) => u32::MAX,
    };
    overlap.then(|| code.accesses.iter().map(array).collect())
}

/// Runs all clusters.
fn grid(context: &Context<'_>, options: &Options, schedule: u32) -> Result<(Merged, Counts), Error> {
    let total = context.count_of_clusters();
    let host = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = if options.threads == 0 { host } else { options.threads };
    let threads = threads.min(usize::try_from(total).unwrap_or(usize::MAX)).max(1);
    let mut merged = Merged::new(context.world.buffers);
    let mut counts = Counts::new(context.code.counters);
    let mut add = |number: u64, outcome: machine::Result<(Overlay, Counts)>| -> Result<(), Error> {
        let (overlay, costs) = outcome?;
        counts.add(&costs);
        merged.add(&context.world, number as u32, overlay).map_err(|clash| clashed(context, clash))?;
        if let Some(progress) = &options.progress {
            let all = u64::from(options.schedules.max(1)) * total;
            progress(Progress { done: u64::from(schedule) * total + number + 1, total: all });
        }
        Ok(())
    };
    if threads == 1 {
        for number in 0..total {
            add(number, machine::run(context, number))?;
        }
        return Ok((merged, counts));
    }
    let (next, stop) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    std::thread::scope(|scope| -> Result<(), Error> {
        let (sender, outcomes) = mpsc::sync_channel(4 * threads);
        for _ in 0..threads {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total || number > stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = machine::run(context, number);
                    if outcome.is_err() {
                        stop.fetch_min(number, Ordering::Relaxed);
                    }
                    // The receiver is gone after the first fault.
                    if sender.send((number, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut due = 0;
        for (number, outcome) in outcomes {
            waiting.insert(number, outcome);
            while let Some(outcome) = waiting.remove(&due) {
                let added = add(due, outcome);
                if added.is_err() {
                    stop.store(0, Ordering::Relaxed);
                    return added;
                }
                due += 1;
            }
        }
        Ok(())
    })?;
    Ok((merged, counts))
}

/// An error for two clusters that access one element.
fn clashed(context: &Context<'_>, clash: Clash) -> Box<Fault> {
    let what = context.element(Space::Global(clash.buffer), clash.at as i64);
    let party = |of: Accessed| {
        let stamp = Stamp { component: of.thread, epoch: 0, access: of.access, thread: of.thread };
        context.party_of(u64::from(of.cluster), stamp, of.writes, &what)
    };
    let (first, second) = (party(clash.first), party(clash.second));
    if clash.narrow {
        return context.fault(
            FaultKind::Race,
            format!("two blocks update {what} atomically, and an update has a scope without the other block"),
            vec![first, second],
            crate::advice::SCOPE,
        );
    }
    let twice = clash.first.writes && clash.second.writes;
    context.fault(
        FaultKind::Race,
        format!("blocks do not wait for each other, and two of them access {what}"),
        vec![first, second],
        if twice {
            "give every element of the result to one block, or add to it atomically"
        } else {
            "let a kernel of its own read what another one wrote"
        },
    )
}

/// Checks that every element of a pure output has been written.
fn complete(context: &Context<'_>, merged: &Merged, args: &[Arg], options: &Options) -> Result<(), Error> {
    if !options.complete {
        return Ok(());
    }
    for (index, buffer) in context.world.buffers.iter().enumerate() {
        let output = buffer.written && args.get(index).is_some_and(Arg::is_output);
        let Some(at) = merged.unwritten(index, buffer).filter(|_| output) else { continue };
        let what = context.element(Space::Global(index as u32), at as i64);
        return Err(context
            .fault(
                FaultKind::NotWritten,
                format!("{what} was never written"),
                Vec::<Party>::new(),
                "make the tiles cover the whole tensor, or pass it as `Arg::in_out`",
            )
            .into());
    }
    Ok(())
}

/// Checks that memory which is 0 at launch is 0 again.
fn zeroed(program: &Kernel, context: &Context<'_>, merged: &Merged) -> Result<(), Error> {
    for (index, param) in program.params.iter().enumerate() {
        let Param::Workspace { elem, zeroed: true, .. } = param else { continue };
        let Some(at) = merged.data[index].iter().position(|byte| *byte != 0) else { continue };
        let what = context.element(Space::Global(index as u32), (at / elem.bytes() as usize) as i64);
        let message = format!("{what} is 0 at launch, and not when the kernel ends");
        let help = "set it to 0 where the last block has used it";
        return Err(context.fault(FaultKind::Malformed, message, Vec::<Party>::new(), help).into());
    }
    Ok(())
}

fn accesses(program: &Kernel, code: &Code, counts: &Counts, options: &Options) -> Vec<AccessCount> {
    let one = |counter: usize| {
        let access = code.accesses.iter().find(|access| access.counter as usize == counter)?;
        let row = counts.rows[counter];
        let span = program.sites.get(access.site as usize).map(|site| site.span).unwrap_or_default();
        let (memory, tensor) = match access.space {
            Space::Shared(id) => ("shared", program.shared[id as usize].name.clone()),
            Space::Global(id) => (
                "global",
                match &program.params[id as usize] {
                    Param::Pointer { name, .. } | Param::Workspace { name, .. } => name.clone(),
                    _ => String::new(),
                },
            ),
        };
        Some(AccessCount {
            what: access.what.word(),
            tensor,
            memory,
            width: access.bytes(),
            line: options.locations.as_ref().and_then(|locations| locations.of(span)).filter(|_| span.0 != 0),
            executed: row.executed,
            bytes: row.bytes,
            wavefronts: row.wavefronts,
            least_wavefronts: row.least,
            sectors: row.sectors,
            least_sectors: row.least_sectors,
            lines: row.lines,
        })
    };
    (0..counts.rows.len()).filter_map(one).collect()
}

fn hint(took: Duration) {
    if took > LONG && env!("TILEWRIGHT_SIM_OPT_LEVEL") == "0" {
        eprintln!(
            "hint: this simulation took {} s without optimisation; in Cargo.toml write\n\
             [profile.dev.package.tilewright-sim]\nopt-level = 3",
            took.as_secs()
        );
    }
}
