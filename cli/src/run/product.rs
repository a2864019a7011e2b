//! The expected results of a product, with everything that its keys add: scales, bias, residual, a function, and a second
//! result.

use tilewright_codegen::ast::ExprKind;
use tilewright_codegen::narrow::Int4;
use tilewright_codegen::number::{self, Number};
use tilewright_codegen::{Definition, Elem};

use super::function::Function;
use super::problem::{Problem, Tensor, decoded, encoded};
use super::reference::Expected;

/// Arguments after A, B and C.
const MORE: [&str; 9] =
    ["scale", "scale_rows", "scale_columns", "bias", "scale_a", "scale_b", "residual", "aux", "zero"];

/// Elements of a block with a scale.
const BLOCK: usize = 128;

/// The value of a product's key.
pub(super) fn key<'d>(definition: &'d Definition, key: &str) -> Option<&'d ExprKind> {
    let Definition::Matmul(args) = definition else { return None };
    let given = args.iter().find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key));
    given.map(|arg| &arg.value.kind)
}

/// A product, by its arguments and keys.
pub(super) struct Product<'p> {
    problem: &'p Problem,
    a: &'p Tensor,
    b: &'p Tensor,
    more: Vec<&'p Tensor>,
    function: Function<'p>,
    /// Is the residual added after the function?
    after: bool,
    /// The types of the sums and of the epilogue.
    acc: Elem,
    scaled: Elem,
    /// Elements of B along K that have one scale.
    group: usize,
    /// The numbers of four bits in B's elements, if there are two in each.
    pairs: Option<Int4>,
    /// The relative error of a term, besides the error of the sums.
    rounding: f64,
}

