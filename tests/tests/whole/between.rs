//! Blocks that cooperate in one launch: old values of atomic updates, flags, orders of arrival; and loops that end by results that are
//! computed.

use crate::inputs;
use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::between::{queued, running_sum, split_k, total};
use tilewright_tests::contended::{inserted, multiplied};

/// Schedules of an ordinary test.
const SCHEDULES: u32 = 20;

/// Runs every variant under several schedules.
fn every(kernel: &tilewright::KernelDef, args: &[Arg], result: &str) -> Vec<Vec<f32>> {
    under(SCHEDULES, kernel, args, result)
}

/// Runs every variant under this number of schedules.
fn under(schedules: u32, kernel: &tilewright::KernelDef, args: &[Arg], result: &str) -> Vec<Vec<f32>> {
    let kernel = kernel.generate().unwrap();
    let options = Options { schedules, ..Options::default() };
    let all = run_every(&kernel, args, &options).unwrap_or_else(|fault| panic!("{fault}"));
    all.iter().map(|done| done.get::<f32>(result).unwrap()).collect()
}

fn sums(sizes: &[usize], schedules: u32) {
    for &n in sizes {
        let x: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
        let parts = Arg::in_out(&vec![0.0f32; n.div_ceil(1024)], [n.div_ceil(1024)]);
        let args = [Arg::tensor(&x, [n]), parts, Arg::in_out(&[0i32], [1]), Arg::output::<f32>([1])];
        for y in under(schedules, total().def(), &args, "y") {
            assert_eq!(y, [x.iter().sum::<f32>()]);
        }
    }
}

fn scans(sizes: &[usize], schedules: u32) {
    for &n in sizes {
        let x: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
        let tiles = n.div_ceil(512);
        let args = [
            Arg::tensor(&x, [n]),
            Arg::in_out(&[0i32], [1]),
            Arg::in_out(&vec![0i32; tiles], [tiles]),
            Arg::in_out(&vec![0.0f32; tiles], [tiles]),
            Arg::output::<f32>([n]),
        ];
        let mut sum = 0.0;
        let wanted: Vec<f32> = x
            .iter()
            .map(|x| {
                sum += x;
                sum
            })
            .collect();
        for y in under(schedules, running_sum().def(), &args, "y") {
            assert_eq!(y, wanted);
        }
    }
}

fn products(sizes: &[[usize; 3]], schedules: u32) {
    for &[m, n, k] in sizes {
        let a: Vec<f32> = (0..m * k).map(|i| (i % 5) as f32 - 2.0).collect();
        let b: Vec<f32> = (0..n * k).map(|i| (i % 3) as f32).collect();
        let bits = |x: &[f32]| -> Vec<bf16> { x.iter().map(|x| bf16::from_f32(*x)).collect() };
        let (tm, tn) = (m.div_ceil(64), n.div_ceil(64));
        let args = [
            Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
            Arg::tensor(&bits(&b), [n, k]).strides([k, 1]),
            Arg::in_out(&vec![0.0f32; m * n * 3], [m, n, 3]),
            Arg::in_out(&vec![0i32; tm * tn], [tm, tn]),
            Arg::output::<f32>([m, n]),
        ];
        let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum::<f32>();
        let wanted: Vec<f32> = (0..m * n).map(|at| dot(at % m, at / m)).collect();
        for c in under(schedules, split_k().def(), &args, "c") {
            assert_eq!(c, wanted);
        }
    }
}

fn queues(n: usize, schedules: u32) {
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let args = [Arg::tensor(&x, [n]), Arg::in_out(&[0i32], [1]), Arg::output::<f32>([n])];
    for y in under(schedules, queued().def(), &args, "y") {
        assert!(y.iter().zip(&x).all(|(y, x)| *y == 2.0 * x));
    }
}

#[test]
fn the_last_block_to_arrive_adds_up() {
    sums(&[1, 1024, 5000, 20_000], SCHEDULES);
}

#[test]
fn a_scan_in_one_pass_waits_for_the_block_before() {
    scans(&[1, 512, 1300, 5000], SCHEDULES);
}

#[test]
fn parts_of_k_are_added_by_the_last_block_to_arrive() {
    products(&[[64, 64, 96], [70, 45, 100], [130, 3, 31]], SCHEDULES);
}

#[test]
fn blocks_take_tiles_from_a_queue() {
    queues(3000, SCHEDULES);
}

/// `TILEWRIGHT_SCHEDULES` is the number for each kernel, otherwise 10,000.
#[test]
#[ignore = "long: cargo test --release -p tilewright-tests --test whole -- --ignored ten_thousand_schedules"]
fn ten_thousand_schedules() {
    let asked = std::env::var("TILEWRIGHT_SCHEDULES").ok().and_then(|n| n.parse().ok());
    let schedules = asked.unwrap_or(10_000);
    sums(&[2500], schedules);
    scans(&[1100], schedules);
    products(&[[64, 64, 96]], schedules);
    queues(1500, schedules);
}

