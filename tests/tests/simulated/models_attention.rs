//! Attention of training and its gradients, compared with their definitions in double precision and with finite differences, at sizes
//! that tiles do not divide. Results are poisoned, and so are the unused elements between their rows.

use tilewright::KernelDef;
use tilewright::kernels::models::{attention_backward, attention_forward, attention_ragged};
use tilewright::prelude::*;
use tilewright_sim::{Options, Outcome, run_every};
use tilewright_tests::number::{Number, Random};

/// Sizes and options of a call.
#[derive(Clone, Copy, Debug)]
struct Problem {
    queries: usize,
    keys: usize,
    heads: usize,
    shared_heads: usize,
    batches: usize,
    width: usize,
    /// Unused elements after each row.
    gap: usize,
    causal: bool,
    /// The number of keys before its own position that a query sees.
    left: Option<usize>,
    cap: Option<f64>,
}

const FULL: Problem = Problem {
    queries: 70,
    keys: 150,
    heads: 2,
    shared_heads: 1,
    batches: 2,
    width: 64,
    gap: 8,
    causal: false,
    left: None,
    cap: None,
};

const CAUSAL: Problem = Problem { causal: true, ..FULL };
const SCALE: f32 = 0.3;

/// An element type of attention.
trait Half: Number {
    /// The largest error of results, relative to numbers greater than 1.
    const NEAR: f64;
}

impl Half for f16 {
    const NEAR: f64 = 4e-3;
}

impl Half for bf16 {
    const NEAR: f64 = 3e-2;
}

/// Rows of one head of one batch.
type Rows = Vec<Vec<f64>>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += factor * x);
}

/// A tensor (rows, width, heads, batches) in the order batches, rows, heads, width.
#[derive(Clone)]
struct Heads<T> {
    extents: [usize; 4],
    gap: usize,
    all: Vec<T>,
}

impl<T: Number> Heads<T> {
    fn new(extents: [usize; 4], gap: usize, mut element: impl FnMut() -> f64) -> Heads<T> {
        let [rows, width, heads, batches] = extents;
        let count = rows * (width + gap) * heads * batches;
        Heads { extents, gap, all: (0..count).map(|_| T::of(element())).collect() }
    }

    fn random(extents: [usize; 4], gap: usize, seed: u64) -> Heads<T> {
        let mut random = Random::new(seed);
        Heads::new(extents, gap, || f64::from(random.word() % 2001) / 1000.0 - 1.0)
    }

    fn poisoned(&self) -> Heads<T> {
        Heads::new(self.extents, self.gap, || f64::NAN)
    }

    fn strides(&self) -> [usize; 4] {
        let ([rows, width, heads, _], gap) = (self.extents, self.gap);
        [(width + gap) * heads, 1, width + gap, (width + gap) * heads * rows]
    }

    fn input(&self) -> Arg {
        Arg::tensor(&self.all, self.extents).strides(self.strides())
    }

    fn output(&self) -> Arg {
        Arg::in_out(&self.poisoned().all, self.extents).strides(self.strides())
    }

    /// Of one batch, (rows, width, heads).
    fn without_batches(&self, tensor: impl Fn(&[T], [usize; 3]) -> Arg) -> Arg {
        let ([rows, width, heads, _], [row_stride, one, head_stride, _]) = (self.extents, self.strides());
        tensor(&self.all, [rows, width, heads]).strides([row_stride, one, head_stride])
    }

    fn rows(&self, head: usize, batch: usize) -> Rows {
        let [row_stride, _, head_stride, batch_stride] = self.strides();
        let row = |row| &self.all[row * row_stride + head * head_stride + batch * batch_stride..];
        (0..self.extents[0]).map(|at| row(at)[..self.extents[1]].iter().map(|x| x.to()).collect()).collect()
    }

    fn set_rows(&mut self, head: usize, batch: usize, rows: &Rows) {
        let [row_stride, _, head_stride, batch_stride] = self.strides();
        for (row, numbers) in rows.iter().enumerate() {
            let start = row * row_stride + head * head_stride + batch * batch_stride;
            self.all[start..].iter_mut().zip(numbers).for_each(|(to, x)| *to = T::of(*x));
        }
    }

