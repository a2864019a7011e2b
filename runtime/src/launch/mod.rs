//! Launching a kernel. Everything is checked before anything is submitted.
//!
//! A launch is safe because of these steps, in this order:
//! - the kernel is generated again from its definition: the carried source is not trusted;
//! - buffers are cudarc's own slices and views, all in the context of the stream, none on a per-thread
//!   stream;
//! - nothing is captured into a graph, which could run after the buffers are freed: the launch's stream is
//!   private, and events show reliably whether the streams of the buffers were captured;
//! - the plan checks types, extents, strides, lengths, addresses and limits, and chooses a variant; copies
//!   that it makes of arguments are in a workspace of the stream, which nothing else uses until the kernel has
//!   ended;
//! - the kernel waits for the stream of each buffer, and that stream for the kernel, by our own events: a
//!   buffer that is freed or used in the order of its own stream is freed or used after the kernel;
//! - once the kernel is submitted, an error is reported only after the kernel has ended.
#![allow(unsafe_code)]

mod map;
mod order;
mod submit;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use tilewright_codegen::Generated;
use tilewright_codegen::launch::{Given, Plan, Refusal, plan};

use crate::argument::{Argument, Kind};
use crate::error::{Error, While};
use crate::jit::{self, Loaded, Made};
use crate::raw::Shape;
use crate::stream::Stream;
use crate::tensor::Owner;
pub use map::encode;
use order::Order;
use submit::Passed;

/// The outcome of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The variant that ran, from 0; nothing where there was nothing to do.
    pub variant: Option<usize>,
    /// The kernel's number of variants.
    pub variants: usize,
    /// Why faster variants could not run, one line for each.
    pub passed_over: Vec<String>,
    /// Arguments that were copied to aligned rows first, each with what does not hold of the argument itself.
    pub packed: Vec<(String, String)>,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Did the launch wait until the kernel had ended? It does where a borrowed buffer might otherwise be
    /// freed while the kernel runs: one on cudarc's default stream, one of a device without memory pools, or
    /// a view of memory that does not come from a pool.
    pub waited: bool,
    /// Time to compile or load the kernel, the first time.
    pub prepared: Duration,
}

impl fmt::Display for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(variant) = self.variant else { return f.write_str("nothing to do") };
        let [x, y, z] = self.grid;
        write!(
            f,
            "variant {} of {}: {x} x {y} x {z} blocks of {} threads",
            variant + 1,
            self.variants,
            self.threads
        )?;
        for (place, why) in self.passed_over.iter().enumerate() {
            write!(f, "\n  not variant {}: {why}", place + 1)?;
        }
        for (name, why) in &self.packed {
            write!(f, "\n  `{name}` is packed first: {why}")?;
        }
        Ok(())
    }
}

