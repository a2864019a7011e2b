//! The operator of `candle_nn::loss`.

use candle_core::{DType, Result, Shape, Tensor};
use tilewright::Elem;
use tilewright::kernels::models::cross_entropy as kernels;

use crate::launch::{Argument, Launch, specialized};
use crate::operator::{Call, Inputs, Operator, apply, differentiate, run};
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

    fn accepts(&self, index: usize, view: &View) -> bool {
        index == 1 || view.has_contiguous_rows()
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (x, targets) = (call.input(0), call.input(1).signed());
        let kernel = specialized(&kernels::cross_entropy(), &[], &types(&x, &targets))?;
        let lse = call.output(DType::F32, x.dims()[0])?;
        let numbers = vec![0.0.into(), NONE.into()];
        let tensors = [targets, x, call.result(), lse].map(Argument::from);
        Ok(vec![Launch::shared(kernel, [numbers, tensors.into()].concat())])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (x, targets) = (inputs[0].to_dtype(DType::F32)?.contiguous()?, inputs[1].contiguous()?);
        x.log_sum_exp(1)? - x.gather(&targets.unsqueeze(1)?, 1)?.squeeze(1)?
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        results: &[Tensor],
        gradient: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let [_, lse] = results else { return differentiate(self, inputs, gradient) };
        let (x, gradient) = (inputs[0].contiguous()?, gradient.contiguous()?);
        let mut gradients = run(self.name(), &[inputs[1], lse, &gradient, &x], |call| {
            let [targets, lse, gradient, x] = [0, 1, 2, 3].map(|index| call.input(index));
            let targets = targets.signed();
            let kernel = specialized(&kernels::cross_entropy_backward(), &[], &types(&x, &targets))?;
            let numbers = vec![0.0.into(), NONE.into()];
            let to = call.output(inputs[0].dtype(), inputs[0].dims())?;
            let tensors = [targets, lse, gradient, x, to].map(Argument::from);
            Ok(vec![Launch::shared(kernel, [numbers, tensors.into()].concat())])
        })?;
        Ok(vec![gradients.pop(), None])
    }
}

/// No target is ignored.
const NONE: i32 = -1;

fn types(x: &View, targets: &View) -> [(&'static str, Elem); 2] {
    [("T", x.elem()), ("I", targets.elem())]
}
