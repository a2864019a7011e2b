//! Arguments of a kernel: tensors from slices, results to be filled, numbers.

use tilewright_program::Elem;
use tilewright_program::element::Element;
use tilewright_program::launch::{Given, Tensor};

use crate::arithmetic::Arithmetic;

/// An argument.
///
/// ```
/// use tilewright_sim::Arg;
/// let a = vec![1.0f32; 12];
/// let whole = Arg::tensor(&a, [3, 4]); // column-major: three rows, next to each other
/// let rows = Arg::tensor(&a, [3, 4]).strides([4, 1]);
/// let part = Arg::tensor(&a, [2, 2]).strides([1, 3]).offset(4);
/// let result = Arg::output::<f32>([3, 4]);
/// let alpha = Arg::number(2.5f32);
/// # let _ = (whole, rows, part, result, alpha);
/// ```
#[derive(Clone, Debug)]
pub struct Arg {
    elem: Elem,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Number(u64),
    Tensor {
        /// Bytes of the whole slice; empty for a pure output.
        data: Option<Vec<u8>>,
        mutable: bool,
        extents: Vec<i64>,
        strides: Option<Vec<i64>>,
        offset: usize,
    },
}

fn bytes<T: Element>(data: &[T]) -> Vec<u8> {
    let size = T::ELEM.bytes() as usize;
    let mut all = Vec::with_capacity(data.len() * size);
    for &element in data {
        all.extend_from_slice(&element.to_raw().to_le_bytes()[..size]);
    }
    all
}

fn signed(sizes: impl IntoIterator<Item = usize>) -> Vec<i64> {
    sizes.into_iter().map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect()
}

/// The memory of a tensor.
#[doc(hidden)]
#[derive(Debug)]
pub struct ArgMemory<'a> {
    /// Extents of its modes.
    pub extents: &'a [i64],
    /// Strides of its modes.
    pub strides: Vec<i64>,
    /// The offset of its first element.
    pub offset: usize,
    /// Its bytes, if it has contents.
    pub bytes: Option<&'a [u8]>,
}

impl Arg {
    fn of(elem: Elem, data: Option<Vec<u8>>, mutable: bool, extents: Vec<i64>) -> Arg {
        Arg { elem, kind: Kind::Tensor { data, mutable, extents, strides: None, offset: 0 } }
    }

    /// A tensor that the kernel reads, with these extents; column-major unless strides say otherwise.
    pub fn tensor<T: Element>(data: &[T], extents: impl IntoIterator<Item = usize>) -> Arg {
        Arg::of(T::ELEM, Some(bytes(data)), false, signed(extents))
    }

    /// A tensor that the kernel reads and writes.
    pub fn in_out<T: Element>(data: &[T], extents: impl IntoIterator<Item = usize>) -> Arg {
        Arg::of(T::ELEM, Some(bytes(data)), true, signed(extents))
    }

    /// A tensor of any type, from its bytes as they are stored. The kernel may also write it if it is `mutable`.
    pub fn stored(elem: Elem, bytes: &[u8], mutable: bool, extents: impl IntoIterator<Item = usize>) -> Arg {
        Arg::of(elem, Some(bytes.to_vec()), mutable, signed(extents))
    }

    /// A result: its elements are uninitialised, and every one must be written.
    pub fn output<T: Element>(extents: impl IntoIterator<Item = usize>) -> Arg {
        Arg::of(T::ELEM, None, true, signed(extents))
    }

    /// A number.
    pub fn number<T: Element>(value: T) -> Arg {
        Arg { elem: T::ELEM, kind: Kind::Number(value.to_raw()) }
    }

    /// Strides of a tensor in elements, one for each mode. A number has none.
    pub fn strides(mut self, all: impl IntoIterator<Item = usize>) -> Arg {
        if let Kind::Tensor { strides, .. } = &mut self.kind {
            *strides = Some(signed(all));
        }
        self
    }

    /// The leading dimension: the stride of the second mode, where the first has stride 1.
    pub fn leading(mut self, dimension: usize) -> Arg {
        if let Kind::Tensor { strides, extents, .. } = &mut self.kind {
            let mut next = i64::try_from(dimension).unwrap_or(i64::MAX);
            let mut all = vec![1; extents.len()];
            for (stride, extent) in all.iter_mut().zip(extents.iter()).skip(1) {
                *stride = next;
                next = next.saturating_mul(*extent);
            }
            *strides = Some(all);
        }
        self
    }

    /// The offset of the tensor's first element in the slice.
    pub fn offset(mut self, elements: usize) -> Arg {
        if let Kind::Tensor { offset, .. } = &mut self.kind {
            *offset = elements;
        }
        self
    }

    /// The bits of a number, for references of tests.
    #[doc(hidden)]
    pub fn bits(&self) -> Option<u64> {
        if let Kind::Number(bits) = &self.kind { Some(*bits) } else { None }
    }

