//! Operators beside candle's own: results, gradients, strided inputs, kernels in the simulator, messages.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use candle_nn::ops::{layer_norm_slow, rms_norm_slow, softmax, swiglu};
use candle_nn::rotary_emb::rope_slow;
use tilewright_candle::{
    Activation, QLinear, flash_attn, flash_attn_varlen, flash_attn_windowed, linear, matmul,
};
use tilewright_candle::{loss, ops, rotary_emb};

const CPU: Device = Device::Cpu;

fn random(dims: &[usize]) -> Tensor {
    Tensor::randn(0f32, 1.0, dims, &CPU).unwrap()
}

#[track_caller]
fn near(ours: &Tensor, theirs: &Tensor, tolerance: f64, what: &str) {
    assert_eq!((ours.dims(), ours.dtype()), (theirs.dims(), theirs.dtype()), "{what}");
    let apart = (ours.to_dtype(DType::F64).unwrap() - theirs.to_dtype(DType::F64).unwrap()).unwrap();
    let apart = apart.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar::<f64>().unwrap();
    assert!(apart <= tolerance, "{what}: {apart} apart");
}

/// A view of an input.
type Change<'f> = &'f dyn Fn(&Tensor) -> Result<Tensor>;
type Function<'f> = &'f dyn Fn(&[Tensor]) -> Result<Tensor>;

/// Compares results and gradients of two functions, with inputs as they are, transposed and narrowed.
#[track_caller]
fn check(ours: Function, theirs: Function, inputs: &[Tensor]) {
    let transposed = |x: &Tensor| x.transpose(0, x.rank() - 1)?.contiguous()?.transpose(0, x.rank() - 1);
    let narrowed = |x: &Tensor| Tensor::cat(&[x, x], D::Minus1)?.narrow(D::Minus1, 0, x.dim(D::Minus1)?);
    let views: [(&str, Change); 3] =
        [("contiguous", &|x| Ok(x.clone())), ("transposed", &transposed), ("narrowed", &narrowed)];
    for (what, view) in views {
        let result = |function: Function| {
            let variables: Vec<Option<Var>> =
                inputs.iter().map(|x| x.dtype().is_float().then(|| Var::from_tensor(x).unwrap())).collect();
            let tensors = inputs.iter().zip(&variables).map(|(x, variable)| match variable {
                Some(variable) => view(variable).unwrap(),
                None => x.clone(),
            });
            let y = function(&tensors.collect::<Vec<_>>()).unwrap();
            // Another weight for each element of the result.
            let weights = Tensor::arange(1f32, 1.0 + y.elem_count() as f32, &CPU).unwrap().sin().unwrap();
            let weights = weights.reshape(y.dims()).unwrap();
            let grads =
                (y.to_dtype(DType::F32).unwrap() * weights).unwrap().sum_all().unwrap().backward().unwrap();
            let grads: Vec<_> =
                variables.iter().map(|of| of.as_ref().and_then(|of| grads.get(of).cloned())).collect();
            (y, grads)
        };
        let ((y, dy), (z, dz)) = (result(ours), result(theirs));
        near(&y, &z, 1e-5, what);
        for (index, (ours, theirs)) in dy.iter().zip(&dz).enumerate() {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => near(ours, theirs, 2e-5, &format!("{what}, gradient {index}")),
                (None, None) => {}
                _ => panic!("{what}: one gradient {index} of two"),
            }
        }
    }
}

#[test]
fn norms_and_softmax() {
    let inputs = [random(&[3, 5, 40]), random(&[40]), random(&[40])];
    check(&|x| ops::rms_norm(&x[0], &x[1], 1e-5), &|x| rms_norm_slow(&x[0], &x[1], 1e-5), &inputs[..2]);
    check(
        &|x| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5),
        &|x| layer_norm_slow(&x[0], &x[1], &x[2], 1e-5),
        &inputs,
    );
    check(&|x| ops::softmax_last_dim(&x[0]), &|x| softmax(&x[0], D::Minus1), &inputs[..1]);
}

#[test]
fn gates() {
    check(&|x| ops::swiglu(&x[0]), &|x| swiglu(&x[0]), &[random(&[3, 5, 34])]);
}

