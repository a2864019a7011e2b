//! Calls of the kernels of language models, against double precision.

use tilewright::models::{self, Forward, Half, Mask, Pages};
use tilewright::{DeviceTensor, Stream, bf16, f16};
use tilewright_tests::number::Random;

use super::stream;

/// Numbers of 16 bits, and their values.
fn numbers<T: Half>(
    count: usize,
    seed: u64,
    of: impl Fn(f32) -> T,
    value: impl Fn(T) -> f64,
) -> (Vec<T>, Vec<f64>) {
    let mut random = Random::new(seed);
    let all: Vec<T> = (0..count).map(|_| of((random.word() % 2001) as f32 / 1000.0 - 1.0)).collect();
    let values = all.iter().map(|number| value(*number)).collect();
    (all, values)
}

fn close(name: &str, got: impl IntoIterator<Item = f64>, wanted: &[f64], bound: f64) {
    let mut count = 0;
    for (at, (got, wanted)) in got.into_iter().zip(wanted).enumerate() {
        assert!(
            (got - wanted).abs() <= bound * wanted.abs().max(1.0),
            "{name}: element {at} is {got}, not {wanted}"
        );
        count += 1;
    }
    assert_eq!(count, wanted.len(), "{name}");
}

/// Queries, keys, elements, heads of queries, heads of keys, sequences.
const SIZES: [usize; 6] = [77, 130, 64, 4, 2, 2];

/// Attention and its gradients in double precision: the result, and gradients of queries, keys and values.
fn attended(mask: Mask, [q, k, v, grad]: [&[f64]; 4]) -> [Vec<f64>; 4] {
    let [m, n, d, h, j, b] = SIZES;
    let mut all = [q, q, k, v].map(|like| vec![0.0; like.len()]);
    for (sequence, head) in (0..b).flat_map(|sequence| (0..h).map(move |head| (sequence, head))) {
        let query = |row: usize| ((sequence * h + head) * m + row) * d;
        let key = |row: usize| ((sequence * j + head * j / h) * n + row) * d;
        for i in 0..m {
            let position = i + n - m;
            let sees = |at: usize| match mask {
                Mask::None => true,
                Mask::Causal => at <= position,
                Mask::Window(left) => at <= position && position <= at + left as usize,
            };
            let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
            let weight = |at: usize| {
                if sees(at) { (dot(&q[query(i)..][..d], &k[key(at)..][..d]) / 8.0).exp() } else { 0.0 }
            };
            let weights: Vec<f64> = (0..n).map(weight).collect();
            let total: f64 = weights.iter().sum();
            let given = &grad[query(i)..][..d];
            let slopes: Vec<f64> = (0..n).map(|at| dot(given, &v[key(at)..][..d])).collect();
            let mean = weights.iter().zip(&slopes).map(|(w, s)| w * s).sum::<f64>() / total;
            for at in 0..n {
                let p = weights[at] / total;
                let slope = p * (slopes[at] - mean) / 8.0;
                for c in 0..d {
                    all[0][query(i) + c] += p * v[key(at) + c];
                    all[1][query(i) + c] += slope * k[key(at) + c];
                    all[2][key(at) + c] += slope * q[query(i) + c];
                    all[3][key(at) + c] += p * given[c];
                }
            }
        }
    }
    all
}

fn attention<T: Half>(
    stream: &Stream,
    mask: Mask,
    of: impl Fn(f32) -> T + Copy,
    value: impl Fn(T) -> f64 + Copy,
) {
    let [m, n, d, h, j, b] = SIZES;
    let [many, few] = [b * h * m * d, b * j * n * d];
    let given =
        [(many, 1), (few, 2), (few, 3), (many, 4)].map(|(count, seed)| numbers(count, seed, of, value));
    let upload =
        |numbers: &[T]| DeviceTensor::from_elements(stream, [numbers.len()], [1], numbers).expect("memory");
    let tensors: Vec<_> = given.iter().map(|(numbers, _)| upload(numbers)).collect();
    let poisoned = |count| DeviceTensor::<T, 1>::poisoned(stream, [count]).expect("memory");
    let (mut o, mut grads) = (poisoned(many), [poisoned(many), poisoned(few), poisoned(few)]);
    let mut lse = DeviceTensor::<f32, 3>::poisoned(stream, [m, h, b]).expect("memory");
    let modes = |rows: usize, heads: usize| ([rows, d, heads, b], [d, 1, rows * d, heads * rows * d]);
    let (queries, keys) = (modes(m, h), modes(n, j));
    let view = |at: usize, (extents, strides): ([usize; 4], [usize; 4])| {
        tensors[at].view().reshaped(extents, strides)
    };
    let qkv = [view(0, queries), view(1, keys), view(2, keys)];
    let [q, k, v] = qkv.clone();
    let to = o.view_mut().reshaped(queries.0, queries.1);
    models::attention(stream, 0.125, mask, q, [k, v], to, Some(lse.view_mut())).expect("attention");
    let forward = Forward {
        qkv,
        o: o.view().reshaped(queries.0, queries.1),
        lse: lse.view(),
        grad_o: view(3, queries),
    };
    let mut to = grads
        .iter_mut()
        .zip([queries, keys, keys])
        .map(|(grad, (extents, strides))| grad.view_mut().reshaped(extents, strides));
    let to = [to.next().expect("three"), to.next().expect("three"), to.next().expect("three")];
    models::attention_backward(stream, 0.125, mask, forward, to).expect("gradients");
    let wanted = attended(mask, [0, 1, 2, 3].map(|at| &given[at].1[..]));
    let results = [&o, &grads[0], &grads[1], &grads[2]];
    for (name, (got, wanted)) in
        ["o", "grad_q", "grad_k", "grad_v"].into_iter().zip(results.into_iter().zip(&wanted))
    {
        let got = got.to_host().expect("a copy");
        close(&format!("{} {mask:?} {name}", T::ELEM), got.into_iter().map(value), wanted, 3e-2);
    }
}

