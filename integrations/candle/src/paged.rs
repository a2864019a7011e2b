//! Attention to keys and values in pages, as `candle-flash-attn`'s.

use candle_core::{DType, Result, Shape, Tensor, bail};
use tilewright::kernels::models::paged::paged_attention;

use crate::attention::Attention;
use crate::host::runs_kernels;
use crate::kernels::zeros;
use crate::launch::{Argument, Launch};
use crate::operator::{Call, Inputs, Operator, apply};
use crate::view::View;

/// Attention within sequences whose keys and values are in pages, (pages, positions, heads, width), as
/// `candle_flash_attn::flash_attn_varlen_paged_windowed`. Row i of `block_table` lists the pages of sequence i. It has at least as many keys as
/// queries. Ranges that bypass the mask must be `None`. Without its kernel, this copies lengths to the host, and pages to a tensor.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_paged_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    block_table: &Tensor,
    mm_prefix_ranges: Option<&Tensor>,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    page_block_size: usize,
    softcap: Option<f32>,
) -> Result<Tensor> {
    const NAME: &str = "flash_attn_varlen_paged_windowed";
    let sequences = seqlens_q.elem_count().saturating_sub(1);
    if mm_prefix_ranges.is_some() {
        bail!("{NAME}: argument `mm_prefix_ranges`: no kernel has ranges that bypass the mask: pass `None`")
    }
    if k.rank() != 4 || k.dims()[1] != page_block_size || v.dims() != k.dims() {
        let (k, v) = (k.dims(), v.dims());
        bail!(
            "{NAME}: arguments `k` and `v` are {k:?} and {v:?}: (pages, {page_block_size}, heads, width) is needed"
        )
    }
    if block_table.rank() != 2 || block_table.dims()[0] != sequences {
        bail!("{NAME}: argument `block_table` is {:?}: ({sequences}, pages) is needed", block_table.dims())
    }
    let attention = Attention::new(softmax_scale, window_size_left, window_size_right);
    let attention = attention.with(None, softcap.unwrap_or(0.0));
    let keeps = [q, k, v].iter().any(|input| input.track_op());
    if runs_kernels(q) && !keeps && q.rank() == 3 && Paged::has_kernel(&attention, q, k) {
        let tables = tables(q.dim(0)?, seqlens_q, seqlens_k, block_table)?;
        return apply(Paged { scale: softmax_scale, longest: max_seqlen_k, tables }, &[q, k, v]);
    }
    // The keys of all sequences, one after the other.
    let starts = seqlens_k.to_dtype(DType::U32)?.to_vec1::<u32>()?;
    let table = block_table.to_dtype(DType::U32)?;
    let gather = |pages: &Tensor| {
        let sequence = |index: usize| {
            let keys = (starts[index + 1] - starts[index]) as usize;
            let own = table.get(index)?.narrow(0, 0, keys.div_ceil(page_block_size))?.contiguous()?;
            pages.contiguous()?.index_select(&own, 0)?.flatten(0, 1)?.narrow(0, 0, keys)
        };
        Tensor::cat(&(0..sequences).map(sequence).collect::<Result<Vec<_>>>()?, 0)
    };
    attention.attend_within([q, &gather(k)?, &gather(v)?], [seqlens_q, seqlens_k], max_seqlen_q)
}

/// The position and the sequence of each query, and the pages of sequences. They are computed on the device.
fn tables(queries: usize, seqlens_q: &Tensor, seqlens_k: &Tensor, pages: &Tensor) -> Result<[Tensor; 3]> {
    let [starts_q, starts_k, pages] = [seqlens_q, seqlens_k, pages].map(|table| table.to_dtype(DType::U32));
    let (starts_q, starts_k, count) = (starts_q?, starts_k?, seqlens_q.elem_count() - 1);
    let ends = starts_q.narrow(0, 1, count)?.contiguous()?;
    let lengths = (starts_k.narrow(0, 1, count)? - starts_k.narrow(0, 0, count)?)?;
    let rows = Tensor::arange(0u32, queries as u32, seqlens_q.device())?;
    let is_later = rows.unsqueeze(1)?.broadcast_ge(&ends.unsqueeze(0)?)?;
    let sequences = is_later.to_dtype(DType::U32)?.sum(1)?;
    let last = (rows + lengths.index_select(&sequences, 0)?)?;
    Ok([(last - ends.index_select(&sequences, 0)?)?, sequences, pages?.contiguous()?])
}

