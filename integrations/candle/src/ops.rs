//! The operators of `candle_nn::ops`: norms, softmax, gates.

use candle_core::{D, DType, Result, Shape, Tensor, bail};
use tilewright::kernels::memory::{Choice, Work, choose};
use tilewright::kernels::models::{gated, norm_gradients, norms};

use crate::host::runs_kernels;
use crate::launch::{Argument, Launch, kept, specialized};
use crate::operator::{Call, Gradients, Inputs, Operator, apply, differentiate, run};
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
    Rows::apply(Work::Rmsnorm, eps, &[xs, alpha])
}

/// (x - mean x) / √(variance x + eps) · alpha + beta along the last dimension, as `candle_nn::ops::layer_norm`, with gradients.
pub fn layer_norm(xs: &Tensor, alpha: &Tensor, beta: &Tensor, eps: f32) -> Result<Tensor> {
    Rows::apply(Work::Layernorm, eps, &[xs, alpha, beta])
}

/// The softmax along the last dimension, as `candle_nn::ops::softmax_last_dim`, with gradients.
pub fn softmax_last_dim(xs: &Tensor) -> Result<Tensor> {
    Rows::apply(Work::Softmax, 0.0, &[xs])
}

/// silu(gate) · up, where the last dimension has both halves, as `candle_nn::ops::swiglu`.
pub fn swiglu(xs: &Tensor) -> Result<Tensor> {
    apply(Swiglu, &[xs])
}

/// A function of rows.
struct Rows {
    work: Work,
    eps: f32,
    /// Does a norm keep the statistics of rows for its gradients?
    keeps: bool,
}

/// The most columns of the kernels for gradients of norms.
const MOST_COLUMNS: usize = 8192;

impl Rows {
    fn apply(work: Work, eps: f32, inputs: &[&Tensor]) -> Result<Tensor> {
        let has_gradients = inputs.iter().any(|input| input.track_op());
        let fits = inputs[0].dims().last().is_some_and(|columns| *columns <= MOST_COLUMNS);
        apply(Rows { work, eps, keeps: work != Work::Softmax && has_gradients && fits }, inputs)
    }

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
        let Ok(rows) = view.clone().rows() else { return false };
        if self.keeps || !view.has_contiguous_rows() {
            return view.has_contiguous_rows();
        }
        // Some kernels for long rows take inputs and results with one distance between rows.
        let Choice { kernel, is_dense, .. } = self.choice(view);
        let any_distance = !is_dense && !kernel.ends_with("_long") && !kernel.ends_with("_unaligned");
        index > 0 || any_distance || rows.strides()[0] == rows.dims()[1]
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (x, y) = (call.input(0).rows()?, call.result().rows()?);
        let weights = (1..self.inputs().len()).map(|index| call.input(index));
        if self.keeps {
            let is_layer = self.work == Work::Layernorm;
            let types = [("T", x.elem())];
            let kernel = match is_layer {
                true => specialized(&norms::layer_norm(), &[], &types)?,
                false => specialized(&norms::rms_norm_with_rstd(), &[], &types)?,
            };
            let rows = x.dims()[0];
            let mut arguments: Vec<Argument> = vec![self.eps.into(), x.into()];
            arguments.extend(weights.map(Argument::from));
            arguments.push(y.into());
            for _ in 0..=usize::from(is_layer) {
                arguments.push(call.output(DType::F32, rows)?.into());
            }
            return Ok(vec![Launch::shared(kernel, arguments)]);
        }
        let choice = self.choice(&call.input(0));
        let kernel = kept(choice.to_string(), || choice.def())?;
        let matrix = |view: View| if choice.is_dense { view.merge(0, 2) } else { Ok(view) };
        let mut arguments: Vec<Argument> = vec![matrix(x)?.into()];
        arguments.extend(weights.map(|weights| weights.unsqueeze(0).into()));
        arguments.push(matrix(y)?.into());
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

    fn backward(&self, inputs: &[&Tensor], results: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        if !self.keeps || results.len() == 1 {
            return differentiate(self, inputs, gradient);
        }
        let is_layer = self.work == Work::Layernorm;
        let gradient = gradient.contiguous()?;
        let given: Vec<&Tensor> =
            inputs[..2].iter().copied().chain(&results[1..]).chain([&gradient]).collect();
        let launches = |call: &Call| {
            let (x, dtype) = (call.input(0).rows()?, inputs[0].dtype());
            let &[rows, columns] = x.dims() else { bail!("a matrix has two modes") };
            let parts = 132 * (MOST_COLUMNS / columns).clamp(1, 8);
            let parts = parts.min(rows);
            let types = [("T", x.elem())];
            let kernel = match is_layer {
                true => specialized(&norm_gradients::layer_norm_backward(), &[], &types)?,
                false => specialized(&norm_gradients::rms_norm_backward(), &[], &types)?,
            };
            let mut arguments: Vec<Argument> = vec![x.into()];
            arguments.extend((1..given.len() - 1).map(|index| call.input(index).into()));
            arguments.push(call.input(given.len() - 1).rows()?.into());
            arguments.push(call.output(dtype, inputs[0].dims())?.rows()?.into());
            let totals =
                inputs[1..].iter().map(|_| call.output(dtype, columns)).collect::<Result<Vec<_>>>()?;
            let mut sums = Vec::new();
            for total in totals {
                let parts = call.output(DType::F32, (parts, columns))?;
                arguments.push(parts.clone().into());
                let arguments = vec![parts.into(), total.into()];
                sums.push(Launch::specialized(&norm_gradients::sum_parts(), &[], &types, arguments)?);
            }
            Ok(std::iter::once(Launch::shared(kernel, arguments)).chain(sums).collect())
        };
        Ok(run(self.name(), &given, launches)?.into_iter().take(inputs.len()).map(Some).collect())
    }
}

/// silu(gate) · up of both halves of rows.
struct Swiglu;

/// Both halves of rows: (rows, columns, 2).
fn halves(view: View) -> Result<View> {
    let columns = view.dims()[view.dims().len() - 1];
    Ok(view.rows()?.split(1, 2, columns / 2)?.permute(&[0, 2, 1]))
}

impl Operator for Swiglu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["xs"]
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(1)?;
        match inputs.dims(0) {
            [rows @ .., columns] if columns % 2 == 0 => {
                Ok((inputs.dtype(0), [rows, &[columns / 2]].concat().into()))
            }
            _ => inputs.refuse(0, "its last dimension must be even"),
        }
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let (both, y) = (halves(call.input(0))?, call.result().rows()?);
        let types = [("T", both.elem())];
        Ok(vec![Launch::specialized(&gated::gated(), &[], &types, vec![both.into(), y.into()])?])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let width = inputs[0].dim(D::Minus1)? / 2;
        inputs[0].narrow(D::Minus1, 0, width)?.silu()? * inputs[0].narrow(D::Minus1, width, width)?
    }

    fn backward(&self, inputs: &[&Tensor], _: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        if !runs_kernels(gradient) {
            return differentiate(self, inputs, gradient);
        }
        let gradients = run(self.name(), &[inputs[0], &gradient.contiguous()?], |call| {
            let to = halves(call.output(inputs[0].dtype(), inputs[0].dims())?)?;
            let (both, dy, types) = (halves(call.input(0))?, call.input(1).rows()?, [("T", to.elem())]);
            let arguments = vec![both.into(), dy.into(), to.into()];
            Ok(vec![Launch::specialized(&gated::gated_backward(), &[], &types, arguments)?])
        })?;
        Ok(gradients.into_iter().map(Some).collect())
    }
}
