//! Help texts of messages: words of other languages and their counterparts here, the forms of conditions,
//! the sizes known while compiling. It only makes texts, and changes no kernel.

use super::functions::FUNCTIONS;
use super::integer;
use super::value::Value;
use crate::source::ast::{Binary, Name};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::tile::Expr;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::typing::Type;

/// Words of CUDA, Triton and CuTe for variables and functions, and their counterparts here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["blockIdx"], "the block's coordinates are `block.x`, `block.y` and `block.z`"),
    (
        &["threadIdx"],
        "the thread's number is `thread.x`; parallelize(tile, layout!((32, 8)), thread.x) gives it two modes",
    ),
    (&["blockDim"], "a block has as many threads as its thread layouts: 256 with layout!((32, 8))"),
    (
        &["grid", "gridDim", "num_programs"],
        "the grid has one block for each tile that `block.x` and `block.y` name in `tile`",
    ),
    (&["program_id"], "write `block.x`, `block.y` or `block.z`"),
    (
        &["tl", "triton", "cute", "cuda", "np", "numpy", "torch", "jnp", "math", "F"],
        "functions are called by their names alone: copy(from, to), sum(x, 1), exp(x)",
    ),
    (&["True", "False"], "write true, or false"),
    (&["null", "None", "nullptr", "NULL"], "there is no such value: every argument is given at launch"),
    (&["warpSize", "WARP_SIZE"], "write 32"),
    (&["inf", "INFINITY", "infinity"], "write f32::INFINITY, or f32::NEG_INFINITY"),
    (&["pi", "PI", "M_PI"], "write f32::consts::PI, or 3.14159265"),
    (
        &["arange", "make_range"],
        "write iota(256) for a tile of these numbers; what they would index has its coordinates already: tile(tensor, (256), (block.x))",
    ),
    (
        &["load", "store", "ld", "st"],
        "write copy(from, to): it is predicated where a tile reaches past its tensor",
    ),
    (
        &["zeros", "zeros_like", "ones", "ones_like", "empty", "empty_like", "make_fragment_like", "vec"],
        "write full::<f32>((BM, BN), 0.0) for a tile that the threads share, registers::<f32>((8, 8), 0.0) for the part of one",
    ),
    (
        &["dot", "mma", "matmul"],
        "write gemm(a, b, &mut acc); on tensor cores acc is an accumulator of tiled_mma::<bf16, f32>(warps = 8)",
    ),
    (&["where"], "write select(condition, a, b)"),
    (
        &["transpose", "T", "t", "swapaxes"],
        "write permute(a, (1, 0)), the same elements with rows and columns exchanged",
    ),
    (
        &["reshape", "view", "flatten"],
        "write regroup(tile, (8, 16)) for the elements of a tile in another shape; a tensor has the shape of its parameter",
    ),
    (&["unsqueeze", "expand_dims"], "write v.along(0) for a column of the vector, v.along(1) for a row"),
    (&["cdiv"], "write ceil_div(a, b)"),
    (&["range", "static_range"], "write `for k in 0..n`, or `for k in unroll(0..4)`"),
    (&["product", "prod"], "write reduce(x, 1.0, |a, b| a * b)"),
    (
        &["argmax", "argmin"],
        "write reduce((x, places), (f32::NEG_INFINITY, 0), |(a, i), (b, j)| if b > a { (b, j) } else { (a, i) })",
    ),
    (&["any", "all"], "write reduce(x, 0, |a, b| a | b), or a & b with all bits set"),
    (
        &["index", "coordinates", "indices", "meshgrid"],
        "coordinates are the closure's last parameter: map(x, |x, at| at.0); those within a tile are iota((64, 32), 0)",
    ),
    (&["relu"], "write max(x, 0.0)"),
    (&["logistic", "expit"], "write sigmoid(x)"),
    (&["swish"], "write silu(x)"),
    (&["powf", "powi"], "write pow(x, y), or x * x"),
    (&["expf", "ex2"], "write exp(x), or exp2(x)"),
    (&["gather", "take", "index_select"], "index a tensor in a closure: map(ids, y, |i| x[(i)])"),
    (&["umulhi", "__umulhi", "__mulhi"], "write mul_high(a, b)"),
    (&["popcount", "popc", "__popc"], "write count_ones(x)"),
    (&["clz", "__clz", "ffs"], "write leading_zeros(x)"),
    (&["rint", "nearbyint", "roundeven"], "write round_ties_even(x)"),
    (&["fmodf", "remainder"], "write fmod(x, y), or x % y"),
    (
        &["__float_as_uint", "__uint_as_float", "bitcast", "to_bits", "from_bits", "transmute"],
        "write bits::<u32>(x), or bits::<f32>(n)",
    ),
    (&["reciprocal", "recip"], "write 1.0 / x"),
    (&["clamp", "clip"], "write min(max(x, low), high)"),
    (&["mul_add", "fmaf", "fmadd", "__fmaf_rn"], "write fma(a, b, c)"),
    (&["square"], "write x * x"),
    (&["exp_m1", "expm1", "ln_1p", "log1p"], "write exp(x) - 1.0, or log(1.0 + x)"),
    (&["ln", "logf"], "write log(x)"),
    (&["__expf", "exp_approx", "exp_fast", "fast_exp2"], "write fast_exp(x); exp2(x) is one instruction"),
    (&["__logf", "__log2f", "__log10f"], "write fast_log(x), or fast_log2(x)"),
    (
        &["__sinf", "__cosf", "__tanf", "__sincosf", "sincos", "sincosf"],
        "write fast_sin(x) and fast_cos(x), or sin(x) and cos(x)",
    ),
    (&["__fdividef", "fast_reciprocal", "__frcp_rn"], "write fast_div(x, y), or x / y"),
    (&["__powf"], "write exp2(y * fast_log2(x)), or pow(x, y)"),
    (&["__frsqrt_rn"], "write rsqrt(x), or fast_rsqrt(x)"),
    (&["log10"], "write log(x) / 2.302585093"),
    (&["sqrtf", "rsqrtf"], "write sqrt(x), or rsqrt(x)"),
    (&["sign", "signum"], "write copysign(1.0, x)"),
    (&["mean", "average"], "write sum(x, 1) / N as f32, with the number of elements"),
    (&["var", "variance", "std", "norm"], "write sum(x * x, 1), and what is computed from it"),
    (&["cumsum", "cumprod", "cumulative_sum"], "write scan(x, 0.0, |a, b| a + b, mode = 1)"),
    (&["len", "numel"], "write a.size(0), the extent of a mode"),
    (
        &["rem_euclid", "modulo", "mod"],
        "write (x + n) % n for an x of -n or more: `%` of elements has the sign of x, as in Rust; of block.x, loop variables and sizes it is never negative",
    ),
    (
        &["div_euclid", "floor_divide", "floordiv"],
        "write x / n for an x that is not negative, or floor(x / n) of f32",
    ),
    (
        &[
            "shuffle",
            "shuffle_xor",
            "shuffle_up",
            "shuffle_down",
            "shfl",
            "shfl_xor",
            "__shfl_sync",
            "__shfl_xor_sync",
            "__shfl_down_sync",
            "__shfl_up_sync",
        ],
        "write warp_shuffle(x, |lane| lane ^ 1) of the parts of threads; sums of lanes are warp_sum(x), others warp_reduce or warp_scan",
    ),
    (
        &["__reduce_add_sync", "reduce_add"],
        "write sum(x, 1) of a whole tile; of the parts of threads warp_sum(x), warp_reduce(x, 0.0, |a, b| a + b), or warp_scan",
    ),
    (
        &["ballot", "any_sync", "all_sync", "vote", "__ballot_sync", "__any_sync", "__all_sync"],
        "write warp_ballot(x > 0.0) of the parts of threads: any is != 0, and all is warp_ballot(!(x > 0.0)) == 0",
    ),
    (&["match_any", "__match_any_sync", "__match_all_sync"], "write warp_match(n) of the parts of threads"),
    (
        &["laneid", "lane_id", "lane", "get_lane_id"],
        "write thread.x % 32; the closure of warp_shuffle(x, |lane| lane ^ 1) is given it",
    ),
    (
        &["__ldg", "__ldcs", "__stcs"],
        "write copy(from, to): what is only read is loaded through the read-only path",
    ),
    (
        &["cluster_sync", "cluster_arrive", "cluster_wait"],
        "write sync_cluster(); cluster_sum(x) and its like need no barrier",
    ),
    (
        &["map_shared_rank", "mapa", "dsmem"],
        "write peer(tile, (block.x + 1) % 4), the tile of another block of the cluster",
    ),
    (
        &["grid_sync", "this_grid", "cooperative_groups", "cg"],
        "end the kernel, and launch another for what follows; or let the last block to arrive do it: let before = copy(1, count[(0)], how = \"atomic_add\"); blocks wait for flags by wait(flag, 1), and the blocks of a cluster combine elements by cluster_sum(x)",
    ),
    (
        &[
            "__threadfence",
            "threadfence",
            "__threadfence_block",
            "__threadfence_system",
            "fence",
            "memory_fence",
            "__nanosleep",
        ],
        "accesses of a block are ordered by sync_threads(), and statements on whole tiles by themselves; what a block has written is released by signal(flag) and acquired by wait(flag, 1), or by an atomic update whose value has a name, let before = copy(1, count[(0)], how = \"atomic_add\")",
    ),
    (
        &["atomicCAS", "atomic_cas", "compare_exchange", "atomic_compare_and_swap"],
        "write let before = copy(new, y[(i)], how = \"atomic_compare_exchange\", expected = old); scatter takes `expected` too",
    ),
    (&["fmaxf", "fmax", "maxf"], "write max(a, b)"),
    (&["fminf", "fmin", "minf"], "write min(a, b)"),
    (&["fabs", "fabsf"], "write abs(x)"),
    (&["local_tile"], "write tile(tensor, (BM, BK), (block.x, _))"),
    (&["local_partition", "partition"], "write parallelize(tensor, layout!((32, 8)), thread.x)"),
    (
        &["make_layout", "make_shape", "make_stride", "Layout"],
        "write layout!((32, 8) : (8, 1)), a shape and its strides",
    ),
    (&["make_tensor"], "write shared::<f32>(layout!((32, 8))), or registers::<f32>((8, 8), 0.0)"),
    (&["barrier", "debug_barrier", "__syncthreads", "syncthreads"], "write sync_threads()"),
    (&["swap"], "write (a, b) = (b, a)"),
    (
        &["sort", "argsort", "sorted", "topk", "top_k"],
        "write a bitonic network of warp_shuffle, or maxima one by one: reduce((x, iota(256)), (f32::NEG_INFINITY, 0), |(a, i), (b, j)| if b > a { (b, j) } else { (a, i) })",
    ),
    (
        &["clone", "cloned", "copied", "to_owned"],
        "leave it out: `let u = t` of registers is a copy, of memory another name; copy(t, u) copies elements",
    ),
    (&["softmax"], "write e / sum(e, 1), where `let e = exp(x - maximum(x, 1));`"),
    (
        &["atomic_add", "atomicAdd", "atomic_max", "atomicMax"],
        "write copy(x, y, how = \"atomic_add\"), or \"atomic_max\" and its like, and `let old = copy(…)` for what was there before; at places that elements name, scatter(x, y, |x| (place, 1), how = \"atomic_add\")",
    ),
];

