//! Choreographies: kernels written with the builder. The simulator, NVRTC and GPU tests all use this table: a new program is one line in [`all`].

mod attention;
mod cluster_softmax;
mod column_sums;
mod converted;
mod convolution;
mod exchanges;
mod fix_up;

use tilewright_codegen::affine::Affine;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::tile::Program;
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, Generated, generate};
use tilewright_layout::{Tuple, Value};

use crate::number::Random;
use crate::problem::{Operand, Problem, Reference, Setting, Values};
use crate::tensor::Padding;

/// Extents by name.
pub type Sizes = Vec<(&'static str, usize)>;

/// A program, and its test data.
pub struct Choreography {
    /// Its name.
    pub name: &'static str,
    /// The program.
    pub program: fn() -> Result<Program>,
    /// Its reference.
    pub reference: Reference,
    /// The numbers in its tensors.
    pub values: Values,
    /// Tensors that it writes and that must be zeroed before the launch.
    pub zeroed: &'static [&'static str],
    /// Sizes for the simulator, drawn at random.
    pub sizes: fn(&mut Random) -> Sizes,
    /// Sizes for a device.
    pub large: &'static [&'static [(&'static str, usize)]],
    /// Instructions that its machine code must contain.
    pub sass: &'static [&'static str],
}

/// All of them.
pub fn all() -> Vec<Choreography> {
    vec![
        cluster_softmax::choreography(),
        exchanges::of_blocks(),
        exchanges::of_warps(),
        column_sums::choreography(),
        fix_up::choreography(),
        converted::choreography(),
        convolution::choreography(),
        attention::choreography(),
    ]
}

impl Choreography {
    /// Its kernel.
    pub fn kernel(&self) -> Generated {
        let program = (self.program)().unwrap_or_else(|refused| panic!("{}: {}", self.name, refused.message));
        let outcome = generate(program);
        let messages: Vec<String> = outcome.diagnostics.iter().map(|messages| messages.text()).collect();
        outcome.kernel.unwrap_or_else(|| panic!("{}: {}", self.name, messages.join("\n")))
    }

    /// Its arguments for these sizes; gaps keep rows aligned to 16 bytes.
    pub fn problem(&self, kernel: &Generated, sizes: &[(&str, usize)], seed: u64) -> Problem {
        let paddings = &[Padding::new(16 * (seed % 2) as usize, 0)];
        let setting = Setting { sizes, paddings, values: self.values, seed, alpha: 0.5, beta: 0.0 };
        let mut problem = Problem::new(&kernel.variants[0].program.params, &setting, self.reference);
        for operand in &mut problem.operands {
            if let Operand::Tensor(tensor) = operand
                && self.zeroed.contains(&&*tensor.name)
            {
                *tensor = tensor.clone().filled(|_| 0.0);
            }
        }
        problem
    }
}

/// A matrix argument with contiguous rows.
fn matrix(b: &mut Builder, name: &str, elem: Elem, extents: [&str; 2], written: bool) -> Result<View> {
    let shape = Tuple::of(extents.map(|extent| Tuple::from(Value::symbol(extent))));
    let stride = Tuple::of([Value::symbol(&format!("ld{name}")).into(), Tuple::from(1)]);
    b.tensor(name, elem, shape, Some(stride), written)
}

/// Slices the last mode at an index.
fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

fn sum(x: Affine, y: &Affine) -> Affine {
    x.plus(y, 1).unwrap_or_default()
}

fn times(x: &Affine, n: i64) -> Affine {
    x.times(n).unwrap_or_default()
}

fn tiles_of(extent: Value, tile: i64) -> Value {
    extent.ceil_div(tile).unwrap_or_default()
}
