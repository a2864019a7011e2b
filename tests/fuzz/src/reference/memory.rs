//! Tensors as tables of elements. Shared memory and registers are indexed by coordinates, independent of
//! their layouts, which must not matter. Global memory is indexed by extents and strides.

use std::collections::HashMap;

use tilewright_codegen::thread::Id;
use tilewright_codegen::tile::{Arg, Program, Space};

use super::Num;

/// An argument in memory of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Elements of the whole buffer; `None` in guards and gaps.
    pub all: Vec<Option<Num>>,
    /// The offset of the first one.
    pub offset: usize,
    /// Elements along each mode.
    pub extents: Vec<i64>,
    /// Strides of each mode.
    pub strides: Vec<i64>,
}

/// Is an element an out-of-bounds fill?
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outside {
    No,
    Yes,
    /// All its operands were; whether it counts as one too depends on what the generator knew.
    Perhaps,
}

/// An element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) num: Num,
    pub(super) out_of_bounds: Outside,
}

impl Cell {
    pub(super) fn of(num: Num) -> Cell {
        Cell { num, out_of_bounds: Outside::No }
    }
}

/// All tensors of a program.
pub(super) struct Memory {
    buffers: HashMap<Id, Buffer>,
    /// Shared memory, and registers of each thread, of each block of a cluster.
    tables: HashMap<(usize, Id), Vec<Option<Cell>>>,
}

impl Memory {
    pub(super) fn new(program: &Program, buffers: Vec<Buffer>) -> Memory {
        let tensors = program.args.iter().filter_map(|arg| match arg {
            Arg::Tensor(id) => Some(*id),
            Arg::Scalar(_) => None,
        });
        Memory { buffers: tensors.zip(buffers).collect(), tables: HashMap::new() }
    }

    /// For the next cluster: all is uninitialised.
    pub(super) fn begin(&mut self, program: &Program) {
        let ranks = program.cluster.iter().product::<u32>() as usize;
        let tensors = program.tensors.iter().enumerate();
        for ((id, tensor), rank) in tensors.flat_map(|tensor| (0..ranks).map(move |rank| (tensor, rank))) {
            let size = tensor.plain().size().unwrap_or(0) as usize;
            let size = match tensor.space {
                Space::Global { .. } => continue,
                Space::Shared { .. } => size,
                Space::Registers { .. } => size * program.threads() as usize,
            };
            let table = self.tables.entry((rank, id as Id)).or_default();
            table.clear();
            table.resize(size, None);
        }
    }

    /// Has a tensor elements? A tensor of coordinates has none.
    pub(super) fn has_elements(&self, rank: usize, tensor: Id) -> bool {
        self.buffers.contains_key(&tensor) || self.tables.contains_key(&(rank, tensor))
    }

    /// The element at an offset, by its coordinates in the order of the leftmost mode; `None` if it is
    /// uninitialised, or the tensor has no elements.
    pub(super) fn read(&self, rank: usize, tensor: Id, at: usize) -> Option<Cell> {
        match self.buffers.get(&tensor) {
            Some(buffer) => buffer.all[buffer.index_of(at)].map(Cell::of),
            None => *self.tables.get(&(rank, tensor))?.get(at)?,
        }
    }

    pub(super) fn write(&mut self, rank: usize, tensor: Id, at: usize, cell: Cell) {
        match self.buffers.get_mut(&tensor) {
            Some(buffer) => {
                let index = buffer.index_of(at);
                buffer.all[index] = Some(cell.num);
            }
            None => {
                if let Some(table) = self.tables.get_mut(&(rank, tensor)) {
                    table[at] = Some(cell);
                }
            }
        }
    }

    pub(super) fn buffer(&mut self, tensor: Id) -> Buffer {
        self.buffers.remove(&tensor).expect("every argument has a buffer")
    }
}

impl Buffer {
    /// The offset of an element in the buffer, counted with the leftmost mode fastest.
    pub fn index_of(&self, element: usize) -> usize {
        let (mut rest, mut index) = (element as i64, self.offset as i64);
        for (extent, stride) in self.extents.iter().zip(&self.strides) {
            index += rest % extent * stride;
            rest /= extent;
        }
        index as usize
    }

    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.extents.iter().product::<i64>() as usize
    }
}
