//! What can be called inside a kernel.
//!
//! These items are here to be read: they give names their documentation, in an editor as well. Inside `#[kernel]` the
//! generator evaluates them; elsewhere they cannot be called, because nothing outside of a kernel has their arguments.
//!
//! Inside a kernel there are also `block.x`, `block.y`, `block.z` and `thread.x`, tuples, integer arithmetic,
//! `layout!(shape : stride)`, `let`, `for`, `if`, and closures for elementwise arithmetic.
//!
//! # Closures
//!
//! A closure is a function of elements, for [`map`]. Its body is one expression: arithmetic, comparisons, the functions
//! below, `if … { … } else { … }`, and blocks in which `let` names a part of the value. Bound to a name it can be passed on
//! or called, with elements and, outside of other closures, with tiles; it sees the names that stood before it, and hides a
//! function of the language that has its name. Nothing is called at run time: the body stands where the call was. A closure
//! that gives a tuple makes several tiles, and `(a, b) = …` sets several, all values first.
//!
//! A size that a launch finds out is a number in closures, an `i32`: `x / N as f32`, `x / t.size(1) as f32`.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Swish of a row, scaled, and what was cut off.
//! #[kernel]
//! fn clipped(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, cut: &mut Tensor<f32, N>) {
//!     let t = layout!(256);
//!     let x = parallelize(tile(x, 256, block.x), t, thread.x);
//!     let (y, cut) = (parallelize(tile(y, 256, block.x), t, thread.x), parallelize(tile(cut, 256, block.x), t, thread.x));
//!     let most = 6.0;
//!     let clip = |x| if x > most { most } else { x };
//!     let (kept, over) = map(x, |x| {
//!         let all = silu(x) * N as f32;
//!         (clip(all), all - clip(all))
//!     });
//!     copy(kept, y);
//!     copy(over, cut);
//! }
//! assert!(clipped().source().contains("expf"));
//! ```
//!
//! # Accuracy
//!
//! How far a function's value can be from the true one, in units in the last place of the result, for every argument
//! between a thousandth and some thousands, in `f32` and `f64`:
//!
//! | function | within |
//! |---|---|
//! | `+ - * /`, [`fma`], [`sqrt`], conversions | ½: rounded once |
//! | [`floor`] [`ceil`] [`trunc`] [`round`] [`round_ties_even`] [`fmod`] [`abs`] [`copysign`] [`min`] [`max`] | exact |
//! | [`exp`] [`exp2`] [`log`] [`log2`] [`rsqrt`] [`tanh`] [`sin`] [`cos`] [`erf`] | 2 |
//! | [`pow`] | 4 |
//! | [`sigmoid`] [`silu`] | 4 |
//! | [`gelu`] [`gelu_tanh`] | 4, and 4 units in the last place of an `f32` 1 where the result is near 0 |
//!
//! In `f16` and `bf16` they are computed in `f32` and rounded once, the last four as a whole. The simulator computes in
//! double precision and rounds, so it is within one half, and a device within the bound of the table of what it says.
//! Infinities and what is no number come out as in Rust's functions; [`min`] and [`max`] give the other where one is no
//! number. Tests hold the simulator and devices to this table.
//!
//! # Types of numbers
//!
//! The rules are Rust's.
//!
//! - Operands have one type. `x as f32` converts, as Rust's `as` does; nothing else does, but [`copy`], which converts
//!   to the type of what it writes.
//! - A literal takes the type of what it meets, and must be one of its numbers. An integer type holds integers in its
//!   range, written `2` or `2.0`. A floating-point type holds any number that does not overflow it, rounded to nearest,
//!   ties to even. `f32::INFINITY`, `bf16::MAX`, `i32::MIN` and their like are there for every element type.
//! - A comparison gives a condition, for `if`, [`select`], `&`, `|`, `^` and `!`. `(x > 0.0) as f32` is 1 or 0.
//! - `f16`, `bf16`, `tf32`, `e4m3` and `e5m2` compute in `f32` and round after each operation. A sum of a product, `a * b + c`,
//!   is rounded once. What is greater than the greatest `e4m3` (448) or `e5m2` (57344) becomes that number; `tf32` is an `f32`
//!   of ten bits of fraction, whose ties go away from zero.
//!   `u32` and integers of 8 bits wrap around; an `i32` must not overflow.
//! - [`sum`], [`warp_sum`] and [`block_sum`] of `f16` and `bf16` are `f32`, those of `i8` and `u8` are `i32`: sums of
//!   sums stay wide, and what takes the last converts it once. `sum(x, acc = bf16)` asks for another type.
//! - `x = …` only writes `x`; `x += …` reads it too. Both need the type of `x` on the right.
//!
//! # Integers decide
//!
//! Coordinates, ends of loops and sides of comparisons are integers of one kind, under `+`, `-`, `*`, `/` (rounded down),
//! `%` (never negative), [`min`], [`max`] and [`ceil_div`]: `block.x`, `thread.x`, loop variables, sizes such as `M` or
//! `a.size(0)`, integer arguments, and elements of integer type.
//!
//! - **An element is an integer where one is needed**: in `ids[(block.x)]`, as a coordinate, an end of a loop or a side of a
//!   comparison, one element of integer type is read there; `x[(i)] as i32` reads one of another type.
//! - **Any integer is a coordinate.** What lies outside of a tensor, however far, reads as 0, or as what `fill = …` says, and
//!   is not written. An index that itself lies outside of its tensor is -1, so nothing comes of it.
//! - `for k in a..b` runs over any two integers, and so does `pipelined`; it runs not at all where `b <= a`.
//! - `if` takes comparisons of integers and of scalar arguments, with `&&`, `||` and `!`. Where it differs from thread to
//!   thread, as in `if thread.x < 4`, and in loops whose ends do, nothing may wait for all threads: no [`sync_threads`], no
//!   sum over a warp or the block.
//! - An integer among elements is an `i32`: `k as f32` in a closure, `2.0 * (x.size(1) as f32)`.
//!
//! One row of a table for each block, as embeddings need it, and sums of the tiles up to each block's own:
//!
//! ```
//! use tilewright::prelude::*;
//!
//! #[kernel]
//! fn lookup(
//!     ids: &Tensor<i32, N>,
//!     table: &Tensor<f32, (V, D), (ldt, _1)>,
//!     out: &mut Tensor<f32, (N, D), (ldo, _1)>,
//! ) {
//!     let row = ids[(block.x)];
//!     let t = layout!((1, 64));
//!     let from = parallelize(tile(table, (1, 64), (row, block.y)), t, thread.x);
//!     let to = parallelize(tile(out, (1, 64), (block.x, block.y)), t, thread.x);
//!     copy(from, to);
//! }
//!
//! #[kernel]
//! fn tiles_before(x: &Tensor<f32, N>, out: &mut Tensor<f32, N>) {
//!     let to = parallelize(tile(out, 64, block.x), layout!(64), thread.x);
//!     let all = parallelize(tile(x, 64, _), layout!(64), thread.x);
//!     let mut sum = registers_like(to, 0.0);
//!     for j in 0..block.x + 1 {
//!         sum += all[(_, j)];
//!     }
//!     copy(sum, to);
//! }
//!
//! # #[cfg(feature = "sim")] {
//! use tilewright::sim::Arg;
//! let (ids, table) = ([2, 0, 7], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let rows = |of: Arg| of.strides([2, 1]);
//! let args = [Arg::tensor(&ids, [3]), rows(Arg::tensor(&table, [3, 2])), rows(Arg::output::<f32>([3, 2]))];
//! let out = lookup().simulate(&args)?.get::<f32>("out")?;
//! assert_eq!(out, [5.0, 6.0, 1.0, 2.0, 0.0, 0.0]); // there is no row 7
//! # }
//! # let _ = tiles_before();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Other views
//!
//! [`shift`] moves a tile by elements, [`permute`] and [`regroup`] give its modes another order or shape, [`broadcast`] lets
//! it stand everywhere along a mode that it does not have. `tile(…, halo = 1)` takes so many elements more on each side, so
//! that neighbours overlap; beyond the tensor they are 0, or with `copy(…, clamp = true)` the nearest element inside.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// The mean of each element and its neighbours.
//! #[kernel]
//! fn smooth(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//!     let t = layout!(64);
//!     let gx = tile(x, 64, block.x);
//!     let to = parallelize(tile(y, 64, block.x), t, thread.x);
//!     let mut sum = registers_like(to, 0.0);
//!     let mut next = registers_like(to, 0.0);
//!     for d in -1..2 {
//!         copy(parallelize(shift(gx, (d)), t, thread.x), next, clamp = true);
//!         sum += next;
//!     }
//!     sum *= 1.0 / 3.0;
//!     copy(sum, to);
//! }
//! # #[cfg(feature = "sim")] {
//! use tilewright::sim::Arg;
//! let out = smooth().simulate(&[Arg::tensor(&[3.0f32, 6.0, 9.0], [3]), Arg::output::<f32>([3])])?.get::<f32>("y")?;
//! assert_eq!(out, [4.0, 6.0, 8.0]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

