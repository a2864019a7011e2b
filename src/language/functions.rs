//! The items of the language: arguments of kernels, and the functions that kernels call.

use std::convert::Infallible;
use std::marker::PhantomData;

/// An argument of a kernel: elements of one type, at coordinates of a shape.
///
/// A kernel reads `&Tensor<f32, (M, K)>` and writes `&mut Tensor<f32, (M, N)>`. `M` and `K` are known at launch;
/// integers and the kernel's constants are fixed. Rust does not accept an integer in a tuple of types: write
/// `Tensor<f32, (N, _4)>`, or braces, `Tensor<f32, {(N, 4)}>`. Extents can be computed,
/// `Tensor<i32, {N + 1}>` or `Tensor<f32, {(2 * M, ceil_div(N, 32))}>`, and a launch checks them. A tensor without
/// strides is column-major, with its own leading dimensions.
#[derive(Debug)]
pub struct Tensor<T, Shape, Stride = ()> {
    _nothing: Infallible,
    _types: PhantomData<(T, Shape, Stride)>,
}

/// A tensor or a part of it: the address of its elements, and their layout.
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

/// The functions. After `=>` is an example: elements of `x`, statements, and the resulting elements of `y`.
macro_rules! language {
    ($(
        $(#[$doc:meta])* fn $name:ident $(<$elem:ident>)? ($($arg:ident : $ty:ty),*) $(-> $result:ty)?
            $(=> $from:ident $given:tt, $($line:literal),+, $to:ident $made:tt)?;
    )*) => {
        $(
            $(#[$doc])*
            $(#[doc = concat!(
                "\n```\nuse tilewright::prelude::*;\n\n#[kernel]\nfn example(x: &Tensor<", stringify!($from), ", N>, y: &mut Tensor<",
                stringify!($to), ", N>) {\n    let (x, y) = (tile(x, 256, block.x), tile(y, 256, block.x));\n",
                $("    ", $line, "\n",)+
                "}\n\nlet x: &[", stringify!($from), "] = &", stringify!($given),
                ";\nlet done = example().simulate(&[Arg::tensor(x, [x.len()]), Arg::output::<", stringify!($to),
                ">([x.len()])])?;\nassert_eq!(done.get::<", stringify!($to), ">(\"y\")?, ", stringify!($made),
                ");\n# Ok::<(), tilewright::sim::Error>(())\n```"
            )])?
            pub fn $name $(<$elem>)? ($($arg: $ty),*) $(-> $result)? {
                $(let _ = $arg;)*
                panic!(concat!("`", stringify!($name), "` is called outside of a kernel"))
            }
        )*
    };
}