/// The remedy for a name of other languages.
pub fn elsewhere(name: &str) -> Option<String> {
    ELSEWHERE.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| (*instead).to_owned())
}

/// The help for a named argument that libraries of arrays have.
pub(super) fn named(name: &str) -> Option<&'static str> {
    match name {
        "axis" | "dim" | "mode" => {
            Some("the mode is the second argument: sum(x, 1), reduce(x, 0.0, |a, b| a + b, mode = 1)")
        }
        "keepdim" | "keepdims" | "keep_dims" => {
            Some("leave it out: the mode stays, with extent 1; y[(_, 0)] drops it")
        }
        "mask" => Some("leave it out: accesses are predicated where a tile reaches past its tensor"),
        "other" => Some("write fill = 0.0"),
        "dtype" => Some("write x as f32, or the type after the name: full::<f32>((64, 64), 0.0)"),
        _ => None,
    }
}

/// The help for an unknown element type.
pub(crate) fn element(name: &str) -> String {
    let usable = Elem::names();
    match (Elem::elsewhere(name), name) {
        (Some(elem), _) => format!("write `{elem}`"),
        (None, "usize" | "isize") => {
            format!(
                "sizes are read off tensors, such as `a.size(0)`, and integers are indices as they are: x[(i)]; for numbers use one of {usable}"
            )
        }
        _ => did_you_mean(name, usable.split(", ")).unwrap_or_else(|| format!("use one of {usable}")),
    }
}

