//! The form of a product, which is everything except its sizes: types, orders, epilogue, precision. Kernels of one form are
//! compared with each other, and with the library's product of the nearest form.

use std::fmt;

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, ExprKind};
use tilewright_codegen::definition::Generated;
use tilewright_codegen::narrow::Int4;
use tilewright_codegen::thread::Param;
use tilewright_layout::Value;

use super::Result;
use super::own::Own;

/// The extents of a product, and the number of such products.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Extents {
    pub(crate) batch: i64,
    pub(crate) m: i64,
    pub(crate) n: i64,
    pub(crate) k: i64,
}

impl Extents {
    /// The extents of the transposed product.
    pub(crate) fn transposed(self) -> Extents {
        Extents { m: self.n, n: self.m, ..self }
    }

    /// The extent of a mode of C.
    pub(crate) fn of_result(&self, mode: usize) -> i64 {
        [self.m, self.n][mode]
    }
}

impl From<[i64; 4]> for Extents {
    fn from([batch, m, n, k]: [i64; 4]) -> Extents {
        Extents { batch, m, n, k }
    }
}

/// C (M, N) = activation(A (M, K) · B (N, K)ᵀ · scale + bias), where A and B may have scales too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Form {
    pub(crate) a: Elem,
    pub(crate) b: Elem,
    /// The 4-bit type, if each element of B has two numbers of it, along K.
    pub(crate) packed: Option<Int4>,
    pub(crate) out: Elem,
    pub(crate) order: Order,
    /// A factor for each column of C.
    pub(crate) scale: Option<Vector>,
    /// A factor for each column of C and each group along K.
    pub(crate) groups: Option<Groups>,
    /// The scales of A and of B, by which products of 8-bit numbers are multiplied.
    pub(crate) scales: Option<OfOperands>,
    /// A vector that is added to each row or column.
    pub(crate) bias: Option<Vector>,
    /// A matrix that is added.
    pub(crate) residual: Option<Residual>,
    /// The type of a second result, the argument of the function.
    pub(crate) aux: Option<Elem>,
    pub(crate) activation: Activation,
    pub(crate) precision: Precision,
    /// May tensor cores keep sums of 8-bit floating-point numbers all along K?
    pub(crate) fast_accum: bool,
}

/// Which mode is contiguous: `true` for A and B contiguous along K, and for a row-major C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) a_rows: bool,
    pub(crate) b_rows: bool,
    pub(crate) c_rows: bool,
}

/// An argument with a number for each row (mode 0) or each column (mode 1) of C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vector {
    pub(crate) elem: Elem,
    pub(crate) mode: usize,
}

/// A matrix that is added to C: its type, and whether after the function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Residual {
    pub(crate) elem: Elem,
    pub(crate) after: bool,
}

/// Factors of elements of B: their type, how many elements along K have one, and whether these have a zero point too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Groups {
    pub(crate) elem: Elem,
    pub(crate) size: i64,
    pub(crate) zeros: bool,
}

/// Which elements of A and of B have a scale in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OfOperands {
    /// One scale for each row of A, and one for each row of B, which is a column of C.
    Rows,
    /// One scale for each row and each 128 of K of A, and one for each 128x128 block of B.
    Blocks,
}

impl Groups {
    /// How many there are along K.
    pub(crate) fn count(self, k: i64) -> i64 {
        (k + self.size - 1) / self.size
    }
}

/// The function that is applied to each element of C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    None,
    Relu,
    Gelu,
    GeluTanh,
    Silu,
    /// A function that the host evaluates.
    Own(Own),
}

impl Activation {
    /// Their names as values of the key `epilogue`.
    pub(crate) const ALL: [(&str, Activation); 5] = [
        ("none", Activation::None),
        ("relu", Activation::Relu),
        ("gelu", Activation::Gelu),
        ("gelu_tanh", Activation::GeluTanh),
        ("silu", Activation::Silu),
    ];

    /// Its number in `helpers.cu`, which has no functions of the host.
    pub(crate) fn number(self) -> u64 {
        Activation::ALL.iter().position(|row| row.1 == self).unwrap_or(0) as u64
    }

    /// The function, if the library has it too.
    fn of_library(self) -> Activation {
        if let Activation::Own(_) = self { Activation::None } else { self }
    }
}

/// How precisely f32 operands are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Precision {
    Strict,
    Tf32,
    F32x3,
}

