//! Reductions and scans over the blocks of a cluster.

use tilewright_codegen::Elem;
use tilewright_sim::{Options, run_every};
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Room;

/// Every variant of a shipped kernel with these constants, in tensors with and without gaps.
#[track_caller]
fn check(name: &str, constants: &[(&str, usize)], elem: Elem, [m, n]: [usize; 2], values: Values) {
    let def = tilewright::kernels::named(name).unwrap().def.specialize(constants, &[("T", elem)]);
    let kernel = def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"));
    for room in [Room::new(0, 0), Room::new(3, 1)] {
        let setting =
            Setting { sizes: &[("M", m), ("N", n)], rooms: &[room], values, seed: 5, alpha: 1.0, beta: 1e-3 };
        let problem = Problem::of(&kernel, &setting);
        let options = Options { count: false, ..Options::default() };
        let outcomes = run_every(&kernel, &problem.args(), &options);
        let outcomes = outcomes.unwrap_or_else(|why| panic!("{name} {elem} {m}x{n}, {room:?}: {why}"));
        assert!(!outcomes.is_empty());
        for outcome in outcomes {
            if let Some(why) = problem.wrong_outcome(&outcome) {
                panic!("{name} {elem} {m}x{n}, {room:?}: {why}");
            }
        }
    }
}

/// Rows shorter than one block's part, and rows that end in any block of the cluster.
#[test]
fn rows_of_several_blocks() {
    for (blocks, elem) in [(2, Elem::F32), (4, Elem::Bf16), (16, Elem::F16)] {
        for kernel in ["softmax_row", "layernorm_row", "rmsnorm_row"] {
            for columns in [1, 100, 257, 256 * blocks - 3, 256 * blocks] {
                let constants = [("W", 256), ("L", 64), ("C", blocks)];
                check(kernel, &constants, elem, [3, columns], Values::Any);
            }
        }
    }
}

/// Cumulative sums of rows that end in any iteration and block.
#[test]
fn scans_of_several_blocks() {
    for (blocks, elem, width) in [(2, Elem::F32, 256), (4, Elem::Bf16, 512), (16, Elem::F16, 128)] {
        for (at, columns) in
            [1, 255, width + 3, blocks * width, 3 * blocks * width - width, 3000].into_iter().enumerate()
        {
            let constants = [("W", width), ("L", 128), ("C", blocks)];
            let values = if at % 2 == 0 { Values::Any } else { Values::Whole };
            check("cumulative_sums", &constants, elem, [3, columns], values);
        }
    }
}
