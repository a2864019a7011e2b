//! Commands for kernels of one's own: their list, and what their results are compared with.

pub(crate) mod bench;
mod reference;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use tilewright::Kernel;
use tilewright_codegen::kernel_def::KernelDef;

use crate::kernel::Listed;
pub use reference::{Inputs, Results};

/// What a result is compared with.
pub(crate) type Reference = Arc<dyn Fn(&Inputs<'_>, &mut Results<'_>) + Send + Sync>;

/// The commands for some kernels, and what `run` compares their results with.
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
}

/// The list of the program, once it has one.
static OWN: OnceLock<Own> = OnceLock::new();

struct Own {
    program: &'static str,
    /// Names, descriptions and kernels.
    kernels: Vec<(&'static str, &'static str, KernelDef)>,
    references: HashMap<String, Reference>,
}

impl Commands {
    /// Those for these kernels, by their names.
    pub fn of(kernels: &[&dyn Kernel]) -> Commands {
        let kernels = kernels.iter().map(|kernel| kernel.def().clone()).collect();
        Commands { kernels, ..Commands::default() }
    }

    /// What a kernel computes, in one line, for `--help`.
    pub fn about(mut self, kernel: &str, about: &str) -> Commands {
        self.abouts.insert(kernel.into(), about.into());
        self
    }

    /// What `run` compares a kernel's results with: a function that fills expected results from the inputs, in double precision.
    pub fn reference(
        mut self,
        kernel: &str,
        reference: impl Fn(&Inputs<'_>, &mut Results<'_>) + Send + Sync + 'static,
    ) -> Commands {
        self.references.insert(kernel.into(), Arc::new(reference));
        self
    }

    /// Does what the program's arguments say. For once in a program, at its end.
    pub fn main(self) -> ExitCode {
        let Commands { kernels, mut abouts, references } = self;
        let known = |name: &String| kernels.iter().any(|kernel| kernel.name() == name);
        if let Some(name) = abouts.keys().chain(references.keys()).find(|name| !known(name)) {
            let names: Vec<&str> = kernels.iter().map(KernelDef::name).collect();
            eprintln!(
                "error: there is no kernel `{name}` to describe\nhelp: the kernels are {}",
                names.join(", ")
            );
            return ExitCode::FAILURE;
        }
        // The list lives as long as the program.
        let lasting = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let program = std::env::args().next().map_or_else(
            || "kernels".to_owned(),
            |path| {
                let name =
                    std::path::Path::new(&path).file_stem().map(|name| name.to_string_lossy().into_owned());
                name.unwrap_or(path)
            },
        );
        let listed = |kernel: KernelDef| {
            let about = abouts.remove(kernel.name()).unwrap_or_default();
            (lasting(kernel.name().to_owned()), lasting(about), kernel)
        };
        let program = lasting(program);
        let own = Own { program, kernels: kernels.into_iter().map(listed).collect(), references };
        if OWN.set(own).is_err() {
            eprintln!("error: the commands of this program run already\nhelp: call `main` once");
            return ExitCode::FAILURE;
        }
        crate::parsed(crate::command(program, env!("CARGO_PKG_VERSION"), crate::OWN), crate::OWN)
    }
}

/// The program's kernels; `None` for those that ship with tilewright.
pub(crate) fn listed() -> Option<Vec<Listed>> {
    let one = |(name, about, def): &(&'static str, &'static str, KernelDef)| Listed {
        name,
        about,
        def: def.clone(),
    };
    OWN.get().map(|own| own.kernels.iter().map(one).collect())
}

/// The program's name, where it has kernels of its own.
pub(crate) fn program() -> Option<&'static str> {
    OWN.get().map(|own| own.program)
}

/// What the results of a kernel are compared with, if the program says it.
pub(crate) fn reference(kernel: &str) -> Option<Reference> {
    OWN.get()?.references.get(kernel).cloned()
}
