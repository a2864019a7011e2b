//! Products whose operands have rows or addresses that bulk copies do not take: operands are packed first, and
//! only those that need it.

use tilewright_codegen::launch::{Limits, plan};
use tilewright_codegen::thread::{Kernel, Param};
use tilewright_sim::{Options, Outcome, run, run_every};
use tilewright_tests::gallery;
use tilewright_tests::packed::{self, Case};
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::sweep;
use tilewright_tests::tensor::Padding;

const NONE: Padding = Padding::new(0, 0);

/// Runs the chosen variant, which is one by wgmma, on the poisoned buffers of a case.
#[track_caller]
fn product(case: &Case, schedules: u32) -> Outcome {
    let (outcome, program) = chosen(case, schedules);
    assert!(program.arch_specific, "{case:?}: variant {}", outcome.variant() + 1);
    outcome
}

/// Runs the chosen variant.
#[track_caller]
fn chosen(case: &Case, schedules: u32) -> (Outcome, Kernel) {
    let outcome = gallery::matmul(&case.keys);
    let messages: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    let kernel = outcome.kernel.unwrap_or_else(|| panic!("{case:?}: {}", messages.join("\n")));
    let problem = case.problem(&kernel);
    let limits = Limits { multiprocessors: 2, ..Limits::HOPPER };
    let options = Options { seed: case.seed, limits, schedules, ..Options::default() };
    let outcome = run(&kernel, &problem.args(), &options).unwrap_or_else(|fault| panic!("{case:?}: {fault}"));
    let wrong = problem.wrong_outcome(&outcome);
    assert!(wrong.is_none(), "{case:?}: {wrong:?}");
    let program = kernel.variants[outcome.variant()].program.clone();
    (outcome, program)
}

/// Has a program a ring that bulk copies fill?
fn has_ring(program: &Kernel) -> bool {
    program.params.iter().any(|param| matches!(param, Param::TensorMap { .. }))
}

/// The operands that are packed, each with the reason.
#[track_caller]
fn check(keys: &str, sizes: [usize; 3], paddings: &[Padding], expected: &[(&str, &str)]) {
    let case = Case { keys: keys.into(), sizes, paddings: paddings.to_vec(), seed: 1 };
    let outcome = product(&case, 2);
    let copies = outcome.copies().iter();
    let packed: Vec<(&str, &str)> = copies.map(|copy| (&*copy.argument, &*copy.why)).collect();
    assert_eq!(packed, expected, "{keys}, {sizes:?}");
}

#[test]
fn only_operands_that_need_it_are_packed() {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major bm=64 bn=64";
    let odd = [("a", "8 does not divide lda, which is 71"), ("b", "8 does not divide ldb, which is 71")];
    check(keys, [72, 80, 72], &[NONE], &[]);
    check(keys, [72, 80, 71], &[NONE], &odd);
    check(keys, [72, 80, 71], &[NONE, Padding::new(1, 0), NONE], &odd[..1]);
    let shifted = [("b", "`b` does not begin at a multiple of 16 bytes, but 6 bytes past one")];
    check(keys, [72, 80, 72], &[NONE, Padding::new(0, 3), NONE], &shifted);
    // C needs no copy, whatever its rows and its address are.
    check(keys, [71, 80, 72], &[NONE], &[]);
    check(keys, [72, 80, 72], &[NONE, NONE, Padding::new(3, 5)], &[]);
}

#[test]
fn every_order_of_operands_and_result() {
    for case in packed::orders() {
        product(&case, 1);
    }
}

#[test]
fn every_type() {
    for case in packed::types() {
        let packed = if case.keys.contains("scales=blocks") { 3 } else { 2 };
        assert_eq!(product(&case, 1).copies().len(), packed, "{case:?}");
    }
}

#[test]
fn random_sizes_gaps_and_offsets() {
    for case in packed::random(12, [140, 300]) {
        product(&case, 2);
    }
}

#[test]
fn products_by_mma_sync() {
    for (case, packed) in packed::by_mma_sync() {
        let (outcome, program) = chosen(&case, 2);
        assert!(has_ring(&program) && !program.arch_specific, "{case:?}: variant {}", outcome.variant() + 1);
        assert_eq!(outcome.copies().len(), packed, "{case:?}");
    }
}

/// Every variant that can run on odd rows computes the same product, the one without packing too.
#[test]
fn all_variants_agree() {
    let kernel = gallery::matmul("dtype=bf16 arch=90 a=k_major").kernel.unwrap();
    let sizes: &[(&str, usize)] = &[("M", 65), ("N", 67), ("K", 33)];
    let setting = Setting { sizes, paddings: &[NONE], values: Values::Whole, seed: 1, alpha: 1.0, beta: 0.0 };
    let problem = Problem::of(&kernel, &setting);
    let limits = Limits { multiprocessors: 2, ..Limits::HOPPER };
    let outcomes = run_every(&kernel, &problem.args(), &Options { limits, ..Options::default() }).unwrap();
    for outcome in &outcomes {
        assert_eq!(problem.wrong_outcome(outcome), None);
    }
    let packed = outcomes.iter().filter(|outcome| !outcome.copies().is_empty()).count();
    assert!(packed >= 5 && packed < outcomes.len(), "{packed} of {}", outcomes.len());
}

