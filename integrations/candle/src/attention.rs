//! The operators of `candle-flash-attn`, with gradients.

use candle_core::{D, DType, Device, Result, Shape, Tensor};
use tilewright::kernels::models::attention_backward::{
    attention_delta, attention_grad_keys, attention_grad_queries,
};
use tilewright::kernels::models::{attention_forward::attention_forward, attention_ragged::attention_ragged};
use tilewright::kernels::{attention::attention, attention_hopper::attention_hopper};
use tilewright::{Elem, KernelDef};

use crate::host::runs_kernels;
use crate::launch::{Argument, Launch, specialized};
use crate::operator::{Call, Gradients, Inputs, Operator, apply, arch, differentiate, run};
use crate::view::View;

/// softmax(scale · Q·Kᵀ)·V of (batch, positions, heads, width), as `candle_flash_attn::flash_attn`. Keys may have fewer heads. A causal
/// mask is counted from the last key.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    flash_attn_windowed(q, k, v, softmax_scale, None, causal.then_some(0))
}

/// Attention to a window of keys, as `candle_flash_attn::flash_attn_windowed`.
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    Attention::new(softmax_scale, window_size_left, window_size_right).attend([q, k, v])
}

/// [`flash_attn`] with a slope for each head of queries, (heads): a score is less by its slope times the distance of query and key.
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_alibi_windowed(q, k, v, alibi_slopes, softmax_scale, None, causal.then_some(0))
}

/// [`flash_attn_windowed`] with a slope for each head, as [`flash_attn_alibi`].
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let (slopes, left, right) = (Some(alibi_slopes), window_size_left, window_size_right);
    flash_attn_alibi_windowed_softcap(q, k, v, slopes, softmax_scale, left, right, 0.0)
}

/// [`flash_attn_windowed`] of scores softcap · tanh(s / softcap), as `candle_flash_attn::flash_attn_alibi_windowed_softcap`; 0 is no cap.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let attention = Attention::new(softmax_scale, window_size_left, window_size_right);
    attention.with(alibi_slopes, softcap).attend([q, k, v])
}

/// Attention within sequences that follow one another, (positions, heads, width), as `candle_flash_attn::flash_attn_varlen`. Sequence i has
/// the positions from `seqlens[i]` to `seqlens[i + 1]`. Gradients, and types and widths without a kernel, copy these to the host.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    _max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let attention = Attention::new(softmax_scale, None, causal.then_some(0));
    attention.attend_within([q, k, v], [seqlens_q, seqlens_k], max_seqlen_q)
}

/// [`flash_attn_varlen`] to a window of keys, as `candle_flash_attn::flash_attn_varlen_windowed`.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    _max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let attention = Attention::new(softmax_scale, window_size_left, window_size_right);
    attention.attend_within([q, k, v], [seqlens_q, seqlens_k], max_seqlen_q)
}

/// [`flash_attn_varlen_windowed`] with slopes and a cap, as `candle_flash_attn::flash_attn_varlen_alibi_windowed_softcap`.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    _max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let attention = Attention::new(softmax_scale, window_size_left, window_size_right);
    let attention = attention.with(alibi_slopes, softcap);
    attention.attend_within([q, k, v], [seqlens_q, seqlens_k], max_seqlen_q)
}

/// Queries in a tile of `attention_ragged`.
const ROWS: usize = 128;

/// The sequence and the number of each tile of queries, the last tiles first. They are computed on the device.
fn tiles(starts: &Tensor, longest: usize) -> Result<Tensor> {
    let (sequences, device) = (starts.elem_count() - 2, starts.device());
    let rows: Vec<u32> = (0..longest.div_ceil(ROWS).max(1) as u32).rev().collect();
    let pairs: Vec<u32> =
        rows.iter().flat_map(|row| (0..sequences as u32).flat_map(|of| [of, *row])).collect();
    let pairs = Tensor::from_vec(pairs, (rows.len(), sequences, 2), device)?;
    let none = Tensor::new(&[sequences as u32, 0], device)?.broadcast_as(pairs.dims())?;
    let lengths = (starts.narrow(0, 1, sequences)? - starts.narrow(0, 0, sequences)?)?;
    let firsts =
        Tensor::from_vec(rows.iter().map(|row| row * ROWS as u32).collect(), (rows.len(), 1), device)?;
    let exists = firsts.broadcast_lt(&lengths.unsqueeze(0)?)?.unsqueeze(2)?.broadcast_as(pairs.dims())?;
    exists.where_cond(&pairs, &none)?.flatten_to(1)
}

