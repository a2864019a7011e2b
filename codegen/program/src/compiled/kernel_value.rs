//! The values that macros make, which a program keeps, clones and launches.

use crate::compiled::kernel_def::{Generates, Handle, KernelDef, KernelErrors, ParamDef};
use crate::launch::definition::Definition;
use crate::values::element::{Element, Elements};
use std::fmt;

/// A value that carries a kernel: the values of `#[kernel]` and `matmul_kernel!`, and [`KernelDef`] itself.
pub trait Kernel {
    /// The kernel as data.
    fn def(&self) -> &KernelDef;
}

impl Kernel for KernelDef {
    fn def(&self) -> &KernelDef {
        self
    }
}

impl<T: Element> Kernel for MatmulKernel<T> {
    fn def(&self) -> &KernelDef {
        self.__handle.def()
    }
}

/// A matrix product, made by `matmul_kernel!`.
///
/// Its fields are for that macro, which fills them by a struct literal. In a struct literal the compiler considers the expected
/// type first, so the error for a `MatmulKernel<f64>` of single-precision elements can name the missing key. Filling the fields
/// by hand is harmless: a launch compares the elements with the definition.
#[derive(Clone)]
pub struct MatmulKernel<T: Element> {
    #[doc(hidden)]
    pub __handle: Handle,
    #[doc(hidden)]
    pub __elements: &'static dyn Elements<T>,
}

impl<T: Element> MatmulKernel<T> {
    /// Its CUDA C: of the fastest variant, if there are several.
    pub fn source(&self) -> &str {
        self.def().source()
    }

    /// Its static report: threads, shared memory, the cost of every access.
    pub fn report(&self) -> &str {
        self.def().report()
    }

    /// The arguments that a launch passes, in order.
    pub fn params(&self) -> &[ParamDef] {
        self.def().params()
    }

    /// Its definition; `None` when another version of tilewright encoded it.
    pub fn definition(&self) -> Option<Definition> {
        self.def().definition()
    }

    /// The same kernel with other values for some keys: `kernel.specialize(&[("bm", 64)])`.
    pub fn specialize(&self, keys: &[(&str, usize)]) -> Result<MatmulKernel<T>, KernelErrors>
    where
        Self: Generates,
    {
        let handle = self.__handle.specialize(keys, &[])?;
        Ok(MatmulKernel { __handle: handle, __elements: self.__elements })
    }

    /// The kernel as the runtime sees it.
    pub fn def(&self) -> &KernelDef {
        self.__handle.def()
    }
}

impl<T: Element> fmt::Debug for MatmulKernel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatmulKernel<{}>({:?})", T::ELEM, self.def())
    }
}

/// The result of `name!(BM = 64)` while compiling.
#[doc(hidden)]
pub trait Specialized {
    /// The kernel.
    const DEF: &'static KernelDef;
    /// Its element types; missing ones are `()`.
    type T0;
    /// The second.
    type T1;
    /// The third.
    type T2;
    /// The fourth.
    type T3;
}

/// The placeholder when the kernel's definition is wrong: it avoids errors that follow from the first.
#[doc(hidden)]
#[derive(Debug)]
pub struct Broken;

impl Specialized for Broken {
    const DEF: &'static KernelDef = {
        static DEF: KernelDef = KernelDef::new("", "", "", &[], b"", b"");
        &DEF
    };
    type T0 = f32;
    type T1 = f32;
    type T2 = f32;
    type T3 = f32;
}

/// The type of a definition, by its number: `name!(BM = 64)` may be written where only the macro is in scope, by a
/// path or under another name, in this crate or in another.
#[doc(hidden)]
pub trait Makes<K, S: Specialized> {
    /// The value.
    const KERNEL: K;
}

/// The number of a definition.
#[doc(hidden)]
#[derive(Debug)]
pub struct Number<const N: u128>;
