//! The fields of structs and the variants of enums that thread programs and launch plans consist of, once for all of their
//! encodings: as text (`kernel/text`) and as bytes (`launch::wire`). Each macro here calls another one with a table.
//! A field with a value has it usually; a field after `-` has no text.

/// Structs of integers, conditions and functions of elements.
#[doc(hidden)]
#[macro_export]
macro_rules! value_records {
    ($table:ident) => {
        $table! {
            Obligation { divisor, of }
            Require { test, text, of = None }
        }
    };
}
pub use value_records;

/// Enums of integers, conditions and functions of elements.
#[doc(hidden)]
#[macro_export]
macro_rules! value_variants {
    ($table:ident) => {
        $table! {
            Un {
                "neg" Neg, "abs" Abs, "exp" Exp, "exp2" Exp2, "log" Log, "log2" Log2, "recip" Recip, "sqrt" Sqrt,
                "rsqrt" Rsqrt, "tanh" Tanh, "sin" Sin, "cos" Cos, "erf" Erf, "gelu" Gelu, "floor" Floor, "ceil" Ceil,
                "trunc" Trunc, "round" Round, "round_even" RoundEven, "count_ones" CountOnes, "leading_zeros" LeadingZeros, "apart" Apart,
                "not" Not, "fast" Fast(f),
            }
            Fast { "exp" Exp, "log" Log, "log2" Log2, "sqrt" Sqrt, "tanh" Tanh, "sin" Sin, "cos" Cos, "rsqrt" Rsqrt }
            Bin {
                "add" Add, "sub" Sub, "mul" Mul, "div" Div, "rem" Rem, "min" Min, "max" Max, "and" And, "or" Or,
                "xor" Xor, "shl" Shl, "shr" Shr, "pow" Pow, "copy_sign" CopySign, "mul_high" MulHigh, "fast_div" FastDiv,
            }
            Cmp { "lt" Lt, "le" Le, "eq" Eq, "ne" Ne }
            Scope {
                "thread" Thread, "warp" Warp, "warpgroup" Warpgroup, "block" Block, "cluster" Cluster, "grid" Grid,
            }
            Unroll { "no" No, "by" By(times), "full" Full }
            Arith { "mul" Mul, "div" Div, "rem" Rem, "min" Min, "max" Max }
            Test {
                "less" Less(a, b), "equal" Equal(a, b), "is_true" IsTrue(condition), "not" Not(test), "both" Both(tests),
                "either" Either(tests),
            }
            Coord {
                "block" Block(axis), "var" Var(id), "thread" Thread(group), "member" Member(group), "swizzled" Swizzled(group, swizzle),
                "rank" ClusterRank, "begin" Begin[iteration, of, tile], "phase" Phase(ring), "submode" Submode[of, over, extent],
                "size" Size[of, over], "scalar" Scalar(id), "read" Loaded[number, per_thread], "two" Two(with, of),
            }
            Expr {
                "in" In(input), "lit" Lit(number), "scalar" Scalar(id), "size" Size(size), "coord" Coord(input, mode), "index" Index(at), "at" At(mode), "un" Un(f, x),
                "bin" Bin(f, x, y), "fma" Fma(parts), "cmp" Cmp(f, x, y), "pick" Pick(parts), "cast" Cast(elem, x), "bits" Bits(elem, x),
                "ptx" Ptx { text, elem, volatile, args, model },
            }
        }
    };
}
pub use value_variants;

/// Structs of thread programs.
#[doc(hidden)]
#[macro_export]
macro_rules! thread_records {
    ($table:ident) => {
        $table! {
            Launch {
                grid, persistent = false, divided = 0, cluster = [1; 3], threads, shared_bytes = 0, blocks_per_sm = 0, overlaps = false, beside = false,
                cost = None, packs = Vec::new(), read_sizes = Vec::new()
            }
            Cost { steps, times = [None; 2], over = 0, step, guarded_step = 0, resident = 0, alone = 0, cut = 0, rows, tile, cut_tile = 0, guarded_tile = 0, begin = 0, launch }
            Shared { name, elem, len, offset, align, note }
            Reg { name, elem, len, words = false }
            Var { name, mutable = false, wide = false, array = None }
            Site { tensor, coord = Vec::new(), - span }
            Mem { space, index, peer = None }
            Frag { reg, at, len }
            Claim { value, inside, number, at, strict = false }
            Probe { kind, text, elem, shape, names }
            Role { name, warps, registers = None, body }
            Expr { int, lo, hi, multiple, same_for, names = Vec::new() }
            ConstantName { name, value, times = 1, bytes = 1, over = 1, plus = 0, array = None }
        }
    };
}
pub use thread_records;

