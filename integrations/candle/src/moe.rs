//! The operator of `candle_nn::moe`, with gradients.

use candle_core::{DType, Result, Shape, Tensor};
use tilewright::kernels::models::experts::{expert_tiles, experts};

use crate::host::runs_kernels;
use crate::launch::Launch;
use crate::linear::linear;
use crate::operator::{Call, Inputs, Operator, apply, arch};
use crate::view::View;

/// Products of tokens and the weights of their experts, (experts, outputs, inputs), as `candle_nn::moe::moe_gemm`, with gradients.
///
/// Pairs of a token and an expert are sorted by experts: `sorted_token_ids` has the number of each pair, token · `topk` + slot, and
/// `experts_ids` its expert. Without `topk_weights`, the inputs are tokens. With them, inputs are pairs, and their results are scaled. The results
/// are pairs in the order of their numbers.
pub fn moe_gemm(
    input: &Tensor,
    weights: &Tensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    _is_prefill: bool,
) -> Result<Tensor> {
    let ids = sorted_token_ids.flatten_all()?.to_dtype(DType::U32)?;
    let of_token = Tensor::new(topk.max(1) as u32, input.device())?;
    let rows = if topk_weights.is_some() { ids.clone() } else { ids.broadcast_div(&of_token)? };
    let y = products(&input.contiguous()?.index_select(&rows, 0)?, weights, &experts_ids.flatten_all()?)?;
    let y = match topk_weights {
        Some(scales) => {
            let scales = scales.contiguous()?.flatten_all()?.index_select(&ids, 0)?.to_dtype(y.dtype())?;
            y.broadcast_mul(&scales.unsqueeze(1)?)?
        }
        None => y,
    };
    y.zeros_like()?.index_add(&ids, &y, 0)
}

/// Products of rows that are sorted by experts.
fn products(x: &Tensor, weights: &Tensor, experts: &Tensor) -> Result<Tensor> {
    let count = weights.dims().first().copied().unwrap_or(0) as u32;
    let numbers = Tensor::arange(0u32, count + 1, x.device())?.unsqueeze(1)?;
    let is_before = experts.to_dtype(DType::U32)?.unsqueeze(0)?.broadcast_lt(&numbers)?;
    let operator = Experts { offsets: is_before.to_dtype(DType::U32)?.sum(1)? };
    if runs_kernels(x) && !Experts::has_kernel(arch(x.device())?, x) {
        return operator.formula(&[x.clone(), weights.clone()]);
    }
    apply(operator, &[x, weights])
}

struct Experts {
    /// The first row of each expert, and the number of rows.
    offsets: Tensor,
}

impl Experts {
    fn has_kernel(arch: u32, x: &Tensor) -> bool {
        let is_aligned = x.dims().last().is_some_and(|inputs| inputs.is_multiple_of(8));
        arch == 90 && is_aligned && matches!(x.dtype(), DType::F16 | DType::BF16)
    }
}

impl Operator for Experts {
    fn name(&self) -> &'static str {
        "moe_gemm"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["input", "weights"]
    }

    fn constants(&self) -> Vec<Tensor> {
        vec![self.offsets.clone()]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(2)?;
        inputs.check_rank(0, 2, "(tokens, inputs)")?;
        inputs.check_rank(1, 3, "(experts, outputs, inputs)")?;
        let (x, weights) = (inputs.dims(0), inputs.dims(1));
        if x[1] != weights[2] {
            return inputs.refuse(1, format!("`input` is {x:?}: the last dimensions must be equal"));
        }
        Ok((inputs.dtype(0), (x[0], weights[1]).into()))
    }

    fn accepts(&self, _: usize, view: &View) -> bool {
        view.is_aligned()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (x, weights, offsets) = (call.input(0), call.input(1), call.input(2).signed());
        let (rows, count) = (x.dims()[0], weights.dims()[0]);
        // A tile has about the rows of an expert.
        let tile = [16, 64, 96].into_iter().find(|tile| rows <= tile * count).unwrap_or(160);
        let tiles = call.output(DType::I32, (rows / tile + count, 3))?;
        let (constants, types) = ([("BM", tile)], [("T", x.elem())]);
        let listed = Launch::specialized(
            &expert_tiles(),
            &constants,
            &[],
            vec![offsets.into(), tiles.clone().into()],
        )?;
        let arguments = [tiles, x, weights, call.result()].map(Into::into).into();
        Ok(vec![listed, Launch::specialized(&experts(), &constants, &types, arguments)?])
    }

    /// A product for each expert.
    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let offsets = self.offsets.to_vec1::<u32>()?;
        let product = |(expert, ends): (usize, &[u32])| {
            let rows = inputs[0].narrow(0, ends[0] as usize, (ends[1] - ends[0]) as usize)?;
            linear(&rows, &inputs[1].get(expert)?, None, None)
        };
        let used = offsets.windows(2).enumerate().filter(|(_, ends)| ends[0] < ends[1]);
        Tensor::cat(&used.map(product).collect::<Result<Vec<_>>>()?, 0)
    }
}
