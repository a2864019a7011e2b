//! Copies under conditions of a pipelined loop's iteration, and copies that the loop does not fetch ahead.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_sim::Arg;

use super::{compiled, numbers, results};

const W: usize = 256;

/// The addend of an iteration, from the tiles of x and the iterations so far.
type Step = fn(&dyn Fn(usize) -> f32, usize, &mut f32) -> f32;

/// Each block adds the same to its tile of y, element by element. `step` returns what iteration k adds for an element; it may
/// keep the element of a shared tile, which begins as 1.
#[track_caller]
fn check(def: &KernelDef, ids: Option<&[i32]>, step: Step) {
    let kernel = compiled(def);
    for n in [1, 255, 256, 700, 1024, 1500] {
        let x = numbers(n, 1);
        let at = |tile: usize, i: usize| x.get(tile * W + i).copied().unwrap_or(0.0);
        let sums: Vec<f32> = (0..W)
            .map(|i| {
                let mut kept = 1.0;
                (0..n.div_ceil(W)).map(|k| step(&|tile| at(tile, i), k, &mut kept)).sum()
            })
            .collect();
        let mut args = vec![Arg::tensor(&x, [n])];
        args.extend(ids.map(|ids| Arg::tensor(ids, [ids.len()])));
        args.push(Arg::output::<f32>([n]));
        for y in results::<f32>(&kernel, &args, "y") {
            for (index, y) in y.iter().enumerate() {
                assert_eq!(*y, sums[index % W], "{n}: {index}\n{}", kernel.source());
            }
        }
    }
}

#[kernel]
fn in_a_branch(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 2) {
        copy(g[(_, k)], p);
        a += p;
        if k % 2 == 0 {
            copy(g[(_, 0)], s);
            a += s;
        }
    }
    copy(a, tile(y, 256, block.x));
}

/// The next iterations read the tile that one iteration copies.
#[kernel]
fn for_later_iterations(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    fill(s, 1.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        copy(g[(_, k)], p);
        a += s;
        a += p;
        if k % 2 == 0 {
            copy(g[(_, k)], s);
        }
    }
    copy(a, tile(y, 256, block.x));
}

#[kernel]
fn in_an_inner_loop(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        copy(g[(_, k)], p);
        a += p;
        for j in 0..2 {
            copy(g[(_, j)], s);
            a += s;
        }
    }
    copy(a, tile(y, 256, block.x));
}

/// Read under the condition under which it is copied: that copy runs ahead too.
#[kernel]
fn read_in_a_branch(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        copy(g[(_, k)], p);
        if k % 2 == 0 {
            copy(g[(_, k)], s);
        }
        a += p;
        if k % 2 == 0 {
            a += s;
        }
    }
    copy(a, tile(y, 256, block.x));
}

/// Read in every iteration: the slot of an iteration without a copy would have another tile.
#[kernel]
fn read_everywhere(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 2) {
        copy(g[(_, k)], p);
        if k % 3 == 0 {
            copy(g[(_, k)], s);
        }
        a += p;
        a += s;
    }
    copy(a, tile(y, 256, block.x));
}

#[kernel]
fn on_a_loaded_integer(x: &Tensor<f32, N>, ids: &Tensor<i32, J>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        let j = ids[(k)];
        copy(g[(_, k)], p);
        a += p;
        if j > 0 {
            copy(g[(_, j)], s);
            a += s;
        }
    }
    copy(a, tile(y, 256, block.x));
}

/// One tile after the other is copied to the same elements, as often as an integer says.
#[kernel]
fn copied_again(x: &Tensor<f32, N>, ids: &Tensor<i32, J>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        let j = ids[(k)];
        copy(g[(_, k)], p);
        for i in 0..j {
            copy(g[(_, i)], s);
        }
        a += p;
        for _i in 0..j {
            a += s;
        }
    }
    copy(a, tile(y, 256, block.x));
}

