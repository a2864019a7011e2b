//! Data-dependent integers: conditions, loop bounds, coordinates read from memory. Each kernel is compared
//! with its text, in every variant, at sizes that tiles do not divide, with poisoned outputs.

use tilewright::prelude::*;
use tilewright_codegen::thread::Fact;
use tilewright_layout::Value;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::integers::*;

use crate::check_output;
use crate::inputs;

/// Small integers, so that sums are exact.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed * 3) % 11) as f32 - 5.0).collect()
}

#[test]
fn rows_are_gathered() {
    inputs(gather().def()).rows("ids", 9).written([
        "N = 1, V = 1, D = 1",
        "N = 7, V = 10, D = 64",
        "N = 23, V = 5, D = 100",
        "N = 4, V = 9, D = 33",
    ]);
}

#[test]
fn elements_are_gathered() {
    inputs(gather_elements().def()).rows("ids", 37).written([
        "N = 1, V = 1",
        "N = 64, V = 10",
        "N = 131, V = 37",
    ]);
}

#[test]
fn rows_are_scattered() {
    // Distinct rows, and one that there is not.
    inputs(scatter_rows().def())
        .indexed("places", |at, _| if at == 3 { -4.0 } else { (at * 5 + 1) as f64 % 11.0 })
        .with("out", |x| x)
        .written(["N = 1, D = 1, V = 3", "N = 5, D = 32, V = 7", "N = 9, D = 45, V = 11"]);
}

#[test]
fn loops_between_numbers_without_a_sign_run_as_long_as_these_say() {
    let most = u32::MAX;
    let ends = [0, 3, 2, most, most, 4, most, most, 4, 2, 1 << 31, 7, 5, 1 << 31];
    inputs(unsigned_ranges().def()).list("ends", ends).written(["N = 5, B = 7"]);
}

#[test]
fn triangles_of_tiles_end_where_the_block_is() {
    inputs(prefix().def()).written(["N = 32, D = 8", "N = 96, D = 16", "N = 101, D = 13", "N = 1, D = 1"]);
    let source = prefix().source().to_owned();
    assert!(source.contains("j < bx + 1"), "{source}");
    // Tiles up to the block's own are in bounds if all tiles are whole.
    assert!(!source.contains("if ("), "{source}");
}

#[test]
fn pipelined_loops_end_where_the_block_is() {
    inputs(causal().def()).written([
        "M = 64, N = 32, K = 64",
        "M = 70, N = 33, K = 70",
        "M = 40, N = 1, K = 90",
        "M = 96, N = 8, K = 17",
    ]);
}

#[test]
fn parts_of_k_are_summed_apart() {
    inputs(split_k().def()).written([
        "M = 32, N = 32, K = 64, S = 2",
        "M = 37, N = 5, K = 71, S = 3",
        "M = 32, N = 33, K = 8, S = 4",
        "M = 1, N = 1, K = 1, S = 1",
    ]);
}

#[test]
fn rows_of_sparse_matrices_are_as_long_as_they_are() {
    // Rows of 1, 2, 3 and 0 elements.
    inputs(sparse().def())
        .indexed("begin", |at, _| (at / 4 * 6 + [0, 1, 3, 6][at % 4]) as f64)
        .below("column", 9)
        .written(["M = 1, N = 4, Z = 1", "M = 32, N = 9, Z = 48", "M = 45, N = 20, Z = 67"]);
}

#[test]
fn conditions_are_decided_while_the_kernel_runs() {
    inputs(conditions().def()).indexed("flags", |at, _| at as f64 * 2.0 - 1.0).written([
        "B = 1, n = 0, alpha = 0",
        "B = 4, n = 2, alpha = 1",
        "B = 5, n = 5, alpha = 0.5",
        "B = 3, n = -2, alpha = 2",
    ]);
}

#[test]
fn integers_are_numbers() {
    inputs(as_numbers().def()).written(["M = 1, N = 1", "M = 40, N = 3", "M = 100, N = 7"]);
}

#[test]
fn a_place_that_was_computed_is_a_coordinate() {
    inputs(label_of_best().def()).below("score", 50).written(["N = 6"]);
}