    fn doubles(&self) -> Heads<f64> {
        Heads { extents: self.extents, gap: self.gap, all: self.all.iter().map(|x| x.to()).collect() }
    }

    /// Asserts that these are the results, and that no other element was written.
    #[track_caller]
    fn check(&self, name: &str, got: Vec<T>, within: f64, wanted: impl Fn(usize, usize) -> Rows) {
        let ([_, width, heads, batches], gap) = (self.extents, self.gap);
        let unused = got.chunks_exact(width + gap).flat_map(|row| &row[width..]);
        assert!(unused.clone().all(|x| x.to().is_nan()), "{name}: written outside of its rows");
        let got = Heads { all: got, ..self.clone() };
        for (head, batch) in (0..heads * batches).map(|at| (at % heads, at / heads)) {
            for (row, (got, wanted)) in got.rows(head, batch).iter().zip(wanted(head, batch)).enumerate() {
                for (column, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                    let near = (got - wanted).abs() <= within * (1.0 + wanted.abs());
                    assert!(near, "{name} ({row}, {column}, {head}, {batch}): {got}, not {wanted}");
                }
            }
        }
    }
}

impl Problem {
    fn sees(&self, query: usize, key: usize) -> bool {
        let (position, key) = ((query + self.keys) as i64 - self.queries as i64, key as i64);
        (!self.causal || key <= position) && self.left.is_none_or(|left| key >= position - left as i64)
    }

    /// The score of a query and a key, and its derivative by their product.
    fn score(&self, q: &[f64], k: &[f64]) -> (f64, f64) {
        let scaled = f64::from(SCALE) * dot(q, k);
        let t = self.cap.map(|cap| (scaled / cap).tanh());
        let score = self.cap.zip(t).map_or(scaled, |(cap, t)| cap * t);
        (score, f64::from(SCALE) * t.map_or(1.0, |t| 1.0 - t * t))
    }

    /// Results of one head, and the logarithms of their sums.
    fn forward(&self, [q, k, v]: [&Rows; 3], sink: Option<f64>) -> (Rows, Vec<f64>) {
        let row = |query: usize| {
            let seen: Vec<usize> = (0..self.keys).filter(|&key| self.sees(query, key)).collect();
            let scores: Vec<f64> = seen.iter().map(|&key| self.score(&q[query], &k[key]).0).collect();
            let total = scores.iter().chain(&sink).map(|score| score.exp()).sum::<f64>();
            let mut out = vec![0.0; self.width];
            scores.iter().zip(&seen).for_each(|(score, &key)| add(&mut out, score.exp() / total, &v[key]));
            (out, total.ln())
        };
        (0..self.queries).map(row).unzip()
    }

    /// Gradients of q, k and v for the gradient g of the results.
    fn backward(&self, [q, k, v, g]: [&Rows; 4]) -> [Rows; 3] {
        let (out, lse) = self.forward([q, k, v], None);
        let [mut dq, mut dk, mut dv] = [q, k, v].map(|rows| vec![vec![0.0; self.width]; rows.len()]);
        for query in 0..self.queries {
            let delta = dot(&g[query], &out[query]);
            for key in (0..self.keys).filter(|&key| self.sees(query, key)) {
                let (score, slope) = self.score(&q[query], &k[key]);
                let weight = (score - lse[query]).exp();
                let by_product = weight * (dot(&g[query], &v[key]) - delta) * slope;
                add(&mut dv[key], weight, &g[query]);
                add(&mut dq[query], by_product, &k[key]);
                add(&mut dk[key], by_product, &q[query]);
            }
        }
        [dq, dk, dv]
    }

    /// Queries, keys, values and the gradient of the results.
    fn inputs<T: Number>(&self) -> [Heads<T>; 4] {
        let query = [self.queries, self.width, self.heads, self.batches];
        let key = [self.keys, self.width, self.shared_heads, self.batches];
        [(query, 1), (key, 2), (key, 3), (query, 4)]
            .map(|(extents, seed)| Heads::random(extents, self.gap, seed))
    }

