//! Operations on a device: of every kernel, and of matrix products only.
#![allow(unsafe_code)]

use std::sync::Arc;

use tilewright_program::element::Element;
use tilewright_program::kernel_def::KernelDef;
use tilewright_program::kernel_value::{Kernel, MatmulKernel};
use tilewright_program::launch::Refusal;
use tilewright_program::{Elem, Generated};

use crate::argument::Argument;
use crate::device::Device;
use crate::error::Error;
use crate::jit::{self, Compiled, Made};
use crate::launch::{Launched, launch};
use crate::stream::Stream;
use crate::tensor::{ReadTensor, WriteTensor};

/// Compiling and launching for every type that carries a kernel, with arguments whose types are known only at
/// run time.
pub trait Launch: Kernel {
    /// Launches the kernel with these arguments, in the order of its parameters.
    ///
    /// ```no_run
    /// # use tilewright_runtime::{Argument, DeviceTensor, Error, Launch, Stream};
    /// # fn show(kernel: &impl tilewright_program::kernel_value::Kernel, stream: &Stream, a: &DeviceTensor<f32, 2>, c: &mut DeviceTensor<f32, 2>) -> Result<(), Error> {
    /// kernel.launch_with(stream, &mut [a.into(), c.into(), Argument::scalar(2.0f32)])?;
    /// # Ok(())
    /// # }
    /// ```
    fn launch_with(&self, stream: &Stream, arguments: &mut [Argument<'_>]) -> Result<Launched, Error> {
        launch(&jit::made(self.def())?, stream, arguments, false, &mut ())
    }

    /// The same as [`Launch::launch_with`], for kernels that were written as an `unsafe fn`.
    ///
    /// # Safety
    /// The requirements in the kernel's documentation are met. Everything that can be checked is still
    /// checked.
    unsafe fn launch_unchecked(
        &self,
        stream: &Stream,
        arguments: &mut [Argument<'_>],
    ) -> Result<Launched, Error> {
        launch(&jit::made(self.def())?, stream, arguments, true, &mut ())
    }

    /// Checks that the optional arguments that are given are those that the kernel has.
    #[doc(hidden)]
    fn __presence(&self, optional: &[(&str, bool)]) -> Result<(), Error> {
        for (name, is_given) in optional {
            let has = self.def().params().iter().any(|param| param.name == *name);
            if has != *is_given {
                let message = match has {
                    true => "it is not given, and this kernel was made with it",
                    false => "it is given, and this kernel was made without it",
                };
                let help = match has {
                    true => format!("pass `Some(…)`, or launch `{}!({name} = None)`", self.def().name()),
                    false => format!("pass `None`, or launch `{}()`", self.def().name()),
                };
                return Err(Refusal::of(name, message).help(help).into());
            }
        }
        Ok(())
    }

    /// Compiles and loads every variant that a device can run, and reports each: registers, spills, messages.
    /// Later launches do not compile.
    fn compile_for(&self, device: &Device) -> Result<Vec<Compiled>, Error> {
        jit::prepare(device, &*jit::made(self.def())?)
    }
}

impl<K: Kernel + ?Sized> Launch for K {}

/// A kernel that is generated already, such as one that a program built with the builder.
///
/// ```no_run
/// # use tilewright_codegen::{build::Builder, generate};
/// # use tilewright_runtime::{Argument, Built, DeviceTensor, Error, Stream};
/// # #[allow(unsafe_code)]
/// # fn show(b: Builder, stream: &Stream, c: &mut DeviceTensor<f32, 2>) -> Result<(), Error> {
/// let kernel = generate(b.finish()).kernel.expect("a right program");
/// // SAFETY: the kernel was generated from the builder's program, and was not modified.
/// let kernel = unsafe { Built::new(kernel) };
/// kernel.launch_with(stream, &mut [c.into()])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Built {
    made: Arc<Made>,
}

impl Built {
    /// The kernel of a definition, generated here.
    ///
    /// ```no_run
    /// use tilewright_program::Definition;
    /// # use tilewright_runtime::{Argument, Built, DeviceTensor, Error, Stream};
    /// # fn show(stream: &Stream, a: &DeviceTensor<f32, 2>, b: &DeviceTensor<f32, 2>, c: &mut DeviceTensor<f32, 2>) -> Result<(), Error> {
    /// let kernel = Built::of(&Definition::Matmul(vec![]))?;
    /// kernel.launch_with(stream, &mut [a.into(), b.into(), c.into()])?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "generate")]
    pub fn of(definition: &tilewright_program::Definition) -> Result<Built, Error> {
        Ok(Built { made: jit::defined(definition)? })
    }

    /// Takes a generated kernel.
    ///
    /// # Safety
    /// Its variants are the output of `tilewright_codegen::generate` for a program of the builder, and
    /// neither was modified; some of the variants may be missing.
    pub unsafe fn new(generated: Generated) -> Built {
        Built { made: jit::built(generated) }
    }

    /// The kernel that a program carries.
    pub fn carried(kernel: &KernelDef) -> Result<Built, Error> {
        Ok(Built { made: jit::made(kernel)? })
    }

    /// The kernel that a program carries, whose launches consult no records.
    pub fn without_records(kernel: &KernelDef) -> Result<Built, Error> {
        Ok(Built { made: jit::unrecorded(kernel)? })
    }