/// Copied in every iteration, from one tensor or the other.
#[kernel]
fn in_both_branches(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p) = (tile(x, 256, _), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        if k % 2 == 0 {
            copy(g[(_, k)], p);
        } else {
            copy(g[(_, 0)], p);
        }
        a += p;
    }
    copy(a, tile(y, 256, block.x));
}

/// Two copies to the same elements; the result is the second copy.
#[kernel]
fn copied_twice(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 2) {
        copy(g[(_, k)], p);
        copy(g[(_, k)], s);
        copy(g[(_, 0)], s);
        a += p + 2.0 * s;
    }
    copy(a, tile(y, 256, block.x));
}

/// Statements with stages around it.
#[kernel]
fn in_stages(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, p, s) = (tile(x, 256, _), shared::<f32>(256), shared::<f32>(256));
    let (mut a, mut b) = (full::<f32>(256, 0.0), full::<f32>(256, 0.0));
    for k in pipelined(0..g.size(1), stages = 4) {
        copy(g[(_, k)], p);
        let t = p * 2.0;
        if k % 2 == 0 {
            copy(g[(_, 0)], s);
            b += s;
        }
        stage(1);
        a += t + p;
    }
    copy(a + b, tile(y, 256, block.x));
}

/// Parts of threads, with the waits that their author writes.
#[kernel]
fn of_threads(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(256);
    let g = parallelize(tile(x, 256, _), t, thread.x);
    let (p, s) = (shared::<f32>(256), shared::<f32>(256));
    let (tp, ts) = (parallelize(p, t, thread.x), parallelize(s, t, thread.x));
    let a = registers_like(tp, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        copy(g[(_, k)], tp);
        if k % 2 == 0 {
            copy(g[(_, 0)], ts);
            cp_async_wait_all();
            sync_threads();
            map((a, ts), a, |a, s| a + s);
            sync_threads();
        }
        map((a, tp), a, |a, p| a + p);
    }
    copy(a, parallelize(tile(y, 256, block.x), t, thread.x));
}

#[test]
fn copies_that_do_not_run_ahead_are_waited_for() {
    check(in_a_branch().def(), None, |x, k, _| x(k) + if k % 2 == 0 { x(0) } else { 0.0 });
    check(for_later_iterations().def(), None, |x, k, kept| {
        let sum = *kept + x(k);
        if k % 2 == 0 {
            *kept = x(k);
        }
        sum
    });
    check(in_an_inner_loop().def(), None, |x, k, _| x(k) + x(0) + x(1));
    check(read_in_a_branch().def(), None, |x, k, _| x(k) * if k % 2 == 0 { 2.0 } else { 1.0 });
    check(read_everywhere().def(), None, |x, k, _| x(k) + x(k / 3 * 3));
    check(in_both_branches().def(), None, |x, k, _| if k % 2 == 0 { x(k) } else { x(0) });
    assert!(in_both_branches().source().contains("cp_async_wait<1>"), "{}", in_both_branches().source());
    check(copied_twice().def(), None, |x, k, _| x(k) + 2.0 * x(0));
    check(in_stages().def(), None, |x, k, _| 3.0 * x(k) + if k % 2 == 0 { x(0) } else { 0.0 });
    check(of_threads().def(), None, |x, k, _| x(k) + if k % 2 == 0 { x(0) } else { 0.0 });
}

const IDS: [i32; 6] = [2, 0, 1, -3, 3, 1];

#[test]
fn copies_on_integers_of_memory_are_waited_for() {
    check(on_a_loaded_integer().def(), Some(&IDS), |x, k, _| {
        x(k) + if IDS[k] > 0 { x(IDS[k] as usize) } else { 0.0 }
    });
    check(copied_again().def(), Some(&IDS), |x, k, _| match IDS[k] {
        count @ 1.. => x(k) + count as f32 * x(count as usize - 1),
        _ => x(k),
    });
}
