//! The operator of `candle_nn::loss`.

use candle_core::{DType, Result, Shape, Tensor};
use tilewright::kernels::models::cross_entropy as kernels;
use tilewright::{Elem, Kernel};

use crate::launch::{Argument, Launch};
use crate::operator::{Call, Gradients, Inputs, Operator, apply, differentiate, run};
use crate::view::View;

/// The average cross entropy of logits (N, C) and targets (N), as `candle_nn::loss::cross_entropy`. Sums are in f32.
pub fn cross_entropy(inp: &Tensor, target: &Tensor) -> Result<Tensor> {
    let is_other = target.dtype().is_int() && !matches!(target.dtype(), DType::U32 | DType::I64);
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
        if !matches!(inputs.dtype(1), DType::U32 | DType::I64) {
            return inputs.refuse(1, "the type must be an integer");
        }
        inputs.check_dims(1, &inputs.dims(0)[..1], "the rows of `inp`")?;
        Ok((DType::F32, inputs.dims(0)[0].into()))
    }

    fn accepts(&self, _: usize, view: &View) -> bool {
        view.has_contiguous_rows()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (x, targets) = (call.input(0), call.input(1).signed());
        let lse = call.output(DType::F32, x.dims()[0])?;
        Ok(vec![launch(&kernels::cross_entropy(), x.elem(), [targets, x, call.result(), lse])?])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (x, targets) = (inputs[0].to_dtype(DType::F32)?.contiguous()?, inputs[1].contiguous()?);
        x.log_sum_exp(1)? - x.gather(&targets.unsqueeze(1)?, 1)?.squeeze(1)?
    }

    fn backward(&self, inputs: &[&Tensor], results: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        let [_, lse] = results else { return differentiate(self, inputs, gradient) };
        let (x, gradient) = (inputs[0].contiguous()?, gradient.contiguous()?);
        let mut gradients = run(self.name(), &[inputs[1], lse, &gradient, &x], |call| {
            let [targets, lse, gradient, x] = [0, 1, 2, 3].map(|index| call.input(index));
            let to = call.output(inputs[0].dtype(), inputs[0].dims())?;
            let (elem, tensors) = (x.elem(), [targets.signed(), lse, gradient, x, to]);
            Ok(vec![launch(&kernels::cross_entropy_backward(), elem, tensors)?])
        })?;
        Ok(vec![gradients.pop(), None])
    }
}

/// A launch without label smoothing and without an ignored target. The first tensor has the targets.
fn launch<const N: usize>(kernel: &impl Kernel, elem: Elem, tensors: [View; N]) -> Result<Launch> {
    let types = [("T", elem), ("I", tensors[0].elem())];
    let numbers = [Argument::from(0.0), Argument::from(-1)];
    Launch::specialized(kernel, &[], &types, numbers.into_iter().chain(tensors.map(Argument::from)).collect())
}
