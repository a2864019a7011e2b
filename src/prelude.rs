//! The imports of a file with kernels: `use tilewright::prelude::*;`.

pub use crate::language::functions::*;
#[cfg(feature = "sim")]
pub use crate::{Arg, Simulate};
#[cfg(feature = "cuda")]
pub use crate::{Device, DeviceTensor, Launch, LaunchMatmul, Stream, TensorMut, TensorRef};
pub use crate::{Layout, MatmulKernel, device, kernel, layout, matmul_kernel};
pub use tilewright_program::element::types::*;
