//! Sums of nothing: launches with K = 0 write what a sum without terms makes. They take the kernel without the loops over
//! K, which no other launch takes.

use tilewright::prelude::*;
use tilewright_codegen::words::Words;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_sim::{Arg, Options, run, run_every};
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Room;

/// A product of these keys, with K = 0 and as long as it ever was.
#[track_caller]
fn check(keys: &str) {
    let kernel =
        Words::read(keys).and_then(|words| words.matmul()).unwrap_or_else(|why| panic!("{keys}: {why}"));
    for (m, n) in [(130, 70), (1, 1)] {
        for k in [0, 72] {
            let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 2)];
            let rooms = &[Room::new(3, 0)];
            let setting = Setting { sizes, rooms, values: Values::Whole, seed: 1, alpha: 0.5, beta: 2.0 };
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
    check("");
    check("alpha_beta=true a=k_major c=n_major");
    check("bm=64 bn=64 bk=16 vec=4 stages=3 fragments=2 batched=true bias=rows");
    check("dtype=f64 mma=none scales=both");
}

#[test]
fn products_by_mma_sync() {
    check("dtype=bf16 alpha_beta=true bias=rows");
    check("dtype=f16 batched=true a=k_major stages=3");
    check("dtype=i8 acc=i32 a=k_major b=k_major");
}

#[test]
fn products_by_wgmma() {
    check("dtype=bf16 arch=90 a=k_major b=k_major alpha_beta=true bias=columns");
    check("dtype=f16 arch=90 a=k_major b=k_major split_k=4");
    check("dtype=bf16 arch=90 batched=true out=f32");
    check("dtype=e4m3 arch=90 a=k_major b=k_major");
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
    let (nothing, m, n): (&[f16], _, _) = (&[], 70, 45);
    let of = |value: f32| vec![f16::from_f32(value); m * n];
    let done = PRODUCT
        .simulate(&[
            Arg::tensor(nothing, [m, 0]),
            Arg::tensor(nothing, [n, 0]),
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
    let nothing: [f32; 0] = [];
    let kernel = row_sums().def().generate().unwrap();
    let x = Arg::tensor(&nothing, [19, 0]).strides([1, 1]);
    let done =
        run(&kernel, &[x, Arg::output::<f32>([19]), Arg::output::<f32>([19])], &Options::default()).unwrap();
    assert_eq!(done.get::<f32>("y").unwrap(), [1.0; 19]);
    assert_eq!(done.get::<f32>("most").unwrap(), [-5.0; 19]);

    let nothing: [bf16; 0] = [];
    let kernel = linear().def().generate().unwrap();
    let empty = |rows| Arg::tensor(&nothing, [rows, 0]).strides([8, 1]);
    let bias: Vec<f32> = (0..70).map(|n| n as f32).collect();
    let args =
        [empty(150), empty(70), Arg::tensor(&bias, [70]), Arg::output::<f32>([150, 70]).strides([70, 1])];
    let done = run(&kernel, &args, &Options::default()).unwrap();
    assert_eq!(done.get::<f32>("c").unwrap(), bias.repeat(150));
}

/// A loop that also writes elements, of which there are none then: y(t) = a(t) · y(t - 1) + x(t), and the last.
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
    let kernel = recurrence().def().generate().unwrap();
    let start: Vec<f32> = (0..45).map(|n| n as f32).collect();
    for length in [0, 3] {
        let ones = vec![1.0f32; 45 * length];
        let given = || Arg::tensor(&ones, [45, length]);
        let results = [Arg::output::<f32>([45, length]), Arg::output::<f32>([45])];
        let args = [vec![given(), given(), Arg::tensor(&start, [45])], results.to_vec()].concat();
        let done = run(&kernel, &args, &Options::default()).unwrap();
        let wanted: Vec<f32> = start.iter().map(|x| x + length as f32).collect();
        assert_eq!(done.get::<f32>("last").unwrap(), wanted);
    }
}

/// What reads elements outside of its loop has no sum of nothing.
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
    let nothing: [f32; 0] = [];
    let said = run(&kernel, &[Arg::tensor(&nothing, [5, 0]), Arg::output::<f32>([5])], &Options::default())
        .unwrap_err()
        .to_string();
    assert!(said.contains("`x`: it has no elements, and a tensor that the kernel writes has some"), "{said}");
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
    let products = ["", "dtype=bf16 alpha_beta=true", "dtype=bf16 arch=90 a=k_major b=k_major"].map(product);
    let own = [row_sums().def(), linear().def()].map(|def| def.generate().unwrap());
    for kernel in products.into_iter().chain(own) {
        let without = kernel.hollow.iter().find_map(|of| of.variant()).expect(&kernel.name);
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
    let kernel = by_four_warpgroups().def().generate().unwrap();
    let ones = vec![bf16::from_f32(1.0); 256 * 64];
    let args = [
        Arg::tensor(&ones, [256, 64]).strides([64, 1]),
        Arg::tensor(&ones[..64 * 64], [64, 64]).strides([64, 1]),
        Arg::output::<f32>([256, 64]).strides([64, 1]),
    ];
    let done = run(&kernel, &args, &Options::default()).unwrap();
    assert_eq!(done.get::<f32>("c").unwrap(), vec![64.0; 256 * 64]);
}
