//! The kernels of `examples/models`, compared with their text in double precision, at sizes that tiles do not divide.

use tilewright::KernelDef;
use tilewright::kernels::models::{embed, experts, gated_gemm, paged, rms_norm, weights};
use tilewright::prelude::*;
use tilewright_fuzz::{near, written};
use tilewright_tests::number::Random;

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (random.word() % 2001) as f32 / 1000.0 - 1.0).collect()
}

fn halves(count: usize, seed: u64) -> Vec<f16> {
    numbers(count, seed).into_iter().map(f16::from_f32).collect()
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.word() as u8).collect()
}

fn below(count: usize, most: usize, seed: u64) -> Vec<i32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (random.word() as usize % most) as i32).collect()
}

/// A matrix with contiguous rows.
fn rows(of: Arg, columns: usize) -> Arg {
    of.strides([columns, 1])
}

#[test]
fn embeddings() {
    for (m, v, d) in [(5, 40, 1088), (1, 3, 576)] {
        let tokens = Arg::tensor(&below(m, v, 1), [m]);
        let x = rows(Arg::output::<f32>([m, d]), d);
        let table = rows(Arg::tensor(&halves(v * d, 2), [v, d]), d);
        written(embed::embed().def(), &[tokens.clone(), table, x.clone()]);
        let codes: Vec<i8> = bytes(v * d, 3).into_iter().map(u8::cast_signed).collect();
        let codes = rows(Arg::tensor(&codes, [v, d]), d);
        let scales = Arg::tensor(&halves(v * d / 32, 4), [v, d / 32]);
        written(embed::embed_q8().def(), &[tokens, codes, scales, x]);
    }
}

#[test]
fn norms() {
    for (m, n) in [(3, 576), (2, 2100), (1, 1)] {
        let (x, w) = (rows(Arg::tensor(&numbers(m * n, 1), [m, n]), n), Arg::tensor(&numbers(n, 2), [n]));
        let y = rows(Arg::output::<f16>([m, n]), n);
        let args = [Arg::number(1e-5f32), x, w, y];
        for limit in [1024, 2048, 4096, 8192].into_iter().filter(|limit| n <= *limit) {
            near(rms_norm::rms_norm().specialize(&[("LIMIT", limit)]).unwrap().def(), &args, 1e-5);
        }
    }
}

#[test]
fn linear_layers() {
    for (m, n, k) in [(3, 70, 160), (1, 64, 64), (70, 33, 96)] {
        let a = rows(Arg::tensor(&halves(m * k, 1), [m, k]), k);
        // Stored in f16, and added to numbers of f32.
        let outputs = [rows(Arg::output::<f16>([m, n]), n), rows(Arg::in_out(&numbers(m * n, 2), [m, n]), n)];
        let [stored, added] = &outputs;
        let check = |store: &KernelDef, add: &KernelDef, weights: &[Arg]| {
            for (def, y) in [(store, stored), (add, added)] {
                near(def, &[std::slice::from_ref(&a), weights, std::slice::from_ref(y)].concat(), 1e-3);
            }
        };
        let (groups, small) = (k / 32, |seed| halves(n * k / 32, seed).into_iter());
        let scales: Vec<f16> = small(4).map(|of| f16::from_f32(of.to_f32() / 64.0)).collect();
        let scales = Arg::tensor(&scales, [n, groups]);
        let codes: Vec<i8> = bytes(n * k, 5).into_iter().map(u8::cast_signed).collect();
        let w = [rows(Arg::tensor(&codes, [n, k]), k), scales.clone()];
        check(weights::linear_q8().def(), weights::linear_q8!(Y = f32, ADD = 1).def(), &w);
        let codes = rows(Arg::tensor(&bytes(n * k / 2, 6), [n, k / 2]), k / 2);
        let offsets = Arg::tensor(&small(7).collect::<Vec<_>>(), [n, groups]);
        let w = [codes, scales, offsets];
        check(weights::linear_q4().def(), weights::linear_q4!(Y = f32, ADD = 1).def(), &w);
        check(weights::linear_q4_hopper().def(), weights::linear_q4_hopper!(Y = f32, ADD = 1).def(), &w);
    }
}

