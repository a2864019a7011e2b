//! Empty sums: launches with K = 0 write the value of a sum without terms. They take the kernel without the loops over
//! K, which no other launch takes.

use tilewright::prelude::*;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_sim::{Arg, Options, run, run_every};
use tilewright_tests::inputs::inputs;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::sweep;
use tilewright_tests::tensor::Padding;

/// A product of these keys, with K = 0 and as long as it ever was.
#[track_caller]
fn check(keys: &str) {
    let kernel =
        Words::read(keys).and_then(|words| words.matmul()).unwrap_or_else(|why| panic!("{keys}: {why}"));
    for (m, n) in [(130, 70), (1, 1)] {
        for k in [0, 72] {
            let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 2)];
            let paddings = &[Padding::new(3, 0)];
            let setting = Setting { sizes, paddings, values: Values::Whole, seed: 1, alpha: 0.5, beta: 2.0 };
            let problem = Problem::of(&kernel, &setting);
            let outcomes = run_every(&kernel, &problem.args(), &Options::default())
                .unwrap_or_else(|error| panic!("{keys}, {sizes:?}: {error}"));
            for outcome in &outcomes {
                let wrong = problem.wrong_outcome(outcome);
                assert!(wrong.is_none(), "{keys}, {sizes:?}: {wrong:?}");
                assert_eq!(outcome.variant() >= kernel.variants.len(), k == 0, "{keys}, {sizes:?}");
            }
            assert!(!outcomes.is_empty(), "{keys}, {sizes:?}");
        }
    }
}

#[test]
fn products_on_cuda_cores() {
    check("bm=128");
    check("bm=128 alpha_beta=true a=k_major c=n_major");
    check("arch=90 bias=rows");
    check("bm=64 bn=64 bk=16 schedule=(vec=4 fragments=2) stages=3 batched=true bias=rows");
    check("dtype=f64 mma=none scales=both");
}

#[test]
fn products_by_mma_sync() {
    check("dtype=bf16 arch=80 alpha_beta=true bias=rows");
    check("dtype=f16 batched=true a=k_major stages=3");
    check("dtype=i8 arch=80 acc=i32 a=k_major b=k_major");
}

#[test]
fn products_by_wgmma() {
    for keys in sweep::share(
        [
            "dtype=bf16 arch=90 a=k_major b=k_major alpha_beta=true bias=columns",
            "dtype=f16 arch=90 a=k_major b=k_major schedule=(split_k=4)",
            "dtype=bf16 arch=90 batched=true out=f32",
            "dtype=e4m3 arch=90 a=k_major b=k_major",
        ],
        2,
    ) {
        check(keys);
    }
}

#[test]
fn functions_of_products() {
    const PRODUCT: MatmulKernel<f16> = matmul_kernel!(
        dtype = f16,
        alpha_beta = true,
        residual = before,
        aux = true,
        epilogue = |x| max(x, 1.0)
    );
    let (without_elements, m, n): (&[f16], _, _) = (&[], 70, 45);
    let of = |value: f32| vec![f16::from_f32(value); m * n];
    let done = PRODUCT
        .simulate(&[
            Arg::tensor(without_elements, [m, 0]),
            Arg::tensor(without_elements, [n, 0]),
            Arg::in_out(&of(-2.0), [m, n]),
            Arg::number(3.0f32),
            Arg::number(0.5f32),
            Arg::tensor(&of(-4.0), [m, n]),
            Arg::output::<f16>([m, n]),
        ])
        .unwrap();
    assert_eq!(done.get::<f16>("c").unwrap(), of(1.0));
    assert_eq!(done.get::<f16>("aux").unwrap(), of(-5.0));
}

/// Sums of rows from 1 on; a maximum beside them.
#[kernel]
fn row_sums(x: &Tensor<f32, (M, K), (ldx, _1)>, y: &mut Tensor<f32, M>, most: &mut Tensor<f32, M>) {
    let x = tile(x, (8, 64), (block.x, _));
    let (mut total, mut top) = (full::<f32>((8, 1), 1.0), full::<f32>((8, 1), -5.0));
    for k in 0..x.size(2) {
        total += sum(x[(_, _, k)], 1);
        top = max(top, maximum(x[(_, _, k)], 1));
    }
    copy(total[(_, 0)], tile(y, 8, block.x));
    copy(top[(_, 0)], tile(most, 8, block.x));
}

/// A product with a producer warp.
#[kernel(arch = 90)]
fn linear(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 2).accumulators((128, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc + tile(bias, 64, block.y).along(1), tile(c, (128, 64), (block.x, block.y)));
}