    fn sinks(&self) -> Vec<f32> {
        (0..self.heads).map(|head| 1.5 - head as f32).collect()
    }

    fn constants(&self, tiles: [usize; 2]) -> [(&'static str, usize); 6] {
        let masks = [self.causal, self.left.is_some(), self.cap.is_some()].map(usize::from);
        let [bm, bn] = tiles;
        let [causal, window, cap] = masks;
        [("BM", bm), ("BN", bn), ("D", self.width), ("CAUSAL", causal), ("WINDOW", window), ("SOFTCAP", cap)]
    }

    fn numbers(&self) -> Vec<Arg> {
        let left = Arg::number(self.left.unwrap_or(0) as i32);
        vec![Arg::number(SCALE), left, Arg::number(self.cap.unwrap_or(0.0) as f32)]
    }

    /// A number for each row of each head and batch.
    fn numbers_of_rows(&self) -> [usize; 3] {
        [self.queries, self.heads, self.batches]
    }
}

/// The outcomes of all variants of a kernel that run with these arguments.
fn outcomes(def: &KernelDef, args: &[Arg]) -> Vec<Outcome> {
    let all = run_every(&def.generate().unwrap(), args, &Options::default()).unwrap();
    assert!(!all.is_empty());
    all
}

impl Problem {
    /// Simulates the forward pass with these tiles, in each variant.
    #[track_caller]
    fn check_forward<T: Half>(&self, tiles: [usize; 2], overlap: usize, with_sinks: bool) {
        let [q, k, v, _] = self.inputs::<T>();
        let constants = [&self.constants(tiles)[..], &[("OVERLAP", overlap)]].concat();
        let constants = [&constants[..], &[("HAS_SINKS", with_sinks.into())]].concat();
        let kernel = attention_forward::attention_forward().specialize_for::<T>(&constants).unwrap();
        let count = self.queries * self.heads * self.batches;
        let lse = Arg::in_out(&vec![f32::NAN; count], self.numbers_of_rows());
        let mut args = [self.numbers(), vec![q.input(), k.input(), v.input()]].concat();
        if with_sinks {
            args.push(Arg::tensor(&self.sinks(), [self.heads]));
        }
        args.extend([q.output(), lse]);
        let group = self.heads / self.shared_heads;
        let head = |head: usize, batch| {
            let sink = with_sinks.then(|| f64::from(self.sinks()[head]));
            let (k, v) = (k.rows(head / group, batch), v.rows(head / group, batch));
            self.forward([&q.rows(head, batch), &k, &v], sink)
        };
        for outcome in outcomes(kernel.def(), &args) {
            let name = format!("{self:?} {tiles:?} variant {}", outcome.variant());
            q.check(&name, outcome.get("o").unwrap(), T::NEAR, |h, b| head(h, b).0);
            let lse = outcome.get::<f32>("lse").unwrap();
            for (at, got) in lse.chunks_exact(self.queries).enumerate() {
                check_sums(&name, got, &head(at % self.heads, at / self.heads).1);
            }
        }
    }

