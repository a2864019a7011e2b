//! The expected result of a kernel, in double precision, and its rounding bound.

use tilewright_codegen::ast::{Binary, Expr, ExprKind, Pattern, Unary};
use tilewright_codegen::{Definition, Elem};

use super::problem::{Problem, Tensor};

/// A comparison with the reference.
#[derive(Debug, PartialEq)]
pub(super) struct Comparison {
    /// The largest difference.
    pub(super) error: f64,
    /// The largest difference relative to its rounding bound: above 1 the result is wrong.
    pub(super) share: f64,
    /// Its coordinate, the value there, and the expected value.
    pub(super) at: Vec<usize>,
    pub(super) value: f64,
    pub(super) expected: f64,
    /// The number of wrong and of compared elements.
    pub(super) wrong: usize,
    pub(super) elements: usize,
}

/// The limit of summed terms for a comparison, about a second; larger results are sampled.
const MOST_TERMS: usize = 1 << 28;

impl Comparison {
    /// Is every element right?
    pub(super) fn is_right(&self) -> bool {
        self.wrong == 0
    }
}

/// An expected value, and its bound.
type Expected = (f64, f64);

/// Compares the result as stored; `None` where the kernel's function is not known.
pub(super) fn compare(
    name: &str,
    definition: &Definition,
    problem: &Problem,
    values: &[f64],
) -> Option<Comparison> {
    let tensors: Vec<&Tensor> = problem.tensors().collect();
    match (name, &tensors[..]) {
        ("softmax", &[x, y]) => {
            let rows: Vec<Row> = (0..x.extents[0]).map(|row| Row::of(x, row)).collect();
            Some(compared(y, values, 1, |at| rows[at[0]].softmax(x, at)))
        }
        (_, &[a, b, c]) => {
            let after = epilogue(definition)?;
            Some(compared(c, values, a.extents[1], |at| product(problem, [a, b, c], &after, at)))
        }
        _ => None,
    }
}

/// `terms` is the number of summed terms of one element.
fn compared(
    result: &Tensor,
    values: &[f64],
    terms: usize,
    expected: impl Fn(&[usize]) -> Expected,
) -> Comparison {
    let mut found = Comparison {
        error: 0.0,
        share: 0.0,
        at: vec![0; result.extents.len()],
        value: 0.0,
        expected: 0.0,
        wrong: 0,
        elements: 0,
    };
    let all: usize = result.extents.iter().product();
    // Odd, so that every row is sampled where their number is a power of two.
    let step = (all.saturating_mul(terms) / MOST_TERMS) | 1;
    for index in (0..all).step_by(step) {
        let mut rest = index;
        let at: Vec<usize> = result
            .extents
            .iter()
            .map(|extent| {
                let digit = rest % extent;
                rest /= extent;
                digit
            })
            .collect();
        let value = values[result.place(&at)];
        let (right, allowed) = expected(&at);
        let error = (value - right).abs();
        // The error of NaN is infinite.
        let (error, share) = match error {
            0.0 => (0.0, 0.0),
            error if error.is_nan() => (f64::INFINITY, f64::INFINITY),
            error => (error, error / allowed.max(f64::MIN_POSITIVE)),
        };
        found.elements += 1;
        found.wrong += usize::from(share > 1.0);
        found.error = found.error.max(error);
        if share > found.share {
            (found.share, found.value, found.expected, found.at) = (share, value, right, at);
        }
    }
    found
}

/// Half a unit in the last place of 1.
fn unit(elem: Elem) -> f64 {
    match elem {
        Elem::F64 => 2f64.powi(-53),
        Elem::F16 => 2f64.powi(-11),
        Elem::Bf16 => 2f64.powi(-8),
        Elem::Tf32 => 2f64.powi(-11),
        Elem::E4m3 => 2f64.powi(-4),
        Elem::E5m2 => 2f64.powi(-3),
        Elem::F32 => 2f64.powi(-24),
        _ => 0.0,
    }
}

/// Σ a(m, k) b(n, k), scaled and added to C where the kernel takes alpha and beta, then through the epilogue.
fn product(problem: &Problem, [a, b, c]: [&Tensor; 3], after: &Epilogue<'_>, at: &[usize]) -> Expected {
    let (batch, depth) = (at.get(2).copied().unwrap_or(0), a.extents[1]);
    // A row of each, along K.
    let along = |tensor: &'_ Tensor, row: usize| {
        let first = row * tensor.strides[0] + batch * tensor.strides.get(2).copied().unwrap_or(0);
        (first, tensor.strides[1])
    };
    let ((row, across), (column, down)) = (along(a, at[0]), along(b, at[1]));
    let terms = (0..depth).map(|k| a.values[row + k * across] * b.values[column + k * down]);
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
    let unit_of_sums = unit(a.elem.accumulator());
    let mut allowed = (depth as f64 + 4.0) * unit_of_sums * size;
    let mut value = sum;
    if let (Some(alpha), Some(beta)) = (problem.number("alpha"), problem.number("beta")) {
        value = alpha * sum + beta * c.at(at);
        allowed =
            alpha.abs() * allowed + 4.0 * unit_of_sums * ((alpha * sum).abs() + (beta * c.at(at)).abs());
    }
    let through = |x: f64| after.of(x).unwrap_or(f64::NAN);
    let right = through(value);
    let spread = (through(value + allowed) - right).abs().max((through(value - allowed) - right).abs());
    // CUDA's functions are accurate within a few units, and the result is rounded once more.
    (right, spread + (16.0 * unit_of_sums + unit(c.elem)) * right.abs() + tiny(c.elem))
}