    /// The alternative that a variant is of: see [`Generated::alternative`]. Its launches take no other.
    pub fn alternative(&self, variant: usize) -> Built {
        Built { made: jit::alternative(&self.made, variant) }
    }

    /// Compiles one variant into the cache. Several threads may do so at once, while others launch.
    pub fn compile_variant(&self, device: &Device, variant: usize) -> Result<(), Error> {
        jit::binary(device, &self.made, variant).map(|_| ())
    }

    /// The generated kernel.
    pub fn generated(&self) -> &Generated {
        &self.made.generated
    }

    /// Launches the kernel with these arguments, in the order of its parameters.
    pub fn launch_with(&self, stream: &Stream, arguments: &mut [Argument<'_>]) -> Result<Launched, Error> {
        launch(&self.made, stream, arguments, false, &mut ())
    }

    /// Compiles and loads every variant that a device can run, and reports each.
    pub fn compile_for(&self, device: &Device) -> Result<Vec<Compiled>, Error> {
        jit::prepare(device, &self.made)
    }
}

/// Launching of products of matrices.
///
/// ```no_run
/// # use tilewright_program::kernel_value::MatmulKernel;
/// # use tilewright_runtime::{DeviceTensor, Error, LaunchMatmul, Stream};
/// # fn show(kernel: MatmulKernel<f32>, stream: &Stream) -> Result<(), Error> {
/// let (a, b) = (DeviceTensor::zeros(stream, [128, 64])?, DeviceTensor::zeros(stream, [256, 64])?);
/// let mut c = DeviceTensor::<f32, 2>::zeros(stream, [128, 256])?;
/// kernel.launch(stream, &a, &b, &mut c)?;
/// # Ok(())
/// # }
/// ```
pub trait LaunchMatmul<T: Element> {
    /// C = A·Bᵀ. C's element type is A's, or the accumulator's for 8-bit numbers and tf32, unless the key `out` gives another.
    fn launch<'a, 'b, 'c, U: Element, const R: usize>(
        &self,
        stream: &Stream,
        a: impl ReadTensor<'a, T, R>,
        b: impl ReadTensor<'b, T, R>,
        c: impl WriteTensor<'c, U, R>,
    ) -> Result<Launched, Error>;

    /// C = alpha·A·Bᵀ + beta·C, for kernels with `alpha_beta = true`. C is not read where beta is 0.
    #[allow(clippy::too_many_arguments)]
    fn launch_scaled<'a, 'b, 'c, U: Element, const R: usize>(
        &self,
        stream: &Stream,
        alpha: f64,
        a: impl ReadTensor<'a, T, R>,
        b: impl ReadTensor<'b, T, R>,
        beta: f64,
        c: impl WriteTensor<'c, U, R>,
    ) -> Result<Launched, Error>;
}

impl<T: Element> LaunchMatmul<T> for MatmulKernel<T> {
    fn launch<'a, 'b, 'c, U: Element, const R: usize>(
        &self,
        stream: &Stream,
        a: impl ReadTensor<'a, T, R>,
        b: impl ReadTensor<'b, T, R>,
        c: impl WriteTensor<'c, U, R>,
    ) -> Result<Launched, Error> {
        let made = jit::made(self.def())?;
        if made.generated.params.iter().any(|param| param.tensor.is_none()) {
            let message = "the kernel was made with `alpha_beta = true`, and takes two numbers";
            return Err(Refusal::new(message).help("call `launch_scaled`").into());
        }
        launch(&made, stream, &mut [a.lend().into(), b.lend().into(), c.lend().into()], false, &mut ())
    }

    fn launch_scaled<'a, 'b, 'c, U: Element, const R: usize>(
        &self,
        stream: &Stream,
        alpha: f64,
        a: impl ReadTensor<'a, T, R>,
        b: impl ReadTensor<'b, T, R>,
        beta: f64,
        c: impl WriteTensor<'c, U, R>,
    ) -> Result<Launched, Error> {
        let made = jit::made(self.def())?;
        let mut numbers = made.generated.params.iter().filter(|param| param.tensor.is_none());
        let (Some(first), Some(second)) = (numbers.next(), numbers.next()) else {
            let message = "the kernel takes no numbers: it was made without `alpha_beta = true`";
            return Err(Refusal::new(message)
                .help("call `launch`, or make it with `alpha_beta = true`")
                .into());
        };
        let (alpha, beta) =
            (number(&first.name, first.elem, alpha)?, number(&second.name, second.elem, beta)?);
        let arguments = &mut [a.lend().into(), b.lend().into(), c.lend().into(), alpha, beta];
        launch(&made, stream, arguments, false, &mut ())
    }
}

/// A number converted to the type of the kernel's parameter.
fn number(name: &str, elem: Elem, value: f64) -> Result<Argument<'static>, Error> {
    let refuse = || {
        let message = format!("it is {value}, and the kernel takes a number of type {elem}");
        Error::from(Refusal::of(name, message))
    };
    Ok(match elem {
        Elem::F64 => Argument::scalar(value),
        Elem::F32 => Argument::scalar(value as f32),
        Elem::I32 if f64::from(value as i32) == value => Argument::scalar(value as i32),
        Elem::U32 if f64::from(value as u32) == value => Argument::scalar(value as u32),
        _ => return Err(refuse()),
    })
}
