//! Instructions of PTX, with their models.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("bitwise", bitwise().def().clone()),
        ("approximate", approximate().def().clone()),
        ("multiprocessors", multiprocessors().def().clone()),
    ]
}

/// A bitwise function of three integers, permuted bytes, and a sum of products of bytes.
///
/// # Safety
/// Every call is safe.
#[kernel]
pub unsafe fn bitwise(
    a: &Tensor<u32, N>,
    b: &Tensor<u32, N>,
    c: &Tensor<u32, N>,
    parity: &mut Tensor<u32, N>,
    swapped: &mut Tensor<u32, N>,
    dot: &mut Tensor<u32, N>,
) {
    let (a, b) = (tile(a, 256, block.x), tile(b, 256, block.x));
    map((a, b), tile(parity, 256, block.x), |a, b| {
        asm::<u32>("lop3.b32 %0, %1, %2, %3, 0x96;", a, b, 7u32, model = |a, b, c| a ^ b ^ c)
    });
    map(a, tile(swapped, 256, block.x), |a| {
        asm::<u32>(
            "prmt.b32 %0, %1, 0, 0x0123;",
            a,
            model = |a| (a << 24) | ((a & 0xff00) << 8) | ((a >> 8) & 0xff00) | (a >> 24),
        )
    });
    map((a, tile(c, 256, block.x)), tile(dot, 256, block.x), |a, c| {
        let byte = |x, n| (x >> (8 * n)) & 0xff;
        2 * asm::<u32>(
            "dp4a.u32.u32 %0, %1, %1, %2;",
            a,
            c,
            model = |a, c| {
                c + byte(a, 0) * byte(a, 0)
                    + byte(a, 1) * byte(a, 1)
                    + byte(a, 2) * byte(a, 2)
                    + byte(a, 3) * byte(a, 3)
            },
        )
    });
}

/// An approximation in f32, and in f64 a sum.
///
/// # Safety
/// Every call is safe.
#[kernel]
pub unsafe fn approximate(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, z: &mut Tensor<f64, N>) {
    let x = tile(x, 256, block.x);
    let power = |x| {
        asm::<f32>(
            "{ .reg .f32 t; mul.f32 t, %1, %1; ex2.approx.ftz.f32 %0, t; }",
            x,
            model = |x| exp2(x * x),
        )
    };
    map(x, tile(y, 256, block.x), |x| 0.5 * power(x));
    map(x, tile(z, 256, block.x), |x| asm::<f64>("add.f64 %0, %1, %1;", x as f64, model = |x| x + x));
}

/// The multiprocessor of each block: no model, so the simulator does not run it.
///
/// # Safety
/// Every call is safe.
#[kernel]
pub unsafe fn multiprocessors(of: &mut Tensor<u32, N>) {
    map(tile(of, 1, block.x), tile(of, 1, block.x), |_| asm::<u32>("mov.u32 %0, %%smid;", volatile = true));
}
