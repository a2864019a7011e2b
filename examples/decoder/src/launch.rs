//! Launches as data, and what runs them.

use tilewright::{Elem, Element, KernelDef};

use crate::Result;

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum Value {
    Number(f32),
    Integer(i32),
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

/// Where kernels run: a device or the simulator. Buffers have elements of one type, given and returned as bytes.
pub trait Runner {
    /// Whether kernels for compute capability 9.0 run.
    fn is_hopper(&self) -> bool;
    /// A new buffer of zeros, and its number.
    fn zeros(&mut self, elem: Elem, count: usize) -> Result<usize>;
    /// The number of buffers.
    fn buffers(&self) -> usize;
    /// Frees the last buffers, but for this number of them.
    fn truncate(&mut self, count: usize);
    /// The last buffer gets the number of another one, which is freed.
    fn replace(&mut self, buffer: usize);
    /// A new buffer, and its number.
    fn buffer(&mut self, elem: Elem, bytes: &[u8]) -> Result<usize>;
    /// Writes a whole buffer.
    fn write(&mut self, buffer: usize, bytes: &[u8]) -> Result<()>;
    /// A whole buffer.
    fn read(&mut self, buffer: usize) -> Result<Vec<u8>>;
    /// A kernel, and its number.
    fn kernel(&mut self, def: &KernelDef) -> Result<usize>;
    /// Runs launches in order. Launches with the same numbers of a graph are the same.
    fn run(&mut self, graph: Option<[usize; 3]>, launches: &dyn Fn() -> Vec<Launch>) -> Result<()>;
}

/// Numbers as bytes.
pub fn bytes<T: Element>(all: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in all {
        bytes.extend_from_slice(&number.to_raw().to_le_bytes()[..T::ELEM.bytes() as usize]);
    }
    bytes
}

/// Bytes as numbers.
pub fn numbers<T: Element>(bytes: &[u8]) -> Vec<T> {
    let raw = |of: &[u8]| of.iter().rev().fold(0, |raw, byte| raw << 8 | u64::from(*byte));
    bytes.chunks_exact(T::ELEM.bytes() as usize).map(|of| T::from_raw(raw(of))).collect()
}

impl Value {
    pub fn tensor(buffer: usize, extents: &[usize], strides: &[usize]) -> Value {
        let (extents, strides) = (extents.to_vec(), strides.to_vec());
        Value::Tensor(Tensor { buffer, extents, strides, offset: 0, written: false })
    }

    pub fn vector(buffer: usize, count: usize) -> Value {
        Value::tensor(buffer, &[count], &[1])
    }

    pub fn rows(buffer: usize, rows: usize, columns: usize) -> Value {
        Value::tensor(buffer, &[rows, columns], &[columns, 1])
    }

    /// The first mode contiguous.
    pub fn columns(buffer: usize, extents: &[usize]) -> Value {
        let strides = extents.iter().scan(1, |next, extent| Some(std::mem::replace(next, *next * extent)));
        Value::tensor(buffer, extents, &strides.collect::<Vec<_>>())
    }

    /// A tensor that the kernel writes.
    pub fn written(mut self) -> Value {
        if let Value::Tensor(of) = &mut self {
            of.written = true;
        }
        self
    }

    /// Begins later.
    pub fn from(mut self, offset: usize) -> Value {
        if let Value::Tensor(of) = &mut self {
            of.offset += offset;
        }
        self
    }
}
