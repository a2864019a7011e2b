//! Tensors of a call as kernels see them: a buffer, extents, strides and an offset, without data.

use candle_core::{DType, Layout, Result, bail};
use tilewright::Elem;

/// The buffer of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// An input, by its index.
    Input(usize),
    /// A result, by its index.
    Output(usize),
}

/// A part of an input or of a result, to be an argument of a kernel. Its methods change modes and copy no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub(crate) slot: Slot,
    pub(crate) elem: Elem,
    pub(crate) dims: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) offset: usize,
}

/// The element type of kernels for a type of candle.
fn elem(dtype: DType) -> Result<Elem> {
    Ok(match dtype {
        DType::F64 => Elem::F64,
        DType::F32 => Elem::F32,
        DType::F16 => Elem::F16,
        DType::BF16 => Elem::Bf16,
        DType::U8 => Elem::U8,
        DType::U32 => Elem::U32,
        DType::I32 => Elem::I32,
        DType::I64 => Elem::I64,
        other => bail!("kernels have no elements of type {other:?}"),
    })
}

impl View {
    pub(crate) fn new(slot: Slot, dtype: DType, layout: &Layout) -> Result<View> {
        let (dims, strides) = (layout.dims().to_vec(), layout.stride().to_vec());
        Ok(View { slot, elem: elem(dtype)?, dims, strides, offset: layout.start_offset() })
    }

    /// The type of its elements.
    pub fn elem(&self) -> Elem {
        self.elem
    }

    /// Its extents.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Its strides, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Its number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Are the elements of its last mode contiguous?
    pub fn has_contiguous_rows(&self) -> bool {
        let last = self.dims.iter().zip(&self.strides).next_back();
        last.is_none_or(|(extent, stride)| *extent <= 1 || *stride == 1)
    }

    /// Do rows begin at multiples of 16 bytes in 16 bits?
    pub(crate) fn is_aligned(&self) -> bool {
        let apart = self.strides.iter().take(self.dims.len().saturating_sub(1));
        self.has_contiguous_rows() && apart.clone().all(|stride| stride % 8 == 0) && self.offset % 8 == 0
    }

    /// Replaces `count` neighbouring modes from `first` on by one, where their strides permit it.
    pub fn merge(mut self, first: usize, count: usize) -> Result<View> {
        let (mut extent, mut stride) = (1, 1);
        for mode in (first..first + count).rev() {
            let (own, apart) = (self.dims[mode], self.strides[mode]);
            if own == 1 {
                continue;
            }
            if extent > 1 && apart != extent * stride {
                let (dims, strides) = (&self.dims, &self.strides);
                bail!("modes {first} to {mode} of {dims:?} with strides {strides:?} are not one mode")
            }
            (extent, stride) = if extent == 1 { (own, apart) } else { (extent * own, stride) };
        }
        self.dims.splice(first..first + count, [extent]);
        self.strides.splice(first..first + count, [stride]);
        Ok(self)
    }

    /// A matrix: all modes but the last become one.
    pub fn rows(self) -> Result<View> {
        let rank = self.dims.len();
        if rank == 0 { bail!("a scalar has no rows") } else { self.merge(0, rank - 1) }
    }

    /// Divides a mode into two: `outer` times `inner` elements.
    pub fn split(mut self, mode: usize, outer: usize, inner: usize) -> Result<View> {
        if outer * inner != self.dims[mode] {
            bail!("mode {mode} of {:?} is not {outer} times {inner}", self.dims)
        }
        let stride = self.strides[mode];
        self.dims.splice(mode..=mode, [outer, inner]);
        self.strides.splice(mode..=mode, [inner * stride, stride]);
        Ok(self)
    }

    /// The elements with this coordinate in a mode, which is removed.
    pub fn select(mut self, mode: usize, coordinate: usize) -> View {
        self.offset += coordinate * self.strides[mode];
        self.dims.remove(mode);
        self.strides.remove(mode);
        self
    }

    /// Elements from `start` on along a mode.
    pub fn narrow(mut self, mode: usize, start: usize, extent: usize) -> View {
        self.offset += start * self.strides[mode];
        self.dims[mode] = extent;
        self
    }

    /// With another mode of extent 1.
    pub fn unsqueeze(mut self, mode: usize) -> View {
        self.dims.insert(mode, 1);
        self.strides.insert(mode, 1);
        self
    }

    /// The modes in another order.
    pub fn permute(mut self, order: &[usize]) -> View {
        self.dims = order.iter().map(|mode| self.dims[*mode]).collect();
        self.strides = order.iter().map(|mode| self.strides[*mode]).collect();
        self
    }

    /// Integers of 8 and 32 bits as signed ones.
    pub fn signed(mut self) -> View {
        self.elem = match self.elem {
            Elem::U8 => Elem::I8,
            Elem::U32 => Elem::I32,
            other => other,
        };
        self
    }

    /// Positions of its elements in the buffer, the last mode first.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let mut at = vec![0; self.dims.len()];
        let (mut next, mut left) = (self.offset, self.count());
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let position = next;
            for mode in (0..at.len()).rev() {
                at[mode] += 1;
                next += self.strides[mode];
                if at[mode] < self.dims[mode] {
                    break;
                }
                next -= self.strides[mode] * self.dims[mode];
                at[mode] = 0;
            }
            Some(position)
        })
    }
}
