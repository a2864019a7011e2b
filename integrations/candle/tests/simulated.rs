//! Operators whose kernels run in the simulator, beside the operators on the CPU.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use tilewright_candle::{Activation, QLinear, flash_attn, linear, loss, matmul, ops, rotary_emb, simulated};

const CPU: Device = Device::Cpu;

fn random(dims: &[usize], dtype: DType) -> Tensor {
    Tensor::randn(0f32, 1.0, dims, &CPU).unwrap().to_dtype(dtype).unwrap()
}

/// Compares results of kernels and of the CPU, and gradients of the first input.
#[track_caller]
fn check(what: &str, tolerance: f64, inputs: &[Tensor], function: &dyn Fn(&[Tensor]) -> Result<Tensor>) {
    let run = || {
        let variable = Var::from_tensor(&inputs[0])?;
        let mut all = inputs.to_vec();
        all[0] = variable.as_tensor().clone();
        let y = function(&all)?;
        let weights = Tensor::arange(0f32, y.elem_count() as f32, &CPU)?.cos()?.reshape(y.dims())?;
        let grads = (y.to_dtype(DType::F32)? * weights)?.sum_all()?.backward()?;
        Result::Ok([y.clone(), grads.get(&variable).unwrap().clone()])
    };
    let (kernels, host) = (simulated(run).unwrap(), run().unwrap());
    for (name, (kernel, host)) in ["result", "gradient"].into_iter().zip(kernels.iter().zip(&host)) {
        let apart = (kernel.to_dtype(DType::F64).unwrap() - host.to_dtype(DType::F64).unwrap()).unwrap();
        let apart = apart.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar::<f64>().unwrap();
        assert!(apart <= tolerance, "{what}: {name} {apart} apart");
    }
}

/// The first half of each row of a tensor of twice the width: rows are apart.
fn narrowed(x: &Tensor) -> Result<Tensor> {
    Tensor::cat(&[x, x], D::Minus1)?.narrow(D::Minus1, 0, x.dim(D::Minus1)?)
}

#[test]
fn rows() {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 4e-3), (DType::BF16, 4e-2)] {
        for width in [40, 33, 700] {
            let inputs = [random(&[2, 3, width], dtype), random(&[width], dtype), random(&[width], dtype)];
            check("rms_norm", tolerance, &inputs, &|x| ops::rms_norm(&narrowed(&x[0])?, &x[1], 1e-5));
            check("layer_norm", tolerance, &inputs, &|x| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5));
            check("softmax", tolerance, &inputs, &|x| ops::softmax_last_dim(&x[0].transpose(0, 1)?));
        }
    }
    // Rows that a block does not keep in registers.
    let inputs = [random(&[2, 17000], DType::F32), random(&[17000], DType::F32)];
    check("long rms_norm", 1e-4, &inputs, &|x| ops::rms_norm(&narrowed(&x[0])?, &x[1], 1e-5));
}

#[test]
fn gates_and_rotations() {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 0.1)] {
        check("swiglu", tolerance, &[random(&[2, 3, 68], dtype)], &|x| ops::swiglu(&x[0]));
        let tables = [random(&[9, 10], dtype), random(&[9, 10], dtype)];
        let inputs = [random(&[2, 3, 7, 20], dtype), tables[0].clone(), tables[1].clone()];
        check("rope", tolerance, &inputs, &|x| rotary_emb::rope(&narrowed(&x[0])?, &x[1], &x[2]));
        let positions_first = |x: &[Tensor]| rotary_emb::rope(&x[0].transpose(1, 2)?, &x[1], &x[2]);
        check(
            "rope",
            tolerance,
            &[random(&[1, 7, 3, 20], dtype), inputs[1].clone(), inputs[2].clone()],
            &positions_first,
        );
    }
}

#[test]
fn losses() {
    let target = Tensor::new(&[3u32, 299, 0], &CPU).unwrap();
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 2e-2)] {
        check("cross_entropy", tolerance, &[random(&[3, 300], dtype), target.clone()], &|x| {
            loss::cross_entropy(&narrowed(&x[0])?, &x[1])
        });
    }
    let target = Tensor::new(&[4999u32], &CPU).unwrap();
    check("long cross_entropy", 1e-5, &[random(&[1, 5000], DType::F32), target], &|x| {
        loss::cross_entropy(&x[0], &x[1])
    });
}

#[test]
fn attention() {
    // Two batches, two heads of queries for a head of keys, more keys than queries; and a whole head without a mask.
    for (batch, queries, keys, heads, key_heads, width) in [(2, 5, 140, 2, 1, 64), (1, 20, 20, 1, 1, 128)] {
        let dims = |positions, heads| [batch, positions, heads, width];
        let inputs = [(queries, heads), (keys, key_heads), (keys, key_heads)]
            .map(|(positions, heads)| random(&dims(positions, heads), DType::BF16));
        check("flash_attn", 0.05, &inputs, &|x| flash_attn(&x[0], &x[1], &x[2], 0.1, width == 64));
    }
}

#[test]
fn products() {
    let inputs = [random(&[2, 3, 24], DType::F32), random(&[16, 24], DType::F32), random(&[16], DType::F32)];
    for activation in [None, Some(Activation::Gelu)] {
        check("linear", 1e-4, &inputs, &|x| linear(&x[0], &x[1], Some(&x[2]), activation));
    }
    check("matmul", 1e-4, &[random(&[6, 8], DType::F32), random(&[8, 4], DType::F32)], &|x| {
        matmul(&x[0], &x[1])
    });
    for format in [GgmlDType::Q8_0, GgmlDType::Q4_1] {
        let weights = QTensor::quantize(&random(&[70, 128], DType::F32), format).unwrap();
        let layer = QLinear::new(&weights, DType::BF16, &CPU).unwrap();
        check("QLinear", 0.3, &[random(&[2, 3, 128], DType::BF16)], &|x| layer.forward(&x[0]));
    }
}