language! {
    /// One tile of a tensor: `tile(a, (BM, BK), (block.x, _))`. `_` keeps a mode of tiles, for a loop over it.
    /// `halo = (1, 0)` adds one element before and after the tile along the first mode and none along the second;
    /// `halo = ((1, 2), 0)` adds one element before and two after.
    fn tile(tensor: View, tiler: Nested, at: Nested) -> View;
    /// The part of a tile that one thread has: `parallelize(t, layout!((32, 8)), thread.x)`. A fourth
    /// argument is a projection: with `(1, _)` the tile is partitioned along rows only. `values = (1, 4)` gives each
    /// thread neighbouring elements, `ragged = true` allows threads that do not divide the tile: see
    /// [Parts of threads](super::parts#parts-of-threads).
    fn parallelize(tile: View, threads: Arrangement, thread: Number) -> View;
    /// A tile in shared memory: `shared::<f32>(layout!((BM, BK) : (1, BM + 1)))`. With a shape alone,
    /// `shared::<f32>((BM, BK))`, the generator derives the layout from the statements on whole tiles that use
    /// the tile, so that they have no bank conflicts.
    fn shared<T>(layout: Arrangement) -> View;
    /// A tile in registers, filled with a number: `registers::<f32>((8, 8), 0.0)`.
    fn registers<T>(shape: Nested, value: Number) -> View;
    /// A tile in registers of the shape and type of another: `registers_like(c, 0.0)`.
    fn registers_like(tile: View, value: Number) -> View;
    /// The tile moved by elements along each mode: `shift(tile, (-1, 0))`. Offsets may be any integers. With
    /// `(0, -(i * ld % 4))`, row `i` of a tensor, at `i * ld`, begins at an address aligned to vectors of four.
    fn shift(tile: View, by: Nested) -> View;
    /// The same elements with their modes in another order: `permute(a, (1, 0))` is the transpose.
    fn permute(tensor: View, order: Nested) -> View;
    /// The same elements in the same order, leftmost mode fastest, under another shape:
    /// `regroup(tile, (8, 16))`.
    fn regroup(tile: View, shape: Nested) -> View;
    /// Repeats a tile along new modes. `_` stands for the modes of the tile: `broadcast(bias, (BM, _))` is a matrix of BM equal
    /// rows.
    fn broadcast(tensor: View, shape: Nested) -> View;
    /// The same tile in the shared memory of another block of the [`cluster`]: `peer(tile, (block.x + 1) % 4)`. Blocks are counted from
    /// 0 along x. See [Clusters](super::reductions#clusters).
    fn peer(tile: View, block: Number) -> View;
    /// A precondition of the launch: `assert(N % 4 == 0)`, a condition on sizes. A launch with other sizes is refused, with an
    /// error that names them. A known divisor allows longer vectors in every variant. The condition is computed in 64 bits. If it
    /// overflows or divides by 0, the launch is refused too, unless an earlier operand decides, as in
    /// `assert(K == 0 || M % K == 0)`. A stride that is not used, as in a tensor of one row, satisfies assertions.
    fn assert(condition: Number)
        => f32 [3.0, 1.0], "assert(N % 2 == 0);", "copy(2.0 * x, y);", f32 [6.0, 2.0];
    /// The coordinates of a block's tile, in a raster order of tiles. It also determines the number of blocks.
    /// `let (i, j) = walk((ga.size(2), gb.size(2)), block.x)` takes tiles column by column, and so for more modes: the first is the fastest.
    /// `walk(layout!((4, 8) : (8, 1)), block.x)` takes tiles in the order of a layout. `walk(132, block.x)` launches 132
    /// blocks, in a kernel where no tile has `block.x` as its coordinate. Numbers of tiles may be computed from sizes,
    /// `walk(ceil_div(N, 64) + E, block.x)`: see [Lists of tensors](super::kernels#lists-of-tensors).
    fn walk(tiles: Nested, block: Number) -> Nested;
    /// A whole tile in registers, distributed over the threads of the block and filled with a number:
    /// `full::<f32>((BM, 1), f32::NEG_INFINITY)`. See [Whole tiles](super::tiles#whole-tiles).
    fn full<T>(shape: Nested, value: Number) -> View;
    /// A whole tile in registers of `i32`, with the coordinates along a mode: `iota(256)` is 0 to 255, `iota((BM, BN), 1)` the
    /// column of each element. See [Coordinates of elements](super::closures#coordinates-of-elements).
    fn iota(shape: Nested, mode: Number) -> View
        => f32 [3.0, 1.0], "copy(x + iota(256) as f32, y);", f32 [3.0, 2.0];
    /// The number of threads of the block, if no thread layout determines it: `threads(512)`, or
    /// `#[kernel(threads = 512)]`. The default is 256.
    fn threads(count: Number)
        => f32 [3.0, 1.0], "threads(64); // four elements for each", "copy(2.0 * x, y);", f32 [6.0, 2.0];
    /// A matrix instruction, and the warps over which it is tiled. `tiled_mma::<bf16, f32>(warps = 8)` is the best
    /// instruction for these types; `warps = (4, 2)` arranges the warps over rows and columns, and `warps = (1, 1, 8)` over K, whose
    /// parts are added after the last product. With `terms = 2` elements of `f32` are sums of two numbers of `tf32`.
    /// `tiled_mma::<bf16, f32>(warpgroups = 2)` is wgmma: see [Producers](super::products#producers).
    /// `tiled_mma("mma_m16n8k16_bf16", layout!((2, 4)))` names the instruction.
    ///
    /// `mma.accumulators((BM, BN), 0.0)` is a whole tile of accumulators, for [`gemm`] and functions.
    /// `mma.partition_a(sa, thread.x)`, `partition_b` and `partition_c` are the parts of a thread.
    /// `mma.partition_a(sa, thread.x, how = "ldmatrix_x4")` are the rows whose addresses the thread gives to ldmatrix. See
    /// [Explicit instructions](super::products#explicit-instructions).
    fn tiled_mma<T>(name: Nested, warps: Arrangement) -> View;
    /// Registers for a thread's part of an operand: `fragment_like(mma.partition_a(sa, thread.x))`, or with
    /// another type and an initial value, `fragment_like::<f32>(mma.partition_c(gc, thread.x), 0.0)`. Elements of
    /// 8 and 16 bits are packed, as instructions require. See [Explicit instructions](super::products#explicit-instructions).
    fn fragment_like(part: View, value: Number) -> View;
    /// The numbers of four bits in a tile of bytes, as a tile in registers: `unpack_int4::<i4, bf16>(bytes)`. Each byte of `u8` has two, `i4`
    /// (-8 to 7) or `u4` (0 to 15), adjacent along the last mode, the first in its lower bits. They become `f16` or `bf16`, exactly:
    /// see [Narrow weights](super::products#narrow-weights).
    fn unpack_int4<T>(bytes: View) -> View;
    /// A view of a fragment in the order in which its load instruction fills it, which may be the operands of several
    /// products: `copy(rows, retile(fa, rows), how = "ldmatrix_x4")`.
    fn retile(fragment: View, rows: View) -> View;
    /// Copies every element, and converts it to the type of the target as `as` does. Elements of two parts correspond in the order
    /// of their modes: parts of different thread layouts rearrange a tile, which the lint [`rearranged`](super::lints#lints) reports.
    /// A copy from global to shared memory is asynchronous: it is in flight until a wait. Out-of-bounds elements of the source are 0,
    /// or the value of `fill = …`, or with `clamp = true` the nearest element in bounds. With `boundary_check = 1` only coordinates along
    /// mode 1 of the tensor are compared with its extent, and elements that are out of bounds along other modes are any elements of the
    /// tensor. Only products may read them, in a loop along mode 1: results of rows that are out of bounds are not stored. In a pipelined loop,
    /// `how = "staged"` copies through registers, which suits copies that transpose the tile.
    /// `how = "realigned"` loads vectors of a thread's neighbouring elements that begin between aligned addresses, such as
    /// `shift(tile(w, (1, 4096), (0, 0)), (0, -(i * ldx % 8)))`: each as two aligned vectors and a shift of their bytes. The target is
    /// `registers_like(…)`.
    ///
    /// `how = "ldmatrix_x4"`, or another ldmatrix or stmatrix, copies between rows in shared memory and a
    /// fragment: see [Explicit instructions](super::products#explicit-instructions).
    ///
    /// A number can be copied as well: `copy(1, counter, how = "atomic_add")`.
    ///
    /// `how = "atomic_add"` adds atomically: threads and blocks may add to the same elements. Other atomic updates are
    /// `"atomic_min"`, `"atomic_max"`, `"atomic_and"`, `"atomic_or"`, `"atomic_xor"`, `"atomic_exchange"` and
    /// `"atomic_compare_exchange"`, for the types that the hardware supports. Out-of-bounds elements are skipped.
    /// Floating-point sums are rounded in the order of arrival, so they differ from run to run:
    /// `#[kernel(deny(deterministic))]` refuses them.
    ///
    /// `let before = copy(1, count[(0)], how = "atomic_add")` returns the value before the update. Such an update releases earlier
    /// writes of the block, and acquires writes that other blocks have released. `order = "relaxed"`, `"acquire"`, `"release"` or
    /// `"acq_rel"` sets another order. See [Between blocks](super::control#between-blocks).
    fn copy(from: View, to: View);
    /// Sets every element to a number, which may be a tile of one element.
    fn fill(tile: View, value: Number);
    /// Adds the product A·Bᵀ of two tiles to a tile in registers: `gemm(a, b, &mut acc)`. The order of its
    /// multiply-adds is `order = "plain"`, or `"serpentine"`, `"rows"`, `"row_serpentine"`. Operands are
    /// (rows, k) and (columns, k). A thread must have the same k-steps of both, and its accumulators must be
    /// copied to the rows and columns of its operands. The generator checks this by the names of extents: `M` of A and
    /// `M` of C are the same rows, and a mismatch is an error. `with = (min, add)` uses other operations: see [Products with
    /// other operations](super::products#products-with-other-operations). `how = "mma_m16n8k16_bf16"` multiplies
    /// fragments by an instruction: see [Explicit instructions](super::products#explicit-instructions).
    fn gemm(a: View, b: View, acc: View);
    /// Applies a closure to the elements of one tile, or of several: `map((x, y), |x, y| x + y)`. The result
    /// has the type of the closure's value. A tuple of values makes a tuple of tiles, and a condition makes a mask.
    /// `map(x, y, |x| 2.0 * x)` writes to `y`; the value must have the type of `y`. Modes of extent 1 are
    /// broadcast. A further parameter is the element's [coordinates](super::closures#coordinates-of-elements):
    /// `map(x, |x, at| …)`.
    fn map(tiles: View, with: fn(Number) -> Number) -> View;
    /// Stores each element at an index that depends on it: the closure returns an index and a value,
    /// `scatter(x, y, |x, at| ((at.1, at.0), x))`. `how = "atomic_add"`, or another atomic update, changes the old value. See
    /// [Gathers and scatters](super::closures#gathers-and-scatters).
    fn scatter(tiles: View, to: View, with: fn(Number) -> (Nested, Number));
    /// Sums along a mode of a fragment, `sum(x, 1)`, along several modes, `sum(x, (0, 2))`, or of all elements, `sum(x)`.
    /// `acc = bf16` sets the accumulator type: see [Types](super::types#types). Out-of-bounds elements are left out: see
    /// [Reductions](super::reductions#reductions).
    fn sum(fragment: View, mode: Number) -> View;
    /// Combines the elements of a fragment or a whole tile, or of several together, by an associative and
    /// commutative closure: `reduce(x, 0.0, |a, b| a + b)`, with `mode = 1` along one mode. The second argument is the
    /// identity. See [Reductions](super::reductions#reductions).
    fn reduce(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View;
    /// The largest element along a mode of a fragment.
    fn maximum(fragment: View, mode: Number) -> View
        => f32 [3.0, 1.0], "copy(x - maximum(x), y);", f32 [0.0, -2.0];
    /// The smallest element along a mode of a fragment.
    fn minimum(fragment: View, mode: Number) -> View
        => f32 [3.0, 1.0], "copy(x - minimum(x), y);", f32 [2.0, 0.0];
    /// Sums each element over the threads of a warp, or over `lanes = 8` neighbours; `acc = …` as in [`sum`].
    fn warp_sum(fragment: View) -> View;
    /// [`reduce`] of each element over the threads of a warp, or over `lanes = 8` neighbours; every lane gets
    /// the result.
    fn warp_reduce(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View
        => f32 [3.0, 2.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x + warp_reduce(x, 1.0, |a, b| a * b), y);",
            f32 [9.0, 8.0];
    /// The largest of each element over the threads of a warp.
    fn warp_maximum(fragment: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x - warp_maximum(x), y);",
            f32 [0.0, -2.0];
    /// The smallest of each element over the threads of a warp.
    fn warp_minimum(fragment: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x - warp_minimum(x), y);",
            f32 [2.0, 0.0];
    /// Sums each element over the threads of the block; every thread gets the sum. `acc = …` as in [`sum`].
    fn block_sum(fragment: View) -> View;
    /// [`reduce`] of each element over the threads of the block; every thread gets the result.
    fn block_reduce(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View
        => f32 [3.0, 2.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x + block_reduce(x, 1.0, |a, b| a * b), y);",
            f32 [9.0, 8.0];
    /// The largest of each element over the threads of the block; every thread gets it.
    fn block_maximum(fragment: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x - block_maximum(x), y);",
            f32 [0.0, -2.0];
    /// The smallest of each element over the threads of the block; every thread gets it.
    fn block_minimum(fragment: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x - block_minimum(x), y);",
            f32 [2.0, 0.0];
    /// Sums each element over all threads of the cluster; every thread of its blocks gets the sum. With
    /// `per_block = true` all threads of a block have the same elements, and each block contributes once. See
    /// [Clusters](super::reductions#clusters).
    fn cluster_sum(fragment: View) -> View;
    /// [`reduce`] of each element over the threads of the cluster; every thread gets the result. With
    /// `per_block = true` each block contributes once, as in [`cluster_sum`].
    fn cluster_reduce(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View
        => f32 [3.0, 2.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x + cluster_reduce(x, 1.0, |a, b| a * b), y);",
            f32 [9.0, 8.0];
    /// The largest of each element over the threads of the cluster; every thread gets it.
    fn cluster_maximum(fragment: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x - cluster_maximum(x), y);",
            f32 [0.0, -2.0];
    /// The smallest of each element over the threads of the cluster; every thread gets it.
    fn cluster_minimum(fragment: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(x - cluster_minimum(x), y);",
            f32 [2.0, 0.0];
    /// The element of another lane: `warp_shuffle(x, |lane| lane ^ 1)`, where `lane` is the thread's own lane. The lane may also be
    /// a tile of integers, one for each element, or a number. It is taken modulo 32, or modulo 8 with `lanes = 8`, so that
    /// `|lane| lane + 1` rotates. See [Lanes](super::parts#lanes).
    fn warp_shuffle(part: View, lane: fn(Number) -> Number) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(warp_shuffle(x, |lane| lane ^ 1), y);",
            f32 [1.0, 3.0];
    /// A `u32` with a bit for each lane of the warp, or of `lanes = 8` neighbours: 1 where the condition is true.
    /// Out-of-bounds elements are left out; if they are not known, make the condition false for them and write `out_of_bounds = false`.
    /// See [Lanes](super::parts#lanes).
    fn warp_ballot(condition: View) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "map(warp_ballot(x > 2.0), y, |votes| votes as f32);",
            f32 [1.0, 1.0];
    /// A `u32` with a bit for each lane of the warp, or of `lanes = 8` neighbours, that has the same integer. Out-of-bounds elements
    /// are left out, and get 0; if they are not known, `out_of_bounds = 0` lets them take part. See [Lanes](super::parts#lanes).
    fn warp_match(part: View) -> View
        => f32 [3.0, 1.0, 3.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "map(warp_match(map(x, |x| x as i32)), y, |same| same as f32);",
            f32 [5.0, 2.0, 5.0];
    /// Combines each element with all elements before it, by an associative closure with its identity:
    /// `scan(x, 0.0, |a, b| a + b, mode = 1)`. See [Scans](super::reductions#scans).
    fn scan(tiles: View, identity: Number, with: fn(Number, Number) -> Number) -> View;
    /// [`scan`] of each element over the lanes of a warp, or over `lanes = 8` neighbours.
    fn warp_scan(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(warp_scan(x, 0.0, |a, b| a + b), y);",
            f32 [3.0, 4.0];
    /// [`scan`] of each element over the threads of the block.
    fn block_scan(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(block_scan(x, 0.0, |a, b| a + b), y);",
            f32 [3.0, 4.0];
    /// [`scan`] of each element over the threads of the cluster, its blocks in the order of their indices.
    fn cluster_scan(fragments: View, identity: Number, with: fn(Number, Number) -> Number) -> View
        => f32 [3.0, 1.0],
            "let (x, y) = (parallelize(x, layout!(256), thread.x), parallelize(y, layout!(256), thread.x));",
            "copy(cluster_scan(x, 0.0, |a, b| a + b), y);",
            f32 [3.0, 4.0];
    /// Adds 1, or the second argument, to a flag, which is one `i32` of a tensor. Blocks that wait for the flag see all earlier
    /// writes of this block. See [Between blocks](super::control#between-blocks).
    fn signal(flag: View, add: Number);
    /// Waits until a flag has at least this value, `wait(flags[(i)], 1)`, and then sees all writes before its [`signal`]s.
    /// `let seen = wait(tile(words, 256, i), 1)` waits for every element of a tile, or of a thread's part, and has the elements.
    /// Elements out of bounds are not waited for, and are 0. With `order = "relaxed"` it orders no other accesses. See [Between
    /// blocks](super::control#between-blocks).
    fn wait(flag: View, least: Number);
    /// The rest of a loop's body belongs to this stage: `stage(1)` runs it one step later than stage 0, beside statements of the
    /// next iteration; `stage(1, order = 0)` sets its position within a step. See
    /// [Stages](super::control#stages).
    fn stage(number: Number);
    /// Waits until all threads of the block have arrived.
    fn sync_threads();
    /// Waits until all threads of the blocks of a [`cluster`] have arrived. Then each sees what the others wrote to shared memory. See
    /// [Clusters](super::reductions#clusters).
    fn sync_cluster();
    /// Waits until every copy in flight is complete.
    fn cp_async_wait_all();
    /// Waits until at most this many commit groups are in flight.
    fn cp_async_wait(groups: Number)
        => f32 [3.0, 1.0],
            "let (s, t) = (shared::<f32>(layout!(256)), layout!(256));",
            "copy(parallelize(x, t, thread.x), parallelize(s, t, thread.x));",
            "cp_async_commit();",
            "cp_async_wait(0);",
            "sync_threads();",
            "copy(parallelize(s, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// Ends a commit group.
    fn cp_async_commit()
        => f32 [3.0, 1.0],
            "let (s, t) = (shared::<f32>(layout!(256)), layout!(256));",
            "copy(parallelize(x, t, thread.x), parallelize(s, t, thread.x));",
            "cp_async_commit();",
            "cp_async_wait(0);",
            "sync_threads();",
            "copy(parallelize(s, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// A condition that is checked while the kernel runs: `assert_device(n < 8, "n is small")` of integers, or of each element of a tile
    /// that is in bounds, `assert_device(x > 0.0, "weights are positive")`. The simulator checks it. A launch does so in programs that
    /// [ask for it](crate::from_your_program#seeing-inside-of-a-kernel); other kernels are what they are without it.
    fn assert_device(condition: Number, text: Nested)
        => f32 [4.0, 9.0], "assert_device(x >= 0.0, \"weights are positive\");", "map(x, y, |x| sqrt(x));", f32 [2.0, 3.0];
    /// Prints a tile in its own coordinates, or a number, for the first block or the one that is named: `print(x, block = (1, 0))`.
    /// Elements out of bounds are left out. It prints where [`assert_device`] is checked.
    fn print(tile: View)
        => f32 [4.0, 9.0], "print(x);", "map(x, y, |x| sqrt(x));", f32 [2.0, 3.0];
    /// Refuses launches with a larger size: `at_most(N, W)`, in a kernel whose tile of W elements must cover a whole row.
    fn at_most(size: Number, limit: Number);
    /// Refuses launches with a smaller size: `at_least(N, 4097)`. Elements that are in bounds for all accepted sizes, such as all
    /// elements of a thread but its last, need no bounds check. `at_least(N, 0)`: the kernel serves launches with `N = 0` as well.
    fn at_least(size: Number, limit: Number)
        => f32 [3.0, 1.0], "at_least(N, 2);", "copy(2.0 * x, y);", f32 [6.0, 2.0];
    /// The least number of blocks per multiprocessor, for `__launch_bounds__`, which limits the registers of a thread.
    /// With 0 the compiler decides.
    fn blocks_per_sm(blocks: Number)
        => f32 [3.0, 1.0], "blocks_per_sm(4);", "copy(2.0 * x, y);", f32 [6.0, 2.0];
    /// A persistent kernel: a launch has only the number of blocks that the device runs at once, and each block executes the
    /// kernel for one tile of the grid after another. A producer's copies for the next tile overlap the end of the current tile:
    /// see [Producers](super::products#producers). If the size of a cluster does not divide the number of tiles along x, blocks
    /// of the last cluster without a tile take part in its copies and exchanges, but do not write to global memory.
    ///
    /// With `alternate = true` a kernel with a producer has twice the threads: two groups of consumers, of up to three warpgroups
    /// each, take the tiles alternately. One multiplies while the other stores its results.
    fn persistent();
    /// Takes the tiles along x and y in bands of this number of rows, or rows of clusters, each band column by column. Concurrent
    /// blocks then share rows and columns of operands in the L2 cache. Persistent kernels take bands of 8 by default.
    fn raster(bands: Number)
        => f32 [3.0, 1.0], "raster(4);", "copy(2.0 * x, y);", f32 [6.0, 2.0];
    /// Launches clusters of this number of neighbouring blocks along x, from 1 to 16: see
    /// [Clusters](super::reductions#clusters). More than 8 blocks are not portable, and more than 1 need `sm_90`.
    fn cluster(blocks: Number);
    /// A column-major layout with unused elements between columns: `padded((BM, BK), 1)`.
    fn padded(shape: Nested, pad: Number) -> Arrangement;
    /// A row-major layout.
    fn row_major(shape: Nested) -> Arrangement;
    /// A layout whose offsets are swizzled: `swizzled(3, 2, 3, layout!((32, 8)))`.
    fn swizzled(bits: Number, base: Number, shift: Number, layout: Arrangement) -> Arrangement;
    /// The composition of two layouts.
    fn composition(layout: Arrangement, tiler: Nested) -> Arrangement
        => f32 [3.0, 1.0],
            "let t = composition(layout!(256), layout!(128)); // 128:1",
            "copy(parallelize(x, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// Divides a layout into tiles.
    fn logical_divide(layout: Arrangement, tiler: Nested) -> Arrangement
        => f32 [3.0, 1.0],
            "let t = coalesce(logical_divide(layout!(128), 32)); // of (32,4):(1,32)",
            "copy(parallelize(x, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// Divides a layout into tiles: the first mode of the result is the tile, and the second mode counts the tiles.
    fn zipped_divide(layout: Arrangement, tiler: Nested) -> Arrangement
        => f32 [3.0, 1.0],
            "let t = coalesce(zipped_divide(layout!(128), 32)); // of (32,4):(1,32)",
            "copy(parallelize(x, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// Copies of a block, side by side.
    fn blocked_product(block: Arrangement, copies: Arrangement) -> Arrangement
        => f32 [3.0, 1.0],
            "let t = blocked_product(layout!(32), layout!(4)); // (32,4):(1,32)",
            "copy(parallelize(x, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// Copies of a block, interleaved.
    fn raked_product(block: Arrangement, copies: Arrangement) -> Arrangement
        => f32 [3.0, 1.0],
            "let t = raked_product(layout!(32), layout!(4)); // (4,32):(32,1)",
            "copy(parallelize(x, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// The same function from coordinates to offsets, with the fewest modes.
    fn coalesce(layout: Arrangement) -> Arrangement
        => f32 [3.0, 1.0],
            "let t = coalesce(layout!((8, 16))); // 128:1",
            "copy(parallelize(x, t, thread.x), parallelize(y, t, thread.x));",
            f32 [3.0, 1.0];
    /// A quotient, rounded up.
    fn ceil_div(a: Number, b: Number) -> Number
        => f32 [1.0, 2.0], "map(x, y, |x| x + ceil_div(N, 4) as f32);", f32 [2.0, 3.0];
    /// The smaller of two numbers.
    fn min(a: Number, b: Number) -> Number
        => f32 [1.0, 3.0], "map(x, y, |x| min(x, 2.0));", f32 [1.0, 2.0];
    /// The larger of two numbers.
    fn max(a: Number, b: Number) -> Number
        => f32 [1.0, 3.0], "map(x, y, |x| max(x, 2.0));", f32 [2.0, 3.0];
    /// e to this power. For the accuracy of functions see
    /// [Accuracy](super::types#accuracy).
    fn exp(x: Number) -> Number
        => f32 [0.0, 1.0], "map(x, y, |x| exp(x));", f32 [1.0, 2.7182817];
    /// 2 to this power.
    fn exp2(x: Number) -> Number
        => f32 [0.5, 3.0], "map(x, y, |x| exp2(x));", f32 [1.4142135, 8.0];
    /// The natural logarithm.
    fn log(x: Number) -> Number
        => f32 [1.0, 2.0], "map(x, y, |x| log(x));", f32 [0.0, 0.6931472];
    /// The logarithm to the base 2.
    fn log2(x: Number) -> Number
        => f32 [0.5, 8.0], "map(x, y, |x| log2(x));", f32 [-1.0, 3.0];
    /// The square root.
    fn sqrt(x: Number) -> Number
        => f32 [2.0, 9.0], "map(x, y, |x| sqrt(x));", f32 [1.4142135, 3.0];
    /// One over the square root.
    fn rsqrt(x: Number) -> Number
        => f32 [4.0, 0.25], "map(x, y, |x| rsqrt(x));", f32 [0.5, 2.0];
    /// x to the power of y.
    fn pow(x: Number, y: Number) -> Number
        => f32 [2.0, -2.0], "map(x, y, |x| pow(x, 3.0));", f32 [8.0, -8.0];
    /// The hyperbolic tangent.
    fn tanh(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| tanh(x));", f32 [0.0, 1.0];
    /// The sine.
    fn sin(x: Number) -> Number
        => f32 [0.0, 1.0], "map(x, y, |x| sin(x));", f32 [0.0, 0.84147096];
    /// The cosine.
    fn cos(x: Number) -> Number
        => f32 [0.0, 1.0], "map(x, y, |x| cos(x));", f32 [1.0, 0.5403023];
    /// The error function, 2/√π ∫₀ˣ exp(-t²) dt.
    fn erf(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| erf(x));", f32 [0.0, 1.0];
    /// eˣ by two instructions, in `f32`: within 2 + |1.2 x| ulp. See [Accuracy](super::types#accuracy).
    fn fast_exp(x: Number) -> Number
        => f32 [0.0, 1.0], "map(x, y, |x| floor(8.0 * fast_exp(x)));", f32 [8.0, 21.0];
    /// The natural logarithm by two instructions, in `f32`. See [Accuracy](super::types#accuracy).
    fn fast_log(x: Number) -> Number
        => f32 [1.0, 8.0], "map(x, y, |x| floor(100.0 * fast_log(x)));", f32 [0.0, 207.0];
    /// The logarithm to the base 2 by one instruction, in `f32`. See [Accuracy](super::types#accuracy).
    fn fast_log2(x: Number) -> Number
        => f32 [1.0, 8.0], "map(x, y, |x| floor(100.0 * fast_log2(x)));", f32 [0.0, 300.0];
    /// The square root by one instruction, in `f32`, within 1 ulp.
    fn fast_sqrt(x: Number) -> Number
        => f32 [0.0, 2.25], "map(x, y, |x| floor(100.0 * fast_sqrt(x)));", f32 [0.0, 150.0];
    /// 1/√x by one instruction, in `f32`, within 2 ulp; infinite for magnitudes below 2⁻¹²⁶, for which [`rsqrt`] takes three
    /// more instructions.
    fn fast_rsqrt(x: Number) -> Number
        => f32 [1.0, 4.0], "map(x, y, |x| floor(100.0 * fast_rsqrt(x)));", f32 [100.0, 50.0];
    /// The hyperbolic tangent by one instruction, in `f32`, with a relative error of 2⁻¹¹.
    fn fast_tanh(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| floor(100.0 * fast_tanh(x)));", f32 [0.0, 100.0];
    /// The sine by two instructions, in `f32`, for −π to π: with an absolute error of 2⁻²¹. See
    /// [Accuracy](super::types#accuracy).
    fn fast_sin(x: Number) -> Number
        => f32 [0.0, 1.0], "map(x, y, |x| floor(100.0 * fast_sin(x)));", f32 [0.0, 84.0];
    /// The cosine by two instructions, in `f32`, for −π to π: with an absolute error of 2⁻²¹. See
    /// [Accuracy](super::types#accuracy).
    fn fast_cos(x: Number) -> Number
        => f32 [0.0, 1.0], "map(x, y, |x| floor(100.0 * fast_cos(x)));", f32 [100.0, 54.0];
    /// A quotient by two instructions, in `f32`, within 2 ulp for divisors from 2⁻¹²⁶ to 2¹²⁶. For larger
    /// divisors it is 0. See [Accuracy](super::types#accuracy).
    fn fast_div(x: Number, y: Number) -> Number
        => f32 [1.0, 3.0], "map(x, y, |x| floor(100.0 * fast_div(x, 4.0)));", f32 [25.0, 75.0];
    /// 1 / (1 + exp(-x)).
    fn sigmoid(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| sigmoid(x));", f32 [0.5, 1.0];
    /// x / (1 + exp(-x)); NaN for -∞.
    fn silu(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| silu(x));", f32 [0.0, 100.0];
    /// x/2 (1 + erf(x/√2)), as GELU is usually defined; NaN for -∞.
    fn gelu(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| gelu(x));", f32 [0.0, 100.0];
    /// The approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))); NaN for -∞.
    fn gelu_tanh(x: Number) -> Number
        => f32 [0.0, 100.0], "map(x, y, |x| gelu_tanh(x));", f32 [0.0, 100.0];
    /// The absolute value.
    fn abs(x: Number) -> Number
        => f32 [-1.5, 2.0], "map(x, y, |x| abs(x));", f32 [1.5, 2.0];
    /// The absolute value of the first number with the sign of the second.
    fn copysign(size: Number, sign: Number) -> Number
        => f32 [-1.5, 2.0], "map(x, y, |x| copysign(3.0, x));", f32 [-3.0, 3.0];
    /// The number rounded down to an integer.
    fn floor(x: Number) -> Number
        => f32 [-1.5, 1.5], "map(x, y, |x| floor(x));", f32 [-2.0, 1.0];
    /// The number rounded up to an integer.
    fn ceil(x: Number) -> Number
        => f32 [-1.5, 1.5], "map(x, y, |x| ceil(x));", f32 [-1.0, 2.0];
    /// The number rounded towards 0.
    fn trunc(x: Number) -> Number
        => f32 [-1.5, 1.5], "map(x, y, |x| trunc(x));", f32 [-1.0, 1.0];
    /// The nearest integer; halves are rounded away from 0.
    fn round(x: Number) -> Number
        => f32 [-2.5, 0.5], "map(x, y, |x| round(x));", f32 [-3.0, 1.0];
    /// The nearest integer; halves are rounded to the even one.
    fn round_ties_even(x: Number) -> Number
        => f32 [-2.5, 0.5], "map(x, y, |x| round_ties_even(x));", f32 [-2.0, 0.0];
    /// The remainder of x after whole multiples of y, with the sign of x: `x % y`, exactly.
    fn fmod(x: Number, y: Number) -> Number
        => f32 [-3.5, 3.5], "map(x, y, |x| fmod(x, 2.0));", f32 [-1.5, 1.5];
    /// The upper half of the product of two integers: the upper 32 bits of 64, or the upper 64 of 128.
    fn mul_high(a: Number, b: Number) -> Number
        => i32 [3, 1000000], "map(x, y, |x| mul_high(x, x));", i32 [0, 232];
    /// The number of set bits of an integer. Of a constant it is a constant: `for i in unroll(0..count_ones(N - 1))` runs log2(N)
    /// times, if N is a power of two.
    fn count_ones(n: Number) -> Number
        => i32 [7, -1], "map(x, y, |x| count_ones(x));", i32 [3, 32];
    /// The number of zero bits before the first set bit of an integer; the number of its bits for 0. Of a constant it is a
    /// constant, and counts 32 bits.
    fn leading_zeros(n: Number) -> Number
        => i32 [7, 0], "map(x, y, |x| leading_zeros(x));", i32 [29, 32];
    /// The bits of a number of 4 or 8 bytes, as another type of this size: `bits::<u32>(x)`, `bits::<f64>(n)`.
    fn bits<T>(x: Number) -> Number
        => f32 [1.0, -2.0], "map(x, y, |x| bits::<u32>(x));", u32 [0x3f80_0000, 0xc000_0000];
    /// Instructions of PTX as a function of numbers, in an `unsafe` kernel: `asm::<u32>("lop3.b32 %0, %1, %2, %3, 0x96;", a, b, c,
    /// model = |a, b, c| a ^ b ^ c)`. See [Instructions of PTX](super::closures#instructions-of-ptx).
    fn asm<T>(text: Nested, operands: Number) -> Number;
    /// a·b + c, rounded once.
    fn fma(a: Number, b: Number, c: Number) -> Number
        => f32 [1.0, 3.0], "map(x, y, |x| fma(x, 2.0, 1.0));", f32 [3.0, 7.0];
    /// One of two numbers: `select(x > 0.0, x, 0.0)`.
    fn select(condition: Number, then: Number, other: Number) -> Number
        => f32 [-1.5, 2.0], "map(x, y, |x| select(x > 0.0, x, 0.0));", f32 [0.0, 2.0];
    /// A loop that is unrolled at compile time: `for i in unroll(0..4) { … }`.
    fn unroll(range: Number) -> Number;
    /// A software-pipelined loop: copies from global to shared memory run `stages - 1` iterations ahead. You write no waits or
    /// barriers in its body: `for k in pipelined(0..ga.size(2), stages = 3) { … }`. With `most_stages = 16` instead there are the
    /// stages that fit in shared memory, at most 16.
    ///
    /// If the body is one product, `fragments = 2` loads its operands from shared memory to registers one k-step ahead, across
    /// iterations too. A loop-exit test after each k-step then keeps nvcc from interleaving k-steps; `exits = false` omits it.
    /// With `producer = warp` a separate warp copies in bulk: see [Producers](super::products#producers).
    fn pipelined(range: Number, stages: Number) -> Number;
}
