//! References in double precision for the kernels of `kernels::memory`.

use tilewright::Elem;

use crate::number;
use crate::problem::{Operand, Reference, Values, Wanted};
use crate::tensor::Tensor;

/// The reference of a kernel with this name and these parameters.
pub fn reference(kernel: &str, params: &[&str]) -> Option<Reference> {
    match (kernel, params) {
        ("transpose", ["a", "b"]) => Some(transpose),
        (
            "softmax" | "softmax_row" | "softmax_rows" | "softmax_long" | "softmax_streamed"
            | "softmax_unaligned" | "softmax_dense",
            ["x", "y"],
        ) => Some(softmax),
        (
            "layernorm_row"
            | "layernorm_rows"
            | "layernorm_long"
            | "layernorm_streamed"
            | "layernorm_unaligned"
            | "layernorm_dense",
            ["x", "w", "b", "y", ..],
        ) => Some(layernorm),
        (
            "rmsnorm_row" | "rmsnorm_rows" | "rmsnorm_long" | "rmsnorm_streamed" | "rmsnorm_unaligned"
            | "rmsnorm_dense",
            ["x", "w", "y", ..],
        ) => Some(rmsnorm),
        ("row_sums" | "row_sums_short", ["x", "y"]) | ("sums_of_pieces", ["sums", "y"]) => Some(row_sums),
        ("piece_sums", ["x", "sums"]) => Some(piece_sums),
        ("piece_products", ["a", "x", "sums"]) => Some(piece_products),
        ("piece_moments", ["x", "sums"]) => Some(piece_moments),
        ("piece_maxima", ["x", "sums"]) => Some(piece_maxima),
        ("softmax_of_pieces", ["x", "sums", "y"]) => Some(softmax_of_pieces),
        ("layernorm_of_pieces", ["x", "w", "b", "sums", "y", ..]) => Some(layernorm_of_pieces),
        ("rmsnorm_of_pieces", ["x", "w", "sums", "y", ..]) => Some(rmsnorm_of_pieces),
        ("cumulative_sums_of_pieces", ["x", "sums", "y"]) => Some(cumulative_sums_of_pieces),
        ("sum_of_all", ["x", "y", "words"]) => Some(sum_of_all),
        ("column_sums", ["x", "y"]) => Some(column_sums),
        (
            "cumulative_sums"
            | "cumulative_sums_dense"
            | "cumulative_sums_unaligned"
            | "cumulative_sums_vectors",
            ["x", "y"],
        ) => Some(cumulative_sums),
        ("gemv" | "gemv_short" | "gemv_unaligned" | "gemv_dense", ["a", "x", "y"]) => Some(gemv),
        ("gather_rows" | "gather_unaligned", ["table", "ids", "y"]) => Some(gather_rows),
        ("histogram", ["x", "bins"]) => Some(histogram),
        ("stencil_5" | "stencil_7", ["x", "y", "centre", "side"]) => Some(stencil),
        ("linear" | "linear_hopper", ["a", "w", "bias", "c"]) => Some(linear),
        ("attention" | "attention_hopper", ["q", "k", "v", "o", "scale"]) => Some(attention),
        ("gravity", ["bodies", "others", "pull", "softening"]) => Some(gravity),
        _ => None,
    }
}

/// Tensors and numbers by their index.
struct Given<'o> {
    tensors: Vec<&'o Tensor>,
    numbers: Vec<f64>,
}