#[test]
fn rotary_embedding() {
    let inputs = [random(&[2, 3, 5, 8]), random(&[7, 4]), random(&[7, 4])];
    check(&|x| rotary_emb::rope(&x[0], &x[1], &x[2]), &|x| rope_slow(&x[0], &x[1], &x[2]), &inputs);
    // A table for each sequence.
    let [cos, sin] = [random(&[2, 5, 4]), random(&[2, 5, 4])];
    let expected = candle_nn::rotary_emb::rope(&inputs[0], &cos, &sin).unwrap();
    near(&rotary_emb::rope(&inputs[0], &cos, &sin).unwrap(), &expected, 1e-6, "tables by sequence");
}

#[test]
fn losses() {
    let target = Tensor::new(&[3u32, 0, 8, 8], &CPU).unwrap();
    let theirs = |x: &[Tensor]| candle_nn::loss::cross_entropy(&x[0], &x[1]);
    check(&|x| loss::cross_entropy(&x[0], &x[1]), &theirs, &[random(&[4, 9]), target.clone()]);
    let signed = target.to_dtype(DType::I64).unwrap();
    check(&|x| loss::cross_entropy(&x[0], &x[1]), &theirs, &[random(&[4, 9]), signed]);
}

/// Attention by candle's operators.
fn attention(q: &Tensor, k: &Tensor, v: &Tensor, scale: f64, seen: &dyn Fn(i64) -> bool) -> Result<Tensor> {
    let [q, k, v] = [q, k, v].map(|x| x.transpose(1, 2).unwrap().contiguous().unwrap());
    let shared = q.dim(1)? / k.dim(1)?;
    let repeat = |x: &Tensor| {
        let heads: Vec<_> =
            (0..x.dim(1)? * shared).map(|head| x.narrow(1, head / shared, 1)).collect::<Result<_>>()?;
        Tensor::cat(&heads, 1)
    };
    let (k, v) = (repeat(&k)?, repeat(&v)?);
    let (queries, keys) = (q.dim(2)?, k.dim(2)?);
    let mask: Vec<f32> = (0..queries * keys)
        .map(|at| (at % keys) as i64 - (at / keys) as i64 - keys as i64 + queries as i64)
        .map(|apart| if seen(apart) { 0.0 } else { f32::NEG_INFINITY })
        .collect();
    let mask = Tensor::from_vec(mask, (queries, keys), &CPU)?;
    let scores = (q.matmul(&k.t()?)? * scale)?.broadcast_add(&mask)?;
    softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(1, 2)
}

#[test]
fn attention_of_heads() {
    for (queries, keys, heads, key_heads) in [(6, 6, 2, 2), (3, 7, 4, 2)] {
        let inputs = [
            random(&[2, queries, heads, 8]),
            random(&[2, keys, key_heads, 8]),
            random(&[2, keys, key_heads, 8]),
        ];
        for causal in [false, true] {
            check(
                &|x| flash_attn(&x[0], &x[1], &x[2], 0.3, causal),
                &|x| attention(&x[0], &x[1], &x[2], 0.3, &|apart| !causal || apart <= 0),
                &inputs,
            );
        }
        check(
            &|x| flash_attn_windowed(&x[0], &x[1], &x[2], 0.3, Some(2), Some(1)),
            &|x| attention(&x[0], &x[1], &x[2], 0.3, &|apart| (-2..=1).contains(&apart)),
            &inputs,
        );
    }
}

#[test]
fn attention_of_sequences() {
    let [q, k, v] = [random(&[9, 2, 8]), random(&[9, 2, 8]), random(&[9, 2, 8])];
    let ends = Tensor::new(&[0u32, 4, 9], &CPU).unwrap();
    let ours = flash_attn_varlen(&q, &k, &v, &ends, &ends, 5, 5, 0.3, true).unwrap();
    for (start, count) in [(0, 4), (4, 5)] {
        let part = |x: &Tensor| x.narrow(0, start, count).unwrap().unsqueeze(0).unwrap();
        let theirs = attention(&part(&q), &part(&k), &part(&v), 0.3, &|apart| apart <= 0).unwrap();
        near(&part(&ours), &theirs, 1e-5, "a sequence");
    }
}

