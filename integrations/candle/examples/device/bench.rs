//! Times of operators beside candle's own.

use std::time::Instant;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use tilewright_candle as tilewright;

use crate::train::candle_attention;

/// Microseconds of a call: the best of three averages.
fn time(device: &Device, work: &dyn Fn() -> Result<Tensor>) -> Result<f64> {
    let count = if device.is_cpu() { 2 } else { 50 };
    let mut best = f64::INFINITY;
    work()?;
    for _ in 0..3 {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..count {
            work()?;
        }
        device.synchronize()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    }
    Ok(best)
}

type Function<'f> = &'f dyn Fn(&[Tensor]) -> Result<Tensor>;

fn row(name: &str, inputs: &[Tensor], ours: Function, theirs: Function) -> Result<()> {
    let device = inputs[0].device();
    let (ours, theirs) = (time(device, &|| ours(inputs))?, time(device, &|| theirs(inputs))?);
    println!("| {name} | {ours:.1} | {theirs:.1} | {:.2} |", theirs / ours);
    Ok(())
}

/// Result and gradients.
fn gradients(function: Function, inputs: &[Tensor]) -> Result<Tensor> {
    let variables = inputs.iter().map(Var::from_tensor).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<Tensor> = variables.iter().map(|of| of.as_tensor().clone()).collect();
    let grads = function(&inputs)?.backward()?;
    Ok(grads.get(&variables[0]).cloned().unwrap_or_else(|| inputs[0].clone()))
}

pub(crate) fn run(device: &Device) -> Result<()> {
    let scale = if device.is_cpu() { 64 } else { 1 };
    let random = |dims: &[usize]| Tensor::randn(0f32, 1.0, dims, device)?.to_dtype(DType::BF16);
    println!(
        "bf16, microseconds\n\n| operator | tilewright | candle | candle / tilewright |\n|---|---|---|---|"
    );
    let (rows, width) = (8192 / scale, 4096);
    let x = [random(&[rows, width])?, random(&[width])?, random(&[width])?];
    let size = format!("{rows}×{width}");
    let norm: (Function, Function) = (&|x| tilewright::ops::rms_norm(&x[0], &x[1], 1e-5), &|x| {
        candle_nn::ops::rms_norm(&x[0], &x[1], 1e-5)
    });
    row(&format!("rms_norm {size}"), &x, norm.0, norm.1)?;
    row(&format!("rms_norm {size}, with gradients"), &x[..2], &|x| gradients(norm.0, x), &|x| {
        gradients(&|x| candle_nn::ops::rms_norm_slow(&x[0], &x[1], 1e-5), x)
    })?;
    row(
        &format!("layer_norm {size}"),
        &x,
        &|x| tilewright::ops::layer_norm(&x[0], &x[1], &x[2], 1e-5),
        &|x| candle_nn::ops::layer_norm(&x[0], &x[1], &x[2], 1e-5),
    )?;
    row(&format!("softmax_last_dim {size}"), &x, &|x| tilewright::ops::softmax_last_dim(&x[0]), &|x| {
        candle_nn::ops::softmax_last_dim(&x[0])
    })?;
    row(&format!("swiglu {size}"), &x, &|x| tilewright::ops::swiglu(&x[0]), &|x| {
        candle_nn::ops::swiglu(&x[0])
    })?;
    let positions = 4096 / scale;
    let heads = [random(&[2, 16, positions, 128])?, random(&[positions, 64])?, random(&[positions, 64])?];
    row(
        &format!("rope 2×16×{positions}×128"),
        &heads,
        &|x| tilewright::rotary_emb::rope(&x[0], &x[1], &x[2]),
        &|x| candle_nn::rotary_emb::rope(&x[0], &x[1], &x[2]),
    )?;
    let dims = [2, positions, 16, 128];
    let qkv = [random(&dims)?, random(&dims)?, random(&dims)?];
    row(
        &format!("flash_attn 2×{positions}×16×128, causal"),
        &qkv,
        &|x| tilewright::flash_attn(&x[0], &x[1], &x[2], 0.125, true),
        &|x| candle_attention(&x[0], &x[1], &x[2]),
    )?;
    let (count, tokens) = (4096 / scale, 32768);
    let logits = random(&[count, tokens])?;
    let target = Tensor::arange(0u32, count as u32, device)?;
    row(
        &format!("cross_entropy {count}×{tokens}"),
        &[logits],
        &|x| tilewright::loss::cross_entropy(&x[0], &target),
        &|x| {
            let log = candle_nn::ops::log_softmax(&x[0].to_dtype(DType::F32)?, D::Minus1)?;
            candle_nn::loss::nll(&log, &target)
        },
    )?;
    let size = 4096 / if device.is_cpu() { 8 } else { 1 };
    let x = [random(&[size, size])?, random(&[size, size])?, random(&[size])?];
    row(
        &format!("linear {size}³ with bias and gelu"),
        &x,
        &|x| tilewright::linear(&x[0], &x[1], Some(&x[2]), Some(tilewright::Activation::Gelu)),
        &|x| x[0].matmul(&x[1].t()?)?.broadcast_add(&x[2])?.gelu_erf(),
    )
}
