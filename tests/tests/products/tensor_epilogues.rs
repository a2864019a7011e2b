//! Epilogues of products on tensor cores in the simulator: functions, biases, residuals, second results.

use tilewright_sim::{Options, run_every};
use tilewright_tests::problem::{Finish, Problem, Setting, Values};
use tilewright_tests::sweep;
use tilewright_tests::tensor::Padding;

use crate::tensor::{check, kernel};

#[test]
fn epilogues_batches_and_types_of_the_result() {
    for keys in sweep::share(
        [
            "alpha_beta=true",
            "alpha_beta=true c=n_major a=k_major",
            "epilogue=|x|x+1.0-1.0",
            "batched=true",
            "batched=true alpha_beta=true b=k_major",
            "out=f32",
            "out=f32 c=n_major alpha_beta=true",
            "out=f16",
        ],
        4,
    ) {
        check(
            &format!("dtype=bf16 bm=64 bn=64 {keys}"),
            &[([64, 64, 64], 0), ([72, 136, 40], 8), ([67, 33, 45], 1)],
        );
    }
}

/// A bias, alone and with everything else, on tensor cores and on threads.
#[test]
fn a_bias_is_added() {
    let sizes = [([64, 72, 40], 8), ([67, 33, 45], 1)];
    for keys in sweep::share(
        ["dtype=bf16 out=f32", "dtype=f16", "dtype=i8 a=k_major b=k_major", "", "mma=none tc=(8,8,2)"],
        4,
    ) {
        for bias in ["bias=rows", "bias=columns"] {
            for more in ["", "alpha_beta=true", "c=n_major", "batched=true c=n_major alpha_beta=true"] {
                let exact = if more.contains("alpha") && keys.contains("i8") { continue } else { more };
                check(&format!("bm=64 bn=32 {keys} {bias} {exact}"), &sizes);
            }
        }
    }
    check("dtype=bf16 arch=90 a=k_major b=k_major bias=rows", &[([40, 72, 64], 0)]);
}

/// A residual before or after the function, and the argument of the function as a second result: on threads, by mma.sync with
/// copies and with a ring, by wgmma, with K split over warps and over blocks.
#[test]
fn residuals_and_second_results() {
    let sizes = [([64, 72, 40], 8), ([67, 33, 45], 1)];
    for keys in sweep::share(
        [
            "bm=64 bn=32",
            "mma=none tc=(8,8,2) bm=64 bn=32",
            "dtype=bf16 bm=64 bn=32",
            "dtype=f16 out=f32 bm=64 bn=32 mma=mma_sync arch=90",
            "dtype=bf16 bm=64 bn=64 mma=mma_sync arch=90 a=k_major b=k_major",
            "dtype=bf16 bm=64 bn=32 bk=128 warps=(1,1,8)",
            "dtype=i8 out=bf16 bm=64 bn=64 a=k_major b=k_major",
            "dtype=bf16 bm=64 bn=64 arch=90 a=k_major b=k_major",
            "dtype=tf32 bm=128 bn=64 arch=90 a=k_major b=k_major",
            "dtype=bf16 bm=64 bn=64 schedule=(split_k=2) mma=wgmma arch=90 a=k_major b=k_major",
        ],
        4,
    ) {
        for more in [
            "residual=before aux=true",
            "residual=after aux=f32 alpha_beta=true bias=rows",
            "residual=after(f32) c=n_major bias=columns",
            "residual=before(f16) aux=f16 c=n_major alpha_beta=true batched=true",
        ] {
            if keys.contains("split_k") && more.contains("batched") {
                continue;
            }
            let keys = format!("{keys} {more} epilogue=relu");
            let kernel = kernel(&keys);
            for ([m, n, k], gap) in sizes {
                let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 2)];
                let paddings = &[Padding::new(gap, 0)];
                let values = Values::Whole;
                let setting = Setting { sizes, paddings, values, seed: 1, alpha: 0.5, beta: 2.0 };
                let function = Some((|x: f64| x.max(0.0)) as fn(f64) -> f64).map(|of| (of, 1.0));
                let finish = Finish { function, after: more.contains("after"), ..Finish::default() };
                let problem = Problem::of(&kernel, &setting).finished(values, &finish);
                assert_eq!(problem.aux.is_empty(), !more.contains("aux"));
                let outcomes = run_every(&kernel, &problem.args(), &Options::default())
                    .unwrap_or_else(|error| panic!("{keys}, {sizes:?}: {error}"));
                for outcome in outcomes {
                    let wrong = problem.wrong_outcome(&outcome);
                    assert!(wrong.is_none(), "{keys}, {sizes:?}: {wrong:?}");
                }
            }
        }
    }
}

