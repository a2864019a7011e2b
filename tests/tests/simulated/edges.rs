//! Boundary cases: vectors at the end of a ragged partition, empty tensors, reductions over fragments with
//! nested modes.

use tilewright::prelude::*;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_sim::{Arg, Options, Outcome, run, run_every};

use crate::inputs;

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
        inputs(through_shared().def()).written([&*format!("N = {n}")]);
    }
}

/// A slice of a thread's part may begin before the tile: copies and reductions take elements of the previous tile.
#[test]
fn elements_before_a_tile_are_copied_and_reduced() {
    #[kernel(allow(uncoalesced))]
    fn four_before(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>, most: &mut Tensor<i32, N>) {
        let t = layout!(4);
        let from = parallelize(tile(x, 10, block.x), t, thread.x, ragged = true);
        let to = parallelize(tile(y, 10, block.x), t, thread.x, ragged = true);
        let reduced = parallelize(tile(most, 10, block.x), t, thread.x, ragged = true);
        for k in 0..4 {
            let own = registers::<i32>(1, 0);
            copy(from[(k - 1)], own);
            copy(own, to[(k)]);
            copy(maximum(own), reduced[(k)]);
        }
    }
    let n = 27;
    let x: Vec<i32> = (0..n).map(|at| 100 + at as i32).collect();
    let args = [Arg::tensor(&x, [n]), Arg::output::<i32>([n]), Arg::output::<i32>([n])];
    let before =
        |outside: i32| -> Vec<i32> { (0..n).map(|at| if at < 4 { outside } else { x[at - 4] }).collect() };
    for outcome in every_variant(four_before().def(), &args) {
        assert_eq!(outcome.get::<i32>("y").unwrap(), before(0));
        assert_eq!(outcome.get::<i32>("most").unwrap(), before(i32::MIN));
    }
}

/// Blocks that run together, as old values of atomic updates need it, and there are none.
#[test]
fn no_blocks_run_together() {
    #[kernel]
    fn exchanged(y: &mut Tensor<i64, N>, old: &mut Tensor<i64, N>) {
        let before = copy(iota(64, 0), tile(y, 64, block.x), how = "atomic_exchange");
        copy(before, tile(old, 64, block.x));
    }
    let none: [i64; 0] = [];
    let args = [Arg::in_out(&none, [0]), Arg::output::<i64>([0])];
    for outcome in every_variant(exchanged().def(), &args) {
        assert_eq!(outcome.get::<i64>("old").unwrap(), none);
    }
}

/// Vectors that begin before their row: as wide as what the row is moved by is known to align them, single elements where it is
/// not, and no element outside of rows is read or written.
#[test]
fn vectors_begin_before_rows() {
    #[kernel]
    fn by_four(x: &Tensor<i32, (L, M, N), (lda, ldb, _1)>, y: &mut Tensor<i32, (L, M, N), (lda, ldb, _1)>) {
        let (i, j, t) = (block.z, block.y, layout!((1, 1, 8)));
        let before = (j * ldb + i * lda) % 4;
        let from = shift(tile(x, (1, 1, 64), (i, j, 0)), (0, 0, -before));
        let to = shift(tile(y, (1, 1, 64), (i, j, 0)), (0, 0, -before));
        // Rows end within a later tile.
        for k in 0..2 {
            let values = parallelize(shift(from, (0, 0, 64 * k)), t, thread.x, values = (1, 1, 4));
            map(values, parallelize(shift(to, (0, 0, 64 * k)), t, thread.x, values = (1, 1, 4)), |x| x + 1);
        }
    }
    #[kernel]
    fn by_two(x: &Tensor<i32, (L, M, N), (lda, ldb, _1)>, y: &mut Tensor<i32, (L, M, N), (lda, ldb, _1)>) {
        let (i, j, t) = (block.z, block.y, layout!((1, 1, 16)));
        let before = (i * lda + j * ldb) % 2;
        let from = shift(tile(x, (1, 1, 128), (i, j, 0)), (0, 0, -before));
        let to = shift(tile(y, (1, 1, 128), (i, j, 0)), (0, 0, -before));
        let row = registers_like(parallelize(from, t, thread.x, values = (1, 1, 4)), 0);
        copy(parallelize(from, t, thread.x, values = (1, 1, 4)), row);
        row += 1;
        copy(row, parallelize(to, t, thread.x, values = (1, 1, 4)));
    }
    // The distance of planes is not counted.
    #[kernel(allow(uncoalesced))]
    fn by_none(x: &Tensor<i32, (L, M, N), (lda, ldb, _1)>, y: &mut Tensor<i32, (L, M, N), (lda, ldb, _1)>) {
        let (i, j, t) = (block.z, block.y, layout!((1, 1, 16)));
        let before = j * ldb % 4;
        let from = shift(tile(x, (1, 1, 128), (i, j, 0)), (0, 0, -before));
        let to = shift(tile(y, (1, 1, 128), (i, j, 0)), (0, 0, -before));
        let row = registers_like(parallelize(from, t, thread.x, values = (1, 1, 4)), 0);
        copy(parallelize(from, t, thread.x, values = (1, 1, 4)), row);
        row += 1;
        copy(row, parallelize(to, t, thread.x, values = (1, 1, 4)));
    }
    for (def, widest) in [(by_four().def(), "int4"), (by_two().def(), "int2"), (by_none().def(), "")] {
        let kernel = def.generate().unwrap_or_else(|refused| panic!("{refused}"));
        for word in ["int2", "int4"] {
            assert_eq!(kernel.source().contains(word), word == widest, "{}", kernel.source());
        }
        // Gaps keep their contents.
        inputs(def).indexed("y", |_, _| -1.0).written([
            "L = 1, M = 1, N = 1, ldb = 1, lda = 1",
            "L = 2, M = 3, N = 57, ldb = 57, lda = 172",
            "L = 3, M = 2, N = 61, ldb = 63, lda = 129",
            "L = 2, M = 9, N = 33, ldb = 37, lda = 333",
        ]);
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
        assert_eq!(launch(0, m), Ok([0, 0, 0]));
    }
    let refused = launch(33, 0).unwrap_err();
    assert!(
        refused.contains("`x`: it has no elements, and a tensor that the kernel writes has some"),
        "{refused}"
    );
}

