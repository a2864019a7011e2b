//! Gates of feed-forward parts and their gradients. A row has the gate, then the factor `up`.

use tilewright::prelude::*;

/// 1 / (1 + exp(-x)) by approximate functions, for memory-bound kernels.
#[device]
fn fast_sigmoid(x: f32) -> f32 {
    fast_div(1.0, 1.0 + fast_exp(-x))
}

/// The function of the gate, by its number: silu, gelu, or gelu by tanh, which is x · sigmoid(2u) where gelu has tanh(u).
#[device]
fn gate_of(x: f32, kind: i32) -> f32 {
    use self::fast_sigmoid;
    if kind == 0 {
        x * fast_sigmoid(x)
    } else if kind == 1 {
        gelu(x)
    } else {
        x * fast_sigmoid(1.5957691216057308 * x * (1.0 + 0.044715 * x * x))
    }
}

/// Its derivative.
#[device]
fn slope_of(x: f32, kind: i32) -> f32 {
    use self::fast_sigmoid;
    let s = fast_sigmoid(x);
    let t = fast_sigmoid(1.5957691216057308 * x * (1.0 + 0.044715 * x * x));
    let normal = 0.5 * (1.0 + erf(0.7071067811865476 * x));
    if kind == 0 {
        s * (1.0 + x * (1.0 - s))
    } else if kind == 1 {
        normal + x * 0.3989422804014327 * fast_exp(-0.5 * x * x)
    } else {
        t * (1.0 + 1.5957691216057308 * x * (1.0 - t) * (1.0 + 0.134145 * x * x))
    }
}

/// y = f(gate) · up, where KIND = 0 is silu, 1 is gelu, and 2 is gelu by tanh.
#[kernel(T = bf16 | f16 | f32, overlaps)]
pub fn gated<T, const KIND: usize = 0>(
    gate_up: &Tensor<T, (M, F, _2), (ld, _1, half)>,
    y: &mut Tensor<T, (M, F), (ldy, _1)>,
) {
    use self::gate_of;
    let (n, i) = walk((ceil_div(F, 2048), M), block.x);
    let both = tile(gate_up, (1, 2048, 1), (i, n, _));
    let function = |gate, up| gate_of(gate as f32, KIND) * up as f32;
    copy(map((both[(_, _, 0, 0)], both[(_, _, 0, 1)]), function), tile(y, (1, 2048), (i, n)));
}

/// Gradients of gate and up.
#[kernel(T = bf16 | f16 | f32)]
pub fn gated_backward<T, const KIND: usize = 0>(
    gate_up: &Tensor<T, (M, F, _2), (ld, _1, half)>,
    dy: &Tensor<T, (M, F), (ldy, _1)>,
    d_gate_up: &mut Tensor<T, (M, F, _2), (ldd, _1, d_half)>,
) {
    use self::{gate_of, slope_of};
    let (n, i) = walk((ceil_div(F, 2048), M), block.x);
    let (both, d_both) = (tile(gate_up, (1, 2048, 1), (i, n, _)), tile(d_gate_up, (1, 2048, 1), (i, n, _)));
    let (gate, up, dy) = (both[(_, _, 0, 0)], both[(_, _, 0, 1)], tile(dy, (1, 2048), (i, n)));
    let (d_gate, d_up) = map((gate, up, dy), |gate, up, dy| {
        let (gate, dy) = (gate as f32, dy as f32);
        (dy * up as f32 * slope_of(gate, KIND), dy * gate_of(gate, KIND))
    });
    copy(d_gate, d_both[(_, _, 0, 0)]);
    copy(d_up, d_both[(_, _, 0, 1)]);
}
