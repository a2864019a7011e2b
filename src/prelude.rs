//! The imports of a file with kernels: `use tilewright::prelude::*;`.

pub use crate::language::functions::*;
#[cfg(feature = "sim")]
pub use crate::{Arg, Simulate};
#[cfg(feature = "cuda")]
pub use crate::{Device, DeviceTensor, Launch, LaunchMatmul, Stream, TensorMut, TensorRef};
pub use crate::{Layout, MatmulKernel, bf16, device, e4m3, e5m2, f16, kernel, layout, matmul_kernel, tf32};
