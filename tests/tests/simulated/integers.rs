//! Data-dependent integers: conditions, loop bounds, coordinates read from memory. Each kernel is compared
//! with its text, in every variant, at sizes that tiles do not divide, with poisoned outputs.

use tilewright::prelude::*;
use tilewright_codegen::thread::Fact;
use tilewright_layout::Value;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::integers::*;

use crate::{check, check_output};

/// Small integers, so that sums are exact.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed * 3) % 11) as f32 - 5.0).collect()
}

/// Row indices, some of them far out of bounds.
fn rows(count: usize, of: usize) -> Vec<i32> {
    let wild = [-1, i32::MIN, i32::MAX, of as i32];
    (0..count).map(|at| if at % 5 == 3 { wild[at / 5 % 4] } else { ((at * 13 + 2) % of) as i32 }).collect()
}

#[test]
fn rows_are_gathered() {
    for (n, v, d) in [(1, 1, 1), (7, 10, 64), (23, 5, 100), (4, 9, 33)] {
        let (ids, table) = (rows(n, v), numbers(v * d, 1));
        let args = [
            Arg::tensor(&ids, [n]),
            Arg::tensor(&table, [v, d]).strides([d, 1]),
            Arg::output::<f32>([n, d]).strides([d, 1]),
        ];
        check(gather().def(), &args);
    }
}

#[test]
fn elements_are_gathered() {
    for (n, v) in [(1, 1), (64, 10), (131, 37)] {
        let ids: Vec<u32> = rows(n, v).into_iter().map(|row| row as u32).collect();
        let table = numbers(v, 2);
        let args = [Arg::tensor(&ids, [n]), Arg::tensor(&table, [v]), Arg::output::<f32>([n])];
        check(gather_elements().def(), &args);
    }
}

#[test]
fn rows_are_scattered() {
    for (n, d) in [(1, 1), (5, 32), (9, 45)] {
        let v = n + 2;
        let places: Vec<i32> =
            (0..n).map(|at| if at == 3 { -4 } else { ((at * 5 + 1) % n) as i32 }).collect();
        let distinct = |at: usize| !places[..at].contains(&places[at]);
        let places: Vec<i32> =
            (0..n).map(|at| if distinct(at) { places[at] } else { (v + at) as i32 }).collect();
        let (x, before) = (numbers(n * d, 3), numbers(v * d, 4));
        let args = [
            Arg::tensor(&x, [n, d]).strides([d, 1]),
            Arg::tensor(&places, [n]),
            Arg::in_out(&before, [v, d]).strides([d, 1]),
        ];
        check(scatter_rows().def(), &args);
    }
}

#[test]
fn loops_between_numbers_without_a_sign_run_as_long_as_these_say() {
    let ends =
        [[0, 3], [2, u32::MAX], [u32::MAX, 4], [u32::MAX, u32::MAX], [4, 2], [1 << 31, 7], [5, 1 << 31]];
    let x = numbers(32 * 5, 1);
    let args = [
        Arg::tensor(&x, [32, 5]),
        Arg::tensor(&ends.concat(), [2 * ends.len()]),
        Arg::output::<f32>([32, ends.len()]),
    ];
    check(unsigned_ranges().def(), &args);
}

#[test]
fn triangles_of_tiles_end_where_the_block_is() {
    for (n, d) in [(32, 8), (96, 16), (101, 13), (1, 1)] {
        let x = numbers(n * d, 5);
        let args = [Arg::tensor(&x, [n, d]), Arg::output::<f32>([n, d])];
        check(prefix().def(), &args);
    }
    let source = prefix().source().to_owned();
    assert!(source.contains("j < bx + 1"), "{source}");
    // Tiles up to the block's own are in bounds if all tiles are whole.
    assert!(!source.contains("if ("), "{source}");
}

#[test]
fn pipelined_loops_end_where_the_block_is() {
    for (m, n, k) in [(64, 32, 64), (70, 33, 70), (40, 1, 90), (96, 8, 17)] {
        let (l, x) = (numbers(m * k, 1), numbers(n * k, 2));
        let args = [Arg::tensor(&l, [m, k]), Arg::tensor(&x, [n, k]), Arg::output::<f32>([m, n])];
        check(causal().def(), &args);
    }
}

#[test]
fn parts_of_k_are_summed_apart() {
    for (m, n, k, s) in [(32, 32, 64, 2), (37, 5, 71, 3), (32, 33, 8, 4), (1, 1, 1, 1)] {
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let args = [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n, s])];
        check(split_k().def(), &args);
    }
}

