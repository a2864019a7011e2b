//! A reference interpreter of tile programs: block by block, statement by statement, all threads in lockstep.
//!
//! Coordinates are 128-bit integers, elements are numbers with an error bound. No code is shared with
//! lowering: a view is a layout and an origin, a tensor is a table of elements, and a pipelined loop is an
//! ordinary loop.

mod atoms;
mod memory;
mod number;
mod order;
mod point;
mod scan;
mod statement;
mod value;
mod view;

use tilewright_codegen::tile::{Arg, LaunchRule, Program};
use tilewright_layout::Symbol;

pub use memory::Buffer;
pub use number::Num;
pub use point::{Moment, Pointed, point};

use memory::Memory;

/// The inputs of a program.
pub struct Launch<'l> {
    /// The program, before any expansion.
    pub program: &'l Program,
    /// Blocks along x, y, z.
    pub grid: [i64; 3],
    /// The values of symbols.
    pub symbols: Vec<(Symbol, i64)>,
    /// Scalar arguments.
    pub scalars: Vec<f64>,
    /// The buffers of tensor arguments, in order.
    pub buffers: Vec<Buffer>,
}

/// Why a program is undefined: it reads uninitialised elements, for example.
#[derive(Clone, Debug, PartialEq)]
pub struct Undefined(pub String);

type Result<T> = std::result::Result<T, Undefined>;

/// A cluster of blocks in execution.
struct Cluster<'l> {
    program: &'l Program,
    symbols: &'l [(Symbol, i64)],
    scalars: &'l [f64],
    memory: &'l mut Memory,
    /// Statements that have been reached, including statements that are executed at once.
    steps: usize,
}

/// Runs a program; returns its buffers.
pub fn run(launch: Launch<'_>) -> Result<Vec<Buffer>> {
    let Launch { program, grid, symbols, scalars, buffers } = launch;
    let mut memory = Memory::new(program, buffers);
    let size = program.cluster.map(i64::from);
    // A persistent kernel has one cluster, which processes all tiles.
    let grid = if program.launch == LaunchRule::Persistent { size } else { grid };
    for first in origins(grid, size) {
        memory.begin(program);
        let (symbols, scalars, memory) = (&symbols, &scalars, &mut memory);
        let mut cluster = Cluster { program, symbols, scalars, memory, steps: 0 };
        let blocks = origins(size, [1; 3])
            .enumerate()
            .map(|(rank, at)| cluster.order([first[0] + at[0], first[1] + at[1], first[2] + at[2]], rank))
            .collect::<Result<Vec<_>>>()?;
        for step in &cluster.together(blocks)? {
            cluster.perform(step)?;
        }
    }
    let tensors = program.args.iter().filter_map(|arg| match arg {
        Arg::Tensor(id) => Some(*id),
        Arg::Scalar(_) => None,
    });
    Ok(tensors.map(|id| memory.buffer(id)).collect())
}

/// The points of a grid with these steps, the first axis fastest.
fn origins(grid: [i64; 3], step: [i64; 3]) -> impl Iterator<Item = [i64; 3]> {
    let along = move |axis: usize| (0..grid[axis]).step_by(step[axis].max(1) as usize);
    along(2).flat_map(move |z| along(1).flat_map(move |y| along(0).map(move |x| [x, y, z])))
}