#[test]
fn loops_of_ones_own() {
    inputs(row_sums().def()).written(["M = 19, K = 0", "M = 19, K = 70"]);
    // A block computes one tile, or several.
    inputs(linear().def()).written(["M = 150, N = 70, K = 0"]);
    inputs(linear().def()).multiprocessors(1).written(["M = 150, N = 70, K = 0"]);
}

/// A loop that also writes elements, and writes none without iterations: y(t) = a(t) · y(t - 1) + x(t), and the last.
#[kernel]
fn recurrence(
    a: &Tensor<f32, (D, L)>,
    x: &Tensor<f32, (D, L)>,
    start: &Tensor<f32, D>,
    y: &mut Tensor<f32, (D, L)>,
    last: &mut Tensor<f32, D>,
) {
    let (a, x, y) =
        (tile(a, (32, 64), (block.x, _)), tile(x, (32, 64), (block.x, _)), tile(y, (32, 64), (block.x, _)));
    let first = map(tile(start, 32, block.x).along(0), |x| x);
    let mut state = (full::<f32>((32, 1), 1.0), first);
    for k in 0..a.size(2) {
        let given = map((a[(_, _, k)], x[(_, _, k)]), |a, x| (a, x));
        let compose = |(a, x), (b, y)| (a * b, b * x + y);
        let done = scan(given, (1.0, 0.0), compose, mode = 1, carry = &mut state);
        copy(done.1, y[(_, _, k)]);
    }
    copy(state.1, tile(last, 32, block.x).along(0));
}

#[test]
fn loops_that_write_elements_of_which_there_are_none() {
    inputs(recurrence().def()).near(1e-5, ["D = 45, L = 0", "D = 45, L = 3"]);
}

/// A tile that is filled before a loop, and read after it by other threads. The loop has a barrier, and no iteration.
#[kernel(threads = 256, allow(uncoalesced))]
fn filled_ahead(g: &Tensor<f32, (_32, K), (ldg, _1)>, y: &mut Tensor<f32, (_32, _32), (_1, _32)>) {
    let tiles = tile(g, (32, 32), (0, _));
    let (s, other) = (shared::<f32>((32, 32)), shared::<f32>((32, 32)));
    fill(s, 1.0);
    let mut sums = full::<f32>((32, 32), 0.0);
    for k in 0..tiles.size(2) {
        copy(tiles[(_, _, k)], other);
        sums += permute(other, (1, 0));
    }
    copy(sums + s * permute(s, (1, 0)) + 1.0, y);
}

#[test]
fn barriers_of_loops_without_iterations() {
    inputs(filled_ahead().def()).schedules(10).written(["K = 0", "K = 1", "K = 40"]);
}

/// Elements of an empty sum have coordinates, and some are out of bounds.
mod known {
    use tilewright::prelude::*;

    #[kernel(allow(uncoalesced))]
    pub(super) fn places(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>) {
        let g = tile(x, (2, 8), (block.x, _));
        let mut a = full::<f32>((2, 1), 1.0);
        for k in 0..g.size(2) {
            a += sum(g[(_, _, k)], 1);
        }
        copy(map(a, |a, at| a + at.0 as f32), regroup(tile(y, 2, block.x), (2, 1)));
    }

    #[kernel(allow(unbounded, uncoalesced))]
    pub(super) fn total(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, _1>) {
        let g = tile(x, (64, 8), (0, _));
        let mut a = full::<f32>((64, 1), 1.0);
        for k in 0..g.size(2) {
            a += sum(g[(_, _, k)], 1);
        }
        copy(sum(a), tile(y, 1, 0));
    }

    /// A tile that a loop copies: where it has not, what it was filled with is out of bounds where the tile is.
    #[kernel(allow(unbounded, uncoalesced, unread))]
    pub(super) fn last(x: &Tensor<f32, (M, K)>, z: &Tensor<f32, M>, y: &mut Tensor<f32, _1>) {
        let g = tile(x, (64, 8), (0, _));
        let mut a = full::<f32>((64), 1.0);
        for k in 0..g.size(2) {
            a = map(tile(z, 64, 0), |z| z);
        }
        copy(sum(a), tile(y, 1, 0));
    }

    #[kernel(allow(unbounded, uncoalesced))]
    pub(super) fn counted(x: &Tensor<f32, (M, K)>, y: &mut Tensor<i32, _1>) {
        let g = tile(x, (64, 8), (0, _));
        let mut a = full::<f32>((64, 1), 1.0);
        for k in 0..g.size(2) {
            a += sum(g[(_, _, k)], 1);
        }
        copy(sum(map(a, |a, at| if at.0 < M { 1 } else { 1000 })), tile(y, 1, 0));
    }