#[test]
fn rows_of_sparse_matrices_are_as_long_as_they_are() {
    for (m, n) in [(1, 4), (32, 9), (45, 20)] {
        let long = |i: usize| (i * 5 + 1) % 4;
        let begin: Vec<i32> = (0..=m).map(|i| (0..i).map(long).sum::<usize>() as i32).collect();
        let z = begin[m].max(1) as usize;
        let column: Vec<i32> = (0..z).map(|at| ((at * 7 + 3) % n) as i32).collect();
        let (value, x) = (numbers(z, 1), numbers(n, 2));
        let args = [
            Arg::tensor(&begin, [m + 1]),
            Arg::tensor(&column, [z]),
            Arg::tensor(&value, [z]),
            Arg::tensor(&x, [n]),
            Arg::output::<f32>([m]),
        ];
        check(sparse().def(), &args);
    }
}

#[test]
fn conditions_are_decided_while_the_kernel_runs() {
    for (blocks, n, alpha) in [(1, 0, 0.0f32), (4, 2, 1.0), (5, 5, 0.5), (3, -2, 2.0)] {
        let flags: Vec<i32> = (0..blocks).map(|at| at as i32 * 2 - 1).collect();
        let args = [
            Arg::tensor(&flags, [blocks]),
            Arg::number(n),
            Arg::number(alpha),
            Arg::output::<f32>([blocks, 8]),
        ];
        check(conditions().def(), &args);
    }
}

#[test]
fn integers_are_numbers() {
    for (m, n) in [(1, 1), (40, 3), (100, 7)] {
        let x = numbers(m * n, 1);
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([m])];
        check(as_numbers().def(), &args);
    }
}

#[test]
fn a_place_that_was_computed_is_a_coordinate() {
    let n = 6;
    let score: Vec<i32> = (0..n * 32).map(|at| ((at * 37 + at / 7) % 50) as i32).collect();
    let label = numbers(32, 3);
    let args = [
        Arg::tensor(&score, [n, 32]).strides([32, 1]),
        Arg::tensor(&label, [32]),
        Arg::output::<f32>([n, 1]),
    ];
    check(label_of_best().def(), &args);
}

#[test]
fn extents_are_computed() {
    for n in [4, 64, 100, 132] {
        let x = numbers(2 * n, 1);
        let args = [Arg::tensor(&x, [2 * n]), Arg::output::<f32>([n]), Arg::output::<f32>([n.div_ceil(64)])];
        check(halves().def(), &args);
    }
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
    let x: Vec<i32> = (1..=10).collect();
    let args = [Arg::tensor(&x, [10]), Arg::output::<i32>([4, 8]), Arg::output::<i32>([4, 8])];
    for kernel in [tiles_before().def(), unrolled_tiles_before().def()] {
        check(kernel, &args);
    }
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
    let x: Vec<i32> = (0..50).collect();
    for s in [-7i32, -6, -5, -4, -1, 0, 5] {
        check(
            divided().def(),
            &[
                Arg::number(s),
                Arg::number(s as i8),
                Arg::number(s as f32),
                Arg::tensor(&x, [50]),
                Arg::output::<i32>([7, 50]),
            ],
        );
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
    let (s, x, f, z) = (-9i32, [-5i32, 2, 70, i32::MIN + 5], [3.0e9f32, 7.5, 100.0, 0.0], [8u32, 6, 4]);
    let w = [0xFFFF_FFF0u32, 7, 0xFFFF_FFFF, 0];
    let args = [
        Arg::number(s),
        Arg::tensor(&x, [4]),
        Arg::tensor(&f, [4]),
        Arg::tensor(&z, [3]),
        Arg::tensor(&w, [4]),
        Arg::output::<u32>([10, 4]),
        Arg::output::<i32>([3, 4]),
    ];
    check(casts().def(), &args);
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
    let b = 5;
    check(numbered().def(), &[Arg::output::<u32>([64, b as usize])]);
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
    let x: Vec<i32> = (0..200).map(|at| at * 3 + 1).collect();
    let ids = [-3i32, 0, 5, -200, 199, i32::MIN, i32::MAX];
    let bytes = [0u8, 255, 100, 60, 55, 200, 1];
    let args = [
        Arg::tensor(&ids, [7]),
        Arg::tensor(&bytes, [7]),
        Arg::tensor(&x, [200]),
        Arg::output::<i32>([7, 7]),
    ];
    check(functions_of_one().def(), &args);
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
    let x = [1i32, 2, 3];
    let table = [10i32, 20, 30, 40];
    let args = [
        Arg::tensor(&x, [3]),
        Arg::tensor(&table, [4]),
        Arg::output::<i32>([3, 2]),
        Arg::output::<i32>([3]),
        Arg::output::<i32>([3, 4]),
    ];
    check(outside().def(), &args);
}
