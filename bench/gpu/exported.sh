#!/bin/sh
# Exports four kernels for sm_90, as C, for Python and for Rust, and builds programs that check and measure them on a GPU. Needs
# NVRTC, a C compiler and cargo, and no GPU:
#
#     bench/gpu/exported.sh FOLDER
#
# Then on a machine with a GPU, with PyTorch and NVRTC: FOLDER/run.sh. It has apache-tvm-ffi for Python $PYTHON, 3.12 if that is not set.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
# A program in Rust that embeds the kernels, and launches them from Rust beside that: it has the commands for them, export too.
cp "$here/../../Cargo.lock" "$here/exported/Cargo.lock"
cargo build --manifest-path "$here/exported/Cargo.toml" --target-dir "$here/../../target/exported"
strip -o "$out/exported" "$here/../../target/exported/debug/exported"
for kernel in matmul_nt softmax attention_hopper product; do
    "$out/exported" export $kernel --arch sm_90 --python --out "$out"
    cc -O2 -fPIC -shared -DTILEWRIGHT_TVM_FFI "$out/$kernel.c" -o "$out/lib$kernel.so" -ldl
done
python3 -m pip install -q --no-deps --only-binary=:all: --python-version "${PYTHON:-3.12}" --upgrade --target "$out/packages" apache-tvm-ffi
cp "$here/exported/exported.py" "$here/exported/run.sh" "$out"
cd "$out"
# To link the checks with, which call the driver themselves: functions of the driver's names.
mkdir -p stub
sed -n 's/^int \(cu[A-Za-z0-9_]*\)(.*/int \1(void) { return 1; }/p' "$here/exported/check.h" >stub/stub.c
cc -shared -fPIC -Wl,-soname,libcuda.so.1 stub/stub.c -o stub/libcuda.so.1
check() {
    cc -O2 -Wall -I. "-DKERNEL=$2" "-DHEADER=\"$2.h\"" $4 "$here/exported/check_$3.c" "$2.c" stub/libcuda.so.1 -lm -ldl -o "$1"
}
check check_matmul_nt matmul_nt product '-DBF16=0 -DROWS=0'
check check_product product product '-DBF16=1 -DROWS=1'
check check_softmax softmax softmax ''
check check_attention attention_hopper attention ''
check check_mistakes softmax mistakes ''
rm -r stub
