//! What a file with kernels imports: `use tilewright::prelude::*;`.

pub use crate::language::*;
pub use crate::{Layout, MatmulKernel, bf16, f16, kernel, layout, matmul_kernel};
