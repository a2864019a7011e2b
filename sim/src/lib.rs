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
//! # Speed
//! Tests run faster by far when this crate is optimised, which a profile can say for it alone:
//!
//! ```toml
//! [profile.dev.package.tilewright-sim]
//! opt-level = 3
//! ```

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
mod fp8;
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
