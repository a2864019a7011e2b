//! Calls of the kernels of language models with tensors of a device: each launches what it needs, and allocates memory between launches.
//! The kernels are in [`kernels::models`](crate::kernels::models).
//!
//! Tensors may have any strides, but for the contiguous mode that is named. Elements are `f16` or `bf16`.
//!
//! ```no_run
//! use tilewright::models::{Mask, attention};
//! use tilewright::prelude::*;
//!
//! let stream = Device::open(0)?.stream()?;
//! // 2 sequences of 300 positions, 8 heads of queries and 2 heads of keys, 64 elements each.
//! let count = |heads: usize| 300 * 64 * heads * 2;
//! let tensor = |heads| DeviceTensor::from_host(&stream, [count(heads)], &vec![bf16::from_f32(0.5); count(heads)]);
//! let (q, k, v, mut o) = (tensor(8)?, tensor(2)?, tensor(2)?, tensor(8)?);
//! // (positions, elements, heads, sequences)
//! let (many, few) = ([300, 64, 8, 2], [300, 64, 2, 2]);
//! let strides_of = |heads: usize| [64, 1, 300 * 64, 300 * 64 * heads];
//! attention(
//!     &stream,
//!     0.125,
//!     Mask::Causal,
//!     q.view().reshaped(many, strides_of(8)),
//!     [k.view(), v.view()].map(|view| view.reshaped(few, strides_of(2))),
//!     o.view_mut().reshaped(many, strides_of(8)),
//!     None,
//! )?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use tilewright_program::kernel_value::Kernel;

use crate::kernels::models::paged;
use crate::kernels::models::{attention_backward as backward, attention_forward as forward, experts as moe};
use crate::{
    Argument, Built, DeviceTensor, Elem, Element, KernelErrors, LaunchError, Stream, TensorMut, TensorRef,
    bf16, f16,
};