/// Sums of rows up to a row that an argument names, with a producer, which leaves the loop as well.
#[kernel]
fn rows_up_to(last: i32, x: &Tensor<f32, (M, K), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let _ = walk(1, block.x);
    let gx = tile(x, (32, 32), (_, _));
    let s = shared::<f32>((32, 32));
    for m in 0..gx.size(2) {
        if m > last {
            break;
        }
        let mut total = full::<f32>((32, 1), 0.0);
        for k in pipelined(0..gx.size(3), stages = 2, producer = warp) {
            copy(gx[(_, _, m, k)], s);
            total += sum(s, 1);
        }
        copy(total[(_, 0)], tile(y, 32, m));
    }
}

#[test]
fn a_producer_leaves_a_loop_with_the_others() {
    inputs(rows_up_to().def()).schedules(SCHEDULES).zero("y").written(["last = 1, M = 100, K = 70"]);
}

/// Square roots by Newton's method, until all elements of the tile have converged.
#[kernel]
fn roots(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, steps: &mut Tensor<i32, { ceil_div(N, 256) }>) {
    let x = map(tile(x, 256, block.x), |x| x);
    let mut r = 0.5 * x + 0.5;
    let mut error = full::<f32>(1, 1.0);
    let mut count = full::<i32>(1, 0);
    while error > 0.001 {
        r = 0.5 * (r + x / r);
        error = reduce(map((r, x), |r, x| abs(r * r - x)), 0.0, |a, b| max(a, b));
        count += 1;
    }
    copy(r, tile(y, 256, block.x));
    copy(count, tile(steps, 1, block.x));
}

#[test]
fn a_loop_ends_by_what_it_has_computed() {
    let x: Vec<f32> = (0..600).map(|i| 1.0 + i as f32 / 8.0).collect();
    let args = [Arg::tensor(&x, [600]), Arg::output::<f32>([600]), Arg::output::<i32>([3])];
    for y in every(roots().def(), &args, "y") {
        assert!(y.iter().zip(&x).all(|(y, x)| (y * y - x).abs() <= 0.0011));
    }
}

/// Tiles with a positive sum alone are copied; those before the first that is too large.
#[kernel]
fn chosen(x: &Tensor<f32, (N, M)>, y: &mut Tensor<f32, (N, M)>) {
    let (from, to) = (tile(x, (256, 1), (_, block.x)), tile(y, (256, 1), (_, block.x)));
    for k in 0..from.size(2) {
        let r = map(from[(_, _, k)], |x| x);
        let s = sum(r);
        if s > 1000.0 {
            break;
        }
        if s > 0.0 {
            copy(r, to[(_, _, k)]);
        }
    }
}

#[test]
fn sums_decide_what_is_copied() {
    // Sums of the tiles of a column: negative, positive, positive, too large.
    let value = |tile: usize| [-1.0, 1.0, 1.0, 100.0][tile % 4];
    inputs(chosen().def())
        .schedules(SCHEDULES)
        .indexed("x", move |at, _| value(at % 1000 / 256 + at / 1000))
        .zero("y")
        .written(["N = 1000, M = 3"]);
}

/// The sorting step of a histogram: each element takes a different position among the elements of its bin.
#[kernel]
fn places(x: &Tensor<i32, N>, counts: &mut Tensor<i32, B>, index: &mut Tensor<i32, N>) {
    let before = scatter(tile(x, 256, block.x), counts, |x| (x, 1), how = "atomic_add", order = "relaxed");
    copy(before, tile(index, 256, block.x));
}

#[test]
fn elements_take_places_in_their_bins() {
    let x: Vec<i32> = (0..700).map(|i| (i * 7 + i / 3) % 11).collect();
    let args = [Arg::tensor(&x, [700]), Arg::in_out(&[0i32; 11], [11]), Arg::output::<i32>([700])];
    let kernel = places().def().generate().unwrap();
    for done in run_every(&kernel, &args, &Options::default()).unwrap_or_else(|fault| panic!("{fault}")) {
        let mut all: Vec<(i32, i32)> = x.iter().copied().zip(done.get::<i32>("index").unwrap()).collect();
        all.sort_unstable();
        let mut next = 0;
        for (at, (bin, index)) in all.iter().enumerate() {
            next = if at > 0 && all[at - 1].0 == *bin { next + 1 } else { 0 };
            assert_eq!(*index, next, "bin {bin}");
        }
    }
}