impl<'o> Given<'o> {
    fn of(operands: &'o [Operand]) -> Given<'o> {
        let mut given = Given { tensors: Vec::new(), numbers: Vec::new() };
        for operand in operands {
            match operand {
                Operand::Tensor(tensor) => given.tensors.push(tensor),
                Operand::Number(elem, value) => given.numbers.push(number::rounded(*elem, *value)),
            }
        }
        given
    }

    fn result(&self) -> Elem {
        self.tensors[self.tensors.len() - 1].elem
    }
}

/// Correct up to `within`, and up to the rounding to the result's type.
fn about(elem: Elem, value: f64, within: f64) -> Wanted {
    let narrowed = if elem == Elem::F32 { 0.0 } else { 2.0 * elem.roundoff() * (value.abs() + within) };
    let least = if elem == Elem::F16 { 2f64.powi(-24) } else { 0.0 };
    Wanted { value, within: within + narrowed + least }
}

/// A sum in f32, from its terms.
fn sum(terms: impl Iterator<Item = f64>, values: Values) -> Wanted {
    let (mut total, mut size, mut count) = (0.0, 0.0, 0.0f64);
    for term in terms {
        total += term;
        size += term.abs();
        count += 1.0;
    }
    // Small integers are summed exactly.
    let steps = if values == Values::Whole { 0.0 } else { 2.0 * count.sqrt() + 8.0 };
    Wanted { value: total, within: steps * Elem::F32.roundoff() * size }
}

/// Row i of y is row `ids[i]` of the table, or zeros: table (K, N), ids (M).
fn gather_rows(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [table, ids, y] = given.tensors[..] else { panic!("three tensors") };
    let (rows, m) = (table.extents[0], y.extents[0]);
    let one = |at: usize| {
        let id = ids.values[at % m];
        let inside = id >= 0.0 && id < rows as f64;
        let value = if inside { table.values[at / m * rows + id as usize] } else { 0.0 };
        Wanted { value, within: 0.0 }
    };
    (0..y.count()).map(one).collect()
}

/// How often each number occurs, added to the old contents.
fn histogram(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, bins] = given.tensors[..] else { panic!("two tensors") };
    let mut wanted: Vec<Wanted> = bins.values.iter().map(|&value| Wanted { value, within: 0.0 }).collect();
    for x in x.values.iter().filter(|x| **x >= 0.0 && **x < bins.values.len() as f64) {
        wanted[*x as usize].value += 1.0;
    }
    wanted
}

/// centre · x + side · (the neighbours along each mode), with zeros out of bounds.
fn stencil(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [centre, side] = given.numbers[..] else { panic!("two numbers") };
    let x = given.tensors[0];
    let one = |at: usize| {
        let (mut rest, mut step) = (at, 1);
        let (mut value, mut size) = (centre * x.values[at], (centre * x.values[at]).abs());
        for &extent in &x.extents {
            let index = rest % extent;
            rest /= extent;
            let before = (index > 0).then(|| x.values[at - step]);
            let after = (index + 1 < extent).then(|| x.values[at + step]);
            for beside in before.into_iter().chain(after) {
                value += side * beside;
                size += (side * beside).abs();
            }
            step *= extent;
        }
        let within = if values == Values::Whole { 0.0 } else { 8.0 * Elem::F32.roundoff() * size };
        Wanted { value, within }
    };
    (0..x.count()).map(one).collect()
}

/// Which piece of its row an element is in: pieces have 512 vectors of four elements; the first vector begins up to three before
/// the row.
fn piece(x: &Tensor, row: usize, column: usize) -> usize {
    (column + row * x.strides[0] % 4) / 2048
}

/// Two sums of each piece of 8192 elements, from its row's first element and its own.
fn pieces(operands: &[Operand], of: impl Fn(f64, Vec<f64>) -> [Wanted; 2]) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, sums] = given.tensors[..] else { panic!("two tensors") };
    let (m, _, row) = rows(x);
    let one = |at: usize| {
        let (i, p) = (at % (2 * m) / 2, at / (2 * m));
        let row = row(i);
        let inside = |column: &usize| (column + i * x.strides[0] % 4) / 8192 == p;
        let own = (0..row.len()).filter(inside).map(|column| row[column]).collect();
        of(row.first().copied().unwrap_or(0.0), own)[at % 2]
    };
    (0..sums.count()).map(one).collect()
}

/// Differences from the first element, and their squares.
fn piece_moments(operands: &[Operand], values: Values) -> Vec<Wanted> {
    pieces(operands, |first, own| {
        [1, 2].map(|power| {
            let terms = own.iter().map(|x| (x - first).powi(power));
            let Wanted { value, within } = sum(terms, values);
            Wanted { value, within: within + 1e-6 * within.signum() }
        })
    })
}

