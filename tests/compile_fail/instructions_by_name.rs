use tilewright::prelude::*;

#[kernel]
fn instructions_by_name(
    x: &Tensor<f16, {(32, 32)}, (_32, _1)>,
    c: &mut Tensor<f32, {(32, 32)}, (_32, _1)>,
) {
    let s = shared::<f16>(row_major((32, 32)));
    let columns = shared::<bf16>(layout!((32, 32)));
    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((2, 2)));
    let counted = tiled_mma("mma_m16n8k16_bf16", warps = 4);
    let (pa, pb) = (mma.partition_a(s, thread.x), mma.partition_b(s, thread.x));
    let (fa, fb) = (fragment_like(pa), fragment_like(pb));
    let mut acc = fragment_like(mma.partition_c(tile(c, (32, 32), (0, 0)), thread.x), 0.0);

    let rows = mma.partition_a(s, thread.x, how = "ldmatrix_x4");
    let typo = mma.partition_a(s, thread.x, how = "ldmatrix_x5");
    let wide = mma.partition_a(s, thread.x, how = "ldmatrix_x2");
    let other = mma.partition_a(columns, thread.x, how = "ldmatrix_x4");
    let unarranged = counted.partition_a(s, thread.x);
    let named = mma.partition_a(s, thread.x, by = "ldmatrix_x4");
    let whole = fragment_like(s);

    copy(pa, fa, how = "ldmatrix_x4");
    copy(mma.partition_b(s, thread.x, how = "ldmatrix_x4"), fb, how = "ldmatrix_x4");
    copy(x, fa, how = "ldmatrix_x4");
    copy(rows, s, how = "ldmatrix_x4");
    copy(rows, fa, how = "mma_m16n8k16_f16");

    gemm(s, fb, &mut acc, how = "mma_m16n8k16_f16");
    gemm(fa, fb, &mut acc, how = "mma_m16n8k16_bf16");
    gemm(fa, fb, &mut acc, how = "mma_m16n8k16_half");
    gemm(fb, fa, &mut acc, how = "mma_m16n8k16_f16");
    gemm(fa[(_, _, 0)], fb, &mut acc, how = "mma_m16n8k16_f16");
    gemm(fa, fb, &mut acc, how = 16);
}

fn main() {
    println!("{}", instructions_by_name().source());
}