    #[kernel(allow(unbounded, uncoalesced))]
    pub(super) fn running(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>, all: &mut Tensor<f32, _1>) {
        let g = tile(x, (64, 8), (0, _));
        let mut a = full::<f32>((64, 1), 1.0);
        let mut most = full::<f32>((1, 1), 0.0);
        for k in 0..g.size(2) {
            a += sum(g[(_, _, k)], 1);
        }
        let s = scan(a, 0.0, |a, b| a + b, mode = 0, carry = &mut most);
        copy(s, regroup(tile(y, 64, 0), (64, 1)));
        copy(most, regroup(tile(all, 1, 0), (1, 1)));
    }

    #[kernel(allow(unbounded, uncoalesced))]
    pub(super) fn reversed(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, _64>) {
        let g = tile(x, (64, 8), (0, _));
        let mut a = full::<f32>((64, 1), 1.0);
        for k in 0..g.size(2) {
            a += sum(g[(_, _, k)], 1);
        }
        scatter(a, y, |a, at| (63 - at.0, a), how = "atomic_add");
    }

    #[kernel(allow(unbounded))]
    pub(super) fn masked(
        a: &Tensor<bf16, (M, K), (lda, _1)>,
        b: &Tensor<bf16, (N, K), (ldb, _1)>,
        y: &mut Tensor<f32, (M, N), (ldc, _1)>,
        rows: &mut Tensor<f32, M>,
    ) {
        let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (0, _)));
        let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
        let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
        for k in pipelined(0..ga.size(2), stages = 2) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        let causal = map(acc, |x, at| if at.1 > at.0 { 0.0 } else { x + 1.0 });
        copy(causal, tile(y, (64, 64), (block.x, 0)));
        copy(sum(causal, 1), regroup(tile(rows, 64, block.x), (64, 1)));
    }

    #[kernel(arch = 90, allow(unbounded))]
    pub(super) fn produced(
        a: &Tensor<bf16, (M, K), (lda, _1)>,
        b: &Tensor<bf16, (N, K), (ldb, _1)>,
        y: &mut Tensor<f32, (M, N), (ldc, _1)>,
        rows: &mut Tensor<f32, M>,
    ) {
        let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (0, _)));
        let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
        let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
        for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        let causal = map(acc, |x, at| if at.1 > at.0 { 0.0 } else { x + 1.0 });
        copy(causal, tile(y, (64, 64), (block.x, 0)));
        copy(sum(causal, 1), regroup(tile(rows, 64, block.x), (64, 1)));
    }
}

#[test]
fn elements_of_empty_sums_have_coordinates_and_edges() {
    for k in [0, 1, 9] {
        for m in [1, 5, 63] {
            let x = vec![0.0f32; m * k];
            let x = || Arg::tensor(&x, [m, k]);
            let run = |def: &KernelDef, args: &[Arg]| {
                let kernel = def.generate().unwrap();
                let done = run(&kernel, args, &Options::default());
                done.unwrap_or_else(|why| panic!("{}, M = {m}, K = {k}: {why}", kernel.name))
            };
            let one = || Arg::output::<f32>([1]);
            let done = run(known::places().def(), &[x(), Arg::output::<f32>([m])]);
            let numbers: Vec<f32> = (1..=m).map(|n| n as f32).collect();
            assert_eq!(done.get::<f32>("y").unwrap(), numbers, "K = {k}");
            let done = run(known::total().def(), &[x(), one()]);
            assert_eq!(done.get::<f32>("y").unwrap(), [m as f32], "K = {k}");
            let ones = vec![1.0f32; m];
            let done = run(known::last().def(), &[x(), Arg::tensor(&ones, [m]), one()]);
            assert_eq!(done.get::<f32>("y").unwrap(), [m as f32], "K = {k}");
            let done = run(known::counted().def(), &[x(), Arg::output::<i32>([1])]);
            assert_eq!(done.get::<i32>("y").unwrap(), [m as i32], "K = {k}");
            let done = run(known::running().def(), &[x(), Arg::output::<f32>([m]), one()]);
            assert_eq!(done.get::<f32>("y").unwrap(), numbers, "K = {k}");
            assert_eq!(done.get::<f32>("all").unwrap(), [m as f32], "K = {k}");
            let done = run(known::reversed().def(), &[x(), Arg::in_out(&[0.0f32; 64], [64])]);
            let wanted: Vec<f32> = (0..64).map(|at| if 63 - at < m { 1.0 } else { 0.0 }).collect();
            assert_eq!(done.get::<f32>("y").unwrap(), wanted, "K = {k}");
        }
    }
}

