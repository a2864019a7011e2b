//! Products on Hopper's tensor cores in the simulator: clusters, multicast, roles and rings that outlive tiles, over many
//! schedules, on devices that hold one cluster at once and many.

use tilewright_codegen::element::bf16;
use tilewright_codegen::launch::Limits;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::gallery;

/// C = A·Bᵀ of small integers in bf16.
#[track_caller]
fn check(keys: &str, sizes: &[[usize; 3]], schedules: u32) {
    let outcome = gallery::matmul(keys);
    let said: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    let kernel = outcome.kernel.unwrap_or_else(|| panic!("{}", said.join("\n")));
    let rows = keys.contains("c=n_major");
    for &[m, n, k] in sizes {
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|at| ((at * 7 + at / 5 + seed) % 9) as f32 - 4.0).collect()
        };
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let half = |of: &[f32]| -> Vec<bf16> { of.iter().map(|&x| bf16::from_f32(x)).collect() };
        let mut wanted = vec![bf16::from_f32(0.0); m * n];
        for (i, row) in a.chunks(k).enumerate() {
            for (j, column) in b.chunks(k).enumerate() {
                let sum: f32 = row.iter().zip(column).map(|(x, y)| x * y).sum();
                wanted[if rows { i * n + j } else { i + j * m }] = bf16::from_f32(sum);
            }
        }
        for multiprocessors in [2, 132] {
            let limits = Limits { multiprocessors, ..Limits::HOPPER };
            let options = Options { schedules, limits, ..Options::default() };
            let args = [
                Arg::tensor(&half(&a), [m, k]).strides([k, 1]),
                Arg::tensor(&half(&b), [n, k]).strides([k, 1]),
                Arg::output::<bf16>([m, n]).strides(if rows { [n, 1] } else { [1, m] }),
            ];
            let outcomes = run_every(&kernel, &args, &options)
                .unwrap_or_else(|fault| panic!("{m} {n} {k} on {multiprocessors}: {fault}"));
            for outcome in outcomes {
                assert!(
                    outcome.get::<bf16>("c").unwrap() == wanted,
                    "{m} {n} {k}, {}",
                    outcome.variant() + 1
                );
            }
        }
    }
}

#[test]
fn two_warpgroups_of_a_cluster() {
    check("dtype=bf16 arch=90 a=k_major b=k_major", &[[256, 512, 128], [300, 260, 72]], 2);
}

#[test]
fn rows_of_c_are_contiguous() {
    check("dtype=bf16 arch=90 a=k_major b=k_major c=n_major bm=64 bn=64 stages=2", &[[136, 72, 200]], 5);
}

#[test]
fn sums_pass_through_an_epilogue() {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major bm=64 bn=64 epilogue=|x|x+1.0-1.0";
    check(keys, &[[130, 70, 72]], 1);
}

#[test]
fn sizes_that_bulk_copies_cannot_take_run_on_threads() {
    let kernel = gallery::matmul("dtype=bf16 arch=90 a=k_major b=k_major").kernel.unwrap();
    let uses = |at: usize| kernel.variants[at].program.arch_specific;
    assert!(uses(0) && !uses(kernel.variants.len() - 1));
    check("dtype=bf16 arch=90 a=k_major b=k_major", &[[33, 17, 13]], 1);
}
