//! What a tile program computes, found out the plain way: block by block, statement by statement, all threads in step.
//!
//! Coordinates are integers of 128 bits, elements numbers with a bound on their error. Nothing here is shared with
//! lowering: a view is a layout and where it begins, a tensor a table of elements, and a pipelined loop an ordinary one.

mod atoms;
mod memory;
mod number;
mod order;
mod point;
mod statement;
mod value;
mod view;

use tilewright_codegen::tile::{Arg, Program};
use tilewright_layout::Symbol;

pub use memory::Buffer;
pub use number::Num;
pub use point::{Moment, Pointed, point};

use memory::Memory;

/// What a program is run with.
pub struct Launch<'l> {
    /// The program, before anything is written out.
    pub program: &'l Program,
    /// Blocks along x, y, z.
    pub grid: [i64; 3],
    /// What symbols stand for.
    pub symbols: Vec<(Symbol, i64)>,
    /// Scalar arguments.
    pub scalars: Vec<f64>,
    /// What each argument that is a tensor lies in, in the order of arguments.
    pub buffers: Vec<Buffer>,
}

/// Why a program has no meaning: it reads what nobody wrote, say.
#[derive(Clone, Debug, PartialEq)]
pub struct Undefined(pub String);

type Result<T> = std::result::Result<T, Undefined>;

/// One block at work.
struct Block<'l> {
    program: &'l Program,
    symbols: &'l [(Symbol, i64)],
    scalars: &'l [f64],
    block: [i64; 3],
    memory: &'l mut Memory,
}

/// Runs a program; the buffers as it leaves them.
pub fn run(launch: Launch<'_>) -> Result<Vec<Buffer>> {
    let Launch { program, grid, symbols, scalars, buffers } = launch;
    let mut memory = Memory::new(program, buffers);
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                memory.begin(program);
                let block = [x, y, z];
                let mut block =
                    Block { program, symbols: &symbols, scalars: &scalars, block, memory: &mut memory };
                let steps = block.order()?;
                for step in &steps {
                    block.perform(step)?;
                }
            }
        }
    }
    let tensors = program.args.iter().filter_map(|arg| match arg {
        Arg::Tensor(id) => Some(*id),
        Arg::Scalar(_) => None,
    });
    Ok(tensors.map(|id| memory.buffer(id)).collect())
}
