//! Operators whose kernels run in the simulator, beside the operators on the CPU.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use tilewright_candle::{
    Activation, QLinear, flash_attn, flash_attn_alibi_windowed_softcap, flash_attn_varlen,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_paged_windowed, flash_attn_windowed, linear,
};
use tilewright_candle::{loss, matmul, moe, ops, rotary_emb, simulated};

const CPU: Device = Device::Cpu;

fn random(dims: &[usize], dtype: DType) -> Tensor {
    Tensor::randn(0f32, 1.0, dims, &CPU).unwrap().to_dtype(dtype).unwrap()
}

/// Compares results of kernels and of the CPU, and gradients of the first input. Without gradients, kernels may be others.
#[track_caller]
fn check(what: &str, tolerance: f64, inputs: &[Tensor], function: &dyn Fn(&[Tensor]) -> Result<Tensor>) {
    check_gradients(what, tolerance, inputs, 1, function);
    check_result(what, tolerance, inputs, function);
}

/// Compares results without gradients.
#[track_caller]
fn check_result(
    what: &str,
    tolerance: f64,
    inputs: &[Tensor],
    function: &dyn Fn(&[Tensor]) -> Result<Tensor>,
) {
    let apart = apart(&simulated(|| function(inputs)).unwrap(), &function(inputs).unwrap());
    assert!(apart <= tolerance, "{what} without gradients: {apart} apart");
}

/// Compares results of kernels and of the CPU, and gradients of the first `count` inputs.
#[track_caller]
fn check_gradients(
    what: &str,
    tolerance: f64,
    inputs: &[Tensor],
    count: usize,
    function: &dyn Fn(&[Tensor]) -> Result<Tensor>,
) {
    let run = || {
        let variables = inputs[..count].iter().map(Var::from_tensor).collect::<Result<Vec<_>>>()?;
        let mut all = inputs.to_vec();
        all.iter_mut().zip(&variables).for_each(|(input, variable)| *input = variable.as_tensor().clone());
        let y = function(&all)?;
        let weights = Tensor::arange(0f32, y.elem_count() as f32, &CPU)?.cos()?.reshape(y.dims())?;
        let grads = (y.to_dtype(DType::F32)? * weights)?.sum_all()?.backward()?;
        let grads = variables.iter().map(|variable| grads.get(variable).unwrap().clone());
        Result::Ok(std::iter::once(y).chain(grads).collect::<Vec<_>>())
    };
    let (kernels, host) = (simulated(run).unwrap(), run().unwrap());
    for (index, (kernel, host)) in kernels.iter().zip(&host).enumerate() {
        assert_eq!((kernel.dims(), kernel.dtype()), (host.dims(), host.dtype()), "{what}: {index}");
        let apart = apart(kernel, host);
        assert!(apart <= tolerance, "{what}: the result, or gradient {index}, {apart} apart");
    }
}

fn apart(one: &Tensor, other: &Tensor) -> f64 {
    let apart = (one.to_dtype(DType::F64).unwrap() - other.to_dtype(DType::F64).unwrap()).unwrap();
    apart.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap()
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
            let rms_norm = |x: &[Tensor]| ops::rms_norm(&narrowed(&x[0])?, &x[1], 1e-5);
            let layer_norm = |x: &[Tensor]| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5);
            check("rms_norm", tolerance, &inputs, &rms_norm);
            check("layer_norm", tolerance, &inputs, &layer_norm);
            check_gradients("weights of rms_norm", 4.0 * tolerance, &inputs, 2, &rms_norm);
            check_gradients("weights of layer_norm", 4.0 * tolerance, &inputs, 3, &layer_norm);
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
    // Two batches, two heads of queries for a head of keys, more keys than queries, a window; and a whole head without a mask.
    for (batch, queries, keys, heads, key_heads, width) in
        [(2, 5, 140, 2, 1, 64), (1, 20, 20, 1, 1, 128), (1, 4, 9, 1, 1, 256), (2, 5, 70, 2, 1, 32)]
    {
        let dtype = if width == 64 { DType::F16 } else { DType::BF16 };
        let dims = |positions, heads| [batch, positions, heads, width];
        let inputs = [(queries, heads), (keys, key_heads), (keys, key_heads)]
            .map(|(positions, heads)| random(&dims(positions, heads), dtype));
        let causal = width < 128;
        let attend = |x: &[Tensor]| flash_attn(&x[0], &x[1], &x[2], 0.1, causal);
        check_result("flash_attn", 0.05, &inputs, &attend);
        check_gradients("flash_attn", 0.05, &inputs, 3, &attend);
        if width == 64 {
            let windowed = |x: &[Tensor]| flash_attn_windowed(&x[0], &x[1], &x[2], 0.1, Some(9), Some(0));
            check_gradients("flash_attn_windowed", 0.05, &inputs, 3, &windowed);
            let capped = |x: &[Tensor]| {
                flash_attn_alibi_windowed_softcap(&x[0], &x[1], &x[2], None, 0.1, None, Some(0), 0.5)
            };
            check_result("softcap", 0.05, &inputs, &capped);
            check_gradients("softcap", 0.05, &inputs, 3, &capped);
        }
    }
}