#[test]
fn products() {
    let inputs = [random(&[2, 3, 8]), random(&[5, 8]), random(&[5])];
    let plain = |x: &[Tensor]| x[0].broadcast_matmul(&x[1].t()?)?.broadcast_add(&x[2]);
    for activation in [None, Some(Activation::Relu), Some(Activation::Gelu), Some(Activation::Silu)] {
        let theirs = |x: &[Tensor]| match activation {
            None => plain(x),
            Some(Activation::Relu) => plain(x)?.relu(),
            Some(Activation::Gelu) => plain(x)?.gelu_erf(),
            _ => plain(x)?.silu(),
        };
        check(&|x| linear(&x[0], &x[1], Some(&x[2]), activation), &theirs, &inputs);
    }
    check(&|x| matmul(&x[0], &x[1]), &|x| x[0].matmul(&x[1]), &[random(&[4, 6]), random(&[6, 3])]);
}

#[test]
fn quantized_weights() {
    let (weights, x) = (random(&[5, 64]), random(&[3, 64]).to_dtype(DType::BF16).unwrap());
    for format in [GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4_1] {
        let quantized = QTensor::quantize(&weights, format).unwrap();
        let layer = QLinear::new(&quantized, DType::BF16, &CPU).unwrap();
        let numbers = quantized.dequantize(&CPU).unwrap();
        near(&layer.dequantize().unwrap(), &numbers, 0.02, "weights");
        let theirs = x.to_dtype(DType::F32).unwrap().matmul(&numbers.t().unwrap()).unwrap();
        near(&layer.forward(&x).unwrap(), &theirs.to_dtype(DType::BF16).unwrap(), 0.3, "forward");
        let x = Var::from_tensor(&x).unwrap();
        let grads = layer.forward(&x).unwrap().sum_all().unwrap().backward().unwrap();
        let expected = numbers.sum(0).unwrap().broadcast_as((3, 64)).unwrap().to_dtype(DType::BF16).unwrap();
        near(grads.get(&x).unwrap(), &expected, 0.1, "gradient");
    }
}

#[track_caller]
fn refused(result: Result<Tensor>, expected: &str) {
    let text = result.expect_err("a refusal").to_string();
    assert_eq!(text.lines().next().unwrap_or_default(), expected);
}

#[test]
fn messages() {
    let (x, w) = (random(&[2, 8]), random(&[7]));
    refused(
        ops::rms_norm(&x, &w, 1e-5),
        "rms_norm: argument `alpha`, F32 of shape [7]: the shape must be [8], the last dimension of `xs`",
    );
    refused(
        ops::layer_norm(&x, &random(&[8]), &random(&[8]).to_dtype(DType::BF16).unwrap(), 1e-5),
        "layer_norm: argument `beta`, BF16 of shape [8]: the type must be F32, the type of `xs`",
    );
    refused(
        ops::softmax_last_dim(&x.to_dtype(DType::F64).unwrap()),
        "softmax_last_dim: argument `xs`, F64 of shape [2, 8]: the type must be F32, F16 or BF16",
    );
    refused(
        rotary_emb::rope(&random(&[1, 1, 9, 8]), &random(&[4, 4]), &random(&[9, 4])),
        "rope: argument `cos`, F32 of shape [4, 4]: `xs` is [1, 1, 9, 8]: at least 9 rows of 4 are needed",
    );
    refused(
        flash_attn(&random(&[1, 4, 3, 8]), &random(&[1, 4, 2, 8]), &random(&[1, 4, 2, 8]), 1.0, true),
        "flash_attn: argument `k`, F32 of shape [1, 4, 2, 8]: `q` is [1, 4, 3, 8]: batch and width must be equal, and its heads a \
         multiple",
    );
    refused(
        linear(&x, &random(&[5, 9]), None, None),
        "linear: argument `weight`, F32 of shape [5, 9]: `xs` is [2, 8]: the last dimensions must be equal",
    );
    refused(
        loss::cross_entropy(&x, &w),
        "cross_entropy: argument `target`, F32 of shape [7]: the type must be an integer",
    );
}
