//! Tile layouts in, readable CUDA C out.
//!
//! A layout is a function from coordinates to offsets. You describe the layouts of tiles, threads and memory.
//! While your program is compiled, tilewright checks the kernel and generates its CUDA C.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! const SGEMM: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16));
//! assert!(SGEMM.source().contains("__global__"));
//! ```
#![cfg_attr(
    feature = "cuda",
    doc = r#"
On a machine with a GPU you can launch it. A launch checks its arguments first, and no safe call can make a kernel access
memory outside of its tensors. [`runtime`] explains what this guarantee depends on, how to lend buffers of cudarc, and which
error you get on a machine without a driver.

```no_run
use tilewright::prelude::*;
# const SGEMM: MatmulKernel<f32> = matmul_kernel!();

let stream = Device::open(0)?.stream()?;
let a = DeviceTensor::from_host(&stream, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?; // column-major
let b = DeviceTensor::from_host(&stream, [4, 3], &[1.0f32; 12])?;
let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [2, 4])?;
println!("{}", SGEMM.launch(&stream, &a, &b, &mut c)?);
assert_eq!(c.to_host()?[..2], [9.0, 12.0]);
# Ok::<(), tilewright::LaunchError>(())
```
"#
)]

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Macros write `::tilewright::…`, also in the examples here.
extern crate self as tilewright;

pub mod coming_from;
#[cfg(all(feature = "cuda", feature = "matmul"))]
#[doc = include_str!("from_your_program.md")]
pub mod from_your_program {}
#[cfg(feature = "kernels")]
pub mod kernels;
pub mod language;
#[cfg(feature = "matmul")]
pub mod matmul;
#[cfg(all(feature = "kernels", feature = "cuda"))]
pub mod models;
#[cfg(feature = "nccl")]
pub mod parallel;
pub mod prelude;

#[cfg(feature = "matmul")]
pub use matmul::{Host, HostRef, HostTensor, Matmul, matmul, matmul_into};
#[cfg(feature = "generate")]
pub use tilewright_codegen as codegen;
pub use tilewright_layout as layouts;
pub use tilewright_layout::{Layout, layout};
pub use tilewright_program as program;
pub use tilewright_program::Elem;
pub use tilewright_program::element::Element;
pub use tilewright_program::element::types::*;
pub use tilewright_program::kernel_def::{KernelDef, KernelErrors, ParamDef};
pub use tilewright_program::kernel_value::{Kernel, MatmulKernel};
#[cfg(feature = "cuda")]
pub use tilewright_runtime as runtime;
#[cfg(feature = "cuda")]
pub use tilewright_runtime::{
    Absence, Argument, Built, Device, DeviceTensor, Instrument, Launch, LaunchError, LaunchMatmul, Launched,
    Stream, TensorMut, TensorRef, cudarc, instrument,
};
#[cfg(feature = "sim")]
pub use tilewright_sim as sim;
#[cfg(feature = "sim")]
pub use tilewright_sim::{Arg, Simulate};

/// Makes a kernel from a function in the tile language.
///
/// Layouts, tuples, constants and loops over them are evaluated while your program is compiled. Mistakes are
/// errors at your own tokens. A function with the kernel's name returns the kernel:
///
/// ```
/// use tilewright::prelude::*;
///
/// /// Copies a matrix.
/// #[kernel]
/// fn duplicate<const B: usize = 64>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
///     let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
///     let threads = layout!((32, 8));
///     copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
/// }
///
/// println!("{}", duplicate().source());
/// let wide = duplicate!(B = 128); // other constants, while compiling
/// let chosen = duplicate().specialize(&[("B", 32)])?; // or at run time, with the feature `generate`
/// # assert_ne!(wide.source(), chosen.source());
/// # Ok::<(), tilewright::KernelErrors>(())
/// ```
///
/// - Constants are `const` parameters of type `usize`, with defaults.
/// - Element types are type parameters; the attribute lists their choices: `#[kernel(T = f32 | f64)]`. The
///   first is the default.
/// - The attribute sets [levels of lints](language::lints): `#[kernel(deny(bank_conflicts), allow(uncoalesced))]`.
///   For kernels without such attributes, the environment variable `TILEWRIGHT_LINTS` sets them, with the same
///   syntax. The compiler shows a lint as the use of a deprecated item, because stable Rust gives macros no other
///   way to warn.
/// - `#[kernel(arch = 90)]`, or `arch = sm_90`, is the oldest architecture that the kernel supports. The generator
///   may use its features, such as the instruction of a [`language::tiled_mma`]. The default is 80.
/// - `#[kernel(threads = 128)]` sets the number of threads of a block, as [`language::threads`] does. Both take
///   an integer, in which constants of the kernel may occur: `threads = 32 * WARPS`.
/// - `#[kernel(overlaps)]` is programmatic dependent launch: the kernel may start before the previous kernel
///   in the stream or graph has ended, and waits for it before it accesses memory. This hides a part of the launch
///   latency on devices from compute capability 9.0.
/// - Arguments are `&Tensor<f32, (M, K)>`, `&mut Tensor<…>`, and numbers such as `alpha: f32`. Names in
///   extents are sizes known at launch; a number is written `_4`, or in braces: `Tensor<f32, {(N, 4)}>`.
///   Tensors are column-major with their own leading dimensions; other strides are written in a layout,
///   `Tensor<f32, layout!((M, N) : (ldc, 1))>`, or after the extents, `Tensor<f32, (M, N), (ldc, _1)>`.
/// - The functions that the body can call are listed in [`language`].
/// - In an editor with rust-analyzer, definitions, references, renaming and hover work for the names of a kernel: arguments,
///   constants, sizes, `let`, closures, `#[device]` functions. Hover shows whether a name is a tile, a layout or a number,
///   not its shape, and `block`, `thread` and methods are unknown to it.
pub use tilewright_macros::kernel;

