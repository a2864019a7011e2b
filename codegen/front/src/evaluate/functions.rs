//! The functions that a kernel can call, as a table.

use super::Evaluator;
use super::args::Args;
use super::value::Value;
use crate::source::problem::Problem;

/// A function.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its usage, for messages.
    pub usage: &'static str,
    /// The names of its named arguments.
    pub named: &'static [&'static str],
    /// The most positional arguments.
    pub(super) most: usize,
    /// Is it a function of numbers, which applies to each element of tiles?
    pub(super) of_numbers: bool,
    /// The function that evaluates a call.
    pub(super) run: fn(&mut Evaluator, &Args) -> Result<Value, Problem>,
}

/// The named arguments of `pipelined`.
pub(super) const PIPELINED: &[&str] = &["stages", "most_stages", "fragments", "exits", "producer", "split"];

/// The functions that other kernels than instrumented ones leave out.
pub(super) const PROBES: &[&str] = &["assert_device", "print"];

/// The function counts its arguments itself.
const ANY: usize = usize::MAX;

const fn row(
    name: &'static str,
    usage: &'static str,
    named: &'static [&'static str],
    most: usize,
    run: fn(&mut Evaluator, &Args) -> Result<Value, Problem>,
) -> Function {
    Function { name, usage, named, most, of_numbers: false, run }
}

/// A function of numbers.
const fn number(
    name: &'static str,
    usage: &'static str,
    most: usize,
    run: fn(&mut Evaluator, &Args) -> Result<Value, Problem>,
) -> Function {
    Function { name, usage, named: &[], most, of_numbers: true, run }
}

