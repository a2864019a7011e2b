//! Loops whose statements have stages: results are the same as without stages, to the bit, in every variant, for loops of
//! no, one and many iterations.

use tilewright::KernelDef;
use tilewright::kernels;
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Options, run_every};
use tilewright_tests::sweep;

/// The kernel with these constants.
fn with(kernel: &KernelDef, constants: &[(&str, usize)]) -> Generated {
    let of = kernel.specialize(constants, &[]).unwrap_or_else(|message| panic!("{message}"));
    of.generate().unwrap_or_else(|message| panic!("{message}"))
}

/// A result of every variant that fits.
fn results(kernel: &Generated, args: &[Arg], result: &str, seed: u64) -> Vec<Vec<u8>> {
    let options = Options { seed, schedules: 2, ..Options::default() };
    let all = run_every(kernel, args, &options).unwrap_or_else(|error| panic!("{error}"));
    all.iter().map(|done| done.bytes(result).expect("a result").to_vec()).collect()
}

/// Numbers from -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = tilewright_fuzz::random::Random::new(seed);
    (0..count).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

/// Softmax-like sums of rows, tile by tile: loads of the next tile are issued before this one is summed.
#[kernel]
fn rows<const FORM: usize = 0, const BEFORE: usize = 0>(
    x: &Tensor<f32, (M, N)>,
    y: &mut Tensor<f32, (M, N)>,
    total: &mut Tensor<f32, M>,
) {
    let (from, to) = (tile(x, (32, 64), (block.x, _)), tile(y, (32, 64), (block.x, _)));
    let mut sums = full::<f32>((32, 1), 0.0);
    for k in 0 - BEFORE..from.size(2) {
        let mut part = full::<f32>((32, 64), 0.0);
        copy(from[(_, _, k)], part);
        if FORM > 0 {
            stage(1);
        }
        part = map(part, |x| exp(x) * 0.5);
        if FORM > 1 {
            stage(3);
        }
        sums = map((sums, sum(part, 1)), |all, x| all * 0.75 + x);
        if FORM > 2 {
            stage(4, order = 1);
        }
        copy(map((part, sums), |x, s| x + s), to[(_, _, k)]);
    }
    copy(sums, regroup(tile(total, 32, block.x), (32, 1)));
}

#[test]
fn loops_over_registers() {
    for (m, n) in [(33, 1), (32, 64), (5, 65), (40, 130), (32, 192), (3, 400)] {
        let x = numbers(m * n, 5);
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n]), Arg::output::<f32>([m])];
        for (form, before) in [(1, 0), (2, 0), (3, 0), (1, 2), (3, 1)] {
            let plain = with(rows().def(), &[("BEFORE", before)]);
            let staged = with(rows().def(), &[("FORM", form), ("BEFORE", before)]);
            for result in ["y", "total"] {
                assert_eq!(
                    results(&staged, &args, result, form as u64),
                    results(&plain, &args, result, 0),
                    "{m}x{n}, form {form}, `{result}`"
                );
            }
        }
    }
}

/// Cumulative sums of rows: a scan is used a stage later, while the next one continues from its carry.
#[kernel]
fn cumulative<const STAGED: usize = 0>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let (from, to) = (tile(x, (2, 64), (block.x, _)), tile(y, (2, 64), (block.x, _)));
    let mut total = full::<f32>((2, 1), 0.0);
    for k in 0..from.size(2) {
        let part = map(from[(_, _, k)], |x| x);
        if STAGED == 1 {
            stage(1);
        }
        let made = scan(part, 0.0, |a, b| a + b, mode = 1, carry = &mut total);
        if STAGED == 1 {
            stage(2);
        }
        copy(2.0 * made, to[(_, _, k)]);
    }
}