/// Attention: its scale, window, cap and slopes.
#[derive(Clone)]
pub(crate) struct Attention {
    scale: f32,
    pub(crate) left: Option<usize>,
    pub(crate) right: Option<usize>,
    pub(crate) cap: Option<f32>,
    slopes: Option<Tensor>,
    /// Does it keep sums for its gradients?
    keeps: bool,
}

impl Attention {
    pub(crate) fn new(scale: f32, left: Option<usize>, right: Option<usize>) -> Attention {
        Attention { scale, left, right, cap: None, slopes: None, keeps: false }
    }

    pub(crate) fn with(self, slopes: Option<&Tensor>, cap: f32) -> Attention {
        Attention { slopes: slopes.cloned(), cap: (cap > 0.0).then_some(cap), ..self }
    }

    fn attend(mut self, inputs: [&Tensor; 3]) -> Result<Tensor> {
        self.keeps = inputs.iter().any(|input| input.track_op());
        let q = inputs[0];
        let width = q.dims().last().copied().unwrap_or(0);
        if runs_kernels(q) && q.rank() == 4 && !self.has_kernel(arch(q.device())?, q.dtype(), width) {
            return self.formula(&inputs.map(Clone::clone));
        }
        apply(self, &inputs)
    }

    /// Within sequences, which begin and end at `seqlens` of queries and of keys.
    pub(crate) fn attend_within(
        self,
        inputs: [&Tensor; 3],
        seqlens: [&Tensor; 2],
        longest: usize,
    ) -> Result<Tensor> {
        let (q, [queries, keys]) = (inputs[0], seqlens);
        if queries.dims() != keys.dims() || queries.rank() != 1 || queries.elem_count() < 2 {
            candle_core::bail!(
                "flash_attn_varlen: argument `seqlens_k` is {:?}, and `seqlens_q` {:?}: they must have one length, 2 or more",
                keys.dims(),
                queries.dims()
            )
        }
        // An empty sequence at the end, for tiles after the last query of a sequence.
        let starts = |all: &Tensor| {
            let all = all.to_dtype(DType::U32)?;
            Tensor::cat(&[&all, &all.narrow(0, all.elem_count() - 1, 1)?], 0)
        };
        let [starts_q, starts_k] = [starts(queries)?, starts(keys)?];
        let width = q.dims().last().copied().unwrap_or(0);
        let is_shipped = self.is_shipped(arch(q.device())?, q.dtype(), width);
        let operator =
            Sequences { attention: self, tables: [tiles(&starts_q, longest)?, starts_q, starts_k] };
        if runs_kernels(q) && !is_shipped {
            return operator.formula(&inputs.map(Clone::clone));
        }
        apply(operator, &inputs)
    }

    /// Is there a kernel for all batches and heads at once, with gradients?
    fn is_shipped(&self, arch: u32, dtype: DType, width: usize) -> bool {
        let is_half = matches!(dtype, DType::F16 | DType::BF16);
        let window = matches!((self.left, self.right), (None, None) | (_, Some(0)));
        let fits = window && self.slopes.is_none() && self.scale > 0.0;
        arch == 90 && is_half && fits && [64, 128, 256].contains(&width)
    }

    fn has_kernel(&self, arch: u32, dtype: DType, width: usize) -> bool {
        let plain = matches!((self.left, self.right), (None, None | Some(0)));
        let plain = plain && self.cap.is_none() && self.slopes.is_none();
        let is_other = dtype == DType::BF16 && plain && [32, 64, 96, 128].contains(&width);
        is_other || self.is_shipped(arch, dtype, width)
    }

