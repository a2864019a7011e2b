//! The expected result of a kernel, in double precision, and its rounding bound.

use tilewright_codegen::{Definition, Elem};

use super::problem::{Problem, Tensor};
use super::product::Product;
use crate::own;

/// A comparison with the reference.
#[derive(Debug, PartialEq)]
pub(super) struct Comparison {
    /// The largest difference.
    pub(super) error: f64,
    /// The largest difference relative to its rounding bound: above 1 the result is wrong.
    pub(super) share: f64,
    /// The result that it is in, its coordinate, the value there, and the expected value.
    pub(super) tensor: String,
    pub(super) at: Vec<usize>,
    pub(super) value: f64,
    pub(super) expected: f64,
    /// The number of wrong and of compared elements, of all results.
    pub(super) wrong: usize,
    pub(super) elements: usize,
}

/// The limit of summed terms for a comparison, about a second; larger results are sampled.
const MOST_TERMS: usize = 1 << 28;

impl Comparison {
    /// The comparison of two results together.
    fn and(self, other: Comparison) -> Comparison {
        let (error, wrong) = (self.error.max(other.error), self.wrong + other.wrong);
        let elements = self.elements + other.elements;
        let worst = if other.share > self.share { other } else { self };
        Comparison { error, wrong, elements, ..worst }
    }

    /// Is every element right?
    pub(super) fn is_right(&self) -> bool {
        self.wrong == 0
    }
}

/// An expected value, and its bound.
pub(super) type Expected = (f64, f64);

/// Compares the results as stored; `None` if the kernel's function is not known.
pub(super) fn compare(
    name: &str,
    definition: &Definition,
    problem: &Problem,
    results: &[Vec<f64>],
) -> Option<Comparison> {
    let tensors: Vec<&Tensor> = problem.tensors().collect();
    let written = tensors.iter().filter(|tensor| tensor.written).zip(results);
    if let Some(reference) = own::reference(name) {
        let mut expected = own::Results::of(problem);
        reference(&own::Inputs::of(problem), &mut expected);
        let all = written.filter_map(|(result, values)| {
            let (right, allowed) = expected.take(result)?;
            let at_index =
                |at: &[usize]| at.iter().zip(&result.extents).rev().fold(0, |all, (at, n)| all * n + at);
            Some(compared(result, values, 1, |at| (right[at_index(at)], allowed(right[at_index(at)]))))
        });
        return all.reduce(Comparison::and);
    }
    if let ("softmax", &[x, _]) = (name, &tensors[..]) {
        let rows: Vec<Row> = (0..x.extents[0]).map(|row| Row::of(x, row)).collect();
        return written.map(|(y, values)| compared(y, values, 1, |at| rows[at[0]].softmax(x, at))).next();
    }
    let product = Product::of(definition, problem)?;
    let all = written
        .map(|(result, values)| compared(result, values, product.terms(), |at| product.expected(result, at)));
    // The shapes of the arguments of another program's kernel do not prove that it is a product.
    let known = matches!(definition, Definition::Matmul(_)) || own::program().is_none();
    all.reduce(Comparison::and).filter(|compared| known || compared.is_right())
}

/// `terms` is the number of summed terms of one element.
fn compared(
    result: &Tensor,
    values: &[f64],
    terms: usize,
    expected: impl Fn(&[usize]) -> Expected,
) -> Comparison {
    let mut matching = Comparison {
        error: 0.0,
        share: 0.0,
        tensor: result.name.clone(),
        at: vec![0; result.extents.len()],
        value: 0.0,
        expected: 0.0,
        wrong: 0,
        elements: 0,
    };
    let all: usize = result.extents.iter().product();
    // Odd, so that every row is sampled where their number is a power of two.
    let step = (all.saturating_mul(terms) / MOST_TERMS) | 1;
    for at in own::coordinates(&result.extents, step) {
        let value = values[result.offset_of(&at)];
        let (right, allowed) = expected(&at);
        let error = (value - right).abs();
        // The error of NaN is infinite.
        let (error, share) = match error {
            0.0 => (0.0, 0.0),
            error if error.is_nan() => (f64::INFINITY, f64::INFINITY),
            error => (error, error / allowed.max(f64::MIN_POSITIVE)),
        };
        matching.elements += 1;
        matching.wrong += usize::from(share > 1.0);
        matching.error = matching.error.max(error);
        if share > matching.share {
            (matching.share, matching.value, matching.expected, matching.at) = (share, value, right, at);
        }
    }
    matching
}

