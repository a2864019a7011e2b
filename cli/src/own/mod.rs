//! Commands for the user's own kernels: the list of kernels, references for their results, and peers for benchmarks.

pub(crate) mod bench;
pub(crate) mod peer;
mod reference;
pub(crate) mod tune;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use tilewright::Kernel;
use tilewright::cudarc::driver::CudaStream;
use tilewright_codegen::kernel_def::KernelDef;

use crate::kernel::Listed;
pub use peer::Operands;
use peer::{Failed, Launch, Prepare};
pub(crate) use reference::coordinates;
pub use reference::{Inputs, Results};

/// A reference for results.
pub(crate) type Reference = Arc<dyn Fn(&Inputs<'_>, &mut Results<'_>) + Send + Sync>;

/// The commands for some kernels, with references for `run` to compare results with, and peers for `bench` to measure.
///
/// ```no_run
/// # use std::process::ExitCode;
/// # mod mine {
/// #     use tilewright::prelude::*;
/// #     #[kernel]
/// #     pub fn shifted(by: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
/// #         map(tile(x, 1024, block.x), tile(y, 1024, block.x), |x| x + by);
/// #     }
/// # }
/// # use mine::shifted;
/// fn main() -> ExitCode {
///     tilewright_cli::Commands::of(&[&shifted()])
///         .about("shifted", "a vector plus a number")
///         .reference("shifted", |inputs, results| {
///             let by = inputs.number("by");
///             results.fill("y", |at| inputs.at("x", at) + by);
///         })
///         .main()
/// }
/// ```
#[derive(Default)]
pub struct Commands {
    kernels: Vec<KernelDef>,
    abouts: HashMap<String, String>,
    references: HashMap<String, Reference>,
    peers: Vec<Named>,
}

/// A peer: its kernel, its name, and the function that prepares it.
type Named = (String, String, Prepare);

/// The commands of the program, once they are set.
static OWN: OnceLock<Own> = OnceLock::new();

struct Own {
    program: String,
    commands: Commands,
}

impl Commands {
    /// The commands for these kernels, by their names.
    pub fn of(kernels: &[&dyn Kernel]) -> Commands {
        let kernels = kernels.iter().map(|kernel| kernel.def().clone()).collect();
        Commands { kernels, ..Commands::default() }
    }

    /// Sets one line for `--help` that describes what a kernel computes.
    pub fn about(mut self, kernel: &str, about: &str) -> Commands {
        self.abouts.insert(kernel.into(), about.into());
        self
    }

    /// Adds a reference for `run`: a function that computes the expected results from the inputs, in double precision.
    pub fn reference(
        mut self,
        kernel: &str,
        reference: impl Fn(&Inputs<'_>, &mut Results<'_>) + Send + Sync + 'static,
    ) -> Commands {
        self.references.insert(kernel.into(), Arc::new(reference));
        self
    }

    /// Adds a peer for `bench` to measure beside a kernel: a library's function, or a kernel from elsewhere. `prepare` gets the
    /// arguments on the device, and returns a closure that launches the peer on the stream. The results of both are compared.
    ///
    /// ```no_run
    /// # use std::process::ExitCode;
    /// # mod mine {
    /// #     use tilewright::prelude::*;
    /// #     #[kernel]
    /// #     pub fn duplicate(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    /// #         copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
    /// #     }
    /// # }
    /// # use mine::duplicate;
    /// use tilewright::cudarc::driver::result::memcpy_dtod_async;
    ///
    /// fn main() -> ExitCode {
    ///     tilewright_cli::Commands::of(&[&duplicate()])
    ///         .peer("duplicate", "the driver's copy", |stream, operands| {
    ///             let (x, y, stream) = (operands.address("x"), operands.address("y"), stream.clone());
    ///             let bytes = 4 * operands.extents("x")[0];
    ///             // SAFETY: both have `bytes` bytes.
    ///             Ok(Box::new(move || Ok(unsafe { memcpy_dtod_async(y, x, bytes, stream.cu_stream()) }?)))
    ///         })
    ///         .main()
    /// }
    /// ```
    pub fn peer(
        mut self,
        kernel: &str,
        name: &str,
        prepare: impl Fn(&Arc<CudaStream>, &Operands<'_>) -> Result<Launch, Failed> + Send + Sync + 'static,
    ) -> Commands {
        self.peers.push((kernel.into(), name.into(), Arc::new(prepare)));
        self
    }

    /// Runs the subcommand in the program's arguments. Call it once, at the end of `main`.
    pub fn main(self) -> ExitCode {
        let Commands { kernels, abouts, references, peers } = &self;
        let known = |name: &String| kernels.iter().any(|kernel| kernel.name() == name);
        let compared = peers.iter().map(|(kernel, ..)| kernel);
        if let Some(name) = abouts.keys().chain(references.keys()).chain(compared).find(|name| !known(name)) {
            let names: Vec<&str> = kernels.iter().map(KernelDef::name).collect();
            eprintln!(
                "error: there is no kernel `{name}` to describe\nhelp: the kernels are {}",
                names.join(", ")
            );
            return ExitCode::FAILURE;
        }
        let program = std::env::args().next().map_or_else(
            || "kernels".to_owned(),
            |path| {
                let name =
                    std::path::Path::new(&path).file_stem().map(|name| name.to_string_lossy().into_owned());
                name.unwrap_or(path)
            },
        );
        if OWN.set(Own { program, commands: self }).is_err() {
            eprintln!("error: the commands of this program run already\nhelp: call `main` once");
            return ExitCode::FAILURE;
        }
        let program = self::program().unwrap_or("kernels");
        crate::parsed(crate::command(program, env!("CARGO_PKG_VERSION"), crate::OWN), crate::OWN)
    }
}

/// The program's kernels; `None` for the kernels that ship with tilewright.
pub(crate) fn listed() -> Option<Vec<Listed>> {
    let Commands { kernels, abouts, .. } = &OWN.get()?.commands;
    let about = |name: &str| abouts.get(name).map_or("", String::as_str);
    let one =
        |def: &'static KernelDef| Listed { name: def.name(), about: about(def.name()), def: def.clone() };
    Some(kernels.iter().map(one).collect())
}

/// The program's name, if it has its own kernels.
pub(crate) fn program() -> Option<&'static str> {
    OWN.get().map(|own| own.program.as_str())
}

/// The reference for the results of a kernel, if the program has one.
pub(crate) fn reference(kernel: &str) -> Option<Reference> {
    OWN.get()?.commands.references.get(kernel).cloned()
}

/// The peers that `bench` measures beside a kernel.
pub(crate) fn peers(kernel: &str) -> impl Iterator<Item = (&'static str, &'static Prepare)> {
    let all = OWN.get().into_iter().flat_map(|own| &own.commands.peers);
    all.filter(move |(of, ..)| of == kernel).map(|(_, name, prepare)| (name.as_str(), prepare))
}
