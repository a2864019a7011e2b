#!/usr/bin/env bash
# Runs what lies beside it on a machine with an NVIDIA GPU. Needs the driver, NVRTC and, for comparisons, cuBLASLt;
# compute-sanitizer and ncu where they are asked for. Results go into $OUT, or ./results; PACK=1 makes them one file,
# results.tar.gz, which is there even if a run is cut short.
#
#   ./run.sh [tests] [sanitize] [sanitize-tests] [bench] [counters]      without a word: tests and bench
#   ./run.sh unpack                                                      only unpacks the programs, beside this script
#
# Without a GPU it says so and succeeds; TILEWRIGHT_REQUIRE_GPU=1 makes that a failure.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
results="${OUT:-$PWD/results}"
failed=()

say() { printf '\n==> %s\n' "$*"; }

# A folder that holds a library, if the loader does not know one: an installed toolkit, or Python's packages.
find_library() {
    local folder known
    known="$(ldconfig -p 2>/dev/null)"
    [[ "$known" == *"$1 "* ]] && return
    for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
        $(python3 -c 'import sys; print(*[p + "/nvidia/cu13/lib" for p in sys.path if p])' 2>/dev/null); do
        [ -e "$folder/$1" ] && { echo "$folder"; return; }
    done
}

# The programs are unpacked beside this script, if one may write there, and again when the archive is another one.
programs="$here"
if [ -e "$here/programs.tar.xz" ]; then
    sum="$(cksum <"$here/programs.tar.xz")"
    if [ "$(cat "$here/.unpacked" 2>/dev/null)" != "$sum" ]; then
        [ -w "$here" ] || programs="$(mktemp -d)"
        tar -xJf "$here/programs.tar.xz" -C "$programs" || exit 1
        echo "$sum" >"$programs/.unpacked"
    fi
fi
[ "$*" != unpack ] || { echo "programs are in $programs"; exit; }
mkdir -p "$results"
[ "${PACK:-0}" = 1 ] && out="$(mktemp -d)" || out="$results"

has_gpu() { [[ "$(nvidia-smi -L 2>/dev/null)" == GPU* ]]; }

if ! has_gpu; then
    echo "skipped: no GPU"
    [ "${TILEWRIGHT_REQUIRE_GPU:-0}" != 1 ]
    exit
fi
export TILEWRIGHT_REQUIRE_GPU=1
[ -n "${TILEWRIGHT_NVRTC:-}" ] || { folder="$(find_library libnvrtc.so.13)"; [ -n "$folder" ] && export TILEWRIGHT_NVRTC="$folder"; }
folder="$(find_library libcublasLt.so.13)"; [ -z "$folder" ] || export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# An empty cache of our own, so that what is measured is what lies here.
export TILEWRIGHT_CACHE_DIR="${TILEWRIGHT_CACHE_DIR:-$(mktemp -d)}"
bench="$programs/tilewright-bench"

pack() {
    [ "$out" = "$results" ] || tar -czf "$results/results.tar.gz" -C "$out" .
}

# Runs a command, shows the end of what it says, keeps all of it, and remembers failures.
logged() {
    local name="$1"
    shift
    say "$name: $*"
    local start=$SECONDS
    if "$@" >"$out/$name.log" 2>&1; then
        tail -n "${LINES_SHOWN:-40}" "$out/$name.log"
        echo "    $name: done in $((SECONDS - start)) s"
    else
        tail -n 80 "$out/$name.log"
        echo "    $name: FAILED in $((SECONDS - start)) s"
        failed+=("$name")
    fi
    pack
}

# Long tests run a share of their cases, other ones each time; TILEWRIGHT_SWEEP=all runs all of them.
tests() {
    export TILEWRIGHT_SWEEP="${TILEWRIGHT_SWEEP:-$(date +%s)}"
    if [ -x "$programs/gpu-tests" ]; then
        logged tests "$programs/gpu-tests" --test-threads="$(nproc)"
    else
        echo "skipped: no tests in this bundle"
    fi
}

sanitizer="$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)"

has_sanitizer() {
    [ -x "$sanitizer" ] && return
    echo "skipped: no compute-sanitizer"
    [ "${TILEWRIGHT_REQUIRE_SANITIZER:-0}" != 1 ] || failed+=(sanitize)
    return 1
}

# Every variant of every shipped kernel, once at each of two sizes, and kernels that are drawn at random. Of what only
# newer architectures execute, racecheck and synccheck know too little.
sanitize() {
    local tool
    has_sanitizer || return
    for tool in memcheck racecheck synccheck; do
        [ "$tool" = memcheck ] && unset TILEWRIGHT_ARCH || export TILEWRIGHT_ARCH=80
        TILEWRIGHT_KERNELS="${TILEWRIGHT_KERNELS:-60}" LINES_SHOWN=4 logged "drawn_$tool" "$sanitizer" --tool "$tool" \
            --error-exitcode 9 "$programs/gpu-tests" drawn::kernels_drawn drawn::kernels_of --test-threads=1
    done
    unset TILEWRIGHT_ARCH
    for tool in memcheck racecheck initcheck synccheck; do
        LINES_SHOWN=4 logged "$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 "$bench" launch --every-variant
    done
}

# All tests again, with every access watched: minutes.
sanitize-tests() {
    has_sanitizer || return
    LINES_SHOWN=4 logged tests_memcheck "$sanitizer" --tool memcheck --error-exitcode 9 "$programs/gpu-tests" --test-threads=1
}

bench() {
    local LINES_SHOWN=400 type
    logged gemm "$bench" gemm --sizes 1024,2048x2048x256,2048,4096,8192 --json "$out/gemm.json"
    logged layouts "$bench" gemm --sizes 1024,2048,4096,8192 --layouts nn,tn,tt --json "$out/layouts.json"
    logged uneven "$bench" gemm --sizes 1000,4095x4097x1023 --layouts nn,nt,tn,tt --json "$out/uneven.json"
    logged batched "$bench" batched --sizes 64x128x128x128,512x64x64x64,64x256x256x256 --json "$out/batched.json"
    logged ladder "$bench" ladder --json "$out/ladder.json"
    for type in f64 bf16 f16 i8; do
        logged "gemm_$type" "$bench" gemm --dtype "$type" --sizes 2048,4096 --quick --json "$out/gemm_$type.json"
    done
    logged jit "$bench" jit --json "$out/jit.json"
}

counters() {
    LINES_SHOWN=400 logged counters python3 "$here/counters.py" --bench "$bench" --out "$out/counters"
}

[ $# -gt 0 ] || set -- tests bench
for word in "$@"; do
    case "$word" in
    tests | sanitize | sanitize-tests | bench | counters) "$word" ;;
    *) echo "error: \`$word\` is none of tests, sanitize, sanitize-tests, bench, counters" >&2; exit 2 ;;
    esac
done
if [ ${#failed[@]} -gt 0 ]; then
    say "failed: ${failed[*]}"
    exit 1
fi
say "all done; results are in $results"
