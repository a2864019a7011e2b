//! Draws kernels, as texts of the language. A kernel is a few acts by the same threads: tiles are moved, functions applied, elements
//! reduced, tiles multiplied. Draws aim to be valid, so that few are refused: there are barriers where they
//! are needed, and no two threads write one element.

mod acts;
mod form;
mod function;
mod integers;
mod keys;
mod product;
mod scene;
mod tensors;
mod text;
mod whole;

use tilewright_codegen::ast::Kernel;
use tilewright_codegen::{Definition, Settings};

use crate::random::Random;
use scene::Scene;

/// Kinds of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Parts of threads, keys of products.
    #[default]
    Parts,
    /// Whole tiles.
    Whole,
    /// Whole tiles in combinations that are rare in the other kinds.
    Targeted,
    /// Exchanges between lanes and between blocks, loops that end by elements, tuples of tiles.
    Exchanges,
    /// Each pair of options that can stand beside each other.
    Options,
}

impl Kind {
    /// The kinds with an option.
    pub const OPTIONS: [(&str, Kind); 4] = [
        ("--whole", Kind::Whole),
        ("--targeted", Kind::Targeted),
        ("--exchanges", Kind::Exchanges),
        ("--options", Kind::Options),
    ];

    /// The option that selects this kind.
    pub fn option(self) -> &'static str {
        Kind::OPTIONS.iter().find(|(_, kind)| *kind == self).map_or("", |(option, _)| option)
    }

    /// The kernel of a seed.
    pub fn kernel(self, seed: u64) -> Definition {
        Definition::Function(
            match self {
                Kind::Parts => return parts(&mut Random::new(seed)),
                Kind::Whole => whole::kernel(&mut Random::new(!seed)),
                Kind::Targeted => whole::targeted(seed),
                Kind::Exchanges => whole::exchanges(seed),
                Kind::Options => whole::options(seed),
            },
            Settings::default(),
        )
    }
}

fn parts(random: &mut Random) -> Definition {
    match random.below(100) {
        0..6 => keys::product(random),
        _ => Definition::Function(kernel(random), Settings::default()),
    }
}

/// A kernel of parts of threads.
fn kernel(random: &mut Random) -> Kernel {
    let mut scene = Scene::new(random.clone());
    scene.play();
    *random = Random::new(scene.random.bits());
    let keys = if scene.random.chance(5) { vec!["overlaps".into()] } else { Vec::new() };
    read(&scene, &keys, "")
}

/// Reads what was drawn.
fn read(scene: &Scene, keys: &[String], qualifier: &str) -> Kernel {
    let (keys, params, body) = (keys.join(", "), scene.params.join(", "), scene.bodies.concat());
    let text = format!("#[kernel({keys})]\n{qualifier}fn drawn({params}) {{\n{body}}}\n");
    let (kernel, read) = tilewright_parse::file::read(&text);
    assert!(read.problems.is_empty(), "{:?} in\n{text}", read.problems);
    kernel.expect("a kernel")
}