/// Enums of thread programs.
#[doc(hidden)]
#[macro_export]
macro_rules! thread_variants {
    ($table:ident) => {
        $table! {
            Change {
                "add" Add, "sub" Sub, "min" Min, "max" Max, "and" And, "or" Or, "xor" Xor, "exchange" Exchange,
                "compare_exchange" CompareExchange, "await" Await,
            }
            MemoryOrder { "relaxed" Relaxed, "acquire" Acquire, "release" Release, "both" Both }
            Fact { "divides" Divides(what), "at_most" AtMost { of, limit }, "at_least" AtLeast { of, limit }, "aligned" Aligned { param, bytes }, "small" Small { param, distance } }
            Param {
                "pointer" Pointer { name, elem, write, shape, stride },
                "int" Int { name, symbol, wide = false },
                "scalar" Scalar { name, elem },
                "workspace" Workspace { name, elem, shape, zeroed },
                "tensor_map" TensorMap { name, tensor, tile, steps, modes, swizzle },
            }
            Bar {
                "block" Block, "named" Named { id, threads }, "cluster" Cluster, "cluster_start" ClusterStart,
                "mbarriers" Mbarriers { name, offset, slots, slots_name = None, count, scope },
            }
            Space { "global" Global(param), "shared" Shared(array) }
            Fence { "proxy_async" ProxyAsync, "mbarrier_init" MbarrierInit, "products" Products, "threads" Threads(scope) }
            Queue { "cp_async" CpAsync, "bulk" Bulk, "bulk_read" BulkRead, "products" Products }
            AtomArg {
                "frag" Frag(frag), "at" At(mem), "descriptor" Descriptor { at, leading, stride, mode },
                "map" Map { param, at }, "barrier" Barrier { bar, slot }, "int" Int(at),
            }
            Vote { "ballot" Ballot, "match" Match, "all" All(f) }
            Val {
                "reg" Reg(reg, at), "lit" Lit(number, elem), "int" Int(at, elem), "param" Param(param), "un" Un(f, x),
                "bin" Bin(f, x, y), "fma" Fma(parts), "product" Product(row, parts), "cast" Cast(elem, x), "bits" Bits(elem, x),
                "cmp" Cmp(f, x, y), "pick" Pick(parts), "shuffle" Shuffle(x, lane),
                "vote" Vote(how, x),
                "ptx" Ptx { text, elem, volatile, args, model },
            }
            Kind { "assert" Assert, "print" Print }
            Lane { "xor" Xor(distance), "in_group" InGroup(lanes, lane) }
            Int {
                "const" Const(n), "var" Var(id), "param" Param(id), "thread" Thread, "block" Block(axis), "grid" Grid(axis),
                "rank" ClusterRank, "add" Add(a, b), "sub" Sub(a, b), "mul" Mul(a, b), "div" Div(a, b), "rem" Rem(a, b),
                "and" And(a, b), "xor" Xor(a, b), "shl" Shl(a, b), "min" Min(a, b),
                "max" Max(a, b), "lt" Lt(a, b), "within" Within(at, end), "eq" Eq(a, b), "all" All(a, b), "not" Not(a), "select" Select(a, b, c),
                "wrap" Wrap(at, end, last),
            }
            Op {
                "comment" Comment(line),
                "let" Let(var, value),
                "set" Set(var, value),
                "take" Take(var, value),
                "assign" Assign { reg, at, value },
                "load" Load { to, from, guard = None, fill = Number::Float(0.0), volatile_at = None },
                "store" Store { to, from, guard = None },
                "atomic" Atomic { to, op, value, guard = None, order = MemoryOrder::Relaxed, scope = $crate::thread::Scope::Grid, old = None, expected = None },
                "atom" Atom { row, args, guard = None },
                "commit" Commit(queue),
                "wait_queue" WaitQueue { queue, pending },
                "fence" Fence(fence),
                "pin" Pin(reg),
                "claim" Claim(claim),
                "probe" Probe { probe, values, guard = None },
                "sync" Sync { bar, member = None },
                "arrive" Arrive { bar, slot, peer = None, bytes = None },
                "await" Await { bar, slot, phase },
                "await_previous" AwaitPrevious,
                "start_next" StartNext,
                "init_barriers" InitBarriers(bar),
                "for" For { var, from, to, step, unroll, body },
                "leave" Leave { of, cond },
                "if" If { cond, then, other = Vec::new() },
                "roles" Roles(roles),
                "elect" Elect(scope, body),
            }
        }
    };
}
pub use thread_variants;