/// The help for an unknown function; `bound` is the value of the name, if it is a name of the kernel.
pub(super) fn function(name: &str, bound: Option<&Value>) -> String {
    if let Some(value) = bound {
        return format!("`{name}` is {} here", value.kind());
    }
    let names = || FUNCTIONS.iter().map(|row| row.name);
    let near = did_you_mean(name, names());
    let near = near.map(|near| {
        format!("{near}\nhelp: a `#[device]` function needs `use self::{name};` at the top of the kernel")
    });
    elsewhere(name).or(near).unwrap_or_else(|| {
        format!("functions of Rust are not known here: write the arithmetic out, as in |x| x * tanh(x), or for a `#[device]` function `use self::{name};` at the top of the kernel\nhelp: the page `functions` of `tilewright::language` lists all that can be called")
    })
}

/// The error for a kernel with the name of a function of the language: the prelude imports that, and Rust would call
/// the name ambiguous.
pub(super) fn taken(kernel: &Name) -> Option<Diagnostic> {
    let name = &kernel.text;
    FUNCTIONS.iter().find(|row| row.name == name).map(|_| {
        Problem::new(format!("`{name}` is a function that kernels call, which the prelude imports"))
            .help(format!("give the kernel another name, such as `{name}_kernel`"))
            .at(kernel.span)
    })
}