    fn constants(&self, width: usize) -> [(&'static str, usize); 4] {
        let options = [self.right.is_some(), self.left.is_some(), self.cap.is_some()];
        let [causal, window, cap] = options.map(usize::from);
        [("D", width), ("CAUSAL", causal), ("WINDOW", window), ("SOFTCAP", cap)]
    }

    /// The first arguments of the shipped kernels: the scale, the window, and the cap.
    fn numbers(&self) -> Vec<Argument> {
        let left = i32::try_from(self.left.unwrap_or(0)).unwrap_or(i32::MAX);
        vec![self.scale.into(), left.into(), self.cap.unwrap_or(1.0).into()]
    }

    /// Does a query see a key?
    fn sees(&self, [query, key]: [usize; 2], [queries, keys]: [usize; 2]) -> bool {
        let (own, key) = ((query + keys) as i64 - queries as i64, key as i64);
        let left = self.left.is_none_or(|left| key >= own - left as i64);
        left && self.right.is_none_or(|right| key <= own + right as i64)
    }

    /// A number for each query and each key.
    fn table(
        [queries, keys]: [usize; 2],
        device: &Device,
        number: impl Fn(usize, usize) -> f32,
    ) -> Result<Tensor> {
        let all = (0..queries * keys).map(|at| number(at / keys, at % keys)).collect::<Vec<_>>();
        Tensor::from_vec(all, (queries, keys), device)
    }
}

impl Operator for Attention {
    fn name(&self) -> &'static str {
        "flash_attn"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["q", "k", "v"]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(3)?;
        let modes = "(batch, positions, heads, width)";
        [0, 1, 2].into_iter().try_for_each(|index| inputs.check_rank(index, 4, modes))?;
        let (q, k) = (inputs.dims(0), inputs.dims(1));
        if k[0] != q[0] || k[3] != q[3] || k[2] == 0 || q[2] % k[2] != 0 {
            let wrong = format!("`q` is {q:?}: batch and width must be equal, and its heads a multiple");
            return inputs.refuse(1, wrong);
        }
        inputs.check_dims(2, k, "the shape of `k`")?;
        Ok((inputs.dtype(0), q.into()))
    }