#[test]
fn extents_are_computed() {
    inputs(halves().def()).written(["N = 4", "N = 64", "N = 100", "N = 132"]);
    // An asserted condition is not checked again.
    let kernel = halves().def().generate().unwrap();
    let asked = |fact: &Fact| matches!(fact, Fact::Divides(need) if need.of == Value::symbol("N"));
    assert!(kernel.variants.len() > 2 && kernel.variants[0].program.needs.iter().any(asked));
    assert!(!kernel.variants[1].program.needs.iter().any(asked), "{}", kernel.variants[1].source);
}

/// With V = 0 the expression of an extent is the number 1.
#[kernel]
fn shares<const V: usize = 1>(x: &Tensor<f32, N>, y: &mut Tensor<f32, { max(V * N, 1) }>) {
    let b = walk(max(ceil_div(N, 64), ceil_div(y.size(0), 64)), block.x);
    copy(tile(x, 64, b), tile(y, 64, b));
}

#[test]
fn an_extent_whose_expression_is_a_number() {
    let x = numbers(100, 2);
    check_output(shares().def(), &[Arg::tensor(&x, [100]), Arg::output::<f32>([100])], "y", &x);
    let args = [Arg::tensor(&x, [100]), Arg::output::<f32>([1])];
    check_output(shares!(V = 0).def(), &args, "y", &x[..1]);
}

#[test]
fn sizes_that_are_not_as_asked_are_refused() {
    let message = |x: usize, n: usize, total: usize| {
        let args = [Arg::output::<f32>([x]), Arg::output::<f32>([n]), Arg::output::<f32>([total])];
        halves().simulate(&args).unwrap_err().to_string()
    };
    assert_eq!(message(12, 6, 1), "the kernel asserts `N % 4 == 0`: `N` is 6, the extent 0 of `pairs`");
    assert_eq!(message(17, 8, 1), "argument `x`: its extent 0 is 17, and `N * 2` is 16");
    assert_eq!(message(160, 80, 1), "argument `total`: its extent 0 is 1, and `ceil(N/64)` is 2");
    let args = [
        Arg::tensor(&[0, 1], [2]),
        Arg::tensor(&[0], [1]),
        Arg::tensor(&[0.0f32], [1]),
        Arg::tensor(&[0.0f32], [1]),
        Arg::output::<f32>([3]),
    ];
    let message = sparse().simulate(&args).unwrap_err().to_string();
    assert_eq!(message, "argument `begin`: its extent 0 is 2, and `M + 1` is 4");
}

/// Integers that are known at compile time behave as integers of a loop: quotients are rounded down, and remainders are never
/// negative.
#[kernel]
fn tiles_before(x: &Tensor<i32, N>, y: &mut Tensor<i32, (_4, _8)>, z: &mut Tensor<i32, (_4, _8)>) {
    for i in 0..8 {
        copy(tile(x, 4, (i - 5) / 2), tile(y, (4, 1), (0, i))[(_, 0)]);
        copy(tile(x, 4, (i - 5) % 3), tile(z, (4, 1), (0, i))[(_, 0)]);
    }
}

#[kernel(allow(unbounded))]
fn unrolled_tiles_before(x: &Tensor<i32, N>, y: &mut Tensor<i32, (_4, _8)>, z: &mut Tensor<i32, (_4, _8)>) {
    for i in unroll(0..8) {
        copy(tile(x, 4, (i - 5) / 2), tile(y, (4, 1), (0, i))[(_, 0)]);
        copy(tile(x, 4, (i - 5) % 3), tile(z, (4, 1), (0, i))[(_, 0)]);
    }
}

#[test]
fn integers_are_divided_while_compiling_as_in_a_loop() {
    inputs(tiles_before().def()).written(["N = 10"]);
    inputs(unrolled_tiles_before().def()).written(["N = 10"]);
}

