//! Draws kernels. A kernel is a few acts by the same threads: tiles are moved, functions applied, elements
//! reduced, tiles multiplied. Draws aim to be valid, so that few are refused: there are barriers where they
//! are needed, and no two threads write one element.

mod acts;
mod built;
mod form;
mod function;
mod integers;
mod keys;
mod product;
mod scene;
mod tensors;
mod tree;
mod whole;

use tilewright_codegen::ast::{ConstParam, Kernel};
use tilewright_codegen::{Definition, Settings};

use crate::change;
use crate::judge::{Source, Subject};
use crate::random::Random;
use scene::Scene;
use tree::word;

/// Kinds of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Parts of threads, keys of products, programs of the builder.
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

    /// The subject of a seed.
    pub fn subject(self, seed: u64) -> Subject {
        match self {
            Kind::Parts => subject(seed),
            Kind::Whole => whole_tiles(seed),
            Kind::Targeted => of_text(whole::targeted(seed)),
            Kind::Exchanges => of_text(whole::exchanges(seed)),
            Kind::Options => of_text(whole::options(seed)),
        }
    }
}

/// The subject of a seed.
pub fn subject(seed: u64) -> Subject {
    let mut random = Random::new(seed);
    let source = match random.below(100) {
        0..6 => Source::Text(keys::product(&mut random)),
        6..10 => built(built::roles(&mut random)),
        10..16 => built(built::matrices(&mut random)),
        _ => Source::Text(Definition::Function(kernel(&mut random), Settings::default())),
    };
    let mut subject = Subject { source, changes: Vec::new() };
    // Changes that text cannot express.
    if !matches!(subject.source, Source::Built(_))
        && random.chance(60)
        && let Ok(program) = subject.program()
        && program.rings.is_empty()
    {
        subject.changes = change::draw(&program, &mut random);
    }
    subject
}

/// The subject of a seed, of whole tiles.
pub fn whole_tiles(seed: u64) -> Subject {
    of_text(whole::kernel(&mut Random::new(!seed)))
}

fn of_text(kernel: Kernel) -> Subject {
    Subject { source: Source::Whole(Definition::Function(kernel, Settings::default())), changes: Vec::new() }
}

/// A program of the builder; a trivial one if it refused.
fn built(made: tilewright_codegen::problem::Result<tilewright_codegen::tile::Program>) -> Source {
    match made {
        Ok(program) => Source::Built(program),
        Err(problem) => Source::Refused(problem.message),
    }
}

/// A kernel as text.
pub fn kernel(random: &mut Random) -> Kernel {
    let mut scene = Scene::new(random.clone());
    scene.play();
    *random = Random::new(scene.random.bits());
    let consts: Vec<ConstParam> = std::mem::take(&mut scene.consts);
    Kernel {
        name: word("drawn"),
        is_unsafe: false,
        consts,
        types: Vec::new(),
        params: std::mem::take(&mut scene.params),
        devices: Vec::new(),
        body: scene.bodies.pop().unwrap_or_default(),
        levels: Vec::new(),
        keys: Vec::new(),
        overlaps: scene.random.chance(5),
        choices: Vec::new(),
    }
}
