//! Linear layers: products with an epilogue, and weights of 8 and 4 bits.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Module, Result, Shape, Tensor, Var, bail};
use tilewright::kernels::models::weights::{linear_q4, linear_q8};
use tilewright::matmul::Activation;

use crate::launch::{Launch, Product, specialized};
use crate::operator::{Call, Gradients, Inputs, Operator, apply};
use crate::view::View;

/// activation(xs · weightᵀ + bias), with the weight (outputs, inputs) of `candle_nn::Linear`, in one kernel.
pub fn linear(
    xs: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    activation: Option<Activation>,
) -> Result<Tensor> {
    let operator = Linear { activation, has_bias: bias.is_some() };
    match bias {
        Some(bias) => apply(operator, &[xs, weight, bias]),
        None => apply(operator, &[xs, weight]),
    }
}

/// The product of matrices, as `Tensor::matmul`.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    linear(a, &b.t()?, None, None)
}

struct Linear {
    activation: Option<Activation>,
    has_bias: bool,
}

/// An activation by candle's operators.
fn activate(activation: Option<Activation>, x: &Tensor) -> Result<Tensor> {
    match activation {
        None => Ok(x.clone()),
        Some(Activation::Relu) => x.relu(),
        Some(Activation::Gelu) => x.gelu_erf(),
        Some(Activation::Silu) => x.silu(),
        Some(other) => bail!("linear: there is no {other:?}"),
    }
}

/// All dimensions but the last become one.
fn rows(tensor: &Tensor) -> Result<Tensor> {
    tensor.flatten_to(D::Minus2)
}

impl Operator for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn inputs(&self) -> &'static [&'static str] {
        if self.has_bias { &["xs", "weight", "bias"] } else { &["xs", "weight"] }
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        inputs.check_floats(self.inputs().len())?;
        inputs.check_rank(1, 2, "(outputs, inputs)")?;
        if inputs.dims(0).len() < 2 {
            return inputs.refuse(0, "it must have two dimensions or more");
        }
        let (dims, weight) = (inputs.dims(0), inputs.dims(1));
        if dims[dims.len() - 1] != weight[1] {
            return inputs.refuse(1, format!("`xs` is {dims:?}: the last dimensions must be equal"));
        }
        if self.has_bias {
            inputs.check_dims(2, &weight[..1], "the outputs of `weight`")?;
        }
        Ok((inputs.dtype(0), [&dims[..dims.len() - 1], &weight[..1]].concat().into()))
    }

    fn accepts(&self, index: usize, view: &View) -> bool {
        let contiguous_columns = view.dims().len() == 2 && view.strides()[0] == 1;
        view.has_contiguous_rows() && view.clone().rows().is_ok() || index < 2 && contiguous_columns
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        Ok(vec![Launch::matmul(Product {
            a: call.input(0).rows()?,
            b: call.input(1).permute(&[1, 0]),
            bias: self.has_bias.then(|| call.input(2)),
            activation: self.activation,
            c: call.result().rows()?,
        })])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let product = inputs[0].broadcast_matmul(&inputs[1].t()?)?;
        let product = if self.has_bias { product.broadcast_add(&inputs[2])? } else { product };
        activate(self.activation, &product)
    }

    /// By the kernels of the product.
    fn backward(&self, inputs: &[&Tensor], _: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        let inputs: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
        let mut gradient = gradient.detach();
        if self.activation.is_some() {
            let product = linear(&inputs[0], &inputs[1], inputs.get(2), None)?;
            let product = Var::from_tensor(&product)?;
            let grads = (activate(self.activation, &product)? * &gradient)?.sum_all()?.backward()?;
            gradient = grads.get(&product).cloned().unwrap_or(gradient);
        }
        let (flat, xs) = (rows(&gradient)?, rows(&inputs[0])?);
        let mut all = vec![
            Some(linear(&gradient, &inputs[1].t()?, None, None)?),
            Some(linear(&flat.t()?, &xs.t()?, None, None)?),
        ];
        if self.has_bias {
            all.push(Some(flat.sum(0)?));
        }
        Ok(all)
    }
}

/// A linear layer with weights of 8 or 4 bits, as candle's `QMatMul`: y = xs · weightᵀ. Each 32 weights of a row have a scale, and with 4 bits
/// an offset.
#[derive(Clone, Debug)]
pub struct QLinear {
    /// Bytes: a signed integer, or two integers of 4 bits.
    codes: Tensor,
    /// (inputs / 32, outputs).
    scales: Tensor,
    offsets: Option<Tensor>,
}

