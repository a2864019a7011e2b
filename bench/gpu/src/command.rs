//! The command line.

use clap::{Arg, ArgAction, Command, value_parser};

use super::{Result, memory};
use tilewright_cli::output::{flag, option};

const METHOD: &str = "\
How it is measured:
  Every result is compared with double precision before and after it is timed, on poisoned outputs.
  Inputs are random and seeded; sets of data rotate, three times the cache together, so that no launch hits its data there.
  Contenders alternate, A B A B …, in one run; all launches of a sample are queued before the first one starts.
  Times are medians of CUDA events over rounds; `speed` is the median of the rounds' ratios, with its spread.
  Memory-bound works are compared with a copy of as many bytes; untimed launches before each sample warm the cache up.
  cuBLASLt is the fastest of its heuristic's first eight algorithms, for the same types and its own epilogue. It multiplies
  f32 strictly, without TF32, also where a kernel has another `precision`; narrow weights are compared with wide ones.
  The allowed error follows from the types: 1e-5 of the norm for f32 and f32x3, 1e-3 where tensor cores truncate sums of f16,
  bf16 and tf32, 5e-3 and 5e-2 for 8-bit floats without and with fast accumulation; and the rounding of C.";

const EXAMPLES: &str = "\
Examples:
  tilewright-bench gemm --sizes 1024,2048,4096
  tilewright-bench gemm --dtype bf16 --sizes 4096,4095x4097x1023 --layouts tn
  tilewright-bench gemm --dtype e4m3 --sizes 4096 --kernel 'arch=90 out=bf16' --kernel 'arch=90 out=bf16 fast_accum=true'
  tilewright-bench gemm --dtype bf16 --layouts tn --kernel 'arch=90 bias=rows epilogue=gelu'
  tilewright-bench gemm --kernel 'bk=16 stages=3' --kernel 'bk=16 schedule=(vec=4)' --layouts nn,nt,tn,tt
  tilewright-bench ladder
  tilewright-bench batched --sizes 64x128x128x128
  tilewright-bench jit";

pub(crate) fn command() -> Command {
    Command::new("tilewright-bench")
        .about("Measure the kernels that ship against their peers on a GPU")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(format!("{EXAMPLES}\n\n{METHOD}"))
        .subcommand(gemm())
        .subcommand(
            common(Command::new("ladder"))
                .about("The steps of a tutorial, from naive to fast, with the reasons")
                .arg(shapes("4096", "n or MxNxK, separated by commas")),
        )
        .subcommand(
            common(Command::new("batched"))
                .about("Many small products at once")
                .arg(dtype())
                .arg(shapes("64x128x128x128,64x256x256x256,64x512x512x512", "LxMxNxK, separated by commas"))
                .arg(kernels()),
        )
        .subcommand(memory_bound())
        .subcommand(
            Command::new("launch")
                .about("Launch kernels once, unmeasured: for profilers and sanitizers")
                .arg(
                    Arg::new("kernels")
                        .value_name("KERNEL")
                        .help("A kernel that comes with tilewright, or keys of `matmul_kernel!`; all of both without it")
                        .num_args(0..),
                )
                .arg(shapes("256x256x64,100x77x33", "n or MxNxK, separated by commas"))
                .arg(every_variant("launched, not only the one that a launch takes")),
        )
        .subcommand(
            Command::new("counters")
                .about("Launch small kernels whose accesses the simulator counts: bench/gpu/counters.py compares")
                .arg(option("simulated", "FILE", "Write what the simulator counts, and launch nothing")),
        )
        .subcommand(
            Command::new("jit")
                .about("How long kernels take from their definition to a binary and from the cache; and the host for launches, where there is a GPU")
                .arg(option("arch", "ARCH", "What is compiled for").default_value("sm_90a"))
                .arg(option("json", "FILE", "Write the results as JSON")),
        )
}