    /// Simulates the three launches of the backward pass, with the logarithms of sums from the definition, and with these values of
    /// `EARLY` and `OVERLAP`.
    fn gradients<T: Half>(
        &self,
        tiles: [[usize; 2]; 2],
        [early, overlap]: [usize; 2],
    ) -> Vec<(&'static str, Vec<T>)> {
        let [q, k, v, g] = self.inputs::<T>();
        let group = self.heads / self.shared_heads;
        let (mut o, mut lse) = (q.clone(), Vec::new());
        for (head, batch) in (0..self.heads * self.batches).map(|at| (at % self.heads, at / self.heads)) {
            let (k, v) = (k.rows(head / group, batch), v.rows(head / group, batch));
            let (rows, sums) = self.forward([&q.rows(head, batch), &k, &v], None);
            o.set_rows(head, batch, &rows);
            lse.extend(sums.iter().map(|sum| *sum as f32));
        }
        let delta = Arg::in_out(&vec![f32::NAN; lse.len()], self.numbers_of_rows());
        let kernel = attention_backward::attention_delta().specialize_for::<T>(&[("D", self.width)]).unwrap();
        let delta = kernel.simulate(&[o.input(), g.input(), delta]).unwrap().get::<f32>("delta").unwrap();
        let rows = [&lse, &delta].map(|numbers| Arg::tensor(numbers, self.numbers_of_rows()));
        let inputs = [self.numbers(), [&q, &k, &v, &g].map(Heads::input).to_vec(), rows.to_vec()].concat();
        let mut all = Vec::new();
        let constants = [&self.constants(tiles[0])[..], &[("OVERLAP", overlap)]].concat();
        let kernel = attention_backward::attention_grad_queries().specialize_for::<T>(&constants).unwrap();
        for outcome in outcomes(kernel.def(), &[&inputs[..], &[q.output()]].concat()) {
            all.push(("grad_q", outcome.get("grad_q").unwrap()));
        }
        // Of the widest heads, each launch has one of the results.
        let launches = if self.width > 128 { vec![[1, 0], [0, 1]] } else { vec![[1, 1]] };
        for [has_k, has_v] in launches {
            let results =
                [("HAS_GRAD_K", has_k), ("HAS_GRAD_V", has_v), ("EARLY", early), ("OVERLAP", overlap)];
            let constants = [&self.constants(tiles[1])[..], &results].concat();
            let kernel = attention_backward::attention_grad_keys().specialize_for::<T>(&constants).unwrap();
            let results = [(has_k, "grad_k", &k), (has_v, "grad_v", &v)];
            let results: Vec<_> = results.into_iter().filter(|(has, _, _)| *has == 1).collect();
            let outputs: Vec<Arg> = results.iter().map(|(_, _, heads)| heads.output()).collect();
            for outcome in outcomes(kernel.def(), &[&inputs[..], &outputs].concat()) {
                all.extend(results.iter().map(|(_, name, _)| (*name, outcome.get(name).unwrap())));
            }
        }
        all
    }