/// The same for variants by mma.sync.
#[test]
fn all_variants_by_mma_sync_agree() {
    for keys in sweep::share(["dtype=bf16 b=k_major", "dtype=tf32 a=k_major"], 6) {
        let kernel = gallery::matmul(&format!("{keys} mma=mma_sync arch=90")).kernel.unwrap();
        let sizes: &[(&str, usize)] = &[("M", 65), ("N", 67), ("K", 33)];
        let setting =
            Setting { sizes, paddings: &[NONE], values: Values::Whole, seed: 1, alpha: 1.0, beta: 0.0 };
        let problem = Problem::of(&kernel, &setting);
        let limits = Limits { multiprocessors: 2, ..Limits::HOPPER };
        let outcomes =
            run_every(&kernel, &problem.args(), &Options { limits, ..Options::default() }).unwrap();
        for outcome in &outcomes {
            assert_eq!(problem.wrong_outcome(outcome), None, "{keys}: variant {}", outcome.variant() + 1);
        }
        let packed = outcomes.iter().filter(|outcome| !outcome.copies().is_empty()).count();
        assert!(packed >= 3 && packed < outcomes.len(), "{keys}: {packed} of {}", outcomes.len());
    }
}

/// wgmma reads elements that have not 16 bits in rows along K alone: copies of operands that are contiguous along other modes
/// have such rows.
#[test]
fn operands_that_are_not_along_k() {
    for case in sweep::share(packed::transposed(), 2) {
        let outcome = gallery::matmul(&case.keys);
        let messages: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
        let kernel = outcome.kernel.unwrap_or_else(|| panic!("{case:?}: {}", messages.join("\n")));
        let problem = case.problem(&kernel);
        let limits = Limits { multiprocessors: 2, ..Limits::HOPPER };
        let options = Options { limits, seed: case.seed, ..Options::default() };
        let outcomes = run_every(&kernel, &problem.args(), &options);
        let outcomes = outcomes.unwrap_or_else(|fault| panic!("{case:?}: {fault}"));
        let mut by_wgmma = 0;
        for outcome in &outcomes {
            assert_eq!(problem.wrong_outcome(outcome), None, "{case:?}: variant {}", outcome.variant() + 1);
            by_wgmma += u32::from(kernel.variants[outcome.variant()].program.arch_specific);
        }
        assert!(by_wgmma > 0 && (by_wgmma as usize) < outcomes.len(), "{case:?}: {by_wgmma}");
    }
}

/// Does the product of these sizes pack its operands? Decided by clocks.
#[track_caller]
fn check_packs(keys: &str, sizes: [usize; 3], expected: usize) {
    check_packs_at(keys, &[(sizes, expected)]);
}

/// The same, for several sizes.
#[track_caller]
fn check_packs_at(keys: &str, cases: &[([usize; 3], usize)]) {
    let kernel = gallery::matmul(keys).kernel.unwrap();
    for &([m, n, k], expected) in cases {
        let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k)];
        let setting =
            Setting { sizes, paddings: &[NONE], values: Values::Whole, seed: 1, alpha: 1.0, beta: 0.0 };
        let params = &kernel.variants[0].program.params;
        let problem = Problem::new(params, &setting, |_, _| Vec::new());
        let plan = plan(&kernel, &problem.given(), &Limits::HOPPER).unwrap();
        assert_eq!(plan.packed.len(), expected, "{keys}, {m} {n} {k}: variant {}", plan.variant + 1);
    }
}

#[test]
fn products_with_odd_rows_are_packed() {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major";
    check_packs(keys, [1023, 1025, 513], 2);
    check_packs(keys, [1024, 1024, 1024], 0);
    // Element by element it takes 6.3 us on an H100, behind two copies 4.6.
    check_packs(keys, [33, 33, 33], 2);
}

#[test]
fn large_products_are_packed_along_k() {
    check_packs_at("dtype=tf32 arch=90", &[([4096, 4096, 4096], 2), ([64, 64, 64], 0)]);
    check_packs("dtype=tf32 arch=90 b=k_major", [4096, 4096, 4096], 1);
    check_packs("dtype=tf32 arch=90 a=k_major b=k_major", [4096, 4096, 4096], 0);
    check_packs("dtype=i8 arch=90 a=k_major", [2048, 2048, 2048], 1);
}

/// By mma.sync, in every order: operands that bulk copies do not take, and of four and of one byte those that are not along K.
#[test]
fn large_products_by_mma_sync_are_packed() {
    for order in sweep::share(
        ["a=k_major b=k_major", "b=k_major", "", "a=k_major", "a=k_major b=k_major c=n_major"],
        6,
    ) {
        for types in ["dtype=bf16", "dtype=tf32", "dtype=i8"] {
            let keys = format!("{types} mma=mma_sync arch=90 {order}");
            let sizes = [[4095, 4097, 1023], [1111, 2222, 3333], [1001, 1001, 1001]];
            check_packs_at(&keys, &sizes.map(|sizes| (sizes, 2)));
        }
    }
    check_packs("dtype=bf16 mma=mma_sync arch=90 a=k_major b=k_major", [33, 33, 33], 2);
    check_packs("dtype=bf16 mma=mma_sync arch=90", [4096, 4096, 4096], 0);
    check_packs_at("dtype=tf32 mma=mma_sync arch=90", &[([4096, 4096, 4096], 2), ([64, 64, 64], 0)]);
    check_packs("precision=f32x3 mma=mma_sync arch=90 b=k_major", [4096, 4096, 4096], 1);
    check_packs("dtype=i8 mma=mma_sync arch=90 a=k_major", [2048, 2048, 2048], 1);
}

/// Where cp.async copies operands, rows that begin in the middle of a sector take longer, but less than copies: 158 us on an
/// H100, 34 more for both copies.
#[test]
fn rows_that_cut_sectors_are_not_packed_for_cp_async() {
    let keys = "dtype=bf16 arch=80 a=k_major b=k_major";
    check_packs_at(keys, &[([3000, 3000, 3000], 0), ([3008, 3008, 3008], 0), ([1000, 64, 1000], 0)]);
}