/// Whether a loop runs depends on the length of a tensor that is not read.
#[test]
fn lengths_of_tensors_without_elements_are_not_taken_for_1() {
    #[kernel(allow(unread))]
    fn once(flags: &Tensor<i32, K>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let mut sum = full::<f32>(64, 0.0);
        for _ in 0..min(flags.size(0), 1) {
            sum += tile(x, 64, block.x);
        }
        copy(sum, tile(y, 64, block.x));
    }
    inputs(once().def()).written(["K = 1, N = 70", "K = 0, N = 70"]);
}

/// Sizes that may be 0: of rows in one tile, of rows in a loop with copies ahead, and of a list that selects rows.
#[test]
fn kernels_serve_sizes_that_may_be_0() {
    #[kernel(allow(uncoalesced))]
    fn totals(
        x: &Tensor<f32, (M, N), (ldx, _1)>,
        list: &Tensor<i32, Z>,
        whole: &mut Tensor<f32, (M, _1)>,
        ahead: &mut Tensor<f32, (M, _1)>,
        listed: &mut Tensor<f32, (M, _1)>,
    ) {
        assert(N >= 0 && N <= 128);
        assert(Z >= 0);
        copy(sum(tile(x, (32, 128), (block.x, 0)), 1), tile(whole, (32, 1), (block.x, 0)));
        let (rows, s) = (tile(x, (32, 32), (block.x, _)), shared::<f32>((32, 32)));
        let mut total = full::<f32>((32, 1), 0.0);
        for k in pipelined(0..rows.size(2), stages = 2) {
            copy(rows[(_, _, k)], s);
            total += sum(s, 1);
        }
        copy(total, tile(ahead, (32, 1), (block.x, 0)));
        let mut total = full::<f32>((32, 1), 0.0);
        for z in 0..Z {
            total += tile(x, (32, 1), (block.x, list[(z)]));
        }
        copy(total, tile(listed, (32, 1), (block.x, 0)));
    }
    inputs(totals().def()).list("list", [3, 69, 0]).written([
        "M = 35, N = 70, Z = 3",
        "M = 35, N = 70, Z = 0",
        "M = 35, N = 0, Z = 0",
        "M = 35, N = 0, Z = 1",
        "M = 35, N = 1, Z = 2",
    ]);
}