    /// Compares gradients with their definition.
    fn check_backward<T: Half>(&self, tiles: [[usize; 2]; 2], schedule: [usize; 2]) {
        let [q, k, v, g] = self.inputs::<T>();
        let group = self.heads / self.shared_heads;
        let of_head = |head: usize, batch| {
            let (k, v) = (k.rows(head / group, batch), v.rows(head / group, batch));
            self.backward([&q.rows(head, batch), &k, &v, &g.rows(head, batch)])
        };
        let all: Vec<[Rows; 3]> =
            (0..self.heads * self.batches).map(|at| of_head(at % self.heads, at / self.heads)).collect();
        let sum_of_group = |which: usize, shared_head: usize, batch: usize| {
            let mut sum = vec![vec![0.0; self.width]; self.keys];
            for head in shared_head * group..(shared_head + 1) * group {
                let rows = &all[batch * self.heads + head][which];
                sum.iter_mut().zip(rows).for_each(|(sum, row)| add(sum, 1.0, row));
            }
            sum
        };
        for (name, got) in self.gradients::<T>(tiles, schedule) {
            let text = format!("{self:?} {tiles:?} {name}");
            match name {
                "grad_q" => {
                    q.check(&text, got, T::NEAR, |head, batch| all[batch * self.heads + head][0].clone());
                }
                "grad_k" => k.check(&text, got, T::NEAR, |head, batch| sum_of_group(1, head, batch)),
                _ => v.check(&text, got, T::NEAR, |head, batch| sum_of_group(2, head, batch)),
            }
        }
    }
}

/// Numbers of queries and keys of sequences that are packed one after the other.
const SEQUENCES: [(usize, usize); 4] = [(5, 40), (150, 97), (0, 3), (64, 200)];

/// Simulates sequences of these sizes.
#[track_caller]
fn check_ragged<T: Half>(problem: Problem, tiles: [usize; 2], with_sinks: bool) {
    let queries: Vec<usize> = SEQUENCES.iter().map(|sizes| sizes.0).collect();
    let keys: Vec<usize> = SEQUENCES.iter().map(|sizes| sizes.1).collect();
    let starts = |sizes: &[usize]| -> Vec<i32> {
        (0..=sizes.len()).map(|at| sizes[..at].iter().sum::<usize>() as i32).collect()
    };
    let blocks = |at: usize| (0..queries[at].div_ceil(tiles[0])).map(move |tile| [at as i32, tile as i32]);
    let blocks: Vec<[i32; 2]> = (0..queries.len()).rev().flat_map(blocks).collect();
    let total = Problem { queries: queries.iter().sum(), keys: keys.iter().sum(), batches: 1, ..problem };
    let [q, k, v, _] = total.inputs::<T>();
    let constants =
        [&problem.constants(tiles)[..], &[("HAS_SINKS", with_sinks.into()), ("HAS_LSE", 1)]].concat();
    let kernel = attention_ragged::attention_ragged().specialize_for::<T>(&constants).unwrap();
    let input = |heads: &Heads<T>| heads.without_batches(|all, extents| Arg::tensor(all, extents));
    let mut args = problem.numbers();
    args.push(Arg::tensor(&blocks.concat(), [blocks.len(), 2]).strides([2, 1]));
    args.extend([&queries, &keys].map(|sizes| Arg::tensor(&starts(sizes), [sizes.len() + 1])));
    args.extend([&q, &k, &v].map(input));
    if with_sinks {
        args.push(Arg::tensor(&problem.sinks(), [problem.heads]));
    }
    args.push(q.poisoned().without_batches(|all, extents| Arg::in_out(all, extents)));
    let lse = vec![f32::NAN; total.queries * total.heads];
    args.push(Arg::in_out(&lse, [total.queries, total.heads]));
    let head = |head: usize| {
        let sink = with_sinks.then(|| f64::from(problem.sinks()[head]));
        let shared_head = head / (problem.heads / problem.shared_heads);
        let [q, k, v] =
            [(&q, head), (&k, shared_head), (&v, shared_head)].map(|(rows, head)| rows.rows(head, 0));
        let of_sequence = |at: usize| {
            let of = |rows: &Rows, sizes: &[usize]| {
                let start = sizes[..at].iter().sum::<usize>();
                rows[start..start + sizes[at]].to_vec()
            };
            let one = Problem { queries: queries[at], keys: keys[at], ..problem };
            one.forward([&of(&q, &queries), &of(&k, &keys), &of(&v, &keys)], sink)
        };
        let (rows, sums): (Vec<Rows>, Vec<Vec<f64>>) = (0..queries.len()).map(of_sequence).unzip();
        (rows.concat(), sums.concat())
    };
    for outcome in outcomes(kernel.def(), &args) {
        let name = format!("{problem:?} {tiles:?} variant {}", outcome.variant());
        q.check(&name, outcome.get("o").unwrap(), T::NEAR, |h, _| head(h).0);
        let lse = outcome.get::<f32>("lse").unwrap();
        (0..problem.heads).for_each(|h| check_sums(&name, &lse[h * total.queries..], &head(h).1));
    }
}

/// Compares logarithms of sums.
#[track_caller]
fn check_sums(name: &str, got: &[f32], wanted: &[f64]) {
    for (row, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let got = f64::from(*got);
        assert!(got == *wanted || (got - wanted).abs() < 1e-3, "{name}, lse {row}: {got}, not {wanted}");
    }
}

/// The sum of the products of results and g.
fn loss(problem: &Problem, [q, k, v, g]: &[Heads<f64>; 4]) -> f64 {
    let group = problem.heads / problem.shared_heads;
    let of_head = |head: usize| {
        let (k, v) = (k.rows(head / group, 0), v.rows(head / group, 0));
        let out = problem.forward([&q.rows(head, 0), &k, &v], None).0;
        out.iter().zip(&g.rows(head, 0)).map(|(o, g)| dot(o, g)).sum::<f64>()
    };
    (0..problem.heads).map(of_head).sum()
}

#[test]
fn forward() {
    FULL.check_forward::<f16>([128, 128], 2, false);
    FULL.check_forward::<bf16>([64, 64], 2, true);
    for overlap in [0, 1, 2] {
        Problem { batches: 1, ..CAUSAL }.check_forward::<f16>([64, 48], overlap, false);
    }
}

#[test]
fn forward_of_wide_heads() {
    Problem { width: 128, batches: 1, ..CAUSAL }.check_forward::<bf16>([128, 96], 2, true);
    Problem { width: 256, queries: 33, keys: 100, batches: 1, ..CAUSAL }.check_forward::<f16>(
        [64, 80],
        2,
        false,
    );
}

#[test]
fn forward_with_options() {
    // Queries that see no key.
    let blind = Problem { gap: 0, batches: 1, heads: 6, shared_heads: 2, queries: 65, keys: 40, ..CAUSAL };
    blind.check_forward::<f16>([64, 64], 2, false);
    blind.check_forward::<f16>([64, 64], 2, true);
    let window = Problem { left: Some(20), batches: 1, ..CAUSAL };
    window.check_forward::<f16>([64, 32], 2, false);
    Problem { causal: false, ..window }.check_forward::<f16>([64, 32], 1, true);
    Problem { cap: Some(0.8), ..window }.check_forward::<f16>([64, 64], 2, true);
}

#[test]
fn backward() {
    FULL.check_backward::<f16>([[128, 128], [64, 128]], [0, 0]);
    Problem { batches: 1, ..CAUSAL }.check_backward::<bf16>([[64, 48], [32, 64]], [1, 0]);
    Problem { batches: 1, ..CAUSAL }.check_backward::<f16>([[128, 48], [48, 128]], [0, 1]);
}

#[test]
fn backward_of_wide_heads() {
    Problem { width: 128, batches: 1, ..CAUSAL }.check_backward::<f16>([[128, 96], [48, 128]], [0, 1]);
}

#[test]
fn backward_of_the_widest_heads() {
    let wide = Problem { width: 256, queries: 40, keys: 70, batches: 1, heads: 1, ..CAUSAL };
    wide.check_backward::<f16>([[64, 48], [32, 64]], [0, 0]);
}

#[test]
fn ragged() {
    check_ragged::<f16>(FULL, [128, 128], false);
    check_ragged::<bf16>(CAUSAL, [64, 48], true);
    check_ragged::<f16>(Problem { left: Some(20), cap: Some(0.8), ..CAUSAL }, [64, 32], false);
}

#[test]
fn backward_with_options() {
    let blind = Problem { gap: 0, batches: 1, heads: 6, shared_heads: 2, queries: 65, keys: 40, ..CAUSAL };
    blind.check_backward::<f16>([[64, 64], [64, 64]], [0, 0]);
    let window = Problem { left: Some(20), batches: 1, ..CAUSAL };
    window.check_backward::<f16>([[64, 32], [32, 64]], [0, 1]);
    Problem { causal: false, ..window }.check_backward::<f16>([[64, 32], [32, 64]], [1, 0]);
    Problem { cap: Some(0.8), ..window }.check_backward::<f16>([[64, 64], [64, 64]], [0, 0]);
}

#[test]
fn gradients_are_finite_differences() {
    let small = Problem { queries: 3, keys: 5, batches: 1, cap: Some(2.0), ..CAUSAL };
    let inputs = small.inputs::<f16>().map(|heads| heads.doubles());
    for (name, got) in small.gradients::<f16>([[64, 32], [32, 64]], [0, 0]) {
        let which = ["grad_q", "grad_k", "grad_v"].iter().position(|known| *known == name).unwrap();
        let mut checked = 0;
        for (at, got) in got.iter().enumerate().filter(|(_, got)| !got.to().is_nan()) {
            let by = |step: f64| {
                let mut inputs = inputs.clone();
                inputs[which].all[at] += step;
                loss(&small, &inputs)
            };
            let wanted = (by(1e-4) - by(-1e-4)) / 2e-4;
            assert!(
                (got.to() - wanted).abs() < f16::NEAR * (1.0 + wanted.abs()),
                "{name} {at}: {got:?}, not {wanted}"
            );
            checked += 1;
        }
        assert_eq!(checked, inputs[which].extents.iter().product::<usize>());
    }
}