/// Half of the smallest step of a type.
fn tiny(elem: Elem) -> f64 {
    match elem {
        Elem::F16 => 2f64.powi(-25),
        Elem::E4m3 => 2f64.powi(-10),
        Elem::E5m2 => 2f64.powi(-17),
        Elem::F32 | Elem::Bf16 | Elem::Tf32 => 2f64.powi(-134),
        _ => 0.0,
    }
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
        (right, (x.extents[1] as f64 + 64.0) * unit(Elem::F32) * right)
    }
}

/// The epilogue of each sum.
enum Epilogue<'d> {
    Nothing,
    Closure(&'d str, &'d Expr),
}

/// The epilogue among the keys of a product; `None` where it cannot be evaluated here.
fn epilogue(definition: &Definition) -> Option<Epilogue<'_>> {
    let Definition::Matmul(args) = definition else { return Some(Epilogue::Nothing) };
    let given = args.iter().find(|arg| arg.name.as_ref().is_some_and(|name| name.text == "epilogue"));
    let Some(given) = given else { return Some(Epilogue::Nothing) };
    let ExprKind::Closure { params, body } = &given.value.kind else { return None };
    let [Pattern::Name(name)] = &params[..] else { return None };
    let epilogue = Epilogue::Closure(&name.text, body);
    epilogue.of(0.5).map(|_| epilogue)
}

impl Epilogue<'_> {
    fn of(&self, x: f64) -> Option<f64> {
        match self {
            Epilogue::Nothing => Some(x),
            Epilogue::Closure(name, body) => value(body, name, x),
        }
    }
}

/// The value of a closure's body. Conditions are 1 or 0.
fn value(expr: &Expr, name: &str, x: f64) -> Option<f64> {
    let of = |expr: &Expr| value(expr, name, x);
    let truth = |is: bool| if is { 1.0 } else { 0.0 };
    Some(match &expr.kind {
        ExprKind::Int(n) => *n as f64,
        ExprKind::Float(n) => *n,
        ExprKind::Name(text) if text == name => x,
        ExprKind::Unary(Unary::Neg, inner) => -of(inner)?,
        ExprKind::Binary(op, left, right) => {
            let (a, b) = (of(left)?, of(right)?);
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Lt => truth(a < b),
                Binary::Le => truth(a <= b),
                Binary::Gt => truth(a > b),
                Binary::Ge => truth(a >= b),
                Binary::Eq => truth(a == b),
                Binary::Ne => truth(a != b),
                _ => return None,
            }
        }
        ExprKind::Call { function, args, .. } => {
            let args: Vec<f64> = args.iter().map(|arg| of(&arg.value)).collect::<Option<_>>()?;
            match (function.text.as_str(), &args[..]) {
                ("max", [a, b]) => a.max(*b),
                ("min", [a, b]) => a.min(*b),
                ("abs", [a]) => a.abs(),
                ("exp", [a]) => a.exp(),
                ("log", [a]) => a.ln(),
                ("sqrt", [a]) => a.sqrt(),
                ("rsqrt", [a]) => 1.0 / a.sqrt(),
                ("tanh", [a]) => a.tanh(),
                ("sin", [a]) => a.sin(),
                ("cos", [a]) => a.cos(),
                ("fma", [a, b, c]) => a * b + c,
                ("select", [c, a, b]) => match *c != 0.0 {
                    true => *a,
                    false => *b,
                },
                _ => return None,
            }
        }
        _ => return None,
    })
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
        let problem = Problem::new(&generated, Some(sizes), 7).ok()?;
        let result = problem.tensors().last()?;
        let zeros = vec![0.0; result.values.len()];
        compare(name, &definition, &problem, &zeros)?;
        // Column by column, the order in which coordinates are enumerated.
        let tensors: Vec<&Tensor> = problem.tensors().collect();
        let mut values = zeros;
        let (rows, columns) = (result.extents[0], result.extents[1]);
        for (row, column) in (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column))) {
            let (right, _) = match tensors[..] {
                [x, _] => Row::of(x, row).softmax(x, &[row, column]),
                [a, b, c] => product(&problem, [a, b, c], &epilogue(&definition)?, &[row, column]),
                _ => return None,
            };
            let place = result.place(&[row, column]);
            let bits = super::super::problem::encoded(result.elem, right);
            values[place] = change(place, super::super::problem::decoded(result.elem, bits));
        }
        compare(name, &definition, &problem, &values)
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
            let found = compared_with(name, keys, "9,7", |_, value| value).expect(name);
            assert!(found.is_right(), "{name} {keys}: {found:?}");
        }
    }

    #[test]
    fn one_wrong_element_is_found() {
        for (name, keys, by) in [("tutorial", "", 1e-3), ("softmax", "", 1e-4), ("matmul", "dtype=i32", 1.0)]
        {
            let spoil = |place, value| if place == 11 { value + by } else { value };
            let found = compared_with(name, keys, "9,7", spoil).expect(name);
            assert_eq!((found.wrong, found.elements), (1, 63), "{name}: {found:?}");
            let nan = |place, value| if place == 11 { f64::NAN } else { value };
            let found = compared_with(name, keys, "9,7", nan).expect(name);
            assert_eq!((found.wrong, found.error), (1, f64::INFINITY), "{name}: {found:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_compared() {
        assert_eq!(compared_with("matmul", "epilogue=|x| x % 2.0", "9,7", |_, value| value), None);
    }
}
