//! Copies under conditions of a pipelined loop's iteration, and copies that the loop does not fetch ahead.

use tilewright::KernelDef;
use tilewright::prelude::*;

use super::compiled;
use tilewright_tests::inputs::inputs;

/// Each block adds the same to its tile of y, element by element.
#[track_caller]
fn check(def: &KernelDef) {
    compiled(def);
    let sizes = ["N = 1", "N = 255", "N = 256", "N = 700", "N = 1024", "N = 1500"];
    let sizes = sizes.map(|sizes| format!("{sizes}, J = 6"));
    let ids = [2, 0, 1, -3, 3, 1];
    let inputs = inputs(def).schedules(4).with("x", f64::round);
    let has_ids = def.params().iter().any(|param| param.name == "ids");
    let inputs = if has_ids { inputs.list("ids", ids) } else { inputs };
    inputs.written(sizes.iter().map(|sizes| &**sizes));
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
    for def in [
        in_a_branch().def(),
        for_later_iterations().def(),
        in_an_inner_loop().def(),
        read_in_a_branch().def(),
        read_everywhere().def(),
        in_both_branches().def(),
        copied_twice().def(),
        in_stages().def(),
        of_threads().def(),
    ] {
        check(def);
    }
    assert!(in_both_branches().source().contains("cp_async_wait<1>"), "{}", in_both_branches().source());
}

#[test]
fn copies_on_integers_of_memory_are_waited_for() {
    check(on_a_loaded_integer().def());
    check(copied_again().def());
}
