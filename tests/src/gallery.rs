//! Every kernel that the project ships or shows: the input of snapshot, NVRTC and GPU tests.

use std::sync::OnceLock;

use tilewright::kernels;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Definition, Generate, Generated, Outcome};

use crate::programs;

/// Keys of the `matmul_kernel!` kernels under review.
pub use tilewright::kernels::PRODUCTS as MATMULS;

/// Shipped kernels whose blocks form clusters.
pub const CLUSTERS: &[(&str, &str)] =
    &[("softmax_row", "C=4 W=1024 L=128"), ("cumulative_sums", "C=4 W=512 L=128")];

/// The outcome of `matmul_kernel!` for keys as text: `bm=64 dtype=f64`.
pub fn matmul(keys: &str) -> Outcome {
    let words = Words::read(keys).unwrap_or_else(|wrong| panic!("{wrong}"));
    Definition::Matmul(words.args().to_vec()).generate()
}

fn kernel(name: &str, outcome: Outcome) -> (String, Generated) {
    let complaints: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    match outcome.kernel {
        Some(kernel) => (name.to_owned(), kernel),
        None => panic!("{name}: {}", complaints.join("\n")),
    }
}

fn carried(name: &str, definition: Option<Definition>) -> (String, Generated) {
    match definition {
        Some(definition) => kernel(name, definition.generate()),
        None => panic!("{name} carries no definition"),
    }
}

/// All of them, by name; generated once in a process.
pub fn all() -> &'static [(String, Generated)] {
    static ALL: OnceLock<Vec<(String, Generated)>> = OnceLock::new();
    ALL.get_or_init(generated)
}

/// One of them.
pub fn named(wanted: &str) -> &'static Generated {
    let (_, kernel) =
        all().iter().find(|(name, _)| name == wanted).unwrap_or_else(|| panic!("no kernel {wanted}"));
    kernel
}

/// All of them, generated anew.
pub fn generated() -> Vec<(String, Generated)> {
    // `MATMULS` has the product family, with more keys than the shipped one.
    let shipped = kernels::all().into_iter().filter(|shipped| shipped.name != "matmul");
    let mut all: Vec<_> = shipped.map(|shipped| carried(shipped.name, shipped.def.definition())).collect();
    for (name, keys) in CLUSTERS {
        let shipped = kernels::named(name).unwrap_or_else(|| panic!("{name} is shipped"));
        let def = Words::specialize(&shipped.def, keys).unwrap_or_else(|wrong| panic!("{wrong}"));
        all.push(carried(&format!("{name}-{}", keys.replace(' ', "-").replace('=', "_")), def.definition()));
    }
    let built = |program: tilewright_codegen::problem::Result<_>| match program {
        Ok(program) => tilewright_codegen::generate(program),
        Err(problem) => panic!("{}", problem.message),
    };
    all.push(kernel("wgmma_ring", built(programs::wgmma_ring())));
    all.push(kernel("mma_sync", built(programs::mma_sync())));
    for keys in MATMULS {
        // Its own name, or one made from its keys.
        let own = keys.split_whitespace().find_map(|key| key.strip_prefix("name="));
        let name = format!("matmul {}", own.unwrap_or(keys))
            .trim()
            .replace(' ', "-")
            .replace(['=', '(', ')', ','], "_");
        all.push(kernel(&name, matmul(keys)));
    }
    all
}
