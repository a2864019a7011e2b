//! The functions that a kernel can call, and the rules of the language, in the order in which one learns them.
//!
//! These items carry the documentation of their names, in an editor as well. Inside `#[kernel]` the generator
//! evaluates them; elsewhere they cannot be called, because nothing outside of a kernel has their arguments.
//! Who knows CUDA, Triton or CuTe may begin with [`coming_from`](crate::coming_from).
//!
//! # A kernel
//!
//! A kernel takes tensors and numbers, and returns nothing. `&Tensor` is read, `&mut Tensor` is written.
//! Names in extents, such as `N`, are sizes known at launch. What the body computes with layouts, tuples and
//! constants happens while your program is compiled; what it does with tiles becomes CUDA C.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// y = alpha x + y
//! #[kernel]
//! fn axpy(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//!     let (x, y) = (tile(x, 1024, block.x), tile(y, 1024, block.x)); // one tile for each block
//!     copy(map((x, y), |x, y| alpha * x + y), y);
//! }
//!
//! let (x, y) = (vec![1.0f32; 1500], vec![0.5f32; 1500]); // 1024 does not divide 1500
//! let done = axpy().simulate(&[Arg::number(2.0f32), Arg::tensor(&x, [1500]), Arg::in_out(&y, [1500])])?;
//! assert_eq!(done.get::<f32>("y")?, vec![2.5; 1500]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! Inside a kernel there are the functions below, `block.x`, `block.y`, `block.z` and `thread.x`, tuples,
//! arithmetic on integers and on tiles, `layout!(shape : stride)`, `let`, `for`, `if`, and closures of elements.
//!
//! # Tiles and the grid
//!
//! [`tile`] divides a tensor, and takes the tile that a coordinate names. `_` keeps a mode of tiles, to loop
//! over: `tile(a, (BM, BK), (block.x, _))` has the shape (BM, BK, k). Tiles need not divide the tensor, and
//! nobody writes `if i < N`: out-of-bounds elements are read as 0, or as `fill = …` says, and not written.
//!
//! **The grid follows from the tiles**: where `block.x` alone is a coordinate, the grid has as many blocks along
//! x as there are tiles, here ceil(M/64). All tiles that `block.x` numbers must have the same count, as by `assert(M ==
//! N)`, or `assert(H == 4 * J)` for tiles of 4 of H heads and one of J; a tensor
//! that is only read may be longer, by its extent, `Tensor<f32, {N + 64}>`, or by an assertion, `assert(M >=
//! N)`. An expression, such as `block.x / 2` or `block.x + 1`, numbers nothing and may be out of bounds. Where
//! one axis has to number two things, [`walk`] splits it.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// What each element grows by, a tile later.
//! #[kernel]
//! fn growth(x: &Tensor<f32, {N + 64}>, y: &mut Tensor<f32, N>) {
//!     let (now, later) = (tile(x, 64, block.x), tile(x, 64, block.x + 1));
//!     map((now, later), tile(y, 64, block.x), |now, later| later - now);
//! }
//!
//! let x: Vec<f32> = (0..164).map(|n| n as f32).collect();
//! let done = growth().simulate(&[Arg::tensor(&x, [164]), Arg::output::<f32>([100])])?;
//! assert!(done.get::<f32>("y")? == [64.0; 100] && done.grid() == [2, 1, 1]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Each image of a batch, upside down.
//! #[kernel]
//! fn upside_down(x: &Tensor<f32, (W, H, B)>, y: &mut Tensor<f32, (W, H, B)>) {
//!     let (row, image) = walk((y.size(1), y.size(2)), block.y); // blocks along y: H times B
//!     let from = tile(x, (256, 1, 1), (block.x, y.size(1) - 1 - row, image));
//!     copy(from, tile(y, (256, 1, 1), (block.x, row, image)));
//! }
//!
//! let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
//! let done = upside_down().simulate(&[Arg::tensor(&x, [2, 2, 2]), Arg::output::<f32>([2, 2, 2])])?;
//! assert_eq!(done.get::<f32>("y")?, [3.0, 4.0, 1.0, 2.0, 7.0, 8.0, 5.0, 6.0]);
//! assert_eq!(done.grid(), [1, 4, 1]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Whole tiles
//!
//! A statement names whole tiles, or the parts of one thread. For whole tiles the generator distributes the
//! work: each statement is partitioned over the threads of the block so that accesses are wide and coalesced,
//! statements take effect in program order, and waits and barriers are inserted where one thread reads what
//! another has written.
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
//!     let x = map(tile(x, (4, N), (block.x, 0)), |x| x); // 4 rows in registers, distributed over 256 threads
//!     let squares = sum(map(x, |x| x * x), 1); // (4, 1): one number for each row, in all threads of the row
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
//! - Tiles in registers come from [`map`], [`full`], [`iota`], [`registers_like`] of a tile, and sums of rows and
//!   columns. Their distribution over threads follows from the operands that they are computed from.
//! - A mode of extent 1 is broadcast; `v.along(1)` views a vector as a row of a matrix.
//! - `shared::<f32>((BM, BK))`, with a shape alone, gets a layout for all its uses, free of bank conflicts
//!   where there is one; `shared::<f32>(layout!((BM, BK)))` has the given one. A kernel with such tiles requires the oldest
//!   architecture, `sm_80` or newer, whose blocks have enough shared memory.
//! - A tile in registers is staged in shared memory on its way to global memory, if its threads hold scattered
//!   pieces of what is contiguous there, as those of a 16-bit product do, and if a block then needs no more
//!   shared memory than before: its place is that of shared tiles which are no longer used. Where there is room for less
//!   than the tile, it leaves in up to eight parts.
//! - [`gemm`] of tiles in shared memory accumulates into a [`full`] tile on CUDA cores, and into the
//!   accumulators of a [`tiled_mma`] on tensor cores.
//! - The number of threads is that of `#[kernel(threads = 128)]`, of [`threads`] or of a [`tiled_mma`],
//!   otherwise 256.
//! - [`parallelize`] makes the part of a thread. Both kinds may be in one kernel, not in one statement;
//!   around statements over parts the author writes [`sync_threads`] and [`cp_async_wait_all`].
//!
//! # Arithmetic on tiles
//!
//! Operators and functions of numbers take tiles, and apply to their elements: `x * scale + bias`, `-x`, `exp(x - most)`,
//! `max(x, 0.0)`, `x as f32`. Modes of extent 1 are [broadcast](self#broadcasting), and a tile of one element, such as
//! `bias[(block.y)]`, is a number. All operators of an expression are computed at once, as by [`map`] with the expression
//! as its closure: `acc += x * w` is one multiply-add for each element.
//!
//! A comparison is a condition for each element: `if x > y { … } else { … }` and [`select`] choose between values,
//! `(x > 0.0) as f32` is 1 or 0, `let inside = (x > 0.0) & (x < 1.0)` names a mask. The statement `if` decides for all
//! elements alike, and takes no such condition. Closures and `#[device]` functions can be called with tiles. Where the
//! coordinates of elements matter, write [`map`].
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Rows of mean 0 and variance 1; outliers are cut off. One step of gradient descent with momentum, in place.
//! #[kernel]
//! fn clipped_norm<const N: usize = 1024>(cut: f32, x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
//!     let x = tile(x, (4, N), (block.x, 0));
//!     let d = x - sum(x, 1) / N as f32; // (4, N) minus (4, 1)
//!     let y0 = d * rsqrt(sum(d * d, 1) / N as f32 + 1e-5);
//!     copy(if abs(y0) > cut { copysign(cut, y0) } else { y0 }, tile(y, (4, N), (block.x, 0)));
//! }
//!
//! #[kernel]
//! fn momentum(lr: f32, g: &Tensor<f32, N>, v: &mut Tensor<f32, N>, p: &mut Tensor<f32, N>) {
//!     let (g, v, p) = (tile(g, 1024, block.x), tile(v, 1024, block.x), tile(p, 1024, block.x));
//!     v = 0.9 * v + g;
//!     p -= lr * v;
//! }
//!
//! let (x, y) = (vec![2.0f32; 1024], Arg::output::<f32>([1, 1024]).strides([1024, 1]));
//! let done = clipped_norm().simulate(&[Arg::number(3.0f32), Arg::tensor(&x, [1, 1024]).strides([1024, 1]), y])?;
//! assert!(done.get::<f32>("y")?.iter().all(|y| y.abs() < 1e-3));
//! let args = [Arg::tensor(&[1.0f32; 3], [3]), Arg::in_out(&[2.0f32; 3], [3]), Arg::in_out(&[0.0f32; 3], [3])];
//! let done = momentum().simulate(&[vec![Arg::number(0.5f32)], args.to_vec()].concat())?;
//! assert!(done.get::<f32>("p")?.iter().all(|p| (p + 1.4).abs() < 1e-6));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Parts of threads
//!
//! Where the distribution matters, [`parallelize`] makes the part of a thread under a thread layout.
//! `layout!((4, 32) : (32, 1))` is 4 rows of 32 threads, neighbours along the row; without strides, neighbours
//! are along the first mode. The block has as many threads as its thread layouts, which must agree.
//!
//! - `values = (1, 4)` gives each thread 4 neighbouring elements along the second mode, for accesses of 16
//!   bytes: the part has the shape ((1, 4), rest).
//! - `ragged = true` allows threads that do not divide the tile: those beyond it have no element.
//! - A projection, as fourth argument, takes fewer modes: `parallelize(sa, tc, thread.x, (1, _))` partitions
//!   rows over the first mode of `tc`; threads along the second have the same part.
//!
//! Between statements over parts the author writes [`sync_threads`] where one thread reads what another wrote
//! to shared memory, and [`cp_async_wait_all`] before that where a copy from global to shared memory filled it.
//! What is missing is an error, or found by the simulator.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Softmax of rows of up to 256 elements, a row for each warp, in registers.
//! #[kernel]
//! fn softmax_by_warps(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
//!     at_most(N, 256);
//!     let t = layout!((4, 32) : (32, 1));
//!     let x = parallelize(tile(x, (4, 256), (block.x, 0)), t, thread.x, values = (1, 4));
//!     let y = parallelize(tile(y, (4, 256), (block.x, 0)), t, thread.x, values = (1, 4));
//!     let row = map(x, |x| x);
//!     let most = warp_maximum(maximum(row, 1)); // in each thread, then across the warp
//!     let grown = map((row, most), |x, m| exp(x - m));
//!     let total = warp_sum(sum(grown, 1));
//!     map((grown, total), y, |e, t| e / t);
//! }
//!
//! let y = Arg::output::<f32>([2, 5]).strides([5, 1]);
//! let done = softmax_by_warps().simulate(&[Arg::tensor(&[1.0f32; 10], [2, 5]).strides([5, 1]), y])?;
//! assert!(done.get::<f32>("y")?.iter().all(|y| (y - 0.2).abs() < 1e-6));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Indexing, sizes, assignments
//!
//! `t[(_, 0, k)]` has an entry for each mode: `_` keeps it, an integer takes one place along it and drops the
//! mode. `t.size(1)` is the extent of a mode: a constant, or a size known at launch; `t.shape()` has all of them,
//! and `t.rank()` is their number. Registers have no addresses, so their indices are constants or variables of
//! [`unroll`].
//!
//! `t = u`, `t += u` and the other operators change every element of a tile in registers or memory; `u` is a
//! tile of the same shape, arithmetic on such, a tile of one element, or a number, of the same type. [`fill`] sets, [`copy`] copies and converts, and
//! `map(x, y, |x| …)` writes a function of `x` to `y`.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// The sum of the rows of each matrix, one by one.
//! #[kernel]
//! fn sum_of_rows(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, N>) {
//!     let rows = tile(x, (1, 128), (_, block.x)); // (1, 128, M)
//!     let mut total = full::<f32>((128), 0.0);
//!     for i in 0..rows.size(2) {
//!         total += rows[(0, _, i)];
//!     }
//!     total *= 2.0;
//!     copy(total, tile(y, 128, block.x));
//! }
//!
//! let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]; // column-major, 3 rows
//! let done = sum_of_rows().simulate(&[Arg::tensor(&x, [3, 2]), Arg::output::<f32>([2])])?;
//! assert_eq!(done.get::<f32>("y")?, [12.0, 30.0]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Broadcasting
//!
//! In [`map`] and in [arithmetic](self#arithmetic-on-tiles), modes of extent 1 are as wide as those of the other tiles. `v.along(0)` views a vector as a
//! column, (n, 1), `v.along(1)` as a row, (1, n); sums along a mode leave it with extent 1. One element is a
//! number, which a closure uses by its name or index, as `scale` and `bias[(block.y)]` here. [`broadcast`] repeats a tile
//! along further modes.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// All differences of two vectors, scaled by the largest of `x`, plus a bias for each block of columns.
//! #[kernel]
//! fn differences(x: &Tensor<f32, M>, y: &Tensor<f32, N>, bias: &Tensor<f32, {ceil_div(N, 32)}>, d: &mut Tensor<f32, (M, N)>) {
//!     at_most(M, 128);
//!     let x = map(tile(x, 128, 0), |x| x);
//!     let scale = maximum(x); // one number
//!     let y = tile(y, 32, block.y);
//!     copy(map((x.along(0), y.along(1)), |x, y| (x - y) / scale + bias[(block.y)]), tile(d, (128, 32), (0, block.y)));
//! }
//!
//! let args = [Arg::tensor(&[1.0f32, 2.0], [2]), Arg::tensor(&[4.0f32, 0.0], [2]), Arg::tensor(&[1.0f32], [1])];
//! let done = differences().simulate(&[args.to_vec(), vec![Arg::output::<f32>([2, 2])]].concat())?;
//! assert_eq!(done.get::<f32>("d")?, [-0.5, 0.0, 1.5, 2.0]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Closures
//!
//! A closure is a function of elements, for [`map`]. Its body is one expression: arithmetic, comparisons, the
//! functions below, `if … { … } else { … }`, and blocks in which `let` names a subexpression. A named closure
//! can be passed on or called, with elements and, outside of other closures, with tiles. It sees the names in
//! scope where it is defined, and shadows a function of the language that has its name. There are no calls at
//! run time: the body is inlined. A closure that returns a tuple makes several tiles, and `(a, b) = …`,
//! or `state = …` where `state` names a tuple of tiles, assigns several, after all values are computed.
//!
//! A size known at launch is a number in closures, an `i32`: `x / N as f32`, `x / t.size(1) as f32`; so are
//! one element of a tensor, `w[(0, block.y)]`, and a tile of one element.
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
//! # Functions that kernels share
//!
//! `#[device]` makes a function of numbers that any kernel can call, in closures and outside of them. Its body
//! is that of a closure; its parameters and its value have types. A kernel, or another such function, names
//! what it uses by `use` in its first lines: paths are Rust's, to this module, another one, or another crate.
//! There is no call at run time: the body is inlined. Mistakes in it are errors where it is defined.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! mod activations {
//!     use tilewright::prelude::*;
//!
//!     #[device]
//!     pub fn softplus(x: f32) -> f32 {
//!         max(x, 0.0) + log(1.0 + exp(-abs(x)))
//!     }
//!
//!     #[device]
//!     pub fn mish(x: f32) -> f32 {
//!         use self::softplus;
//!         x * tanh(softplus(x))
//!     }
//! }
//!
//! #[kernel]
//! fn activated(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//!     use crate::activations::mish;
//!     map(tile(x, 1024, block.x), tile(y, 1024, block.x), |x| mish(x));
//! }
//!
//! # fn main() -> Result<(), tilewright::sim::Error> {
//! let done = activated().simulate(&[Arg::tensor(&[0.0f32, 1.0], [2]), Arg::output::<f32>([2])])?;
//! let y = done.get::<f32>("y")?;
//! assert!(y[0] == 0.0 && (y[1] - 0.86509836).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```
//!
//! # Coordinates of elements
//!
//! A closure may have one more parameter than [`map`] has tiles: the element's coordinates in the user's
//! tensor, `at.0` along the tile's first mode, `at.1` along its second, each an `i32`, of the first tile whose
//! coordinates are known (that of `shift(x, 1)` is the place that is read); a mode that an index has dropped
//! is not counted. Use it for masks and
//! fills. Coordinates are tracked through copies, functions, shared memory that all threads write together,
//! and products, whose rows are those of the first operand and whose columns are the rows of the second.
//! Where they are not known, pass a tile of the intended tensor as well: `map((x, tile_of_y), |x, _, at| …)`
//! takes the coordinates from it, and does not read its elements. Elements of a tile that was only filled, by [`full`] or
//! [`fill`], have their coordinates in that tile, and [`iota`] is a tile of such: `iota(256)`, or along a mode,
//! `iota((64, 32), 1)`.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// What lies above the diagonal is -∞, as before a causal softmax.
//! #[kernel]
//! fn causal(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
//!     let t = layout!((32, 4));
//!     let from = parallelize(tile(x, (32, 8), (block.x, block.y)), t, thread.x);
//!     let to = parallelize(tile(y, (32, 8), (block.x, block.y)), t, thread.x);
//!     map(from, to, |x, at| if at.1 > at.0 { f32::NEG_INFINITY } else { x });
//! }
//! assert!(causal().source().contains("-INFINITY") || causal().source().contains("0xff800000"));
//! ```
//!
//! # Reductions
//!
//! A reduction combines elements at three levels: [`sum`], [`maximum`], [`minimum`] and [`reduce`] combine
//! the elements of one thread, along one mode, several, or all; the prefix `warp_` combines each element over
//! the lanes of a warp, or over `lanes = 8` neighbouring lanes; `block_` over all threads of the block.
//! Of whole tiles the threads are found: `sum(t, 1)`, and `reduce(t, identity, closure, mode = 1)`, combine
//! along a mode whatever threads have the elements. [`reduce`] takes an associative and commutative closure with its identity, and several tiles at once: an
//! argmax, or mean and variance together.
//!
//! Out-of-bounds elements are left out. The generator finds them: it tracks edges as it does coordinates. A
//! sum over a loop (`acc += x`, `acc = map((acc, x), |a, x| max(a, x))`) stays correct where the
//! out-of-bounds value is the identity, as 0 is for a sum. Where edges are not known, an error says so; then
//! set those elements yourself, and declare their value with `beyond = 0.0`, of [`reduce`] with tuples
//! `beyond = (0.0, 0)`: all elements are combined as they are.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// The largest of each column, and its row; the first of equal ones.
//! #[kernel]
//! fn argmax(x: &Tensor<f32, (M, N)>, most: &mut Tensor<f32, N>, place: &mut Tensor<i32, N>) {
//!     let rows = parallelize(tile(x, (1024, 1), (0, block.x)), layout!((128, 1)), thread.x);
//!     let one = parallelize(tile(most, 1, block.x), layout!(128), thread.x, ragged = true);
//!     let two = parallelize(tile(place, 1, block.x), layout!(128), thread.x, ragged = true);
//!     let first = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
//!     let nothing = (f32::NEG_INFINITY, i32::MAX);
//!     let own = map(rows, |x, at| (x, at.0));
//!     let best = block_reduce(reduce(own, nothing, first), nothing, first);
//!     copy(best.0[(0, _)], one);
//!     copy(best.1[(0, _)], two);
//! }
//! assert!(argmax().source().contains("__shfl_xor_sync"));
//! ```
//!
//! # Scans
//!
//! [`scan`] combines each element with all elements before it, by an associative closure, which need not be
//! commutative. It runs along `mode = 1`, along several modes, the fastest first, `mode = (1, 0)`, or along
//! all. A whole tile is scanned in the order of its coordinates, however it is distributed over threads;
//! a fragment is scanned within its thread, and [`warp_scan`] and [`block_scan`] combine each of its elements
//! with those of the threads before. Several tiles together are scanned as tuples, as in [`reduce`].
//!
//! With `exclusive = true` a result leaves out its own element. `carry = &mut total` continues a scan: the
//! carry comes before the first element, and becomes the combination of everything. It has extent 1 along
//! scanned modes. With `cluster = true` the tiles of a [cluster](self#clusters)'s blocks follow one another. Elements out of bounds are left out, as in [reductions](self#reductions).
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Cumulative sums along rows of any length.
//! #[kernel]
//! fn running_sum(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
//!     let (from, to) = (tile(x, (1, 1024), (block.x, _)), tile(y, (1, 1024), (block.x, _)));
//!     let mut total = full::<f32>((1, 1), 0.0);
//!     for k in 0..from.size(2) {
//!         copy(scan(from[(_, _, k)], 0.0, |a, b| a + b, mode = 1, carry = &mut total), to[(_, _, k)]);
//!     }
//! }
//! let x: Vec<f32> = (0..3000).map(|n| (n % 3) as f32).collect();
//! let (x, y) = (Arg::tensor(&x, [2, 1500]), Arg::output::<f32>([2, 1500]));
//! let done = running_sum().simulate(&[x.strides([1500, 1]), y.strides([1500, 1])])?;
//! assert_eq!(done.get::<f32>("y")?[..5], [0.0, 1.0, 3.0, 3.0, 4.0]);
//!
//! /// y(n) = a(n) · y(n - 1) + x(n): linear functions are composed.
//! #[kernel]
//! fn recurrence(a: &Tensor<f32, N>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//!     at_most(N, 512);
//!     let t = layout!(128);
//!     let a = parallelize(tile(a, 512, 0), t, thread.x, values = 4);
//!     let x = parallelize(tile(x, 512, 0), t, thread.x, values = 4);
//!     let y = parallelize(tile(y, 512, 0), t, thread.x, values = 4);
//!     let compose = |(a, x), (b, y)| (a * b, b * x + y);
//!     let given = map((a, x), |a, x| (a, x));
//!     let (slope, start) = (registers::<f32>(1, 1.0), registers::<f32>(1, 0.0));
//!     let own = scan(given, (1.0, 0.0), compose, carry = (slope, start));
//!     let before = block_scan((slope, start), (1.0, 0.0), compose, exclusive = true);
//!     copy(map((own.0, own.1, before.1), |b, y, x| b * x + y), y);
//! }
//! assert!(recurrence().source().contains("__shfl_xor_sync"));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Clusters
//!
//! What one block cannot hold may be shared by the blocks of a cluster, which run at the same time and read one
//! another's shared memory: `cluster(4)` makes clusters of four blocks, neighbours along x. [`cluster_sum`] and its
//! like combine over all their threads, [`cluster_scan`] runs over them, and a scan of whole tiles with `cluster =
//! true` continues from the tile of one block to that of the next. Without [`cluster`] a block is a cluster of
//! its own. Results do not differ from run to run.
//!
//! An exchange costs a barrier of all blocks. What is needed together is combined together, as tuples:
//! [`cluster_reduce`] of maxima and sums of exponentials, or of counts, means and squares, is one exchange instead of two.
//! What all threads of a block have, such as the result of [`block_sum`], is combined over the blocks alone with
//! `per_block = true`: each block contributes once. That is cheaper where the closure is long, as lanes and warps have been
//! combined by short ones.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Rows divided by the sum of their magnitudes: C blocks for each row.
//! #[kernel]
//! fn normalized<const C: usize = 4>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
//!     at_most(N, 1024 * C);
//!     cluster(C);
//!     let (part, row) = walk((C, M), block.x);
//!     let t = layout!((1, 128));
//!     let x = parallelize(tile(x, (1, 1024), (row, part)), t, thread.x, values = (1, 4));
//!     let y = parallelize(tile(y, (1, 1024), (row, part)), t, thread.x, values = (1, 4));
//!     let own = map(x, |x| x);
//!     let total = cluster_sum(sum(map(own, |x| abs(x))));
//!     map((own, total), y, |x, total| x / total);
//! }
//!
//! /// Softmax of rows, with one exchange: the block's maximum and sum, then those of the cluster.
//! #[kernel]
//! fn softmax<const C: usize = 4>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
//!     at_most(N, 1024 * C);
//!     cluster(C);
//!     let (part, row) = walk((C, M), block.x);
//!     let t = layout!((1, 128));
//!     let x = parallelize(tile(x, (1, 1024), (row, part)), t, thread.x, values = (1, 4));
//!     let y = parallelize(tile(y, (1, 1024), (row, part)), t, thread.x, values = (1, 4));
//!     let own = map(x, |x| x);
//!     let here = block_reduce(maximum(own), f32::MIN, |a, b| max(a, b));
//!     let total = block_sum(sum(map((own, here), |x, m| exp(x - m))));
//!     let merge = |(a, s), (b, t)| (max(a, b), s * exp(a - max(a, b)) + t * exp(b - max(a, b)));
//!     let (most, total) = cluster_reduce((here, total), (f32::MIN, 0.0), merge, per_block = true);
//!     map((own, most, total), y, |x, m, total| exp(x - m) / total);
//! }
//!
//! let x = vec![-2.0f32; 2 * 3001];
//! let (x, y) = (Arg::tensor(&x, [2, 3001]), Arg::output::<f32>([2, 3001]));
//! let done = normalized().simulate(&[x.strides([3001, 1]), y.strides([3001, 1])])?;
//! assert!(done.get::<f32>("y")?.iter().all(|y| (y + 1.0 / 3001.0).abs() < 1e-9));
//!
//! let x: Vec<f32> = (0..2 * 3001).map(|n| if n % 3001 < 1500 { 0.0 } else { -1000.0 }).collect();
//! let (x, y) = (Arg::tensor(&x, [2, 3001]), Arg::output::<f32>([2, 3001]));
//! let done = softmax().simulate(&[x.strides([3001, 1]), y.strides([3001, 1])])?;
//! let expected = |n: usize| if n % 3001 < 1500 { 1.0 / 1500.0 } else { 0.0 };
//! assert!(done.get::<f32>("y")?.iter().enumerate().all(|(n, y)| (y - expected(n)).abs() < 1e-9));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Loops and conditions
//!
//! `for k in a..b` is a loop of the kernel. `for i in unroll(0..4)` is unrolled while compiling: `i` is a
//! constant, for indices of registers and for shapes, such as `1 << i`. `if` on constants decides while
//! compiling, on `block.x`, sizes and loop variables at run time; a choice between elements is
//! `if … { … } else { … }` or [`select`] inside a closure.
//!
//! In [`pipelined`] the copies from global to shared memory of later iterations run during this one. Its tiles
//! get `stages` slots each, and its waits and barriers are generated. `fragments = 2` loads operands of a
//! product from shared memory one k-step ahead.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// C = A·Bᵀ on CUDA cores.
//! #[kernel]
//! fn product(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
//!     let (a, b) = (tile(a, (64, 16), (block.x, _)), tile(b, (64, 16), (block.y, _)));
//!     let (sa, sb) = (shared::<f32>((64, 16)), shared::<f32>((64, 16)));
//!     let mut acc = full::<f32>((64, 64), 0.0);
//!     for k in pipelined(0..a.size(2), stages = 3) {
//!         copy(a[(_, _, k)], sa);
//!         copy(b[(_, _, k)], sb);
//!         gemm(sa, sb, &mut acc);
//!     }
//!     copy(acc, tile(c, (64, 64), (block.x, block.y)));
//! }
//!
//! let args = [Arg::tensor(&[1.0f32; 65 * 20], [65, 20]), Arg::tensor(&[2.0f32; 3 * 20], [3, 20])];
//! let done = product().simulate(&[args.to_vec(), vec![Arg::output::<f32>([65, 3])]].concat())?;
//! assert_eq!(done.get::<f32>("c")?, vec![40.0; 65 * 3]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Products with other operations
//!
//! On CUDA cores a product can combine and multiply otherwise than by + and ·: `gemm(a, b, &mut acc, with =
//! (min, add))` computes the minimum of sums, as shortest paths need. Both operations are any of `add`, `mul`,
//! `min`, `max`, and for integers `and`, `or`, `xor`; the first combines, the second multiplies. Copies of
//! operands fill what lies beyond K with values that change no result, here ∞. The accumulator takes part, so
//! it starts with the identity of the first operation.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// The shortest paths by way of one more node: d(i, j) = min over k of a(i, k) + b(j, k).
//! #[kernel]
//! fn shortest(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, d: &mut Tensor<f32, (M, N)>) {
//!     let (a, b) = (tile(a, (64, 8), (block.x, _)), tile(b, (64, 8), (block.y, _)));
//!     let (sa, sb) = (shared::<f32>((64, 8)), shared::<f32>((64, 8)));
//!     let mut acc = full::<f32>((64, 64), f32::INFINITY);
//!     for k in pipelined(0..a.size(2), stages = 3) {
//!         copy(a[(_, _, k)], sa);
//!         copy(b[(_, _, k)], sb);
//!         gemm(sa, sb, &mut acc, with = (min, add));
//!     }
//!     copy(acc, tile(d, (64, 64), (block.x, block.y)));
//! }
//!
//! let (a, b) = ([0.0f32, 7.0, 2.0, 1.0], [3.0f32, 1.0, 5.0, 4.0]); // 2x2, column-major
//! let args = [Arg::tensor(&a, [2, 2]), Arg::tensor(&b, [2, 2]), Arg::output::<f32>([2, 2])];
//! assert_eq!(shortest().simulate(&args)?.get::<f32>("d")?, [3.0, 6.0, 1.0, 5.0]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Tensor cores
//!
//! [`tiled_mma`] is a matrix instruction for two element types, tiled over the warps of the block. [`gemm`] of
//! tiles in shared memory into its accumulators loads fragments by ldmatrix, from layouts without bank
//! conflicts. The accumulators are a whole tile: functions and reductions apply to them, and they are copied
//! to global memory, converted to its type.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// C = relu(A·Bᵀ + bias), rows contiguous.
//! #[kernel]
//! fn layer(
//!     a: &Tensor<bf16, (M, K), (lda, _1)>,
//!     b: &Tensor<bf16, (N, K), (ldb, _1)>,
//!     bias: &Tensor<f32, N>,
//!     c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
//! ) {
//!     let (a, b) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
//!     let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
//!     let mma = tiled_mma::<bf16, f32>(warps = 4);
//!     let mut acc = mma.accumulators((64, 64), 0.0);
//!     for k in pipelined(0..a.size(2), stages = 3) {
//!         copy(a[(_, _, k)], sa);
//!         copy(b[(_, _, k)], sb);
//!         gemm(sa, sb, &mut acc);
//!     }
//!     let bias = tile(bias, 64, block.y).along(1);
//!     copy(map((acc, bias), |x, b| max(x + b, 0.0)), tile(c, (64, 64), (block.x, block.y)));
//! }
//! assert!(layer().source().contains("mma.sync"));
//! ```
//!
//! # Finished products
//!
//! [`matmul_kernel!`](crate::matmul_kernel) makes C = A·Bᵀ from keys, and the macro's documentation has all of them. Types
//! with tensor cores take them: `dtype = bf16` by itself is a tuned product, for the oldest architecture that `arch` names,
//! and `kernel.report()` says which instruction it uses and why. `epilogue`, `bias`, `scales` and `alpha_beta` change each
//! element of C before it is rounded; sums of integers are scaled as `f32` where C is not of their type. A function with
//! coordinates, several results or a residual of its own is a `#[kernel]`, as in [Tensor cores](#tensor-cores).
//!
//! Weights may be narrower than activations: `b_dtype = i8`, `u8`, `e4m3`, `e5m2`, or `i4`, two in a byte along K. They are
//! converted in registers, exactly, and an argument `scale` has a factor for each column of C. With `group_size = 128`
//! each 128 elements along K have a scale of their own, as GPTQ and AWQ quantise: `scale` is then a matrix (N, K / 128,
//! rounded up) of the type of A with contiguous columns, and a weight times its scale is rounded to that type, as
//! where weights are dequantised in memory.
//!
//! ```
//! use tilewright::codegen::narrow::packed_i4;
//! use tilewright::prelude::*;
//!
//! const PRODUCT: MatmulKernel<bf16> =
//!     matmul_kernel!(dtype = bf16, b_dtype = i4, group_size = 32, a = k_major, b = k_major, out = f32);
//!
//! let (m, n, k) = (3, 2, 64);
//! let a = vec![bf16::from_f32(0.5); m * k];
//! let weights = packed_i4(&vec![-3; n * k], k); // two in a byte: rows of 32 bytes
//! let scales: Vec<bf16> = [1.0, 1.0, 2.0, 4.0].map(bf16::from_f32).into(); // (2, 2): the second column for K from 32 on
//! let done = PRODUCT.simulate(&[
//!     Arg::tensor(&a, [m, k]).strides([k, 1]),
//!     Arg::tensor(&weights, [n, k / 2]).strides([k / 2, 1]),
//!     Arg::output::<f32>([m, n]),
//!     Arg::tensor(&scales, [n, 2]),
//! ])?;
//! assert_eq!(done.get::<f32>("c")?[..], [-144.0, -144.0, -144.0, -240.0, -240.0, -240.0]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Producers
//!
//! On sm_90 and later, `producer = warp` gives the copies of a pipelined loop to a warp of their own. It copies whole
//! tiles in bulk into a ring of as many slots as the loop has stages, and waits where all are full; the other threads
//! wait where the next is empty. The body says what is copied and what is done with it, as without a producer: there
//! are no barriers, phases or arrivals to write. Elements beyond the edge of a tensor are 0, and reductions leave
//! them out. Tensors whose rows are not aligned to 16 bytes are
//! copied to aligned rows before the launch.
//!
//! `tiled_mma::<bf16, f32>(warpgroups = 2)` multiplies by wgmma, 64 rows at once for each warpgroup of 128 threads, straight
//! from the tiles that the producer has copied. Where a loop only multiplies, its products overlap; where it uses
//! the sums, each product is waited for. [`persistent`] kernels have as many blocks as the device runs at once,
//! and the producer is already copying for the next tile while the others are busy with the results of this one.
//!
//! With [`cluster`]`(2)`, tiles that two neighbouring blocks along x have in common are read once: a copy that does not
//! depend on `block.x` is divided among the blocks of the cluster, and each multicasts its part to the others. All of them
//! must go through the same iterations; where a loop or a condition around the copies depends on `block.x`, each block
//! copies for itself.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// c = max(a·bᵀ, 0)
//! #[kernel(arch = 90)]
//! fn product(
//!     a: &Tensor<bf16, (M, K), (lda, _1)>,
//!     b: &Tensor<bf16, (N, K), (ldb, _1)>,
//!     c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
//! ) {
//!     persistent();
//!     let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (128, 64), (block.y, _)));
//!     let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((128, 64)));
//!     let mma = tiled_mma::<bf16, f32>(warpgroups = 2);
//!     let mut acc = mma.accumulators((128, 128), 0.0);
//!     for k in pipelined(0..ga.size(2), stages = 4, producer = warp) {
//!         copy(ga[(_, _, k)], sa);
//!         copy(gb[(_, _, k)], sb);
//!         gemm(sa, sb, &mut acc);
//!     }
//!     copy(map(acc, |x| max(x, 0.0)), tile(c, (128, 128), (block.x, block.y)));
//! }
//!
//! let source = product().source().to_string();
//! assert!(source.contains("wgmma_m64n128k16_bf16") && source.contains("bulk_load_2d"));
//! ```
//!
//! # Explicit instructions
//!
//! One level down, the parts of threads, their fragments and the instructions are named, and the author writes
//! the waits and barriers. A [`tiled_mma`] with an arrangement of warps partitions tiles: (values of an
//! instruction, instructions along the first mode, instructions along the second). [`fragment_like`] makes
//! registers for a part, `copy(…, how = "ldmatrix_x4")` loads them, and `gemm(…, how = "mma_m16n8k16_bf16")`
//! multiplies. ldmatrix takes from each lane the address of a row of 16 bytes: those rows are another
//! partition of the tile, and [`retile`] views the fragment as the instruction fills it. Loads and products of
//! any slice along K can be interleaved.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// c = a·bᵀ, a block of 32x32 by four warps
//! #[kernel]
//! fn product(
//!     a: &Tensor<bf16, (M, K), (lda, _1)>,
//!     b: &Tensor<bf16, (N, K), (ldb, _1)>,
//!     c: &mut Tensor<f32, (M, N), (ldc, _1)>,
//! ) {
//!     let (ga, gb) = (tile(a, (32, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
//!     // Rows of 64 bytes, whose units of 16 bytes are swizzled.
//!     let sa = shared::<bf16>(swizzled(2, 3, 3, row_major((32, 32))));
//!     let sb = shared::<bf16>(swizzled(2, 3, 3, row_major((32, 32))));
//!
//!     let mma = tiled_mma("mma_m16n8k16_bf16", layout!((2, 2))); // 16x16 sums for each warp
//!     let fa = fragment_like(mma.partition_a(sa, thread.x)); // (8, 1, 2): eight values, one instruction, two k-steps
//!     let fb = fragment_like(mma.partition_b(sb, thread.x)); // (4, 2, 2)
//!     let out = mma.partition_c(tile(c, (32, 32), (block.x, block.y)), thread.x);
//!     let mut acc = fragment_like(out, 0.0); // (4, 1, 2)
//!
//!     let rows_a = mma.partition_a(sa, thread.x, how = "ldmatrix_x4");
//!     let rows_b = mma.partition_b(sb, thread.x, how = "ldmatrix_x4"); // both instructions at once
//!
//!     let t = layout!((32, 4) : (4, 1));
//!     for k in 0..ga.size(2) {
//!         copy(parallelize(ga[(_, _, k)], t, thread.x, values = (1, 8)), parallelize(sa, t, thread.x, values = (1, 8)));
//!         copy(parallelize(gb[(_, _, k)], t, thread.x, values = (1, 8)), parallelize(sb, t, thread.x, values = (1, 8)));
//!         cp_async_wait_all();
//!         sync_threads();
//!         copy(rows_a, retile(fa, rows_a), how = "ldmatrix_x4");
//!         copy(rows_b, retile(fb, rows_b), how = "ldmatrix_x4");
//!         for step in unroll(0..2) {
//!             gemm(fa[(_, _, step)], fb[(_, _, step)], &mut acc, how = "mma_m16n8k16_bf16");
//!         }
//!         sync_threads();
//!     }
//!     copy(acc, out);
//! }
//!
//! let (m, n, k) = (40, 33, 72);
//! let a: Vec<bf16> = (0..m * k).map(|at| bf16::from_f32((at % 7) as f32 - 3.0)).collect();
//! let b: Vec<bf16> = (0..n * k).map(|at| bf16::from_f32((at % 5) as f32 - 2.0)).collect();
//! let rows = |of: Arg, stride| of.strides([stride, 1]);
//! let args = [
//!     rows(Arg::tensor(&a, [m, k]), k),
//!     rows(Arg::tensor(&b, [n, k]), k),
//!     rows(Arg::output::<f32>([m, n]), n),
//! ];
//! let c = product().simulate(&args)?.get::<f32>("c")?;
//! let wanted = |i: usize, j: usize| (0..k).map(|l| a[i * k + l].to_f32() * b[j * k + l].to_f32()).sum::<f32>();
//! assert!((0..m * n).all(|at| c[at] == wanted(at / n, at % n)));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Integers
//!
//! Coordinates, loop bounds and operands of comparisons are integers of one kind, under `+`, `-`, `*`, `/`
//! (rounded down), `%` (never negative), [`min`], [`max`] and [`ceil_div`]: `block.x`, `thread.x`, loop
//! variables, sizes such as `M` or `a.size(0)`, integer arguments, and elements of integer type. [`at_most`] bounds a
//! size where one that is too large could not be an `i32` among elements.
//!
//! - **An element becomes an integer where one is needed**: `ids[(block.x)]` reads one element of integer
//!   type as a coordinate, a loop bound or an operand of a comparison; `x[(i)] as i32` reads one of another
//!   type.
//! - **Any integer is a valid coordinate.** Out-of-bounds elements read as 0, or as `fill = …` says, and are
//!   not written. An index that is itself out of bounds is -1, so it selects nothing.
//! - `for k in a..b` runs over any two integers, and so does `pipelined`; it runs not at all where `b <= a`.
//! - `if` takes comparisons of integers and of scalar arguments, with `&&`, `||` and `!`. A divergent `if`,
//!   such as `if thread.x < 4`, and a loop with divergent bounds must contain nothing that waits for all
//!   threads: no [`sync_threads`], no reduction over a warp or the block.
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
//! Ids that are out of range read as 0, and nothing says so. A kernel whose host should hear of them counts them:
//!
//! ```
//! use tilewright::prelude::*;
//!
//! #[kernel]
//! fn checked(ids: &Tensor<i32, N>, x: &Tensor<f32, V>, y: &mut Tensor<f32, N>, wrong: &mut Tensor<i32, _1>) {
//!     let ids = tile(ids, 256, block.x);
//!     map(ids, tile(y, 256, block.x), |i| x[(i)]);
//!     scatter(ids, wrong, |i| (if (i < 0) | (i >= V) { 0 } else { -1 }, 1), how = "atomic_add");
//! }
//!
//! let (ids, x) = (Arg::tensor(&[2, 0, 7], [3]), Arg::tensor(&[1.0f32, 2.0, 3.0], [3]));
//! let done = checked().simulate(&[ids, x, Arg::output::<f32>([3]), Arg::in_out(&[0i32], [1])])?;
//! assert_eq!((done.get::<f32>("y")?, done.get::<i32>("wrong")?), (vec![3.0, 1.0, 0.0], vec![1]));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Places of their own
//!
//! In a closure, `x[(i, j)]` loads the element of `x` that numbers of the closure name: coordinates, elements of
//! integer type, and arithmetic on both. Each element has a place of its own, so this is a gather. `x` is in global or
//! shared memory; out-of-bounds elements are 0. Other places are those of one statement for all elements, as before.
//!
//! [`scatter`] is the opposite: its closure gives a place and a value, `|x, at| (place, value)`. A place is an integer,
//! or a tuple of them for several modes. Elements with places out of bounds, such as -1, are skipped, and so are elements
//! beyond the edge of a tensor; where these are not known, as in [reductions](self#reductions), give them a place out of
//! bounds and say so: `beyond = -1`. Two elements with the same place race, and `how = "atomic_add"` and its like
//! do not. A store under a mask is a scatter too: `scatter(x, y, |x, at| (if x > 0.0 { at.0 } else { -1 }, x))`.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// An image at another size, by the nearest pixels.
//! #[kernel]
//! fn resized(x: &Tensor<f32, (H, W), (ldx, _1)>, y: &mut Tensor<f32, (P, Q), (ldy, _1)>) {
//!     let y = tile(y, (8, 32), (block.x, block.y));
//!     map(y, y, |_, at| x[(at.0 * H / P, at.1 * W / Q)]);
//! }
//!
//! /// How often each byte occurs: counted in shared memory, then added to the counts of all blocks.
//! #[kernel]
//! fn histogram(x: &Tensor<u8, N>, bins: &mut Tensor<i32, _256>) {
//!     let counts = shared::<i32>(256);
//!     fill(counts, 0);
//!     scatter(tile(x, 1024, block.x), counts, |x| (x as i32, 1), how = "atomic_add");
//!     copy(counts, tile(bins, 256, 0), how = "atomic_add");
//! }
//!
//! let (x, y) = (Arg::tensor(&[1.0f32, 2.0], [1, 2]), Arg::output::<f32>([1, 6]));
//! let done = resized().simulate(&[x.strides([2, 1]), y.strides([6, 1])])?;
//! assert_eq!(done.get::<f32>("y")?, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
//! let done = histogram().simulate(&[Arg::tensor(&[7u8; 1500], [1500]), Arg::in_out(&[0i32; 256], [256])])?;
//! assert_eq!(done.get::<i32>("bins")?[6..9], [0, 1500, 0]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Other views
//!
//! [`shift`] moves a tile by elements, [`permute`] and [`regroup`] give its modes another order or shape,
//! [`broadcast`] repeats it along modes that it does not have. `tile(…, halo = 1)` takes that many more
//! elements on each side, so that neighbouring tiles overlap; out-of-bounds elements are 0, or with
//! `copy(…, clamp = true)` the nearest element inside.
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
//! # Types
//!
//! The rules are Rust's.
//!
//! - Operands have one type. `x as f32` converts, as Rust's `as` does; nothing else does, but [`copy`], which
//!   converts to the type of what it writes.
//! - A literal takes the type of what it meets, and must be one of its numbers. An integer type holds
//!   integers in its range, written `2` or `2.0`. A floating-point type holds any number that does not
//!   overflow it, rounded to nearest, ties to even. `f32::INFINITY`, `bf16::MAX`, `i32::MIN` and their like
//!   are there for every element type.
//! - A comparison gives a condition, for `if`, [`select`], `&`, `|`, `^` and `!`. `(x > 0.0) as f32` is 1 for
//!   true and 0 for false.
//! - `x << n` and `x >> n` have the type of `x`, and `n` is any integer; of numbers with a sign `>>` keeps the sign.
//! - `f16`, `bf16`, `tf32`, `e4m3` and `e5m2` compute in `f32` and round after each operation. A sum of a
//!   product, `a * b + c`, is rounded once. What is greater than the greatest `e4m3` (448) or `e5m2` (57344)
//!   becomes that number; `tf32` is an `f32` of ten bits of fraction, whose ties go away from zero. `u32` and
//!   integers of 8 bits wrap around; an `i32` must not overflow.
//! - [`sum`], [`warp_sum`] and [`block_sum`] of `f16` and `bf16` are `f32`, those of `i8` and `u8` are `i32`:
//!   partial sums stay wide, and the last statement converts once. `sum(x, acc = bf16)` sets another type.
//! - `x = …` only writes `x`; `x += …` reads it too. Both need the type of `x` on the right.
//!
//! # Accuracy
//!
//! The largest error of a function's value, in units in the last place of the result, for every argument
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
//! In `f16` and `bf16` they are computed in `f32` and rounded once, the last four as a whole. The simulator
//! computes in double precision and rounds, so its error is at most ½; a device is within the table's bound
//! of the simulator, but for results of [`exp2`] in `f32` below 2⁻¹²⁶, which are 0 there. Infinities and NaN
//! behave as in Rust's functions; [`min`] and [`max`] of a NaN and a number return the number. Tests check the
//! simulator and devices against this table.
//!
//! # Lints
//!
//! What is legal but probably not meant is a warning with a name: `bank_conflicts`, `uncoalesced`, `unwritten`,
//! `unread` and `unused`; `deterministic` and `possible_race` are off unless asked for.
//! `#[kernel(deny(uncoalesced), allow(bank_conflicts))]` sets levels, and so does the environment variable
//! `TILEWRIGHT_LINTS`, in the same words.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// Every 64th element: each access of a warp moves 32 sectors, and that is meant.
//! #[kernel(allow(uncoalesced), deny(deterministic))]
//! fn every_64th(x: &Tensor<f32, (_64, N)>, y: &mut Tensor<f32, N>) {
//!     copy(tile(x, (1, 256), (0, block.x))[(0, _)], tile(y, 256, block.x));
//! }
//! # let _ = every_64th();
//! ```

