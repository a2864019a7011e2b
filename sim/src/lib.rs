//! Runs kernels on the CPU, warp by warp, and checks every access.
//!
//! The simulator runs the thread program from which the CUDA C is printed. A run returns the results, with their
//! cost in memory transactions, or a [`Fault`]: the threads, the element and the line of the access, and the
//! remedy.
//!
//! ```
//! # use tilewright_codegen::Generate;
//! use tilewright_program::{Definition, kernel_def::Locations};
//! use tilewright_sim::{Arg, Simulate};
//!
//! # let definition = Definition::Matmul(vec![]);
//! # let sgemm = definition.def(&definition.generate().kernel.unwrap(), &Locations::default());
//! let (m, n, k) = (50, 30, 20);
//! let (a, b) = (vec![1.0f32; m * k], vec![2.0f32; n * k]);
//! let done = sgemm.simulate(&[Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])])?;
//! assert_eq!(done.get::<f32>("c")?, vec![40.0; m * n]);
//! println!("{done}"); // the variant that ran, and the cost of every access
//! # Ok::<(), tilewright_sim::Error>(())
//! ```
//!
//! # What is detected
//! - Accesses that are out of bounds, misaligned or uninitialised.
//! - Races between threads, in shared and global memory, and with copies and matrix products in flight.
//! - Divergent barriers, deadlocks, and mbarriers whose arrivals, transaction bytes or phases do not match.
//! - Missing fences, and registers that are accessed while a matrix product uses them.
//! - Blocks that may end before another block of the cluster has used their shared memory.
//! - Elements of a result that are never written, or written twice.
//! - Reads of an array after another array has overwritten the same bytes.
//! - Violations of hardware limits: barriers for a number of threads that is no multiple of 32, mbarriers that overlap
//!   other data, roles that request fewer registers than their arrays need or wait for registers that no other role
//!   releases, instructions of a whole warp that only some lanes execute.
//!
//! [`Options::schedules`] runs a kernel in several orders; a fault reports the seed that reproduces it.
//!
//! # The happens-before relation
//! An access is ordered after another if a chain of synchronisation leads from one to the other: barriers,
//! arrivals at mbarriers and waits for them, `__syncwarp`, waits for asynchronous operations. Races are
//! defined by this relation and not by the schedule of a run, so a fault is reported even if the results are
//! right. Four rules are stricter than the usual behaviour of a GPU:
//!
//! - **Lanes of a warp are threads.** Lockstep execution does not order accesses; `__syncwarp` and barriers do.
//! - **Stores of equal values race too.** Lanes that all store one value to one element race, although the
//!   hardware stores that value. In the memory models of CUDA and of C++, unordered writes are a race
//!   whatever their values, so a compiler may assume that there are none. Let a single lane store.
//! - **A read before a bulk overwrite needs a proxy fence.** The copy engine and tensor cores access shared
//!   memory through the async proxy. Only `fence.proxy.async` orders accesses through different proxies. A
//!   barrier or an mbarrier without it is not enough, whether the first access reads or writes: the copy may
//!   write before the read has been performed. So a thread that has read a slot executes the fence before it
//!   releases the slot. The results of an asynchronous operation need no fence: the wait for its completion
//!   covers both proxies.
//! - **A warpgroup is four warps.** A wgmma reads its matrices for each of the four, so the writes must be
//!   ordered before each warp, and a warp's wait covers only its own part. The matrices can be overwritten
//!   after all four warps have waited and have synchronised with the writer. Each lane executes the wait, so a lane that
//!   arrives for its warp after it needs no `__syncwarp` for what tensor cores alone have read: it has seen their reads
//!   complete itself. For what other lanes have read by loads it needs one.
//!
//! Atomic updates need no order among each other if the scope of each includes the other's thread. Every other access
//! must be ordered with each of them.
//!
//! # Exact comparison of variants
//! Sums of floating-point numbers depend on their order, so variants of a kernel differ in the last bits, and a tolerance that
//! allows for that can hide an element that is lost or added twice. With [`Options::exact`] a run computes in integers modulo a
//! power of two instead, where sums and products are exact in every order: results of all variants agree to the bit.
//!
//! ```
//! # use tilewright_codegen::Generate;
//! # use tilewright_program::Definition;
//! use tilewright_sim::{Arg, Options, run_every};
//! let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
//! let numbers: Vec<f32> = (0..1600).map(|n| 1.0 / n as f32).collect();
//! let args = [Arg::tensor(&numbers, [40, 40]), Arg::tensor(&numbers, [40, 40]), Arg::output::<f32>([40, 40])];
//! let runs = run_every(&kernel, &args, &Options { exact: true, ..Options::default() })?;
//! assert!(runs.iter().all(|run| run.bytes("c") == runs[0].bytes("c")));
//! # Ok::<(), tilewright_sim::Error>(())
//! ```
//!
//! Results are bits of such integers, so only comparisons of them have a meaning. Whole numbers stand for themselves, and other
//! numbers for fixed integers. `exp` turns sums into products, as it does for real numbers; other functions are hashes of their
//! operands. Two programs that compute one thing by different formulas need not agree.
//!
//! # Speed
//! Tests run much faster if this crate is optimised. A profile can request that for this crate alone:
//!
//! ```toml
//! [profile.dev.package.tilewright-sim]
//! opt-level = 3
//! ```

mod advice;
mod agent;
mod arg;
mod arithmetic;
mod atoms;
mod blame;
mod clock;
mod code;
mod compile;
mod count;
mod error;
mod event;
mod execute;
mod fault;
mod fragment;
mod global;
mod machine;
mod memory;
mod numbers;
mod options;
mod outcome;
mod probe;
mod product;
mod ring;
mod run;
mod shadow;
mod shared;
mod sync;
mod table;
mod update;
mod warp;

pub use arg::{Arg, ArgMemory};
pub use error::Error;
pub use event::{Event, Happening, OnEvent};
pub use fault::{Fault, FaultKind, Party};
pub use options::{OnProgress, Options, Progress};
pub use outcome::{AccessCount, Copied, Outcome, Unread};
pub use run::{run, run_every, run_program, run_variant};

pub(crate) use tilewright_program::arithmetic as value;
use tilewright_program::kernel_value::Kernel;

/// Every kernel can be simulated.
pub trait Simulate {
    /// Runs the kernel with these arguments, in the order of its parameters.
    fn simulate(&self, args: &[Arg]) -> Result<Outcome, Error> {
        self.simulate_with(args, &Options::default())
    }

    /// The same, with options.
    fn simulate_with(&self, args: &[Arg], options: &Options) -> Result<Outcome, Error>;
}

impl<K: Kernel + ?Sized> Simulate for K {
    fn simulate_with(&self, args: &[Arg], options: &Options) -> Result<Outcome, Error> {
        let def = self.def();
        let kernel = def.generate()?;
        let locations = options.locations.clone().or_else(|| Some(def.locations()));
        run(&kernel, args, &Options { locations, ..options.clone() })
    }
}
