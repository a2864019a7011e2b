//! Launches as data, and what runs them.

use tilewright::{KernelDef, f16};

use crate::Result;

/// The contents of a buffer.
#[derive(Clone, Debug)]
pub enum Data {
    F32(Vec<f32>),
    F16(Vec<f16>),
    /// Zeros of f16.
    Zeros(usize),
    I32(Vec<i32>),
    I8(Vec<i8>),
    U8(Vec<u8>),
}

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum Value {
    Number(f32),
    Tensor(Tensor),
}

/// A part of a buffer.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub buffer: usize,
    pub extents: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
    pub written: bool,
}

/// A kernel by its number, and its arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    pub kernel: usize,
    pub args: Vec<Value>,
}

/// Where kernels run: a device or the simulator.
pub trait Runner {
    /// A new buffer, and its number.
    fn buffer(&mut self, data: Data) -> Result<usize>;
    /// Writes a buffer with data of its type and length.
    fn write(&mut self, buffer: usize, data: Data) -> Result<()>;
    /// A buffer of f32.
    fn read(&mut self, buffer: usize) -> Result<Vec<f32>>;
    /// A buffer of integers.
    fn read_integers(&mut self, buffer: usize) -> Result<Vec<i32>>;
    /// A kernel, and its number.
    fn kernel(&mut self, def: &KernelDef) -> Result<usize>;
    /// Runs launches in order. With the numbers of a graph they are the launches of the last call with these numbers.
    fn run(&mut self, graph: Option<[usize; 2]>, launches: &[Launch]) -> Result<()>;
}

impl Value {
    pub(crate) fn read<const R: usize>(buffer: usize, extents: [usize; R], strides: [usize; R]) -> Value {
        Value::tensor(buffer, extents.to_vec(), strides.to_vec())
    }

    pub(crate) fn tensor(buffer: usize, extents: Vec<usize>, strides: Vec<usize>) -> Value {
        Value::Tensor(Tensor { buffer, extents, strides, offset: 0, written: false })
    }

    pub(crate) fn vector(buffer: usize, count: usize) -> Value {
        Value::read(buffer, [count], [1])
    }

    pub(crate) fn rows(buffer: usize, rows: usize, columns: usize) -> Value {
        Value::read(buffer, [rows, columns], [columns, 1])
    }

    /// A tensor that the kernel writes.
    pub(crate) fn written(mut self) -> Value {
        if let Value::Tensor(of) = &mut self {
            of.written = true;
        }
        self
    }

    /// Begins later.
    pub(crate) fn from(mut self, offset: usize) -> Value {
        if let Value::Tensor(of) = &mut self {
            of.offset = offset;
        }
        self
    }
}
