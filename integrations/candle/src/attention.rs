//! The operators of `candle-flash-attn`, with gradients.

use candle_core::{D, DType, Device, Result, Shape, Tensor};
use tilewright::Elem;
use tilewright::kernels::{attention::attention, attention_hopper::attention_hopper};

use crate::launch::{Launch, specialized};
use crate::operator::{Call, Inputs, Operator, apply};
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
    let operator = Attention { scale: softmax_scale, left: window_size_left, right: window_size_right };
    if !q.device().is_cpu() && q.rank() == 4 && !operator.has_kernel(q.dtype(), q.dim(3)?) {
        return operator.formula(&[q.clone(), k.clone(), v.clone()]);
    }
    apply(operator, &[q, k, v])
}

/// Attention within sequences that follow one another, (positions, heads, width), as `candle_flash_attn::flash_attn_varlen`. Sequence i has
/// the positions from `seqlens[i]` to `seqlens[i + 1]`, which are copied to the host: this waits for the device.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    _max_seqlen_q: usize,
    _max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let [queries, keys] = [seqlens_q, seqlens_k].map(|all| all.to_dtype(DType::U32)?.to_vec1::<u32>());
    let (queries, keys) = (queries?, keys?);
    if queries.len() != keys.len() {
        candle_core::bail!(
            "flash_attn_varlen: argument `seqlens_k` has {} elements, and `seqlens_q` {}",
            keys.len(),
            queries.len()
        )
    }
    let part = |tensor: &Tensor, ends: &[u32]| {
        let [start, end] = [ends[0] as usize, ends[1] as usize];
        tensor.narrow(0, start, end.saturating_sub(start))?.unsqueeze(0)
    };
    let attend = |(queries, keys): (&[u32], &[u32])| {
        let (q, k, v) = (part(q, queries)?, part(k, keys)?, part(v, keys)?);
        flash_attn(&q, &k, &v, softmax_scale, causal)?.squeeze(0)
    };
    let all = queries.windows(2).zip(keys.windows(2)).map(attend).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&all, 0)
}

struct Attention {
    scale: f32,
    left: Option<usize>,
    right: Option<usize>,
}

impl Attention {
    fn has_kernel(&self, dtype: DType, width: usize) -> bool {
        let window = matches!((self.left, self.right), (None, None | Some(0)));
        dtype == DType::BF16 && window && [32, 64, 96, 128].contains(&width)
    }

    /// Does a query see a key?
    fn sees(&self, [query, key]: [usize; 2], [queries, keys]: [usize; 2]) -> bool {
        let (own, key) = ((query + keys) as i64 - queries as i64, key as i64);
        let left = self.left.is_none_or(|left| key >= own - left as i64);
        left && self.right.is_none_or(|right| key <= own + right as i64)
    }

    /// 1 where a query sees a key.
    fn mask(&self, queries: usize, keys: usize, device: &Device) -> Result<Tensor> {
        let at =
            |query| (0..keys).map(move |key| f32::from(u8::from(self.sees([query, key], [queries, keys]))));
        Tensor::from_vec((0..queries).flat_map(at).collect::<Vec<f32>>(), (queries, keys), device)
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
        view.has_contiguous_rows()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (q, k) = (call.input(0), call.input(1));
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
        let of_batch = |view: View, at: usize, member: usize| {
            let view = view.select(0, at);
            let view = if view.dims()[1] == heads {
                view.split(1, key_heads, shared)?.select(2, member)
            } else {
                view
            };
            Ok::<_, candle_core::Error>(view.permute(&[0, 2, 1]))
        };
        let launch = |(at, member): (usize, usize)| {
            let view = |view: View| of_batch(view, at, member);
            let (q, o) = (view(call.input(0))?, view(call.result())?);
            let (k, v) = (
                call.input(1).select(0, at).permute(&[0, 2, 1]),
                call.input(2).select(0, at).permute(&[0, 2, 1]),
            );
            Ok(Launch::shared(
                kernel.clone(),
                vec![q.into(), k.into(), v.into(), o.into(), self.scale.into()],
            ))
        };
        (0..batch).flat_map(|at| (0..shared).map(move |member| (at, member))).map(launch).collect()
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (dtype, shared) = (inputs[0].dtype(), inputs[0].dim(2)? / inputs[1].dim(2)?);
        let heads_first = |tensor: &Tensor| tensor.transpose(1, 2)?.contiguous()?.to_dtype(DType::F32);
        let [q, k, v] = [0, 1, 2].map(|index| heads_first(&inputs[index]));
        let (q, (batch, heads, keys, width)) =
            (q?, k.as_ref().map_err(|e| candle_core::Error::Msg(e.to_string()))?.dims4()?);
        let repeat = |tensor: Tensor| {
            let all = tensor.unsqueeze(2)?.broadcast_as((batch, heads, shared, keys, width))?;
            all.contiguous()?.reshape((batch, heads * shared, keys, width))
        };
        let (k, v) = (repeat(k?)?, repeat(v?)?);
        let mask = self.mask(q.dim(2)?, keys, q.device())?;
        let scores = (q.matmul(&k.t()?.contiguous()?)? * f64::from(self.scale))?;
        let scores = scores.broadcast_add(&((&mask - 1.0)? * 1e30)?)?;
        let grown =
            scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?.broadcast_mul(&mask)?;
        // A query that sees no key gets 0.
        let weights = grown.broadcast_div(&grown.sum_keepdim(D::Minus1)?.maximum(1e-30)?)?;
        weights.matmul(&v)?.transpose(1, 2)?.contiguous()?.to_dtype(dtype)
    }
}
