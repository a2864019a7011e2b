//! How statements are performed: mechanisms of copies, the order of products, software pipelines.

use crate::isa;
use crate::isa::atom::Atom;
use crate::isa::scope::Scope;
use crate::source::problem::{Problem, Result};
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::operation::{Change, MemoryOrder};
use crate::values::semiring::Semiring;

/// The most stages of a loop.
const MOST_STAGES: u32 = 16;

/// How an out-of-range iteration is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Past {
    /// It is skipped, by a predicate.
    Skip,
    /// It is clamped to the last iteration, which runs again, unpredicated. A loop without iterations has none.
    Last,
    /// It runs unpredicated: its stores go to a slot that no one reads.
    Anyway,
    /// There is none: the iteration is known to be one of the loop's.
    Inside,
}

/// When a statement of a loop runs (modulo scheduling). In step `t` of the scheduled loop, statements of stage `s` run for
/// iteration `t - s`; `order` arranges the statements of a step, then stages, then the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct StageOrder {
    /// Its stage: how many steps later than stage 0 it runs.
    pub stage: u32,
    /// Its position in a step.
    pub order: u32,
}

impl From<u32> for StageOrder {
    /// A stage, whose position is its number: in a step, statements of later iterations come first.
    fn from(stage: u32) -> StageOrder {
        StageOrder { stage, order: stage }
    }
}

/// The stages of a software-pipelined loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// Slots of each shared tensor: copies run `stages - 1` iterations ahead. 1 waits for every copy.
    pub stages: u32,
    /// May there be fewer stages, if these do not fit in shared memory?
    pub fewer: bool,
    /// K-steps of a product's operands in registers: 2 is double buffering, which loads the next k-step
    /// during the current one.
    pub fragments: u32,
    /// With two k-steps in registers: a loop-exit test after each k-step. It keeps nvcc from interleaving
    /// k-steps, which would need register moves. Without it, an iteration multiplies its whole tile,
    /// including zeros after the end of K.
    pub exits: bool,
    /// A separate producer issues the copies, in bulk, into a ring.
    pub producer: bool,
    /// How the iterations are divided.
    pub split: Split,
}

/// How the iterations of a pipelined loop are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// Each block runs all of them, and each thread sums the parts of K that its layout gives it.
    Whole,
    /// The sums of all threads, or of blocks among which the loop has been divided, are added, so each may sum any part of K.
    Threads,
    /// The blocks of a cluster, this number, share them.
    Cluster(u32),
    /// Blocks of the grid share them.
    Grid(u32),
}

impl Split {
    /// The number of blocks that share iterations.
    pub fn blocks(self) -> i64 {
        match self {
            Split::Whole | Split::Threads => 1,
            Split::Cluster(blocks) | Split::Grid(blocks) => blocks.into(),
        }
    }

    /// Are they blocks of the grid?
    pub fn is_of_grid(self) -> bool {
        matches!(self, Split::Grid(_))
    }
}

impl Ahead {
    /// Why no loop can be pipelined like this.
    pub fn unfit(&self) -> Option<Problem> {
        let Ahead { stages, fragments, .. } = *self;
        let message = match (stages, fragments) {
            (1, 2) => {
                "`fragments = 2` loads across the barrier between two iterations, and needs two stages".into()
            }
            (_, 0 | 3..) => format!("a pipelined loop has 1 or 2 fragments, and this one {fragments}"),
            _ if !(1..=MOST_STAGES).contains(&stages) => {
                let problem = Problem::new(format!(
                    "a pipelined loop has 1 to {MOST_STAGES} stages, and this one {stages}"
                ));
                return Some(problem.help("write stages = 3: more only take shared memory").arg(0));
            }
            _ => return None,
        };
        Some(Problem::new(message).help("write stages = 3, fragments = 2").arg(1))
    }
}

impl From<u32> for Ahead {
    /// This number of stages.
    fn from(stages: u32) -> Ahead {
        let (fewer, exits, producer) = (false, true, false);
        Ahead { stages, fewer, fragments: 1, exits, producer, split: Split::Whole }
    }
}

/// The mechanism of a copy or product.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum How {
    /// Chosen from layouts and architecture.
    #[default]
    Derive,
    /// Not through registers, in flight until a wait; a refusal if the fastest variant cannot.
    Async,
    /// Through registers, at once.
    Plain,
    /// Through registers, staged: a pipelined loop loads early in an iteration and stores late in it.
    /// Elements can be permuted in registers, and each memory is accessed at its own vector width.
    Staged,
    /// From global memory to registers as aligned vectors: one that begins between them is two, and a funnel shift.
    Realigned,
    /// Through registers, at once, by volatile loads, which the compiler cannot sink to their uses.
    Here,
    /// A row of the atom table.
    Atom(&'static Atom),
}

/// The operations of a product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Multiply {
    /// Multiply-adds of each thread, or other operations than + and ·.
    Scalar(Semiring),
    /// A row of the atom table.
    Atom(&'static Atom),
}

impl Multiply {
    /// Sums of products by multiply-adds.
    pub const SUMS: Multiply = Multiply::Scalar(Semiring::SUMS);

    /// Its row of the atom table, for sums of a type.
    pub fn row(self, sums: Elem) -> Result<&'static Atom> {
        match self {
            Multiply::Atom(row) => Ok(row),
            Multiply::Scalar(with) => isa::scalar(with, sums)
                .ok_or_else(|| Problem::new(format!("no product sums elements of {sums}"))),
        }
    }

    /// Its operations.
    pub fn semiring(self) -> Semiring {
        match self {
            Multiply::Scalar(with) => with,
            Multiply::Atom(row) => row.semiring(),
        }
    }
}

/// An atomic update.
#[derive(Clone, PartialEq, Debug)]
pub struct Update {
    /// The function of the old and the given element.
    pub with: Change,
    /// Its memory order.
    pub order: MemoryOrder,
    /// Its scope: [`Scope::Block`], or the device, [`Scope::Grid`].
    pub scope: Scope,
    /// Registers for the old elements.
    pub old: Option<View>,
    /// Registers with the expected values of a [`Change::CompareExchange`].
    pub expected: Option<View>,
}

impl Update {
    /// The tiles in registers beside the one with the new elements.
    pub fn tiles(&self) -> impl Iterator<Item = &View> {
        self.old.iter().chain(&self.expected)
    }

    /// The same, mutably.
    pub fn tiles_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.old.iter_mut().chain(&mut self.expected)
    }
}

impl From<Change> for Update {
    /// A relaxed update, at device scope.
    fn from(with: Change) -> Update {
        Update { with, order: MemoryOrder::Relaxed, scope: Scope::Grid, old: None, expected: None }
    }
}

/// The order in which a product traverses the accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Column-major.
    #[default]
    Plain,
    /// Column-major, serpentine: every other column backwards.
    Serpentine,
    /// Row-major.
    Rows,
    /// Row-major, serpentine: every other row backwards.
    RowSerpentine,
}

impl Order {
    /// All of them, by the names that kernels use.
    pub const ALL: [(&'static str, Order); 4] = [
        ("plain", Order::Plain),
        ("serpentine", Order::Serpentine),
        ("rows", Order::Rows),
        ("row_serpentine", Order::RowSerpentine),
    ];

    /// Does the second operand run fastest?
    pub fn is_by_rows(self) -> bool {
        matches!(self, Order::Rows | Order::RowSerpentine)
    }
}
