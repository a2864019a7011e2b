//! Launching a kernel. Everything is checked before anything is submitted.
//!
//! A launch is safe because of these steps, in this order:
//! - the kernel is generated again from its definition, or is what a macro generated from it; the carried source is not used;
//! - buffers are cudarc's own slices and views, all in the context of the stream, none on a per-thread
//!   stream;
//! - no launch is captured into a graph, which could run after the buffers are freed: the launch's stream is private
//!   (if unsafe code has used it, the driver is asked), and events show reliably whether the streams of the buffers
//!   were captured;
//! - the plan checks types, extents, strides, lengths, addresses and limits, and chooses a variant. Packed copies of arguments,
//!   and what blocks pass to each other, are in a workspace of the stream, which no other work uses until the kernel has ended.
//!   Counts of blocks are in memory of the stream that is 0 between launches: it is 0 when it is allocated, and the generated code
//!   sets each count to 0 again, which the simulator checks. A plan is made once for each shape and kept ([`plans`]); each launch
//!   checks lengths, and that tensors do not overlap;
//! - by our own events, the kernel waits for the stream of each buffer, and that stream waits for the kernel: a buffer that is
//!   freed or used in the order of its own stream is freed or used after the kernel;
//! - once the kernel is submitted, an error is reported only after the kernel has ended.
#![allow(unsafe_code)]

mod arguments;
mod map;
mod order;
mod plans;
mod submit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaStream, SyncOnDrop};
use smallvec::SmallVec;
use tilewright_program::launch::{Given, Refusal};

use crate::argument::{Argument, Kind};
use crate::error::{Error, While};
use crate::jit::Made;
use crate::raw::{Part, Watch};
use crate::stream::Stream;
use crate::tensor::{Buffer, Owner};
use arguments::Bound;
pub use map::encode;
pub(crate) use order::Order;
pub(crate) use plans::Plans;
use plans::{Key, Prepared};
use submit::Passed;

/// The outcome of a launch.
#[derive(Clone)]
pub struct Launched {
    /// The variant that ran, from 0; `None` if the launch was empty. Kernels for loops without iterations follow the variants.
    pub variant: Option<usize>,
    /// The kernel's number of variants.
    pub variants: usize,
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
    made: Arc<Made>,
    plan: Arc<Prepared>,
}

impl Launched {
    fn of(made: &Arc<Made>, plan: Arc<Prepared>, prepared: Duration, waited: bool) -> Launched {
        let (kernel, made) = (&made.generated, made.clone());
        let launch = &kernel.variant(plan.plan.variant).program.launch;
        Launched {
            variant: (!plan.plan.is_empty()).then_some(plan.plan.variant),
            variants: kernel.variants.len(),
            grid: plan.plan.grid,
            threads: launch.threads,
            shared_bytes: launch.shared_bytes,
            waited,
            prepared,
            made,
            plan,
        }
    }

    /// Why faster variants could not run, one line for each.
    pub fn passed_over(&self) -> Vec<String> {
        self.plan.plan.passed_over(&self.made.generated)
    }

    /// Arguments that were copied to aligned rows first, each with the condition that the argument itself does not meet.
    pub fn packed(&self) -> Vec<(String, String)> {
        let (kernel, plan) = (&self.made.generated, &self.plan.plan);
        let packed = plan.packed.iter();
        packed.map(|packed| (kernel.params[packed.arg].name.clone(), plan.why(kernel, packed))).collect()
    }
}

impl PartialEq for Launched {
    fn eq(&self, other: &Launched) -> bool {
        let all = |of: &Launched| {
            let sizes = (of.grid, of.threads, of.shared_bytes);
            (of.variant, of.variants, sizes, of.waited, of.prepared, of.passed_over(), of.packed())
        };
        all(self) == all(other)
    }
}

impl Eq for Launched {}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched")
            .field("variant", &self.variant)
            .field("variants", &self.variants)
            .field("passed_over", &self.passed_over())
            .field("packed", &self.packed())
            .field("grid", &self.grid)
            .field("threads", &self.threads)
            .field("shared_bytes", &self.shared_bytes)
            .field("waited", &self.waited)
            .field("prepared", &self.prepared)
            .finish()
    }
}

impl fmt::Display for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(variant) = self.variant else { return f.write_str("nothing to do") };
        let [x, y, z] = self.grid;
        if variant < self.variants {
            write!(f, "variant {} of {}", variant + 1, self.variants)?;
        } else {
            f.write_str("the kernel for loops without iterations")?;
        }
        write!(f, ": {x} x {y} x {z} blocks of {} threads", self.threads)?;
        for (index, why) in self.passed_over().iter().enumerate() {
            write!(f, "\n  not variant {}: {why}", index + 1)?;
        }
        for (name, why) in self.packed() {
            write!(f, "\n  `{name}` is packed first: {why}")?;
        }
        Ok(())
    }
}

