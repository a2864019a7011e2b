//! The gate of a feed-forward part.

use tilewright::prelude::*;

/// y = silu(gate) · up, where a row has both, one after the other.
#[kernel(T = f16 | bf16)]
pub fn gate<T>(gate_up: &Tensor<T, (M, F, _2), (ld, _1, half)>, y: &mut Tensor<T, (M, F), (ldy, _1)>) {
    let both = tile(gate_up, (1, 1024, 1), (block.x, block.y, _));
    let gated = map((both[(_, _, 0, 0)], both[(_, _, 0, 1)]), |gate, up| silu(gate as f32) * up as f32);
    copy(gated, tile(y, (1, 1024), (block.x, block.y)));
}
