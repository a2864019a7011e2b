//! Runs kernels on the CPU, warp by warp, and watches every access.
//!
//! What runs is the thread program that the CUDA C is printed from: what is simulated is what is compiled. A run gives
//! the results, what they cost, or a [`Fault`]: who did what to which element, at which line, and what to do instead.
//!
//! ```
//! use tilewright_codegen::{Definition, kernel_def::{KernelDef, Places}};
//! use tilewright_sim::{Arg, Simulate};
//!
//! # let definition = Definition::Matmul(vec![]);
//! # let sgemm = KernelDef::of(&definition.generate().kernel.unwrap(), &definition, &Places::default());
//! let (m, n, k) = (50, 30, 20);
//! let (a, b) = (vec![1.0f32; m * k], vec![2.0f32; n * k]);
//! let done = sgemm.simulate(&[Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])])?;
//! assert_eq!(done.get::<f32>("c")?, vec![40.0; m * n]);
//! println!("{done}"); // which variant ran, and what every access cost
//! # Ok::<(), tilewright_sim::Error>(())
//! ```
//!
//! # What is found
//! Accesses out of bounds, misaligned, or to what nobody wrote; races between threads, in shared and global memory, and
//! with copies and matrix products in flight; barriers that not all threads reach, deadlocks, mbarriers whose arrivals,
//! bytes or turns do not fit; missing fences between ordinary and asynchronous accesses; registers touched while a matrix
//! product uses them; elements of a result that nobody wrote, or that were written twice. [`Options::schedules`] runs a
//! kernel in several orders; a fault names the seed that shows it again.
//!
//! Also what no block of the hardware has: barriers that are no whole warps, mbarriers without bytes of their own, roles
//! that ask for fewer registers than they hold; and reads of an array whose bytes another array has overwritten since.
//!
//! # What is ordered
//! An access comes after another if a chain of synchronisation leads from one to the other: barriers, arrivals at mbarriers
//! and waits for them, `__syncwarp`, waits for asynchronous operations. The schedule of a run proves nothing, so a fault is
//! found even where everything went well. Four rules are stricter than what a GPU mostly does:
//!
//! - **Lanes of a warp are threads.** That they run side by side orders nothing; `__syncwarp` and barriers do.
//! - **Equal values are no excuse.** Lanes that all store one value to one element race, although it is that value which
//!   hardware leaves there. To CUDA's memory model, as to that of C++, unordered writes are a race whatever they write, so
//!   a compiler may assume that there are none; and nothing would notice the day on which the values differ. Let one lane
//!   store.
//! - **A read before a bulk overwrite wants a fence.** The copy engine and tensor cores reach shared memory through the
//!   asynchronous proxy. Accesses through different proxies are ordered by `fence.proxy.async` alone; a barrier or an mbarrier
//!   without it is not enough, for a read before an overwrite no more than for a write before a read: without the fence the
//!   copy may land before the read has been performed. So whoever has read a slot executes the fence before it gives the
//!   slot back. What an asynchronous operation did needs no fence: its completion, once waited for, covers both proxies.
//! - **A warpgroup is four warps.** A product of theirs reads its matrices for each of them, so each must know that they are
//!   written; and a wait for it is over with the waiting warp's part. Matrices are free when all four have waited and told
//!   of it.
//!
//! Atomic updates need no order among themselves, and every other access needs one with each of them.
//!
//! # Speed
//! Tests run faster by far when this crate is optimised, which a profile can say for it alone:
//!
//! ```toml
//! [profile.dev.package.tilewright-sim]
//! opt-level = 3
//! ```

mod advice;
mod agent;
mod arg;
mod atoms;
mod blame;
mod clock;
mod code;
mod compile;
mod count;
mod error;
mod execute;
mod fault;
mod global;
mod machine;
mod memory;
mod numbers;
mod options;
mod outcome;
mod product;
mod run;
mod shadow;
mod shared;
mod sync;
mod table;
mod update;
mod value;
mod warp;

pub use arg::Arg;
pub use error::Error;
pub use fault::{Fault, FaultKind, Party};
pub use options::{OnProgress, Options, Progress};
pub use outcome::{AccessCount, Outcome};
pub use run::{run, run_every, run_program, run_variant};

use tilewright_codegen::kernel_value::Kernel;

/// What every kernel can do: run here.
pub trait Simulate {
    /// Runs the kernel with these arguments, in the order of its parameters.
    fn simulate(&self, args: &[Arg]) -> Result<Outcome, Error> {
        self.simulate_with(args, &Options::default())
    }

    /// The same, with choices.
    fn simulate_with(&self, args: &[Arg], options: &Options) -> Result<Outcome, Error>;
}

impl<K: Kernel + ?Sized> Simulate for K {
    fn simulate_with(&self, args: &[Arg], options: &Options) -> Result<Outcome, Error> {
        let def = self.def();
        let kernel = def.generate()?;
        let places = options.places.clone().or_else(|| Some(def.places()));
        run(&kernel, args, &Options { places, ..options.clone() })
    }
}