#[test]
fn attention_of_sequences() {
    let ends = |ends: &[u32]| Tensor::new(ends, &CPU).unwrap();
    let (queries, keys) = (ends(&[0, 5, 5, 140]), ends(&[0, 40, 43, 190]));
    let inputs = [(140, 2), (190, 1), (190, 1)].map(|(rows, heads)| random(&[rows, heads, 64], DType::BF16));
    for causal in [false, true] {
        let attend =
            |x: &[Tensor]| flash_attn_varlen(&x[0], &x[1], &x[2], &queries, &keys, 135, 147, 0.1, causal);
        check_gradients("flash_attn_varlen", 0.05, &inputs, 3, &attend);
    }
    let capped = |x: &[Tensor]| {
        let (q, k, v, left, right) = (&x[0], &x[1], &x[2], Some(20), Some(0));
        flash_attn_varlen_alibi_windowed_softcap(
            q, k, v, None, &queries, &keys, 135, 147, 0.1, left, right, 0.5,
        )
    };
    check_gradients("flash_attn_varlen with a window and a cap", 0.05, &inputs, 3, &capped);
}

/// Sequences of one query, whose keys are divided among blocks, and prompts; pages in any order.
#[test]
fn attention_to_pages() {
    let ends = |ends: &[u32]| Tensor::new(ends, &CPU).unwrap();
    for (page, queries, keys) in [(16, [0, 1, 2], [0, 70, 83]), (64, [0, 20, 21], [0, 90, 140])] {
        let (queries, keys) = (ends(&queries), ends(&keys));
        let pages = [random(&[6, page, 2, 64], DType::BF16), random(&[6, page, 2, 64], DType::BF16)];
        let rows = queries.get(2).unwrap().to_scalar::<u32>().unwrap() as usize;
        let inputs = [random(&[rows, 4, 64], DType::BF16), pages[0].clone(), pages[1].clone()];
        let table = Tensor::new(&[[3u32, 5, 1, 4, 0], [2, 0, 0, 0, 0]], &CPU).unwrap();
        check_result("paged", 0.05, &inputs, &|x| {
            let (q, k, v) = (&x[0], &x[1], &x[2]);
            flash_attn_varlen_paged_windowed(
                q,
                k,
                v,
                &queries,
                &keys,
                &table,
                None,
                20,
                90,
                0.1,
                None,
                Some(0),
                page,
                None,
            )
        });
    }
}

#[test]
fn experts() {
    let ids: Vec<u32> = (0..26).map(|at| at * 7 % 26).collect();
    let owners: Vec<u32> = (0..26).map(|at| if at < 20 { 0 } else { 2 + at / 24 }).collect();
    let [sorted, owners] = [ids, owners].map(|all| Tensor::new(all, &CPU).unwrap());
    let inputs = [random(&[13, 72], DType::BF16), random(&[4, 40, 72], DType::BF16)];
    check_gradients("moe_gemm", 0.2, &inputs, 2, &|x| {
        moe::moe_gemm(&x[0], &x[1], &None, &sorted, &owners, 2, true)
    });
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
