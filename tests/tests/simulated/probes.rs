//! Assertions and prints of a running kernel: what the simulator shows, and that other kernels do not have them.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_sim::{Arg, Error, FaultKind, Options, Outcome, run};

#[track_caller]
fn outcome(def: &KernelDef, args: &[Arg]) -> Result<Outcome, Error> {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error}"));
    run(&kernel, args, &Options { locations: Some(def.locations()), ..Options::default() })
}

/// The message of a failed assertion, without its line.
#[track_caller]
fn failure(def: &KernelDef, args: &[Arg]) -> String {
    match outcome(def, args) {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kind(), FaultKind::Assertion, "{fault}");
            assert!(fault.to_string().contains("simulated/probes.rs:"), "{fault}");
            fault.message().to_owned()
        }
        other => panic!("{}: {other:?}", def.name()),
    }
}

/// What a kernel prints, without the numbers of lines.
#[track_caller]
fn printed(def: &KernelDef, args: &[Arg]) -> Vec<String> {
    let outcome = outcome(def, args).unwrap_or_else(|error| panic!("{error}"));
    let without_line = |text: &String| {
        let (name, rest) = text.split_once(" at ").expect("a line");
        format!("{name}{}", &rest[rest.find(',').expect("a block")..])
    };
    outcome.printed().iter().map(without_line).collect()
}

#[kernel]
fn positive(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let x = tile(x, (16, 8), (block.x, block.y));
    assert_device(x >= 0.0, "weights are positive");
    map(x, tile(y, (16, 8), (block.x, block.y)), |x| sqrt(x));
}

#[kernel]
fn positive_unchecked(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let x = tile(x, (16, 8), (block.x, block.y));
    map(x, tile(y, (16, 8), (block.x, block.y)), |x| sqrt(x));
}

#[test]
fn elements_are_checked() {
    let mut x = vec![1.0f32; 20 * 10];
    let run = |x: &[f32]| [Arg::tensor(x, [20, 10]), Arg::output::<f32>([20, 10])];
    // Elements out of bounds are not checked.
    assert!(outcome(positive().def(), &run(&x)).is_ok());
    x[17 + 20 * 9] = -1.0;
    let message = failure(positive().def(), &run(&x));
    let start = "the assertion `weights are positive` failed in thread ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with(" of block (1, 1, 0), for the element (1, 1)"), "{message}");
}

/// Launches leave assertions out.
#[test]
fn launches_have_no_probes() {
    let [with, without] = [positive().def().clone(), positive_unchecked().def().clone()]
        .map(|def| def.generate().unwrap_or_else(|error| panic!("{error}")));
    assert!(with.with_probes.is_some() && without.with_probes.is_none());
    let sources = |kernel: &tilewright_codegen::Generated| -> Vec<String> {
        kernel.variants.iter().map(|variant| variant.source.replace("_unchecked", "")).collect()
    };
    assert_eq!(sources(&with), sources(&without));
}

#[kernel]
fn bounded(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let (x, y) = (tile(x, 32, block.x), tile(y, 32, block.x));
    for i in 0..N {
        assert_device(i < 40 + block.x, "few iterations");
    }
    copy(x, y);
}

#[test]
fn integers_are_named() {
    let args = |n: usize| [Arg::tensor(&vec![1; n], [n]), Arg::output::<i32>([n])];
    assert!(outcome(bounded().def(), &args(40)).is_ok());
    let message = failure(bounded().def(), &args(41));
    assert!(message.ends_with(" of block (0, 0, 0), where i = 40 and block.x + 40 = 40"), "{message}");
}

#[kernel(allow(uncoalesced))]
fn prints(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let (x, y) = (tile(x, (2, 4), (block.x, _)), tile(y, (2, 4), (block.x, _)));
    let shared_x = shared::<f32>((2, 4));
    for k in 0..x.size(2) {
        copy(x[(_, _, k)], shared_x);
        print(shared_x, block = 1);
        let doubled = shared_x + shared_x;
        print(doubled, block = 1);
        print(k + 1);
        copy(doubled, y[(_, _, k)]);
    }
}

#[test]
fn tiles_are_printed() {
    let x: Vec<f32> = (0..4 * 8).map(|x| x as f32 / 2.0).collect();
    let printed = printed(prints().def(), &[Arg::tensor(&x, [4, 8]), Arg::output::<f32>([4, 8])]);
    let expected = [
        "shared_x, block (1, 0, 0), (2, 4):\n    1   3   5   7\n  1.5 3.5 5.5 7.5",
        "shared_x, block (1, 0, 0), (2, 4):\n     9   11   13   15\n   9.5 11.5 13.5 15.5",
        "doubled, block (1, 0, 0), (2, 4):\n   2  6 10 14\n   3  7 11 15",
        "doubled, block (1, 0, 0), (2, 4):\n  18 22 26 30\n  19 23 27 31",
        "k + 1, block (0, 0, 0): 1",
        "k + 1, block (0, 0, 0): 2",
    ];
    assert_eq!(printed, expected);
}

#[kernel]
fn layer(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        assert_device(k < 2, "few steps");
        gemm(sa, sb, &mut acc);
    }
    assert_device(acc < 100.0, "sums are small");
    print(acc);
    copy(max(acc, 0.0), tile(c, (64, 64), (block.x, block.y)));
}

#[test]
fn accumulators_are_checked_and_printed() {
    let args = |k: usize| {
        let ones = Arg::tensor(&vec![bf16::from_f32(1.0); 3 * k], [3, k]).strides([k, 1]);
        [ones.clone(), ones, Arg::output::<f32>([3, 3]).strides([3, 1])]
    };
    let printed = printed(layer().def(), &args(40));
    // Elements out of bounds are left out.
    let row = "\n  40 40 40";
    assert_eq!(printed, [format!("acc, block (0, 0, 0), (64, 64):{row}{row}{row}")]);
    assert!(failure(layer().def(), &args(70)).ends_with(", where k = 2"));
}