/// The help for an unknown name.
pub(super) fn variable(name: &str, scope: &[&str], in_kernel: bool) -> String {
    let shouted = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let known = scope.iter().copied().chain(["block", "thread"].into_iter().filter(|_| in_kernel));
    if let Some(instead) = elsewhere(name) {
        return if in_kernel { instead } else { format!("{instead}, inside a closure: |x| …") };
    }
    // A name in capitals was meant to be a constant.
    let is_constant = |of: &&str| !of.chars().any(|c| c.is_ascii_lowercase());
    let near = match shouted && name.len() > 1 {
        true => did_you_mean(name, known.filter(is_constant)),
        false => did_you_mean(name, known),
    };
    if let Some(near) = near {
        return near;
    }
    match (shouted, in_kernel) {
        (true, true) => {
            let lower = name.to_lowercase();
            format!(
                "a macro sees the kernel's own text, not the constants around it: make it a parameter, `fn name<const {name}: usize = 256>(…)`, whose value a use can set, `name!({name} = 512)`; or write `let {name} = …;` in the kernel, and a number that differs from launch to launch as an argument, `{lower}: f32`"
            )
        }
        (true, false) => NAMES_IN_KEYS.into(),
        (false, false) => format!("{NAMES_IN_KEYS}; a function of elements is a closure, |{name}| …"),
        (false, true) if scope.is_empty() => "bind it with `let` first".into(),
        (false, true) => {
            let names: Vec<_> = scope.iter().map(|name| format!("`{name}`")).collect();
            format!("bind it with `let` first; names in scope are {}", names.join(", "))
        }
    }
}

