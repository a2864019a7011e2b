//! Plans of launches, keyed by the facts that they depend on, so that each is made once. They belong to the kernel, and are dropped with
//! it. The devices that they name are never closed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};
use tilewright_program::launch::{Given, Passed, Plan, Rules};
use tilewright_program::thread::Param;

use super::arguments::Bound;
use super::map::Mapped;
use crate::device::Device;
use crate::error::Error;
use crate::jit::{self, Loaded, Made};
use crate::raw::Shape;
use crate::stream::Stream;

/// Plans that a kernel keeps at most.
const MOST: usize = 64;

/// Everything that a plan depends on: the device and its free multiprocessors, and types, extents, strides and remainders of addresses of the arguments.
pub(crate) struct Key {
    words: SmallVec<[u64; 48]>,
}

impl Key {
    pub(super) fn new(stream: &Stream) -> Key {
        Key { words: smallvec![stream.device().number(), stream.reserved().into()] }
    }

    /// Adds an argument; its address matters modulo `alignment`.
    pub(super) fn push(&mut self, bound: &Bound<'_>, alignment: u64) {
        let (modes, is_tensor) = (bound.modes.unwrap_or_default(), bound.modes.is_some());
        let kind = u64::from(is_tensor) << 1 | u64::from(bound.mutable);
        self.words.push((modes.len() as u64) << 32 | kind << 16 | bound.elem as u64);
        self.words.extend(modes.iter().map(|mode| mode.cast_unsigned()));
        if is_tensor {
            self.words.push(bound.word % alignment);
        }
    }

    fn hash(&self) -> u64 {
        // An odd number without a pattern. Keys with equal hashes are compared.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.words.iter().fold(0, |hash: u64, word| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR))
    }
}

/// A plan, with everything that a device needs for it.
pub(crate) struct Prepared {
    pub(super) plan: Plan,
    /// The kernels that pack arguments, in their order, then the kernel. Empty if there is no work.
    pub(super) steps: Vec<Step>,
    /// Time to compile or load the kernels.
    pub(super) time: Duration,
}

/// One kernel of a launch.
pub(super) struct Step {
    pub(super) loaded: Arc<Loaded>,
    pub(super) shape: Shape,
    /// The program's parameters, in order.
    pub(super) values: Vec<Value>,
}

/// A parameter.
pub(super) enum Value {
    /// A number that is the same in all launches of the plan.
    Word(u64),
    /// A number that is given.
    Scalar(usize),
    Address(Source),
    Map(Box<Mapped>),
}

/// Where a tensor is.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// It is an argument.
    Argument(usize),
    /// It is at this offset in bytes from the start of the workspace.
    Workspace(u64),
    /// The same, for the memory that is 0.
    Zeroed(u64),
}

impl Prepared {
    /// Plans a launch, and loads its kernels.
    pub(super) fn new(made: &Made, stream: &Stream, given: &[Given]) -> Result<Prepared, Error> {
        let (device, mut limits) = (stream.device(), stream.device().limits());
        limits.multiprocessors = limits.multiprocessors.saturating_sub(stream.reserved()).max(1);
        let plan = made.plans.rules.plan(&made.generated, given, &limits)?;
        let (mut steps, mut time) = (Vec::new(), Duration::ZERO);
        if !plan.is_empty() {
            let mut step = |made: &Made, plan: &Plan, sources: &[Source]| {
                let start = Instant::now();
                let loaded = jit::loaded(device, made, plan.variant)?;
                time += start.elapsed();
                Ok::<_, Error>(Step::new(made, device, plan, sources, loaded))
            };
            let mut sources: Vec<Source> = (0..given.len()).map(Source::Argument).collect();
            for packed in &plan.packed {
                let copy = Source::Workspace(packed.copy.address);
                steps.push(step(
                    &made.packs[packed.pack],
                    &packed.plan,
                    &[Source::Argument(packed.arg), copy],
                )?);
                sources[packed.arg] = copy;
            }
            steps.push(step(made, &plan, &sources)?);
        }
        Ok(Prepared { plan, steps, time })
    }
}

impl Step {
    fn new(made: &Made, device: &Device, plan: &Plan, sources: &[Source], loaded: Arc<Loaded>) -> Step {
        let program = &made.generated.variant(plan.variant).program;
        let value = |passed: &Passed| match passed {
            Passed::Tensor(slot) => Value::Address(sources[*slot]),
            Passed::Scalar(slot) => Value::Scalar(*slot),
            Passed::Int { value, .. } => Value::Word(value.cast_unsigned()),
            Passed::Workspace { offset, zeroed: true } => Value::Address(Source::Zeroed(*offset)),
            Passed::Workspace { offset, zeroed: false } => Value::Address(Source::Workspace(*offset)),
            Passed::Map(map) => {
                let Some(Param::Pointer { name, elem, .. }) = program.params.get(map.arg) else {
                    unreachable!("a tensor map describes a tensor")
                };
                Value::Map(Box::new(Mapped::new(name, map.clone(), *elem, sources[map.arg])))
            }
        };
        let values: Vec<Value> = plan.passed.iter().map(value).collect();
        debug_assert_eq!(values.len(), program.params.len());
        Step { loaded, shape: Shape::of(program, plan.grid).on(device.properties().arch()), values }
    }
}

/// The plans of a kernel.
pub(crate) struct Plans {
    /// By which they are made.
    rules: Rules,
    kept: Mutex<Kept>,
}

/// Plans with their keys; where one must go, it is one that was not used since the last time that one had to.
#[derive(Default)]
struct Kept {
    hashes: Vec<u64>,
    plans: Vec<Entry>,
    hand: usize,
}

struct Entry {
    key: Box<[u64]>,
    used: bool,
    prepared: Arc<Prepared>,
}

impl Kept {
    fn slot(&self, key: &Key) -> Option<usize> {
        let hash = key.hash();
        let same = |slot: &usize| self.hashes[*slot] == hash && *self.plans[*slot].key == *key.words;
        (0..self.hashes.len()).find(same)
    }
}

impl Plans {
    pub(crate) fn of(kernel: &tilewright_program::Generated) -> Plans {
        Plans { rules: Rules::of(kernel), kept: Mutex::default() }
    }

    /// See [`Rules::alignment`].
    pub(super) fn alignment(&self) -> u64 {
        self.rules.alignment()
    }

    /// The plan for a key.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Prepared>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = kept.slot(key)?;
        let entry = &mut kept.plans[slot];
        entry.used = true;
        Some(entry.prepared.clone())
    }

    /// Keeps a plan.
    pub(super) fn keep(&self, key: &Key, prepared: &Arc<Prepared>) {
        let entry = Entry { key: key.words[..].into(), used: false, prepared: prepared.clone() };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match kept.slot(key) {
            Some(slot) => slot,
            None if kept.plans.len() < MOST => {
                kept.hashes.push(key.hash());
                kept.plans.push(entry);
                return;
            }
            None => loop {
                let slot = kept.hand;
                kept.hand = (slot + 1) % MOST;
                if !std::mem::take(&mut kept.plans[slot].used) {
                    break slot;
                }
            },
        };
        kept.hashes[slot] = key.hash();
        let old = std::mem::replace(&mut kept.plans[slot], entry);
        drop(kept);
        drop(old);
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Plans({})", kept.plans.len())
    }
}