impl QLinear {
    /// Weights of `Q8_0`, `Q4_0` or `Q4_1`, for activations of a type, F16 or BF16.
    pub fn new(weight: &QTensor, dtype: DType, device: &Device) -> Result<QLinear> {
        let (outputs, inputs) = weight.shape().dims2()?;
        let (size, head) = match weight.dtype() {
            GgmlDType::Q8_0 => (34, 2),
            GgmlDType::Q4_0 => (18, 2),
            GgmlDType::Q4_1 => (20, 4),
            other => bail!("QLinear: weights are Q8_0, Q4_0 or Q4_1, and these are {other:?}"),
        };
        if inputs % 64 != 0 || !matches!(dtype, DType::F16 | DType::BF16) {
            bail!(
                "QLinear: a multiple of 64 inputs and F16 or BF16 are needed, and these are {inputs} and {dtype:?}"
            )
        }
        let data = weight.data()?;
        let blocks = || data.chunks_exact(size);
        let number = |block: &[u8], at: usize| half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let table = |values: Vec<f32>| {
            let values = Tensor::from_vec(values, (outputs, inputs / 32), &Device::Cpu)?;
            values.t()?.contiguous()?.to_dtype(dtype)?.to_device(device)
        };
        // Byte i of a block has elements i and i + 16. In the kernel, byte 4t + 2s + h has element 16s + 8h + 2t and the next.
        let code = |block: &[u8], at: usize| (block[head + at % 16] >> (4 * (at / 16))) & 15;
        let first = |byte: usize| byte / 2 % 2 * 16 + byte % 2 * 8 + byte / 4 * 2;
        let pair = |block: &[u8], at: usize| code(block, at) | code(block, at + 1) << 4;
        let pairs = |block: &[u8]| (0..16).map(|byte| pair(block, first(byte))).collect::<Vec<_>>();
        let (codes, width): (Vec<u8>, _) = match weight.dtype() {
            GgmlDType::Q8_0 => (blocks().flat_map(|block| block[head..].to_vec()).collect(), inputs),
            _ => (blocks().flat_map(pairs).collect(), inputs / 2),
        };
        let offset = |block: &[u8]| if head == 4 { number(block, 2) } else { -8.0 * number(block, 0) };
        let offsets = (width < inputs).then(|| table(blocks().map(offset).collect())).transpose()?;
        let scales = table(blocks().map(|block| number(block, 0)).collect())?;
        Ok(QLinear { codes: Tensor::from_vec(codes, (outputs, width), device)?, scales, offsets })
    }

    /// The weights as numbers, (outputs, inputs).
    pub fn dequantize(&self) -> Result<Tensor> {
        let codes = self.codes.to_dtype(DType::F32)?;
        let codes = match self.offsets {
            None => (&codes - (codes.ge(128.0)?.to_dtype(DType::F32)? * 256.0)?)?,
            Some(_) => {
                let high = (&codes / 16.0)?.floor()?;
                let pairs = Tensor::stack(&[&(codes - (&high * 16.0)?)?, &high], D::Minus1)?;
                pairs.reshape(((), 4, 2, 2, 2))?.permute((0, 2, 3, 1, 4))?.contiguous()?
            }
        };
        let (groups, outputs) = self.scales.dims2()?;
        let each = |table: &Tensor| table.to_dtype(DType::F32)?.t()?.contiguous()?.unsqueeze(2);
        let mut weights = codes.reshape((outputs, groups, 32))?.broadcast_mul(&each(&self.scales)?)?;
        if let Some(offsets) = &self.offsets {
            weights = weights.broadcast_add(&each(offsets)?)?;
        }
        weights.reshape((outputs, groups * 32))
    }
}

impl Module for QLinear {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        apply(self.clone(), &[xs])
    }
}

impl Operator for QLinear {
    fn name(&self) -> &'static str {
        "QLinear"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["xs"]
    }

    fn constants(&self) -> Vec<Tensor> {
        [&self.codes, &self.scales].into_iter().chain(&self.offsets).cloned().collect()
    }

    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        let (dims, (groups, outputs)) = (inputs.dims(0), self.scales.dims2()?);
        if inputs.dtype(0) != self.scales.dtype() {
            return inputs
                .refuse(0, format!("the type must be {:?}, as the scales have", self.scales.dtype()));
        }
        if dims.len() < 2 || dims[dims.len() - 1] != 32 * groups {
            return inputs.refuse(0, format!("the last of two or more dimensions must be {}", 32 * groups));
        }
        Ok((inputs.dtype(0), [&dims[..dims.len() - 1], &[outputs]].concat().into()))
    }

    fn launches(&self, call: &Call) -> Result<Vec<Launch>> {
        let elem = call.input(0).elem();
        let types = [("T", elem), ("Y", elem)];
        let kernel = match self.offsets {
            Some(_) => specialized(&linear_q4(), &[], &types)?,
            None => specialized(&linear_q8(), &[], &types)?,
        };
        let table = |index: usize| call.input(index).permute(&[1, 0]);
        let codes = if self.offsets.is_some() { call.input(1) } else { call.input(1).signed() };
        let mut arguments = vec![call.input(0).rows()?.into(), codes.into(), table(2).into()];
        arguments.extend(self.offsets.iter().map(|_| table(3).into()));
        arguments.push(call.result().rows()?.into());
        Ok(vec![Launch::shared(kernel, arguments)])
    }

    fn formula(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].broadcast_matmul(&self.dequantize()?.to_dtype(inputs[0].dtype())?.t()?)
    }
}