/// The role of an argument in a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    A,
    B,
    C,
    Scale,
    /// Zero points of groups.
    Zero,
    /// Scales of A and of B.
    ScalesOfA,
    ScalesOfB,
    Bias,
    Residual,
    /// The second result.
    Aux,
    /// Of the accumulators.
    Alpha,
    /// Of the old contents of C.
    Beta,
}

impl Form {
    /// The form of a kernel, by its arguments and keys, and the role of each argument.
    pub(crate) fn of(name: &str, kernel: &Generated, keys: &[Arg]) -> Result<(Form, Vec<Role>)> {
        let roles = roles(kernel).ok_or_else(|| {
            format!("`{name}` is no matrix product: it does not take A (M, K), B (N, K) and C (M, N)")
        })?;
        let index = |role: Role| roles.iter().position(|one| *one == role);
        let elem = |role: Role| index(role).map(|at| kernel.params[at].elem);
        let params = &kernel.variants[0].program.params;
        let rows = |role: Role| index(role).is_some_and(|at| unit_stride(&params[at], 1));
        let vector = |role: Role| {
            let at = index(role)?;
            let mode = usize::from(extent(&params[at], 0) == Some("N"));
            Some(Vector { elem: kernel.params[at].elem, mode })
        };
        let (Some(a), Some(b), Some(out)) = (elem(Role::A), elem(Role::B), elem(Role::C)) else {
            return Err(format!("`{name}` lacks an operand"));
        };
        let groups = index(Role::Scale).and_then(|at| {
            let size = groups_of(&params[at])?;
            Some(Groups { elem: kernel.params[at].elem, size, zeros: index(Role::Zero).is_some() })
        });
        let precision = match word(keys, "precision").as_deref() {
            Some("tf32") => Precision::Tf32,
            Some("f32x3") => Precision::F32x3,
            _ => Precision::Strict,
        };
        let form = Form {
            a,
            b,
            packed: Int4::ALL.into_iter().find(|of| word(keys, "b_dtype").as_deref() == Some(of.name())),
            out,
            order: Order { a_rows: rows(Role::A), b_rows: rows(Role::B), c_rows: rows(Role::C) },
            scale: if groups.is_some() { None } else { vector(Role::Scale) },
            groups,
            scales: index(Role::ScalesOfA).map(|at| match kernel.params[at].tensor {
                Some((_, 1)) => OfOperands::Rows,
                _ => OfOperands::Blocks,
            }),
            bias: vector(Role::Bias),
            residual: elem(Role::Residual).map(|elem| {
                let after = called(keys, "residual").as_deref() == Some("after");
                Residual { elem, after }
            }),
            aux: elem(Role::Aux),
            activation: activation(keys)?,
            precision,
            fast_accum: word(keys, "fast_accum").as_deref() == Some("true"),
        };
        Ok((form, roles))
    }

    /// The library's product for the comparison: weights of the type of activations, strict f32, a bias of the type of C,
    /// and no residual, second result or other function; or why the library has none.
    pub(crate) fn peer(self) -> Result<Form> {
        if let Some(Vector { mode, .. }) = self.bias
            && mode != usize::from(self.order.c_rows)
        {
            return Err(format!(
                "cuBLASLt adds a bias along the contiguous mode of C only: write bias={}, or c={}",
                if self.order.c_rows { "columns" } else { "rows" },
                if self.order.c_rows { "m_major" } else { "n_major" }
            ));
        }
        let bias = self.bias.map(|vector| Vector { elem: self.out, ..vector });
        let b = if self.scale.is_some() || self.groups.is_some() { self.a } else { self.b };
        let (precision, activation) = (Precision::Strict, self.activation.of_library());
        let plain = Form { residual: None, aux: None, precision, activation, ..self };
        Ok(Form { b, packed: None, bias, scale: None, groups: None, ..plain })
    }

    /// The number of elements of B for `k` numbers along K.
    pub(crate) fn k_of_b(&self, k: i64) -> i64 {
        if self.packed.is_some() { k / 2 } else { k }
    }