impl<'p> Product<'p> {
    /// `None` if the kernel computes something else.
    pub(super) fn of(definition: &'p Definition, problem: &'p Problem) -> Option<Product<'p>> {
        let tensors: Vec<&Tensor> = problem.tensors().collect();
        let [a, b, c, more @ ..] = &tensors[..] else { return None };
        // Other kernels may have arguments of these names with another meaning.
        let known = match definition {
            Definition::Matmul(_) => more.iter().all(|tensor| MORE.contains(&&*tensor.name)),
            // Such kernels have no keys. A product is recognised by the shapes (M, K), (N, K) and (M, N).
            _ => more.is_empty() && b.along.is_some() && shaped(a, b, c),
        };
        if !known || !c.written {
            return None;
        }
        let word = |name: &str| match key(definition, name) {
            Some(ExprKind::Name(word) | ExprKind::Str(word)) => Some(word.as_str()),
            _ => None,
        };
        let acc = word("acc").and_then(Elem::named).unwrap_or(a.elem.accumulator());
        let group = match key(definition, "group_size") {
            Some(ExprKind::Int(size)) => usize::try_from(*size).ok()?,
            _ => usize::MAX,
        };
        let rounding = match (a.elem, word("precision")) {
            (_, Some("tf32")) => 2f64.powi(-10),
            (_, Some("f32x3")) => 2f64.powi(-20),
            // Tensor cores keep some 13 bits of the greatest term of a step.
            _ if a.elem.is_fp8() => 2f64.powi(-9),
            // A weight times its scale is rounded, and before that its difference from a zero point.
            _ if group < usize::MAX => {
                let has_zeros = more.iter().any(|tensor| tensor.name == "zero");
                if has_zeros { 2.0 * a.elem.roundoff() } else { a.elem.roundoff() }
            }
            _ => 0.0,
        };
        Some(Product {
            problem,
            a,
            b,
            more: more.to_vec(),
            function: Function::of(definition)?,
            after: match key(definition, "residual") {
                Some(ExprKind::Call { function, .. }) => function.text == "after",
                _ => word("residual") == Some("after"),
            },
            acc,
            // Integers that become another type are scaled by real numbers.
            scaled: if acc.is_float() || acc == c.elem { acc } else { Elem::F32 },
            group,
            pairs: Int4::ALL.into_iter().find(|of| word("b_dtype") == Some(of.name())),
            rounding,
        })
    }

    /// The number of summed terms of one element.
    pub(super) fn terms(&self) -> usize {
        self.a.extents[1]
    }

    fn named(&self, name: &str) -> Option<&'p Tensor> {
        self.more.iter().find(|tensor| tensor.name == name).copied()
    }

    /// An element of a vector for rows or columns of C.
    fn of_vector(&self, name: &str, at: &[usize]) -> Option<f64> {
        let vector = self.named(name).filter(|tensor| tensor.extents.len() == 1)?;
        let mode = match name {
            "scale_rows" => 0,
            "bias" => usize::from(vector.along.as_deref() == Some("N")),
            _ => 1,
        };
        Some(vector.at(&[at[mode]]))
    }

    /// Σ a(m, k) b(n, k), and the sum of magnitudes.
    fn sum(&self, at: &[usize]) -> (f64, f64) {
        let index = |row: usize, k: usize| {
            let mut index = vec![row, k];
            index.extend(at.get(2));
            index
        };
        let (groups, zeros, of_a, of_b) = (
            self.named("scale").filter(|tensor| tensor.extents.len() > 1),
            self.named("zero"),
            self.named("scale_a"),
            self.named("scale_b"),
        );
        let term = |k: usize| {
            let mut term = self.a.at(&index(at[0], k));
            let weight = match self.pairs {
                Some(of) => of.value(self.b.at(&index(at[1], k / 2)) as u8, k % 2).into(),
                None => self.b.at(&index(at[1], k)),
            };
            term *= weight - zeros.map_or(0.0, |zero| zero.at(&index(at[1], k / self.group)));
            term *= groups.map_or(1.0, |scale| scale.at(&index(at[1], k / self.group)));
            term *= of_a.map_or(1.0, |scale| scale.at(&index(at[0], k / BLOCK)));
            term * of_b.map_or(1.0, |scale| scale.at(&index(at[1] / BLOCK, k / BLOCK)))
        };
        (0..self.terms()).map(term).fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    }

    /// An element of C, or of the second result: sums, scaled and added to, then through the function.
    pub(super) fn expected(&self, result: &Tensor, at: &[usize]) -> Expected {
        let is_aux = result.name == "aux";
        let (sum, size) = self.sum(at);
        let mut allowed = ((self.terms() as f64 + 4.0) * self.acc.roundoff() + self.rounding) * size;
        let scales =
            ["scale", "scale_rows", "scale_columns"].iter().filter_map(|name| self.of_vector(name, at));
        let factor = scales.product::<f64>() * self.problem.number("alpha").unwrap_or(1.0);
        let old = self.problem.number("beta").map_or(0.0, |beta| {
            self.problem.tensors().find(|tensor| tensor.written).map_or(0.0, |c| beta * c.at(at))
        });
        let residual = self.named("residual").map_or(0.0, |tensor| tensor.at(at));
        let (before, after) = if self.after { (0.0, residual) } else { (residual, 0.0) };
        let terms = [factor * sum, old, self.of_vector("bias", at).unwrap_or(0.0), before];
        let value: f64 = terms.iter().sum();
        // Each factor and each sum is rounded.
        let most: f64 = terms.iter().map(|term| term.abs()).sum();
        allowed = factor.abs() * allowed + 8.0 * self.scaled.roundoff() * most;
        let through = |x: f64| if is_aux { x } else { self.function.at(x).unwrap_or(f64::NAN) };
        let of_function = through(value);
        let after = if is_aux { 0.0 } else { after };
        let spread = (through(value + allowed) - of_function)
            .abs()
            .max((through(value - allowed) - of_function).abs());
        let right = of_function + after;
        // CUDA's functions are accurate within a few units, and the result is rounded once more.
        let size = of_function.abs() + after.abs();
        let within =
            spread + 16.0 * self.scaled.roundoff() * size + result.elem.roundoff() * (right.abs() + spread);
        self.stored(result.elem, right, within + tiny(result.elem))
    }

    /// As a type stores it: integers are whole, and 8-bit integers and narrow floats saturate.
    fn stored(&self, elem: Elem, right: f64, within: f64) -> Expected {
        let right = match elem {
            _ if elem.is_fp8() => {
                let most = Number::Float(f64::INFINITY).value(elem);
                right.clamp(-most, most)
            }
            _ if elem.is_float() => right,
            _ => decoded(elem, encoded(elem, right)),
        };
        match (elem.is_float(), self.scaled.is_float()) {
            // Close to a whole number, either neighbour is right.
            (false, true) => (right, within + 1.0),
            _ => (right, within),
        }
    }
}

/// Have these the extents of a product?
fn shaped(a: &Tensor, b: &Tensor, c: &Tensor) -> bool {
    match (&a.extents[..], &b.extents[..], &c.extents[..]) {
        ([m, k], [n, terms], [rows, columns]) => k == terms && m == rows && n == columns,
        _ => false,
    }
}

/// Half of the smallest step of a type.
fn tiny(elem: Elem) -> f64 {
    match elem {
        _ if elem == Elem::F16 || elem.is_fp8() => number::value(elem, 1) / 2.0,
        Elem::F32 | Elem::Bf16 | Elem::Tf32 => 2f64.powi(-134),
        _ => 0.0,
    }
}