/// The help for a name that a function that kernels share does not have.
pub(super) fn variable_of_device(name: &str, scope: &[&str]) -> String {
    did_you_mean(name, scope.iter().copied()).unwrap_or_else(|| {
        let name = name.to_lowercase();
        format!("a `#[device]` function sees its parameters alone: add `{name}: f32`, or `{name}: usize` for an integer, and pass it")
    })
}

/// A name in keys, as the macro sees it.
pub(super) const NAMES_IN_KEYS: &str =
    "a macro sees this name, not its value: write the value, or set it at run time with `.specialize(…)`";

/// Instead of an instruction where its accumulators are needed.
pub(super) const ACCUMULATORS: &str = "its accumulators are a tile: let mut acc = tiled_mma::<bf16, f32>(warps = 8).accumulators((BM, BN), 0.0)";

/// The help where an optional argument is used as a tensor.
pub(super) const OPTIONAL: &str = "take it first: `if let Some(x) = argument { … } else { … }`";

/// The help for a method that a value does not have.
pub(super) fn method(name: &str, of: &Value) -> String {
    const METHODS: [&str; 4] = ["size", "cosize", "rank", "shape"];
    let usage = FUNCTIONS.iter().find(|row| row.name == name).map(|row| row.usage);
    match (of, usage) {
        (Value::View(view), None) if name == "is_some" => {
            format!("`{0}` is always there: use it without `if let`, or give it the type `Option<&Tensor<…>>`", view.name)
        }
        (of, None) if of.is_optional() => OPTIONAL.into(),
        (_, None) if name == "is_some" => {
            "`if let Some(x) = argument` takes an argument of type `Option<&Tensor<…>>`".into()
        }
        (_, Some(usage)) => format!("functions are called by their names: {usage}"),
        (Value::Range(..), _) => {
            "a loop runs over a..b, one by one: for every fourth, for i in 0..n / 4 { let k = 4 * i; … }, and backwards, for i in 0..n { let k = n - 1 - i; … }".into()
        }
        (Value::Tuple(_), None) => {
            "a list has len(); a loop runs over it by itself, `for x in xs { … }`, and over two of them by `for i in unroll(0..xs.len())`, with xs[i] and ys[i]".into()
        }
        (Value::View(_) | Value::Layout(_), None) => {
            let known =
                "tensors and layouts have size(mode), size(), rank(), shape(), and vectors along(mode)";
            if let Some(instead) = elsewhere(name) {
                return instead;
            }
            match did_you_mean(name, METHODS) {
                Some(near) if !METHODS.contains(&name) => format!("{near}\nhelp: {known}"),
                _ => known.into(),
            }
        }
        _ => match elsewhere(name) {
            Some(instead) => instead,
            None => format!("only tensors and layouts have methods: {}", function(name, None)),
        },
    }
}

/// The forms of conditions.
const CONDITIONS: &str = "`if` is decided by integers: constants, `block.x`, loop variables, sizes, scalar arguments, and single elements, such as ids[(block.x)], or those of a tile that all threads have, sum(x) > 0.0";

/// The counterpart of `if` for elements.
const CHOICES: &str =
    "a choice between elements is a number: y = if x > 0.0 { x } else { 0.0 }, or select(x > 0.0, x, 0.0)";

/// Why bounds checks by hand are seldom needed.
const BOUNDS: &str =
    "bounds need no condition: accesses are predicated wherever a tile can reach past its tensor";