    /// The largest relative error, in the Frobenius norm, that rounding explains for random operands and K up to 16,384.
    /// Tensor cores truncate their sums. Sums of 8-bit numbers have 13 bits, if they are not promoted every 128 elements
    /// along K.
    pub(crate) fn bound(&self) -> f64 {
        let sums = match (self.a, self.precision) {
            (Elem::F64, _) => 1e-13,
            (Elem::F32, Precision::Strict | Precision::F32x3) => 1e-5,
            (Elem::F32, Precision::Tf32) => 1e-3,
            (Elem::E4m3 | Elem::E5m2, _) if self.fast_accum => 5e-2,
            (Elem::E4m3 | Elem::E5m2, _) => 5e-3,
            (Elem::Tf32 | Elem::F16 | Elem::Bf16, _) => 1e-3,
            _ => 0.0,
        };
        let rounding = |elem: Elem| -> f64 {
            match elem {
                Elem::F64 => 1e-13,
                Elem::F32 | Elem::Tf32 => 1e-5,
                Elem::F16 => 1e-3,
                Elem::Bf16 => 5e-3,
                Elem::E4m3 | Elem::E5m2 => 1e-1,
                _ => 0.0,
            }
        };
        self.aux.into_iter().map(rounding).fold(f64::max(rounding(self.out), sums), f64::max)
    }

    /// cuBLAS's letters, for a C with contiguous columns.
    fn letters(&self) -> String {
        let Order { a_rows, b_rows, .. } = self.order;
        format!("{}{}", if a_rows { 't' } else { 'n' }, if b_rows { 'n' } else { 't' })
    }
}

/// `bf16 x e4m3 by 128 -> f32 tn, bias, gelu`, with scales for groups of 128: what deviates from the usual is named.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.a)?;
        if let Some(of) = self.packed {
            write!(f, " x {}", of.name())?;
        } else if self.b != self.a {
            write!(f, " x {}", self.b)?;
        }
        if let Some(Groups { size, zeros, .. }) = self.groups {
            write!(f, " by {size}{}", if zeros { " with zero points" } else { "" })?;
        }
        if self.out != self.a {
            write!(f, " -> {}", self.out)?;
        }
        write!(f, " {}", self.letters())?;
        if self.order.c_rows {
            write!(f, ", rows of C contiguous")?;
        }
        if self.fast_accum {
            write!(f, ", fast accumulation")?;
        }
        match self.scales {
            Some(OfOperands::Rows) => write!(f, ", scales of rows")?,
            Some(OfOperands::Blocks) => write!(f, ", scales of blocks")?,
            None => {}
        }
        match self.precision {
            Precision::Strict => {}
            Precision::Tf32 => write!(f, ", as tf32")?,
            Precision::F32x3 => write!(f, ", as three tf32 products")?,
        }
        if self.bias.is_some() {
            write!(f, ", bias")?;
        }
        let residual = |after: bool| self.residual.filter(|residual| residual.after == after);
        if let Some(Residual { elem, .. }) = residual(false) {
            write!(f, ", residual of {elem}")?;
        }
        if let Some((name, _)) = Activation::ALL.iter().skip(1).find(|row| row.1 == self.activation) {
            write!(f, ", {name}")?;
        }
        if let Activation::Own(own) = self.activation {
            write!(f, ", {}", own.name())?;
        }
        if let Some(Residual { elem, .. }) = residual(true) {
            write!(f, ", residual of {elem}")?;
        }
        self.aux.map_or(Ok(()), |elem| write!(f, ", second result of {elem}"))
    }
}

/// The roles of a kernel's arguments, by their extents. `None` if it is no product.
fn roles(kernel: &Generated) -> Option<Vec<Role>> {
    // Parameters begin with the arguments, in order.
    let params = kernel.params.iter().zip(&kernel.variants[0].program.params);
    let mut scalars = [Role::Alpha, Role::Beta].into_iter();
    let has = |name| kernel.params.iter().any(|argument| argument.name == name);
    let both = has("scale_rows") && has("scale_columns");
    let mut roles = Vec::new();
    for (argument, param) in params {
        let Some((written, rank)) = argument.tensor else {
            roles.push(scalars.next()?);
            continue;
        };
        let dense = || unit_stride(param, 0) || unit_stride(param, 1);
        let other = extent(param, 1).unwrap_or_default();
        roles.push(match (extent(param, 0)?, rank, written) {
            ("M", 2 | 3, true) if other == "N" && dense() && argument.name == "aux" => Role::Aux,
            ("M", 2 | 3, false) if other == "N" && dense() && argument.name == "residual" => Role::Residual,
            ("M", 2 | 3, true) if other == "N" && dense() => Role::C,
            ("M", 2 | 3, false) if other == "K" && dense() => Role::A,
            ("N", 2 | 3, false) if other.starts_with('K') && dense() && groups_of(param).is_none() => Role::B,
            ("M", 2, false) if argument.name == "scale_a" && other == "K/128" => Role::ScalesOfA,
            ("N/128", 2, false) if argument.name == "scale_b" && other == "K/128" => Role::ScalesOfB,
            ("M", 1, false) if argument.name == "scale_rows" && both => Role::ScalesOfA,
            ("N", 1, false) if argument.name == "scale_columns" && both => Role::ScalesOfB,
            ("M" | "N", 1, false) if argument.name.starts_with("scale") => Role::Scale,
            ("N", 2 | 3, false) if groups_of(param).is_some() && argument.name == "zero" => Role::Zero,
            ("N", 2, false) if groups_of(param).is_some() => Role::Scale,
            ("M" | "N", 1, false) => Role::Bias,
            _ => return None,
        });
    }
    let once = |role| roles.iter().filter(|one| **one == role).count();
    let [a, b, c] = [Role::A, Role::B, Role::C].map(once);
    let vectors = [Role::Scale, Role::Bias].map(once);
    ([a, b, c] == [1, 1, 1] && vectors.iter().all(|&count| count <= 1)).then_some(roles)
}

