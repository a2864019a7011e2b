//! The operators of `candle_nn::ops`: norms, softmax, gates.

use candle_core::{D, DType, Result, Shape, Tensor};
use tilewright::kernels::memory::{Choice, Work, choose};

use crate::kernels;
use crate::launch::{Launch, kept, specialized};
use crate::operator::{Call, Inputs, Operator, apply};
use crate::view::View;

/// x / √(mean x² + eps) · alpha along the last dimension, as `candle_nn::ops::rms_norm`, with gradients.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[3f32, 4.0]], &Device::Cpu)?;
/// let y = tilewright_candle::ops::rms_norm(&x, &Tensor::new(&[1f32, 5.0], &Device::Cpu)?, 0.0)?;
/// assert!((y.to_vec2::<f32>()?[0][1] - 5.65685).abs() < 1e-4);
/// # candle_core::Result::Ok(())
/// ```
pub fn rms_norm(xs: &Tensor, alpha: &Tensor, eps: f32) -> Result<Tensor> {
    apply(Rows { work: Work::Rmsnorm, eps }, &[xs, alpha])
}

/// (x - mean x) / √(variance x + eps) · alpha + beta along the last dimension, as `candle_nn::ops::layer_norm`, with gradients.
pub fn layer_norm(xs: &Tensor, alpha: &Tensor, beta: &Tensor, eps: f32) -> Result<Tensor> {
    apply(Rows { work: Work::Layernorm, eps }, &[xs, alpha, beta])
}

/// The softmax along the last dimension, as `candle_nn::ops::softmax_last_dim`, with gradients.
pub fn softmax_last_dim(xs: &Tensor) -> Result<Tensor> {
    apply(Rows { work: Work::Softmax, eps: 0.0 }, &[xs])
}

/// silu(gate) · up, where the last dimension has both halves, as `candle_nn::ops::swiglu`.
pub fn swiglu(xs: &Tensor) -> Result<Tensor> {
    let width = xs.dim(D::Minus1)? / 2;
    silu_gate(&xs.narrow(D::Minus1, 0, width)?, &xs.narrow(D::Minus1, width, width)?)
}

/// silu(gate) · up.
pub fn silu_gate(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    apply(Gate, &[gate, up])
}

/// A function of rows.
struct Rows {
    work: Work,
    eps: f32,
}

impl Rows {
    fn choice(&self, view: &View) -> Choice {
        let columns = view.dims().last().copied().unwrap_or(1);
        choose(self.work, view.elem(), view.count() / columns.max(1), columns)
    }
}