/// Launches a kernel, after all checks.
pub(crate) fn launch(
    made: &Made,
    stream: &Stream,
    arguments: &mut [Argument<'_>],
    vouched: bool,
) -> Result<Launched, Error> {
    if made.is_unsafe && !vouched {
        let message = "the kernel is an `unsafe fn`: what it may be given is a matter of its documentation";
        return Err(Refusal::new(message)
            .help("launch it with `launch_unchecked`, in an `unsafe` block")
            .into());
    }
    let mut order = Order::find(stream, &made.generated, arguments)?;
    let own: Vec<Option<Arc<CudaStream>>> = arguments.iter().map(own_stream).collect();
    let (mut given, mut scalars, mut tracked) = (Vec::new(), Vec::new(), Vec::new());
    for (argument, own) in arguments.iter_mut().zip(&own) {
        match (&mut argument.kind, own) {
            (Kind::Tensor(lent), Some(own)) => {
                let owner = lent.buffer.owner;
                let (tensor, track) = lent.resolve(own);
                if let (Owner::View, Given::Tensor(tensor)) = (owner, &tensor) {
                    order.view(tensor)?;
                }
                given.push(tensor);
                scalars.push(0);
                tracked.extend(track);
            }
            (Kind::Scalar(elem, bits), _) => {
                given.push(Given::Scalar(*elem));
                scalars.push(*bits);
            }
            (Kind::Tensor(_), None) => unreachable!("every buffer has a stream"),
        }
    }
    order.check_errors().doing("ordering what cudarc submitted before")?;

    let plan = plan(&made.generated, &given, &stream.device().limits())?;
    if plan.is_empty() {
        return Ok(Launched::nothing(&made.generated, plan));
    }
    let prepared = stream.with_workspace(plan.workspace(), |workspace| {
        let (mut steps, prepared) = steps(made, stream, &plan, (&given, &scalars), workspace)?;
        order.before()?;
        for Step { loaded, shape, passed } in &mut steps {
            shape.overlaps &= order.overlaps();
            // SAFETY: the plan holds for these arguments: the kernel accesses nothing outside of them, and they
            // are in this context. They stay allocated until it has ended: they are borrowed for this call, and
            // afterwards freed in the order of their own streams, which wait for the kernel from `after` on;
            // otherwise, or after any error, `after` waits for it. Copies are in the workspace, which is freed in
            // the order of this stream. `passed` matches the program's parameters. A dependent launch is one of
            // our kernels, and waits itself; callers that submit foreign dependent launches to a stream are
            // responsible for their order.
            let submitted = unsafe { submit::submit(loaded, shape, stream, passed) };
            if let Err(error) = submitted {
                // The driver may report an earlier error here; it is unknown whether the kernel was submitted.
                let _ = stream.cuda().synchronize();
                return Err(error);
            }
        }
        Ok(prepared)
    })?;
    let waited = order.after(|| drop(tracked))?;
    Ok(Launched { waited, prepared, ..Launched::of(&made.generated, plan) })
}

/// One kernel of a launch, ready for submission.
struct Step {
    loaded: Arc<Loaded>,
    shape: Shape,
    passed: Passed,
}

/// The kernels of a plan, in order, with copies in a workspace at this address; and the time to load them.
fn steps(
    made: &Made,
    stream: &Stream,
    plan: &Plan,
    (given, scalars): (&[Given], &[u64]),
    workspace: u64,
) -> Result<(Vec<Step>, Duration), Error> {
    let (device, mut prepared) = (stream.device(), Duration::ZERO);
    let mut step = |made: &Made, plan: &Plan, given: &[Given], scalars: &[u64]| {
        let start = Instant::now();
        let loaded = jit::loaded(device, made, plan.variant)?;
        prepared += start.elapsed();
        let program = &made.generated.variant(plan.variant).program;
        let passed = Passed::new(program, plan, given, scalars)?;
        let shape = Shape::of(program, plan.grid).on(device.properties().arch());
        Ok::<_, Error>(Step { loaded, shape, passed })
    };
    let mut all = Vec::new();
    for packed in &plan.packed {
        let arguments = packed.arguments(&made.generated, given, workspace).map(Given::Tensor);
        all.push(step(&made.packs[packed.pack], &packed.plan, &arguments, &[])?);
    }
    all.push(step(made, plan, &plan.arguments(given, workspace), scalars)?);
    Ok((all, prepared))
}

fn own_stream(argument: &Argument<'_>) -> Option<Arc<CudaStream>> {
    match &argument.kind {
        Kind::Tensor(lent) => Some(lent.buffer.stream().clone()),
        Kind::Scalar(..) => None,
    }
}

impl Launched {
    fn of(kernel: &Generated, plan: Plan) -> Launched {
        let launch = &kernel.variant(plan.variant).program.launch;
        Launched {
            variant: Some(plan.variant),
            variants: kernel.variants.len(),
            passed_over: plan.passed_over,
            packed: plan
                .packed
                .into_iter()
                .map(|packed| (kernel.params[packed.arg].name.clone(), packed.why))
                .collect(),
            grid: plan.grid,
            threads: launch.threads,
            shared_bytes: launch.shared_bytes,
            waited: false,
            prepared: Duration::ZERO,
        }
    }

    fn nothing(kernel: &Generated, plan: Plan) -> Launched {
        Launched { variant: None, ..Launched::of(kernel, plan) }
    }
}