/// Every function.
pub const FUNCTIONS: &[Function] = &[
    row("tile", "tile(tensor, (BM, BK), (block.x, _))", &["halo"], 3, Evaluator::tile_call),
    row(
        "parallelize",
        "parallelize(tensor, layout!((32, 8)), thread.x), with a projection such as (1, _) after it",
        &["ragged", "values"],
        4,
        Evaluator::parallelize_call,
    ),
    row("shared", "shared::<f32>(layout!((BM, BK) : (1, BM + 1)))", &[], 1, Evaluator::shared_call),
    row("registers", "registers::<f32>((8, 8), 0.0)", &[], 2, Evaluator::registers_call),
    row("registers_like", "registers_like(tensor, 0.0)", &[], 2, Evaluator::registers_like_call),
    row("full", "full::<f32>((BM, BN), 0.0)", &[], 2, Evaluator::full_call),
    row("iota", "iota(256), or iota((BM, BN), 1)", &[], 2, Evaluator::iota_call),
    row("threads", "threads(256)", &[], 1, Evaluator::threads_call),
    row(
        "tiled_mma",
        "tiled_mma::<bf16, f32>(warps = 8), or tiled_mma(\"mma_m16n8k16_bf16\", layout!((2, 4)))",
        &["warps", "warpgroups", "terms"],
        ANY,
        Evaluator::tiled_mma,
    ),
    row(
        "fragment_like",
        "fragment_like(mma.partition_a(sa, thread.x)), or fragment_like::<f32>(part, 0.0)",
        &[],
        2,
        Evaluator::fragment_like_call,
    ),
    row("unpack_int4", "unpack_int4::<i4, bf16>(bytes)", &[], 1, Evaluator::unpack_call),
    row("retile", "retile(fragment, rows)", &[], 2, Evaluator::retile_call),
    row(
        "copy",
        "copy(from, to), with fill = 0.0, how = \"staged\" or how = \"atomic_add\"",
        &["how", "fill", "clamp", "boundary_check", "order", "expected"],
        2,
        Evaluator::copy_call,
    ),
    row("fill", "fill(tensor, 0.0)", &[], 2, Evaluator::fill_call),
    row("shift", "shift(tile, (-1, 0))", &[], 2, Evaluator::shift_call),
    row("permute", "permute(tensor, (1, 0))", &[], 2, Evaluator::permute_call),
    row("regroup", "regroup(tile, (8, 16))", &[], 2, Evaluator::regroup_call),
    row("broadcast", "broadcast(bias, (BM, _))", &[], 2, Evaluator::broadcast_call),
    row("peer", "peer(tile, (block.x + 1) % 4)", &[], 2, Evaluator::peer_call),
    row("walk", "walk((a.size(0), b.size(0)), block.x)", &[], 2, Evaluator::walk_call),
    row("assert", "assert(N % 4 == 0)", &[], 1, Evaluator::assert_call),
    row(
        "assert_device",
        "assert_device(n < 8, \"n is small\"), or of a tile assert_device(x > 0.0, \"weights are positive\")",
        &[],
        2,
        Evaluator::assert_device_call,
    ),
    row("print", "print(x), or print(x, block = (1, 0))", &["block"], 1, Evaluator::print_call),
    row(
        "gemm",
        "gemm(a, b, &mut acc), with order = \"serpentine\" or with = (min, add)",
        &["order", "how", "with"],
        3,
        Evaluator::gemm_call,
    ),
    row("map", "map((x, y), |x, y| x + y)", &[], ANY, Evaluator::map_call),
    row(
        "scatter",
        "scatter(x, y, |x, at| ((at.1, at.0), x)), with how = \"atomic_add\"",
        &["how", "out_of_bounds", "order", "expected"],
        3,
        Evaluator::scatter_call,
    ),
    row("signal", "signal(flags[(i)]), or signal(flags[(i)], 2)", &[], 2, Evaluator::signal_call),
    row(
        "wait",
        "wait(flags[(i)], 1), or let seen = wait(tile(flags, 32, i), 1)",
        &["order"],
        2,
        Evaluator::wait_call,
    ),
    row(
        "sum",
        "sum(fragment, 1), with acc = f32 or out_of_bounds = 0.0",
        &["acc", "out_of_bounds"],
        ANY,
        Evaluator::reduce_call,
    ),
    row("maximum", "maximum(fragment, 1)", &["out_of_bounds"], ANY, Evaluator::reduce_call),
    row("minimum", "minimum(fragment, 1)", &["out_of_bounds"], ANY, Evaluator::reduce_call),
    row(
        "reduce",
        "reduce(x, 0.0, |a, b| a + b), with mode = 1 or out_of_bounds = 0.0",
        &["mode", "out_of_bounds"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "warp_sum",
        "warp_sum(fragment), with acc = f32 or lanes = 8",
        &["acc", "lanes", "out_of_bounds"],
        ANY,
        Evaluator::reduce_call,
    ),
    row("warp_maximum", "warp_maximum(fragment)", &["lanes", "out_of_bounds"], ANY, Evaluator::reduce_call),
    row("warp_minimum", "warp_minimum(fragment)", &["lanes", "out_of_bounds"], ANY, Evaluator::reduce_call),
    row(
        "warp_reduce",
        "warp_reduce(x, 0.0, |a, b| a + b), with lanes = 8 or out_of_bounds = 0.0",
        &["lanes", "out_of_bounds"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "warp_shuffle",
        "warp_shuffle(x, |lane| lane ^ 1), with lanes = 8",
        &["lanes"],
        2,
        Evaluator::lanes_call,
    ),
    row(
        "warp_ballot",
        "warp_ballot(x > 0.0), with lanes = 8",
        &["lanes", "out_of_bounds"],
        1,
        Evaluator::lanes_call,
    ),
    row("warp_match", "warp_match(n), with lanes = 8", &["lanes", "out_of_bounds"], 1, Evaluator::lanes_call),
    row(
        "block_sum",
        "block_sum(fragment), with acc = f32",
        &["acc", "out_of_bounds"],
        ANY,
        Evaluator::reduce_call,
    ),
    row("block_maximum", "block_maximum(fragment)", &["out_of_bounds"], ANY, Evaluator::reduce_call),
    row("block_minimum", "block_minimum(fragment)", &["out_of_bounds"], ANY, Evaluator::reduce_call),
    row(
        "block_reduce",
        "block_reduce(x, 0.0, |a, b| a + b), with out_of_bounds = 0.0",
        &["out_of_bounds"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "cluster_sum",
        "cluster_sum(fragment), with acc = f32 or per_block = true",
        &["acc", "out_of_bounds", "per_block"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "cluster_maximum",
        "cluster_maximum(fragment), with per_block = true",
        &["out_of_bounds", "per_block"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "cluster_minimum",
        "cluster_minimum(fragment), with per_block = true",
        &["out_of_bounds", "per_block"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "cluster_reduce",
        "cluster_reduce(x, 0.0, |a, b| a + b), with out_of_bounds = 0.0 or per_block = true",
        &["out_of_bounds", "per_block"],
        ANY,
        Evaluator::reduce_call,
    ),
    row(
        "scan",
        "scan(x, 0.0, |a, b| a + b), with mode = 1, exclusive = true, carry = &mut total, out_of_bounds = 0.0 or cluster = true",
        &["mode", "exclusive", "carry", "out_of_bounds", "cluster"],
        ANY,
        Evaluator::scan_call,
    ),
    row(
        "warp_scan",
        "warp_scan(x, 0.0, |a, b| a + b), with lanes = 8, exclusive = true, carry = &mut total or out_of_bounds = 0.0",
        &["lanes", "exclusive", "carry", "out_of_bounds"],
        ANY,
        Evaluator::scan_call,
    ),
    row(
        "block_scan",
        "block_scan(x, 0.0, |a, b| a + b), with exclusive = true, carry = &mut total or out_of_bounds = 0.0",
        &["exclusive", "carry", "out_of_bounds"],
        ANY,
        Evaluator::scan_call,
    ),
    row(
        "cluster_scan",
        "cluster_scan(x, 0.0, |a, b| a + b), with exclusive = true, carry = &mut total or out_of_bounds = 0.0",
        &["exclusive", "carry", "out_of_bounds"],
        ANY,
        Evaluator::scan_call,
    ),
    row("stage", "stage(1), or stage(1, order = 0)", &["order"], 1, Evaluator::stage_call),
    row("sync_threads", "sync_threads()", &[], 0, Evaluator::sync_threads_call),
    row("sync_cluster", "sync_cluster()", &[], 0, Evaluator::sync_cluster_call),
    row("cp_async_wait_all", "cp_async_wait_all()", &[], 0, Evaluator::cp_async_wait_all_call),
    row("cp_async_wait", "cp_async_wait(1)", &[], 1, Evaluator::cp_async_wait_call),
    row("cp_async_commit", "cp_async_commit()", &[], 0, Evaluator::cp_async_commit_call),
    row("at_most", "at_most(N, 8192)", &[], 2, Evaluator::at_most_call),
    row("at_least", "at_least(N, 4097)", &[], 2, Evaluator::at_least_call),
    row("blocks_per_sm", "blocks_per_sm(4)", &[], 1, Evaluator::blocks_per_sm_call),
    row("persistent", "persistent(), with alternate = true", &["alternate"], 0, Evaluator::persistent_call),
    row("raster", "raster(8)", &[], 1, Evaluator::raster_call),
    row("cluster", "cluster(8)", &[], 1, Evaluator::cluster_call),
    row("padded", "padded((BM, BK), 1)", &[], 2, Evaluator::padded_call),
    row("row_major", "row_major((BM, BK))", &[], 1, Evaluator::row_major_call),
    row("swizzled", "swizzled(3, 2, 3, layout!((32, 8)))", &[], 4, Evaluator::swizzled_call),
    row("composition", "composition(layout, tiler)", &[], 2, Evaluator::composition_call),
    row("logical_divide", "logical_divide(layout, tiler)", &[], 2, Evaluator::logical_divide_call),
    row("zipped_divide", "zipped_divide(layout, tiler)", &[], 2, Evaluator::zipped_divide_call),
    row("blocked_product", "blocked_product(block, copies)", &[], 2, Evaluator::blocked_product_call),
    row("raked_product", "raked_product(block, copies)", &[], 2, Evaluator::raked_product_call),
    row("coalesce", "coalesce(layout)", &[], 1, Evaluator::coalesce_call),
    row("ceil_div", "ceil_div(a, b)", &[], 2, Evaluator::ceil_div_call),
    number("min", "min(a, b), or of the elements of a tile minimum(x)", 2, Evaluator::extreme_call),
    number("max", "max(a, b), or of the elements of a tile maximum(x)", 2, Evaluator::extreme_call),
    number("exp", "exp(x)", 1, Evaluator::math_call),
    number("log", "log(x)", 1, Evaluator::math_call),
    number("sqrt", "sqrt(x)", 1, Evaluator::math_call),
    number("rsqrt", "rsqrt(x)", 1, Evaluator::math_call),
    number("tanh", "tanh(x)", 1, Evaluator::math_call),
    number("abs", "abs(x)", 1, Evaluator::math_call),
    number("sin", "sin(x)", 1, Evaluator::math_call),
    number("cos", "cos(x)", 1, Evaluator::math_call),
    number("exp2", "exp2(x)", 1, Evaluator::math_call),
    number("log2", "log2(x)", 1, Evaluator::math_call),
    number("pow", "pow(x, y)", 2, Evaluator::math_call),
    number("erf", "erf(x)", 1, Evaluator::math_call),
    number("fast_exp", "fast_exp(x)", 1, Evaluator::math_call),
    number("fast_log", "fast_log(x)", 1, Evaluator::math_call),
    number("fast_log2", "fast_log2(x)", 1, Evaluator::math_call),
    number("fast_sqrt", "fast_sqrt(x)", 1, Evaluator::math_call),
    number("fast_rsqrt", "fast_rsqrt(x)", 1, Evaluator::math_call),
    number("fast_tanh", "fast_tanh(x)", 1, Evaluator::math_call),
    number("fast_sin", "fast_sin(x)", 1, Evaluator::math_call),
    number("fast_cos", "fast_cos(x)", 1, Evaluator::math_call),
    number("fast_div", "fast_div(x, y)", 2, Evaluator::math_call),
    number("sigmoid", "sigmoid(x)", 1, Evaluator::math_call),
    number("silu", "silu(x)", 1, Evaluator::math_call),
    number("gelu", "gelu(x)", 1, Evaluator::math_call),
    number("gelu_tanh", "gelu_tanh(x)", 1, Evaluator::math_call),
    number("floor", "floor(x)", 1, Evaluator::math_call),
    number("ceil", "ceil(x)", 1, Evaluator::math_call),
    number("trunc", "trunc(x)", 1, Evaluator::math_call),
    number("round", "round(x)", 1, Evaluator::math_call),
    number("round_ties_even", "round_ties_even(x)", 1, Evaluator::math_call),
    number("fmod", "fmod(x, y)", 2, Evaluator::math_call),
    number("copysign", "copysign(size, sign)", 2, Evaluator::math_call),
    number("mul_high", "mul_high(a, b)", 2, Evaluator::math_call),
    number("count_ones", "count_ones(n)", 1, Evaluator::math_call),
    number("leading_zeros", "leading_zeros(n)", 1, Evaluator::math_call),
    number("bits", "bits::<u32>(x)", 1, Evaluator::bits_call),
    Function {
        named: &["model", "volatile"],
        ..number(
            "asm",
            "asm::<u32>(\"lop3.b32 %0, %1, %2, %3, 0x96;\", a, b, c, model = |a, b, c| a ^ b ^ c)",
            ANY,
            Evaluator::asm_call,
        )
    },
    number("fma", "fma(a, b, c)", 3, Evaluator::fma_call),
    number("select", "select(condition, a, b)", 3, Evaluator::select_call),
    row("unroll", "for i in unroll(0..4) { … }", &[], ANY, Evaluator::loop_call),
    row("pipelined", "for k in pipelined(0..n, stages = 3) { … }", PIPELINED, ANY, Evaluator::loop_call),
];