/// Quotients and remainders of signed arguments in every position; a converted float is divided as an element.
#[kernel(allow(uncoalesced))]
fn divided(s: i32, t: i8, f: f32, x: &Tensor<i32, N>, y: &mut Tensor<i32, (_7, N)>) {
    let x = tile(x, 32, block.x);
    let y = tile(y, (1, 32), (_, block.x));
    let (half, rest) = (s / 2, s % 4);
    map(x, y[(0, _, 0)], |x| x + half);
    map(x, y[(0, _, 1)], |x| x + s / 2);
    map(x, y[(0, _, 2)], |x| x + rest);
    map(x, y[(0, _, 3)], |x| if s / 2 < block.x - 3 { x } else { -x });
    if s / 2 < block.x - 3 {
        copy(x, y[(0, _, 4)]);
    }
    if s / 2 >= block.x - 3 {
        map(x, y[(0, _, 4)], |x| -x);
    }
    map(x, y[(0, _, 5)], |x| x + (t as i32) / 2);
    map(x, y[(0, _, 6)], |x| x + (f as i32) / 2);
}

#[test]
fn quotients_of_arguments_are_rounded_down() {
    for s in [-7, -6, -5, -4, -1, 0, 5] {
        inputs(divided().def()).written([&*format!("N = 50, s = {s}, t = {s}, f = {s}")]);
    }
}

/// An integer that depends on elements and arguments is an `i32` that does not overflow, as among elements.
#[kernel]
fn lengths(
    steps: i32,
    ends: &Tensor<i32, { R + 1 }>,
    y: &mut Tensor<i32, (_1, T)>,
    total: &mut Tensor<i32, _1>,
) {
    for back in 0..steps {
        let one = tile(y, (1, 1), (0, steps - 1 - back));
        let t = steps - 1 - back;
        map(one, one, |_, at| at.0 + t);
    }
    let mut sum = full::<i32>((1), 0);
    for row in 0..R {
        sum += ends[(row + 1)] - ends[(row)];
    }
    copy(sum, total);
}

#[test]
fn differences_of_elements_are_numbers() {
    let args = |steps: i32, ends: &[i32]| {
        [
            Arg::number(steps),
            Arg::tensor(ends, [ends.len()]),
            Arg::output::<i32>([1, steps as usize]),
            Arg::output::<i32>([1]),
        ]
    };
    for (steps, ends) in [(1, vec![3]), (5, vec![2, 2, 9, 11])] {
        let wanted: Vec<i32> = (0..steps).collect();
        check_output(lengths().def(), &args(steps, &ends), "y", &wanted);
        check_output(lengths().def(), &args(steps, &ends), "total", &[ends[ends.len() - 1] - ends[0]]);
    }
}

#[test]
fn a_size_of_which_a_computed_extent_is_made_is_not_negative() {
    let kernel = lengths().def().generate().unwrap();
    let none: [i32; 0] = [];
    let args = [Arg::number(1), Arg::tensor(&none, [0]), Arg::output::<i32>([1, 1]), Arg::output::<i32>([1])];
    let message = run_every(&kernel, &args, &Options::default()).unwrap_err().to_string();
    assert!(
        message.contains("the kernel asserts `R + 1 >= 1`: `R_plus_1` is 0, the extent 0 of `ends`"),
        "{message}"
    );
}

/// Integers that may be negative, as `u32`: elements of `x`, differences, arguments, numbers; and elements of `u32` as `i32`.
#[kernel]
fn casts(
    s: i32,
    x: &Tensor<i32, N>,
    f: &Tensor<f32, N>,
    z: &Tensor<u32, M>,
    u: &Tensor<u32, N>,
    y: &mut Tensor<u32, (_10, N)>,
    signed: &mut Tensor<i32, (_3, N)>,
) {
    let b = block.x;
    let v = x[(b)];
    copy((u[(b)] as i32) / 3, tile(signed, (1, 1), (0, b)));
    copy((u[(b)] as i32) >> 28, tile(signed, (1, 1), (1, b)));
    let mut rounds = full::<i32>((1, 1), 0);
    for i in u[(b)] as i32..3 {
        rounds += 1;
        if i < -1 {
            rounds += 10;
        }
    }
    copy(rounds, tile(signed, (1, 1), (2, b)));
    let to = |i| tile(y, (1, 1), (i, b));
    copy((v as u32) / 3, to(0));
    copy((v as u32) >> 28, to(1));
    copy(((v - 5) as u32) / 3, to(2));
    copy(((b - 5) as u32) % 7, to(3));
    copy((s as u32) / 3, to(4));
    copy((f[(b)] as u32) / 3, to(5));
    copy(max(v as u32, 9), to(6));
    copy(z[(v as u32)], to(7));
    // Bits that are collected.
    let mut bits = full::<u32>((1, 1), 3);
    bits |= (v as u32) << 4;
    copy(bits, to(8));
    let mut count = full::<u32>((1, 1), 0);
    for i in 0..(v as u32) % 5 {
        count += 1;
    }
    if v as u32 > 100 {
        count += 10;
    }
    copy(count, to(9));
}

