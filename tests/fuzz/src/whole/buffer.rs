//! Arguments in memory of the host.

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