/// The last block to arrive reads what others have written, without an order between the two.
#[kernel]
fn unordered(
    x: &Tensor<f32, N>,
    parts: &mut Tensor<f32, { ceil_div(N, 256) }>,
    arrived: &mut Tensor<i32, _1>,
    y: &mut Tensor<f32, _1>,
) {
    copy(sum(tile(x, 256, block.x)), tile(parts, 1, block.x));
    let before = copy(1, arrived, how = "atomic_add", order = "relaxed");
    if before[(0)] == parts.size(0) - 1 {
        let mut all = full::<f32>(1, 0.0);
        for k in 0..ceil_div(parts.size(0), 256) {
            all += sum(tile(parts, 256, k));
        }
        copy(all, y);
    }
}

/// Each block waits for the next one, and the last for none.
#[kernel]
fn backwards(ticket: &mut Tensor<i32, _1>, flags: &mut Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let _ = walk(flags.size(0), block.x);
    let begun = copy(1, ticket, how = "atomic_add", order = "relaxed");
    let t = begun[(0)];
    wait(flags[(t + 1)], 1);
    copy(t, tile(y, 1, t));
    signal(flags[(t)]);
}

/// A block reads the end of the one before without a wait.
#[kernel]
fn hasty(
    x: &Tensor<f32, N>,
    ticket: &mut Tensor<i32, _1>,
    ends: &mut Tensor<f32, { ceil_div(N, 256) }>,
    y: &mut Tensor<f32, N>,
) {
    let _ = walk(ends.size(0), block.x);
    let begun = copy(1, ticket, how = "atomic_add", order = "relaxed");
    let t = begun[(0)];
    copy(sum(tile(x, 256, t)), tile(ends, 1, t));
    let before = map(tile(ends, 1, t - 1), |x| x);
    copy(tile(x, 256, t) + before, tile(y, 256, t));
}

#[test]
fn what_is_not_ordered_is_found() {
    let fault = |kernel: &tilewright::KernelDef, args: &[Arg]| {
        let options = Options { schedules: 3, ..Options::default() };
        match run_every(&kernel.generate().unwrap(), args, &options) {
            Err(tilewright_sim::Error::Fault(fault)) => fault.to_string(),
            other => panic!("{}: {other:?}", kernel.name()),
        }
    };
    let (x, zeros) = (vec![1.0f32; 2000], Arg::in_out(&[0.0f32; 8], [8]));
    let (count, one) = (Arg::in_out(&[0i32], [1]), Arg::output::<f32>([1]));
    let message = fault(unordered().def(), &[Arg::tensor(&x, [2000]), zeros.clone(), count.clone(), one]);
    assert!(message.contains("a race") && message.contains("release"), "{message}");
    let message =
        fault(hasty().def(), &[Arg::tensor(&x, [2000]), count.clone(), zeros, Arg::output::<f32>([2000])]);
    assert!(message.contains("a race"), "{message}");
    // More blocks than are resident at once.
    let n = 150;
    let flags = Arg::in_out(&vec![0i32; n], [n]);
    let message = fault(backwards().def(), &[count, flags, Arg::output::<i32>([n])]);
    assert!(message.contains("a deadlock"), "{message}");
}

#[test]
fn keys_are_inserted_once() {
    for (n, keys, v) in [(1, 1, 1), (300, 40, 64), (700, 90, 97)] {
        let all: Vec<u32> = (0..n).map(|at| (at * 7919 % keys) as u32 * 1000 + 1).collect();
        let args = [Arg::tensor(&all, [n]), Arg::in_out(&vec![0u32; v], [v]), Arg::output::<i32>([n])];
        let kernel = inserted().def().generate().unwrap();
        let mut wanted = all.clone();
        wanted.sort_unstable();
        wanted.dedup();
        for seed in 0..8 {
            let options = Options { seed, ..Options::default() };
            for done in run_every(&kernel, &args, &options).unwrap_or_else(|fault| panic!("{fault}")) {
                let (table, places) = (done.get::<u32>("table").unwrap(), done.get::<i32>("places").unwrap());
                assert!(
                    all.iter().zip(&places).all(|(key, index)| table[*index as usize] == *key),
                    "{table:?}"
                );
                let mut stored: Vec<u32> = table.into_iter().filter(|key| *key != 0).collect();
                stored.sort_unstable();
                assert_eq!(stored, wanted);
            }
        }
    }
}

#[test]
fn products_by_compare_and_exchange() {
    for n in [1usize, 256, 1500] {
        let x: Vec<i64> = (0..n as i64).map(|at| (at * 37 % 101) * 2 + 1 - 64 * (at % 2)).collect();
        let wanted = x.iter().fold(1i64, |all, x| all.wrapping_mul(*x));
        let args = [Arg::tensor(&x, [n]), Arg::in_out(&[1i64], [1])];
        let kernel = multiplied().def().generate().unwrap();
        for seed in 0..8 {
            let options = Options { seed, ..Options::default() };
            for done in run_every(&kernel, &args, &options).unwrap_or_else(|fault| panic!("{fault}")) {
                assert_eq!(done.get::<i64>("y").unwrap(), [wanted], "{n}");
            }
        }
    }
}
