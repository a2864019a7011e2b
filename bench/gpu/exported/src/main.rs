//! `bench` measures a launch from Rust and the exported one beside it, on the same data.

use std::array;
use std::process::ExitCode;

use tilewright::cudarc::driver::DevicePtr;
use tilewright_cli::{Commands, Operands};

include!("kernels.rs");

mod exported {
    include!(concat!(env!("OUT_DIR"), "/matmul_nt.rs"));
    include!(concat!(env!("OUT_DIR"), "/softmax.rs"));
    include!(concat!(env!("OUT_DIR"), "/attention_hopper.rs"));
    include!(concat!(env!("OUT_DIR"), "/product.rs"));
}

/// A tensor's modes, and its elements in memory.
fn modes<const R: usize>(operands: &Operands<'_>, name: &str) -> (usize, [usize; R], [usize; R]) {
    let extents: [usize; R] = array::from_fn(|mode| operands.extents(name)[mode]);
    let strides: [usize; R] = array::from_fn(|mode| operands.strides(name)[mode]);
    let last: usize = extents.iter().zip(&strides).map(|(extent, stride)| (extent - 1) * stride).sum();
    (last + 1, extents, strides)
}

/// A function that prepares an exported kernel for arguments on a device.
macro_rules! exported {
    ($module:ident, [$($tensor:ident),*] $(, $number:ident)*) => {
        |stream, operands| {
            use exported::$module::{Arguments, Kernel, Plan, Tensor};
            let (mut kernel, mut plan) = (Kernel::open()?, Plan::new());
            let arguments = Arguments {
                $($tensor: {
                    let (elements, extents, strides) = modes(operands, stringify!($tensor));
                    Tensor { address: operands.address(stringify!($tensor)), elements, extents, strides }
                },)*
                $($number: operands.number(stringify!($number)) as _,)*
            };
            kernel.plan(&arguments, &mut plan)?;
            println!("exported: variant {}", plan.variant() + 1);
            let (workspace, stream) = (stream.alloc_zeros::<u8>(plan.workspace().max(1) as usize)?, stream.clone());
            Ok(Box::new(move || {
                let at = workspace.device_ptr(&stream).0;
                // SAFETY: the operands live as long as this closure, and only this stream uses them.
                Ok(unsafe { plan.launch(stream.cu_stream().cast(), at) }?)
            }))
        }
    };
}

fn main() -> ExitCode {
    let [tutorial, softmax, attention, product] = all();
    Commands::of(&[&tutorial, &softmax, &attention, &product])
        .peer("matmul_nt", "exported", exported!(matmul_nt, [a, b, c]))
        .peer("softmax", "exported", exported!(softmax, [x, y]))
        .peer("attention_hopper", "exported", exported!(attention_hopper, [q, k, v, o], scale))
        .peer("product", "exported", exported!(product, [a, b, c]))
        .main()
}
