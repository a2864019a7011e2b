//! Persistent kernels in the simulator: clusters, multicast, roles and rings that outlive tiles, over many schedules.

use tilewright_codegen::element::bf16;
use tilewright_codegen::generate;
use tilewright_codegen::launch::Limits;
use tilewright_codegen::problem::Result;
use tilewright_codegen::tile::Program;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::hopper;

/// C = A·Bᵀ of small integers, for devices that hold one cluster at once and many.
#[track_caller]
fn check(program: Result<Program>, sizes: &[[usize; 3]], schedules: u32) {
    let outcome = generate(program.unwrap_or_else(|problem| panic!("{}", problem.message)));
    let said: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    let kernel = outcome.kernel.unwrap_or_else(|| panic!("{}", said.join("\n")));
    for &[m, n, k] in sizes {
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|at| ((at * 7 + at / 5 + seed) % 9) as f32 - 4.0).collect()
        };
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let half = |of: &[f32]| -> Vec<bf16> { of.iter().map(|&x| bf16::from_f32(x)).collect() };
        let mut wanted = vec![0.0f32; m * n];
        for (i, row) in a.chunks(k).enumerate() {
            for (j, column) in b.chunks(k).enumerate() {
                wanted[i * n + j] = row.iter().zip(column).map(|(x, y)| x * y).sum();
            }
        }
        for multiprocessors in [2, 132] {
            let limits = Limits { multiprocessors, ..Limits::HOPPER };
            let options = Options { schedules, limits, ..Options::default() };
            let args = [
                Arg::tensor(&half(&a), [m, k]).strides([k, 1]),
                Arg::tensor(&half(&b), [n, k]).strides([k, 1]),
                Arg::output::<f32>([m, n]).strides([n, 1]),
            ];
            let outcomes = run_every(&kernel, &args, &options)
                .unwrap_or_else(|fault| panic!("{m} {n} {k} on {multiprocessors}: {fault}"));
            for outcome in outcomes {
                assert!(outcome.get::<f32>("c").unwrap() == wanted, "{m} {n} {k}, {}", outcome.variant() + 1);
            }
        }
    }
}

#[test]
fn a_persistent_multicast_product() {
    check(hopper::persistent_gemm(), &[[512, 256, 128], [300, 260, 72]], 2);
}
