//! Test problems: the arguments of a kernel, for the simulator and for a device, and its expected results in
//! double precision.

use tilewright::sim::Outcome;
use tilewright::{Arg, Elem, Element};
use tilewright_codegen::launch::Given;
use tilewright_codegen::narrow::Int4;
use tilewright_codegen::thread::Param;
use tilewright_codegen::{Generated, with_element};
use tilewright_fuzz::number::add_products;
use tilewright_layout::Symbol;
use tilewright_layout::Value;

use crate::memory;
use crate::number::{self, Random};
use crate::tensor::{Padding, Tensor};

/// One argument of a kernel.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A number of this type.
    Number(Elem, f64),
}

/// The numbers in tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Small integers, which every type represents, and whose sums are exact.
    Whole,
    /// Random numbers between -1 and 1; for integers, those between -100 and 100 that the type represents.
    Any,
}

/// The settings from which arguments are built.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// Extents by name.
    pub sizes: &'a [(&'a str, usize)],
    /// The gaps and offsets of the tensors, in order; the last one is repeated.
    pub paddings: &'a [Padding],
    /// The numbers in the tensors.
    pub values: Values,
    /// The seed of the numbers.
    pub seed: u64,
    /// The number called `alpha`.
    pub alpha: f64,
    /// The number called `beta`.
    pub beta: f64,
}

/// An expected element of a result, and its tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The expected value.
    pub value: f64,
    /// The absolute tolerance; 0 if the result must be exact.
    pub within: f64,
}

/// A reference: the result's elements from the arguments, the first mode fastest.
pub type Reference = fn(&[Operand], Values) -> Vec<Wanted>;

/// Arguments, and the expected result.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The arguments in their order.
    pub operands: Vec<Operand>,
    /// The elements of the tensor that is written.
    pub wanted: Vec<Wanted>,
    /// The elements of a product's second result, if it has one.
    pub aux: Vec<Wanted>,
}

/// Results that kernels add to.
const ADDED_TO: [&str; 1] = ["bins"];

/// Counts of blocks and their words, which are 0 before a launch and after it.
const COUNTS: [&str; 2] = ["arrived", "words"];

/// Arguments of products after A, B and C.
const AFTER_C: [&str; 11] = [
    "alpha",
    "beta",
    "scale",
    "scale_rows",
    "scale_columns",
    "bias",
    "scale_a",
    "scale_b",
    "residual",
    AUX,
    "zero",
];

/// The second result of a product.
const AUX: &str = "aux";

/// Elements of a block with a scale.
const BLOCK: usize = 128;

/// The reference of a kernel, by its name and parameters; `None` if there is none.
pub fn reference(kernel: &Generated) -> Option<Reference> {
    let names: Vec<&str> = kernel.params.iter().map(|param| &*param.name).collect();
    match (&*kernel.name, &names[..]) {
        (_, ["a", "b", "c", more @ ..]) if more.iter().all(|name| AFTER_C.contains(name)) => Some(product),
        (name, names) => memory::reference(name, names),
    }
}

impl Problem {
    /// Arguments for a kernel that [`reference()`] knows.
    pub fn of(kernel: &Generated, setting: &Setting) -> Problem {
        let Some(reference) = reference(kernel) else {
            panic!("{}: say in `problem::reference` what it computes", kernel.name)
        };
        Problem::with(kernel, setting, reference)
    }

    /// Arguments for a kernel, with the extents that it computes from others.
    pub fn with(kernel: &Generated, setting: &Setting, reference: Reference) -> Problem {
        let sizes = all_sizes(kernel, setting);
        Problem::new(params(kernel), &Setting { sizes: &sizes, ..*setting }, reference)
    }

    /// The arguments of [`Problem::given`] for a kernel, without elements.
    pub fn shapes(kernel: &Generated, setting: &Setting) -> Vec<Given> {
        let sizes = all_sizes(kernel, setting);
        let setting = Setting { sizes: &sizes, ..*setting };
        let operands = operands(params(kernel), &setting, |_, tensor, _| tensor);
        Problem { operands, wanted: Vec::new(), aux: Vec::new() }.given()
    }

