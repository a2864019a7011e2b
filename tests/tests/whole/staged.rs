//! Register tiles that leave through shared memory, because threads hold narrow, scattered pieces of rows.

use tilewright::prelude::*;
use tilewright_fuzz::written_with;
use tilewright_sim::{Arg, run_every};

use crate::elements::{bits, numbers, options};

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
    let turned = |m, n| turned().specialize(&[("BM", m), ("BN", n)]).unwrap().def().generate().unwrap();
    let kernels = [turned(64, 64), turned(48, 40), turned(128, 24), in_a_loop().def().generate().unwrap()];
    for kernel in &kernels {
        assert_eq!(kernel.variants[0].program.shared.len(), 1, "{}", kernel.source());
        for (m, n) in [(128, 192), (65, 67), (7, 130), (1, 1)] {
            let x = numbers(m * n, 3);
            let columns: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
            let rows: Vec<f32> = (0..m * n).map(|at| columns[at / n + at % n * m]).collect();
            let args = [
                Arg::tensor(&bits(&x), [m, n]).strides([1, m]),
                Arg::output::<bf16>([m, n]).strides([1, m]),
                Arg::output::<bf16>([m, n]).strides([n, 1]),
            ];
            for outcome in run_every(kernel, &args, &options()).unwrap_or_else(|e| panic!("{m} {n}: {e}")) {
                assert_eq!(outcome.get::<bf16>("z").unwrap(), bits(&columns), "{m} {n}");
                assert_eq!(outcome.get::<bf16>("y").unwrap(), bits(&rows), "{m} {n}");
            }
        }
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
    for (m, n, k) in [(64, 64, 64), (65, 70, 33), (3, 8, 100)] {
        let (a, w) = (numbers(m * k, 1), numbers(n * k, 2));
        let args = [
            Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
            Arg::tensor(&bits(&w), [n, k]).strides([k, 1]),
            Arg::output::<bf16>([m, n]).strides([n, 1]),
            Arg::output::<bf16>([m, n]).strides([n, 1]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        written_with(two_results().def(), &args, &options());
    }
}
