//! One call that multiplies matrices: [`matmul`], [`matmul_into`], and [`Matmul`] for an epilogue and options.
//!
//! Element types, layouts and sizes come from the tensors: row-major, column-major, transposed views, and with a third mode a
//! batch of products. The kernel is a product of [`matmul_kernel!`](crate::matmul_kernel). The program generates it when it first
//! needs a product of these types, layouts and options. A launch takes the alternative with the least estimated time for its
//! device and sizes.
//!
//! The feature `matmul` has it, which adds the generator to the program.
//!
//! [`Host`] multiplies tensors in the host's memory: on a GPU if there is one, otherwise on the CPU, so that a program runs on
//! any machine.
//!
//! ```
//! use tilewright::{Host, HostTensor, matmul};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let a = HostTensor::row_major([2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let b = HostTensor::row_major([3, 2], vec![1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?;
//! let c = matmul(&Host::new(), &a, &b)?;
//! assert_eq!(c.values(), [4.0, 5.0, 10.0, 11.0]); // row-major, as `a` is
//! # Ok(())
//! # }
//! ```
#![cfg_attr(
    feature = "cuda",
    doc = r#"
Tensors of a device are multiplied on a stream, and the result stays there:

```no_run
use tilewright::matmul::{Activation, Matmul};
use tilewright::prelude::*;

let stream = Device::open(0)?.stream()?;
let x = DeviceTensor::from_host_row_major(&stream, [64, 256], &vec![bf16::from_f32(0.5); 64 * 256])?;
let w = DeviceTensor::from_host_row_major(&stream, [1024, 256], &vec![bf16::from_f32(0.25); 1024 * 256])?;
let bias = DeviceTensor::from_host(&stream, [1024], &vec![bf16::from_f32(1.0); 1024])?;
let y = Matmul::new().bias(&bias).activation(Activation::Gelu).run(&stream, &x, w.view().transposed())?;
assert_eq!(y.to_host()?[0], bf16::from_f32(33.0));
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
// Without a device or the simulator, items that only they use are dead code.
#![cfg_attr(not(all(feature = "cuda", feature = "sim")), allow(dead_code))]

mod cpu;
#[cfg(feature = "cuda")]
mod device;
mod error;
mod host;
mod operand;
mod product;
mod tensor;

use std::marker::PhantomData;

use tilewright_program::element::Element;
use tilewright_program::launch::Refusal;

pub use error::Error;
pub use host::{Host, Ran};
pub use operand::{As, Backend, Factor, Matrix, Natural, Operand, Out, Target};
pub use tensor::{HostRef, HostTensor};

use operand::Lent;
use product::{Form, Options, Product, Side, When};

/// The product of two matrices, M x K and K x N, in a new tensor, M x N. With a third mode, a product for each of its indices.
/// The result is row-major if the rows of `a` are contiguous, otherwise column-major. Its type is [`Factor::Product`].
///
/// `backend` is the stream of the operands' device, or [`Host`].
pub fn matmul<'a, A, B>(
    backend: &A::Backend,
    a: A,
    b: B,
) -> Result<A::Result<<A::Elem as Factor>::Product>, Error>
where
    A: Matrix<'a, Elem: Factor>,
    B: Matrix<'a, Elem = A::Elem, Backend = A::Backend>,
{
    Matmul::new().run(backend, a, b)
}

/// Computes the product of [`matmul`] in `c`. Returns how it was computed.
///
/// ```
/// use tilewright::{Host, HostRef, HostTensor, matmul_into};
///
/// let a = [1.0f32, 2.0, 3.0, 4.0];
/// let a = HostRef::row_major([2, 2], &a)?;
/// let mut c = HostTensor::zeros([2, 2])?;
/// println!("{}", matmul_into(&Host::new(), a, a.transposed(), &mut c)?); // such as: by the simulator, variant 1 of 30
/// assert_eq!(c.values(), [5.0, 11.0, 11.0, 25.0]);
/// # Ok::<(), tilewright::matmul::Error>(())
/// ```
pub fn matmul_into<'a, A, B, C>(
    backend: &A::Backend,
    a: A,
    b: B,
    c: C,
) -> Result<<A::Backend as Backend>::Ran, Error>
where
    A: Matrix<'a, Elem: Factor>,
    B: Matrix<'a, Elem = A::Elem, Backend = A::Backend>,
    C: Target<'a, Elem = <A::Elem as Factor>::Product, Backend = A::Backend>,
{
    Matmul::new().run_into(backend, a, b, c)
}