/// A matrix of these rows in double precision.
fn wide(of: &[f16]) -> Vec<f64> {
    of.iter().map(|of| f64::from(of.to_f32())).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn experts_multiply_their_own_rows() {
    // One expert has no rows, one has more than a tile.
    let (n, k, offsets) = (136, 72, [0i32, 5, 5, 45, 46]);
    let (m, count) = (46, offsets.len() - 1);
    let (x, w) = (halves(m * k, 1), halves(count * n * k, 2));
    for (bm, bn) in [(16, 256), (64, 128)] {
        let most = m / bm + count;
        let given = Arg::tensor(&offsets, [offsets.len()]);
        let plan = experts::expert_tiles().specialize(&[("BM", bm)]).unwrap();
        let planned = plan.simulate(&[given, rows(Arg::output::<i32>([most, 3]), 3)]).unwrap();
        let tiles = rows(Arg::tensor(&planned.get::<i32>("tiles").unwrap(), [most, 3]), 3);
        let args = [
            tiles,
            rows(Arg::tensor(&x, [m, k]), k),
            Arg::tensor(&w, [count, n, k]).strides([n * k, k, 1]),
            rows(Arg::output::<f16>([m, n]), n),
        ];
        let sizes = [("BM", bm), ("BN", bn)];
        let multiply = experts::experts!(T = f16).specialize(&sizes).unwrap();
        let got: Vec<f16> = multiply.simulate(&args).unwrap().get("y").unwrap();
        let (x, w) = (wide(&x), wide(&w));
        for (at, got) in got.iter().enumerate() {
            let (row, column) = (at / n, at % n);
            let expert = offsets.iter().rposition(|first| *first as usize <= row).unwrap();
            let wanted = dot(&x[row * k..][..k], &w[(expert * n + column) * k..][..k]);
            let got = f64::from(got.to_f32());
            assert!(
                (got - wanted).abs() < 1e-2 + 1e-3 * wanted.abs(),
                "{row}, {column}: {got}, not {wanted}"
            );
        }
    }
}

/// Pairs of tokens and their two most probable experts: their rows are in the order of experts, and results come back by their shares.
#[test]
fn tokens_go_to_their_experts() {
    let (m, count, n) = (1100, 5, 40);
    let logits = numbers(m * count, 1);
    let pairs = |of: Arg| rows(of, 2);
    let given = rows(Arg::tensor(&logits, [m, count]), count);
    let routed = experts::route_tokens()
        .simulate(&[given, pairs(Arg::output::<i32>([m, 2])), pairs(Arg::output::<f32>([m, 2]))])
        .unwrap();
    let (chosen, shares) = (routed.get::<i32>("chosen").unwrap(), routed.get::<f32>("shares").unwrap());
    for (row, (chosen, shares)) in logits.chunks_exact(count).zip(chosen.chunks(2).zip(shares.chunks(2))) {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        assert_eq!(chosen, [order[0] as i32, order[1] as i32]);
        assert!(shares[0] == 1.0 && (shares[1] - (row[order[1]] - row[order[0]]).exp()).abs() < 1e-5);
    }
    let args = [Arg::tensor(&chosen, [2 * m]), Arg::output::<i32>([2 * m]), Arg::output::<i32>([count + 1])];
    let arranged = experts::arrange_pairs().simulate(&args).unwrap();
    let mut order: Vec<usize> = (0..2 * m).collect();
    order.sort_by_key(|pair| chosen[*pair]);
    let place = arranged.get::<i32>("rows").unwrap();
    assert!(order.iter().enumerate().all(|(row, pair)| place[*pair] == row as i32));
    let before = |expert: usize| chosen.iter().filter(|of| (**of as usize) < expert).count() as i32;
    assert_eq!(arranged.get::<i32>("offsets").unwrap(), (0..=count).map(before).collect::<Vec<_>>());
    let x = halves(m * n, 2);
    let y = rows(Arg::output::<f16>([2 * m, n]), n);
    let args = [Arg::tensor(&place, [2 * m]), rows(Arg::tensor(&x, [m, n]), n), y];
    let spread: Vec<f16> = experts::spread_rows!(T = f16).simulate(&args).unwrap().get("y").unwrap();
    for (pair, row) in place.iter().enumerate() {
        assert_eq!(spread[*row as usize * n..][..n], x[pair / 2 * n..][..n]);
    }
    let given = numbers(m * n, 3);
    let args = [
        pairs(Arg::tensor(&place, [m, 2])),
        pairs(Arg::tensor(&shares, [m, 2])),
        rows(Arg::tensor(&spread, [2 * m, n]), n),
        rows(Arg::in_out(&given, [m, n]), n),
    ];
    let sums: Vec<f32> = experts::combine_rows!(T = f16).simulate(&args).unwrap().get("x").unwrap();
    let wanted = given.iter().zip(&x).map(|(given, x)| given + x.to_f32());
    assert!(sums.iter().zip(wanted).all(|(sum, wanted)| (sum - wanted).abs() < 1e-5));
}

#[test]
fn gates_of_two_products() {
    let (m, n, k) = (70, 72, 136);
    let [x, w, u] = [(m, 1), (n, 2), (n, 3)]
        .map(|(count, seed)| rows(Arg::tensor(&halves(count * k, seed), [count, k]), k));
    let args = [x, w, u, rows(Arg::output::<f16>([m, n]), n)];
    for (bm, bn, w_left) in [(128, 64, 0), (64, 32, 0), (16, 64, 1), (32, 64, 1)] {
        let sizes = [("BM", bm), ("BN", bn), ("W_LEFT", w_left)];
        near(gated_gemm::gated_gemm!(T = f16).specialize(&sizes).unwrap().def(), &args, 2e-3);
    }
}

/// Sizes of attention: heads of keys, heads of queries for each, their width, tokens of a page, pages.
const SIZES: [usize; 5] = [2, 3, 64, 16, 9];

/// Attention in double precision: tokens at these positions of these sequences, whose pages are the rows of a table.
#[track_caller]
fn attends(done: &[f16], [q, k, v]: &[Vec<f16>; 3], tokens: &[(usize, usize)], table: &[&[usize]]) {
    let ([j, g, d, p, _], wide) = (SIZES, |of: &f16| f64::from(of.to_f32()));
    for (at, got) in done.chunks_exact(d).enumerate() {
        let ((position, sequence), head) = (tokens[at / (g * j)], at % (g * j));
        let row = |at: usize| ((table[sequence][at / p] * p + at % p) * j + head / g) * d;
        let (query, row) = (&q[at * d..][..d], |of: &[f16], at: usize| of[row(at)..][..d].to_vec());
        let dot = |key: Vec<f16>| query.iter().zip(&key).map(|(q, k)| wide(q) * wide(k)).sum::<f64>() / 8.0;
        let weights: Vec<f64> = (0..=position).map(|at| dot(row(k, at)).exp()).collect();
        for (c, got) in got.iter().enumerate() {
            let sum: f64 = weights.iter().enumerate().map(|(at, w)| w * wide(&row(v, at)[c])).sum();
            let wanted = sum / weights.iter().sum::<f64>();
            assert!((wide(got) - wanted).abs() < 2e-3, "token and head {at}: {got:?}, not {wanted}");
        }
    }
}

fn pages(of: Arg) -> Arg {
    let [j, _, d, p, _] = SIZES;
    of.strides([p * j * d, j * d, d, 1])
}

/// Positions, sequences and pages.
fn tokens(of: &[(usize, usize)], table: &[&[usize]]) -> [Arg; 3] {
    let each = |of: Vec<i32>| Arg::tensor(&of, [of.len()]);
    let row = table[0].len();
    let pages: Vec<i32> = table.iter().flat_map(|of| of.iter().map(|page| *page as i32)).collect();
    [
        each(of.iter().map(|of| of.0 as i32).collect()),
        each(of.iter().map(|of| of.1 as i32).collect()),
        rows(Arg::tensor(&pages, [table.len(), row]), row),
    ]
}

#[test]
fn keys_are_stored_in_pages() {
    let ([j, _, d, p, r], heads) = (SIZES, 5 * SIZES[0]);
    let given = [(16, 0), (17, 0), (5, 1)];
    let three = |of: Arg, heads: usize| of.strides([heads * d, d, 1]);
    let stored = |seed| pages(Arg::in_out(&halves(r * p * j * d, seed), [r, p, j, d]));
    let angles = |seed| rows(Arg::tensor(&numbers(20 * d / 2, seed), [20, d / 2]), d / 2);
    let qkv = three(Arg::in_out(&halves(3 * heads * d, 3), [3, heads, d]), heads);
    let given = tokens(&given, &[&[7, 2], &[4, 0]]);
    let args = [&given[..], &[angles(1), angles(2), qkv, stored(4), stored(5)]].concat();
    near(paged::rotate_and_store!(G = 3, P = 16).def(), &args, 1e-4);
}

#[test]
fn attention_to_pages() {
    let [j, g, d, p, r] = SIZES;
    let given = |m: usize| {
        [(m * g * j * d, 6), (r * p * j * d, 7), (r * p * j * d, 8)].map(|(n, seed)| halves(n, seed))
    };
    let cached = |of| pages(Arg::tensor(of, [r, p, j, d]));
    // Two new tokens of the first sequence, and one of the second.
    let (all, table): (_, &[&[usize]]) = ([(70, 0), (71, 0), (5, 1)], &[&[7, 2, 5, 3, 1], &[4, 0, 0, 0, 0]]);
    let numbers = given(3);
    let heads = |of: Arg| of.strides([g * j * d, g * d, d, 1]);
    let [q, out] = [Arg::tensor(&numbers[0], [3, j, g, d]), Arg::output::<f16>([3, j, g, d])].map(heads);
    for x in [1, 2, 5, 8, 11] {
        let unknown = |count| vec![f32::NAN; count];
        let parts = Arg::in_out(&unknown(d * g * j * 3 * x), [d, g, j, 3, x]);
        let sums = Arg::in_out(&unknown(g * x * j * 3 * 2), [g, x, j, 3, 2]);
        let arrived = Arg::in_out(&vec![0; 3 * j], [j, 3]);
        let more = [q.clone(), cached(&numbers[1]), cached(&numbers[2]), parts, sums, arrived, out.clone()];
        let args = [&[Arg::number(0.125f32)], &tokens(&all, table)[..], &more].concat();
        let done = paged::paged_attention!(G = 3, P = 16, BN = 16).simulate(&args).unwrap();
        attends(&done.get("out").unwrap(), &numbers, &all, table);
        assert_eq!(done.get::<i32>("arrived").unwrap(), vec![0; 3 * j]);
    }
    // Tokens of a prompt, after others.
    let all: Vec<(usize, usize)> = (7..77).map(|at| (at, 0)).collect();
    let numbers = given(all.len());
    let heads = |of: Arg| of.strides([g * j * d, d, 1]);
    let [q, out] = [Arg::tensor(&numbers[0], [70, g * j, d]), Arg::output::<f16>([70, g * j, d])].map(heads);
    let more = [q, cached(&numbers[1]), cached(&numbers[2]), out];
    let args = [&[Arg::number(0.125f32)], &tokens(&all, &table[..1])[..], &more].concat();
    let done = paged::paged_prefill!(G = 3, P = 16).simulate(&args).unwrap();
    attends(&done.get("out").unwrap(), &numbers, &all, table);
}