    /// Arguments for a program's parameters.
    pub fn new(params: &[Param], setting: &Setting, reference: Reference) -> Problem {
        let reads = params.iter().any(|param| matches!(param, Param::Scalar { name, .. } if name == "beta"));
        let reads = reads && setting.beta != 0.0;
        let operands = operands(params, setting, |param, tensor, seed| {
            // A result that must not be read is poisoned, inside and around.
            if COUNTS.contains(&&*tensor.name) {
                return tensor.filled(|_| 0.0);
            }
            match !tensor.written || reads || ADDED_TO.contains(&&*tensor.name) {
                true if is_packed(param) => {
                    let mut random = Random::new(seed);
                    tensor.filled(|_| f64::from(random.word() % 256))
                }
                true => fill(tensor, setting.values, seed),
                false => tensor,
            }
        });
        let wanted = match columns_of_vectors(setting) {
            Some(columns) => of_matrices(&operands, columns, |operands| reference(operands, setting.values)),
            None => reference(&operands, setting.values),
        };
        let aux = aux(&operands, setting.values, &Finish::default());
        Problem { operands, wanted, aux }
    }

    /// The same for a product with a function of its elements, or with rounded operands.
    pub fn finished(self, values: Values, finish: &Finish) -> Problem {
        let wanted = product_with(&self.operands, values, finish);
        let aux = aux(&self.operands, values, finish);
        Problem { wanted, aux, ..self }
    }

    /// The tensors in their order.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        tensors(&self.operands)
    }

    /// The tensor that is written.
    pub fn result(&self) -> &Tensor {
        self.tensors().find(|tensor| tensor.written).expect("a result")
    }

    /// For the simulator, with the result in its own buffer.
    pub fn args(&self) -> Vec<Arg> {
        self.args_with(Tensor::arg)
    }

    /// For the simulator, with an uninitialised result: see [`Tensor::output`].
    pub fn blank_args(&self) -> Vec<Arg> {
        self.args_with(|tensor| if tensor.written { tensor.output() } else { tensor.arg() })
    }

    fn args_with(&self, arg: impl Fn(&Tensor) -> Arg) -> Vec<Arg> {
        let one = |operand: &Operand| match operand {
            Operand::Tensor(tensor) => arg(tensor),
            Operand::Number(elem, value) => {
                with_element!(*elem, T => Arg::number(<T as number::Number>::of(*value)))
            }
        };
        self.operands.iter().map(one).collect()
    }

    /// For a launch plan, with aligned buffers.
    pub fn given(&self) -> Vec<Given> {
        let one = |(index, operand): (usize, &Operand)| match operand {
            Operand::Tensor(tensor) => Given::Tensor(tensor.given((index as u64 + 1) << 40)),
            Operand::Number(elem, _) => Given::Scalar(*elem),
        };
        self.operands.iter().enumerate().map(one).collect()
    }

    /// The first mismatch of a run in the simulator, if there is one.
    pub fn wrong_outcome(&self, outcome: &Outcome) -> Option<String> {
        let wrong = |result: &Tensor| {
            let bits: Vec<u64> = with_element!(result.elem, T => {
                outcome.get::<T>(&result.name).expect("the result").into_iter().map(Element::to_raw).collect()
            });
            let bits = if bits.len() < result.len { result.around(bits) } else { bits };
            self.wrong(result, &bits)
        };
        let results = self.tensors().filter(|tensor| tensor.written);
        let why = results.take(if self.aux.is_empty() { 1 } else { 2 }).find_map(wrong)?;
        Some(format!("variant {}: {why}", outcome.variant() + 1))
    }

    /// The first mismatch in a tensor's buffer after a run, if there is one.
    pub fn wrong(&self, tensor: &Tensor, bits: &[u64]) -> Option<String> {
        if !tensor.written {
            return tensor.wrong(bits, None);
        }
        let is_aux = tensor.name == AUX && !self.aux.is_empty();
        if tensor.name != self.result().name && !is_aux {
            // A workspace: its contents are arbitrary, but the memory around it must not change.
            return tensor.wrong(bits, Some(&|_, _| None));
        }
        let judge = |element: usize, got: f64| {
            let Wanted { value, within } = if is_aux { self.aux[element] } else { self.wanted[element] };
            // Written so that NaN never matches.
            let right = got == value || (got - value).abs() <= within;
            let bound = if within > 0.0 { format!(" up to {within:.1e}") } else { String::new() };
            (!right).then(|| format!("is {got}, and {value} is right{bound}"))
        };
        tensor.wrong(bits, Some(&judge))
    }
}