/// A product with an epilogue: C = activation(alpha·A·B·scales + beta·C + bias + residual) + residual.
///
/// ```
/// use tilewright::matmul::{Activation, Host, HostTensor, Matmul};
///
/// let a = HostTensor::row_major([2, 2], vec![1.0f32, 2.0, 3.0, 4.0])?;
/// let b = HostTensor::row_major([2, 2], vec![1.0f32, 0.0, 0.0, -1.0])?;
/// let bias = HostTensor::column_major([2], vec![0.5f32, 1.0])?;
/// let product = Matmul::new().alpha(2.0).bias(&bias).activation(Activation::Relu);
/// assert_eq!(product.run(&Host::new(), &a, &b)?.values(), [2.5, 0.0, 6.5, 0.0]);
/// # Ok::<(), tilewright::matmul::Error>(())
/// ```
pub struct Matmul<'a, P: Backend, O = Natural> {
    options: Options,
    alpha: f64,
    beta: Option<f64>,
    others: Vec<(&'static str, P::Lent<'a>)>,
    out: PhantomData<O>,
}

/// A function that is applied to each element of a result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// x/2 (1 + erf(x/√2))
    Gelu,
    /// x / (1 + exp(-x))
    Silu,
}

impl Activation {
    fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::Silu => "silu",
        }
    }
}

/// The precision of f32 products on a device: see [the key of this name](crate::language::keys). The CPU always multiplies
/// f32 strictly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Precision {
    /// Multiply-adds of f32.
    #[default]
    Strict,
    /// On tensor cores, with operands rounded to 11 significant bits.
    Tf32,
    /// On tensor cores, with each operand as the sum of two such terms.
    F32x3,
}

impl Precision {
    fn name(self) -> &'static str {
        match self {
            Precision::Strict => "strict",
            Precision::Tf32 => "tf32",
            Precision::F32x3 => "f32x3",
        }
    }
}

impl<P: Backend> Default for Matmul<'_, P> {
    fn default() -> Self {
        Matmul::new()
    }
}

impl<P: Backend> Matmul<'_, P> {
    /// A product without an epilogue.
    pub fn new() -> Self {
        Matmul { options: Options::default(), alpha: 1.0, beta: None, others: Vec::new(), out: PhantomData }
    }
}

impl<'a, P: Backend, O> Matmul<'a, P, O> {
    /// Multiplies the product by this number, in the type in which the epilogue computes: f64 for products of f64; the type of the
    /// result for products of integers whose result is i32 or u32, as their sums are; otherwise f32. A number that this type does
    /// not represent, such as 0.5 for i32, is refused.
    pub fn alpha(mut self, alpha: f64) -> Self {
        (self.alpha, self.options.alpha_beta) = (alpha, true);
        self
    }

    /// Adds the old contents of the result times this number, for [`Matmul::run_into`]. If it is 0, the old contents are not
    /// read.
    pub fn beta(mut self, beta: f64) -> Self {
        (self.beta, self.options.alpha_beta) = (Some(beta), true);
        self
    }

    /// Adds a vector of N elements, of the type of the result, to each row.
    pub fn bias(mut self, bias: impl Operand<'a, Backend = P>) -> Self {
        self.options.bias = Some(Side::Columns);
        self.other("bias", bias.lend())
    }

    /// Adds a vector of M elements to each column.
    pub fn bias_of_rows(mut self, bias: impl Operand<'a, Backend = P>) -> Self {
        self.options.bias = Some(Side::Rows);
        self.other("bias", bias.lend())
    }