    /// The memory of a tensor, for references of tests.
    #[doc(hidden)]
    pub fn memory(&self) -> Option<ArgMemory<'_>> {
        let Kind::Tensor { data, extents, offset, .. } = &self.kind else { return None };
        Some(ArgMemory { extents, strides: self.all_strides(), offset: *offset, bytes: data.as_deref() })
    }

    /// The same tensor with its modes in another order.
    pub(crate) fn permuted(&self, modes: &[usize]) -> Arg {
        let (mut arg, all) = (self.clone(), self.all_strides());
        if let Kind::Tensor { extents, strides, .. } = &mut arg.kind {
            *strides = Some(modes.iter().map(|&mode| all[mode]).collect());
            *extents = modes.iter().map(|&mode| extents[mode]).collect();
        }
        arg
    }

    /// Uninitialised memory for a tensor of a plan.
    pub(crate) fn uninitialised(tensor: Tensor) -> Arg {
        Arg::planned(tensor, None)
    }

    /// A tensor of a plan with these bytes.
    pub(crate) fn copied(tensor: Tensor, bytes: Vec<u8>) -> Arg {
        Arg::planned(tensor, Some(bytes))
    }

    fn planned(tensor: Tensor, data: Option<Vec<u8>>) -> Arg {
        let Tensor { elem, mutable, extents, strides, .. } = tensor;
        Arg { elem, kind: Kind::Tensor { data, mutable, extents, strides: Some(strides), offset: 0 } }
    }

    /// Is it an uninitialised tensor?
    pub(crate) fn is_output(&self) -> bool {
        matches!(self.kind, Kind::Tensor { data: None, .. })
    }

    pub(crate) fn elem(&self) -> Elem {
        self.elem
    }

    /// The bits of a number.
    pub(crate) fn raw(&self) -> u64 {
        match self.kind {
            Kind::Number(bits) => bits,
            Kind::Tensor { .. } => 0,
        }
    }

    /// The arguments of a launch plan. Tensors begin at distinct multiples of 256 bytes, as allocations do.
    pub(crate) fn given(&self, position: usize) -> Given {
        match &self.kind {
            Kind::Number(_) => Given::Scalar(self.elem),
            Kind::Tensor { data, mutable, extents, offset, .. } => {
                let strides = self.all_strides();
                let size = u64::from(self.elem.bytes());
                let len = match data {
                    Some(data) => (data.len() as u64 / size).saturating_sub(*offset as u64),
                    None => reach(extents, &strides) as u64,
                };
                let address = ((position as u64 + 1) << 44) + *offset as u64 * size;
                let (extents, elem, mutable) = (extents.clone(), self.elem, *mutable);
                Given::Tensor(Tensor { elem, mutable, extents, strides, len, address })
            }
        }
    }

    fn all_strides(&self) -> Vec<i64> {
        let Kind::Tensor { strides, extents, .. } = &self.kind else { return Vec::new() };
        strides.clone().unwrap_or_else(|| {
            let mut next = 1i64;
            let one = |&extent: &i64| {
                let stride = next;
                next = next.saturating_mul(extent.max(1));
                stride
            };
            extents.iter().map(one).collect()
        })
    }

    /// The bytes from the tensor's first element to its last; `None` for a pure output.
    pub(crate) fn contents(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Tensor { data: Some(data), offset, .. } => data.get(self.elem.bytes_of(*offset)..),
            _ => None,
        }
    }

    /// The argument in the arithmetic of a run.
    pub(crate) fn in_arithmetic(&self, arithmetic: Arithmetic) -> Arg {
        let (elem, mut arg) = (self.elem, self.clone());
        match &mut arg.kind {
            _ if arithmetic.ring_of(elem).is_none() => {}
            Kind::Number(bits) => *bits = arithmetic.element(*bits, elem),
            Kind::Tensor { data, .. } => {
                let size = elem.bytes() as usize;
                for element in data.iter_mut().flat_map(|data| data.chunks_exact_mut(size)) {
                    let bits = arithmetic.element(crate::global::raw(element, 0, elem), elem);
                    element.copy_from_slice(&bits.to_le_bytes()[..size]);
                }
            }
        }
        arg
    }

    /// The whole slice with the tensor's part replaced.
    pub(crate) fn with(&self, part: &[u8]) -> Vec<u8> {
        match &self.kind {
            Kind::Tensor { data: Some(data), offset, .. } => {
                let (mut all, from) = (data.clone(), self.elem.bytes_of(*offset));
                let len = part.len().min(all.len().saturating_sub(from));
                all[from..from + len].copy_from_slice(&part[..len]);
                all
            }
            _ => part.to_vec(),
        }
    }
}

/// The cosize: elements from the first to the last, both included.
pub(crate) fn reach(extents: &[i64], strides: &[i64]) -> i64 {
    if extents.contains(&0) {
        return 0;
    }
    let steps = extents.iter().zip(strides);
    steps.fold(1i64, |sum, (n, d)| sum.saturating_add((n - 1).saturating_mul(*d)))
}
