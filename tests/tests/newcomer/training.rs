//! Losses, gradients of embeddings, sums of segments.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Cross entropy and its gradient; rows whose target is to be ignored have none.
#[kernel]
fn cross_entropy<const W: usize = 256>(
    logits: &Tensor<f32, (M, V), (ldl, _1)>,
    target: &Tensor<i32, M>,
    ignore: i32,
    loss: &mut Tensor<f32, M>,
    grad: &mut Tensor<f32, (M, V), (ldg, _1)>,
) {
    let x = tile(logits, (1, W), (block.x, _));
    let g = tile(grad, (1, W), (block.x, _));
    let t = target[(block.x)];
    if t - ignore == 0 {
        fill(tile(loss, 1, block.x), 0.0);
        for j in 0..g.size(2) {
            fill(g[(_, _, j)], 0.0);
        }
    } else {
        let mut most = full::<f32>((1, 1), f32::NEG_INFINITY);
        let mut total = full::<f32>((1, 1), 0.0);
        for j in 0..x.size(2) {
            let row = map(x[(_, _, j)], |x| x);
            let next = map((most, maximum(row, 1)), |a, b| max(a, b));
            let part = sum(map((row, next), |x, m| exp(x - m)), 1);
            total = map((total, most, next, part), |t, m, n, p| t * exp(m - n) + p);
            most = next;
        }
        let lse = map((most, total), |m, t| m + log(t));
        copy(map(lse, |l| l - logits[(block.x, t)]), tile(loss, 1, block.x).along(1));
        for j in 0..x.size(2) {
            map((x[(_, _, j)], lse), g[(_, _, j)], |x, l, at| exp(x - l) - (at.1 == t) as f32);
        }
    }
}

#[test]
fn losses_and_gradients() {
    inputs(cross_entropy().def())
        .set("ignore = -100")
        .indexed("target", |at, x| if at == 1 { -100.0 } else { x % 10.0 })
        .near(1e-4, ["M = 4, V = 256", "M = 5, V = 777", "M = 3, V = 10"]);
}

/// The gradient of an embedding: rows of the same token add up; one token has no gradient.
#[kernel]
fn embedding_backward(
    ids: &Tensor<i32, T>,
    padding: i32,
    dy: &Tensor<bf16, (T, D), (ldy, _1)>,
    dw: &mut Tensor<f32, (V, D), (ldw, _1)>,
) {
    let id = ids[(block.x)];
    if id - padding != 0 {
        copy(tile(dy, (1, 128), (block.x, block.y)), tile(dw, (1, 128), (id, block.y)), how = "atomic_add");
    }
}

#[test]
fn gradients_of_embeddings() {
    inputs(embedding_backward().def())
        .below("ids", 7)
        .zero("dw")
        .written(["padding = 3, T = 20, D = 200, V = 7"]);
}

/// Sums of segments of rows, which offsets delimit.
#[kernel]
fn segment_sum(
    offsets: &Tensor<i32, { S + 1 }>,
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    y: &mut Tensor<f32, (S, D), (ldy, _1)>,
) {
    let mut total = full::<f32>((1, 64), 0.0);
    for i in offsets[(block.x)]..offsets[(block.x + 1)] {
        total += tile(x, (1, 64), (i, block.y));
    }
    copy(total, tile(y, (1, 64), (block.x, block.y)));
}

#[test]
fn segments_add_up() {
    inputs(segment_sum().def()).list("offsets", [0, 3, 3, 10, 11]).written(["S = 4, N = 11, D = 70"]);
}

/// A^T A; only tiles on and below the diagonal are computed.
#[kernel]
fn gram<const B: usize = 32, const BK: usize = 16>(
    a: &Tensor<f32, (K, N), (lda, _1)>,
    c: &mut Tensor<f32, (N, N), (ldc, _1)>,
) {
    let (i, j) = walk((ceil_div(N, B), ceil_div(N, B)), block.x);
    if j <= i {
        let at = permute(a, (1, 0));
        let (ga, gb) = (tile(at, (B, BK), (i, _)), tile(at, (B, BK), (j, _)));
        let (sa, sb) = (shared::<f32>((B, BK)), shared::<f32>((B, BK)));
        let mut acc = full::<f32>((B, B), 0.0);
        for k in pipelined(0..ga.size(2), stages = 2) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        copy(acc, tile(c, (B, B), (i, j)));
    }
}

#[test]
fn half_of_a_symmetric_product() {
    inputs(gram().def()).zero("c").written(["K = 37, N = 70"]);
}
