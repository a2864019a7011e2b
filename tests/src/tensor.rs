//! A tensor on the host: elements in a buffer with gaps, and poison everywhere else.

use tilewright::{Arg, Elem, Element};
use tilewright_codegen::thread::Param;
use tilewright_codegen::{launch, with_element};
use tilewright_layout::Value;

use crate::number;

/// Guard elements before and after every tensor, which must not change. Their number keeps addresses aligned.
pub const GUARD: usize = 128;

/// The gaps and the offset of a tensor in its buffer, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// After each run along the contiguous mode: the leading dimension minus the extent.
    pub gap: usize,
    /// After each matrix of a batch.
    pub outer: usize,
    /// Before the first element, after the guard.
    pub offset: usize,
}

impl Padding {
    /// Gaps after each run, and an offset.
    pub const fn new(gap: usize, offset: usize) -> Padding {
        Padding { gap, outer: 0, offset }
    }
}

/// A tensor in a buffer.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The parameter's name.
    pub name: String,
    /// The element type.
    pub elem: Elem,
    /// Does the kernel write it?
    pub written: bool,
    /// One extent per mode.
    pub extents: Vec<usize>,
    /// The divisor of each extent: 128 for one that is K / 128, rounded up.
    pub over: Vec<usize>,
    /// One stride in elements per mode.
    pub strides: Vec<usize>,
    /// The offset of the first element in the buffer.
    pub offset: usize,
    /// The size of the buffer in elements.
    pub len: usize,
    /// The elements, the first mode fastest; empty if all of them are poison.
    pub values: Vec<f64>,
}

impl Tensor {
    /// A tensor for a parameter, contiguous along the mode whose stride is 1, poisoned. `None` if it is not a
    /// tensor.
    pub fn new(param: &Param, sizes: &[(&str, usize)], padding: Padding) -> Option<Tensor> {
        let Param::Pointer { name, elem, write, shape, stride } = param else { return None };
        let known = |symbol: tilewright_layout::Symbol| {
            sizes.iter().find(|size| size.0 == symbol.name()).map(|size| size.1 as i64)
        };
        let extent = |extent: &tilewright_layout::Value| match extent.evaluate(&known) {
            Some(extent) => extent as usize,
            None => panic!("`{name}` has the extent {extent}, and there are only {sizes:?}"),
        };
        let extents: Vec<usize> = shape.iter().map(extent).collect();
        let over = |extent: &Value| if let Value::Sym { over, .. } = extent { *over as usize } else { 1 };
        let over = shape.iter().map(over).collect();
        let mut strides = vec![1; extents.len()];
        // The contiguous mode first, then the others in order.
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_by_key(|&mode| stride[mode].int() != Some(1));
        let mut next = 1;
        for (index, &mode) in order.iter().enumerate() {
            let more = [padding.gap, padding.outer].get(index).copied().unwrap_or(0);
            strides[mode] = next;
            next = next * extents[mode].max(1) + more;
        }
        let reach: usize = extents.iter().zip(&strides).map(|(n, step)| n.saturating_sub(1) * step).sum();
        let offset = GUARD + padding.offset;
        let len = offset + reach + 1 + GUARD;
        let (name, elem, written) = (name.clone(), *elem, *write);
        Some(Tensor { name, elem, written, extents, over, strides, offset, len, values: Vec::new() })
    }

    /// The tensor with elements computed from their indices and rounded to the element type.
    pub fn filled(mut self, mut value: impl FnMut(usize) -> f64) -> Tensor {
        self.values = (0..self.count()).map(|at| number::rounded(self.elem, value(at))).collect();
        self
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.extents.iter().product()
    }

    /// The offset of each element in the buffer, the first mode fastest.
    pub fn places(&self) -> Vec<usize> {
        let mut places = vec![self.offset];
        for (extent, stride) in self.extents.iter().zip(&self.strides) {
            places =
                (0..*extent).flat_map(|at| places.iter().map(move |index| index + at * stride)).collect();
        }
        places
    }

    /// The bits of the whole buffer.
    pub fn bits(&self) -> Vec<u64> {
        let mut bits = vec![number::poison(self.elem); self.len];
        for (index, value) in self.places().into_iter().zip(&self.values) {
            bits[index] = number::bits(self.elem, *value);
        }
        bits
    }

    /// The buffer for the simulator.
    pub fn arg(&self) -> Arg {
        let (bits, extents) = (self.bits(), self.extents.clone());
        let arg = with_element!(self.elem, T => {
            let buffer: Vec<T> = bits.into_iter().map(T::from_raw).collect();
            if self.written { Arg::in_out(&buffer, extents) } else { Arg::tensor(&buffer, extents) }
        });
        arg.strides(self.strides.clone()).offset(self.offset)
    }

    /// An uninitialised result for the simulator, which then detects reads before writes, missing writes and
    /// repeated writes.
    pub fn output(&self) -> Arg {
        with_element!(self.elem, T => Arg::output::<T>(self.extents.clone())).strides(self.strides.clone())
    }

    /// The launch plan's view of it, in a buffer at this address.
    pub fn given(&self, buffer: u64) -> launch::Tensor {
        let signed = |sizes: &[usize]| sizes.iter().map(|&size| size as i64).collect();
        launch::Tensor {
            elem: self.elem,
            mutable: self.written,
            extents: signed(&self.extents),
            strides: signed(&self.strides),
            len: (self.len - self.offset) as u64,
            address: buffer + self.offset as u64 * u64::from(self.elem.bytes()),
        }
    }

    /// The coordinate of an element.
    pub fn coordinate(&self, element: usize) -> Vec<usize> {
        let mut rest = element;
        let submode = |extent: &usize| {
            let at = rest % extent;
            rest /= extent;
            at
        };
        self.extents.iter().map(submode).collect()
    }

    /// The bits of the whole buffer, from the bits of an uninitialised output, which begins with the first
    /// element.
    pub fn around(&self, output: Vec<u64>) -> Vec<u64> {
        let mut bits = self.bits();
        bits[self.offset..][..output.len()].copy_from_slice(&output);
        bits
    }

    /// The first mismatch in a buffer, if there is one: an unexpected element, or a change around the
    /// elements. `wanted` judges elements; without it they must be unchanged.
    pub fn wrong(
        &self,
        bits: &[u64],
        wanted: Option<&dyn Fn(usize, f64) -> Option<String>>,
    ) -> Option<String> {
        let mut kept = self.bits();
        let says = |why: String| Some(format!("`{}`{why}", self.name));
        if let Some(wanted) = wanted {
            for (element, index) in self.places().into_iter().enumerate() {
                if let Some(why) = wanted(element, number::value(self.elem, bits[index])) {
                    return says(format!(" at {:?} {why}", self.coordinate(element)));
                }
                kept[index] = bits[index];
            }
        }
        let index = (0..self.len).find(|&index| bits[index] != kept[index])?;
        let first = self.offset as i64;
        let before = "counted from the first element";
        says(format!(" was written where it must not be, at offset {}, {before}", index as i64 - first))
    }
}