/// Sizes for a kernel: those whose matrices are vectors of all elements have rows of 67 by default.
pub fn sizes_for(kernel: &Generated, sizes: &[(&'static str, usize)]) -> Vec<(&'static str, usize)> {
    let rows = sizes.iter().find(|size| size.0 == "M").map_or(1, |size| size.1);
    match kernel.name.ends_with("_dense") {
        true => vec![("M", rows), ("N", 67), ("E", 67 * rows)],
        false => sizes.to_vec(),
    }
}

/// The columns of matrices that a kernel takes as vectors of all E elements.
fn columns_of_vectors(setting: &Setting) -> Option<usize> {
    let size = |name: &str| setting.sizes.iter().find(|size| size.0 == name).map(|size| size.1);
    size("E").and_then(|_| size("N"))
}

/// The results for such vectors by a reference of matrices, whose first mode is the fastest.
fn of_matrices(
    operands: &[Operand],
    columns: usize,
    reference: impl Fn(&[Operand]) -> Vec<Wanted>,
) -> Vec<Wanted> {
    let is_vector = |tensor: &Tensor| tensor.extents.len() == 1;
    let matrix = |operand: &Operand| match operand {
        Operand::Tensor(tensor) if is_vector(tensor) => {
            let (rows, values) = (tensor.extents[0] / columns, &tensor.values);
            let values = (0..values.len()).map(|at| values[at % rows * columns + at / rows]).collect();
            Operand::Tensor(Tensor { extents: vec![rows, columns], values, ..tensor.clone() })
        }
        operand => operand.clone(),
    };
    let wanted = reference(&operands.iter().map(matrix).collect::<Vec<_>>());
    match tensors(operands).find(|tensor| tensor.written) {
        Some(result) if is_vector(result) => {
            let rows = wanted.len() / columns;
            (0..wanted.len()).map(|at| wanted[at % columns * rows + at / columns]).collect()
        }
        _ => wanted,
    }
}

fn tensors(operands: &[Operand]) -> impl Iterator<Item = &Tensor> {
    operands.iter().filter_map(|operand| match operand {
        Operand::Tensor(tensor) => Some(tensor),
        Operand::Number(..) => None,
    })
}

/// All variants have the same arguments, and parameters begin with them.
fn params(kernel: &Generated) -> &[Param] {
    &kernel.variants[0].program.params
}

/// The sizes of a setting, and those that a kernel computes from them.
fn all_sizes<'s>(kernel: &Generated, setting: &Setting<'s>) -> Vec<(&'s str, usize)> {
    let mut sizes = setting.sizes.to_vec();
    for require in &kernel.requires {
        let known =
            |symbol: Symbol| sizes.iter().find(|size| size.0 == symbol.name()).map(|size| size.1 as i64);
        if let Some((symbol, extent)) = require.computed(&known) {
            sizes.push((symbol.name(), extent as usize));
        }
    }
    sizes
}

/// The arguments of parameters. `fill` puts elements into a tensor, with a seed of its own.
fn operands(
    params: &[Param],
    setting: &Setting,
    fill: impl Fn(&Param, Tensor, u64) -> Tensor,
) -> Vec<Operand> {
    let mut operands = Vec::new();
    for param in params {
        match param {
            Param::Pointer { .. } => {
                let padding = setting.paddings.get(operands.len()).or(setting.paddings.last());
                let tensor = Tensor::new(param, setting.sizes, padding.copied().unwrap_or_default());
                let seed = setting.seed.wrapping_mul(31).wrapping_add(operands.len() as u64);
                operands.push(Operand::Tensor(fill(param, tensor.expect("a pointer is a tensor"), seed)));
            }
            Param::Scalar { name, elem } => {
                let value = if name == "alpha" { setting.alpha } else { setting.beta };
                operands.push(Operand::Number(*elem, value));
            }
            Param::Int { .. } | Param::Workspace { .. } | Param::TensorMap { .. } => {}
        }
    }
    operands
}

fn fill(tensor: Tensor, values: Values, seed: u64) -> Tensor {
    let mut random = Random::new(seed);
    let (is_float, is_signed) = (tensor.elem.is_float(), number::rounded(tensor.elem, -1.0) < 0.0);
    tensor.filled(|_| {
        let next = random.word();
        match values {
            Values::Whole => f64::from(next % 17) - if is_signed { 8.0 } else { 0.0 },
            Values::Any if is_float => f64::from(next) / 2f64.powi(31) - 1.0,
            Values::Any => f64::from(next % 201) - if is_signed { 100.0 } else { 0.0 },
        }
    })
}

/// Are elements pairs of numbers of four bits, along K?
fn is_packed(param: &Param) -> bool {
    let half = Value::symbol("K").ceil_div(2);
    matches!(param, Param::Pointer { shape, .. } if shape.get(1).copied() == half)
}

/// A function and the bound of its derivative.
pub type Bounded = (fn(f64) -> f64, f64);

/// The operations of a product besides exact multiplication and addition.
#[derive(Clone, Copy, Debug)]
pub struct Finish {
    /// A function of each element before it is rounded to the type of C, and the bound of its derivative.
    pub function: Option<Bounded>,
    /// The relative error of a product of two elements, and of each sum of K of them.
    pub rounding: f64,
    /// Up to this magnitude whole numbers are sums without error.
    pub whole: f64,
    /// Is a residual added after the function?
    pub after: bool,
    /// The type of the sums and of the epilogue, if it is not the one of the result's width.
    pub sums: Option<Elem>,
    /// The numbers of four bits in B's elements, if there are two in each.
    pub pairs: Int4,
}

impl Finish {
    /// The properties of operands by the keys.
    pub fn of(keys: &str) -> Finish {
        let pairs = if keys.contains("b_dtype=u4") { Int4::Unsigned } else { Int4::Signed };
        let rounding = if keys.contains("precision=f32x3") { 2f64.powi(-20) } else { 0.0 };
        let after = keys.contains("residual=after");
        let sums = [("acc=f16", Elem::F16), ("out=f64", Elem::F32)];
        let sums = sums.into_iter().find(|(key, _)| keys.contains(key) && !keys.contains("dtype=f64"));
        Finish { pairs, rounding, after, sums: sums.map(|(_, elem)| elem), ..Finish::default() }
    }
}

impl Default for Finish {
    fn default() -> Finish {
        let whole = 2f64.powi(24);
        Finish { function: None, rounding: 0.0, whole, after: false, sums: None, pairs: Int4::Signed }
    }
}

/// C = alpha·A·Bᵀ·scale(s) + beta·C + bias + residual, or less of it; batched if there is a third mode. Blocks of A and of B have scales
/// of their own, `scale_a` (M, K/128) and `scale_b` (N/128, K/128). The bias belongs to rows if
/// there are as many of them; sizes must differ.
///
/// Rounding errors of a sum of K products behave like a random walk: they grow as √K, and with the magnitudes
/// of the terms. The last rounding is to the type of C.
pub fn product(operands: &[Operand], values: Values) -> Vec<Wanted> {
    product_with(operands, values, &Finish::default())
}

/// The second result of a product, if it has one: the argument of the function.
fn aux(operands: &[Operand], values: Values, finish: &Finish) -> Vec<Wanted> {
    let is_aux = |tensor: &Tensor| tensor.name == AUX && tensor.written;
    match tensors(operands).any(is_aux) {
        true => result_of(operands, values, &Finish { function: None, ..*finish }, true),
        false => Vec::new(),
    }
}

/// The same with a function of its elements, or with rounded operands.
pub fn product_with(operands: &[Operand], values: Values, finish: &Finish) -> Vec<Wanted> {
    result_of(operands, values, finish, false)
}

/// One of the results of a product.
fn result_of(operands: &[Operand], values: Values, finish: &Finish, is_aux: bool) -> Vec<Wanted> {
    let all: Vec<&Tensor> = tensors(operands).collect();
    let [a, _, c, ref more @ ..] = all[..] else { panic!("three matrices") };
    let mut numbers = operands.iter().filter_map(|operand| match operand {
        Operand::Number(elem, value) => Some(factor(*elem, *value)),
        Operand::Tensor(_) => None,
    });
    let (alpha, beta) = (numbers.next().unwrap_or(1.0), numbers.next().unwrap_or(0.0));
    let (rows, columns, terms) = (c.extents[0], c.extents[1], a.extents[1]);
    let named = |name: &str| named(more, name);
    let residual = named("residual").filter(|_| !(is_aux && finish.after));
    let of_result = if is_aux { named(AUX).map_or(c.elem, |aux| aux.elem) } else { c.elem };
    let (groups, zeros) = (group_scales(more), named("zero"));
    let sums = sums_of_products(&all, finish.pairs);
    // Scaled weights are rounded to the type of A, and so are their differences from zero points.
    let roundings = [groups, zeros].into_iter().flatten().count() as f64;
    let rounding = finish.rounding + roundings * a.elem.roundoff();
    let steps = 2.0 * (terms as f64).sqrt() + 8.0;
    // Narrow floats are accumulated in f32.
    let sum_elem = finish.sums.unwrap_or(if of_result == Elem::F64 { Elem::F64 } else { Elem::F32 });
    // Subnormal numbers are as far apart as the least of them.
    let least = match of_result {
        Elem::F16 => 2f64.powi(-24),
        Elem::E4m3 => 2f64.powi(-10),
        Elem::E5m2 => 2f64.powi(-17),
        _ => 0.0,
    };
    let one = |(at, (sum, size)): (usize, &(f64, f64))| {
        // An element that is not read may be poison.
        let old = if beta == 0.0 { 0.0 } else { beta * c.values[at] };
        let vector = |name: &str, default| {
            let matched =
                more.iter().find(|vector| vector.name == name && groups.is_none_or(|of| of.name != name));
            matched.map_or(default, |vector| {
                match name == "scale_rows" || (vector.extents[0] == rows && name == "bias") {
                    true => vector.values[at % rows],
                    false => vector.values[at / rows % columns],
                }
            })
        };
        let scales: f64 = AFTER_C[2..5].iter().map(|name| vector(name, 1.0)).product();
        let residual = residual.map_or(0.0, |residual| residual.values[at]);
        let (before, after) = if finish.after { (0.0, residual) } else { (residual, 0.0) };
        let (alpha, bias) = (alpha * scales, vector("bias", 0.0));
        let value = alpha * sum + old + bias + before;
        // Sums of integers wrap before a function sees them.
        let value = if matches!(of_result, Elem::I32 | Elem::U32) {
            number::rounded(of_result, value)
        } else {
            value
        };
        // Partial sums are as large as the terms, which may cancel out: that is what rounding errors grow with. The terms
        // beside the products take fewer than eight operations, and each rounds by at most that much of `most`.
        let most = alpha.abs() * size + old.abs() + bias.abs() + before.abs();
        let exact = most < finish.whole || sum_elem == Elem::F64;
        let exact = (values == Values::Whole && exact) || !of_result.is_float();
        let within = match exact {
            true => 0.0,
            false => steps * sum_elem.roundoff() * most + rounding * alpha.abs() * size,
        };
        let (value, within) = match finish.function {
            None => (value, within),
            // Smooth functions have an error of a few units themselves.
            Some((of, steepest)) => {
                (of(value), steepest * within + 8.0 * sum_elem.roundoff() * (value.abs() + of(value).abs()))
            }
        };
        let value = value + after;
        // Empty sums have no error; terms that are added to them afterwards may have one.
        if (exact && within == 0.0) || !of_result.is_float() {
            return Wanted { value: number::rounded(of_result, saturated(of_result, value)), within: 0.0 };
        }
        let value = saturated(of_result, value);
        let within = within + sum_elem.roundoff() * (value.abs() + 2.0 * after.abs());
        let narrowed = match of_result == sum_elem {
            true => least,
            false => of_result.roundoff() * (value.abs() + within) + least,
        };
        // Either is right at the edge of the range.
        let overflows = of_result == Elem::F16 && value.abs() + within + narrowed > 65504.0;
        Wanted { value, within: if overflows { f64::INFINITY } else { within + narrowed } }
    };
    sums.iter().enumerate().map(one).collect()
}

fn named<'t>(tensors: &[&'t Tensor], name: &str) -> Option<&'t Tensor> {
    tensors.iter().copied().find(|tensor| tensor.name == name)
}

