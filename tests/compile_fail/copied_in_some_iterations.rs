use tilewright::prelude::*;

#[kernel]
fn copied_in_some_iterations(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (g, s) = (tile(x, 256, _), shared::<f32>(256));
    let mut a = full::<f32>(256, 0.0);
    for k in pipelined(0..g.size(1), stages = 2) {
        if k % 2 == 0 {
            copy(g[(_, k)], s);
        }
        a += s;
    }
    copy(a, tile(y, 256, block.x));
}

#[kernel]
fn waits_for_some_groups(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(256);
    let (g, p, s) = (parallelize(tile(x, 256, _), t, thread.x), shared::<f32>(256), shared::<f32>(256));
    let (tp, ts) = (parallelize(p, t, thread.x), parallelize(s, t, thread.x));
    let a = registers_like(tp, 0.0);
    for k in pipelined(0..g.size(1), stages = 3) {
        copy(g[(_, k)], tp);
        if k % 2 == 0 {
            copy(g[(_, 0)], ts);
            cp_async_wait(1);
            map((a, ts), a, |a, s| a + s);
        }
        map((a, tp), a, |a, p| a + p);
    }
    copy(a, parallelize(tile(y, 256, block.x), t, thread.x));
}

fn main() {
    println!("{}", copied_in_some_iterations().source());
    println!("{}", waits_for_some_groups().source());
}