/// Makes a function of numbers that kernels share.
///
/// If parameters and result are numbers, the body is an expression with `let`, as in a closure. Functions of tiles, integers,
/// layouts and closures have [statements](language::closures#functions-that-kernels-share). A kernel imports the functions that
/// it calls by `use` in its first lines, with a path as anywhere in Rust: to this module, another module or another crate. The
/// function is inlined. Other such functions may import it in the same way.
///
/// ```standalone_crate
/// mod shrink {
///     use tilewright::prelude::*;
///
///     /// Moves a number towards 0, by at most `by`.
///     #[device]
///     pub fn soft(x: f32, by: f32) -> f32 {
///         let rest = abs(x) - by;
///         if rest > 0.0 { copysign(rest, x) } else { 0.0 }
///     }
/// }
///
/// use tilewright::prelude::*;
///
/// #[kernel]
/// fn denoise(by: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
///     use crate::shrink::soft;
///     map(tile(x, 1024, block.x), tile(y, 1024, block.x), |x| soft(x, by));
/// }
/// # fn main() {
/// # assert!(denoise().source().contains("copysignf"));
/// # }
/// ```
pub use tilewright_macros::device;

/// A matrix product, C = A·Bᵀ unless configured otherwise, described by a list of [keys](language::keys). It is an expression,
/// usable in a `const`.
///
/// ```
/// use tilewright::prelude::*;
///
/// const SGEMM: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16));
/// println!("{}", SGEMM.source());
/// let small = SGEMM.specialize(&[("bm", 64)])?; // other sizes, at run time, with the feature `generate`
/// # Ok::<(), tilewright::KernelErrors>(())
/// ```
///
/// With `dtype = bf16` alone it is a tuned product on tensor cores, with many variants among which a launch chooses. The macro
/// generates them all, which takes long because cargo does not optimise macros in debug builds. To optimise them, add:
///
/// ```toml
/// [profile.dev.build-override]
/// opt-level = 2
/// ```
///
/// A macro sees only its own tokens: values are literals and arithmetic on them, not names of your constants.
/// The element type is the key `dtype`. If another type is expected, the compiler reports it:
///
/// ```compile_fail
/// use tilewright::prelude::*;
///
/// const DGEMM: MatmulKernel<f64> = matmul_kernel!(bm = 64); // write `dtype = f64`
/// ```
pub use tilewright_macros::matmul_kernel;

/// Items that expansions of the macros name. Not part of the public interface: they change without notice.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "generate")]
    pub use tilewright_codegen::GENERATOR;
    pub use tilewright_macros::{__Items, __specialize, __with_device};
    pub use tilewright_program::element::Element;
    pub use tilewright_program::element::types::*;
    pub use tilewright_program::kernel_def::{Generates, Handle, KernelDef, KernelErrors, ParamDef};
    pub use tilewright_program::kernel_value::{Broken, Kernel, Makes, MatmulKernel, Number, Specialized};
    pub use tilewright_program::{Definition, Elem};
    #[cfg(feature = "cuda")]
    pub use tilewright_runtime::{
        Argument, Launch, LaunchError, Launched, ReadTensor, Stream, TensorMut, TensorRef, WriteTensor,
    };
}

/// The code of launches that macros expand to; empty if the feature `cuda` is off.
#[cfg(feature = "cuda")]
#[doc(hidden)]
#[macro_export]
macro_rules! __cuda {
    ($($items:tt)*) => { $($items)* };
}

/// The code of launches that macros expand to; empty if the feature `cuda` is off.
#[cfg(not(feature = "cuda"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __cuda {
    ($($items:tt)*) => {};
}