/// The scales of B in groups along K.
fn group_scales<'t>(tensors: &[&'t Tensor]) -> Option<&'t Tensor> {
    named(tensors, "scale").filter(|scale| scale.extents.len() > 1)
}

/// For each element of C the sum of products, and the sum of their magnitudes.
fn sums_of_products(tensors: &[&Tensor], pairs: Int4) -> Vec<(f64, f64)> {
    let [a, b, c, ref more @ ..] = tensors[..] else { panic!("three matrices") };
    let (rows, columns, terms) = (c.extents[0], c.extents[1], a.extents[1]);
    let batches = c.extents.get(2).copied().unwrap_or(1);
    let [scale_a, scale_b, zeros] = ["scale_a", "scale_b", "zero"].map(|name| named(more, name));
    let groups = group_scales(more);
    let mut sums = vec![(0.0f64, 0.0f64); c.count()];
    for l in 0..batches {
        for k in 0..terms {
            let scaled: Vec<f64>;
            let mut column_of_a = &a.values[(l * terms + k) * rows..][..rows];
            if let Some(scale) = scale_a {
                let scales = &scale.values[(l * scale.extents[1] + k / BLOCK) * rows..][..rows];
                scaled = column_of_a.iter().zip(scales).map(|(x, scale)| x * scale).collect();
                column_of_a = &scaled;
            }
            for n in 0..columns {
                let factor = match b.over[1] > 1 {
                    false => b.values[(l * terms + k) * columns + n],
                    true => {
                        let byte = b.values[(l * b.extents[1] + k / 2) * columns + n] as u8;
                        f64::from(pairs.value(byte, k % 2))
                    }
                };
                let of_group = |of: &Tensor| of.values[(l * of.extents[1] + k / of.over[1]) * columns + n];
                let factor = factor - zeros.map_or(0.0, of_group);
                let scale = groups.map_or(1.0, of_group);
                let scale = scale_b.map_or(scale, |scale| {
                    let [of_n, of_k] = [scale.extents[0], scale.extents[1]];
                    scale.values[(l * of_k + k / BLOCK) * of_n + n / BLOCK]
                });
                let factor = factor * scale;
                let column = &mut sums[(l * columns + n) * rows..][..rows];
                add_products(column, column_of_a, factor);
            }
        }
    }
    sums
}