/// Why a call was refused, or failed.
#[derive(Debug)]
pub enum Error {
    /// There is no such kernel, for example for heads of this width.
    Kernel(KernelErrors),
    /// Arguments were refused, or a launch failed.
    Launch(LaunchError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Kernel(error) => error.fmt(f),
            Error::Launch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<KernelErrors> for Error {
    fn from(error: KernelErrors) -> Error {
        Error::Kernel(error)
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Error {
        Error::Launch(error)
    }
}

type Result<T = ()> = std::result::Result<T, Error>;

/// Elements of 16 bits.
pub trait Half: Element + sealed::Half {}

mod sealed {
    pub trait Half {}
}

macro_rules! half {
    ($($half:ty)*) => { $(impl sealed::Half for $half {} impl Half for $half {})* };
}

half!(f16 bf16);

/// Launches a kernel with these constants and types of elements, which is generated for its first launch.
pub(crate) fn launch(
    stream: &Stream,
    kernel: &impl Kernel,
    constants: &[(&str, usize)],
    types: &[(&str, Elem)],
    arguments: &mut [Argument<'_>],
) -> Result {
    static KNOWN: LazyLock<Mutex<HashMap<String, Built>>> = LazyLock::new(Default::default);
    let key = format!("{} {constants:?} {types:?}", kernel.def().name());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let cached = known().get(&key).cloned();
    let built = match cached {
        Some(built) => built,
        None => {
            let built = Built::carried(&kernel.def().specialize(constants, types)?)?;
            known().entry(key).or_insert(built).clone()
        }
    };
    built.launch_with(stream, arguments)?;
    Ok(())
}

fn half<T: Half>() -> [(&'static str, Elem); 1] {
    [("T", T::ELEM)]
}

/// The keys that a query sees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mask {
    /// All.
    None,
    /// Those up to its own position. The last query has the position of the last key.
    Causal,
    /// As [`Mask::Causal`], and at most this many before its own position.
    Window(u32),
}

impl Mask {
    /// The constants, and the number of earlier keys.
    fn constants(self, width: usize) -> ([(&'static str, usize); 3], i32) {
        let (causal, window, left) = match self {
            Mask::None => (0, 0, 0),
            Mask::Causal => (1, 0, 0),
            Mask::Window(left) => (1, 1, left.min(i32::MAX as u32) as i32),
        };
        ([("D", width), ("CAUSAL", causal), ("WINDOW", window)], left)
    }
}

/// o = softmax(scale · Q·Kᵀ)·V, of tensors (positions, elements, heads, sequences) with contiguous elements: 64, 128 or 256 in a head. Heads
/// of queries are a multiple of the heads of keys. `lse`, (positions, heads, sequences), gets the logarithms of sums of exponentials, which
/// [`attention_backward`] reads. It needs compute capability 9.0.
pub fn attention<T: Half>(
    stream: &Stream,
    scale: f32,
    mask: Mask,
    q: TensorRef<'_, T, 4>,
    [k, v]: [TensorRef<'_, T, 4>; 2],
    o: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
) -> Result {
    let (constants, left) = mask.constants(q.shape()[1]);
    let has_lse = [("HAS_SINKS", 0), ("HAS_LSE", usize::from(lse.is_some()))];
    let mut arguments = vec![Argument::scalar(scale), Argument::scalar(left), Argument::scalar(1.0f32)];
    arguments.extend([q.into(), k.into(), v.into(), o.into()]);
    arguments.extend(lse.map(Argument::from));
    let constants = [&constants[..], &has_lse].concat();
    launch(stream, &forward::attention_forward(), &constants, &half::<T>(), &mut arguments)
}

/// What [`attention_backward`] reads: the arguments and results of [`attention`], and the gradient of its result.
#[derive(Clone)]
pub struct Forward<'a, T: Half> {
    /// Queries, keys and values.
    pub qkv: [TensorRef<'a, T, 4>; 3],
    /// The result.
    pub o: TensorRef<'a, T, 4>,
    /// The logarithms of sums of exponentials.
    pub lse: TensorRef<'a, f32, 3>,
    /// The gradient of the result.
    pub grad_o: TensorRef<'a, T, 4>,
}

/// The gradients of queries, keys and values of [`attention`].
pub fn attention_backward<T: Half>(
    stream: &Stream,
    scale: f32,
    mask: Mask,
    Forward { qkv: [q, k, v], o, lse, grad_o }: Forward<'_, T>,
    [grad_q, grad_k, grad_v]: [TensorMut<'_, T, 4>; 3],
) -> Result {
    let [m, width, heads, sequences] = q.shape();
    let mut delta = DeviceTensor::<f32, 3>::zeros(stream, [m, heads, sequences])?;
    let mut arguments = [o.into(), grad_o.clone().into(), delta.view_mut().into()];
    launch(stream, &backward::attention_delta(), &[("D", width)], &half::<T>(), &mut arguments)?;
    let (constants, left) = mask.constants(width);
    let given = || {
        let numbers = [Argument::scalar(scale), Argument::scalar(left), Argument::scalar(1.0f32)];
        let tensors = [&q, &k, &v, &grad_o].map(|tensor| tensor.clone().into());
        numbers.into_iter().chain(tensors).chain([lse.clone().into(), delta.view().into()])
    };
    let keys = |results: &[(&str, usize)], more: Vec<Argument<'_>>| {
        let mut arguments: Vec<Argument<'_>> = given().chain(more).collect();
        let constants = [&constants[..], results].concat();
        launch(stream, &backward::attention_grad_keys(), &constants, &half::<T>(), &mut arguments)
    };
    // The accumulators of both do not fit the registers for the widest heads.
    if width > 128 {
        keys(&[("HAS_GRAD_V", 0)], vec![grad_k.into()])?;
        keys(&[("HAS_GRAD_K", 0)], vec![grad_v.into()])?;
    } else {
        keys(&[], vec![grad_k.into(), grad_v.into()])?;
    }
    let mut arguments: Vec<Argument<'_>> = given().chain([grad_q.into()]).collect();
    launch(stream, &backward::attention_grad_queries(), &constants, &half::<T>(), &mut arguments)
}

/// Keys and values in pages, (pages, positions of a page, heads, elements), and where they belong.
#[derive(Clone)]
pub struct Pages<'a, T: Half> {
    /// Keys.
    pub keys: TensorRef<'a, T, 4>,
    /// Values.
    pub values: TensorRef<'a, T, 4>,
    /// The pages of each sequence.
    pub table: TensorRef<'a, i32, 2>,
    /// The row of the table for each new token.
    pub sequences: TensorRef<'a, i32, 1>,
    /// The position of each new token, whose keys and values are stored already.
    pub positions: TensorRef<'a, i32, 1>,
}

/// Attention of new tokens to the keys and values of their sequences in pages. Queries and results are (tokens, heads of keys, heads of
/// queries for one of these, elements). Each sequence is divided so that its blocks fill the GPU.
pub fn paged_attention<T: Half>(
    stream: &Stream,
    scale: f32,
    q: TensorRef<'_, T, 4>,
    pages: Pages<'_, T>,
    out: TensorMut<'_, T, 4>,
) -> Result {
    let [tokens, heads, group, width] = q.shape();
    let page = pages.keys.shape()[1];
    let step = [32, 16, 8].into_iter().find(|step| page.is_multiple_of(*step)).unwrap_or(8);
    let blocks = 2 * stream.device().properties().multiprocessors as usize * (32 / step);
    let parts = (blocks / (tokens * heads).max(1)).clamp(1, 64);
    // Eight parts are combined at once.
    let parts = if parts > 8 { parts / 8 * 8 } else { parts };
    let mut results = DeviceTensor::<f32, 5>::zeros(stream, [width, group, heads, tokens, parts])?;
    let mut sums = DeviceTensor::<f32, 5>::zeros(stream, [group, parts, heads, tokens, 2])?;
    let mut arrived = DeviceTensor::<i32, 2>::zeros(stream, [heads, tokens])?;
    let constants = [("G", group), ("D", width), ("P", page), ("BN", step)];
    let mut arguments = [
        Argument::scalar(scale),
        pages.positions.into(),
        pages.sequences.into(),
        pages.table.into(),
        q.into(),
        pages.keys.into(),
        pages.values.into(),
        results.view_mut().into(),
        sums.view_mut().into(),
        arrived.view_mut().into(),
        out.into(),
    ];
    launch(stream, &paged::paged_attention(), &constants, &half::<T>(), &mut arguments)
}

/// y = x·wᵀ, where each expert has its own rows of x: `offsets` has the first row of each expert, and the number of rows at the end. Weights
/// are (experts, columns of y, columns of x). It needs compute capability 9.0.
pub fn experts<T: Half>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    w: TensorRef<'_, T, 3>,
    offsets: TensorRef<'_, i32, 1>,
    y: TensorMut<'_, T, 2>,
) -> Result {
    experts_of(stream, x, w, offsets, y)
}

/// [`experts`], where the type of elements is known to have 16 bits only when the program runs.
pub(crate) fn experts_of<T: Element>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    w: TensorRef<'_, T, 3>,
    offsets: TensorRef<'_, i32, 1>,
    y: TensorMut<'_, T, 2>,
) -> Result {
    let ([rows, _], [count, ..]) = (x.shape(), w.shape());
    // The fastest on one H200, for the mean number of rows of an expert.
    let tile = match rows / count.max(1) {
        0..=12 => 16,
        13..=128 => 64,
        129..=512 => 160,
        _ => 96,
    };
    let mut tiles = DeviceTensor::<i32, 2>::zeros(stream, [(rows / tile + count).min(rows.max(1)), 3])?;
    let row_major = [tiles.shape()[0], 3];
    let mut arguments = [offsets.into(), tiles.view_mut().reshaped(row_major, [3, 1]).into()];
    launch(stream, &moe::expert_tiles(), &[("BM", tile)], &[], &mut arguments)?;
    let mut arguments = [tiles.view().reshaped(row_major, [3, 1]).into(), x.into(), w.into(), y.into()];
    launch(stream, &moe::experts(), &[("BM", tile)], &[("T", T::ELEM)], &mut arguments)
}