    fn accepts(&self, _: usize, view: &View) -> bool {
        view.is_aligned()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (q, k) = (call.input(0), call.input(1));
        let (dtype, width) = (call.dtype(), q.dims()[3]);
        if self.is_shipped(call.arch(), dtype, width) {
            let has_lse = [("HAS_SINKS", 0), ("HAS_LSE", self.keeps.into())];
            let constants = [&self.constants(width)[..], &has_lse].concat();
            let types = [("T", q.elem())];
            let mut arguments = self.numbers();
            arguments.extend([q.clone(), k, call.input(2), call.result()].map(heads_last));
            if self.keeps {
                arguments.push(row_numbers(call, q.dims())?.into());
            }
            return Ok(vec![Launch::specialized(&attention_forward(), &constants, &types, arguments)?]);
        }
        let (&[batch, _, heads, width], key_heads) = (q.dims(), k.dims()[2]) else { return Ok(Vec::new()) };
        if q.elem() != Elem::Bf16 {
            candle_core::bail!("flash_attn: the kernel takes BF16, and `q` is {}", q.elem())
        }
        let causal = usize::from(self.right.is_some());
        let constants = [("D", width), ("CAUSAL", causal), ("OVERLAP", usize::from(width > 64))];
        let kernel = match call.arch() {
            90.. => specialized(&attention_hopper(), &constants, &[])?,
            _ => specialized(&attention(), &constants, &[])?,
        };
        // One of the query heads that share a head of keys, in each launch.
        let shared = heads / key_heads;
        let launch = |(at, member): (usize, usize)| {
            let of_query = |view: View| {
                let view = view.select(0, at).split(1, key_heads, shared)?.select(2, member);
                Result::Ok(view.permute(&[0, 2, 1]).into())
            };
            let of_key = |index| call.input(index).select(0, at).permute(&[0, 2, 1]).into();
            let (q, o) = (of_query(call.input(0))?, of_query(call.result())?);
            Ok(Launch::shared(kernel.clone(), vec![q, of_key(1), of_key(2), o, self.scale.into()]))
        };
        (0..batch).flat_map(|at| (0..shared).map(move |member| (at, member))).map(launch).collect()
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (dtype, shared) = (inputs[0].dtype(), inputs[0].dim(2)? / inputs[1].dim(2)?);
        let heads_first = |tensor: &Tensor| tensor.transpose(1, 2)?.contiguous()?.to_dtype(DType::F32);
        let [q, k, v] = [0, 1, 2].map(|index| heads_first(&inputs[index]));
        let (q, k, v) = (q?, k?, v?);
        let (batch, heads, keys, width) = k.dims4()?;
        let repeat = |tensor: Tensor| {
            let all = tensor.unsqueeze(2)?.broadcast_as((batch, heads, shared, keys, width))?;
            all.contiguous()?.reshape((batch, heads * shared, keys, width))
        };
        let (k, v) = (repeat(k)?, repeat(v)?);
        let extents = [q.dim(2)?, keys];
        let sees = |query, key| f32::from(u8::from(self.sees([query, key], extents)));
        let mask = Attention::table(extents, q.device(), sees)?;
        let mut scores = (q.matmul(&k.t()?.contiguous()?)? * f64::from(self.scale))?;
        if let Some(cap) = self.cap.map(f64::from) {
            scores = ((scores / cap)?.tanh()? * cap)?;
        }
        if let Some(slopes) = &self.slopes {
            if slopes.elem_count() != heads * shared {
                let (slopes, heads) = (slopes.dims(), heads * shared);
                candle_core::bail!(
                    "flash_attn: argument `alibi_slopes` is {slopes:?}: a slope for each of {heads} heads is needed"
                )
            }
            let distance = |query, key| -((query + keys) as f32 - (extents[0] + key) as f32).abs();
            let distance = Attention::table(extents, q.device(), distance)?;
            let slopes = slopes.to_dtype(DType::F32)?.reshape((1, heads * shared, 1, 1))?;
            scores = scores.broadcast_add(&slopes.broadcast_mul(&distance)?)?;
        }
        let scores = scores.broadcast_add(&((&mask - 1.0)? * 1e30)?)?;
        let grown =
            scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?.broadcast_mul(&mask)?;
        // A query that sees no key gets 0.
        let weights = grown.broadcast_div(&grown.sum_keepdim(D::Minus1)?.maximum(1e-30)?)?;
        weights.matmul(&v)?.transpose(1, 2)?.contiguous()?.to_dtype(dtype)
    }

    fn backward(&self, inputs: &[&Tensor], results: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        let [o, lse] = results else { return differentiate(self, inputs, gradient) };
        let (gradient, dtype) = (gradient.contiguous()?, gradient.dtype());
        let given = [inputs[0], inputs[1], inputs[2], &gradient, lse, o];
        let gradients = run("flash_attn", &given, |call| {
            let [q, k, v, grad_o, o] = [0, 1, 2, 3, 5].map(|index| heads_last(call.input(index)));
            let (width, types) = (inputs[0].dim(3)?, [("T", call.input(0).elem())]);
            let results = inputs.iter().map(|input| Ok(heads_last(call.output(dtype, input.dims())?)));
            let results = results.collect::<Result<Vec<_>>>()?;
            let delta = row_numbers(call, inputs[0].dims())?;
            let lse = call.input(4).permute(&[2, 1, 0]);
            let arguments = vec![o, grad_o.clone(), delta.clone().into()];
            let sums = Launch::specialized(&attention_delta(), &[("D", width)], &types, arguments)?;
            let mut launches = vec![sums];
            let mut launch = |kernel: &KernelDef, constants: &[(&str, usize)], results: &[Argument]| {
                let constants = [&self.constants(width)[..], constants].concat();
                let tensors = [q.clone(), k.clone(), v.clone(), grad_o.clone(), lse.clone().into()];
                let given = [&self.numbers()[..], &tensors, &[delta.clone().into()], results].concat();
                launches.push(Launch::specialized(kernel, &constants, &types, given)?);
                Result::Ok(())
            };
            launch(attention_grad_queries().def(), &[], &results[..1])?;
            if width > 128 {
                // There are registers for one of both results.
                launch(attention_grad_keys().def(), &[("HAS_GRAD_V", 0)], &results[1..2])?;
                launch(attention_grad_keys().def(), &[("HAS_GRAD_K", 0)], &results[2..])?;
            } else {
                launch(attention_grad_keys().def(), &[], &results[1..])?;
            }
            Ok(launches)
        })?;
        Ok(gradients.into_iter().take(3).map(Some).collect())
    }
}