impl Operator for Rows {
    fn name(&self) -> &'static str {
        match self.work {
            Work::Softmax => "softmax_last_dim",
            Work::Layernorm => "layer_norm",
            _ => "rms_norm",
        }
    }

    fn inputs(&self) -> &'static [&'static str] {
        match self.work {
            Work::Softmax => &["xs"],
            Work::Layernorm => &["xs", "alpha", "beta"],
            _ => &["xs", "alpha"],
        }
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(self.inputs().len())?;
        let Some(columns) = inputs.dims(0).last() else { return inputs.refuse(0, "it has no dimension") };
        for index in 1..self.inputs().len() {
            inputs.check_dims(index, &[*columns], "the last dimension of `xs`")?;
        }
        Ok((inputs.dtype(0), inputs.dims(0).into()))
    }

    fn accepts(&self, index: usize, view: &View) -> bool {
        if !view.has_contiguous_rows() {
            return false;
        }
        let Ok(rows) = view.clone().rows() else { return false };
        // Some kernels for long rows take inputs and results with one distance between rows.
        let kernel = self.choice(view).kernel;
        let any_distance = !kernel.ends_with("_long") && !kernel.ends_with("_unaligned");
        index > 0 || any_distance || rows.strides()[0] == rows.dims()[1]
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let choice = self.choice(&call.input(0));
        let kernel = kept(choice.to_string(), || choice.def())?;
        let mut arguments = vec![call.input(0).rows()?.into()];
        arguments.extend((1..self.inputs().len()).map(|index| call.input(index).unsqueeze(0).into()));
        arguments.push(call.result().rows()?.into());
        if self.work != Work::Softmax {
            arguments.push(self.eps.into());
        }
        Ok(vec![Launch::shared(kernel, arguments)])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let dtype = inputs[0].dtype();
        let inputs = inputs.iter().map(|input| input.to_dtype(DType::F32)).collect::<Result<Vec<_>>>()?;
        let x = &inputs[0];
        let y = match self.work {
            Work::Softmax => {
                let grown = x.broadcast_sub(&x.max_keepdim(D::Minus1)?.detach())?.exp()?;
                grown.broadcast_div(&grown.sum_keepdim(D::Minus1)?)?
            }
            Work::Layernorm => {
                let x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
                let variance = x.sqr()?.mean_keepdim(D::Minus1)?;
                let y = x.broadcast_div(&(variance + f64::from(self.eps))?.sqrt()?)?;
                y.broadcast_mul(&inputs[1])?.broadcast_add(&inputs[2])?
            }
            _ => {
                let squares = x.sqr()?.mean_keepdim(D::Minus1)?;
                x.broadcast_div(&(squares + f64::from(self.eps))?.sqrt()?)?.broadcast_mul(&inputs[1])?
            }
        };
        y.to_dtype(dtype)
    }
}

/// silu(gate) · up.
struct Gate;

/// The gradients of gate and up, one after the other.
struct GateGradients;

fn check_gate(inputs: &Inputs, count: usize) -> Result<()> {
    inputs.check_floats(count)?;
    if inputs.dims(0).is_empty() {
        return inputs.refuse(0, "it has no dimension");
    }
    (1..count).try_for_each(|index| inputs.check_dims(index, inputs.dims(0), "the shape of `gate`"))
}

impl Operator for Gate {
    fn name(&self) -> &'static str {
        "silu_gate"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["gate", "up"]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        check_gate(inputs, 2)?;
        Ok((inputs.dtype(0), inputs.dims(0).into()))
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let [gate, up, y] = [call.input(0), call.input(1), call.result()].map(View::rows);
        Ok(vec![Launch::shared(
            specialized(&kernels::silu_gate(), &[], &[("T", call.input(0).elem())])?,
            vec![gate?.into(), up?.into(), y?.into()],
        )])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].silu()? * &inputs[1]
    }

    fn backward(&self, inputs: &[&Tensor], _: &Tensor, gradient: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let both = apply(GateGradients, &[inputs[0], inputs[1], gradient])?;
        Ok(vec![Some(both.get(0)?), Some(both.get(1)?)])
    }
}

impl Operator for GateGradients {
    fn name(&self) -> &'static str {
        "silu_gate_gradients"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["gate", "up", "gradient"]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        check_gate(inputs, 3)?;
        let dims = [&[2], inputs.dims(0)].concat();
        Ok((inputs.dtype(0), dims.into()))
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let [gate, up, gradient] = [0, 1, 2].map(|index| call.input(index).rows());
        let rank = call.input(0).dims().len();
        let y = call.result().merge(1, rank - 1)?.permute(&[1, 2, 0]);
        let arguments = vec![gate?.into(), up?.into(), gradient?.into(), y.into()];
        Ok(vec![Launch::shared(
            specialized(&kernels::silu_gate_gradients(), &[], &[("T", call.input(0).elem())])?,
            arguments,
        )])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [gate, up, gradient] = inputs else { unreachable!("it has three inputs") };
        let sigmoid = (gate.neg()?.exp()? + 1.0)?.recip()?;
        let slope = (&sigmoid * ((gate * (1.0 - &sigmoid)?)? + 1.0)?)?;
        Tensor::stack(&[((gradient * up)? * slope)?, ((gradient * gate)? * sigmoid)?], 0)
    }
}
