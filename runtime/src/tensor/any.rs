//! A tensor whose element type and number of modes are known only at run time.

use cudarc::driver::CudaSlice;
use tilewright_program::Elem;
use tilewright_program::element::Element;

use super::{DeviceTensor, needed, spans};
use crate::argument::Argument;
use crate::error::Error;
use crate::stream::Stream;

/// A tensor in a device's memory, which it owns: bytes, and what is in them.
#[derive(Debug)]
pub struct AnyTensor {
    bytes: DeviceTensor<u8, 1>,
    elem: Elem,
    extents: Vec<usize>,
    strides: Vec<usize>,
}

impl AnyTensor {
    /// A tensor with these strides, in elements. `values` has its elements from the first to the last, or their bytes.
    pub fn new<S: Element>(
        stream: &Stream,
        elem: Elem,
        extents: &[usize],
        strides: &[usize],
        values: &[S],
    ) -> Result<AnyTensor, Error> {
        let needed = needed(elem, extents, strides)?;
        spans(extents, strides, needed, size_of_val(values) / elem.bytes() as usize)?;
        let mut tensor = AnyTensor::uninitialised(stream, elem, extents, strides)?;
        tensor.bytes.copy_from(values)?;
        Ok(tensor)
    }

    /// A tensor with these strides, and with unspecified contents.
    pub fn uninitialised(
        stream: &Stream,
        elem: Elem,
        extents: &[usize],
        strides: &[usize],
    ) -> Result<AnyTensor, Error> {
        let bytes = needed(elem, extents, strides)? * elem.bytes() as usize;
        let bytes = DeviceTensor::uninitialised(stream, bytes)?;
        Ok(AnyTensor { bytes, elem, extents: extents.into(), strides: strides.into() })
    }

    /// Another tensor like this one, with unspecified contents.
    pub fn uninitialised_like(&self, stream: &Stream) -> Result<AnyTensor, Error> {
        AnyTensor::uninitialised(stream, self.elem, &self.extents, &self.strides)
    }

    /// A tensor that takes over a slice of cudarc, with these strides.
    pub fn from_slice(
        slice: CudaSlice<u8>,
        elem: Elem,
        extents: &[usize],
        strides: &[usize],
    ) -> Result<AnyTensor, Error> {
        let bytes = needed(elem, extents, strides)? * elem.bytes() as usize;
        let bytes = DeviceTensor::from_slice(slice, [bytes])?;
        Ok(AnyTensor { bytes, elem, extents: extents.into(), strides: strides.into() })
    }

    /// A vector of zeros.
    pub fn zeros(stream: &Stream, elem: Elem, count: usize) -> Result<AnyTensor, Error> {
        let bytes = DeviceTensor::zeros(stream, [count * elem.bytes() as usize])?;
        Ok(AnyTensor { bytes, elem, extents: vec![count], strides: vec![1] })
    }

    /// Copies bytes of elements into the tensor, as they are stored.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes.write(bytes)
    }

    /// The bytes of its elements from the first to the last.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        self.bytes.to_host_stored()
    }

    /// The type of its elements.
    pub fn elem(&self) -> Elem {
        self.elem
    }

    /// The number of its elements from the first to the last, gaps included.
    pub fn stored_len(&self) -> usize {
        self.bytes.stored_len() / self.elem.bytes() as usize
    }

    /// The address of its first element.
    pub fn address(&self) -> u64 {
        self.bytes.address()
    }

    /// As an argument; `written` if the kernel writes it.
    pub fn argument(&mut self, written: bool) -> Argument<'_> {
        let AnyTensor { bytes, elem, extents, strides } = self;
        let buffer = if written { bytes.storage.write() } else { bytes.storage.read() };
        Argument::tensor(buffer, *elem, extents.iter().chain(&*strides).copied(), 0)
    }

    /// A part of its memory as an argument that is read: extents, strides, and the first element.
    pub fn part(&self, extents: &[usize], strides: &[usize], offset: usize) -> Argument<'_> {
        Argument::tensor(self.bytes.storage.read(), self.elem, extents.iter().chain(strides).copied(), offset)
    }

    /// A part of its memory as an argument that is written.
    pub fn part_mut(&mut self, extents: &[usize], strides: &[usize], offset: usize) -> Argument<'_> {
        Argument::tensor(
            self.bytes.storage.write(),
            self.elem,
            extents.iter().chain(strides).copied(),
            offset,
        )
    }
}
