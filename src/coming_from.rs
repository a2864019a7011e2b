//! From CUDA, Triton and CuTe to tilewright: the same concepts side by side.
//!
//! | CUDA | Triton | CuTe | here |
//! |---|---|---|---|
//! | `blockIdx.x` | `tl.program_id(0)` | `blockIdx.x` | `block.x`; the grid is [derived](crate::language::kernels#tiles-and-the-grid) |
//! | `threadIdx.x` | none | `threadIdx.x` | none for [whole tiles](crate::language::tiles#whole-tiles); `thread.x` in [`parallelize`](crate::language::parallelize) |
//! | `p + i * ld + j` | `p + offs[:, None] * ld + …` | `make_tensor(p, layout)` | `Tensor<f32, (M, N), (ld, _1)>` |
//! | `blockDim.x * blockIdx.x` | `pid * BLOCK + tl.arange` | `local_tile` | [`tile`](crate::language::tile) |
//! | index arithmetic | none | `local_partition` | [`parallelize`](crate::language::parallelize) |
//! | `__shared__ float s[32][33]` | none | `make_tensor(make_smem_ptr(p), layout)` | [`shared`](crate::language::shared) |
//! | `float r[8]` | a tensor | `make_fragment_like` | [`full`](crate::language::full), [`registers`](crate::language::registers), the result of [`map`](crate::language::map) |
//! | `if (i < n)` | `mask=offs < n` | a predicate tensor | none: bounds checks are [generated](crate::language::kernels#tiles-and-the-grid) |
//! | `__syncthreads()` | none | `__syncthreads()` | none for whole tiles; [`sync_threads`](crate::language::sync_threads) |
//! | `__shfl_xor_sync` in a reduction | `tl.sum(x, 1)` | `__shfl_xor_sync` | [`sum`](crate::language::sum), [`warp_sum`](crate::language::warp_sum), [`block_sum`](crate::language::block_sum) |
//! | `__shfl_sync`, `__ballot_sync`, `__match_any_sync` | | the same | [`warp_shuffle`](crate::language::warp_shuffle), [`warp_ballot`](crate::language::warp_ballot), [`warp_match`](crate::language::warp_match) |
//! | `__expf`, `__sinf`, `__fdividef` | | the same | [`fast_exp`](crate::language::fast_exp), [`fast_sin`](crate::language::fast_sin), [`fast_div`](crate::language::fast_div) |
//! | `float2` | | `float2` | [pairs](crate::language::tiles#indexing-sizes-assignments): a mode of extent 2 |
//! | `atomicAdd` | `tl.atomic_add` | `atomicAdd` | `copy(x, y, how = "atomic_add")` |
//! | `old = atomicAdd(&n, 1)` | `old = tl.atomic_add(p, 1)` | `atomicAdd` | `let old = copy(1, n, how = "atomic_add")`: [between blocks](crate::language::control#between-blocks) |
//! | `__threadfence()` and a flag | `sem="release"` | `Barrier` | [`signal`](crate::language::signal), [`wait`](crate::language::wait) |
//! | `while (err > eps)` | `while err > eps` | `while` | [`while`](crate::language::control#loops-and-conditions) |
//! | `__device__` | `@triton.jit` | `CUTE_DEVICE` | [`#[device]`](crate::language::closures#functions-that-kernels-share) |
//! | `x[ids[i]]` | `tl.load(x + i)` | `x(i)` | `map(ids, y, |i| x[(i)])`: a [gather](crate::language::closures#gathers-and-scatters) |
//! | `y[ids[i]] = v` | `tl.store(y + i, v)` | `y(i) = v` | [`scatter`](crate::language::scatter) |
//! | `__umulhi` | `tl.umulhi` | `__umulhi` | [`mul_high`](crate::language::mul_high) |
//! | `cp.async` | `tl.load`, `num_stages` | `SM80_CP_ASYNC_…` | [`copy`](crate::language::copy) to shared memory, [`pipelined`](crate::language::pipelined) |
//! | `p + offset` | `offs + k` | `domain_offset` | [`shift`](crate::language::shift) |
//! | | `tl.reshape`, in row-major order | `composition`, in column-major order | [`regroup`](crate::language::regroup), as CuTe orders elements |
//! | | `tl.swizzle2d` | `idx2crd` | [`walk`](crate::language::walk), which also determines the grid; [`raster`](crate::language::raster) |
//! | programmatic dependent launch | `launch_pdl=True` | `launch_with_pdl` | the key `overlaps` |
//! | `mma.sync` | `tl.dot` | `TiledMMA`, `gemm` | [`tiled_mma`](crate::language::tiled_mma), [`gemm`](crate::language::gemm) |
//! | `(i ^ j) * 8` | none | `Swizzle<3,3,3>` | a derived layout, or [`swizzled`](crate::language::swizzled) |
//! | `template <int BM>` | `BM: tl.constexpr` | `Int<128>{}` | `const BM: usize = 128` |
//! | `x * scale` | `x * scale` | a functor | `x * scale` on [tiles](crate::language::tiles#arithmetic-on-tiles); a closure, in [`map`](crate::language::map) |
//! | `x > 0 ? x : 0` | `tl.where(x > 0, x, 0)` | a functor | `if x > 0.0 { x } else { 0.0 }`, or [`select`](crate::language::select) |
//!
//! # Threads, blocks and bounds
//!
//! ```cuda
//! __global__ void scale(const float* x, float* y, float alpha, int n) {        // CUDA
//!     int i = blockIdx.x * blockDim.x + threadIdx.x;
//!     if (i < n) y[i] = alpha * x[i];
//! }
//! ```
//!
//! ```python
//! def scale(x, y, alpha, n, BLOCK: tl.constexpr):                              # Triton
//!     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
//!     tl.store(y + i, alpha * tl.load(x + i, mask=i < n), mask=i < n)
//! ```
//!
//! Here you write no indices. The generator derives the number of blocks from the tiles, the distribution over threads
//! and the vector width from the layout in memory, and the bounds checks from the tensor. If the tile divides N,
//! a variant without checks runs.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! #[kernel]
//! fn scale<const BLOCK: usize = 1024>(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//!     copy(alpha * tile(x, BLOCK, block.x), tile(y, BLOCK, block.x));
//! }
//! assert!(scale().source().contains("float4"));
//! ```
//!
//! You rarely need an index. If you do, take the coordinates of an element as a further parameter of the closure, for
//! example for masks, as with `tl.arange`:
//!
//! ```
//! # use tilewright::prelude::*;
//! /// The lower triangle.
//! #[kernel]
//! fn lower(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
//!     let x = tile(x, (64, 32), (block.x, block.y));
//!     copy(map(x, |x, at| if at.1 <= at.0 { x } else { 0.0 }), tile(y, (64, 32), (block.x, block.y)));
//! }
//! # let _ = lower();
//! ```
//!
//! # Thread layouts
//!
//! ```cuda
//! Tensor tAgA = local_partition(gA, make_layout(make_shape(Int<32>{}, Int<8>{})), threadIdx.x);   // CuTe
//! Tensor tCsA = local_partition(sA, tC, threadIdx.x, Step<_1, X>{});
//! ```
//!
//! The algebra is CuTe's, and so are the names: modes, strides, tilers, compositions. A colon separates shape
//! and stride, `layout!((32, 8) : (8, 1))`. Layouts are values that are evaluated at compile time, not types.
//!
//! ```
//! # use tilewright::prelude::*;
//! #[kernel]
//! fn parts(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
//!     let t = layout!((32, 8)); // 256 threads
//!     let part = |x| parallelize(tile(x, (128, 8), (block.x, block.y)), t, thread.x); // (4, 1) each
//!     copy(part(a), part(c));
//! }
//! # let _ = parts();
//! ```
//!
//! # Shared memory, padding and swizzles
//!
//! ```cuda
//! __shared__ float s[32][33];                                                  // CUDA: a padded transpose
//! for (int j = threadIdx.y; j < 32; j += 8) s[j][threadIdx.x] = x[…];
//! __syncthreads();
//! for (int j = threadIdx.y; j < 32; j += 8) y[…] = s[threadIdx.x][j];
//! ```
//!
//! For a shape, the generator derives a layout: the padding or the swizzle that avoids bank conflicts in all accesses.
//! With [`padded`](crate::language::padded), [`swizzled`](crate::language::swizzled) or `layout!` you choose the layout, and a
//! lint reports its bank conflicts.
//!
//! ```
//! # use tilewright::prelude::*;
//! #[kernel]
//! fn transpose(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
//!     let s = shared::<f32>((32, 32));
//!     copy(tile(x, (32, 32), (block.x, block.y)), s);
//!     copy(permute(s, (1, 0)), tile(y, (32, 32), (block.y, block.x))); // a barrier is inserted before it
//! }
//!
//! #[kernel]
//! fn transpose_by_threads(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
//!     let (s, t) = (shared::<f32>(padded((32, 32), 1)), layout!((32, 8)));
//!     let part = |x| parallelize(x, t, thread.x);
//!     copy(part(tile(x, (32, 32), (block.x, block.y))), part(s));
//!     cp_async_wait_all();
//!     sync_threads();
//!     copy(part(permute(s, (1, 0))), part(tile(y, (32, 32), (block.y, block.x))));
//! }
//! # let _ = (transpose(), transpose_by_threads());
//! ```
//!
//! # Reductions and softmax
//!
//! ```python
//! row = tl.load(x + pid * ld + cols, mask=cols < n, other=-float("inf"))       # Triton
//! grown = tl.exp(row - tl.max(row, axis=0))
//! tl.store(y + pid * ld + cols, grown / tl.sum(grown, axis=0), mask=cols < n)
//! ```
//!
//! Out-of-bounds elements are left out of sums and maxima, so no `other` is needed. For a row that is too long for
//! the registers of one block, loop over `tile(x, (1, W), (block.x, _))`.
//!
//! ```
//! # use tilewright::prelude::*;
//! #[kernel]
//! fn softmax<const W: usize = 1024>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
//!     at_most(N, W);
//!     let row = map(tile(x, (1, W), (block.x, 0)), |x| x); // in registers, read once
//!     let most = maximum(row);
//!     let grown = exp(row - most);
//!     copy(grown / sum(grown), tile(y, (1, W), (block.x, 0)));
//! }
//!
//! let y = Arg::output::<f32>([1, 3]).strides([3, 1]);
//! let done = softmax().simulate(&[Arg::tensor(&[5.0f32; 3], [1, 3]).strides([3, 1]), y])?;
//! assert!(done.get::<f32>("y")?.iter().all(|y| (y - 1.0 / 3.0).abs() < 1e-6));
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! # Products, pipelines and tensor cores
//!
//! ```python
//! acc = tl.zeros((BM, BN), dtype=tl.float32)                                   # Triton, num_stages=3
//! for k in range(0, tl.cdiv(K, BK)):
//!     a = tl.load(a_ptrs, mask=…, other=0.0)
//!     b = tl.load(b_ptrs, mask=…, other=0.0)
//!     acc = tl.dot(a, b, acc)
//! ```
//!
//! ```cuda
//! for (int k = 0; k < k_tiles; ++k) {                                          // CuTe, without its prologue
//!     copy(tiled_copy, tAgA(_,_,_,k), tAsA(_,_,_,write)); cp_async_fence();
//!     cp_async_wait<1>(); __syncthreads();
//!     gemm(tiled_mma, tCrA, tCrB, tCrC);
//! }
//! ```
//!
//! You declare tiles in shared memory; their slots, waits and barriers are generated. Operands are (rows, k) and
//! (columns, k), as in CuTe; Triton's `b` is the transpose.
//!
//! ```
//! # use tilewright::prelude::*;
//! #[kernel]
//! fn product<const BM: usize = 128, const BN: usize = 128, const BK: usize = 32>(
//!     a: &Tensor<f16, (M, K), (lda, _1)>,
//!     b: &Tensor<f16, (N, K), (ldb, _1)>,
//!     c: &mut Tensor<f32, (M, N), (ldc, _1)>,
//! ) {
//!     let (a, b) = (tile(a, (BM, BK), (block.x, _)), tile(b, (BN, BK), (block.y, _)));
//!     let (sa, sb) = (shared::<f16>((BM, BK)), shared::<f16>((BN, BK)));
//!     let mut acc = tiled_mma::<f16, f32>(warps = 4).accumulators((BM, BN), 0.0);
//!     for k in pipelined(0..a.size(2), stages = 3) {
//!         copy(a[(_, _, k)], sa);
//!         copy(b[(_, _, k)], sb);
//!         gemm(sa, sb, &mut acc);
//!     }
//!     copy(acc, tile(c, (BM, BN), (block.x, block.y)));
//! }
//! assert!(product().source().contains("ldmatrix"));
//! ```
//!
//! [`matmul_kernel!`](crate::matmul_kernel) makes tuned products from keys.
//!
//! # Atomics and data-dependent addresses
//!
//! ```cuda
//! atomicAdd(&bins[x[i]], 1);                                                   // CUDA
//! ```
//!
//! An element of integer type can be a coordinate. Any integer is valid: out-of-bounds elements are not accessed.
//!
//! ```
//! # use tilewright::prelude::*;
//! #[kernel]
//! fn histogram(x: &Tensor<i32, N>, bins: &mut Tensor<i32, B>) {
//!     let own = parallelize(tile(x, 256, block.x), layout!(256), thread.x);
//!     copy(registers::<i32>((1), 1), tile(bins, 1, own[(0)]), how = "atomic_add");
//! }
//!
//! let done = histogram().simulate(&[Arg::tensor(&[1, 0, 1, 7], [4]), Arg::in_out(&[0i32; 2], [2])])?;
//! assert_eq!(done.get::<i32>("bins")?, [1, 2]);
//! # Ok::<(), tilewright::sim::Error>(())
//! ```
//!
//! For a gather, index a tensor inside a closure with numbers of the closure. A `scatter` stores at such indices.
//!
//! ```python
//! i = tl.load(ids + offs, mask=offs < n)                                       # Triton
//! tl.store(y + offs, tl.load(x + i), mask=offs < n)
//! tl.atomic_add(bins + i, 1, mask=offs < n)
//! ```
//!
//! ```
//! # use tilewright::prelude::*;
//! #[kernel]
//! fn gather(ids: &Tensor<i32, N>, x: &Tensor<f32, M>, y: &mut Tensor<f32, N>, bins: &mut Tensor<i32, M>) {
//!     let ids = tile(ids, 1024, block.x);
//!     map(ids, tile(y, 1024, block.x), |i| x[(i)]);
//!     scatter(ids, bins, |i| (i, 1), how = "atomic_add");
//! }
//! # let _ = gather();
//! ```
//!
//! An update returns the old value: see [Between blocks](crate::language::control#between-blocks). To append to a list in a
//! fixed order, compute positions by a [`scan`](crate::language::scan) within a block, and add the counts of earlier blocks.
//!
//! # Where to look when it differs
//!
//! - `kernel().source()` is the CUDA C, `kernel().explain()` the loop nest with the loops of grid and block,
//!   `kernel().report()` the cost of every access.
//! - `kernel().simulate(…)` runs it without a GPU, and reports races, bounds and unwritten results.
//! - Mistakes are errors at your own tokens, while compiling: names of CUDA, Triton and CuTe, such as
//!   `threadIdx` or `tl.dot`, have messages with their counterparts here.
