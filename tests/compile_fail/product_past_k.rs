use tilewright::prelude::*;

#[kernel]
fn computed(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in 0..a.size(2) {
        copy(exp(a[(_, _, k)]), sa);
        copy(b[(_, _, k)] + 1.0, sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

#[kernel]
fn converted(a: &Tensor<i8, (M, K), (lda, _1)>, b: &Tensor<f32, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<i8>((32, 32)), shared::<f32>((32, 32)));
    let mut acc = tiled_mma::<f16, f32>(warps = 4).accumulators((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        let inverse = map(sb, |x, at| if at.0 < N { (1.0 / x) as f16 } else { 0.0 });
        gemm(map(sa, |x| x as f16), inverse, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

#[kernel]
fn unknown(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, s: &Tensor<f32, M>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let s = tile(s, 32, block.x).along(0);
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in 0..a.size(2) {
        copy(exp(a[(_, _, k)] - s), sa);
        copy(b[(_, _, k)], sb, fill = 1.0);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

/// The functions are 0 past the end of K for most coordinates and elements.
#[kernel]
fn somewhere(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, s: &Tensor<f32, M>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let s = tile(s, 32, block.x).along(0);
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in 0..a.size(2) {
        copy(map((a[(_, _, k)], s), |x, s| if s == 7.0 { 1.0 } else { x }), sa);
        copy(map(b[(_, _, k)], |x, at| if (at.1 < K) | (at.1 == K + 3) { exp(x) } else { 0.0 }), sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

fn main() {
    println!("{} {} {} {}", computed().source(), converted().source(), unknown().source(), somewhere().source());
}