/// The name of a mode's extent.
fn extent(param: &Param, mode: usize) -> Option<&'static str> {
    let Param::Pointer { shape, .. } = param else { return None };
    match shape.get(mode)? {
        Value::Sym { times: 1, of, over: 1 } => ["M", "N", "K"].into_iter().find(|name| *name == of.name()),
        Value::Sym { times: 1, of, over: 2 } if of.name() == "K" => Some("K/2"),
        Value::Sym { times: 1, of, over: 128 } if of.name() == "K" => Some("K/128"),
        Value::Sym { times: 1, of, over: 128 } if of.name() == "N" => Some("N/128"),
        _ => None,
    }
}

/// Elements along K in a group, if the second mode has a number for each of them.
fn groups_of(param: &Param) -> Option<i64> {
    let Param::Pointer { shape, .. } = param else { return None };
    match shape.get(1)? {
        Value::Sym { times: 1, of, over } if of.name() == "K" && *over > 2 => Some((*over).into()),
        _ => None,
    }
}

fn unit_stride(param: &Param, mode: usize) -> bool {
    let Param::Pointer { stride, .. } = param else { return false };
    stride.get(mode).and_then(|step: &Value| step.int()) == Some(1)
}

fn value<'k>(keys: &'k [Arg], key: &str) -> Option<&'k ExprKind> {
    keys.iter().find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key)).map(|arg| &arg.value.kind)
}