#[test]
fn casts_of_integers_are_those_of_rust() {
    inputs(casts().def())
        .list("x", [-5, 2, 70, i32::MIN + 5])
        .list("f", [3.0e9, 7.5, 100.0, 0.0])
        .list("u", [0xFFFF_FFF0u32, 7, 0xFFFF_FFFF, 0])
        .written(["s = -9, N = 4, M = 3"]);
}

/// A size that is bounded bounds the number of blocks that it numbers.
#[kernel]
fn numbered(y: &mut Tensor<u32, (_64, B)>) {
    at_most(B, 1000);
    let b = block.x;
    map(iota(64), tile(y, (64, 1), (0, b))[(_, 0)], |t| (b * 1000000 + t) as u32 * 3);
}

#[test]
fn blocks_are_as_many_as_a_size_allows() {
    inputs(numbered().def()).written(["B = 5"]);
}

/// Functions of one element are numbers and coordinates, as arithmetic on it is.
#[kernel]
fn functions_of_one(
    ids: &Tensor<i32, N>,
    bytes: &Tensor<u8, N>,
    x: &Tensor<i32, V>,
    y: &mut Tensor<i32, (_7, N)>,
) {
    let (v, b, y) = (ids[(block.x)], bytes[(block.x)], tile(y, (7, 1), (0, block.x))[(_, 0)]);
    copy(x[(abs(v))], y[(0)]);
    copy(x[(count_ones(v))], y[(1)]);
    copy(x[(!v)], y[(2)]);
    copy(x[(abs(v - 4) + 1)], y[(3)]);
    copy(leading_zeros(v), y[(4)]);
    copy(x[(!b)], y[(5)]);
    copy(count_ones(b), y[(6)]);
}

#[test]
fn functions_of_one_element_are_integers() {
    inputs(functions_of_one().def())
        .list("ids", [-3, 0, 5, -200, 199, i32::MIN, i32::MAX])
        .list("bytes", [0u8, 255, 100, 60, 55, 200, 1])
        .written(["N = 7, V = 200"]);
}

/// Elements out of bounds as integers: in sums, comparisons and bounds of loops, and as rows.
#[kernel]
fn outside(
    x: &Tensor<i32, N>,
    table: &Tensor<i32, V>,
    sums: &mut Tensor<i32, (M, _2)>,
    next: &mut Tensor<i32, M>,
    rows: &mut Tensor<i32, (M, _4)>,
) {
    let (mut a, mut b) = (full::<i32>(1, 0), full::<i32>(1, 0));
    for k in 0..8 {
        a = a + x[(k)];
        b += x[(k)];
    }
    let both = sums[(block.x, _)];
    copy(a, tile(both, 1, 0));
    copy(b, tile(both, 1, 1));
    let one = tile(x, 1, block.x + 1);
    copy(one + 5, tile(next, 1, block.x));
    let row = rows[(block.x, _)];
    copy(tile(table, 1, one), tile(row, 1, 0));
    copy(tile(table, 1, one + 1), tile(row, 1, 1));
    let (mut compared, mut counted) = (full::<i32>(1, 0), full::<i32>(1, 0));
    if one[(0)] >= 0 {
        compared += 1;
    }
    for _k in one[(0)]..2 {
        counted += 1;
    }
    copy(compared, tile(row, 1, 2));
    copy(counted, tile(row, 1, 3));
}

#[test]
fn integers_out_of_bounds_are_0_and_indices_none() {
    inputs(outside().def()).list("x", [1, 2, 3]).written(["N = 3, V = 4, M = 3"]);
}
