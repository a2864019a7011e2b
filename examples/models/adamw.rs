//! A step of an optimiser.

use tilewright::prelude::*;

/// AdamW with moments in f32. Gradients are multiplied by `scale`. The corrections are 1 - beta1ᵗ and 1 - beta2ᵗ in step t. Weights in f32
/// may have a copy in the type of the gradients, for the model.
#[kernel(T = f32 | bf16 | f16, G = bf16 | f16 | f32)]
pub fn adamw<T, G>(
    rate: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    decay: f32,
    correction1: f32,
    correction2: f32,
    scale: f32,
    gradients: &Tensor<G, N>,
    m: &mut Tensor<f32, N>,
    v: &mut Tensor<f32, N>,
    weights: &mut Tensor<T, N>,
    rounded: Option<&mut Tensor<G, N>>,
) {
    let (g, w) = (tile(gradients, 1024, block.x), tile(weights, 1024, block.x));
    let (m, v) = (tile(m, 1024, block.x), tile(v, 1024, block.x));
    let (next_m, next_v) = map((g, m, v), |g, m, v| {
        let g = g as f32 * scale;
        (beta1 * m + (1.0 - beta1) * g, beta2 * v + (1.0 - beta2) * g * g)
    });
    let next = map((w, next_m, next_v), |w, m, v| {
        let (c, d) = (rate / correction1, 1.0 / correction2);
        w as f32 * (1.0 - rate * decay) - c * m / (sqrt(v * d) + epsilon)
    });
    copy(next_m, m);
    copy(next_v, v);
    copy(next, w);
    if let Some(rounded) = rounded {
        copy(next, tile(rounded, 1024, block.x));
    }
}
