//! Blocks of one launch that cooperate: a sum in one launch, cumulative sums in one pass, a product whose blocks divide K, and
//! a queue of tiles. `cargo run --release --example between_blocks`
//!
//! Counts and flags must be 0 at launch. The sum and the product set their counts back to 0 for the next launch.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// The sum of all elements: each block stores its partial sum, and the last block to arrive adds them in order of the blocks.
#[kernel]
pub fn total(
    x: &Tensor<f32, N>,
    parts: &mut Tensor<f32, { ceil_div(N, 1024) }>,
    arrived: &mut Tensor<i32, _1>,
    y: &mut Tensor<f32, _1>,
) {
    copy(sum(tile(x, 1024, block.x)), tile(parts, 1, block.x));
    let before = copy(1, arrived, how = "atomic_add");
    if before[(0)] == parts.size(0) - 1 {
        let mut all = full::<f32>(1, 0.0);
        for k in 0..ceil_div(parts.size(0), 256) {
            all += sum(tile(parts, 256, k));
        }
        copy(all, y);
        copy(0, arrived); // for the next launch
    }
}

/// Cumulative sums in one pass: blocks take tiles in the order in which they begin, and wait for the block of the previous tile.
#[kernel]
pub fn running_sum(
    x: &Tensor<f32, N>,
    ticket: &mut Tensor<i32, _1>,
    flags: &mut Tensor<i32, { ceil_div(N, 512) }>,
    ends: &mut Tensor<f32, { ceil_div(N, 512) }>,
    y: &mut Tensor<f32, N>,
) {
    let _ = walk(flags.size(0), block.x);
    let begun = copy(1, ticket, how = "atomic_add", order = "relaxed");
    let t = begun[(0)];
    let mut start = full::<f32>(1, 0.0);
    let own = scan(tile(x, 512, t), 0.0, |a, b| a + b, carry = &mut start);
    wait(flags[(t - 1)], 1);
    let before = map(tile(ends, 1, t - 1), |x| x);
    copy(start + before, tile(ends, 1, t));
    signal(flags[(t)]);
    copy(own + before, tile(y, 512, t));
}

/// C = A·Bᵀ where S blocks divide K, and the last of them to arrive adds their partial products in order.
#[kernel]
pub fn split_k<const S: usize = 3>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    parts: &mut Tensor<f32, { (M, N, S) }>,
    arrived: &mut Tensor<i32, { (ceil_div(M, 64), ceil_div(N, 64)) }>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
    let part = walk(S, block.z);
    let per = ceil_div(ga.size(2), S);
    for k in pipelined(part * per..min(ga.size(2), part * per + per), stages = 3) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(parts, (64, 64, 1), (block.x, block.y, part))[(_, _, 0)]);
    let before = copy(1, arrived[(block.x, block.y)], how = "atomic_add");
    if before[(0)] == S - 1 {
        let mut all = full::<f32>((64, 64), 0.0);
        for s in 0..S {
            all += tile(parts, (64, 64, 1), (block.x, block.y, s))[(_, _, 0)];
        }
        copy(all, tile(c, (64, 64), (block.x, block.y)));
        copy(0, arrived[(block.x, block.y)]);
    }
}

/// A queue of tiles: each block takes the next tile until none is left.
#[kernel]
pub fn queued<const BLOCKS: usize = 3>(
    x: &Tensor<f32, N>,
    next: &mut Tensor<i32, _1>,
    y: &mut Tensor<f32, N>,
) {
    let _ = walk(BLOCKS, block.x);
    loop {
        let taken = copy(1, next, how = "atomic_add", order = "relaxed");
        let t = taken[(0)];
        if t >= ceil_div(N, 256) {
            break;
        }
        copy(2.0 * tile(x, 256, t), tile(y, 256, t));
    }
}

/// All kernels of this file.
pub fn all() -> [(&'static str, KernelDef); 4] {
    [
        ("total", total().def().clone()),
        ("running_sum", running_sum().def().clone()),
        ("split_k", split_k().def().clone()),
        ("queued", queued().def().clone()),
    ]
}

/// Runs them in the simulator, which reports unordered accesses of different blocks, and waits that never end.
pub fn main() -> Result<(), tilewright::sim::Error> {
    let n = 5000;
    let (x, zero) = (vec![1.0f32; n], [0i32]);
    let parts = Arg::in_out(&[0.0f32; 5], [5]);
    let done =
        total().simulate(&[Arg::tensor(&x, [n]), parts, Arg::in_out(&zero, [1]), Arg::output::<f32>([1])])?;
    println!("{done}\nthe sum: {:?}", done.get::<f32>("y")?);

    let (flags, ends) = (Arg::in_out(&[0i32; 10], [10]), Arg::in_out(&[0.0f32; 10], [10]));
    let args = [Arg::tensor(&x, [n]), Arg::in_out(&zero, [1]), flags, ends, Arg::output::<f32>([n])];
    let sums = running_sum().simulate(&args)?.get::<f32>("y")?;
    println!("the last of the cumulative sums: {:?}", sums.last());

    let (m, k) = (128, 200);
    let ones = vec![bf16::from_f32(1.0); m * k];
    let ab = || Arg::tensor(&ones, [m, k]).strides([k, 1]);
    let parts = Arg::in_out(&vec![0.0f32; m * m * 3], [m, m, 3]);
    let args = [ab(), ab(), parts, Arg::in_out(&[0i32; 4], [2, 2]), Arg::output::<f32>([m, m])];
    let c = split_k().simulate(&args)?.get::<f32>("c")?;
    println!("sums over K: {:?} …", &c[..2]);

    let args = [Arg::tensor(&x, [n]), Arg::in_out(&zero, [1]), Arg::output::<f32>([n])];
    let y = queued().simulate(&args)?.get::<f32>("y")?;
    println!("tiles of a queue: {:?} …", &y[..2]);
    Ok(())
}
