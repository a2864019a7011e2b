#!/bin/sh
# Runs what exported.sh has put beside it, on a machine with a GPU. Succeeds if everything is right.
cd "$(dirname "$0")" || exit 2
failed=
run() {
    echo "== $*"
    "$@" || failed="$failed $1"
}
for program in matmul_nt product softmax attention mistakes; do run ./check_$program; done
# A copy of this folder may have lost the order of times.
touch lib*.so
PYTHONPATH=$PWD/packages:$PYTHONPATH
export PYTHONPATH
run python3 exported.py
# What a launch from Rust takes, and the exported one, one after another.
if [ -z "$TILEWRIGHT_NVRTC" ]; then
    for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 $(python3 -c 'import sys; print(*[p + "/nvidia/" + c + "/lib" for p in sys.path if p for c in ("cu13", "cuda_nvrtc")])'); do
        [ -z "$TILEWRIGHT_NVRTC" ] && ls "$folder"/libnvrtc.so.1* >/dev/null 2>&1 && TILEWRIGHT_NVRTC=$folder
    done
    export TILEWRIGHT_NVRTC
fi
TILEWRIGHT_CACHE_DIR=${TILEWRIGHT_CACHE_DIR:-$(mktemp -d)}
export TILEWRIGHT_CACHE_DIR
run ./exported bench matmul_nt --size M=2048,N=2048,K=2048
run ./exported bench softmax --size M=16384,N=4096
run ./exported bench attention_hopper --size M=4096,N=4096,L=32
run ./exported bench product --input 'a: bf16 [M=4096, K=4096] normal' --input 'b: bf16 [N=4096, K=4096] normal'
[ -z "$failed" ] || echo "failed:$failed"
[ -z "$failed" ]