//!
//! # Whole tiles
//!
//! A statement names whole tiles, or the parts of one thread. Of whole tiles nobody says who does what: the threads of the
//! block share each statement so that accesses of memory are wide and lie side by side, statements take effect in the
//! order in which they stand, and waits and barriers are placed where one thread reads what another has written.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// y = x / √(mean of squares) · w, row by row
//! #[kernel]
//! fn rms_norm<const N: usize = 1024>(
//!     x: &Tensor<f32, (M, N), (ldx, _1)>,
//!     w: &Tensor<f32, N>,
//!     y: &mut Tensor<f32, (M, N), (ldy, _1)>,
//! ) {
//!     let x = map(tile(x, (4, N), (block.x, 0)), |x| x); // 4 rows in registers, shared by 256 threads
//!     let squares = sum(map(x, |x| x * x), 1); // (4, 1): for each row one number, known to all threads of the row
//!     let scale = map(squares, |s| rsqrt(s / 1024.0));
//!     let w = tile(w, N, 0).along(1); // (1, N): the same for every row
//!     copy(map((x, scale, w), |x, s, w| x * s * w), tile(y, (4, N), (block.x, 0)));
//! }
//!
//! let (x, w) = (vec![2.0f32; 5 * 1024], vec![3.0f32; 1024]);
//! let y = Arg::output::<f32>([5, 1024]).strides([1024, 1]);
//! let done = rms_norm().simulate(&[Arg::tensor(&x, [5, 1024]).strides([1024, 1]), Arg::tensor(&w, [1024]), y])?;
//! assert!(done.get::<f32>("y")?.iter().all(|y| (y - 3.0).abs() < 1e-5));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! - Tiles in registers come from [`map`], [`full`], [`registers_like`] of a tile, and sums of rows and columns; each
//!   thread has a part, which follows from what a tile is computed from.
//! - Where a tile has extent 1 in a mode, its element stands for all along it; `v.along(1)` is a vector as the columns of a
//!   matrix see it.
//! - `shared::<f32>((BM, BK))`, a shape alone, gets the layout that is free of bank conflicts for all its uses;
//!   `shared::<f32>(layout!((BM, BK)))` has the one that is written.
//!   A kernel with such tiles needs the oldest architecture from `sm_80` whose blocks hold them.
//! - [`gemm`] of tiles in shared memory sums into a [`full`] tile on CUDA cores, and into the accumulators of a
//!   [`tiled_mma`] on tensor cores.
//! - A block has as many threads as [`threads`] or a [`tiled_mma`] says, or else 256.
//! - [`parallelize`] makes the part of a thread. Both kinds may stand in one kernel, not in one statement; around
//!   statements over parts the author writes [`sync_threads`] and [`cp_async_wait_all`].