#[test]
fn attention_and_its_gradients() {
    let Some(stream) = stream().filter(|stream| stream.device().properties().compute_capability >= (9, 0))
    else {
        return;
    };
    for mask in [Mask::None, Mask::Causal, Mask::Window(20)] {
        attention(&stream, mask, bf16::from_f32, |x| x.to_f32().into());
        attention(&stream, mask, f16::from_f32, |x| x.to_f32().into());
    }
}

#[test]
fn experts() {
    let Some(stream) = stream().filter(|stream| stream.device().properties().compute_capability >= (9, 0))
    else {
        return;
    };
    for (offsets, n, k) in [(vec![0i32, 5, 5, 300, 301], 136, 72), (vec![0, 700, 1500], 264, 200)] {
        let (m, count) = (*offsets.last().expect("an end") as usize, offsets.len() - 1);
        let value = |x: f16| f64::from(x.to_f32());
        let (x, x_values) = numbers(m * k, 1, f16::from_f32, value);
        let (w, w_values) = numbers(count * n * k, 2, f16::from_f32, value);
        let upload = |numbers: &[f16]| {
            DeviceTensor::from_elements(&stream, [numbers.len()], [1], numbers).expect("memory")
        };
        let (x, w) = (upload(&x), upload(&w));
        let first = DeviceTensor::from_elements(&stream, [offsets.len()], [1], &offsets).expect("memory");
        let mut y = DeviceTensor::<f16, 1>::poisoned(&stream, [m * n]).expect("memory");
        let (x, w) = (x.view().reshaped([m, k], [k, 1]), w.view().reshaped([count, n, k], [n * k, k, 1]));
        models::experts(&stream, x, w, first.view(), y.view_mut().reshaped([m, n], [n, 1])).expect("experts");
        let wanted: Vec<f64> = (0..m * n)
            .map(|at| {
                let expert = offsets.iter().rposition(|first| *first as usize <= at / n).expect("one");
                let (row, column) =
                    (&x_values[at / n * k..][..k], &w_values[(expert * n + at % n) * k..][..k]);
                row.iter().zip(column).map(|(x, w)| x * w).sum()
            })
            .collect();
        close("experts", y.to_host().expect("a copy").into_iter().map(value), &wanted, 5e-3);
    }
}

#[test]
fn attention_in_pages() {
    let Some(stream) = stream() else { return };
    let (tokens, heads, group, d, page, pages) = (2, 2, 3, 64, 16, 40);
    let (positions, sequences) = ([300i32, 5], [0i32, 1]);
    // Pages of the first sequence in reverse order, and one of the second.
    let row = 19;
    let table: Vec<i32> = (0..row as i32).map(|at| 38 - at).chain((0..row as i32).map(|_| 39)).collect();
    let value = |x: bf16| f64::from(x.to_f32());
    let given = [tokens * heads * group * d, pages * page * heads * d, pages * page * heads * d];
    let given = [0, 1, 2].map(|at| numbers(given[at], at as u64 + 1, bf16::from_f32, value));
    let [q, k, v] = [0, 1, 2].map(|at| {
        DeviceTensor::from_elements(&stream, [given[at].0.len()], [1], &given[at].0).expect("memory")
    });
    let integers = |all: &[i32]| DeviceTensor::from_elements(&stream, [all.len()], [1], all).expect("memory");
    let (positions_there, sequences_there, table_there) =
        (integers(&positions), integers(&sequences), integers(&table));
    let mut out = DeviceTensor::<bf16, 1>::poisoned(&stream, [tokens * heads * group * d]).expect("memory");
    let in_pages = ([pages, page, heads, d], [page * heads * d, heads * d, d, 1]);
    let ([keys, values], queries) = (
        [&k, &v].map(|of| of.view().reshaped(in_pages.0, in_pages.1)),
        ([tokens, heads, group, d], [heads * group * d, group * d, d, 1]),
    );
    let all = Pages {
        keys,
        values,
        table: table_there.view().reshaped([2, row], [row, 1]),
        sequences: sequences_there.view(),
        positions: positions_there.view(),
    };
    let (from, to) = (q.view().reshaped(queries.0, queries.1), out.view_mut().reshaped(queries.0, queries.1));
    models::paged_attention(&stream, 0.125, from, all, to).expect("attention");
    let mut wanted = Vec::new();
    for (token, head) in (0..tokens).flat_map(|token| (0..heads * group).map(move |head| (token, head))) {
        let index_of = |at: usize| {
            let page_of = table[sequences[token] as usize * row + at / page] as usize;
            ((page_of * page + at % page) * heads + head / group) * d
        };
        let query = &given[0].1[(token * heads * group + head) * d..][..d];
        let seen = 0..=positions[token] as usize;
        let weight = |at: usize| {
            (query.iter().zip(&given[1].1[index_of(at)..]).map(|(q, k)| q * k).sum::<f64>() / 8.0).exp()
        };
        let weights: Vec<f64> = seen.clone().map(weight).collect();
        let total: f64 = weights.iter().sum();
        wanted.extend((0..d).map(|c| {
            seen.clone().zip(&weights).map(|(at, w)| w * given[2].1[index_of(at) + c]).sum::<f64>() / total
        }));
    }
    close("attention in pages", out.to_host().expect("a copy").into_iter().map(value), &wanted, 1e-2);
}