/// Launches a kernel, after all checks.
pub(crate) fn launch(
    made: &Arc<Made>,
    stream: &Stream,
    arguments: &mut [Argument<'_>],
    vouched: bool,
    watch: &mut impl Watch,
) -> Result<Launched, Error> {
    if made.is_unsafe && !vouched {
        let message = "the kernel is an `unsafe fn`: what it may be given is a matter of its documentation";
        return Err(Refusal::new(message)
            .help("launch it with `launch_unchecked`, in an `unsafe` block")
            .into());
    }
    let name = |index: usize| made.generated.params.get(index).map_or("", |param| &*param.name);
    let mut order = Order::find(stream, &name, arguments)?;
    watch.end(Part::Order);
    let streams: Vec<Arc<CudaStream>> = arguments.iter().filter_map(stream_of_cudarc).collect();
    let mut streams = streams.iter();
    let (mut bound, mut tracked) = (SmallVec::<[Bound<'_>; 8]>::new(), Vec::new());
    let mut key = Key::new(stream);
    for argument in arguments.iter_mut() {
        let one = match &mut argument.kind {
            Kind::Scalar(elem, bits) => Bound::scalar(*elem, *bits),
            Kind::Tensor(lent) => {
                let (first, len) = lent.first();
                let (elem, modes, mutable) = (lent.elem, Some(&lent.modes[..]), lent.buffer.is_writable());
                let start =
                    first_byte(&mut lent.buffer, (first, len), &mut streams, &mut tracked, &mut order)?;
                Bound { elem, modes, mutable, word: start + first, len }
            }
        };
        key.push(&one, made.plans.alignment());
        bound.push(one);
    }
    let bound = &bound[..];
    order.check_errors().doing("ordering what cudarc submitted before")?;
    watch.end(Part::Checks);

    let (plan, prepared) = planned(made, stream, &key, bound)?;
    watch.end(Part::Plan);
    if plan.steps.is_empty() {
        return Ok(Launched::of(made, plan, prepared, false));
    }
    stream.with_workspace([plan.plan.workspace(), plan.plan.zeroed()], |workspace| {
        // No work is submitted before the parameters of all steps are known.
        let mut passed = Passed::new(&plan.steps, bound, workspace)?;
        let mut left = passed.left();
        watch.end(Part::Checks);
        order.before()?;
        watch.end(Part::Order);
        for step in &plan.steps {
            let mut shape = step.shape;
            shape.overlaps &= order.overlaps();
            // SAFETY: the plan holds for these arguments: the kernel accesses no memory outside of them, and they
            // are in this context. They stay allocated until it has ended: they are borrowed for this call, and
            // afterwards freed in the order of their own streams, which wait for the kernel from `after` on;
            // otherwise, or after any error, `after` waits for it. Copies are in the workspace, which is freed in
            // the order of this stream. `left` are the parameters from this step on. A dependent launch is one of
            // our kernels, and waits itself; callers that submit foreign dependent launches to a stream are
            // responsible for their order.
            let submitted = unsafe { submit::submit(step, &shape, stream, &mut left) };
            if let Err(error) = submitted {
                // The driver may report an earlier error here; it is unknown whether the kernel was submitted.
                let _ = stream.cuda().synchronize();
                return Err(error);
            }
        }
        watch.end(Part::Driver);
        Ok(())
    })?;
    let waited = order.after(|| drop(tracked))?;
    let launched = Launched::of(made, plan, prepared, waited);
    watch.end(Part::Order);
    Ok(launched)
}

/// The plan of a launch, made or kept, and the time to compile or load its kernels.
fn planned(
    made: &Made,
    stream: &Stream,
    key: &Key,
    bound: &[Bound<'_>],
) -> Result<(Arc<Prepared>, Duration), Error> {
    let kept = made.plans.find(key);
    if let Some(kept) = kept.filter(|kept| kept.plan.admits(|index| (bound[index].word, bound[index].len))) {
        return Ok((kept, Duration::ZERO));
    }
    let given: Vec<Given> = bound.iter().map(Bound::given).collect();
    let prepared = Arc::new(Prepared::new(made, stream, &given)?);
    if !made.generated.is_without_loops(prepared.plan.variant) {
        made.plans.keep(key, &prepared);
    }
    let time = prepared.time;
    Ok((prepared, time))
}

/// The address of a buffer. `first` and `len` are an argument's first byte and its elements. For a buffer of cudarc, its stream is the next of `streams`, and `tracked` is dropped when the work
/// is submitted.
pub(crate) fn first_byte<'b>(
    buffer: &'b mut Buffer<'_>,
    (first, len): (u64, u64),
    streams: &mut std::slice::Iter<'b, Arc<CudaStream>>,
    tracked: &mut Vec<SyncOnDrop<'b>>,
    order: &mut Order<'_>,
) -> Result<u64, Error> {
    let owner = buffer.owner;
    if let Owner::Tensor(address) = owner {
        return Ok(address);
    }
    let Some(own) = streams.next() else { unreachable!("every buffer has a stream") };
    let (address, track) = buffer.address(own);
    tracked.push(track);
    if owner == Owner::View {
        order.view(address + first, len)?;
    }
    Ok(address)
}

/// The stream of a buffer that is no tensor of ours.
pub(crate) fn stream_of_cudarc(argument: &Argument<'_>) -> Option<Arc<CudaStream>> {
    match &argument.kind {
        Kind::Tensor(lent) if !matches!(lent.buffer.owner, Owner::Tensor(_)) => {
            Some(lent.buffer.stream().clone())
        }
        _ => None,
    }
}
