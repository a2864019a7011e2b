//! References in double precision for the kernels of `kernels::memory`.

use tilewright::Elem;

use crate::number;
use crate::problem::{Operand, Reference, Values, Wanted};
use crate::tensor::Tensor;

/// The reference of a kernel with this name and these parameters.
pub fn reference(kernel: &str, params: &[&str]) -> Option<Reference> {
    match (kernel, params) {
        ("transpose", ["a", "b"]) => Some(transpose),
        ("softmax" | "softmax_row" | "softmax_rows", ["x", "y"]) => Some(softmax),
        ("layernorm_row" | "layernorm_rows", ["x", "w", "b", "y", ..]) => Some(layernorm),
        ("rmsnorm_row" | "rmsnorm_rows", ["x", "w", "y", ..]) => Some(rmsnorm),
        ("row_sums" | "row_sums_short", ["x", "y"]) => Some(row_sums),
        ("column_sums", ["x", "y"]) => Some(column_sums),
        ("gemv", ["a", "x", "y"]) => Some(gemv),
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
    let narrowed =
        if elem == Elem::F32 { 0.0 } else { 2.0 * number::roundoff(elem) * (value.abs() + within) };
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
    Wanted { value: total, within: steps * number::roundoff(Elem::F32) * size }
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

/// x (N, M, L): sums along the second mode.
fn column_sums(operands: &[Operand], values: Values) -> Vec<Wanted> {
    let given = Given::of(operands);
    let x = given.tensors[0];
    let (columns, rows) = (x.extents[0], x.extents[1]);
    let one = |at: usize| {
        let first = at / columns * rows * columns + at % columns;
        sum((0..rows).map(|row| x.values[first + row * columns]), values)
    };
    (0..columns * x.extents[2]).map(one).collect()
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