/// Causal attention to pages.
struct Paged {
    scale: f32,
    /// An upper limit of the keys of a sequence.
    longest: usize,
    /// The position and the sequence of each query, and the pages of sequences.
    tables: [Tensor; 3],
}

/// Blocks that fill a GPU, and the most parts of the keys of a sequence.
const BLOCKS: usize = 264;
const MOST_PARTS: usize = 64;

impl Paged {
    fn has_kernel(attention: &Attention, q: &Tensor, k: &Tensor) -> bool {
        let is_causal = matches!((attention.left, attention.right, attention.cap), (None, Some(0), None));
        let (heads, width, page, key_heads) = (q.dims()[1], q.dims()[2], k.dims()[1], k.dims()[2]);
        let shared = key_heads > 0 && heads % key_heads == 0 && heads / key_heads <= 16;
        let is_half = matches!(q.dtype(), DType::F16 | DType::BF16);
        is_causal && is_half && shared && page.is_multiple_of(16) && [64, 128].contains(&width)
    }
}

impl Operator for Paged {
    fn name(&self) -> &'static str {
        "flash_attn_varlen_paged_windowed"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["q", "k", "v"]
    }

    fn constants(&self) -> Vec<Tensor> {
        self.tables.to_vec()
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(3)?;
        let (q, k) = (inputs.dims(0), inputs.dims(1));
        if k[3] != q[2] {
            return inputs.refuse(1, format!("`q` is {q:?}: width must be equal"));
        }
        Ok((inputs.dtype(0), q.into()))
    }

    fn accepts(&self, _: usize, view: &View) -> bool {
        view.has_contiguous_rows()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (q, keys) = (call.input(0), call.input(1));
        let (&[queries, heads, width], &[_, page, key_heads, _]) = (q.dims(), keys.dims()) else {
            bail!("{}: tensors of other ranks", self.name())
        };
        let (shared, tile) = (heads / key_heads, if page % 32 == 0 { 32 } else { 16 });
        let parts = (BLOCKS / (queries * key_heads).max(1)).clamp(1, MOST_PARTS);
        let parts = parts.min(self.longest.div_ceil(tile)).max(1);
        let results = call.output(DType::F32, &[parts, queries, key_heads, shared, width][..])?;
        let sums = call.output(DType::F32, &[2, queries, key_heads, parts, shared][..])?;
        let arrived = call.output(DType::I32, (queries, key_heads))?;
        let cleared = Launch::new(&zeros(), [arrived.clone().merge(0, 2)?.into()]);
        let mut arguments: Vec<Argument> = vec![self.scale.into()];
        arguments.extend([3, 4, 5].map(|index| call.input(index).signed().into()));
        arguments.extend([q.split(1, key_heads, shared)?, keys, call.input(2)].map(Argument::from));
        let reversed = |view: View| {
            let order: Vec<usize> = (0..view.dims().len()).rev().collect();
            Argument::from(view.permute(&order))
        };
        arguments.extend([results, sums, arrived].map(reversed));
        arguments.push(call.result().split(1, key_heads, shared)?.into());
        let constants = [("G", shared), ("D", width), ("P", page), ("BN", tile)];
        let types = [("T", call.input(0).elem())];
        Ok(vec![cleared, Launch::specialized(&paged_attention(), &constants, &types, arguments)?])
    }
}