/// Why a value cannot be a condition, with the remedy. `elem` is the type of a tile's elements.
pub(super) fn condition(value: &Value, elem: Option<Elem>) -> Problem {
    match value {
        Value::Int(n) => Problem::new(format!("`if` needs a condition, and this is the integer {n}"))
            .help("compare it: `if n == 4`"),
        Value::Number(number) if number.ty == Some(Type::Condition) => {
            Problem::new("this condition depends on elements, and `if` decides for a whole statement")
                .help(format!("{CONDITIONS}\nhelp: {CHOICES}"))
        }
        Value::View(_) if elem == Some(Elem::Bool) => {
            Problem::new("this condition depends on elements, and `if` decides for a whole statement")
                .help(format!("{CONDITIONS}\nhelp: {CHOICES}"))
        }
        Value::View(view) if integer::is_one(view) => {
            Problem::new(format!("`if` needs a condition, and this is an element of `{}`", view.name))
                .help(format!("compare it: `if {}[(i)] != 0`", view.name))
        }
        other => Problem::new(format!("`if` needs a condition, and this is {}", other.kind()))
            .help(format!("{CONDITIONS}\nhelp: {CHOICES}")),
    }
}

/// An operator that two values do not support.
pub(super) fn operator(op: Binary, left: &Value, right: &Value) -> Problem {
    let compares = matches!(op, Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne);
    let has = |is: fn(&Value) -> bool| is(left) || is(right);
    let problem = Problem::new(match compares {
        true => format!("{} cannot be compared with {}", clause(left), right.kind()),
        false => format!("this operator does not work on {} and {}", clause(left), right.kind()),
    });
    if has(|value| matches!(value, Value::View(_))) {
        return problem.help("tiles are combined with tiles and numbers, outside of closures: x + y, 2.0 * x; a closure has their elements, as its parameters");
    }
    if has(Value::is_coordinates) {
        return problem.help(PLACE);
    }
    let sizes = has(|value| matches!(value, Value::Size(_)));
    if sizes && has(|value| matches!(value, Value::Float(_))) {
        return problem.help("a size is an integer: convert it, such as N as f32, or x.size(1) as f32");
    }
    if !compares {
        const SIZES: &str =
            "sizes known at launch are multiplied by integers, and divided by ceil_div(size, n)";
        const NUMBERS: &str = "operators work on integers and coordinates, and inside `map` on elements and literals such as 2.0";
        return problem.help(if sizes { SIZES } else { NUMBERS });
    }
    let more = if sizes { BOUNDS } else { CHOICES };
    problem.help(format!("{CONDITIONS}\nhelp: {more}"))
}

/// A value in words, at the beginning of a sentence.
fn clause(value: &Value) -> String {
    let kind = value.kind();
    if kind.contains(", ") { format!("{kind},") } else { kind }
}

/// The meaning of a closure's last parameter, if it has one more than there are tiles.
pub(super) const PLACE: &str = "a parameter more than there are tiles is where the element stands, at.0 and on; for elements of two tiles write map((x, y), |x, y| x + y)";

/// A divisor of integers that is not positive.
pub(super) fn divisor(op: Binary, by: i64) -> Problem {
    let positive = by.unsigned_abs();
    match by {
        0 => Problem::new("this divides by 0").help("integers have no infinity; divide by another number"),
        _ => Problem::new(format!("integers are divided by positive numbers, and this divides by {by}"))
            .help(match op {
                Binary::Rem => format!("write n % {positive}, which is never negative"),
                _ => format!("write -(n / {positive}); a quotient is rounded down"),
            }),
    }
}

/// The error of a coordinate that is a number, but no integer.
pub(super) fn no_integer(kind: &str) -> Problem {
    Problem::new(format!("a coordinate is an integer, and this is {kind}"))
        .help("convert it: `floor(…) as i32`, or of a condition `(… > 0.0) as i32`")
}

