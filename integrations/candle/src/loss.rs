//! The operator of `candle_nn::loss`.

use candle_core::{D, DType, Result, Shape, Tensor};

use crate::kernels;
use crate::launch::{Launch, specialized};
use crate::operator::{Call, Inputs, Operator, apply};
use crate::ops::softmax_last_dim;
use crate::view::View;

/// The average cross entropy of logits (N, C) and targets (N), as `candle_nn::loss::cross_entropy`. Sums are in f32.
pub fn cross_entropy(inp: &Tensor, target: &Tensor) -> Result<Tensor> {
    let is_other = target.dtype().is_int() && target.dtype() != DType::U32;
    let target = if is_other { target.to_dtype(DType::U32)? } else { target.clone() };
    apply(CrossEntropy, &[inp, &target])?.mean_all()?.to_dtype(inp.dtype())
}

/// The cross entropy of each row.
struct CrossEntropy;

impl Operator for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["inp", "target"]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(1)?;
        inputs.check_rank(0, 2, "(N, C)")?;
        if inputs.dtype(1) != DType::U32 {
            return inputs.refuse(1, "the type must be an integer");
        }
        inputs.check_dims(1, &inputs.dims(0)[..1], "the rows of `inp`")?;
        Ok((DType::F32, inputs.dims(0)[0].into()))
    }

    fn accepts(&self, index: usize, view: &View) -> bool {
        index == 1 || view.has_contiguous_rows()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (elem, columns) = (call.input(0).elem(), call.input(0).dims()[1]);
        let width = columns.next_power_of_two().clamp(256, 4096);
        let kernel = specialized(&kernels::cross_entropy(), &[("W", width)], &[("T", elem)])?;
        let arguments = vec![call.input(0).into(), call.input(1).into(), call.result().into()];
        Ok(vec![Launch::shared(kernel, arguments)])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let x = inputs[0].to_dtype(DType::F32)?;
        x.log_sum_exp(1)? - x.gather(&inputs[1].unsqueeze(1)?, 1)?.squeeze(1)?
    }

    /// softmax - one-hot.
    fn backward(&self, inputs: &[&Tensor], _: &Tensor, gradient: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let targets = inputs[1].contiguous()?.unsqueeze(1)?;
        let weights = softmax_last_dim(&inputs[0].detach())?;
        let ones = targets.ones_like()?.to_dtype(weights.dtype())?;
        let gradient = gradient.unsqueeze(D::Minus1)?.to_dtype(weights.dtype())?;
        let logits = weights.scatter_add(&targets, &ones.neg()?, 1)?.broadcast_mul(&gradient)?;
        Ok(vec![Some(logits), None])
    }
}
