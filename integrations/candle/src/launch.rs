//! Launches as data, which a device or the simulator runs.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use candle_core::{Error, Result};
use tilewright::matmul::Activation;
use tilewright::{Elem, Kernel, KernelDef, KernelErrors};

use crate::view::View;

/// One step of an operator.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) step: Step,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A kernel and its arguments, in the order of its parameters.
    Kernel(Arc<KernelDef>, Vec<Argument>),
    Matmul(Box<Product>),
}

/// A product with its epilogue: c = activation(a · b + bias).
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) a: View,
    pub(crate) b: View,
    pub(crate) bias: Option<View>,
    pub(crate) activation: Option<Activation>,
    pub(crate) c: View,
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A part of an input or of a result.
    Tensor(View),
    /// A number.
    F32(f32),
    /// A number.
    I32(i32),
}

impl From<View> for Argument {
    fn from(view: View) -> Argument {
        Argument::Tensor(view)
    }
}

impl From<f32> for Argument {
    fn from(number: f32) -> Argument {
        Argument::F32(number)
    }
}

impl From<i32> for Argument {
    fn from(number: i32) -> Argument {
        Argument::I32(number)
    }
}

impl Launch {
    /// A launch of a kernel, with its arguments in the order of its parameters.
    pub fn new<const N: usize>(kernel: &impl Kernel, arguments: [Argument; N]) -> Launch {
        Launch::shared(Arc::new(kernel.def().clone()), arguments.into())
    }

    /// A launch of a kernel from [`specialized`].
    pub fn shared(kernel: Arc<KernelDef>, arguments: Vec<Argument>) -> Launch {
        Launch { step: Step::Kernel(kernel, arguments) }
    }

    /// A launch of a kernel with other constants and element types.
    pub fn specialized(
        kernel: &impl Kernel,
        constants: &[(&str, usize)],
        types: &[(&str, Elem)],
        arguments: Vec<Argument>,
    ) -> Result<Launch> {
        Ok(Launch::shared(specialized(kernel, constants, types)?, arguments))
    }

    pub(crate) fn matmul(product: Product) -> Launch {
        Launch { step: Step::Matmul(Box::new(product)) }
    }
}

/// A kernel with other constants and element types: made the first time, and kept.
pub fn specialized(
    kernel: &impl Kernel,
    constants: &[(&str, usize)],
    types: &[(&str, Elem)],
) -> Result<Arc<KernelDef>> {
    let key = format!("{:x} {constants:?} {types:?}", kernel.def().fingerprint());
    kept(key, || kernel.def().specialize(constants, types))
}

/// The kernel with this key: made the first time, and kept.
pub(crate) fn kept(
    key: String,
    make: impl FnOnce() -> std::result::Result<KernelDef, KernelErrors>,
) -> Result<Arc<KernelDef>> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<KernelDef>>>> = LazyLock::new(Default::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernel) = known.get(&key) {
        return Ok(kernel.clone());
    }
    let kernel = Arc::new(make().map_err(Error::wrap)?);
    known.insert(key, kernel.clone());
    Ok(kernel)
}
