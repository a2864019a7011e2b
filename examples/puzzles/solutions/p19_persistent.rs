//! Blocks take ceil(tiles / 3) tiles each. In the last iteration some blocks have a tile that is out of bounds,
//! which no statement writes.

use tilewright::prelude::*;

/// y = 2x, by 3 blocks.
#[kernel]
pub fn resident<const BLOCKS: usize = 3>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let first = walk(BLOCKS, block.x);
    let tiles = ceil_div(N, 64);
    for n in 0..ceil_div(tiles, BLOCKS) {
        let t = first + n * BLOCKS;
        copy(2.0 * tile(x, 64, t), tile(y, 64, t));
    }
}
