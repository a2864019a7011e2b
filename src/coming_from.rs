//! From CUDA, Triton, CUTLASS and TileLang to tilewright: the same concepts side by side.
//!
//! | CUDA | Triton | CuTe | TileLang | here |
//! |---|---|---|---|---|
//! | `__global__` | `@triton.jit` | `__global__` | `@T.prim_func` | `#[kernel]`, a [kernel](crate::language::kernels#a-kernel) |
//! | `__device__` | `@triton.jit` | `CUTE_DEVICE` | `T.macro` | [`#[device]`](crate::language::closures#functions-that-kernels-share) |
//! | `<<<grid, block, shared, stream>>>` | `kernel[grid](…)` | `<<<…>>>`, `launch_kernel_on_cluster` | `kernel(…)` | `kernel().launch(&stream, …)` |
//! | `blockIdx.x`, CTA | `tl.program_id(0)` | `blockIdx.x` | `T.Kernel(…) as bx` | `block.x`; the grid is [derived](crate::language::kernels#tiles-and-the-grid) |
//! | `threadIdx.x` | none | `threadIdx.x` | `T.get_thread_binding()` | none for [whole tiles](crate::language::tiles#whole-tiles); `thread.x` in [`parallelize`](crate::language::parallelize) |
//! | `blockDim`, `__launch_bounds__` | `num_warps` | `MaxThreadsPerBlock` | `threads=128` | [`threads`](crate::language::threads), or `#[kernel(threads = 128)]`; [`blocks_per_sm`](crate::language::blocks_per_sm) |
//! | `p + i * ld + j` | `p + offs[:, None] * ld + …` | `make_tensor(p, layout)` | `T.Tensor((M, N), …)` | `Tensor<f32, (M, N), (ld, _1)>` |
//! | `blockDim.x * blockIdx.x` | `pid * BLOCK + tl.arange`, `tl.make_block_ptr` | `local_tile` | `A[by * BM, k * BK]` | [`tile`](crate::language::tile) |
//! | index arithmetic | none | `local_partition`, `partition_S`, MoYe's `@parallelize` | `T.Parallel` | [`parallelize`](crate::language::parallelize) |
//! | `__shared__`, `extern __shared__` | none | `make_tensor(make_smem_ptr(p), layout)` | `T.alloc_shared` | [`shared`](crate::language::shared) |
//! | loads and stores, `cudaMemcpyAsync` on the device | `tl.load`, `tl.store` | `copy`, `cooperative_copy` | `T.copy` | [`copy`](crate::language::copy) |
//! | `float r[8]` | a tensor | `make_fragment_like` | `T.alloc_fragment`, `T.alloc_local` | [`full`](crate::language::full), [`registers`](crate::language::registers), the result of [`map`](crate::language::map) |
//! | `r[i] = 0` | `tl.zeros`, `tl.full` | `clear`, `fill` | `T.clear`, `T.fill` | [`full`](crate::language::full), [`fill`](crate::language::fill) |
//! | `threadIdx.x + j` as data | `tl.arange` | `make_identity_tensor` | a loop variable | coordinates of a closure; [`iota`](crate::language::iota) |
//! | `if (i < n)` | `mask=offs < n`, `boundary_check` | a predicate tensor, `copy_if` | none | none: predication is [generated](crate::language::kernels#tiles-and-the-grid) |
//! | `float4`, `__ldg` | `tl.multiple_of`, `tl.max_contiguous` | `UniversalCopy<uint128_t>` | `T.vectorized`, `coalesced_width` | none: vectorized access is derived; `values = (1, 4)` in [`parallelize`](crate::language::parallelize) |
//! | `__syncthreads()` | none, `tl.debug_barrier` | `__syncthreads()` | none | none for whole tiles; [`sync_threads`](crate::language::sync_threads) |
//! | `__shfl_xor_sync` in a reduction | `tl.sum(x, 1)`, `tl.max`, `tl.argmax`, `tl.reduce` | `__shfl_xor_sync` | `T.reduce_sum`, `T.reduce_max` | [`sum`](crate::language::sum), [`reduce`](crate::language::reduce), [`warp_sum`](crate::language::warp_sum), [`block_sum`](crate::language::block_sum) |
//! | `cub::BlockScan` | `tl.cumsum`, `tl.associative_scan` | | `T.cumsum` | [`scan`](crate::language::scan) |
//! | `__shfl_sync`, `__ballot_sync`, `__match_any_sync` | | the same | `T.tvm_warp_shuffle` | [`warp_shuffle`](crate::language::warp_shuffle), [`warp_ballot`](crate::language::warp_ballot), [`warp_match`](crate::language::warp_match) |
//! | `__expf`, `__sinf`, `__fdividef` | | the same | `T.__exp` | [`fast_exp`](crate::language::fast_exp), [`fast_sin`](crate::language::fast_sin), [`fast_div`](crate::language::fast_div) |
//! | `__umulhi` | `tl.umulhi` | `__umulhi` | | [`mul_high`](crate::language::mul_high) |
//! | `float2` | | `float2` | | [pairs](crate::language::tiles#indexing-sizes-assignments): a mode of extent 2 |
//! | `x * scale` | `x * scale` | a functor | `T.Parallel` | `x * scale` on [tiles](crate::language::tiles#arithmetic-on-tiles); a closure, in [`map`](crate::language::map) |
//! | `x > 0 ? x : 0` | `tl.where(x > 0, x, 0)` | a functor | `T.if_then_else` | `if x > 0.0 { x } else { 0.0 }`, or [`select`](crate::language::select) |
//! | `x[ids[i]]` | `tl.load(x + i)` | `x(i)` | `x[ids[i]]` | `map(ids, y, \|i\| x[(i)])`: a [gather](crate::language::closures#gathers-and-scatters) |
//! | `y[ids[i]] = v` | `tl.store(y + i, v)` | `y(i) = v` | `y[ids[i]] = v` | [`scatter`](crate::language::scatter) |
//! | `atomicAdd` | `tl.atomic_add` | `atomicAdd` | `T.atomic_add` | `copy(x, y, how = "atomic_add")` |
//! | `old = atomicAdd(&n, 1)` | `old = tl.atomic_add(p, 1)` | `atomicAdd` | `T.atomic_add(…, return_prev=True)` | `let old = copy(1, n, how = "atomic_add")`: [between blocks](crate::language::control#between-blocks) |
//! | `atomicCAS` | `tl.atomic_cas` | `atomicCAS` | | [compare and exchange](crate::language::control#between-blocks) |
//! | `__threadfence()` and a flag | `sem="release"` | `Barrier` | | [`signal`](crate::language::signal), [`wait`](crate::language::wait) |
//! | `while (err > eps)` | `while err > eps` | `while` | `while` | [`while`](crate::language::control#loops-and-conditions) |
//! | `(a + b - 1) / b` | `tl.cdiv` | `ceil_div` | `T.ceildiv` | [`ceil_div`](crate::language::ceil_div) |
//! | `int n`, a size | `n` | `Shape` of run-time integers | `T.dynamic`, `T.symbolic` | `N`, a name in an extent |
//! | `__builtin_assume` | `tl.assume` | `CUTE_STATIC_ASSERT` | `T.assume` | [`assert`](crate::language::assert), [`at_most`](crate::language::at_most), [`at_least`](crate::language::at_least) |
//! | `#pragma unroll` | `tl.static_range` | `CUTE_UNROLL` | `T.unroll` | [`unroll`](crate::language::unroll) |
//! | `template <int BM>` | `BM: tl.constexpr` | `Int<128>{}` | a Python number | `const BM: usize = 128`: [constants](crate::language::kernels#constants-and-alternatives) |
//! | `p + offset` | `offs + k` | `domain_offset` | | [`shift`](crate::language::shift) |
//! | | `tl.trans`, `tl.permute` | `select<1, 0>` | | [`permute`](crate::language::permute) |
//! | | `tl.reshape`, in row-major order | `composition`, in column-major order | `T.reshape` | [`regroup`](crate::language::regroup), as CuTe orders elements |
//! | | `tl.broadcast_to` | stride 0 | | [`broadcast`](crate::language::broadcast) |
//! | `(i ^ j) * 8` | none | `Swizzle<3,3,3>` | `T.annotate_layout` | a derived layout, or [`swizzled`](crate::language::swizzled); padding by [`padded`](crate::language::padded) |
//! | inline `asm` | `tl.inline_asm_elementwise` | `asm` | `T.ptx_…` | [`asm`](crate::language::asm) |
//!
//! # GEMM, pipelines, clusters
//!
//! | elsewhere | here |
//! |---|---|
//! | GEMM, `GemmUniversal`, `tl.dot`, `T.gemm` | [`gemm`](crate::language::gemm) in a kernel; [`matmul_kernel!`](crate::matmul_kernel); the call `matmul` |
//! | accumulators, `tCrC` | `mma.accumulators((BM, BN), 0.0)` of [`tiled_mma`](crate::language::tiled_mma); [`full`](crate::language::full) on CUDA cores |
//! | `mma.sync`, `ldmatrix`, `TiledMMA`, `TiledCopy` | [`tiled_mma`](crate::language::tiled_mma); by name, [explicit instructions](crate::language::products#explicit-instructions) |
//! | wgmma, warpgroup, `SM90_64x128x16…` | `tiled_mma::<bf16, f32>(warpgroups = 2)` |
//! | main loop, collective mainloop, `T.Pipelined` | `for k in` [`pipelined`](crate::language::pipelined)`(0..n, stages = 3)` |
//! | `num_stages`, `StageCountAuto`, multistage | `stages = 3`; `most_stages = 16` |
//! | `cp.async`, `SM80_CP_ASYNC_…` | [`copy`](crate::language::copy) to shared memory |
//! | TMA, `cp.async.bulk.tensor`, tensor map, `make_tma_copy`, `tl.make_tensor_descriptor` | the same [`copy`](crate::language::copy) in a loop with `producer = warp`; tensor maps are made at launch |
//! | warp specialization, `KernelTmaWarpSpecialized`, `tl.range(warp_specialize=True)`, `T.ws` | `producer = warp`: [producers](crate::language::products#producers) |
//! | cooperative, ping-pong (`KernelTmaWarpSpecializedPingpong`) | `warpgroups = 2`; `persistent(alternate = true)`, the key `ping_pong` |
//! | mbarrier, `PipelineTmaAsync`, phase, `setmaxnreg` | none: generated with the ring |
//! | epilogue, epilogue visitor tree, `LinearCombination` | `copy(map(acc, \|x\| …), c)`; the keys `epilogue`, `bias`, `residual`, `alpha_beta`, `aux` |
//! | persistent kernel, `T.Persistent` | [`persistent`](crate::language::persistent) |
//! | tile scheduler, rasterization, threadblock swizzle, `tl.swizzle2d`, `T.use_swizzle`, `idx2crd` | [`raster`](crate::language::raster); [`walk`](crate::language::walk), which also determines the grid |
//! | split-K, `SplitKParallel`, `SPLIT_K` | `split = cluster(4)`: [split-K](crate::language::products#split-k-and-stream-k) |
//! | stream-K, `StreamKScheduler` | `split = blocks(4)` |
//! | sliced-K | `warps = (1, 1, 8)` |
//! | cluster shape, `num_ctas`, multicast | [`cluster`](crate::language::cluster); [multicast](crate::language::products#multicast) of copies is derived |
//! | distributed shared memory, `mapa`, `map_shared_rank` | [`peer`](crate::language::peer), [`cluster_reduce`](crate::language::cluster_reduce) |
//! | batched GEMM | the key `batched`; a third mode |
//! | grouped GEMM | no key; one launch over a [list of tensors](crate::language::kernels#lists-of-tensors) |
//! | block scaled FP8, `tl.dot_scaled` | the key `scales = blocks`, for e4m3 and e5m2 |
//! | mixed-input GEMM, W4A16, GPTQ, AWQ | the keys `b_dtype`, `group_size`, `zeros`; [narrow weights](crate::language::products#narrow-weights) |
//! | 3xTF32, `OpMultiplyAddFastF32`, `input_precision="tf32x3"` | the key `precision = f32x3`; `terms = 2` |
//! | implicit GEMM convolution | the kernels of `examples/pages` |
//! | flash attention | `examples/attention.rs`, `examples/attention_hopper.rs` |
//! | programmatic dependent launch, PDL, GDC, `griddepcontrol`, `launch_pdl=True`, `launch_with_pdl` | `#[kernel(overlaps)]`, the key `overlaps` |
//! | software pipelining by hand, modulo schedule | [`stage`](crate::language::stage) |
//!
//! # Tuning and tools
//!
//! | elsewhere | here |
//! |---|---|
//! | autotuning, `triton.autotune`, `Config`, `cutlass_profiler` | `#[kernel(choose(…))]`, a choice at each launch; [`tilewright tune`](crate::from_your_program#tuning) measures |
//! | heuristics | the estimate: `tilewright explain` shows its terms |
//! | occupancy, registers, spills | `tilewright inspect KERNEL --report --arch sm_90`: threads, shared memory, registers, spills; [`blocks_per_sm`](crate::language::blocks_per_sm) |
//! | coalescing, sectors, bank conflicts, wavefronts (`ncu`) | `kernel().report()`, and [lints](crate::language::lints#lints) |
//! | `TRITON_INTERPRET=1`, `compute-sanitizer` | `kernel().simulate(…)`: races, bounds, barriers, unwritten results |
//! | SASS, PTX, `cuobjdump`, `MLIR_ENABLE_DUMP` | `tilewright inspect KERNEL --sass`, `--ptx`, `--explain`; `kernel().source()` is the CUDA C |
//! | `print_latex` | `tilewright draw KERNEL --part …` |
//! | layout algebra: `composition`, `zipped_divide`, `logical_divide`, `blocked_product`, `coalesce`, `complement` | the same names, in kernels and in the crate `tilewright-layout` |
//! | AOT, `triton.compile`, `.so` | `tilewright export`: C, Rust, PyTorch |
//!
//! # What is absent
//!
//! | not here | instead |
//! |---|---|
//! | tcgen05, tensor memory (TMEM), CTA pairs | mma.sync on Blackwell |
//! | MXFP8, MXFP4, NVFP4 | `scales = blocks`, or scales in your own kernel |
//! | sparse `mma.sp` | none |
//! | textures, constant memory, dynamic parallelism | none |
//! | `grid.sync()` | another launch, or [the last block to arrive](crate::language::control#between-blocks) |
//! | `printf`, `tl.device_print`, `assert`, `tl.device_assert` | [`print`](crate::language::print), [`assert_device`](crate::language::assert_device) |
//! | AMD, `hip` | none |
//!
//! [Limits](crate::language::limits) lists what the language leaves out.
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
//! Here you write no indices. The generator derives the number of blocks from the tiles, and the bounds checks from the tensor.
//! It derives the distribution over threads and the vector width from the layout in memory. If the tile divides N, a variant
//! without checks runs.
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
//! # GEMM on tensor cores
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
//! [`matmul_kernel!`](crate::matmul_kernel) makes tuned GEMMs from keys.
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
//! - Mistakes are errors at your own tokens, while compiling. If you write a name of CUDA, Triton or CuTe, such as `threadIdx` or
//!   `tl.dot`, the error names its counterpart.