use std::convert::Infallible;
use std::marker::PhantomData;

/// An argument of a kernel: elements of one type, at coordinates of a shape.
///
/// `&Tensor<f32, (M, K)>` is read and `&mut Tensor<f32, (M, N)>` is written. `M` and `K` are found out at launch;
/// integers and the kernel's constants are fixed. Rust has no place for a bare integer in a tuple of types: write
/// `Tensor<f32, (N, _4)>`, or all of it in braces, `Tensor<f32, {(N, 4)}>`. Extents can be computed there,
/// `Tensor<i32, {N + 1}>` or `Tensor<f32, {(2 * M, ceil_div(N, 32))}>`: a launch checks that they are so. Without strides a tensor is column-major, with
/// leading dimensions of its own.
#[derive(Debug)]
pub struct Tensor<T, Shape, Stride = ()> {
    _nothing: Infallible,
    _types: PhantomData<(T, Shape, Stride)>,
}

/// A tensor, or a part of one: where it lies, and how.
#[derive(Clone, Copy, Debug)]
pub struct View(Infallible);

/// A tuple of numbers, of `_`, or of tuples: a shape, a coordinate, a projection.
#[derive(Clone, Copy, Debug)]
pub struct Nested(Infallible);

/// A layout: a shape with strides.
#[derive(Clone, Copy, Debug)]
pub struct Arrangement(Infallible);

