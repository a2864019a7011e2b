//! Boundary cases: vectors at the end of a ragged partition, empty tensors, reductions over fragments with
//! nested modes.

use tilewright::prelude::*;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_sim::{Arg, Options, Outcome, run, run_every};

fn every_variant(def: &KernelDef, args: &[Arg]) -> Vec<Outcome> {
    let kernel = def.generate().unwrap_or_else(|refused| panic!("{refused}"));
    run_every(&kernel, args, &Options::default()).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn a_vector_stays_inside_its_tile() {
    #[kernel(allow(uncoalesced, bank_conflicts))]
    fn through_shared(x: &Tensor<i8, N>, y: &mut Tensor<i8, N>) {
        let t = layout!(4);
        let tile_of_x = parallelize(tile(x, 217, block.x), t, thread.x, values = 8, ragged = true);
        let tile_of_y = parallelize(tile(y, 217, block.x), t, thread.x, values = 8, ragged = true);
        let sh = shared::<i8>(layout!(217));
        let own = parallelize(sh, t, thread.x, values = 8, ragged = true);
        copy(tile_of_x, own);
        cp_async_wait_all();
        copy(own, tile_of_y);
    }
    for n in [217, 434, 1, 100, 220, 440] {
        let x: Vec<i8> = (0..n).map(|at| (at % 100) as i8 + 1).collect();
        for outcome in every_variant(through_shared().def(), &[Arg::tensor(&x, [n]), Arg::output::<i8>([n])])
        {
            assert_eq!(outcome.get::<i8>("y").unwrap(), x, "{n}, variant {}", outcome.variant() + 1);
        }
    }
}

#[test]
fn nothing_is_launched_for_tensors_without_elements() {
    #[kernel]
    fn two(x: &Tensor<f32, (N, M)>, y: &mut Tensor<f32, (N, M)>, z: &mut Tensor<f32, N>) {
        let t = layout!(32);
        let first = tile(y, (32, 1), (block.x, 0));
        copy(parallelize(tile(x, (32, 1), (block.x, 0)), t, thread.x), parallelize(first, t, thread.x));
        fill(parallelize(tile(z, 32, block.x), t, thread.x), 1.0);
    }
    let kernel = two().def().generate().unwrap();
    let launch = |n: usize, m: usize| {
        let args =
            [Arg::tensor(&vec![2.0f32; n * m], [n, m]), Arg::output::<f32>([n, m]), Arg::output::<f32>([n])];
        let options = Options { complete: false, ..Options::default() };
        run(&kernel, &args, &options).map(|outcome| outcome.grid()).map_err(|refused| refused.to_string())
    };
    assert_eq!(launch(33, 1), Ok([2, 1, 1]));
    for m in [0, 3] {
        let nothing = launch(0, m).unwrap_err();
        assert!(nothing.starts_with("there is nothing to run: the grid has 0 x 0 x 0 blocks"), "{nothing}");
    }
    let refused = launch(33, 0).unwrap_err();
    assert!(
        refused.contains("`x`: it has no elements, and a tensor that the kernel writes has some"),
        "{refused}"
    );
}

#[test]
fn elements_of_nested_fragments_are_masked_by_coordinate() {
    #[kernel(allow(uncoalesced))]
    fn count(x: &Tensor<f32, (N, P)>, y: &mut Tensor<f32, (N, Q)>) {
        let t = layout!((2, 2));
        let mine = parallelize(tile(x, (150, 1), (block.x, 0)), t, thread.x, values = (2, 1), ragged = true);
        let ones = map(mine, |a| 1.0);
        let again = map((ones, ones), |a, b| 1.0);
        let sums = block_sum(again);
        let out = parallelize(tile(y, (150, 1), (block.x, 0)), t, thread.x, values = (2, 1), ragged = true);
        map((ones, sums), out, |a, b| b);
    }
    const N: usize = 127;
    // The valid rows 2a + v + 4i of threads a = 0, 1, in the only column.
    let wanted: Vec<f32> =
        (0..N).map(|row| (0..2).filter(|a| row / 4 * 4 + row % 2 + a * 2 < N).count() as f32).collect();
    let args = [Arg::tensor(&vec![0.0f32; N * 23], [N, 23]), Arg::in_out(&vec![0.0f32; N * 12], [N, 12])];
    for outcome in every_variant(count().def(), &args) {
        assert_eq!(outcome.get::<f32>("y").unwrap()[..N], wanted, "variant {}", outcome.variant() + 1);
    }
}

#[test]
fn modes_of_an_input_may_overlap() {
    #[kernel(allow(uncoalesced))]
    fn copied(x: &Tensor<f32, layout!((M, N) : (s, t))>, y: &mut Tensor<f32, (M, N)>) {
        let t = layout!((4, 8));
        let from = parallelize(tile(x, (4, 8), (block.x, block.y)), t, thread.x);
        copy(from, parallelize(tile(y, (4, 8), (block.x, block.y)), t, thread.x));
    }
    // The third column begins before the second ends.
    for [m, n, s, t] in [[7, 9, 5, 11], [5, 12, 7, 3], [4, 4, 1, 1]] {
        let x: Vec<f32> = (0..(m - 1) * s + (n - 1) * t + 1).map(|at| at as f32).collect();
        let wanted: Vec<f32> = (0..m * n).map(|at| x[at % m * s + at / m * t]).collect();
        let args = [Arg::tensor(&x, [m, n]).strides([s, t]), Arg::output::<f32>([m, n])];
        for outcome in every_variant(copied().def(), &args) {
            assert_eq!(
                outcome.get::<f32>("y").unwrap(),
                wanted,
                "{m} {n} {s} {t}, {}",
                outcome.variant() + 1
            );
        }
    }
}
