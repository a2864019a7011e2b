//! Register tiles that leave through shared memory, because threads hold narrow, scattered pieces of rows.

use crate::inputs;
use tilewright::prelude::*;

/// y = 2 x + 1 by rows, and z, the same by columns: threads can have pieces of rows or of columns.
#[kernel(allow(uncoalesced))]
fn turned<const BM: usize = 64, const BN: usize = 64>(
    x: &Tensor<bf16, (M, N)>,
    z: &mut Tensor<bf16, (M, N)>,
    y: &mut Tensor<bf16, (M, N), (ldy, _1)>,
) {
    let t = map(tile(x, (BM, BN), (block.x, block.y)), |x| 2.0 * x + 1.0);
    copy(t, tile(z, (BM, BN), (block.x, block.y)));
    copy(t, tile(y, (BM, BN), (block.x, block.y)));
}

/// The same in every iteration, by functions that write.
#[kernel(allow(uncoalesced))]
fn in_a_loop(
    x: &Tensor<bf16, (M, N)>,
    z: &mut Tensor<bf16, (M, N)>,
    y: &mut Tensor<bf16, (M, N), (ldy, _1)>,
) {
    let gx = tile(x, (32, 64), (block.x, _));
    let (gz, gy) = (tile(z, (32, 64), (block.x, _)), tile(y, (32, 64), (block.x, _)));
    for n in 0..gx.size(2) {
        let t = map(gx[(_, _, n)], |x| 2.0 * x);
        map(t, gz[(_, _, n)], |t| t + 1.0);
        map(t, gy[(_, _, n)], |t| t + 1.0);
    }
}

#[test]
fn rows_and_columns() {
    let turned = |m, n| turned().specialize(&[("BM", m), ("BN", n)]).unwrap().def().clone();
    for def in [turned(64, 64), turned(48, 40), turned(128, 24), in_a_loop().def().clone()] {
        let kernel = def.generate().unwrap();
        assert_eq!(kernel.variants[0].program.shared.len(), 1, "{}", kernel.source());
        inputs(&def).written(["M = 128, N = 192", "M = 65, N = 67", "M = 7, N = 130", "M = 1, N = 1"]);
    }
}

/// A product with two results: both leave through the main loop's shared memory.
#[kernel]
fn two_results(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
    d: &mut Tensor<bf16, (M, N), (ldd, _1)>,
    e: &mut Tensor<f32, (M, N), (lde, _1)>,
) {
    let (ga, gw) = (tile(a, (64, 32), (block.x, _)), tile(w, (64, 32), (block.y, _)));
    let (sa, sw) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        gemm(sa, sw, &mut acc);
    }
    let at = (block.x, block.y);
    copy(acc, tile(c, (64, 64), at));
    copy(map(acc, |x| -x), tile(d, (64, 64), at));
    copy(acc, tile(e, (64, 64), at));
}

#[test]
fn results_in_the_place_of_operands() {
    let kernel = two_results().def().generate().unwrap();
    let program = &kernel.variants[0].program;
    assert_eq!(program.launch.shared_bytes, 2 * 64 * 32 * 2 * 3, "no more than the main loop's");
    let staged: Vec<&str> = program.shared.iter().map(|array| array.name.as_str()).collect();
    // A row of eight sums of f32 is a sector.
    assert_eq!(staged, ["sa", "sw", "c_staged", "d_staged"]);
    inputs(two_results().def()).written([
        "M = 64, N = 64, K = 64",
        "M = 65, N = 70, K = 33",
        "M = 3, N = 8, K = 100",
    ]);
}