    /// Applies a function to each element of the result.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.options.activation = Some(activation);
        self
    }

    /// Adds a matrix of the shape of the result before the activation.
    pub fn residual_before(mut self, residual: impl Operand<'a, Backend = P>) -> Self {
        self.options.residual = Some(When::Before);
        self.other("residual", residual.lend())
    }

    /// Adds a matrix of the shape of the result after the activation.
    pub fn residual_after(mut self, residual: impl Operand<'a, Backend = P>) -> Self {
        self.options.residual = Some(When::After);
        self.other("residual", residual.lend())
    }

    /// Multiplies each row of the result by a factor, of the type of [`Matmul::alpha`]: the scales of an `a` that was quantised by
    /// rows.
    pub fn scale_rows(mut self, scales: impl Operand<'a, Backend = P>) -> Self {
        self.options.scale_rows = true;
        self.other("scale_rows", scales.lend())
    }

    /// Multiplies each column of the result by a factor: the scales of a `b` that was quantised by columns.
    pub fn scale_columns(mut self, scales: impl Operand<'a, Backend = P>) -> Self {
        self.options.scale_columns = true;
        self.other("scale_columns", scales.lend())
    }

    /// Scales of blocks of e4m3 and e5m2. Scales of `a` are (M, K/128), for each row and each 128 elements along K, columns
    /// contiguous. Scales of `b` are (N/128, K/128), for each block of 128 x 128, rows contiguous. Extents are rounded up.
    pub fn scale_blocks(
        mut self,
        a: impl Operand<'a, Backend = P>,
        b: impl Operand<'a, Backend = P>,
    ) -> Self {
        self.options.scale_blocks = true;
        self.other("scale_a", a.lend()).other("scale_b", b.lend())
    }

    /// Sets the precision of f32 products.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Sets another type for the result: `out::<f32>()`.
    pub fn out<U: Element>(self) -> Matmul<'a, P, As<U>> {
        let Matmul { options, alpha, beta, others, .. } = self;
        Matmul { options, alpha, beta, others, out: PhantomData }
    }

    /// An operand by the name of the kernel's parameter, once.
    fn other(mut self, name: &'static str, lent: P::Lent<'a>) -> Self {
        self.others.retain(|(known, _)| *known != name);
        self.others.push((name, lent));
        self
    }

    /// This product, with a shorter lifetime of its operands.
    fn shorter<'s>(self) -> Matmul<'s, P, O>
    where
        'a: 's,
    {
        let Matmul { options, alpha, beta, others, out } = self;
        let others = others.into_iter().map(|(name, lent)| (name, P::shorter(lent))).collect();
        Matmul { options, alpha, beta, others, out }
    }

    /// Computes the product in a new tensor: see [`matmul`].
    pub fn run<'s, A, B>(self, backend: &P, a: A, b: B) -> Result<A::Result<<O as Out<A::Elem>>::Elem>, Error>
    where
        A: Matrix<'s, Elem: Factor, Backend = P>,
        B: Matrix<'s, Elem = A::Elem, Backend = P>,
        O: Out<A::Elem>,
    {
        if self.beta.is_some() {
            let message = "`beta` is a factor of what is in the result before, and `run` makes a new one";
            return Err(Refusal::new(message)
                .help("call `run_into` with a result, or leave `beta` out")
                .into());
        }
        let (a, b) = (a.lend(), b.lend());
        let (rows, extents) = result(&a, &b)?;
        let mut c = A::result::<<O as Out<A::Elem>>::Elem>(backend, &extents, rows)?;
        self.shorter().lent(backend, P::shorter(a), P::shorter(b), A::lend_result(&mut c))?;
        Ok(c)
    }

    /// Computes the product in `c`: see [`matmul_into`].
    pub fn run_into<'s, A, B, C>(self, backend: &P, a: A, b: B, c: C) -> Result<P::Ran, Error>
    where
        'a: 's,
        A: Matrix<'s, Elem: Factor, Backend = P>,
        B: Matrix<'s, Elem = A::Elem, Backend = P>,
        C: Target<'s, Elem = <O as Out<A::Elem>>::Elem, Backend = P>,
        O: Out<A::Elem>,
    {
        self.shorter().lent(backend, a.lend(), b.lend(), c.lend_mut())
    }

    fn lent(self, backend: &P, a: P::Lent<'a>, b: P::Lent<'a>, c: P::Lent<'a>) -> Result<P::Ran, Error> {
        let mut operands = vec![("a", a), ("b", b), ("c", c)];
        operands.extend(self.others);
        let modes: Vec<_> = operands.iter().map(|(name, lent)| (*name, lent.modes())).collect();
        let form = Form::of(self.options, &modes)?;
        let (alpha, beta) = (self.alpha, self.beta.unwrap_or(0.0));
        form.factor("alpha", alpha)?;
        form.factor("beta", beta)?;
        backend.run(Product { form, alpha, beta, operands })
    }
}

/// Is the result row-major; and its extents. Operands that do not fit are refused with the result, which then has any extents.
fn result(a: &impl Lent, b: &impl Lent) -> Result<(bool, Vec<usize>), Refusal> {
    let (a, b) = (a.modes(), b.modes());
    let extents = [a.extents[0], b.extents[1], a.extents[2]];
    let rows = a.strides[1] == 1 && a.extents[1] > 1 || a.strides[0] != 1;
    let count = |extent: &i64| usize::try_from(*extent).unwrap_or(usize::MAX);
    Form::multiplies(&a, &b)?;
    Ok((rows, extents[..a.rank].iter().map(count).collect()))
}