use std::convert::Infallible;
use std::marker::PhantomData;

/// An argument of a kernel: elements of one type, at coordinates of a shape.
///
/// `&Tensor<f32, (M, K)>` is read and `&mut Tensor<f32, (M, N)>` is written. `M` and `K` are known at launch;
/// integers and the kernel's constants are fixed. Rust does not accept a bare integer in a tuple of types:
/// write `Tensor<f32, (N, _4)>`, or braces, `Tensor<f32, {(N, 4)}>`. Extents can be computed,
/// `Tensor<i32, {N + 1}>` or `Tensor<f32, {(2 * M, ceil_div(N, 32))}>`: a launch checks them. Without strides
/// a tensor is column-major, with its own leading dimensions.
#[derive(Debug)]
pub struct Tensor<T, Shape, Stride = ()> {
    _nothing: Infallible,
    _types: PhantomData<(T, Shape, Stride)>,
}

/// A tensor, or a part of one: where its elements are, and their layout.
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
    /// One tile of a tensor: `tile(a, (BM, BK), (block.x, _))`. `_` keeps a mode of tiles, to loop over.
    /// `halo = (1, 0)` adds that many elements before and after the tile along each mode,
    /// `halo = ((1, 2), 0)` different numbers before and after.
    fn tile(tensor: View, tiler: Nested, at: Nested) -> View;
    /// The part of a tile that one thread has: `parallelize(t, layout!((32, 8)), thread.x)`. A fourth
    /// argument projects: with `(1, _)` the tile is partitioned along rows only. `values = (1, 4)` gives each
    /// thread neighbouring elements, `ragged = true` allows threads that do not divide the tile: see
    /// [Parts of threads](self#parts-of-threads).
    fn parallelize(tile: View, threads: Arrangement, thread: Number) -> View;
    /// A tile in shared memory: `shared::<f32>(layout!((BM, BK) : (1, BM + 1)))`. With a shape alone,
    /// `shared::<f32>((BM, BK))`, its layout is derived from the statements on whole tiles that use it: free
    /// of bank conflicts.
    fn shared<T>(layout: Arrangement) -> View;
    /// A tile in registers, filled with a number: `registers::<f32>((8, 8), 0.0)`.
    fn registers<T>(shape: Nested, value: Number) -> View;
    /// A tile in registers of the shape and type of another: `registers_like(c, 0.0)`.
    fn registers_like(tile: View, value: Number) -> View;
    /// The elements at this offset along each mode: `shift(tile, (-1, 0))`. Numbers may be any integers.
    fn shift(tile: View, by: Nested) -> View;
    /// The same elements with their modes in another order: `permute(a, (1, 0))` is the transpose.
    fn permute(tensor: View, order: Nested) -> View;
    /// The same elements in the same order, leftmost mode fastest, under another shape:
    /// `regroup(tile, (8, 16))`.
    fn regroup(tile: View, shape: Nested) -> View;
    /// The same elements along the modes of a larger shape that are `_`, repeated along the others:
    /// `broadcast(bias, (BM, _))` is a matrix of BM equal rows.
    fn broadcast(tensor: View, shape: Nested) -> View;
    /// A precondition of the launch: `assert(N % 4 == 0)`, a condition on sizes. Other launches are refused,
    /// with their numbers; a known divisor of a size makes accesses wider in every variant.
    fn assert(condition: Number);
    /// The tile coordinates of a block, and the number of blocks:
    /// `let (i, j) = walk((ga.size(2), gb.size(2)), block.x)` rasters column by column. With `bands = 8` it
    /// rasters bands of eight rows of tiles, so that concurrent blocks share operands.
    /// `walk(layout!((4, 8) : (8, 1)), block.x)` rasters in the order of a layout. `walk(132, block.x)` is the number
    /// of one of 132 blocks, in a kernel where no tile has it as its coordinate.
    fn walk(tiles: Nested, block: Number) -> Nested;
    /// A whole tile in registers, distributed over the threads of the block and filled with a number:
    /// `full::<f32>((BM, 1), f32::NEG_INFINITY)`. See [Whole tiles](self#whole-tiles).
    fn full<T>(shape: Nested, value: Number) -> View;
    /// A whole tile in registers of `i32`, its coordinates along a mode: `iota(256)` holds 0 to 255, `iota((BM, BN), 1)` the
    /// number of each element's column. See [Coordinates of elements](self#coordinates-of-elements).
    fn iota(shape: Nested, mode: Number) -> View;
    /// The number of threads of the block, where no thread layout determines it: `threads(512)`, or
    /// `#[kernel(threads = 512)]`. The default is 256.
    fn threads(count: Number);
    /// A matrix instruction, and the warps that it is tiled over: the best for these types with
    /// `tiled_mma::<bf16, f32>(warps = 8)`; wgmma with `tiled_mma::<bf16, f32>(warpgroups = 2)`, see
    /// [Producers](self#producers); a row of the table by name with
    /// `tiled_mma("mma_m16n8k16_bf16", layout!((2, 4)))`. `mma.accumulators((BM, BN), 0.0)` is a whole tile
    /// of sums, for [`gemm`] and functions; `mma.partition_a(sa, thread.x)`, `partition_b` and `partition_c`
    /// are the parts of a thread, and `mma.partition_a(sa, thread.x, how = "ldmatrix_x4")` the rows whose
    /// addresses it gives to an instruction. See [Explicit instructions](self#explicit-instructions).
    fn tiled_mma<T>(name: Nested, warps: Arrangement) -> View;
    /// Registers for the part that a thread has of an operand: `fragment_like(mma.partition_a(sa, thread.x))`,
    /// or with another type and filled, `fragment_like::<f32>(mma.partition_c(gc, thread.x), 0.0)`. Narrow
    /// elements are packed, as instructions take them. See [Explicit instructions](self#explicit-instructions).
    fn fragment_like(part: View, value: Number) -> View;
    /// A fragment as the instruction that loads it takes it, which may move several of a product's at once:
    /// `copy(rows, retile(fa, rows), how = "ldmatrix_x4")`.
    fn retile(fragment: View, rows: View) -> View;
    /// Copies every element, converted to the type of the target as `as` does. A copy from global to shared
    /// memory is asynchronous: it is in flight until a wait. Out-of-bounds elements of the source are 0, or
    /// as `fill = …` says, or with `clamp = true` the nearest element inside. In a pipelined loop,
    /// `how = "staged"` copies through registers, which suits tiles that are transposed by the copy.
    ///
    /// `how = "ldmatrix_x4"`, or another ldmatrix or stmatrix, copies between rows in shared memory and a
    /// fragment: see [Explicit instructions](self#explicit-instructions).
    ///
    /// A number can be copied as well: `copy(1, counter, how = "atomic_add")`.
    ///
    /// `how = "atomic_add"` adds atomically: threads and blocks may add to the same elements. So do
    /// `"atomic_min"`, `"atomic_max"`, `"atomic_and"`, `"atomic_or"`, `"atomic_xor"` and `"atomic_exchange"`,
    /// for the types that the hardware supports. Out-of-bounds elements are skipped. Floating-point sums are
    /// rounded in the order of arrival, so they differ from run to run: `#[kernel(deny(deterministic))]`
    /// refuses them.
    fn copy(from: View, to: View);
    /// Sets every element to a number, or to that of a tile of one element.
    fn fill(tile: View, value: Number);
    /// Adds the product A·Bᵀ of two tiles to a tile in registers: `gemm(a, b, &mut acc)`. The order of its
    /// multiply-adds is `order = "plain"`, or `"serpentine"`, `"rows"`, `"row_serpentine"`. Operands are
    /// (rows, k) and (columns, k). The k-steps of a thread must be the same in both, and its sums must be
    /// copied to their own rows and columns: extents with the same symbol, such as `M` of A and `M` of C,
    /// belong together, and a mismatch is an error. `with = (min, add)` combines and multiplies by other
    /// operations: see [Products with other operations](self#products-with-other-operations). `how = "mma_m16n8k16_bf16"` multiplies fragments by an
    /// instruction: see [Explicit instructions](self#explicit-instructions).
    fn gemm(a: View, b: View, acc: View);
    /// Applies a closure to the elements of one tile, or of several: `map((x, y), |x, y| x + y)`. The result
    /// has the type of the closure's value; a tuple of values makes a tuple of tiles.
    /// `map(x, y, |x| 2.0 * x)` writes to `y`, whose type the value must have. Modes of extent 1 are
    /// broadcast. One more parameter is the element's [coordinates](self#coordinates-of-elements):
    /// `map(x, |x, at| …)`.
    fn map(tiles: View, with: fn(Number) -> Number) -> View;
    /// Stores elements at places of their own: the closure gives a place and what is stored there,
    /// `scatter(x, y, |x, at| ((at.1, at.0), x))`. `how = "atomic_add"` and its like update what is there. See
    /// [Places of their own](self#places-of-their-own).
    fn scatter(tiles: View, to: View, with: fn(Number) -> (Nested, Number));
    /// Sums along a mode of a fragment, `sum(x, 1)`, along several, `sum(x, (0, 2))`, or all of it, `sum(x)`.
    /// `acc = bf16` sets the accumulator type, see [Types](self#types); out-of-bounds elements are left out,
    /// see [Reductions](self#reductions).
    fn sum(fragment: View, mode: Number) -> View;
    /// Combines the elements of a fragment or a whole tile, or of several together, by an associative and
    /// commutative closure: `reduce(x, 0.0, |a, b| a + b)`, with `mode = 1` along one mode. The second argument is the
    /// identity. See [Reductions](self#reductions).
    fn reduce(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// The largest along a mode of a fragment.
    fn maximum(fragment: View, mode: Number) -> View;
    /// The smallest along a mode of a fragment.
    fn minimum(fragment: View, mode: Number) -> View;
    /// Sums each element over the threads of a warp, or over `lanes = 8` neighbours; `acc = …` as in [`sum`].
    fn warp_sum(fragment: View) -> View;
    /// [`reduce`] of each element over the threads of a warp, or over `lanes = 8` neighbours; every lane gets
    /// the result.
    fn warp_reduce(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// The largest of each element over the threads of a warp.
    fn warp_maximum(fragment: View) -> View;
    /// The smallest of each element over the threads of a warp.
    fn warp_minimum(fragment: View) -> View;
    /// Sums each element over the threads of the block; every thread gets the sum. `acc = …` as in [`sum`].
    fn block_sum(fragment: View) -> View;
    /// [`reduce`] of each element over the threads of the block; every thread gets the result.
    fn block_reduce(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// The largest of each element over the threads of the block; every thread gets it.
    fn block_maximum(fragment: View) -> View;
    /// The smallest of each element over the threads of the block; every thread gets it.
    fn block_minimum(fragment: View) -> View;
    /// Sums each element over all threads of the cluster; every thread of its blocks gets the sum. With
    /// `per_block = true` all threads of a block have the same elements, and each block contributes once. See
    /// [Clusters](self#clusters).
    fn cluster_sum(fragment: View) -> View;
    /// [`reduce`] of each element over the threads of the cluster; every thread gets the result. With
    /// `per_block = true` each block contributes once, as in [`cluster_sum`].
    fn cluster_reduce(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// The largest of each element over the threads of the cluster; every thread gets it.
    fn cluster_maximum(fragment: View) -> View;
    /// The smallest of each element over the threads of the cluster; every thread gets it.
    fn cluster_minimum(fragment: View) -> View;
    /// Combines each element with those before it, by an associative closure with its identity:
    /// `scan(x, 0.0, |a, b| a + b, mode = 1)`. See [Scans](self#scans).
    fn scan(tiles: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// [`scan`] of each element over the lanes of a warp, or over `lanes = 8` neighbours.
    fn warp_scan(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// [`scan`] of each element over the threads of the block.
    fn block_scan(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// [`scan`] of each element over the threads of the cluster, its blocks in the order of their indices.
    fn cluster_scan(fragments: View, nothing: Number, with: fn(Number, Number) -> Number) -> View;
    /// Waits until all threads of the block have arrived.
    fn sync_threads();
    /// Waits until every copy in flight has landed.
    fn cp_async_wait_all();
    /// Waits until at most this many commit groups are in flight.
    fn cp_async_wait(groups: Number);
    /// Ends a commit group.
    fn cp_async_commit();
    /// Refuses launches where a size is larger: `at_most(N, W)`, in a kernel whose tiles of W elements must
    /// cover whole rows.
    fn at_most(size: Number, limit: Number);
    /// `__launch_bounds__` minimum blocks per multiprocessor: it bounds the registers of a thread. 0 leaves
    /// it to the compiler.
    fn blocks_per_sm(blocks: Number);
    /// A persistent kernel: as many blocks as the device runs at once are launched, and each executes the kernel for one
    /// tile of the grid after another. With a producer, its copies for the next tile overlap the end of this one: see
    /// [Producers](self#producers).
    fn persistent();
    /// Launches clusters of so many neighbouring blocks along x, from 1 to 16: see
    /// [Clusters](self#clusters). More than 8 are not portable, and more than 1 need `sm_90`.
    fn cluster(blocks: Number);
    /// A column-major layout with unused elements between columns: `padded((BM, BK), 1)`.
    fn padded(shape: Nested, pad: Number) -> Arrangement;
    /// A row-major layout.
    fn row_major(shape: Nested) -> Arrangement;
    /// A layout whose offsets are swizzled: `swizzled(3, 2, 3, layout!((32, 8)))`.
    fn swizzled(bits: Number, base: Number, shift: Number, layout: Arrangement) -> Arrangement;
    /// The composition of two layouts.
    fn composition(layout: Arrangement, tiler: Nested) -> Arrangement;
    /// A layout divided into tiles.
    fn logical_divide(layout: Arrangement, tiler: Nested) -> Arrangement;
    /// A layout divided into tiles, with tile modes first and rest modes second.
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
    /// e to this power. Functions of numbers are for closures; for their accuracy see
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
    /// x / (1 + exp(-x)); NaN for -∞.
    fn silu(x: Number) -> Number;
    /// x/2 (1 + erf(x/√2)), as GELU is usually defined; NaN for -∞.
    fn gelu(x: Number) -> Number;
    /// The approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))); NaN for -∞.
    fn gelu_tanh(x: Number) -> Number;
    /// The magnitude.
    fn abs(x: Number) -> Number;
    /// The magnitude of the first with the sign of the second.
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
    /// The remainder of x after whole multiples of y, with the sign of x: `x % y`, exactly.
    fn fmod(x: Number, y: Number) -> Number;
    /// The upper half of the product of two `i32` or `u32`, which has 8 bytes.
    fn mul_high(a: Number, b: Number) -> Number;
    /// The number of set bits of an integer.
    fn count_ones(n: Number) -> Number;
    /// The number of zero bits before the first set bit of an integer; all of them for 0.
    fn leading_zeros(n: Number) -> Number;
    /// The bits of a number of 4 bytes, as another type of 4 bytes: `bits::<u32>(x)`, `bits::<f32>(n)`.
    fn bits<T>(x: Number) -> Number;
    /// a·b + c, rounded once.
    fn fma(a: Number, b: Number, c: Number) -> Number;
    /// One of two numbers: `select(x > 0.0, x, 0.0)`.
    fn select(condition: Number, then: Number, other: Number) -> Number;
    /// A loop that is unrolled while compiling: `for i in unroll(0..4) { … }`.
    fn unroll(range: Number) -> Number;
    /// A software-pipelined loop: copies from global to shared memory run `stages - 1` iterations ahead,
    /// without waits or barriers in its body: `for k in pipelined(0..ga.size(2), stages = 3) { … }`. With
    /// `fragments = 2`, where the body is one product, its operands are loaded from shared memory to
    /// registers one k-step ahead, across iterations too. A loop-exit test after each k-step then keeps nvcc
    /// from interleaving k-steps; `exits = false` omits it.
    /// `producer = warp` a warp of its own copies in bulk: see [Producers](self#producers).
    fn pipelined(range: Number, stages: Number) -> Number;
}