/// The largest element, and the sum of powers.
fn piece_maxima(operands: &[Operand], _: Values) -> Vec<Wanted> {
    pieces(operands, |_, own| {
        let most = own.iter().copied().fold(f64::from(f32::MIN), f64::max);
        let total: f64 = own.iter().map(|x| (x - most).exp()).sum();
        [Wanted { value: most, within: 0.0 }, Wanted { value: total, within: 1e-5 * total }]
    })
}

/// The sums of row i that are given, whether they are its pieces' or not.
fn given_sums(sums: &Tensor, i: usize) -> Vec<[f64; 2]> {
    let all = sums.extents[0];
    (0..sums.extents[1]).map(|p| [0, 1].map(|which| sums.values[2 * i + which + p * all])).collect()
}

fn softmax_of_pieces(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, sums, _] = given.tensors[..] else { panic!("three tensors") };
    let (m, n, row) = rows(x);
    let one = |i: usize| {
        let sums: Vec<[f64; 2]> = given_sums(sums, i).into_iter().filter(|[_, total]| *total > 0.0).collect();
        let most = sums.iter().map(|[most, _]| *most).fold(f64::from(f32::MIN), f64::max);
        // A sum of no numbers is -0.
        let total = 0.0 + sums.iter().map(|[other, total]| total * (other - most).exp()).sum::<f64>();
        let value = |x: &f64| (x - most).exp() / total;
        row(i).iter().map(|x| about(given.result(), value(x), 1e-5 * value(x) + 1e-9)).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn layernorm_of_pieces(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, w, b, sums, _] = given.tensors[..] else { panic!("five tensors") };
    let (m, n, row) = rows(x);
    let one = |i: usize| {
        let (row, sums) = (row(i), given_sums(sums, i));
        let [total, squares] = [0, 1].map(|which| sums.iter().map(|sums| sums[which]).sum::<f64>());
        let size = sums.iter().flatten().map(|sum| sum.abs()).sum::<f64>();
        let (count, first) = (n as f64, row.first().copied().unwrap_or(0.0));
        let (mean, eps) = (first + total / count, given.numbers[0]);
        let variance = (squares - total * total / count).max(0.0) / count + eps;
        let factor = 1.0 / variance.sqrt();
        // Of the mean, and of the variance relative to itself.
        let off = 1e-6 * (first.abs() + size);
        let relative = 1e-6 * (size + size * size / count) / count / variance + 1e-6;
        let element = |(x, (w, b)): (&f64, (&f64, &f64))| {
            let value = (x - mean) * factor * w;
            let within = off * factor * w.abs() + relative * value.abs() + 1e-6 * b.abs();
            about(given.result(), value + b, 2.0 * within)
        };
        row.iter().zip(w.values.iter().zip(&b.values)).map(element).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn rmsnorm_of_pieces(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, w, sums, _] = given.tensors[..] else { panic!("four tensors") };
    let (m, n, row) = rows(x);
    let one = |i: usize| {
        let squares = given_sums(sums, i).iter().map(|sums| sums[1]).sum::<f64>();
        let factor = 1.0 / (squares.max(0.0) / n as f64 + given.numbers[0]).sqrt();
        let element =
            |(x, w): (&f64, &f64)| about(given.result(), x * factor * w, 1e-5 * (x * factor * w).abs());
        row(i).iter().zip(&w.values).map(element).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn piece_sums(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, sums] = given.tensors[..] else { panic!("two tensors") };
    let (m, _, row) = rows(x);
    let of = |at: usize, p: usize| {
        let all = row(at).into_iter().enumerate();
        sum(all.filter(|(column, _)| piece(x, at, *column) == p).map(|(_, x)| x), values)
    };
    (0..m * sums.extents[1]).map(|at| of(at % m, at / m)).collect()
}

/// Pieces of 4096 elements.
fn piece_products(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [a, x, sums] = given.tensors[..] else { panic!("three tensors") };
    let (m, _, row) = rows(a);
    let of = |i: usize, p: usize| {
        let before = i * a.strides[0] % 4;
        let all = row(i).into_iter().zip(&x.values).enumerate();
        sum(all.filter(|(column, _)| (column + before) / 4096 == p).map(|(_, (a, x))| a * x), values)
    };
    (0..m * sums.extents[1]).map(|at| of(at % m, at / m)).collect()
}

/// From the sums that are given, whether they are the pieces' or not.
fn cumulative_sums_of_pieces(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [x, sums, _] = given.tensors[..] else { panic!("three tensors") };
    let (m, n, row) = rows(x);
    let one = |at: usize| {
        let (mut total, mut size, mut reached) = (0.0, 0.0f64, 0);
        let next = |(column, x_): (usize, f64)| {
            let p = piece(x, at, column);
            if column == 0 || p != reached {
                let before = (0..p).map(|p| sums.values[p * m + at]);
                (total, size) = before.fold((0.0, 0.0), |(total, size), x| (total + x, size + x.abs()));
                reached = p;
            }
            (total, size) = (total + x_, size + x_.abs());
            let steps = if values == Values::Whole { 0.0 } else { 2.0 * (column as f64).sqrt() + 8.0 };
            about(given.result(), total, steps * Elem::F32.roundoff() * size)
        };
        row(at).into_iter().enumerate().map(next).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn sum_of_all(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    vec![sum(given.tensors[0].values.iter().copied(), values)]
}

/// Cumulative sums along rows.
fn cumulative_sums(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (m, n, row) = rows(given.tensors[0]);
    let one = |at: usize| {
        let (mut total, mut size) = (0.0, 0.0f64);
        let next = |(count, x): (usize, f64)| {
            (total, size) = (total + x, size + x.abs());
            let steps = if values == Values::Whole { 0.0 } else { 2.0 * (count as f64).sqrt() + 8.0 };
            about(given.result(), total, steps * Elem::F32.roundoff() * size)
        };
        row(at).into_iter().enumerate().map(next).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn rows(x: &Tensor) -> (usize, usize, impl Fn(usize) -> Vec<f64> + '_) {
    let [rows, columns] = x.extents[..] else { panic!("a matrix, not {:?}", x.extents) };
    (rows, columns, move |row| (0..columns).map(|column| x.values[column * rows + row]).collect())
}

/// A result of the matrix's shape, from its rows in order.
fn by_columns(rows: usize, columns: usize, of: Vec<Vec<Wanted>>) -> Vec<Wanted> {
    (0..rows * columns).map(|at| of[at % rows][at / rows]).collect()
}

fn transpose(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    given.tensors[0].values.iter().map(|&value| Wanted { value, within: 0.0 }).collect()
}

/// Softmax of each row, x (M, N).
pub fn softmax(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (m, n, row) = rows(given.tensors[0]);
    let one = |at| {
        let row = row(at);
        let most = row.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = row.iter().map(|x| (x - most).exp()).sum();
        let value = |x: &f64| (x - most).exp() / total;
        row.iter().map(|x| about(given.result(), value(x), (1e-5 * value(x) + 1e-9).min(1e-6))).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

/// gelu(a·wᵀ + bias), a (M, K), w (N, K).
fn linear(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [a, w, bias, c] = given.tensors[..] else { panic!("four tensors") };
    let (m, n, k) = (c.extents[0], c.extents[1], a.extents[1]);
    let one = |at: usize| {
        let (row, column) = (at % m, at / m);
        let terms = (0..k).map(|k| a.values[k * m + row] * w.values[k * n + column]);
        let (dot, size) = terms.fold((0.0, 0.0f64), |(dot, size), x| (dot + x, size + x.abs()));
        let x = dot + bias.values[column];
        let value = 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
        let rounding = Elem::F32.roundoff() * (2.0 * (k as f64).sqrt() + 8.0);
        about(given.result(), value, 1.2 * rounding * (size + bias.values[column].abs()) + 1e-6)
    };
    (0..m * n).map(one).collect()
}

/// The error function, by its series or its continued fraction.
fn erf(x: f64) -> f64 {
    if x.abs() > 3.0 {
        let fraction = (1..60).rev().fold(x.abs(), |rest, n| x.abs() + f64::from(n) / 2.0 / rest);
        return x.signum() * (1.0 - (-x * x).exp() / fraction / std::f64::consts::PI.sqrt());
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// softmax(scale · q·kᵀ)·v for each head: q and o (M, D, L), k and v (N, D, L). A query sees the keys up to its own
/// place, counted from the end.
pub fn attention(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let [q, k, v, o] = given.tensors[..] else { panic!("four tensors") };
    let [m, d, heads] = o.extents[..] else { panic!("three modes") };
    let (scale, n) = (given.numbers[0], k.extents[0]);
    let at = |of: &Tensor, row: usize, l: usize, head: usize| of.values[(head * d + l) * of.extents[0] + row];
    let mut wanted = vec![Wanted { value: 0.0, within: 0.0 }; m * d * heads];
    for (head, row) in (0..heads).flat_map(|head| (0..m).map(move |row| (head, row))) {
        let seen = (row + 1 + n).saturating_sub(m).min(n);
        let scores: Vec<(f64, f64)> = (0..seen)
            .map(|key| {
                let terms = (0..d).map(|l| at(q, row, l, head) * at(k, key, l, head) * scale);
                terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
            })
            .collect();
        let most = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(score.0));
        let size = scores.iter().fold(0.0f64, |most, score| most.max(score.1));
        let weights: Vec<f64> = scores.iter().map(|score| (score.0 - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        // Scores are sums in f32, and weights are rounded to bf16.
        let rounding = Elem::Bf16.roundoff() * 2.0 + Elem::F32.roundoff() * 64.0 * size;
        for l in 0..d {
            let terms = (0..seen).map(|key| weights[key] * at(v, key, l, head) / total);
            let (value, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            wanted[(head * d + l) * m + row] = about(given.result(), value, rounding * size + 1e-6);
        }
    }
    wanted
}

fn layernorm(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (w, b, eps) = (&given.tensors[1].values, &given.tensors[2].values, given.numbers[0]);
    let (m, n, row) = rows(given.tensors[0]);
    let one = |at| {
        let row = row(at);
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        let factor = 1.0 / (variance + eps).sqrt();
        let most = row.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let element = |(x, (w, b)): (&f64, (&f64, &f64))| {
            let value = (x - mean) * factor * w + b;
            about(given.result(), value, 4e-6 * most * factor * w.abs() + 1e-5 * (value.abs() + b.abs()))
        };
        row.iter().zip(w.iter().zip(b)).map(element).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn rmsnorm(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (w, eps) = (&given.tensors[1].values, given.numbers[0]);
    let (m, n, row) = rows(given.tensors[0]);
    let one = |at| {
        let row = row(at);
        let factor = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / n as f64 + eps).sqrt();
        let element =
            |(x, w): (&f64, &f64)| about(given.result(), x * factor * w, 1e-5 * (x * factor * w).abs());
        row.iter().zip(w).map(element).collect()
    };
    by_columns(m, n, (0..m).map(one).collect())
}

fn row_sums(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (m, _, row) = rows(given.tensors[0]);
    (0..m).map(|at| sum(row(at).into_iter(), values)).collect()
}

/// x (N, M): sums along the second mode, in one piece.
fn column_sums(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let x = given.tensors[0];
    let (columns, rows) = (x.extents[0], x.extents[1]);
    (0..columns).map(|at| sum((0..rows).map(|row| x.values[at + row * columns]), values)).collect()
}

fn gemv(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (m, _, row) = rows(given.tensors[0]);
    let vector = &given.tensors[1].values;
    let elem = given.result();
    let one = |at| {
        let Wanted { value, within } = sum(row(at).iter().zip(vector).map(|(a, x)| a * x), values);
        about(elem, value, within)
    };
    (0..m).map(one).collect()
}

/// Bodies (N, 4), others (4, N).
fn gravity(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let (bodies, others, softening) = (&given.tensors[0].values, &given.tensors[1].values, given.numbers[0]);
    let n = bodies.len() / 4;
    let one = |at: usize| {
        let (body, part) = (at % n, at / n);
        let (mut total, mut size) = (0.0, 0.0);
        for other in others.chunks(4) {
            let square: f64 =
                (0..3).map(|c| (other[c] - bodies[c * n + body]).powi(2)).sum::<f64>() + softening;
            let pull = other[3] * (other[part] - bodies[part * n + body]) / (square * square.sqrt());
            total += pull;
            size += pull.abs();
        }
        about(Elem::F32, total, 1e-5 * size)
    };
    (0..3 * n).map(one).collect()
}