/// Products leave in blocks of columns, and blocks of 33 rows end between the addresses at which bulk stores can begin.
#[test]
fn results_leave_in_blocks_of_33_rows() {
    #[kernel(threads = 64, arch = 90, allow(bank_conflicts))]
    fn products(
        a: &Tensor<i32, (M, K), (lda, _1)>,
        b: &Tensor<i32, (N, K)>,
        c: &mut Tensor<i32, (M, N), (ldc, _1)>,
        transposed: &mut Tensor<i32, (M, N)>,
    ) {
        let (a, b) = (tile(a, (33, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
        let (sa, sb) = (shared::<i32>((33, 16)), shared::<i32>((32, 16)));
        let mut acc = full::<i32>((33, 32), 0);
        for k in pipelined(0..a.size(2), stages = 3, split = threads) {
            copy(a[(_, _, k)], sa);
            copy(b[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        copy(acc, tile(c, (33, 32), (block.x, block.y)));
        copy(acc, tile(transposed, (33, 32), (block.x, block.y)));
    }
    inputs(products().def()).with("a", |x| x % 11.0 - 5.0).with("b", |x| x % 11.0 - 5.0).written([
        "M = 64, N = 32, K = 16",
        "M = 6, N = 32, K = 16",
        "M = 70, N = 96, K = 16",
    ]);
}

/// 24 columns of single bytes are one and a half of the blocks in which they leave.
#[test]
fn results_leave_in_one_and_a_half_blocks() {
    #[kernel(threads = 32, allow(uncoalesced))]
    fn exchanged(y: &mut Tensor<i32, (M, N), (_72, _1)>, old: &mut Tensor<i8, (M, N), (ld, _1)>) {
        persistent();
        let at = (block.x, block.y);
        let before = copy(iota((20, 24), 0), tile(y, (20, 24), at), how = "atomic_xor");
        copy(before, tile(old, (20, 24), at));
    }
    inputs(exchanged().def()).with("y", |x| x % 100.0).written(["M = 22, N = 72"]);
}

#[test]
fn elements_of_nested_fragments_are_masked_by_coordinate() {
    #[kernel(allow(unbounded, uncoalesced))]
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
    inputs(copied().def()).written([
        "M = 7, N = 9, s = 5, t = 11",
        "M = 5, N = 12, s = 7, t = 3",
        "M = 4, N = 4, s = 1, t = 1",
    ]);
}

/// Sums of exponentials of rows whose halves are written to a shared tile one after the other, and by functions.
#[test]
fn edges_are_followed_through_parts_of_a_shared_tile() {
    #[kernel]
    fn halves(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
        at_most(N, 64);
        let s = shared::<f32>((16, 64));
        copy(tile(x, (16, 32), (block.x, 0)), tile(s, (16, 32), (0, 0)));
        map(tile(x, (16, 32), (block.x, 1)), tile(s, (16, 32), (0, 1)), |x| x);
        let grown = map(s, |x, at| exp(x) + (at.1 as f32));
        copy(sum(grown, 1)[(_, 0)], tile(y, 16, block.x));
    }
    inputs(halves().def()).written([
        "M = 16, N = 64",
        "M = 17, N = 33",
        "M = 5, N = 31",
        "M = 1, N = 1",
        "M = 40, N = 50",
        "M = 3, N = 32",
    ]);
}

/// Out-of-bounds elements are set by the author, with `out_of_bounds`: products, and pairs.
#[test]
fn reductions_by_closures_take_the_authors_word() {
    #[kernel]
    fn products(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>, last: &mut Tensor<i32, M>) {
        at_most(N, 32);
        let s = shared::<f32>((16, 32));
        let part = map(tile(x, (16, 32), (block.x, 0)), |x| x);
        map(part, s, |x, at| select(at.1 < N, x, 1.0));
        let all = map(s, |x| x);
        copy(reduce(all, 1.0, |a, b| a * b, mode = 1, out_of_bounds = 1.0)[(_, 0)], tile(y, 16, block.x));
        let places = map(part, |x, at| select((at.1 < N) & (x > 0.0), at.1, -1));
        let best =
            reduce((part, places), (0.0, -1), |(x, i), (y, j)| if j > i { (y, j) } else { (x, i) }, mode = 1);
        copy(best.1[(_, 0)], tile(last, 16, block.x));
    }
    inputs(products().def()).indexed("x", |at, _| [1.0, 2.0, -1.0, 0.5, -0.5][at * 7 % 5]).written([
        "M = 16, N = 32",
        "M = 17, N = 31",
        "M = 1, N = 1",
        "M = 33, N = 7",
    ]);
}

/// Coordinates scaled from one extent to another, and tiles beside the block's tile, of a longer tensor.
#[test]
fn coordinates_of_longer_tensors() {
    #[kernel(allow(uncoalesced))]
    fn scaled(x: &Tensor<f32, W>, y: &mut Tensor<f32, U>) {
        copy(tile(x, 1, block.x * x.size(0) / y.size(0)), tile(y, 1, block.x));
    }
    inputs(scaled().def()).written([
        "W = 7, U = 20",
        "W = 20, U = 7",
        "W = 1, U = 5",
        "W = 5, U = 5",
        "W = 100, U = 33",
    ]);
    #[kernel]
    fn differences(x: &Tensor<f32, { N + 64 }>, y: &mut Tensor<f32, N>) {
        let y = tile(y, 64, block.x);
        map((tile(x, 64, block.x + 1), tile(x, 64, block.x)), y, |later, now| later - now);
    }
    inputs(differences().def()).written(["N = 1", "N = 63", "N = 64", "N = 65", "N = 200"]);
}