/// An index or a coordinate that is none; `usage` shows how it is written.
pub(super) fn coordinate(at: &Value, usage: &str) -> Problem {
    let items = match at {
        Value::Tuple(items) => &items[..],
        one => std::slice::from_ref(one),
    };
    if at.is_coordinates() {
        return Problem::new("a coordinate is an integer, and these are all coordinates of an element")
            .help("write one of them, at.0 and on; alone they are a place, such as x[at]");
    }
    let is_data = |value: &&Value| matches!(value, Value::Number(_) | Value::Float(_));
    match items.iter().find(is_data) {
        Some(Value::Number(number)) if number.expr.any(&|part| matches!(part, Expr::Pick(_))) => {
            Problem::new(
                "a coordinate is an integer that the kernel computes, and this is a choice between two",
            )
            .help(CHOSEN)
        }
        Some(number @ Value::Number(_)) => {
            Problem::new(format!("a coordinate is an integer, and this is {}", number.kind()))
                .help(COORDINATES)
        }
        _ => match items.iter().find(|item| item.at().is_none()) {
            Some(Value::Range(..)) => {
                Problem::new("a coordinate is needed here, and this is a range").help(RANGES)
            }
            Some(wrong) => {
                Problem::new(format!("a coordinate is needed here, and this is {}", wrong.kind())).help(usage)
            }
            None => Problem::new("coordinates are needed here").help(usage),
        },
    }
}

/// The counterparts of a choice between coordinates.
const CHOSEN: &str = "put the statement under `if`, or use min(i, n - 1) and max(i, 0); positions of elements are chosen in a closure, map(ids, y, |i| x[(if i < n { i } else { -1 })])";

/// The counterpart of a slice by a range.
const RANGES: &str = "parts of a tensor are tiles, tile(a, (64, 8), (block.x, k)); shift(tile(a, (64, 8), (0, k)), (row, 0)) begins at any row, and regroup(tile(x, 512, block.x), (2, 256))[(0, _)] is every second element";

/// The forms of coordinates.
const COORDINATES: &str = "coordinates are made of integers: `block.x`, `thread.x`, loop variables, sizes, integer arguments, \
    and elements that are integers, such as ids[(block.x)]";

/// A layout or a shape whose size is known only at launch, where it must be known earlier; `what` needs it.
pub(super) fn known_at_launch(what: &str, shape: &impl std::fmt::Display) -> Problem {
    Problem::new(format!("{what} needs sizes known while compiling, and {shape} is known only at launch"))
        .help(KNOWN)
}

/// Which sizes are known while compiling.
const KNOWN: &str =
    "known while compiling are numbers, `const` parameters of the kernel, and what is computed from them";

/// A view with extents that are known only at launch, where the part of a thread is needed.
pub(super) fn whole(view: &View, function: &str) -> Problem {
    let by = if function.is_empty() { "arithmetic".to_owned() } else { format!("`{function}`") };
    let known = |takes: &str| {
        let shape = view.shape();
        Problem::new(format!(
            "`{}` has the shape {shape}, known only at launch, and {by} takes {takes}",
            view.name
        ))
    };
    let known_extents = view.layout.modes().filter(|mode| mode.size().is_ok()).count();
    if !view.per_thread() && known_extents == 0 {
        let blocks = ["block.x", "block.y", "block.z"];
        let modes = view.rank().min(blocks.len());
        let (tile, at) = (vec!["64"; modes].join(", "), blocks[..modes].join(", "));
        return known("tiles of known extents").help(format!(
            "take a tile, which the threads of a block share: tile({}, ({tile}), ({at}))",
            view.name
        ));
    }
    let takes = if view.per_thread() { "the part that a thread has" } else { "tiles of known extents" };
    let problem = known(takes);
    let open = |mode: tilewright_layout::Layout| if mode.size().is_ok() { "_" } else { "k" };
    let at: Vec<&str> = view.layout.modes().map(open).collect();
    problem.help(format!("take one tile at a time, in a loop over k: {}[({})]", view.name, at.join(", ")))
}