/// The value of a key that is a word.
fn word(keys: &[Arg], key: &str) -> Option<String> {
    match value(keys, key)? {
        ExprKind::Name(word) | ExprKind::Str(word) => Some(word.clone()),
        ExprKind::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The value of a key that is a word, or a word with something in parentheses.
fn called(keys: &[Arg], key: &str) -> Option<String> {
    match value(keys, key)? {
        ExprKind::Call { function, .. } => Some(function.text.clone()),
        _ => word(keys, key),
    }
}

fn activation(keys: &[Arg]) -> Result<Activation> {
    let Some(given) = value(keys, "epilogue") else { return Ok(Activation::None) };
    let name = word(keys, "epilogue");
    let known = |name: &str| Activation::ALL.iter().skip(1).find(|row| row.0 == name).map(|row| row.1);
    let own = || Own::of(given).map(Activation::Own);
    name.as_deref().and_then(known).or_else(own).ok_or_else(|| {
        let names: Vec<&str> = Activation::ALL.iter().skip(1).map(|row| row.0).collect();
        let given = if matches!(given, ExprKind::Closure { .. }) { "closure" } else { "function" };
        format!(
            "the reference cannot evaluate this {given} of an epilogue; write one of {}, or a closure of arithmetic, comparisons and such functions",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_codegen::words::{Kernels as _, Words};

    fn form(keys: &str) -> Result<Form> {
        let words = Words::read(keys).map_err(|why| why.to_string())?;
        let args = words.args().to_vec();
        let kernel = words.matmul().map_err(|why| why.to_string())?;
        Form::of(keys, &kernel, &args).map(|(form, _)| form)
    }

    /// The form of these keys, its bound, and the form that it is compared with.
    #[track_caller]
    fn check(keys: &str, expected: &str, bound: f64, peer: &str) {
        let form = form(keys).unwrap();
        let message = form.peer().map_or_else(|why| why, |peer| peer.to_string());
        assert_eq!((form.to_string().as_str(), form.bound(), message.as_str()), (expected, bound, peer));
    }

    #[test]
    fn keys_are_forms() {
        check("", "f32 nt", 1e-5, "f32 nt");
        check("a=k_major b=k_major", "f32 tn", 1e-5, "f32 tn");
        check("c=n_major", "f32 nt, rows of C contiguous", 1e-5, "f32 nt, rows of C contiguous");
        check("alpha_beta=true batched=true", "f32 nt", 1e-5, "f32 nt");
        check("precision=f32x3", "f32 nt, as three tf32 products", 1e-5, "f32 nt");
        check("precision=tf32", "f32 nt, as tf32", 1e-3, "f32 nt");
        check("dtype=tf32 a=k_major b=k_major", "tf32 -> f32 tn", 1e-3, "tf32 -> f32 tn");
        check("dtype=bf16 out=f32 arch=90", "bf16 -> f32 nt", 1e-3, "bf16 -> f32 nt");
        check("dtype=bf16 b_dtype=i8", "bf16 x i8 nt", 5e-3, "bf16 nt");
        check("dtype=bf16 b_dtype=i4 a=k_major b=k_major", "bf16 x i4 tn", 5e-3, "bf16 tn");
        let groups = "dtype=bf16 b_dtype=i4 group_size=128 a=k_major b=k_major";
        check(groups, "bf16 x i4 by 128 tn", 5e-3, "bf16 tn");
        let zeros = "dtype=bf16 b_dtype=u4 group_size=64 zeros=true a=k_major b=k_major";
        check(zeros, "bf16 x u4 by 64 with zero points tn", 5e-3, "bf16 tn");
        let fp8 = "dtype=e4m3 out=bf16 arch=90 a=k_major b=k_major";
        check(fp8, "e4m3 -> bf16 tn", 5e-3, "e4m3 -> bf16 tn");
        let fast = "e4m3 -> bf16 tn, fast accumulation";
        check(&format!("{fp8} fast_accum=true"), fast, 5e-2, fast);
        let blocks = "e4m3 -> bf16 tn, scales of blocks";
        check(&format!("{fp8} scales=blocks"), blocks, 5e-3, blocks);
        let rows = "e4m3 -> bf16 tn, scales of rows";
        check(&format!("{fp8} scales=both"), rows, 5e-3, rows);
        check("dtype=bf16 bias=rows epilogue=gelu", "bf16 nt, bias, gelu", 5e-3, "bf16 nt, bias, gelu");
        // cuBLASLt has the product without them.
        check("dtype=bf16 epilogue=|x| max(x, 0.1*x)", "bf16 nt, a closure", 5e-3, "bf16 nt");
        check("dtype=bf16 bias=rows epilogue=tanh", "bf16 nt, bias, tanh", 5e-3, "bf16 nt, bias");
        let before = "bf16 nt, residual of f32, relu";
        check("dtype=bf16 residual=before(f32) epilogue=relu", before, 5e-3, "bf16 nt, relu");
        let both = "dtype=bf16 out=f32 epilogue=gelu residual=after aux=bf16 batched=true";
        let named = "bf16 -> f32 nt, gelu, residual of f32, second result of bf16";
        check(both, named, 5e-3, "bf16 -> f32 nt, gelu");
    }

    /// cuBLASLt's bias is for each row of a column-major result.
    #[test]
    fn a_bias_has_a_peer_along_the_contiguous_mode() {
        let refused = |keys: &str| form(keys).unwrap().peer().unwrap_err();
        assert_eq!(
            refused("bias=columns"),
            "cuBLASLt adds a bias along the contiguous mode of C only: write bias=rows, or c=n_major"
        );
        assert_eq!(
            refused("bias=rows c=n_major"),
            "cuBLASLt adds a bias along the contiguous mode of C only: write bias=columns, or c=m_major"
        );
        assert!(form("bias=columns c=n_major").unwrap().peer().is_ok());
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            form("epilogue=|x| x % 2.0").unwrap_err(),
            "the reference cannot evaluate this closure of an epilogue; write one of relu, gelu, gelu_tanh, silu, or a closure of arithmetic, comparisons and such functions"
        );
        let softmax = tilewright::kernels::named("softmax").unwrap().def.generate().unwrap();
        assert_eq!(
            Form::of("softmax", &softmax, &[]).unwrap_err(),
            "`softmax` is no matrix product: it does not take A (M, K), B (N, K) and C (M, N)"
        );
    }
}
