//! Waits for blocks that may not have begun, orders of memory, and loops that cannot be left.

use tilewright::prelude::*;

/// The block before may not have begun.
#[kernel]
fn chained(x: &Tensor<f32, N>, flags: &mut Tensor<i32, { ceil_div(N, 256) }>, y: &mut Tensor<f32, N>) {
    wait(flags[(block.x - 1)], 1);
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
    signal(flags[(block.x)]);
}

#[kernel]
fn two_flags(flags: &mut Tensor<i32, N>) {
    signal(tile(flags, 2, block.x));
}

#[kernel]
fn unknown_order(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    copy(tile(x, 256, block.x), tile(y, 256, block.x), how = "atomic_add", order = "seq_cst");
}

#[kernel]
fn order_of_a_copy(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    copy(tile(x, 256, block.x), tile(y, 256, block.x), order = "release");
}

#[kernel]
fn spins(flag: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    while flag[(block.x)] == 0 {}
    copy(1, tile(y, 1, block.x));
}

#[kernel]
fn endless(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    loop {
        copy(tile(x, 256, block.x), tile(y, 256, block.x));
    }
}

#[kernel]
fn leaves_a_pipeline(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (64, 16), (block.x, _));
    let s = shared::<f32>((64, 16));
    let mut total = full::<f32>((64, 1), 0.0);
    for k in pipelined(0..x.size(2), stages = 2) {
        copy(x[(_, _, k)], s);
        total += sum(s, 1);
        if sum(total) > 100.0 {
            break;
        }
    }
    copy(total[(_, 0)], tile(y, 64, block.x));
}

#[kernel]
fn leaves_nothing(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    for k in unroll(0..4) {
        if block.x == k {
            break;
        }
    }
    break;
    copy(tile(x, 256, block.x), tile(y, 256, block.x));
}

/// Each thread would leave in another iteration.
#[kernel]
fn by_threads(x: &Tensor<f32, (_256, N)>, y: &mut Tensor<f32, _256>) {
    let t = layout!(256);
    let mut total = registers::<f32>(1, 0.0);
    for k in 0..N {
        total += parallelize(tile(x, (256, 1), (0, k))[(_, 0)], t, thread.x);
        copy(block_sum(total), total);
        if total > 10.0 {
            break;
        }
    }
    copy(total, parallelize(tile(y, 256, block.x), t, thread.x));
}

/// The producer does not know the sum.
#[kernel]
fn produced(x: &Tensor<bf16, (M, K), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let gx = tile(x, (64, 64), (_, _));
    let s = shared::<bf16>((64, 64));
    for m in 0..gx.size(2) {
        let mut total = full::<f32>((64, 1), 0.0);
        for k in pipelined(0..gx.size(3), stages = 2, producer = warp) {
            copy(gx[(_, _, m, k)], s);
            total += sum(s, 1);
        }
        copy(total[(_, 0)], tile(y, 64, m));
        if sum(total) > 100.0 {
            break;
        }
    }
}

/// Expected values, and their statements.
#[kernel]
fn compared(x: &Tensor<i32, N>, f: &Tensor<f32, N>, y: &mut Tensor<i32, N>, z: &mut Tensor<f32, N>) {
    let (x, f, y, z) =
        (tile(x, 256, block.x), tile(f, 256, block.x), tile(y, 256, block.x), tile(z, 256, block.x));
    copy(x, y, how = "atomic_compare_exchange");
    copy(x, y, how = "atomic_add", expected = 0);
    copy(f, z, how = "atomic_compare_exchange", expected = 0.0);
    copy(x, y, how = "atomic_compare_exchange", expected = f);
    copy(x, y, how = "atomic_compare_exchange", expected = "nothing");
    copy(x, y, expected = 0);
}

/// The elements of a tile are flags of blocks that may not have begun.
#[kernel]
fn windows(flags: &mut Tensor<u64, N>) {
    wait(tile(flags, 32, block.x), 1);
}

/// What can be awaited, and in which order.
#[kernel]
fn awaited(x: &mut Tensor<f32, N>, n: &Tensor<i32, N>, flags: &mut Tensor<u64, N>) {
    wait(tile(x, 32, block.x), 1);
    wait(tile(n, 32, block.x), 1);
    wait(tile(flags, 32, block.x), 1, order = "release");
    wait(tile(flags, 32, block.x), 0.5);
}

fn main() {}
