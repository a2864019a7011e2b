#!/usr/bin/env bash
# Runs what lies beside it on a machine with an NVIDIA GPU. Needs the driver, NVRTC and, for comparisons, cuBLASLt;
# compute-sanitizer and ncu where they are asked for. Results go into $OUT, or ./results.
#
#   ./run.sh [tests] [sanitize] [bench] [counters]      without a word: tests and bench
#
# Without a GPU it says so and succeeds; TILEWRIGHT_REQUIRE_GPU=1 makes that a failure.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
out="${OUT:-$PWD/results}"
mkdir -p "$out"
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

has_gpu() { [[ "$(nvidia-smi -L 2>/dev/null)" == GPU* ]]; }

if ! has_gpu; then
    echo "skipped: no GPU"
    [ "${TILEWRIGHT_REQUIRE_GPU:-0}" != 1 ]
    exit
fi
export TILEWRIGHT_REQUIRE_GPU=1
[ -n "${TILEWRIGHT_NVRTC:-}" ] || { folder="$(find_library libnvrtc.so.13)"; [ -n "$folder" ] && export TILEWRIGHT_NVRTC="$folder"; }
[ -n "${TILEWRIGHT_CUBLASLT:-}" ] || { folder="$(find_library libcublasLt.so.13)"; [ -n "$folder" ] && export TILEWRIGHT_CUBLASLT="$folder"; }
# An empty cache of our own, so that what is measured is what lies here.
export TILEWRIGHT_CACHE_DIR="${TILEWRIGHT_CACHE_DIR:-$(mktemp -d)}"
tilewright="$here/tilewright"

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
}

tests() {
    if [ -x "$here/gpu-tests" ]; then
        logged tests "$here/gpu-tests" --test-threads=4
    else
        echo "skipped: no tests in this bundle"
    fi
}

sanitize() {
    local sanitizer tool
    sanitizer="$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)"
    if [ ! -x "$sanitizer" ]; then
        echo "skipped: no compute-sanitizer"
        [ "${TILEWRIGHT_REQUIRE_SANITIZER:-0}" != 1 ] || failed+=(sanitize)
        return
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        LINES_SHOWN=4 logged "$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 "$tilewright" bench launch --every-variant
    done
}

bench() {
    local LINES_SHOWN=400 type
    logged gemm "$tilewright" bench gemm --sizes 1024,2048x2048x256,2048,4096,8192 --json "$out/gemm.json" --plot "$out/gemm.svg"
    logged layouts "$tilewright" bench gemm --sizes 2048,4096 --layouts nn,tn,tt --json "$out/layouts.json"
    for type in f64 bf16 f16 i8; do
        logged "gemm_$type" "$tilewright" bench gemm --dtype "$type" --sizes 2048,4096 --quick --json "$out/gemm_$type.json"
    done
    logged ladder "$tilewright" bench ladder --json "$out/ladder.json" --plot "$out/ladder.svg"
    logged batched "$tilewright" bench batched --json "$out/batched.json"
    logged jit "$tilewright" bench jit --json "$out/jit.json"
}

counters() {
    LINES_SHOWN=400 logged counters python3 "$here/counters.py" --tilewright "$tilewright" --out "$out/counters"
}

[ $# -gt 0 ] || set -- tests bench
for word in "$@"; do
    case "$word" in
    tests | sanitize | bench | counters) "$word" ;;
    *) echo "error: \`$word\` is none of tests, sanitize, bench, counters" >&2; exit 2 ;;
    esac
done
if [ ${#failed[@]} -gt 0 ]; then
    say "failed: ${failed[*]}"
    exit 1
fi
say "all done; results are in $out"