#[test]
fn scans_are_used_a_stage_later() {
    for (m, n) in [(2, 64), (3, 200), (1, 1), (5, 130)] {
        let x = numbers(m * n, n as u64);
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])];
        let plain = results(&with(cumulative().def(), &[]), &args, "y", 0);
        let staged = with(cumulative().def(), &[("STAGED", 1)]);
        assert_eq!(results(&staged, &args, "y", 7), plain, "{m}x{n}");
        for done in run_every(&staged, &args, &Options::default()).unwrap() {
            let y = done.get::<f32>("y").unwrap();
            for (x, y) in x.chunks(n).zip(y.chunks(n)) {
                let mut total = 0.0f64;
                for (x, y) in x.iter().zip(y) {
                    total += 2.0 * f64::from(*x);
                    assert!((total - f64::from(*y)).abs() < 1e-4, "{m}x{n}");
                }
            }
        }
    }
}

/// Attention, by wgmma with a producer and by mma.sync, with each form of its stages.
#[test]
fn attention_with_products_across_stages() {
    for (m, n, causal) in sweep::share([(5, 5, 1), (70, 33, 1), (40, 130, 1), (130, 131, 0), (150, 20, 1)], 2)
    {
        let of =
            |rows, seed| -> Vec<bf16> { numbers(rows * 64, seed).into_iter().map(bf16::from_f32).collect() };
        let rows = |of: &[bf16], rows| Arg::tensor(of, [rows, 64, 1]).strides([64, 1, rows * 64]);
        let args = [
            rows(&of(m, 1), m),
            rows(&of(n, 2), n),
            rows(&of(n, 3), n),
            Arg::output::<bf16>([m, 64, 1]).strides([64, 1, m * 64]),
            Arg::number(0.7f32),
        ];
        for (name, overlaps) in [("attention_hopper", &[1, 2][..]), ("attention", &[1])] {
            let shipped = kernels::named(name).expect("a shipped kernel");
            let kernel =
                |overlap| with(&shipped.def, &[("BN", 32), ("CAUSAL", causal), ("OVERLAP", overlap)]);
            let plain = results(&kernel(0), &args, "o", 0);
            for &overlap in overlaps {
                let got = results(&kernel(overlap), &args, "o", 7);
                assert_eq!(got, plain, "{name}, {m}x{n}, overlap {overlap}");
            }
        }
    }
}

/// Rows that numbers select are summed: numbers are read in one stage, and used there, in the next one and behind it.
#[kernel]
fn selected<const STAGED: usize = 0>(
    x: &Tensor<f32, (M, N)>,
    which: &Tensor<i32, K>,
    y: &mut Tensor<f32, M>,
) {
    let x = tile(x, (64, 1), (block.x, _));
    let mut sums = full::<f32>((64, 1), 0.0);
    for k in 0..K {
        let (j, next) = (which[k], which[k + 1]);
        let one = x[(_, _, j)] * 2.0;
        let other = x[(_, _, next)] * 0.5;
        if STAGED == 1 {
            stage(1, order = 0);
        }
        sums = map((sums, one, other), |sum, one, other| sum * 0.5 + one * other);
        if STAGED == 1 {
            stage(1);
        }
        sums += x[(_, _, j + 1)];
    }
    copy(sums[(_, 0)], tile(y, 64, block.x));
}

#[test]
fn numbers_are_read_again_in_later_stages() {
    for (m, n, k) in [(64, 3, 4), (70, 5, 1), (1, 1, 2), (130, 4, 9)] {
        let x = numbers(m * n, k as u64);
        let which: Vec<i32> = (0..k as i32).map(|at| at * 7 % n as i32).collect();
        let args = [Arg::tensor(&x, [m, n]), Arg::tensor(&which, [k]), Arg::output::<f32>([m])];
        let plain = results(&with(selected().def(), &[]), &args, "y", 0);
        assert_eq!(results(&with(selected().def(), &[("STAGED", 1)]), &args, "y", 7), plain, "{m}x{n}, {k}");
    }
}
