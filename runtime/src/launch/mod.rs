//! Launching a kernel. Everything that can be wrong is found before anything is submitted.
//!
//! What makes a launch safe, in the order in which it happens:
//! - the kernel is made again from its definition: nothing is believed of the text that a program carries;
//! - buffers are cudarc's own slices and views, all in the context of the stream, none on a per-thread stream;
//! - nothing is captured into a graph, which would run again when the buffers are gone: the stream of the launch is one that
//!   nobody else reaches, and events say for certain whether the streams of the buffers were captured;
//! - the plan compares types, extents, strides, lengths, addresses and limits, and chooses a variant;
//! - the kernel waits for the stream of each buffer, and that stream for the kernel, by events of ours: a buffer that is
//!   freed or used in the order of its own stream is freed or used after the kernel;
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
use crate::jit::{self, Made};
use crate::raw::Shape;
use crate::stream::Stream;
use crate::tensor::Owner;
pub use map::encode;
use order::Order;
use submit::Passed;

/// What a launch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Which of the kernel's variants ran, from 0; nothing ran where there was nothing to do.
    pub variant: Option<usize>,
    /// How many variants the kernel has.
    pub variants: usize,
    /// Why faster variants could not run, one line for each.
    pub passed_over: Vec<String>,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Did the launch wait until the kernel had ended? It does where a buffer that is only lent might otherwise be freed
    /// while the kernel runs: one on cudarc's default stream, one of a device without memory pools, or a view of memory that
    /// does not come from a pool.
    pub waited: bool,
    /// How long it took to compile or load the kernel, the first time.
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
        Ok(())
    }
}

/// Launches a kernel, unless something is wrong.
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
    let start = Instant::now();
    let loaded = jit::loaded(stream.device(), made, plan.variant)?;
    let prepared = start.elapsed();
    let program = &made.generated.variants[plan.variant].program;
    let mut passed = Passed::new(program, &plan, &given, &scalars)?;
    let mut shape = Shape::of(program, plan.grid).on(stream.device().properties().arch());
    shape.overlaps &= order.overlaps();
    order.before()?;
    // SAFETY: the plan holds for these arguments: the kernel touches nothing outside of them, and they lie in this
    // context. They stay allocated until it has ended: they are lent for the length of this call, and after it they are
    // freed in the order of their own streams, which from `after` on wait for the kernel; where that is not so, or
    // anything goes wrong, `after` waits for it. `passed` is what the program's parameters are. A kernel that begins early is
    // of ours, and waits itself; whoever gives a stream kernels of others that begin early answers for their order.
    let submitted = unsafe { submit::submit(&loaded, &shape, stream, &mut passed) };
    if let Err(error) = submitted {
        // The driver may report here what went wrong earlier: whether the kernel is on its way nobody says.
        let _ = stream.cuda().synchronize();
        return Err(error);
    }
    let waited = order.after(|| drop(tracked))?;
    Ok(Launched { waited, prepared, ..Launched::of(&made.generated, plan) })
}

fn own_stream(argument: &Argument<'_>) -> Option<Arc<CudaStream>> {
    match &argument.kind {
        Kind::Tensor(lent) => Some(lent.buffer.stream().clone()),
        Kind::Scalar(..) => None,
    }
}

impl Launched {
    fn of(kernel: &Generated, plan: Plan) -> Launched {
        let launch = &kernel.variants[plan.variant].program.launch;
        Launched {
            variant: Some(plan.variant),
            variants: kernel.variants.len(),
            passed_over: plan.passed_over,
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