/// A factor as it is, or a smaller one with the same products: products of u32 are equal modulo 2^32 for 2^32 - 1 and for
/// -1, by which sums can be multiplied in double precision without rounding.
fn factor(elem: Elem, value: f64) -> f64 {
    number::rounded(if elem == Elem::U32 { Elem::I32 } else { elem }, value)
}

/// The nearest value in the range of a type of 8 bits: conversions saturate.
fn saturated(elem: Elem, value: f64) -> f64 {
    match elem {
        Elem::I8 => value.clamp(-128.0, 127.0),
        Elem::U8 => value.clamp(0.0, 255.0),
        Elem::E4m3 => value.clamp(-448.0, 448.0),
        Elem::E5m2 => value.clamp(-57344.0, 57344.0),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;

    /// A product with gaps around all buffers, and the expected buffer of its result.
    fn right(keys: &str) -> (Problem, Vec<u64>) {
        let kernel = gallery::matmul(keys).kernel.expect("a kernel");
        let sizes = &[("M", 5), ("N", 4), ("K", 30), ("L", 2)];
        let paddings = &[Padding { gap: 3, outer: 7, offset: 2 }];
        let setting = Setting { sizes, paddings, values: Values::Any, seed: 1, alpha: 0.5, beta: 0.0 };
        let problem = Problem::of(&kernel, &setting);
        let result = problem.result();
        let mut bits = result.bits();
        for (index, wanted) in result.places().into_iter().zip(&problem.wanted) {
            bits[index] = number::bits(result.elem, wanted.value);
        }
        (problem, bits)
    }

    #[track_caller]
    fn check(keys: &str, change: impl Fn(&Tensor, &mut Vec<u64>), message: Option<&str>) {
        let (problem, mut bits) = right(keys);
        change(problem.result(), &mut bits);
        let wrong = problem.wrong(problem.result(), &bits);
        match message {
            Some(message) => {
                assert!(wrong.as_ref().is_some_and(|wrong| wrong.starts_with(message)), "{wrong:?}")
            }
            None => assert_eq!(wrong, None),
        }
    }

    #[test]
    fn mismatches_are_reported() {
        // The last element of the first column, and the first of the gap after it.
        let (at, gap) = (|c: &Tensor| c.offset + 4, |c: &Tensor| c.offset + 5);
        for keys in ["", "alpha_beta=true batched=true", "dtype=f64 bm=64 bn=64", "dtype=f16 bk=16"] {
            check(keys, |_, _| {}, None);
            check(keys, |c, bits| bits[at(c)] = number::poison(c.elem), Some("`c` at [4, 0"));
            let off = |c: &Tensor, bits: &mut Vec<u64>| {
                let steps = if c.elem == Elem::F16 { 4 } else { 200 };
                bits[at(c)] += steps;
            };
            check(keys, off, Some("`c` at [4, 0"));
            for (index, offset) in [(0, -130), (129, -1), (135, 5)] {
                let message = format!("`c` was written where it must not be, at offset {offset},");
                check(keys, move |_, bits| bits[index] ^= 1, Some(&message));
            }
            check(
                keys,
                |c, bits| bits[gap(c)] = 0,
                Some("`c` was written where it must not be, at offset 5,"),
            );
            check(
                keys,
                |_, bits| *bits.last_mut().unwrap() = 0,
                Some("`c` was written where it must not be"),
            );
        }
        check("dtype=i32 bm=64 bn=64", |c, bits| bits[at(c)] ^= 1, Some("`c` at [4, 0]"));
    }

    /// A sum of terms that cancel out is as wrong as the terms are large, not as the result is.
    #[test]
    fn terms_of_an_epilogue_are_rounded() {
        let kernel = gallery::matmul("alpha_beta=true bias=rows residual=before").kernel.expect("a kernel");
        let sizes = &[("M", 40), ("N", 30), ("K", 0)];
        let setting = Setting { sizes, paddings: &[], values: Values::Any, seed: 1, alpha: 1.0, beta: 1.0 };
        let problem = Problem::of(&kernel, &setting);
        let values = |name: &str| &problem.tensors().find(|tensor| tensor.name == name).unwrap().values;
        let (c, bias, residual) = (values("c"), values("bias"), values("residual"));
        for (at, wanted) in problem.wanted.iter().enumerate() {
            // In the kernel's order, and in another one.
            let [c, bias, residual] = [c[at], bias[at % 40], residual[at]].map(|x| x as f32);
            for sum in [(c + bias) + residual, c + (bias + residual)] {
                assert!((f64::from(sum) - wanted.value).abs() <= wanted.within, "{at}: {sum} {wanted:?}");
            }
            let terms = f64::from(c.abs() + bias.abs() + residual.abs());
            assert!(wanted.within <= 12.0 * 2f64.powi(-24) * terms, "{at}: {wanted:?}");
        }
    }

    /// Terms are added to an empty sum in the type of sums.
    #[test]
    fn residuals_of_sums_of_nothing_are_rounded() {
        let keys = "precision=f32x3 out=f64 residual=after";
        let kernel = gallery::matmul(keys).kernel.expect("a kernel");
        let sizes = &[("M", 4), ("N", 3), ("K", 0)];
        let setting = Setting { sizes, paddings: &[], values: Values::Any, seed: 1, alpha: 1.0, beta: 1.0 };
        let problem = Problem::of(&kernel, &setting).finished(Values::Any, &Finish::of(keys));
        for wanted in &problem.wanted {
            let got = f64::from(wanted.value as f32);
            assert!((got - wanted.value).abs() <= wanted.within, "{got}, {wanted:?}");
        }
    }

    /// Sums of integers wrap, and alpha and beta are numbers of their type.
    #[test]
    fn sums_of_integers_wrap() {
        let kernel = gallery::matmul("dtype=u32 alpha_beta=true epilogue=relu").kernel.expect("a kernel");
        let (m, n, k) = (3, 2, 70_000);
        let sizes = &[("M", m), ("N", n), ("K", k)];
        let setting = Setting { sizes, paddings: &[], values: Values::Any, seed: 1, alpha: -1.0, beta: 2.0 };
        let problem = Problem::of(&kernel, &setting).finished(Values::Any, &Finish::default());
        let values = |name: &str| &problem.tensors().find(|tensor| tensor.name == name).unwrap().values;
        let (a, b, c) = (values("a"), values("b"), values("c"));
        for (at, wanted) in problem.wanted.iter().enumerate() {
            let sum = (0..k).fold(0u32, |sum, k| {
                let [x, y] = [a[k * m + at % m], b[k * n + at / m]].map(|x| x as u32);
                sum.wrapping_add(x.wrapping_mul(y))
            });
            let right = u32::MAX.wrapping_mul(sum).wrapping_add(2 * c[at] as u32);
            assert_eq!(*wanted, Wanted { value: f64::from(right), within: 0.0 });
        }
    }

    #[test]
    fn arguments_must_stay_as_they_are() {
        let (problem, _) = right("");
        let a = problem.tensors().next().unwrap();
        let mut bits = a.bits();
        assert_eq!(problem.wrong(a, &bits), None);
        bits[a.offset + 1] ^= 1;
        let message = problem.wrong(a, &bits).unwrap();
        assert!(message.starts_with("`a` was written where it must not be, at offset 1,"), "{message}");
    }
}