#[test]
fn masked_products_of_nothing() {
    for def in [known::masked().def(), known::produced().def()] {
        let kernel = def.generate().unwrap();
        for (m, n, k) in [(1, 1, 0), (70, 3, 0), (70, 61, 0), (70, 61, 8)] {
            let zeros = vec![bf16::from_f32(0.0); 128 * 128];
            let given = |rows| Arg::tensor(&zeros, [rows, k]).strides([128, 1]);
            let (y, rows) = (Arg::output::<f32>([m, n]).strides([n, 1]), Arg::output::<f32>([m]));
            let done = run(&kernel, &[given(m), given(n), y, rows], &Options::default());
            let done = done.unwrap_or_else(|why| panic!("{}, {m}, {n}, {k}: {why}", kernel.name));
            let wanted: Vec<f32> = (0..m * n).map(|at| if at % n > at / n { 0.0 } else { 1.0 }).collect();
            assert_eq!(done.get::<f32>("y").unwrap(), wanted, "{}, {m}, {n}, {k}", kernel.name);
            let wanted: Vec<f32> = (0..m).map(|row| n.min(row + 1) as f32).collect();
            assert_eq!(done.get::<f32>("rows").unwrap(), wanted, "{}, {m}, {n}, {k}", kernel.name);
        }
    }
}

/// A kernel that reads elements outside of its loop has no variant for empty sums.
#[kernel]
fn first_and_sum(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (128, 1), (block.x, _));
    let mut total = map(x[(_, _, 0)], |x| 2.0 * x);
    for k in 0..x.size(2) {
        total += x[(_, _, k)];
    }
    copy(total[(_, 0)], tile(y, 128, block.x));
}

#[test]
fn elements_outside_of_loops_are_missed() {
    let kernel = first_and_sum().def().generate().unwrap();
    let without_elements: [f32; 0] = [];
    let message =
        run(&kernel, &[Arg::tensor(&without_elements, [5, 0]), Arg::output::<f32>([5])], &Options::default())
            .unwrap_err()
            .to_string();
    assert!(
        message.contains("`x`: it has no elements, and a tensor that the kernel writes has some"),
        "{message}"
    );
}

/// NVRTC compiles kernels without loops, of every family.
#[test]
fn kernels_without_loops_compile() {
    let nvrtc = match Nvrtc::find(&[]) {
        Ok(nvrtc) => nvrtc,
        Err(absent) if std::env::var_os("TILEWRIGHT_REQUIRE_NVRTC").is_none() => {
            return eprintln!("skipped: no NVRTC\n{absent}");
        }
        Err(error) => panic!("{error}"),
    };
    let product = |keys: &str| Words::read(keys).and_then(|words| words.matmul()).unwrap();
    let products =
        ["bm=128", "dtype=bf16 alpha_beta=true", "dtype=bf16 arch=90 a=k_major b=k_major"].map(product);
    let own = [row_sums().def(), linear().def()].map(|def| def.generate().unwrap());
    for kernel in products.into_iter().chain(own) {
        let without = kernel.empty_loops.iter().find_map(|of| of.variant()).expect(&kernel.name);
        let arch = if without.program.arch >= 90 { "sm_90a" } else { "sm_80" };
        let compiled = nvrtc.compile(&without.source, &kernel.name, arch, &[]);
        compiled.unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
    }
}

/// The same with four warpgroups beside the producer, which have 96 registers a thread when they start.
#[kernel(arch = 90)]
fn by_four_warpgroups(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (256, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((256, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 4).accumulators((256, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (256, 64), (block.x, block.y)));
}

#[test]
fn four_warpgroups_take_no_more_registers_than_the_producer_gives_back() {
    inputs(by_four_warpgroups().def()).written(["M = 256, N = 64, K = 64"]);
}

/// After a product of one stage, scans of columns: they need more registers than consumers take of the producer's.
#[kernel(arch = 90)]
fn scanned_products(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    y: &mut Tensor<f32, (M, N)>,
    z: &mut Tensor<f32, (M, N)>,
) {
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let mma = tiled_mma::<f16, f32>(warpgroups = 2);
    let mut acc = mma.accumulators((128, 64), 0.0);
    let (sa, sb) = (shared::<f16>((128, 64)), shared::<f16>((64, 64)));
    for k in pipelined(0..ga.size(2), stages = 1, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    let sums = map(acc, |x| x + 1.0);
    let ones = full::<f32>((128, 64), 1.0);
    let compose = |(a, x), (b, y)| (a * b, b * x + y);
    let scanned = scan((ones, sums), (1.0, 0.0), compose, mode = 0);
    copy(ones, tile(z, (128, 64), (block.x, block.y)));
    copy(scanned.1 + acc - sums, tile(y, (128, 64), (block.x, block.y)));
}

#[test]
fn registers_are_shared_where_there_are_products() {
    let few = |x: f64| x.trunc() / 4.0;
    inputs(scanned_products().def())
        .with("a", few)
        .with("b", few)
        .near(1e-3, ["M = 128, N = 64, K = 0", "M = 128, N = 64, K = 64"]);
}
