#!/usr/bin/env bash
# Checks and measures layers on two GPUs, beside PyTorch. Needs the driver, and NVRTC, NCCL and PyTorch as Python packages; the program
# `tilewright-parallel` and parallel.py lie beside this script. Results are printed, and written to $OUT, or ./results.
#
#   ./parallel.sh [check] [bench] [torch] [faults]      without a word: all
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export OUT="${OUT:-$PWD/results}"
mkdir -p "$OUT"
# A folder of one of Python's packages that has this library.
folder_of() {
    python3 - "$1" <<'EOF'
import pathlib, sys
for path in filter(None, sys.path):
    for file in sorted(pathlib.Path(path, "nvidia").glob("*/lib/" + sys.argv[1])):
        print(file.parent)
        sys.exit()
EOF
}
[ -n "${TILEWRIGHT_NCCL:-}" ] || export TILEWRIGHT_NCCL="$(folder_of libnccl.so.2)"
[ -n "${TILEWRIGHT_NVRTC:-}" ] || export TILEWRIGHT_NVRTC="$(folder_of libnvrtc.so.13)"
export LD_LIBRARY_PATH="$TILEWRIGHT_NCCL:$TILEWRIGHT_NVRTC${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export TILEWRIGHT_CACHE_DIR="${TILEWRIGHT_CACHE_DIR:-$(mktemp -d)}"
export NCCL_NVLS_ENABLE=0
nvidia-smi topo -m 2>/dev/null | head -4
rm -f "$OUT"/parallel*.json
part() {
    local name="$1" limit="$2" start=$SECONDS
    shift 2
    echo "==> $name"
    timeout -k 5 "$limit" "$@" 2>&1 | tee "$OUT/$name.log" | cut -c1-400 | tail -n 60
    status=${PIPESTATUS[0]}
    echo "    $name: status $status, $((SECONDS - start)) s"
}
for word in ${*:-check bench torch faults}; do
    case "$word" in
    check)
        part check 120 "$here/tilewright-parallel" check
        # Settings of NCCL under which it works where it does not otherwise. The other parts use them too.
        for setting in NCCL_P2P_DIRECT_DISABLE NCCL_COMM_BLOCKING; do
            [ "$status" != 0 ] || break
            export "$setting=1"
            part "check_$setting" 90 "$here/tilewright-parallel" check
        done
        ;;
    bench) part bench 200 "$here/tilewright-parallel" bench ;;
    torch) part torch 120 python3 "$here/parallel.py" ;;
    faults) part faults 200 "$here/tilewright-parallel" faults "${RUNS:-1000}" "${KILLS:-12}" ;;
    esac
done
python3 "$here/parallel.py" summary | tee "$OUT/summary.log"