/// (batch, positions, heads, width) as (positions, width, heads, batch).
fn heads_last(view: View) -> Argument {
    view.permute(&[1, 3, 2, 0]).into()
}

/// Memory for a number of each row of (batch, positions, heads, width), as (positions, heads, batch).
fn row_numbers(call: &Call, dims: &[usize]) -> Result<View> {
    Ok(call.output(DType::F32, (dims[0], dims[2], dims[1]))?.permute(&[2, 1, 0]))
}

/// Attention within sequences.
struct Sequences {
    attention: Attention,
    /// Tiles of queries, the first query of each sequence, and the first key.
    tables: [Tensor; 3],
}

impl Operator for Sequences {
    fn name(&self) -> &'static str {
        "flash_attn_varlen"
    }

    fn inputs(&self) -> &'static [&'static str] {
        self.attention.inputs()
    }

    fn constants(&self) -> Vec<Tensor> {
        self.tables.to_vec()
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(3)?;
        [0, 1, 2]
            .into_iter()
            .try_for_each(|index| inputs.check_rank(index, 3, "(positions, heads, width)"))?;
        let (q, k) = (inputs.dims(0), inputs.dims(1));
        if k[2] != q[2] || k[1] == 0 || q[1] % k[1] != 0 {
            return inputs.refuse(1, format!("`q` is {q:?}: width must be equal, and its heads a multiple"));
        }
        inputs.check_dims(2, k, "the shape of `k`")?;
        Ok((inputs.dtype(0), q.into()))
    }

    fn accepts(&self, _: usize, view: &View) -> bool {
        view.is_aligned()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let q = call.input(0);
        let options = [("BM", ROWS), ("HAS_SINKS", 0), ("HAS_LSE", 0)];
        let constants = [&self.attention.constants(q.dims()[2])[..], &options].concat();
        let types = [("T", q.elem())];
        let mut arguments = self.attention.numbers();
        arguments.extend([3, 4, 5].map(|index| call.input(index).signed().into()));
        let tensors = [q, call.input(1), call.input(2), call.result()];
        arguments.extend(tensors.map(|view| view.permute(&[0, 2, 1]).into()));
        Ok(vec![Launch::specialized(&attention_ragged(), &constants, &types, arguments)?])
    }

    /// `flash_attn` of each sequence.
    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [queries, keys] = [1, 2].map(|index| self.tables[index].to_vec1::<u32>());
        let (queries, keys) = (queries?, keys?);
        let part = |tensor: &Tensor, ends: &[u32]| {
            let [start, end] = [ends[0] as usize, ends[1] as usize];
            tensor.narrow(0, start, end.saturating_sub(start))?.unsqueeze(0)
        };
        let attend = |(queries, keys): (&[u32], &[u32])| {
            let (q, k, v) = (part(&inputs[0], queries)?, part(&inputs[1], keys)?, part(&inputs[2], keys)?);
            self.attention.clone().attend([&q, &k, &v])?.squeeze(0)
        };
        let sequences =
            queries.windows(2).zip(keys.windows(2)).filter(|(queries, _)| queries[0] < queries[1]);
        Tensor::cat(&sequences.map(attend).collect::<Result<Vec<_>>>()?, 0)
    }
}
