#!/bin/sh
# Exports three kernels for sm_90, and builds programs that check and measure them on a GPU. Needs NVRTC and a C compiler, and no
# GPU:
#
#     bench/gpu/exported.sh FOLDER [path of the command]
#
# Then on a machine with a GPU, in FOLDER: ./matmul_nt && ./product && python3 exported.py
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=$1
command=${2:-"$here/../../target/release/tilewright"}
mkdir -p "$out"
"$command" export tutorial --arch sm_90 --python --out "$out"
"$command" export softmax --arch sm_90 --python --out "$out"
"$command" export matmul name=product dtype=bf16 a=k_major b=k_major c=n_major --arch sm_90 --python --out "$out"
cp "$here/exported.c" "$here/exported.py" "$out"
cd "$out"
# To link with: functions of the driver's names.
names=$(sed -n 's/^int \(cu[A-Za-z0-9_]*\)(.*/\1/p' exported.c matmul_nt.c | sort -u)
for name in $names; do echo "int $name(void) { return 1; }"; done >stub.c
mkdir -p stub
cc -shared -fPIC -Wl,-soname,libcuda.so.1 stub.c -o stub/libcuda.so.1
for kernel in matmul_nt product softmax; do cc -O2 -fPIC -shared $kernel.c -o lib$kernel.so; done
cc -O2 -DKERNEL=matmul_nt '-DHEADER="matmul_nt.h"' -DBF16=0 -DROWS=0 exported.c matmul_nt.c stub/libcuda.so.1 -o matmul_nt
cc -O2 -DKERNEL=product '-DHEADER="product.h"' -DBF16=1 -DROWS=1 exported.c product.c stub/libcuda.so.1 -o product
rm -r stub stub.c