/// A number that a thread computes with.
#[derive(Clone, Copy, Debug)]
pub struct Number(Infallible);

macro_rules! language {
    ($($(#[$doc:meta])* fn $name:ident $(<$elem:ident>)? ($($arg:ident : $ty:ty),*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$doc])*
            pub fn $name $(<$elem>)? ($($arg: $ty),*) $(-> $result)? {
                $(let _ = $arg;)*
                panic!(concat!("`", stringify!($name), "` is called outside of a kernel"))
            }
        )*
    };
}

language! {
    /// One tile of a tensor: `tile(a, (BM, BK), (block.x, _))`. `_` keeps a mode of tiles, to loop over. `halo = (1, 0)`
    /// gives the tile so many elements more before and after along each mode, `halo = ((1, 2), 0)` on each side others.
    fn tile(tensor: View, tiler: Nested, at: Nested) -> View;
    /// What one thread has of a tile: `parallelize(t, layout!((32, 8)), thread.x)`. A fourth argument projects:
    /// with `(1, _)` the threads share rows only.
    fn parallelize(tile: View, threads: Arrangement, thread: Number) -> View;
    /// A tile in shared memory: `shared::<f32>(layout!((BM, BK) : (1, BM + 1)))`. With a shape alone,
    /// `shared::<f32>((BM, BK))`, its layout is found from the statements on whole tiles that use it: free of bank conflicts.
    fn shared<T>(layout: Arrangement) -> View;
    /// A tile in registers, filled with a number: `registers::<f32>((8, 8), 0.0)`.
    fn registers<T>(shape: Nested, value: Number) -> View;
    /// A tile in registers of the shape and type of another: `registers_like(c, 0.0)`.
    fn registers_like(tile: View, value: Number) -> View;
    /// The elements so many places further along each mode: `shift(tile, (-1, 0))`. Numbers may be any integers.
    fn shift(tile: View, by: Nested) -> View;
    /// The same elements with their modes in another order: `permute(a, (1, 0))` is the transpose.
    fn permute(tensor: View, order: Nested) -> View;
    /// The same elements in the same order, leftmost mode fastest, under another shape: `regroup(tile, (8, 16))`.
    fn regroup(tile: View, shape: Nested) -> View;
    /// The same elements along the modes of a larger shape that are `_`, everywhere along the others:
    /// `broadcast(bias, (BM, _))` is a matrix of BM equal rows.
    fn broadcast(tensor: View, shape: Nested) -> View;
    /// States what a launch must satisfy: `assert(N % 4 == 0)`, a condition on sizes. Others are refused, with their numbers;
    /// and what divides a size makes accesses wider in every variant.
    fn assert(condition: Number);
    /// The coordinates of a block's tile, and how many blocks there are: `let (i, j) = walk((ga.size(2), gb.size(2)), block.x)`
    /// goes column by column. With `bands = 8` it goes through eight rows of tiles at a time, so that blocks at work together
    /// share operands. `walk(layout!((4, 8) : (8, 1)), block.x)` goes in the order of a layout.
    fn walk(tiles: Nested, block: Number) -> Nested;
    /// A whole tile in registers that the threads of the block share, filled with a number:
    /// `full::<f32>((BM, 1), f32::NEG_INFINITY)`. See [Whole tiles](self#whole-tiles).
    fn full<T>(shape: Nested, value: Number) -> View;
    /// How many threads the block has, where no thread layout says: `threads(512)`. 256 where this is left out.
    fn threads(count: Number);
    /// A matrix instruction, and the warps that share it: the best for these types with
    /// `tiled_mma::<bf16, f32>(warps = 8)`, a row of the table by name with
    /// `tiled_mma("mma_m16n8k16_bf16", layout!((2, 4)))`. `mma.accumulators((BM, BN), 0.0)` is a whole tile of sums, for
    /// [`gemm`] and functions; `mma.partition_a(sa, thread.x)`, `partition_b` and `partition_c` are the parts of a thread.
    fn tiled_mma<T>(name: Nested, warps: Arrangement) -> View;
    /// Copies every element, converted to the type of the target as `as` does. From global to shared memory it is in flight until a wait. Elements whose source lies
    /// outside of its tensor are 0, or what `fill = …` says, or with `clamp = true` the nearest element inside. In a pipelined loop, `how = "staged"` goes through registers,
    /// which suits tiles that are turned on the way.
    ///
    /// `how = "atomic_add"` adds to what stands there, at once: threads and blocks may add to the same elements. So do
    /// `"atomic_min"`, `"atomic_max"`, `"atomic_and"`, `"atomic_or"`, `"atomic_xor"` and `"atomic_exchange"`, of types that hardware
    /// has them for. Elements outside of the tensor are skipped. Sums of floating-point numbers are rounded in the order in
    /// which threads come, so they differ from run to run: `#[kernel(deny(deterministic))]` refuses them.
    fn copy(from: View, to: View);
    /// Sets every element.
    fn fill(tile: View, value: Number);
    /// Adds the product A·Bᵀ of two tiles to a tile in registers: `gemm(a, b, &mut acc)`. How it runs through the sums is
    /// `order = "plain"`, or `"serpentine"`, `"rows"`, `"row_serpentine"`. Operands are (rows, k) and (columns, k). The
    /// k-steps of a thread must be the same in both, and its sums must be copied to their own rows and columns: extents
    /// with the same symbol, such as `M` of A and `M` of C, belong together, and what does not fit is an error.
    fn gemm(a: View, b: View, acc: View);
    /// Applies a closure to the elements of one tile, or of several: `map((x, y), |x, y| x + y)`. The result has the type
    /// of the closure's value. `map(x, y, |x| 2.0 * x)` writes to `y`, whose type the value must have.
    fn map(tiles: View, with: fn(Number) -> Number) -> View;
    /// Sums along a mode of a fragment; `acc = bf16` says in which type, see [Types of numbers](self#types-of-numbers).
    fn sum(fragment: View, mode: Number) -> View;
    /// The largest along a mode of a fragment.
    fn maximum(fragment: View, mode: Number) -> View;
    /// The smallest along a mode of a fragment.
    fn minimum(fragment: View, mode: Number) -> View;
    /// Sums each element over the threads of a warp; `acc = …` as in [`sum`].
    fn warp_sum(fragment: View) -> View;
    /// The largest of each element over the threads of a warp.
    fn warp_maximum(fragment: View) -> View;
    /// The smallest of each element over the threads of a warp.
    fn warp_minimum(fragment: View) -> View;
    /// Sums each element over the threads of the block; every thread gets the sum. `acc = …` as in [`sum`].
    fn block_sum(fragment: View) -> View;
    /// The largest of each element over the threads of the block; every thread gets it.
    fn block_maximum(fragment: View) -> View;
    /// The smallest of each element over the threads of the block; every thread gets it.
    fn block_minimum(fragment: View) -> View;
    /// Waits until all threads of the block are here.
    fn sync_threads();
    /// Waits until every copy in flight has arrived.
    fn cp_async_wait_all();
    /// Waits until at most this many groups of copies are in flight.
    fn cp_async_wait(groups: Number);
    /// Ends a group of copies.
    fn cp_async_commit();
    /// Refuses launches where a size is larger: `at_most(N, W)`, in a kernel whose tiles of W elements must hold whole rows.
    fn at_most(size: Number, limit: Number);
    /// So many blocks should fit on a multiprocessor: threads get no more registers than that allows. 0 leaves it to the
    /// compiler.
    fn blocks_per_sm(blocks: Number);
    /// A column-major layout with unused elements between columns: `padded((BM, BK), 1)`.
    fn padded(shape: Nested, pad: Number) -> Arrangement;
    /// A row-major layout.
    fn row_major(shape: Nested) -> Arrangement;
    /// A layout whose offsets are swizzled: `swizzled(3, 2, 3, layout!((32, 8)))`.
    fn swizzled(bits: Number, base: Number, shift: Number, layout: Arrangement) -> Arrangement;
    /// One layout after another.
    fn composition(layout: Arrangement, tiler: Nested) -> Arrangement;
    /// A layout in tiles.
    fn logical_divide(layout: Arrangement, tiler: Nested) -> Arrangement;
    /// A layout in tiles, tiles and rest apart.
    fn zipped_divide(layout: Arrangement, tiler: Nested) -> Arrangement;
    /// Copies of a block, side by side.
    fn blocked_product(block: Arrangement, copies: Arrangement) -> Arrangement;
    /// Copies of a block, interleaved.
    fn raked_product(block: Arrangement, copies: Arrangement) -> Arrangement;
    /// The same function with as few modes as possible.
    fn coalesce(layout: Arrangement) -> Arrangement;
    /// A quotient, rounded up.
    fn ceil_div(a: Number, b: Number) -> Number;
    /// The smaller.
    fn min(a: Number, b: Number) -> Number;
    /// The larger.
    fn max(a: Number, b: Number) -> Number;
    /// e to this power. Functions of numbers stand in closures; how accurate they are, see
    /// [Accuracy](self#accuracy).
    fn exp(x: Number) -> Number;
    /// 2 to this power.
    fn exp2(x: Number) -> Number;
    /// The natural logarithm.
    fn log(x: Number) -> Number;
    /// The logarithm to the base 2.
    fn log2(x: Number) -> Number;
    /// The square root.
    fn sqrt(x: Number) -> Number;
    /// One over the square root.
    fn rsqrt(x: Number) -> Number;
    /// x to the power of y.
    fn pow(x: Number, y: Number) -> Number;
    /// The hyperbolic tangent.
    fn tanh(x: Number) -> Number;
    /// The sine.
    fn sin(x: Number) -> Number;
    /// The cosine.
    fn cos(x: Number) -> Number;
    /// The error function, 2/√π ∫₀ˣ exp(-t²) dt.
    fn erf(x: Number) -> Number;
    /// 1 / (1 + exp(-x)).
    fn sigmoid(x: Number) -> Number;
    /// x / (1 + exp(-x)); what is no number for -∞.
    fn silu(x: Number) -> Number;
    /// x/2 (1 + erf(x/√2)); what is no number for -∞.
    fn gelu(x: Number) -> Number;
    /// The approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))); what is no number for -∞.
    fn gelu_tanh(x: Number) -> Number;
    /// The magnitude.
    fn abs(x: Number) -> Number;
    /// The size of the first with the sign of the second.
    fn copysign(size: Number, sign: Number) -> Number;
    /// The greatest integer that is not greater.
    fn floor(x: Number) -> Number;
    /// The least integer that is not less.
    fn ceil(x: Number) -> Number;
    /// The integer towards 0.
    fn trunc(x: Number) -> Number;
    /// The nearest integer, halves away from 0.
    fn round(x: Number) -> Number;
    /// The nearest integer, halves to the even one.
    fn round_ties_even(x: Number) -> Number;
    /// What is left of x after whole multiples of y, with the sign of x: `x % y`, exactly.
    fn fmod(x: Number, y: Number) -> Number;
    /// How many bits of an integer are set.
    fn count_ones(n: Number) -> Number;
    /// How many bits of an integer stand before the first that is set; all of them for 0.
    fn leading_zeros(n: Number) -> Number;
    /// The bits of a number of 4 bytes, as another type of 4 bytes: `bits::<u32>(x)`, `bits::<f32>(n)`.
    fn bits<T>(x: Number) -> Number;
    /// a·b + c, rounded once.
    fn fma(a: Number, b: Number, c: Number) -> Number;
    /// One of two numbers: `select(x > 0.0, x, 0.0)`.
    fn select(condition: Number, then: Number, other: Number) -> Number;
    /// A loop whose body is repeated while compiling: `for i in unroll(0..4) { … }`.
    fn unroll(range: Number) -> Number;
    /// A loop whose copies from global to shared memory run `stages - 1` turns ahead, without waits or barriers in its
    /// body: `for k in pipelined(0..ga.size(2), stages = 3) { … }`. With `fragments = 2`, where a turn is one product,
    /// its operands come from shared memory to registers a column ahead, across turns too; `exits = false` then goes
    /// through all columns of a tile without asking, between them, whether the depth goes on, which else keeps their
    /// work apart.
    fn pipelined(range: Number, stages: Number) -> Number;
}