/// A result whose buffer takes the bytes of another result's is not written before bulk stores have read that one.
#[test]
fn the_second_result_waits_for_the_bytes_of_the_first() {
    let kernel =
        kernel("dtype=f16 out=bf16 arch=90 mma=mma_sync bm=144 bk=64 b=k_major aux=f16 epilogue=relu");
    let (sizes, values): (&[(&str, usize)], _) = (&[("M", 144), ("N", 128), ("K", 64)], Values::Whole);
    let setting = Setting { sizes, paddings: &[Padding::new(0, 0)], values, seed: 1, alpha: 1.0, beta: 0.0 };
    let function = Some((|x: f64| x.max(0.0)) as fn(f64) -> f64).map(|of| (of, 1.0));
    let problem = Problem::of(&kernel, &setting).finished(values, &Finish { function, ..Finish::default() });
    let outcomes = run_every(&kernel, &problem.args(), &Options::default());
    for outcome in outcomes.unwrap_or_else(|error| panic!("{error}")) {
        assert_eq!(problem.wrong_outcome(&outcome), None);
    }
}

/// Two results are computed in the registers of the accumulators: other registers would not fit beside the largest tiles.
#[test]
fn second_results_of_integers() {
    let keys = "dtype=i8 arch=120 a=k_major b=k_major c=n_major alpha_beta=true aux=true epilogue=|x| (x + 1.0) * (x + 1.0)";
    let kernel = kernel(keys);
    let sizes: &[(&str, usize)] = &[("M", 1), ("N", 8), ("K", 24)];
    let values = Values::Whole;
    let setting = Setting { sizes, paddings: &[Padding::new(8, 0)], values, seed: 1, alpha: 3.0, beta: -2.0 };
    let function = Some((|x: f64| (x + 1.0) * (x + 1.0)) as fn(f64) -> f64).map(|of| (of, 1.0));
    let problem = Problem::of(&kernel, &setting).finished(values, &Finish { function, ..Finish::default() });
    let options = Options { limits: tilewright_codegen::launch::Limits::of(120), ..Options::default() };
    let outcomes = run_every(&kernel, &problem.args(), &options);
    for outcome in outcomes.unwrap_or_else(|error| panic!("{error}")) {
        assert_eq!(problem.wrong_outcome(&outcome), None);
    }
}

/// Functions by their names are closures of them, after everything else.
#[test]
fn activations_by_name() {
    for keys in sweep::share(["dtype=bf16 bm=64 bn=64", "bm=64 bn=64"], 4) {
        for (name, closure) in [
            ("relu", "|x|max(x,0.0)"),
            ("gelu", "|x|gelu(x)"),
            ("silu", "|x|silu(x)"),
            ("tanh", "|x|tanh(x)"),
        ] {
            let keys = format!("{keys} alpha_beta=true bias=columns");
            let [named, closed] = [name, closure].map(|key| kernel(&format!("{keys} epilogue={key}")));
            assert_eq!(named.source(), closed.source(), "{keys} {name}");
        }
    }
    // Negative results are cut off after bias and beta.
    let keys = "dtype=bf16 out=f32 bm=64 bn=64 alpha_beta=true bias=rows";
    let sizes: &[(&str, usize)] = &[("M", 40), ("N", 70), ("K", 33)];
    let setting = Setting {
        sizes,
        paddings: &[Padding::default()],
        values: Values::Whole,
        seed: 1,
        alpha: 0.5,
        beta: 2.0,
    };
    let mut problem = Problem::of(&kernel(keys), &setting);
    problem.wanted.iter_mut().for_each(|wanted| wanted.value = wanted.value.max(0.0));
    let outcomes = run_every(&kernel(&format!("{keys} epilogue=relu")), &problem.args(), &Options::default());
    for outcome in outcomes.unwrap_or_else(|error| panic!("{error}")) {
        assert_eq!(problem.wrong_outcome(&outcome), None);
    }
}