fn gemm() -> Command {
    common(Command::new("gemm"))
        .about("Matrix products: C (M, N) = A (M, K) · B (K, N)")
        .arg(dtype())
        .arg(shapes("1024,2048,4096", "n, MxNxK or LxMxNxK, separated by commas"))
        .arg(
            option(
                "layouts",
                "LAYOUTS",
                "nn, nt, tn, tt: as BLAS writes it, columns of C contiguous [default: tn for tf32 and 8 bits, else nt]",
            )
            .value_delimiter(','),
        )
        .arg(kernels())
        .arg(
            every_variant(
                "a contender, with its estimate: which would have been the fastest? With a number, each whose estimate is at most this many times the least",
            )
            .value_name("TIMES")
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("inf")
            .value_parser(value_parser!(f64)),
        )
}

fn memory_bound() -> Command {
    quick_and_json(Command::new("memory"))
        .about("Memory-bound works, against a copy of as many bytes")
        .arg(
            Arg::new("works")
                .value_name("WORK")
                .help(format!("Some of {}; all without any", memory::names().join(", ")))
                .num_args(0..),
        )
        .arg(option("dtype", "TYPES", "Element types, separated by commas").value_delimiter(',').default_value("f32,bf16"))
        .arg(option("sizes", "SIZES", "Rows and columns, MxN, separated by commas; usual ones without it").value_delimiter(','))
        .arg(
            option("kernel", "KERNEL", "A kernel and its constants beside the chooser's, or kernels of several launches, divided by semicolons; may be given several times")
                .action(ArgAction::Append),
        )
}

fn shapes(default: &'static str, help: &'static str) -> Arg {
    option("sizes", "SIZES", help).value_delimiter(',').default_value(default)
}

fn kernels() -> Arg {
    let help = "Keys of `matmul_kernel!`, or `linear` and its constants; may be given several times";
    option("kernel", "KEYS", help).action(ArgAction::Append)
}

fn dtype() -> Arg {
    option("dtype", "TYPE", "Element type of A and B").default_value("f32")
}

fn every_variant(is: &str) -> Arg {
    let help = format!("Each variant that can run at a size is {is}");
    Arg::new("every-variant").long("every-variant").help(help).action(ArgAction::SetTrue)
}

fn common(command: Command) -> Command {
    let against = option("against", "PEER", "cublas, or none").value_parser(["cublas", "none"]);
    quick_and_json(command.arg(against.default_value("cublas")))
}

fn quick_and_json(command: Command) -> Command {
    command.arg(flag("quick", "Fewer rounds: a first impression")).arg(option(
        "json",
        "FILE",
        "Write the results as JSON",
    ))
}

/// Batch, M, N, K: from `LxMxNxK`, or, where there need be no batch, `n` or `MxNxK`.
pub(crate) fn sizes(texts: &[&str], parts: usize) -> Result<Vec<[i64; 4]>> {
    let one = |text: &&str| {
        let numbers: Option<Vec<i64>> = text
            .split('x')
            .map(|part| part.trim().parse().ok().filter(|n| (1..=1 << 20).contains(n)))
            .collect();
        match (numbers.as_deref(), parts) {
            (Some([n]), 3) => Ok([1, *n, *n, *n]),
            (Some([m, n, k]), 3) => Ok([1, *m, *n, *k]),
            (Some([l, m, n, k]), _) => Ok([*l, *m, *n, *k]),
            (_, 4) => Err(format!("`{text}` is no size; write LxMxNxK, such as 64x128x128x128")),
            _ => Err(format!("`{text}` is no size; write n or MxNxK, such as 4096 or 4096x4096x512")),
        }
    };
    texts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(text: &str, parts: usize, expected: std::result::Result<[i64; 4], &str>) {
        assert_eq!(sizes(&[text], parts).map(|sizes| sizes[0]), expected.map_err(str::to_owned));
    }

    #[test]
    fn sizes_are_read() {
        check_size("1024", 3, Ok([1, 1024, 1024, 1024]));
        check_size("100x77x33", 3, Ok([1, 100, 77, 33]));
        check_size("64x1x2x3", 4, Ok([64, 1, 2, 3]));
        check_size("0", 3, Err("`0` is no size; write n or MxNxK, such as 4096 or 4096x4096x512"));
        check_size("4x4", 3, Err("`4x4` is no size; write n or MxNxK, such as 4096 or 4096x4096x512"));
        check_size("128", 4, Err("`128` is no size; write LxMxNxK, such as 64x128x128x128"));
    }
}
