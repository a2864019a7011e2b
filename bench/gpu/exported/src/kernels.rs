// The kernels that are exported, and launched from Rust beside that.

use tilewright::prelude::*;

pub(crate) const PRODUCT: MatmulKernel<bf16> =
    matmul_kernel!(name = product, dtype = bf16, arch = 90, a = k_major, b = k_major, c = n_major);

pub(crate) fn all() -> [tilewright::KernelDef; 4] {
    let shipped = |name: &str| tilewright::kernels::named(name).expect("a shipped kernel").def;
    [shipped("tutorial"), shipped("softmax"), shipped("attention_hopper"), PRODUCT.def().clone()]
}