/// The statistics of a row for softmax: its largest element, and Σ exp(x - max x).
struct Row {
    most: f64,
    total: f64,
}

impl Row {
    fn of(x: &Tensor, row: usize) -> Row {
        let values = || (0..x.extents[1]).map(|column| x.at(&[row, column]));
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        Row { most, total: values().map(|value| (value - most).exp()).sum() }
    }

    /// exp(x - max x) / Σ exp(x - max x).
    fn softmax(&self, x: &Tensor, at: &[usize]) -> Expected {
        let right = (x.at(at) - self.most).exp() / self.total;
        (right, (x.extents[1] as f64 + 64.0) * Elem::F32.roundoff() * right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{self, Chosen};

    /// The result of a kernel by definition, each element rounded to its type, with one of them changed.
    fn compared_with(
        name: &str,
        keys: &str,
        sizes: &str,
        change: impl Fn(usize, f64) -> f64,
    ) -> Option<Comparison> {
        let Chosen { name, definition, generated, .. } = kernel::choose(name, keys).ok()?;
        let problem = Problem::new(&generated, Some(sizes), &[], 7).ok()?;
        let result = problem.tensors().find(|tensor| tensor.written)?;
        let zeros = vec![0.0; result.values.len()];
        compare(name, &definition, &problem, std::slice::from_ref(&zeros))?;
        // Column by column, the order in which coordinates are enumerated.
        let tensors: Vec<&Tensor> = problem.tensors().collect();
        let mut values = zeros;
        let (rows, columns) = (result.extents[0], result.extents[1]);
        for (row, column) in (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column))) {
            let (right, _) = match tensors[..] {
                [x, _] => Row::of(x, row).softmax(x, &[row, column]),
                _ => Product::of(&definition, &problem)?.expected(result, &[row, column]),
            };
            let at_index = result.offset_of(&[row, column]);
            let bits = super::super::problem::encoded(result.elem, right);
            values[at_index] = change(at_index, super::super::problem::decoded(result.elem, bits));
        }
        compare(name, &definition, &problem, &[values])
    }

    #[test]
    fn what_is_right_is_right() {
        for (name, keys) in [
            ("tutorial", ""),
            ("naive", ""),
            ("block_tile_1d", ""),
            ("softmax", ""),
            ("matmul", "dtype=f64 bm=64 bn=64"),
            ("matmul", "dtype=f16 bm=64 bn=64"),
            ("matmul", "dtype=bf16 bm=64 bn=64"),
            ("matmul", "dtype=i8 bm=64 bn=64"),
            ("matmul", "alpha_beta=true"),
            ("matmul", "epilogue=|x| select(x>0.0, x, 0.1*x)"),
        ] {
            let matching = compared_with(name, keys, "9,7", |_, value| value).expect(name);
            assert!(matching.is_right(), "{name} {keys}: {matching:?}");
        }
    }

    #[test]
    fn one_wrong_element_is_reported() {
        for (name, keys, by) in [("tutorial", "", 1e-3), ("softmax", "", 1e-4), ("matmul", "dtype=i32", 1.0)]
        {
            let spoil = |at_index, value| if at_index == 11 { value + by } else { value };
            let matching = compared_with(name, keys, "9,7", spoil).expect(name);
            assert_eq!((matching.wrong, matching.elements), (1, 63), "{name}: {matching:?}");
            let nan = |at_index, value| if at_index == 11 { f64::NAN } else { value };
            let matching = compared_with(name, keys, "9,7", nan).expect(name);
            assert_eq!((matching.wrong, matching.error), (1, f64::INFINITY), "{name}: {matching:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_compared() {
        assert_eq!(compared_with("matmul", "epilogue=|x| x % 2.0", "9,7", |_, value| value), None);
    }
}
